// GGUF files as a checkpoint: which files, which names, which order of rows.
#include "compiler/Import/Gguf.h"
#include "compiler/Import/GgufConfig.h"
#include "compiler/Import/InputError.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace ingot;

static Error tensorError(StringRef file, StringRef tensor, const Twine &what) {
  return inputError(file, "tensor " + quote(tensor) + ": " + what);
}

/// Hugging Face's name of a GGUF tensor; the same name where there is none, so
/// that whoever claims tensors reports it.
static std::string huggingFaceName(StringRef stored) {
  static constexpr std::pair<StringLiteral, StringLiteral> whole[] = {
      {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
  static constexpr std::pair<StringLiteral, StringLiteral> ofLayer[] = {
      {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
      {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
      {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
      {"attn_k_norm", "self_attn.k_norm"}, {"ffn_norm", "post_attention_layernorm"},
      {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
      {"ffn_down", "mlp.down_proj"}};
  auto [base, kind] = stored.rsplit('.');
  if (kind != "weight" && kind != "bias")
    return stored.str();
  for (const auto &[from, to] : whole)
    if (base == from)
      return (to + "." + kind).str();
  if (!base.consume_front("blk."))
    return stored.str();
  auto [layer, part] = base.split('.');
  // A canonical number only, so that two stored names never become one.
  if (layer.empty() || !all_of(layer, isDigit) || (layer.size() > 1 && layer[0] == '0'))
    return stored.str();
  for (const auto &[from, to] : ofLayer)
    if (part == from)
      return ("model.layers." + layer + "." + to + "." + kind).str();
  return stored.str();
}

/// The parts of NAME-00001-of-00003.gguf, or nothing if the path does not look
/// so.
struct SplitName {
  StringRef prefix;
  unsigned number, count;

  static std::optional<SplitName> parse(StringRef path) {
    StringRef rest = path;
    SplitName result;
    if (!rest.consume_back(".gguf") || rest.size() < 15)
      return std::nullopt;
    StringRef tail = rest.take_back(15); // "-00001-of-00003"
    result.prefix = rest.drop_back(15);
    if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || !all_of(tail.substr(1, 5), isDigit) ||
        !all_of(tail.substr(10), isDigit))
      return std::nullopt;
    tail.substr(1, 5).getAsInteger(10, result.number);
    tail.substr(10).getAsInteger(10, result.count);
    return result;
  }

  std::string file(unsigned wanted) const {
    std::string text;
    raw_string_ostream(text) << prefix << format("-%05u-of-%05u.gguf", wanted, count);
    return text;
  }
};

/// A key of the split that must be an integer; -1 where it is absent.
static Expected<int64_t> splitKey(const GgufFile &file, StringRef key) {
  const GgufValue *value = file.find(key);
  if (!value)
    return -1;
  std::optional<int64_t> number = value->integer();
  if (!number || *number < 0)
    return inputError(file.file, "key " + quote(key) + " is " + value->describe() + "; expected a count");
  return *number;
}

static Expected<std::pair<std::shared_ptr<MappedFile>, GgufFile>> openFile(StringRef path) {
  Expected<std::shared_ptr<MappedFile>> map = MappedFile::open(path);
  if (!map)
    return map.takeError();
  Expected<GgufFile> file = parseGguf(path, (*map)->text());
  if (!file)
    return file.takeError();
  return std::make_pair(std::move(*map), std::move(*file));
}

/// Opens the files of a split after the first, and checks that they belong
/// together.
static Error openRestOfSplit(StringRef path, std::vector<std::shared_ptr<MappedFile>> &maps,
                             std::vector<GgufFile> &files) {
  Expected<int64_t> count = splitKey(files[0], "split.count"), number = splitKey(files[0], "split.no"),
                    tensors = splitKey(files[0], "split.tensors.count");
  if (!count || !number || !tensors)
    return joinErrors(joinErrors(count.takeError(), number.takeError()), tensors.takeError());
  if (*count > 1) {
    std::optional<SplitName> name = SplitName::parse(path);
    if (!name || int64_t(name->count) != *count)
      return inputError(
          path, "is one of " + Twine(*count) + " files of a split model; expected a name that ends in " + "-00001-of-" +
                    Twine(std::string(5 - std::min<size_t>(5, utostr(*count).size()), '0')) + Twine(*count) + ".gguf");
    if (*number > 0)
      return inputError(path, "is file " + Twine(*number + 1) + " of " + Twine(*count) +
                                  " of a split model; name the first one, " + quote(name->file(1)));
    if (name->number != 1)
      return inputError(path, "its name says file " + Twine(name->number) + " of the split, its key 'split.no' says " +
                                  Twine(*number) + " (counted from 0)");
    for (unsigned i = 2; i <= *count; ++i) {
      auto part = openFile(name->file(i));
      if (!part)
        return part.takeError();
      maps.push_back(std::move(part->first));
      files.push_back(std::move(part->second));
      const GgufFile &file = files.back();
      for (auto [key, expected] : {std::pair<StringRef, int64_t>("split.no", i - 1), {"split.count", *count}}) {
        Expected<int64_t> actual = splitKey(file, key);
        if (!actual)
          return actual.takeError();
        if (*actual != expected)
          return inputError(file.file, "key " + quote(key) + " is " +
                                           (*actual < 0 ? Twine("not there") : Twine(*actual)) + "; expected " +
                                           Twine(expected));
      }
      for (const auto &[key, value] : file.metadata)
        if (!key.starts_with("split.") && !key.starts_with("general."))
          return inputError(file.file, "the metadata key " + quote(key) +
                                           " is in a later file of the split; expected "
                                           "all metadata in the first");
    }
  }
  uint64_t total = 0;
  for (const GgufFile &file : files)
    total += file.tensors.size();
  if (*tensors >= 0 && uint64_t(*tensors) != total)
    return inputError(path, "key 'split.tensors.count' is " + Twine(*tensors) + "; the files of the split hold " +
                                Twine(total) + " tensors");
  return Error::success();
}

Expected<std::unique_ptr<GgufCheckpoint>> GgufCheckpoint::open(StringRef path, ArrayRef<std::string> ignoredKeys) {
  std::unique_ptr<GgufCheckpoint> result(new GgufCheckpoint);
  auto first = openFile(path);
  if (!first)
    return first.takeError();
  result->maps.push_back(std::move(first->first));
  result->files.push_back(std::move(first->second));
  if (Error error = openRestOfSplit(path, result->maps, result->files))
    return std::move(error);
  if (Error error = result->build(ignoredKeys))
    return std::move(error);
  return result;
}

Expected<std::unique_ptr<GgufCheckpoint>> GgufCheckpoint::fromMemory(StringRef file, StringRef bytes,
                                                                     ArrayRef<std::string> ignoredKeys) {
  std::unique_ptr<GgufCheckpoint> result(new GgufCheckpoint);
  Expected<GgufFile> parsed = parseGguf(file, bytes);
  if (!parsed)
    return parsed.takeError();
  result->maps.push_back(nullptr);
  result->files.push_back(std::move(*parsed));
  if (Error error = result->build(ignoredKeys))
    return std::move(error);
  return result;
}

Error GgufCheckpoint::build(ArrayRef<std::string> ignoredKeys) {
  StringMap<const GgufTensor *> byName;
  for (const GgufFile &file : files)
    for (const GgufTensor &tensor : file.tensors)
      if (!byName.try_emplace(tensor.name, &tensor).second)
        return tensorError(file.file, tensor.name, "is also in another file of the split");
  Expected<GgufDescription> description =
      describeGguf(files[0], [&](StringRef tensor) { return byName.lookup(tensor); }, ignoredKeys);
  if (!description)
    return description.takeError();
  configObject = std::move(description->config);
  generationObject = std::move(description->generationConfig);
  tokenizerPart = std::move(description->tokenizer);
  uses = std::move(description->uses);
  name = std::move(description->name);
  licenseText = std::move(description->license);
  return addTensors(description->architecture->permutesQK);
}

Error GgufCheckpoint::addTensors(bool permutesQK) {
  int64_t headDim = configObject["head_dim"].get<int64_t>();
  bool longrope = configObject.contains("rope_scaling") && configObject["rope_scaling"].contains("long_factor");
  for (size_t i = 0; i < files.size(); ++i)
    for (const GgufTensor &tensor : files[i].tensors) {
      // Rotary factors have become part of the config.
      if (tensor.name == "rope_freqs.weight" || (longrope && tensor.name.starts_with("rope_factors_")))
        continue;
      std::string presented = huggingFaceName(tensor.name);
      Place place{tensor.bytes, i, 0};
      StringRef base = presented;
      bool isQ = base.contains(".self_attn.q_proj."), isK = base.contains(".self_attn.k_proj.");
      if (permutesQK && (isQ || isK)) {
        int64_t heads = configObject[isQ ? "num_attention_heads" : "num_key_value_heads"].get<int64_t>();
        std::optional<int64_t> rows = checkedProduct({heads, headDim});
        if (headDim % 2 != 0 || !rows || tensor.shape.front() != *rows || tensor.shape.size() > 2)
          return tensorError(files[i].file, tensor.name,
                             "has the shape " + shapeText(tensor.shape) + "; expected " + Twine(heads) +
                                 " heads of an even number of rows, " + Twine(headDim) + " each");
        place.permutedHeadDim = headDim;
      }
      places.push_back(place);
      if (!addTensor({presented, tensor.name.str(), tensor.dtype, tensor.shape, files[i].file, 0}))
        return tensorError(files[i].file, tensor.name, "becomes " + quote(presented) + ", which is there already");
    }
  return Error::success();
}

void GgufCheckpoint::release(const TensorInfo &tensor) const {
  const Place &place = places[tensor.index];
  if (maps[place.file])
    maps[place.file]->release(place.bytes);
}

/// The stored row (of a vector: element) that is presented as `row` when heads
/// of `headDim` are permuted.
static int64_t storedRow(int64_t row, int64_t headDim) {
  if (headDim == 0)
    return row;
  int64_t within = row % headDim;
  return row - within + 2 * (within % (headDim / 2)) + within / (headDim / 2);
}

Error GgufCheckpoint::convertRows(const TensorInfo &tensor, int64_t firstRow, int64_t rows,
                                  MutableArrayRef<float> dst) const {
  const Place &place = places[tensor.index];
  int64_t size = tensor.rowSize();
  uint64_t perRow = uint64_t(*rowBytes(tensor.dtype, size));
  bool vector = tensor.shape.size() == 1;
  bool fits = true;
  if (!vector && place.permutedHeadDim) {
    for (int64_t i = 0; i < rows; ++i)
      fits &=
          convertToF32(tensor.dtype, place.bytes.slice(storedRow(firstRow + i, place.permutedHeadDim) * perRow, perRow),
                       dst.slice(i * size, size));
  } else {
    fits = convertToF32(tensor.dtype, place.bytes.slice(firstRow * perRow, rows * perRow), dst);
    if (vector && place.permutedHeadDim && rows) {
      std::vector<float> stored(dst.begin(), dst.end());
      for (int64_t i = 0; i < size; ++i)
        dst[i] = stored[storedRow(i, place.permutedHeadDim)];
    }
  }
  if (!fits)
    return tensorError(tensor.file, tensor.storedName, "a value of F64 has no finite float32");
  return Error::success();
}

Error GgufCheckpoint::copyRows(const TensorInfo &tensor, int64_t firstRow, int64_t rows,
                               MutableArrayRef<char> dst) const {
  const Place &place = places[tensor.index];
  if (!place.permutedHeadDim) {
    uint64_t perRow = dst.size() / std::max<uint64_t>(rows, 1);
    std::copy_n(place.bytes.begin() + firstRow * perRow, dst.size(), dst.begin());
    return Error::success();
  }
  // Of a vector the elements are permuted, of a matrix the rows.
  bool vector = tensor.shape.size() == 1;
  if (vector && isQuantized(tensor.dtype))
    return tensorError(tensor.file, tensor.storedName, "a quantized vector has no elements in another order");
  uint64_t unit = vector ? elementKindInfo(tensor.dtype).blockBytes : *rowBytes(tensor.dtype, tensor.rowSize());
  int64_t units = vector ? rows * tensor.rowSize() : rows, first = vector ? firstRow * tensor.rowSize() : firstRow;
  for (int64_t i = 0; i < units; ++i) {
    ArrayRef<char> src = place.bytes.slice(storedRow(first + i, place.permutedHeadDim) * unit, unit);
    std::copy(src.begin(), src.end(), dst.begin() + i * unit);
  }
  return Error::success();
}

std::optional<ArrayRef<char>> GgufCheckpoint::mappedBytes(const TensorInfo &tensor) const {
  const Place &place = places[tensor.index];
  if (place.permutedHeadDim)
    return std::nullopt;
  return place.bytes;
}
