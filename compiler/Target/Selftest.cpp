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

/// What compiled logits may differ by from the reference, at least, as a share of the largest logit. Both multiply the
/// same weights; what counts with a 16-bit cache is that a key or value may round to the neighbouring number of the
/// cache's type.
static float toleranceOf(Type cacheElement) {
  if (cacheElement.isF32() || cacheElement.isInteger(8))
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

/// Whether inputs of products, or keys and values, are rounded to int8.
static bool roundsToBytes(ModuleOp packed, KVCacheType cache) {
  bool rounds = cache.getElementType().isInteger(8);
  packed.walk([&](LinearOp linear) { rounds |= linear.getCompute() == Compute::Int8; });
  return rounds;
}

static Expected<Matrix> evaluate(ModuleOp packed, ParameterProvider &provider, const EvaluatorOptions &options,
                                 const Batch &batch) {
  Evaluator evaluator(packed, provider, options);
  Expected<KVCacheType> type = evaluator.cacheType();
  if (!type)
    return type.takeError();
  Cache cache(*type, /*exact=*/options.exactInputs);
  return evaluator.forward(batch, cache);
}

static float largestDistance(const Matrix &a, const Matrix &b) {
  float distance = 0;
  for (auto [x, y] : llvm::zip(a.values, b.values))
    distance = std::max(distance, std::fabs(x - y));
  return distance;
}

/// What compiled logits may differ by from `exact`, the model evaluated in float64, absolutely. Some tokens of some
/// models are ill-conditioned: with another order of sums in float32, equally right, their logits move by many times
/// what others' do. How far float32 moves them is measured, by the evaluator in float32, and the compiled code may be
/// four times as far away: the rule that is applied to whole models. Inputs of products that are rounded to 16 bits are
/// rounded there too, and are among what float32 moves.
///
/// Rounding to int8 moves them more: a number near the middle between two integers rounds to the other one after a sum
/// in another order, and what is computed from it moves by a step, as rounding moves it by up to half a step. So the
/// compiled model is another rounding of the same unrounded result; few numbers round otherwise, so that two roundings
/// are nearer to each other than to what they round.
static Expected<float> measureTolerance(ModuleOp packed, KVCacheType cache, ParameterProvider &provider,
                                        EvaluatorOptions options, const Batch &batch, const Matrix &exact) {
  options.accumulation = Accumulation::F32;
  Expected<Matrix> single = evaluate(packed, provider, options, batch);
  if (!single)
    return single.takeError();
  if (!roundsToBytes(packed, cache))
    return 4 * largestDistance(*single, exact);
  options.exactInputs = true;
  Expected<Matrix> unrounded = evaluate(packed, provider, options, batch);
  if (!unrounded)
    return unrounded.takeError();
  return largestDistance(*unrounded, exact);
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
  options.accumulation = Accumulation::F64;
  Expected<KVCacheType> type = Evaluator(packed, provider, options).cacheType();
  if (!type)
    return type.takeError();
  Batch batch;
  batch.append(0, 0, reference.tokens);
  Expected<Matrix> logits = evaluate(packed, provider, options, batch);
  if (!logits)
    return logits.takeError();
  std::vector<int32_t> ids = chooseIds(vocab);
  reference.idsPerRow = static_cast<uint32_t>(ids.size());
  for (int64_t row = 0; row < tokens; ++row)
    for (int32_t id : ids) {
      float value = logits->row(row)[id];
      reference.ids.push_back(id);
      reference.values.push_back(value);
      reference.largest = std::max(reference.largest, std::fabs(value));
    }
  Expected<float> measured = measureTolerance(packed, *type, provider, options, batch, *logits);
  if (!measured)
    return measured.takeError();
  reference.tolerance = std::max(toleranceOf(type->getElementType()), *measured / std::max(1.0f, reference.largest));
  return reference;
}

} // namespace ingot
