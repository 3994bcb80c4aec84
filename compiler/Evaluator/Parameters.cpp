//===- Parameters.cpp - Recipes read row by row, random weights, rounding ----------------------------------------===//

#include "compiler/Evaluator/Parameters.h"
#include "dialects/ingot/Quantization.h"
#include "ingot_rt/random.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include <bit>

using namespace llvm;
using namespace mlir;

namespace ingot {

ParameterProvider::~ParameterProvider() = default;

//===--------------------------------------------------------------------------------------------------------------===//
// Rounding
//===--------------------------------------------------------------------------------------------------------------===//

static float roundToBF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return value;
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return std::bit_cast<float>(bits & 0xffff0000u);
}

static float roundToF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu, sign = bits & 0x80000000u;
  if (magnitude > 0x7f800000u)
    return value;
  // From 65520 = 0x477ff000 on, halfway to the number after the largest.
  if (magnitude >= 0x477ff000u)
    return std::bit_cast<float>(sign | 0x7f800000u);
  if (magnitude < 0x38800000u) {
    // Below 2^-14 numbers are multiples of 2^-24; adding and taking away 0.5,
    // whose float neighbours are 2^-24 apart, rounds to them.
    float rounded = (std::bit_cast<float>(magnitude) + 0.5f) - 0.5f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(rounded));
  }
  magnitude += 0xfffu + ((magnitude >> 13) & 1u);
  return std::bit_cast<float>(sign | (magnitude & 0xffffe000u));
}

float roundTo(Type type, float value) {
  if (type.isBF16())
    return roundToBF16(value);
  return type.isF16() ? roundToF16(value) : value;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Random weights
//===--------------------------------------------------------------------------------------------------------------===//

Error RandomParameters::readRows(StringRef name, RankedTensorType type, int64_t firstRow, int64_t rows,
                                 MutableArrayRef<float> dst) {
  ingot_rt_random_kind kind = name.ends_with(".bias") ? INGOT_RT_RANDOM_BIAS
                              : type.getRank() == 1   ? INGOT_RT_RANDOM_NORM
                                                      : INGOT_RT_RANDOM_MATRIX;
  uint64_t key = ingot_rt_random_key(seed, name.data(), name.size());
  uint64_t columns = Parameter::rowSize(type);
  int shift = ingot_rt_random_shift(columns);
  uint32_t block[4];
  uint64_t index = firstRow * columns, loaded = ~uint64_t(0);
  for (float &value : dst.take_front(rows * columns)) {
    if (index / 16 != loaded) {
      loaded = index / 16;
      ingot_rt_random_block(key, loaded, block);
    }
    value = ingot_rt_random_value(kind, ingot_rt_random_byte(block, index % 16), shift);
    ++index;
  }
  return Error::success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Recipes
//===--------------------------------------------------------------------------------------------------------------===//

int64_t Parameter::rows(RankedTensorType type) {
  int64_t product = 1;
  for (int64_t size : type.getShape().drop_back())
    product *= size;
  return product;
}

namespace {
/// Reads rows of a value in a recipe.
struct RecipeReader {
  ParameterProvider &provider;
  int64_t layer;

  /// A source's name with the layer's number in place of `{layer}`.
  std::string nameOf(StringRef pattern) const {
    auto [before, after] = pattern.split("{layer}");
    if (before.size() == pattern.size())
      return pattern.str();
    return (before + Twine(layer) + after).str();
  }

  /// Rows of `inputs`, one tensor after the other.
  Error readJoined(ValueRange inputs, int64_t firstRow, int64_t rows, MutableArrayRef<float> dst) const {
    for (Value input : inputs) {
      auto type = cast<RankedTensorType>(input.getType());
      int64_t size = Parameter::rows(type), here = std::min(size - firstRow, rows);
      if (here > 0) {
        if (Error error = read(input, firstRow, here, dst))
          return error;
        dst = dst.drop_front(here * Parameter::rowSize(type));
        rows -= here;
        firstRow += here;
      }
      firstRow -= size;
    }
    return Error::success();
  }

  /// Vectors after one another are one row.
  Error readVectors(ValueRange inputs, MutableArrayRef<float> dst) const {
    for (Value input : inputs) {
      if (Error error = read(input, 0, 1, dst))
        return error;
      dst = dst.drop_front(Parameter::rowSize(cast<RankedTensorType>(input.getType())));
    }
    return Error::success();
  }

  Error read(Value value, int64_t firstRow, int64_t rows, MutableArrayRef<float> dst) const {
    auto type = cast<RankedTensorType>(value.getType());
    return llvm::TypeSwitch<Operation *, Error>(value.getDefiningOp())
        .Case([&](SourceOp op) { return provider.readRows(nameOf(op.getName()), type, firstRow, rows, dst); })
        .Case([&](ConvertOp op) -> Error {
          if (Error error = read(op.getInput(), firstRow, rows, dst))
            return error;
          for (float &element : dst.take_front(rows * Parameter::rowSize(type)))
            element = roundTo(type.getElementType(), element);
          return Error::success();
        })
        .Case([&](QuantizeOp op) -> Error {
          if (Error error = read(op.getInput(), firstRow, rows, dst))
            return error;
          Quantization kind = cast<QuantizedType>(type.getElementType()).getKind();
          for (int64_t row = 0, size = Parameter::rowSize(type); row < rows; ++row)
            for (int64_t first = 0; first < size; first += quantizedBlock) {
              MutableArrayRef<float> block = dst.slice(row * size + first, std::min(quantizedBlock, size - first));
              dequantizeBlock(kind, quantizeBlock(kind, block), block);
            }
          return Error::success();
        })
        .Case([&](ConcatOp op) {
          if (type.getRank() == 1)
            return readVectors(op.getInputs(), dst);
          return readJoined(op.getInputs(), firstRow, rows, dst);
        })
        .Case([&](StackOp op) { return readJoined(op.getInputs(), firstRow, rows, dst); })
        .Case([&](PackOp op) { return read(op.getInput(), firstRow, rows, dst); })
        .Default([&](Operation *op) -> Error {
          return createStringError("a recipe with %s cannot be evaluated",
                                   op ? op->getName().getStringRef().data() : "a block argument");
        });
  }
};
} // namespace

Error Parameter::readRows(ParameterProvider &provider, int64_t firstRow, int64_t rows,
                          MutableArrayRef<float> dst) const {
  RecipeReader reader{provider, layer};
  // ODS: the accessor of a Symbol's argument on a const op handle.
  ParameterOp parameter = op;
  if (Value yielded = parameter.getYielded())
    return reader.read(yielded, firstRow, rows, dst);
  RankedTensorType type = parameter.getTensorType();
  return provider.readRows(reader.nameOf(*parameter.getSource()), type, firstRow, rows, dst);
}

Expected<std::vector<float>> Parameter::readAll(ParameterProvider &provider) const {
  RankedTensorType type = ParameterOp(op).getTensorType();
  std::vector<float> values(rows(type) * rowSize(type));
  if (Error error = readRows(provider, 0, rows(type), values))
    return error;
  return values;
}

} // namespace ingot
