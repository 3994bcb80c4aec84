// The GGUF container. Every length and offset of the file is compared with the
// bytes that are there before it is used.
#include "compiler/Import/GgufFile.h"
#include "compiler/Import/InputError.h"
#include "compiler/Import/MappedFile.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Endian.h"
#include <algorithm>

using namespace llvm;
using namespace ingot;

StringRef ingot::ggufTypeName(GgufType type) {
  static constexpr StringLiteral names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                            "bool", "string", "array", "u64", "i64", "f64"};
  return names[static_cast<unsigned>(type)];
}

/// The bytes of a fixed-size type; of a string the least (its length), of an
/// array 0.
static uint64_t sizeOf(GgufType type) {
  static constexpr uint64_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8};
  return sizes[static_cast<unsigned>(type)];
}

/// An integer of the file, if `type` is one and it fits.
static std::optional<int64_t> integerAt(GgufType type, const char *p) {
  using namespace support::endian;
  switch (type) {
  case GgufType::U8:
    return uint8_t(*p);
  case GgufType::I8:
    return int8_t(*p);
  case GgufType::U16:
    return read16le(p);
  case GgufType::I16:
    return int16_t(read16le(p));
  case GgufType::U32:
    return read32le(p);
  case GgufType::I32:
    return int32_t(read32le(p));
  case GgufType::U64:
    if (read64le(p) > uint64_t(INT64_MAX))
      return std::nullopt;
    return int64_t(read64le(p));
  case GgufType::I64:
    return int64_t(read64le(p));
  default:
    return std::nullopt;
  }
}

static std::optional<double> numberAt(GgufType type, const char *p) {
  if (type == GgufType::F32)
    return llvm::bit_cast<float>(support::endian::read32le(p));
  if (type == GgufType::F64)
    return llvm::bit_cast<double>(support::endian::read64le(p));
  if (std::optional<int64_t> value = integerAt(type, p))
    return double(*value);
  return std::nullopt;
}

std::optional<int64_t> GgufValue::integer() const { return integerAt(valueType, data.data()); }

std::optional<double> GgufValue::number() const { return numberAt(valueType, data.data()); }

std::optional<bool> GgufValue::boolean() const {
  if (valueType != GgufType::Bool)
    return std::nullopt;
  return data[0] != 0;
}

std::optional<StringRef> GgufValue::string() const {
  if (valueType != GgufType::String)
    return std::nullopt;
  return data;
}

std::optional<StringRef> GgufValue::bytes() const {
  if (!isArray() || sizeOf(arrayType) != 1 || arrayType == GgufType::Bool)
    return std::nullopt;
  return data;
}

std::optional<std::vector<int64_t>> GgufValue::integers() const {
  if (!isArray())
    return std::nullopt;
  std::vector<int64_t> result;
  for (uint64_t i = 0; i < count; ++i) {
    std::optional<int64_t> value = integerAt(arrayType, data.data() + i * sizeOf(arrayType));
    if (!value)
      return std::nullopt;
    result.push_back(*value);
  }
  return result;
}

std::optional<std::vector<double>> GgufValue::numbers() const {
  if (!isArray())
    return std::nullopt;
  std::vector<double> result;
  for (uint64_t i = 0; i < count; ++i) {
    std::optional<double> value = numberAt(arrayType, data.data() + i * sizeOf(arrayType));
    if (!value)
      return std::nullopt;
    result.push_back(*value);
  }
  return result;
}

std::optional<std::vector<StringRef>> GgufValue::strings() const {
  if (!isArray() || arrayType != GgufType::String)
    return std::nullopt;
  std::vector<StringRef> result;
  result.reserve(count);
  StringRef rest = data;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t length = support::endian::read64le(rest.data());
    result.push_back(rest.substr(8, length));
    rest = rest.drop_front(8 + length);
  }
  return result;
}

std::string GgufValue::describe() const {
  std::string type = ggufTypeName(valueType).str();
  if (isArray())
    return "array of " + std::to_string(count) + " " + ggufTypeName(arrayType).str();
  if (valueType == GgufType::String)
    return "string " + quote(data);
  if (valueType == GgufType::Bool)
    return data[0] ? "bool true" : "bool false";
  if (valueType == GgufType::U64 && !integer())
    return type + " " + std::to_string(support::endian::read64le(data.data()));
  if (std::optional<int64_t> value = integer())
    return type + " " + std::to_string(*value);
  return type + " " + std::to_string(*number());
}

const GgufValue *GgufFile::find(StringRef key) const {
  auto it = byKey.find(key);
  return it == byKey.end() ? nullptr : &metadata[it->second].second;
}

/// What a tensor type of ggml is: its name, and the kind if it is supported.
struct GgmlType {
  uint32_t number;
  StringLiteral name;
  std::optional<ElementKind> kind;
};

