// A checkpoint of random blocks.
#include "test/Unit/Codegen/RandomBlocks.h"
#include "compiler/Evaluator/Evaluator.h"
#include "compiler/Target/Packer.h"
#include <cstring>
#include <random>

using namespace mlir;

namespace ingot::test {

static constexpr int64_t layerCount = 8;

RandomBlocks::RandomBlocks(ModuleOp packed) {
  packed.walk([&](SourceOp source) {
    bool perLayer = source.getName().contains("{layer}");
    for (int64_t layer = 0; layer < (perLayer ? layerCount : 1); ++layer)
      add(instantiateSource(source.getName(), layer), source.getType());
  });
}

static ElementKind kindOf(Type type) {
  if (auto quantized = dyn_cast<QuantizedType>(type))
    for (unsigned i = 0; i < elementKindCount; ++i)
      if (elementKindName(static_cast<ElementKind>(i)).lower() == stringifyQuantization(quantized.getKind()))
        return static_cast<ElementKind>(i);
  return type.isF16() ? ElementKind::F16 : type.isBF16() ? ElementKind::BF16 : ElementKind::F32;
}

/// Where the float16 of a block lie, and the exponent that makes values of the order of 1.
static std::pair<std::vector<int64_t>, int> halvesOf(ElementKind kind) {
  switch (kind) {
  case ElementKind::Q8_0:
    return {{0}, -7};
  case ElementKind::Q4_0:
    return {{0}, -3};
  case ElementKind::Q5_0:
    return {{0}, -4};
  case ElementKind::Q4_1:
  case ElementKind::Q5_1:
    return {{0, 2}, -4};
  case ElementKind::Q6_K:
    return {{208}, -12};
  default:
    return {{0, 2}, -9};
  }
}

void RandomBlocks::add(const std::string &name, RankedTensorType type) {
  TensorInfo info;
  info.name = info.storedName = name;
  info.dtype = kindOf(type.getElementType());
  info.shape.assign(type.getShape().begin(), type.getShape().end());
  if (!addTensor(info))
    return;
  std::vector<char> stored;
  if (!isQuantized(info.dtype)) {
    RandomParameters random(7);
    std::vector<float> values(info.elements());
    llvm::cantFail(random.readRows(name, type, 0, info.rows(), values));
    // Random weights are exact in every float type; readers get them as float32.
    stored.resize(values.size() * sizeof(float));
    std::memcpy(stored.data(), values.data(), stored.size());
  } else {
    const ElementKindInfo &kind = elementKindInfo(info.dtype);
    std::mt19937 generator(std::hash<std::string>()(name));
    stored.resize(info.elements() / kind.blockElements * kind.blockBytes);
    for (char &byte : stored)
      byte = static_cast<char>(generator());
    auto [halves, exponent] = halvesOf(info.dtype);
    for (size_t block = 0; block < stored.size(); block += kind.blockBytes)
      for (int64_t at : halves) {
        // A sign, the exponent, ten random bits.
        auto bits = static_cast<uint16_t>((generator() & 0x83ff) | (15 + exponent) << 10);
        std::memcpy(stored.data() + block + at, &bits, 2);
      }
  }
  bytes.push_back(std::move(stored));
}

llvm::Error RandomBlocks::convertRows(const TensorInfo &tensor, int64_t firstRow, int64_t rows,
                                      llvm::MutableArrayRef<float> dst) const {
  ElementKind stored = isQuantized(tensor.dtype) ? tensor.dtype : ElementKind::F32;
  int64_t perRow = *rowBytes(stored, tensor.rowSize());
  convertToF32(stored, llvm::ArrayRef<char>(bytes[tensor.index]).slice(firstRow * perRow, rows * perRow), dst);
  return llvm::Error::success();
}

llvm::Error RandomBlocks::copyRows(const TensorInfo &tensor, int64_t firstRow, int64_t,
                                   llvm::MutableArrayRef<char> dst) const {
  int64_t perRow = *rowBytes(tensor.dtype, tensor.rowSize());
  std::copy_n(bytes[tensor.index].begin() + firstRow * perRow, dst.size(), dst.begin());
  return llvm::Error::success();
}

} // namespace ingot::test
