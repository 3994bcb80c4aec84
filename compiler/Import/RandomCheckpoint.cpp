// Random weights as random.h defines them: no state, so any rows can be made at
// any time by any thread.
#include "compiler/Import/RandomCheckpoint.h"
#include "compiler/Import/InputError.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Endian.h"

using namespace llvm;
using namespace ingot;

ingot_rt_random_kind ingot::randomKindOf(StringRef name, ArrayRef<int64_t> shape) {
  if (name.ends_with(".bias"))
    return INGOT_RT_RANDOM_BIAS;
  return shape.size() == 1 ? INGOT_RT_RANDOM_NORM : INGOT_RT_RANDOM_MATRIX;
}

Expected<std::unique_ptr<RandomCheckpoint>> RandomCheckpoint::create(uint64_t seed, ArrayRef<RandomTensor> tensors) {
  std::unique_ptr<RandomCheckpoint> result(new RandomCheckpoint(seed));
  for (const RandomTensor &tensor : tensors) {
    auto fail = [&](const Twine &what) {
      return inputError("random weights", "tensor " + quote(tensor.name) + ": " + what);
    };
    if (!isPlainFloat(tensor.dtype))
      return fail("type " + elementKindName(tensor.dtype) + "; expected F32, F16 or BF16");
    std::optional<int64_t> elements = checkedProduct(tensor.shape);
    if (!elements || !rowBytes(tensor.dtype, *elements))
      return fail("shape " + shapeText(tensor.shape) + " overflows 63 bits");
    result->generators.push_back({ingot_rt_random_key(seed, tensor.name.data(), tensor.name.size()), tensor.kind,
                                  ingot_rt_random_shift(tensor.shape.empty() ? 1 : uint64_t(tensor.shape.back()))});
    if (!result->addTensor({tensor.name, tensor.name, tensor.dtype, tensor.shape, "", 0}))
      return fail("is there twice");
  }
  return result;
}

/// Elements [first, first + dst.size()) of a tensor.
void RandomCheckpoint::fill(const Generator &generator, uint64_t first, MutableArrayRef<float> dst) {
  uint32_t block[4];
  for (size_t i = 0; i < dst.size(); ++i) {
    uint64_t element = first + i;
    if (i == 0 || element % 16 == 0)
      ingot_rt_random_block(generator.key, element / 16, block);
    dst[i] = ingot_rt_random_value(generator.kind, ingot_rt_random_byte(block, element % 16), generator.shift);
  }
}

Error RandomCheckpoint::convertRows(const TensorInfo &tensor, int64_t firstRow, int64_t rows,
                                    MutableArrayRef<float> dst) const {
  fill(generators[tensor.index], uint64_t(firstRow) * uint64_t(tensor.rowSize()), dst);
  return Error::success();
}

/// A value with at most eight significant bits in [2^-20, 2) as float16: exact
/// by the choice of random.h.
static uint16_t exactHalf(float value) {
  uint32_t bits = llvm::bit_cast<uint32_t>(value);
  uint32_t sign = bits >> 16 & 0x8000;
  int exponent = int(bits >> 23 & 0xff) - 127;
  uint32_t significand = (bits & 0x7fffff) | 0x800000;
  if (exponent >= -14)
    return uint16_t(sign | uint32_t(exponent + 15) << 10 | (significand >> 13 & 0x3ff));
  return uint16_t(sign | significand >> (-exponent - 1));
}

Error RandomCheckpoint::copyRows(const TensorInfo &tensor, int64_t firstRow, int64_t rows,
                                 MutableArrayRef<char> dst) const {
  constexpr size_t chunk = 4096;
  float values[chunk];
  size_t size = elementKindInfo(tensor.dtype).blockBytes;
  size_t total = dst.size() / size;
  uint64_t first = uint64_t(firstRow) * uint64_t(tensor.rowSize());
  for (size_t done = 0; done < total; done += chunk) {
    size_t count = std::min(chunk, total - done);
    fill(generators[tensor.index], first + done, {values, count});
    for (size_t i = 0; i < count; ++i) {
      char *out = dst.data() + (done + i) * size;
      uint32_t bits = llvm::bit_cast<uint32_t>(values[i]);
      if (tensor.dtype == ElementKind::F32)
        support::endian::write32le(out, bits);
      else
        support::endian::write16le(out,
                                   tensor.dtype == ElementKind::BF16 ? uint16_t(bits >> 16) : exactHalf(values[i]));
    }
  }
  return Error::success();
}