static const GgmlType *ggmlType(uint32_t number) {
  using K = ElementKind;
  static constexpr GgmlType types[] = {
      {0, "F32", K::F32},    {1, "F16", K::F16},         {2, "Q4_0", K::Q4_0},  {3, "Q4_1", K::Q4_1},
      {6, "Q5_0", K::Q5_0},  {7, "Q5_1", K::Q5_1},       {8, "Q8_0", K::Q8_0},  {9, "Q8_1", std::nullopt},
      {10, "Q2_K", K::Q2_K}, {11, "Q3_K", K::Q3_K},      {12, "Q4_K", K::Q4_K}, {13, "Q5_K", K::Q5_K},
      {14, "Q6_K", K::Q6_K}, {15, "Q8_K", std::nullopt}, {16, "IQ2_XXS", {}},   {17, "IQ2_XS", {}},
      {18, "IQ3_XXS", {}},   {19, "IQ1_S", {}},          {20, "IQ4_NL", {}},    {21, "IQ3_S", {}},
      {22, "IQ2_S", {}},     {23, "IQ4_XS", {}},         {24, "I8", K::I8},     {25, "I16", K::I16},
      {26, "I32", K::I32},   {27, "I64", K::I64},        {28, "F64", K::F64},   {29, "IQ1_M", {}},
      {30, "BF16", K::BF16}, {34, "TQ1_0", {}},          {35, "TQ2_0", {}},     {39, "MXFP4", {}},
  };
  const GgmlType *found = llvm::find_if(types, [&](const GgmlType &type) { return type.number == number; });
  return found == std::end(types) ? nullptr : found;
}

namespace ingot {

/// Reads the file from front to back. A failing step returns an error that says
/// where.
class GgufParser {
public:
  GgufParser(StringRef file, StringRef bytes) : bytes(bytes) { result.file = file.str(); }

  Expected<GgufFile> run();

private:
  Error fail(const Twine &what) const { return inputError(result.file, what); }
  uint64_t remaining() const { return bytes.size() - at; }

  /// The next `size` bytes; `what` is named when the file ends before them.
  Expected<StringRef> take(uint64_t size, const Twine &what) {
    if (size > remaining())
      return fail("is truncated: " + what + " needs " + Twine(size) + " bytes at " + Twine(at) + "; " +
                  Twine(remaining()) + " are left");
    StringRef part = bytes.substr(at, size);
    at += size;
    return part;
  }

  template <typename T>
  Expected<T> takeInteger(const Twine &what) {
    Expected<StringRef> part = take(sizeof(T), what);
    if (!part)
      return part.takeError();
    return support::endian::read<T, endianness::little>(part->data());
  }

  Expected<StringRef> takeString(const Twine &what) {
    Expected<uint64_t> length = takeInteger<uint64_t>("the length of " + what);
    if (!length)
      return length.takeError();
    return take(*length, what);
  }

  Error header();
  Error oneKey();
  Expected<GgufType> takeType(const Twine &what);
  Error takeScalar(StringRef key, GgufValue &value);
  Error takeArray(StringRef key, GgufValue &value);
  Error readAlignment();
  Error oneTensor();
  Error placeTensors();

  StringRef bytes;
  uint64_t at = 0;
  uint64_t tensorCount = 0, keyCount = 0;
  /// Offset of each tensor in the data, and its size.
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  StringSet<> tensorNames;
  GgufFile result;
};

} // namespace ingot

Error GgufParser::header() {
  if (Error error = checkForStandIn(result.file, bytes))
    return error;
  if (!bytes.starts_with("GGUF"))
    return fail("is no GGUF file: it begins with " + quote(bytes.substr(0, 4)) + "; expected 'GGUF'");
  at = 4;
  Expected<uint32_t> version = takeInteger<uint32_t>("the version");
  if (!version)
    return version.takeError();
  result.version = *version;
  if (result.version != 2 && result.version != 3) {
    uint32_t swapped = llvm::byteswap(result.version);
    if (swapped == 2 || swapped == 3)
      return fail("is a big-endian GGUF file, which is not supported; convert "
                  "it to little-endian");
    return fail("is of GGUF version " + Twine(result.version) + "; expected 2 or 3");
  }
  Expected<uint64_t> tensors = takeInteger<uint64_t>("the number of tensors");
  if (!tensors)
    return tensors.takeError();
  Expected<uint64_t> keys = takeInteger<uint64_t>("the number of metadata keys");
  if (!keys)
    return keys.takeError();
  tensorCount = *tensors;
  keyCount = *keys;
  // A key takes 13 bytes at least, a tensor 32: counts beyond that cannot be
  // true, and nothing is allocated for them.
  if (keyCount > remaining() / 13)
    return fail("the number of metadata keys is " + Twine(keyCount) + "; the " + Twine(remaining()) +
                " bytes that follow hold at most " + Twine(remaining() / 13));
  if (tensorCount > remaining() / 32)
    return fail("the number of tensors is " + Twine(tensorCount) + "; the " + Twine(remaining()) +
                " bytes that follow hold at most " + Twine(remaining() / 32));
  return Error::success();
}

