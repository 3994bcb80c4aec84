//===- Image.cpp - The payload's tables: generation defaults, ledger, arena
// plan, selftest ------------------------===//

#include "compiler/Target/Image.h"
#include "ingot_rt/image.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace ingot {

namespace {

/// Appends plain values and arrays to a section.
class SectionWriter {
public:
  template <typename T>
  void add(const T &value) {
    bytes.append(reinterpret_cast<const char *>(&value), sizeof(T));
  }
  template <typename T>
  void addAll(const std::vector<T> &values) {
    bytes.append(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T));
  }
  size_t size() const { return bytes.size(); }
  std::string take() { return std::move(bytes); }

private:
  std::string bytes;
};

/// The texts of a section, which follow its tables: equal ones are stored once.
class TextPool {
public:
  explicit TextPool(uint64_t start) : start(start) {}
  /// The offset of `text` from the section's start.
  uint64_t add(llvm::StringRef text) {
    auto [entry, isNew] = offsets.try_emplace(text, start + texts.size());
    if (isNew) {
      texts.append(text.data(), text.size());
      texts.push_back('\0');
    }
    return entry->second;
  }
  const std::string &getTexts() const { return texts; }

private:
  uint64_t start;
  std::string texts;
  llvm::StringMap<uint64_t> offsets;
};

} // namespace

std::string makeGenerationSection(const GenerationDefaults &defaults) {
  ingot_rt_generation_defaults fields = {};
  fields.size = sizeof(fields);
  fields.present = defaults.present;
  fields.do_sample = defaults.doSample;
  fields.temperature = defaults.temperature;
  fields.top_p = defaults.topP;
  fields.min_p = defaults.minP;
  fields.repetition_penalty = defaults.repetitionPenalty;
  fields.top_k = defaults.topK;
  fields.max_new_tokens = defaults.maxNewTokens;
  fields.max_length = defaults.maxLength;
  fields.bos = defaults.bos;
  fields.pad = defaults.pad;
  fields.eos_count = defaults.eos.size();
  SectionWriter writer;
  writer.add(fields);
  writer.addAll(defaults.eos);
  return writer.take();
}

std::string makeLedgerSection(const Ledger &ledger) {
  uint64_t count = ledger.keys().size() + ledger.tensors().size();
  TextPool texts(sizeof(ingot_rt_ledger) + count * sizeof(ingot_rt_ledger_entry));
  SectionWriter writer;
  writer.add(ingot_rt_ledger{texts.add(ledger.summary()), count});
  for (const std::vector<LedgerEntry> *entries : {&ledger.keys(), &ledger.tensors()})
    for (const LedgerEntry &entry : *entries)
      writer.add(ingot_rt_ledger_entry{texts.add(entry.what), texts.add(ledgerOutcomeText(entry.outcome)),
                                       texts.add(entry.detail)});
  return writer.take() + texts.getTexts();
}

std::string makeArenaPlanSection(ModuleOp module) {
  auto plan = module->getAttrOfType<ArrayAttr>("ingot.arena_plan");
  uint64_t count = plan ? plan.size() : 0;
  TextPool texts(sizeof(ingot_rt_arena_plan) + count * sizeof(ingot_rt_arena_buffer));
  SectionWriter writer;
  writer.add(ingot_rt_arena_plan{count});
  if (plan)
    for (auto row : plan.getAsRange<DictionaryAttr>()) {
      auto number = [&](llvm::StringRef key) -> uint64_t {
        auto value = row.getAs<IntegerAttr>(key);
        return value ? value.getInt() : 0;
      };
      writer.add(ingot_rt_arena_buffer{texts.add(row.getAs<StringAttr>("name").getValue()), number("unit"),
                                       number("bytes"), number("offset"), number("first_op"), number("last_op")});
    }
  return writer.take() + texts.getTexts();
}

std::string makeSelftestSection(const SelftestReference &reference) {
  ingot_rt_selftest fields = {};
  fields.token_count = static_cast<uint32_t>(reference.tokens.size());
  fields.row_count = static_cast<uint32_t>(reference.rows.size());
  fields.ids_per_row = reference.idsPerRow;
  fields.tolerance = reference.tolerance;
  fields.largest = reference.largest;
  size_t tables = sizeof(fields) + 4 * (reference.tokens.size() + reference.rows.size() + reference.ids.size() +
                                        reference.values.size());
  if (!reference.reason.empty())
    fields.reason = static_cast<uint32_t>(tables);
  SectionWriter writer;
  writer.add(fields);
  writer.addAll(reference.tokens);
  writer.addAll(reference.rows);
  writer.addAll(reference.ids);
  writer.addAll(reference.values);
  return writer.take() + reference.reason + std::string(1, '\0');
}

} // namespace ingot
