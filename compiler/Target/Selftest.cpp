//===- Selftest.cpp - Reference logits for `FILE selftest`
//--------------------------------------------------------===//

#include "compiler/Target/Selftest.h"
#include "compiler/Evaluator/Evaluator.h"
#include "compiler/Import/InputError.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>
#include <thread>

using namespace mlir;
using namespace llvm;

namespace ingot {

/// Tokens of the reference, and ids kept of each row of logits.
static constexpr int32_t tokenCount = 8;
static constexpr uint32_t idCount = 256;
/// Multiplications and additions that computing the reference may take.
static constexpr double operationBudget = 40e9;

namespace {
/// The checkpoint as the evaluator reads it.
class CheckpointParameters final : public ParameterProvider {
public:
  explicit CheckpointParameters(const Checkpoint &checkpoint) : checkpoint(checkpoint) {}
  Error readRows(StringRef name, RankedTensorType type, int64_t firstRow, int64_t rows,
                 llvm::MutableArrayRef<float> dst) override {
    const TensorInfo *tensor = checkpoint.find(name);
    if (!tensor)
      return createStringError("tensor '" + name + "' is missing");
    if (llvm::ArrayRef<int64_t>(tensor->shape) != type.getShape())
      return inputError(tensor->file, "tensor '" + name + "' has the wrong shape; expected " +
                                          shapeText(type.getShape()) + ", got " + shapeText(tensor->shape));
    return checkpoint.readF32(*tensor, firstRow, rows, dst.take_front(rows * tensor->rowSize()));
  }

private:
  const Checkpoint &checkpoint;
};
} // namespace

/// What compiled and evaluated logits may differ by, as a share of the largest
/// logit. Both multiply the same weights in float32; only the order of some
/// sums and the last bit of exp differ, and a key or value may round to the
/// neighbouring number of the cache's type, which is what counts for the 16-bit
/// ones.
static float toleranceOf(Type cacheElement) {
  if (cacheElement.isF32())
    return 2e-5f;
  return cacheElement.isF16() ? 4e-3f : 3e-2f;
}

/// The ids of a vocabulary that are kept: all of a small one, else evenly
/// spaced ones.
static std::vector<int32_t> chooseIds(int64_t vocab) {
  int64_t count = std::min<int64_t>(vocab, idCount);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i)
    ids.push_back(static_cast<int32_t>(i * vocab / count));
  return ids;
}

llvm::Expected<SelftestReference> computeSelftest(ModuleOp packed, llvm::ArrayRef<PackedParameter> parameters,
                                                  const Checkpoint &checkpoint) {
  SelftestReference reference;
  double operations = 0;
  for (const PackedParameter &parameter : parameters)
    operations += 2.0 * tokenCount * static_cast<double>(parameter.layout.parameters);
  if (operations > operationBudget) {
    reference.reason = formatv("the model is beyond the budget of the "
                               "reference evaluator ({0:F0} of {1:F0} GFLOP)",
                               operations * 1e-9, operationBudget * 1e-9);
    return reference;
  }
  auto model = packed->getAttrOfType<ModelAttr>(modelAttrName);
  int64_t vocab = model.getVocab();
  int64_t tokens = std::min<int64_t>(tokenCount, model.getMaxContext());
  for (int64_t i = 0; i < tokens; ++i) {
    reference.tokens.push_back(static_cast<int32_t>((i * 7919 + 1) % vocab));
    reference.rows.push_back(static_cast<int32_t>(i));
  }
  CheckpointParameters provider(checkpoint);
  EvaluatorOptions options;
  options.threads = std::max(1u, std::thread::hardware_concurrency());
  Evaluator evaluator(packed, provider, options);
  Expected<KVCacheType> type = evaluator.cacheType();
  if (!type)
    return type.takeError();
  Cache cache(*type);
  Batch batch;
  batch.append(0, 0, reference.tokens);
  Expected<Matrix> logits = evaluator.forward(batch, cache);
  if (!logits)
    return logits.takeError();
  std::vector<int32_t> ids = chooseIds(vocab);
  reference.idsPerRow = static_cast<uint32_t>(ids.size());
  reference.tolerance = toleranceOf(type->getElementType());
  for (int64_t row = 0; row < tokens; ++row)
    for (int32_t id : ids) {
      float value = logits->row(row)[id];
      reference.ids.push_back(id);
      reference.values.push_back(value);
      reference.largest = std::max(reference.largest, std::fabs(value));
    }
  return reference;
}

} // namespace ingot