Expected<GgufType> GgufParser::takeType(const Twine &what) {
  Expected<uint32_t> type = takeInteger<uint32_t>(what);
  if (!type)
    return type.takeError();
  if (*type > uint32_t(GgufType::F64))
    return fail(what + " is " + Twine(*type) + "; expected 0 to " + Twine(uint32_t(GgufType::F64)));
  return GgufType(*type);
}

Error GgufParser::takeScalar(StringRef key, GgufValue &value) {
  if (value.valueType == GgufType::String) {
    Expected<StringRef> text = takeString("the value of key " + quote(key));
    if (!text)
      return text.takeError();
    value.data = *text;
    return Error::success();
  }
  Expected<StringRef> part = take(sizeOf(value.valueType), "the value of key " + quote(key));
  if (!part)
    return part.takeError();
  value.data = *part;
  if (value.valueType == GgufType::Bool && uint8_t(value.data[0]) > 1)
    return fail("key " + quote(key) + ": a bool is " + Twine(unsigned(uint8_t(value.data[0]))) + "; expected 0 or 1");
  return Error::success();
}

Error GgufParser::takeArray(StringRef key, GgufValue &value) {
  Expected<GgufType> element = takeType("key " + quote(key) + ": the type of the array's elements");
  if (!element)
    return element.takeError();
  if (*element == GgufType::Array)
    return fail("key " + quote(key) + ": an array of arrays is not supported");
  Expected<uint64_t> count = takeInteger<uint64_t>("the length of the array of key " + quote(key));
  if (!count)
    return count.takeError();
  value.arrayType = *element;
  value.count = *count;
  uint64_t size = sizeOf(*element);
  if (*count > remaining() / size)
    return fail("is truncated: key " + quote(key) + " is an array of " + Twine(*count) + " " + ggufTypeName(*element) +
                ", at least " + Twine(size) + " bytes each; " + Twine(remaining()) + " bytes are left");
  uint64_t begin = at;
  if (*element == GgufType::String) {
    std::string what = "a string of the array of key " + quote(key);
    for (uint64_t i = 0; i < *count; ++i)
      if (Expected<StringRef> text = takeString(what); !text)
        return text.takeError();
  } else {
    at += *count * size;
  }
  value.data = bytes.substr(begin, at - begin);
  if (*element == GgufType::Bool)
    for (char c : value.data)
      if (uint8_t(c) > 1)
        return fail("key " + quote(key) + ": a bool is " + Twine(unsigned(uint8_t(c))) + "; expected 0 or 1");
  return Error::success();
}

Error GgufParser::oneKey() {
  Expected<StringRef> key = takeString("metadata key " + Twine(result.metadata.size()));
  if (!key)
    return key.takeError();
  if (key->empty())
    return fail("metadata key " + Twine(result.metadata.size()) + " is empty");
  Expected<GgufType> type = takeType("key " + quote(*key) + ": the type");
  if (!type)
    return type.takeError();
  GgufValue value;
  value.valueType = *type;
  if (Error error = value.isArray() ? takeArray(*key, value) : takeScalar(*key, value))
    return error;
  if (!result.byKey.try_emplace(*key, result.metadata.size()).second)
    return fail("the metadata key " + quote(*key) + " is there twice");
  result.metadata.emplace_back(*key, value);
  return Error::success();
}

Error GgufParser::readAlignment() {
  const GgufValue *value = result.find("general.alignment");
  if (!value)
    return Error::success();
  std::optional<int64_t> alignment = value->integer();
  if (!alignment || *alignment <= 0 || (*alignment & (*alignment - 1)) != 0 || *alignment > 1 << 30)
    return fail("general.alignment is " + value->describe() + "; expected a power of two up to 2^30");
  result.alignment = uint64_t(*alignment);
  return Error::success();
}

