// Safetensors: the header against the bytes, the shards against their index.
#include "compiler/Import/Safetensors.h"
#include "compiler/Import/InputError.h"
#include "compiler/Import/Json.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <algorithm>
#include <tuple>

using namespace llvm;
using namespace ingot;

/// The format's own limit for the header.
static constexpr uint64_t maxHeaderBytes = 100'000'000;

namespace {

/// A tensor of the header, with its place in the data.
struct HeaderEntry {
  std::string name;
  ElementKind dtype;
  SmallVector<int64_t, 4> shape;
  uint64_t begin, end;
};

} // namespace

static Error entryError(StringRef file, StringRef tensor, const Twine &what) {
  return inputError(file, "tensor " + quote(tensor) + ": " + what);
}

/// A JSON value as a message shows it, short.
static std::string jsonText(const Json &value) {
  return value.is_structured() ? std::string(value.type_name()) + " of " + std::to_string(value.size())
                               : quote(value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

/// The value of data_offsets: with its numbers where there are two.
static std::string offsetsText(const Json &value) {
  if (!value.is_array() || value.size() != 2 || value[0].is_structured() || value[1].is_structured())
    return jsonText(value);
  return "[" + jsonText(value[0]) + ", " + jsonText(value[1]) + "]";
}

/// The shape of an entry: an array of integers from 0 on.
static Error readShape(StringRef file, HeaderEntry &entry, const Json &shape) {
  if (!shape.is_array())
    return entryError(file, entry.name, "its shape is " + jsonText(shape) + "; expected an array");
  for (const Json &dimension : shape) {
    if (!dimension.is_number_unsigned() || dimension.get<uint64_t>() > uint64_t(INT64_MAX))
      return entryError(file, entry.name,
                        "a dimension is " + jsonText(dimension) + "; expected an integer from 0 to 2^63 - 1");
    entry.shape.push_back(int64_t(dimension.get<uint64_t>()));
  }
  return Error::success();
}

/// One member of the header, except __metadata__: its three keys, and the
/// offsets against shape and dtype.
static Expected<HeaderEntry> readEntry(StringRef file, const std::string &name, const Json &value) {
  HeaderEntry entry{name, ElementKind::F32, {}, 0, 0};
  if (!value.is_object())
    return entryError(file, name, "its entry is " + jsonText(value) + "; expected an object");
  const Json *dtype = nullptr, *shape = nullptr, *offsets = nullptr;
  for (const auto &item : value.items()) {
    if (item.key() == "dtype")
      dtype = &item.value();
    else if (item.key() == "shape")
      shape = &item.value();
    else if (item.key() == "data_offsets")
      offsets = &item.value();
    else
      return entryError(file, name, "unknown key " + quote(item.key()) + "; expected dtype, shape and data_offsets");
  }
  if (!dtype || !shape || !offsets)
    return entryError(file, name, !dtype ? "has no dtype" : !shape ? "has no shape" : "has no data_offsets");
  if (!dtype->is_string())
    return entryError(file, name, "its dtype is " + jsonText(*dtype) + "; expected a string");
  StringRef dtypeName = dtype->get_ref<const std::string &>();
  std::optional<ElementKind> kind = elementKindOfSafetensors(dtypeName);
  if (!kind)
    return entryError(file, name,
                      "dtype " + quote(dtypeName) +
                          " is not supported; expected F64, F32, F16, BF16, "
                          "F8_E4M3, F8_E5M2, an integer "
                          "of 8 to 64 bits or BOOL");
  entry.dtype = *kind;
  if (Error error = readShape(file, entry, *shape))
    return std::move(error);
  if (!offsets->is_array() || offsets->size() != 2 || !(*offsets)[0].is_number_unsigned() ||
      !(*offsets)[1].is_number_unsigned())
    return entryError(file, name,
                      "its data_offsets are " + offsetsText(*offsets) + "; expected two integers from 0 to 2^64 - 1");
  entry.begin = (*offsets)[0].get<uint64_t>();
  entry.end = (*offsets)[1].get<uint64_t>();
  std::string place = "data_offsets [" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + "]";
  if (entry.begin > entry.end)
    return entryError(file, name, place + " end before they begin");
  std::optional<int64_t> elements = checkedProduct(entry.shape);
  std::optional<int64_t> bytes = elements ? rowBytes(*kind, *elements) : std::nullopt;
  if (!bytes)
    return entryError(file, name, "shape " + shapeText(entry.shape) + " of " + dtypeName + " overflows 63 bits");
  if (entry.end - entry.begin != uint64_t(*bytes))
    return entryError(file, name,
                      place + " hold " + Twine(entry.end - entry.begin) + " bytes; expected " + Twine(*bytes) +
                          " for " + dtypeName + " of shape " + shapeText(entry.shape));
  return entry;
}

/// __metadata__ is an object of strings; nothing in it changes what the tensors
/// mean.
static Error checkMetadata(StringRef file, const Json &metadata) {
  if (!metadata.is_object())
    return inputError(file, "__metadata__ is " + jsonText(metadata) + "; expected an object of strings");
  for (const auto &item : metadata.items())
    if (!item.value().is_string())
      return inputError(file, "__metadata__ key " + quote(item.key()) + " is " + jsonText(item.value()) +
                                  "; expected a string");
  return Error::success();
}

/// The tensors must cover the `available` bytes of data from the first to the
/// last, each byte once.
static Error checkCover(StringRef file, std::vector<HeaderEntry> &entries, uint64_t available) {
  llvm::sort(entries, [](const HeaderEntry &a, const HeaderEntry &b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t end = 0;
  const HeaderEntry *last = nullptr;
  for (const HeaderEntry &entry : entries) {
    if (entry.begin < end)
      return entryError(file, entry.name,
                        "its data overlap those of " + quote(last->name) + ": they begin at " + Twine(entry.begin) +
                            ", the other's end at " + Twine(end));
    if (entry.begin > end)
      return entryError(file, entry.name,
                        "a hole of " + Twine(entry.begin - end) + " bytes lies before its data: they begin at " +
                            Twine(entry.begin) + "; expected " + Twine(end));
    end = entry.end;
    last = &entry;
  }
  if (end > available)
    return inputError(file, "is truncated: it has " + Twine(available) + " bytes of data; expected " + Twine(end) +
                                " (tensor " + quote(last->name) + " ends there)");
  if (end < available)
    return inputError(file, Twine(available - end) + " trailing bytes after the last tensor: it has " +
                                Twine(available) + " bytes of data; expected " + Twine(end));
  return Error::success();
}

Expected<std::vector<SafetensorsEntry>> ingot::parseSafetensors(StringRef file, ArrayRef<char> bytes) {
  if (Error error = checkForStandIn(file, StringRef(bytes.data(), bytes.size())))
    return std::move(error);
  if (bytes.size() < 8)
    return inputError(file,
                      "is truncated: it has " + Twine(bytes.size()) + " bytes; a safetensors file has 8 at least");
  if (StringRef(bytes.data(), 4) == "GGUF")
    return inputError(file, "is a GGUF file, not safetensors; name it on the "
                            "command line instead of the directory");
  uint64_t headerBytes = support::endian::read64le(bytes.data());
  if (headerBytes > maxHeaderBytes)
    return inputError(file, "is no safetensors file: the header's length is " + Twine(headerBytes) +
                                "; expected at most " + Twine(maxHeaderBytes));
  if (headerBytes > bytes.size() - 8)
    return inputError(file, "is truncated: the header's length is " + Twine(headerBytes) + "; " +
                                Twine(bytes.size() - 8) + " bytes follow it");
  StringRef headerText(bytes.data() + 8, headerBytes);
  if (!headerText.starts_with("{"))
    return inputError(file, "is no safetensors file: the header does not begin with '{'");
  Expected<Json> header = parseJson(headerText, (file + " (header)").str());
  if (!header)
    return header.takeError();
  std::vector<HeaderEntry> entries;
  entries.reserve(header->size());
  for (const auto &item : header->items()) {
    if (item.key() == "__metadata__") {
      if (Error error = checkMetadata(file, item.value()))
        return std::move(error);
      continue;
    }
    Expected<HeaderEntry> entry = readEntry(file, item.key(), item.value());
    if (!entry)
      return entry.takeError();
    entries.push_back(std::move(*entry));
  }
  ArrayRef<char> data = bytes.drop_front(8 + headerBytes);
  if (Error error = checkCover(file, entries, data.size()))
    return std::move(error);
  std::vector<SafetensorsEntry> result;
  result.reserve(entries.size());
  for (HeaderEntry &entry : entries)
    result.push_back(
        {std::move(entry.name), entry.dtype, std::move(entry.shape), data.slice(entry.begin, entry.end - entry.begin)});
  return result;
}

Error SafetensorsCheckpoint::addFile(StringRef path) {
  Expected<std::shared_ptr<MappedFile>> map = MappedFile::open(path);
  if (!map)
    return map.takeError();
  Expected<std::vector<SafetensorsEntry>> entries = parseSafetensors(path, (*map)->bytes());
  if (!entries)
    return entries.takeError();
  files.push_back(std::move(*map));
  for (SafetensorsEntry &entry : *entries) {
    if (const TensorInfo *other = find(entry.name))
      return entryError(path, entry.name, "is also in " + quote(other->file));
    places.push_back({entry.bytes, files.size() - 1});
    addTensor({entry.name, entry.name, entry.dtype, std::move(entry.shape), path.str(), 0});
  }
  return Error::success();
}

Expected<std::unique_ptr<SafetensorsCheckpoint>> SafetensorsCheckpoint::open(StringRef path) {
  std::unique_ptr<SafetensorsCheckpoint> result(new SafetensorsCheckpoint);
  if (Error error = result->addFile(path))
    return std::move(error);
  return result;
}

/// A shard's name in an index must stay inside the index's directory.
static Error checkShardName(StringRef index, StringRef tensor, StringRef shard) {
  bool control = llvm::any_of(shard, [](unsigned char c) { return c < 0x20; });
  if (shard.empty() || sys::path::is_absolute(shard) || control)
    return entryError(index, tensor, "names the file " + quote(shard) + "; expected a path relative to the index");
  for (auto it = sys::path::begin(shard), end = sys::path::end(shard); it != end; ++it)
    if (*it == "..")
      return entryError(index, tensor, "names the file " + quote(shard) + "; a path with '..' is not followed");
  return Error::success();
}

/// metadata.total_size, where it is there, counts the bytes of all tensors.
/// Some writers store it as a float.
static Error checkTotalSize(StringRef path, const Json &index, uint64_t actual) {
  auto metadata = index.find("metadata");
  if (metadata == index.end() || !metadata->is_object())
    return Error::success();
  auto size = metadata->find("total_size");
  if (size == metadata->end())
    return Error::success();
  bool same = size->is_number_unsigned() ? size->get<uint64_t>() == actual
                                         : size->is_number_float() && size->get<double>() == double(actual);
  if (!same)
    return inputError(path, "metadata.total_size is " + jsonText(*size) + "; the tensors of all shards have " +
                                Twine(actual) + " bytes");
  return Error::success();
}

Expected<std::unique_ptr<SafetensorsCheckpoint>> SafetensorsCheckpoint::openIndex(StringRef path) {
  Expected<Json> index = readJsonFile(path);
  if (!index)
    return index.takeError();
  if (!index->is_object())
    return inputError(path, "is " + jsonText(*index) + "; expected an object with weight_map");
  auto map = index->find("weight_map");
  if (map == index->end() || !map->is_object() || map->empty())
    return inputError(path, "has no weight_map with entries; expected an "
                            "object: tensor name -> file name");
  StringMap<StringRef> shardOf;
  std::vector<std::string> shards;
  StringSet<> known;
  for (const auto &item : map->items()) {
    if (!item.value().is_string())
      return entryError(path, item.key(), "maps to " + jsonText(item.value()) + "; expected a file name");
    StringRef shard = item.value().get_ref<const std::string &>();
    if (Error error = checkShardName(path, item.key(), shard))
      return std::move(error);
    shardOf[item.key()] = shard;
    if (known.insert(shard).second)
      shards.push_back(shard.str());
  }
  std::unique_ptr<SafetensorsCheckpoint> result(new SafetensorsCheckpoint);
  uint64_t bytes = 0;
  for (const std::string &shard : shards) {
    SmallString<256> file(sys::path::parent_path(path));
    sys::path::append(file, shard);
    if (!sys::fs::exists(file))
      return inputError(path, "names the shard " + quote(shard) + ", which is not there; download all " +
                                  Twine(shards.size()) + " files that the index names");
    size_t before = result->tensors().size();
    if (Error error = result->addFile(file))
      return std::move(error);
    for (const TensorInfo &tensor : result->tensors().drop_front(before)) {
      bytes += result->places[tensor.index].bytes.size();
      auto entry = shardOf.find(tensor.name);
      if (entry == shardOf.end())
        return entryError(file, tensor.name, "is not in the weight_map of " + quote(path));
      if (entry->second != shard)
        return entryError(file, tensor.name,
                          "is in this file; the weight_map of " + quote(path) + " says " + quote(entry->second));
    }
  }
  for (const auto &item : map->items())
    if (!result->find(item.key()))
      return entryError(path, item.key(),
                        "is not in the file that the weight_map names, " + quote(shardOf[item.key()]));
  if (Error error = checkTotalSize(path, *index, bytes))
    return std::move(error);
  return result;
}

void SafetensorsCheckpoint::release(const TensorInfo &tensor) const {
  const Place &place = places[tensor.index];
  files[place.file]->release(place.bytes);
}

/// The bytes of some rows of a tensor without blocks.
static ArrayRef<char> rowsOf(ArrayRef<char> bytes, const TensorInfo &tensor, int64_t firstRow, int64_t rows) {
  uint64_t perRow = uint64_t(tensor.rowSize()) * elementKindInfo(tensor.dtype).blockBytes;
  return bytes.slice(firstRow * perRow, rows * perRow);
}

Error SafetensorsCheckpoint::convertRows(const TensorInfo &tensor, int64_t firstRow, int64_t rows,
                                         MutableArrayRef<float> dst) const {
  if (!convertToF32(tensor.dtype, rowsOf(places[tensor.index].bytes, tensor, firstRow, rows), dst))
    return entryError(tensor.file, tensor.name, "a value of F64 has no finite float32");
  return Error::success();
}

Error SafetensorsCheckpoint::copyRows(const TensorInfo &tensor, int64_t firstRow, int64_t rows,
                                      MutableArrayRef<char> dst) const {
  ArrayRef<char> src = rowsOf(places[tensor.index].bytes, tensor, firstRow, rows);
  std::copy(src.begin(), src.end(), dst.begin());
  return Error::success();
}

std::optional<ArrayRef<char>> SafetensorsCheckpoint::mappedBytes(const TensorInfo &tensor) const {
  return places[tensor.index].bytes;
}
