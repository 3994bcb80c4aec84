// The ledger's texts.
#include "compiler/Import/Ledger.h"
#include "compiler/Import/Json.h"
#include "llvm/Support/Path.h"
#include <array>

using namespace llvm;

namespace ingot {

StringRef ledgerOutcomeText(LedgerOutcome outcome) {
  static constexpr StringLiteral texts[] = {"consumed", "inert", "waived", "ignored by --ignore-key",
                                            "ignored by --ignore-tensor"};
  return texts[static_cast<size_t>(outcome)];
}

void Ledger::addKey(StringRef file, StringRef key, LedgerOutcome outcome, const Twine &detail) {
  std::string what = (sys::path::filename(file) + ": " + key).str();
  if (seenKeys.insert(what).second)
    keyEntries.push_back({LedgerEntry::Source::Key, std::move(what), outcome, detail.str()});
}

void Ledger::amendKey(StringRef file, StringRef key, const Twine &remark) {
  std::string what = (sys::path::filename(file) + ": " + key).str();
  for (LedgerEntry &entry : keyEntries)
    if (entry.what == what)
      entry.detail += ("; " + remark).str();
}

void Ledger::addTensor(StringRef name, LedgerOutcome outcome, const Twine &detail) {
  tensorEntries.push_back({LedgerEntry::Source::Tensor, ("tensor: " + name).str(), outcome, detail.str()});
}

std::string Ledger::summary() const {
  std::string text;
  auto line = [&](StringRef noun, const std::vector<LedgerEntry> &entries) {
    std::array<size_t, 5> counts{};
    for (const LedgerEntry &entry : entries)
      ++counts[static_cast<size_t>(entry.outcome)];
    text += (Twine(entries.size()) + " " + noun + ":").str();
    bool first = true;
    for (size_t i = 0; i < counts.size(); ++i)
      if (counts[i]) {
        text += (Twine(first ? " " : ", ") + Twine(counts[i]) + " " + ledgerOutcomeText(static_cast<LedgerOutcome>(i)))
                    .str();
        first = false;
      }
    text += first ? " none\n" : "\n";
  };
  line("keys", keyEntries);
  line("tensors", tensorEntries);
  for (const auto *entries : {&keyEntries, &tensorEntries})
    for (const LedgerEntry &entry : *entries)
      if (entry.outcome >= LedgerOutcome::IgnoredKey)
        text += entry.what + " " + ledgerOutcomeText(entry.outcome).str() + " (" + entry.detail + ")\n";
  return text;
}

std::string Ledger::toJsonLines() const {
  std::string text;
  for (const auto *entries : {&keyEntries, &tensorEntries})
    for (const LedgerEntry &entry : *entries) {
      Json object = {
          {"what", entry.what}, {"outcome", ledgerOutcomeText(entry.outcome).str()}, {"detail", entry.detail}};
      text += object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    }
  return text;
}

} // namespace ingot