Error GgufParser::oneTensor() {
  Expected<StringRef> name = takeString("the name of tensor " + Twine(result.tensors.size()));
  if (!name)
    return name.takeError();
  std::string what = "tensor " + quote(*name);
  if (!tensorNames.insert(*name).second)
    return fail(what + " is there twice");
  Expected<uint32_t> rank = takeInteger<uint32_t>(what + ": the number of dimensions");
  if (!rank)
    return rank.takeError();
  if (*rank < 1 || *rank > 4)
    return fail(what + ": the number of dimensions is " + Twine(*rank) + "; expected 1 to 4");
  GgufTensor tensor;
  tensor.name = *name;
  for (uint32_t i = 0; i < *rank; ++i) {
    Expected<uint64_t> dimension = takeInteger<uint64_t>(what + ": a dimension");
    if (!dimension)
      return dimension.takeError();
    if (*dimension < 1 || *dimension > uint64_t(INT64_MAX))
      return fail(what + ": a dimension is " + Twine(*dimension) + "; expected 1 to 2^63 - 1");
    tensor.shape.insert(tensor.shape.begin(), int64_t(*dimension));
  }
  Expected<uint32_t> typeNumber = takeInteger<uint32_t>(what + ": the type");
  if (!typeNumber)
    return typeNumber.takeError();
  const GgmlType *type = ggmlType(*typeNumber);
  if (!type || !type->kind)
    return fail(what + ": the type " + (type ? type->name.str() : "number " + std::to_string(*typeNumber)) +
                " is not supported; expected F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, "
                "Q5_1 or Q2_K to Q6_K");
  tensor.dtype = *type->kind;
  Expected<uint64_t> offset = takeInteger<uint64_t>(what + ": the offset");
  if (!offset)
    return offset.takeError();
  std::optional<int64_t> elements = checkedProduct(tensor.shape);
  std::optional<int64_t> perRow = rowBytes(tensor.dtype, tensor.shape.back());
  if (elements && !perRow && tensor.shape.back() % elementKindInfo(tensor.dtype).blockElements != 0)
    return fail(what + ": a row of " + Twine(tensor.shape.back()) + " elements of " + type->name +
                "; expected a multiple of " + Twine(elementKindInfo(tensor.dtype).blockElements));
  std::optional<int64_t> size =
      elements && perRow ? checkedProduct({*elements / tensor.shape.back(), *perRow}) : std::nullopt;
  if (!size)
    return fail(what + ": shape " + shapeText(tensor.shape) + " of " + type->name + " overflows 63 bits");
  if (*offset % result.alignment != 0)
    return fail(what + ": the offset is " + Twine(*offset) + "; expected a multiple of the alignment " +
                Twine(result.alignment));
  ranges.emplace_back(*offset, uint64_t(*size));
  result.tensors.push_back(std::move(tensor));
  return Error::success();
}

/// The tensors' data begin at the next multiple of the alignment and cover the
/// rest of the file, each tensor padded to the alignment (the last need not
/// be).
Error GgufParser::placeTensors() {
  if (result.tensors.empty())
    return Error::success(); // the first file of a split may hold metadata only
  uint64_t mask = result.alignment - 1;
  StringRef data = bytes.drop_front(std::min<uint64_t>((at + mask) & ~mask, bytes.size()));
  std::vector<std::pair<uint64_t, size_t>> order;
  for (size_t i = 0; i < ranges.size(); ++i)
    order.emplace_back(ranges[i].first, i);
  llvm::sort(order);
  uint64_t end = 0;
  const GgufTensor *last = nullptr;
  for (auto [offset, i] : order) {
    uint64_t size = ranges[i].second;
    GgufTensor &tensor = result.tensors[i];
    std::string what = "tensor " + quote(tensor.name);
    if (offset < end)
      return fail(what + ": its data overlap those of " + quote(last->name) + ": they begin at " + Twine(offset) +
                  ", the other's end at " + Twine(end));
    // `end` is at most data.size(), so that the sum cannot overflow.
    uint64_t expected = (end + mask) & ~mask;
    if (offset > expected)
      return fail(what + ": a hole of " + Twine(offset - expected) + " bytes lies before its data: they begin at " +
                  Twine(offset) + "; expected " + Twine(expected));
    if (offset > data.size() || size > data.size() - offset)
      return fail("is truncated: " + what + " needs " + Twine(size) + " bytes at offset " + Twine(offset) +
                  " of the data; the data have " + Twine(data.size()));
    tensor.bytes = ArrayRef<char>(data.data() + offset, size);
    end = offset + size;
    last = &tensor;
  }
  if (data.size() > ((end + mask) & ~mask))
    return fail(Twine(data.size() - end) + " trailing bytes after the last tensor " + quote(last->name) +
                "; expected at most padding to a multiple of " + Twine(result.alignment));
  return Error::success();
}

Expected<GgufFile> GgufParser::run() {
  if (Error error = header())
    return std::move(error);
  for (uint64_t i = 0; i < keyCount; ++i)
    if (Error error = oneKey())
      return std::move(error);
  if (Error error = readAlignment())
    return std::move(error);
  for (uint64_t i = 0; i < tensorCount; ++i)
    if (Error error = oneTensor())
      return std::move(error);
  if (Error error = placeTensors())
    return std::move(error);
  return std::move(result);
}

Expected<GgufFile> ingot::parseGguf(StringRef file, StringRef bytes) { return GgufParser(file, bytes).run(); }
