//===- VerifyPhase.cpp - The contract between two phases ----------------------------------------------------------===//
//
// Passes.td has the table of what holds after each phase.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Transforms/ArenaPlan.h"
#include "compiler/Transforms/Passes.h"
#include "llvm/ADT/StringSet.h"

#define DEBUG_TYPE "ingot-verify-phase"

using namespace mlir;
using namespace ingot;

namespace ingot {
#define GEN_PASS_DEF_VERIFYPHASEPASS
#include "compiler/Transforms/Passes.h.inc"
} // namespace ingot

namespace {

/// Checks one module against the contract of a phase up to `packed`.
class ModuleCheck {
public:
  ModuleCheck(ModuleOp module, StringRef phase)
      : module(module), phase(phase), fused(phase != "ingot"), packed(phase == "packed") {}

  LogicalResult run();

private:
  LogicalResult checkForward();
  LogicalResult checkFunctions();
  LogicalResult checkOp(Operation *op);
  LogicalResult checkParameters();
  LogicalResult checkPackedUse(OpOperand &operand);

  /// Starts an error at `op` that names the phase.
  InFlightDiagnostic error(Operation *op) { return op->emitOpError() << "phase " << phase << ": "; }

  ModuleOp module;
  StringRef phase;
  bool fused, packed;
  /// Functions that are a kind of layer.
  llvm::StringSet<> kinds;
};

} // namespace

LogicalResult ModuleCheck::run() {
  if (!isa_and_nonnull<ModelAttr>(module->getAttr(modelAttrName)))
    return error(module) << "expected the attribute " << modelAttrName << " on the module";
  module.walk([&](LayersOp layers) {
    for (auto run : layers.getRuns().getAsRange<RunAttr>())
      kinds.insert(run.getKind().getValue());
  });
  if (failed(checkForward()) || failed(checkFunctions()) || failed(checkParameters()))
    return failure();
  return packed ? verifyArenaPlan(module) : success();
}

/// @forward exists and computes the model's logits from a batch and a cache.
LogicalResult ModuleCheck::checkForward() {
  auto forward = module.lookupSymbol<func::FuncOp>(forwardName);
  if (!forward || forward.isExternal())
    return error(module) << "expected a function @" << forwardName;
  FunctionType type = forward.getFunctionType();
  auto model = module->getAttrOfType<ModelAttr>(modelAttrName);
  auto logits = RankedTensorType::get({ShapedType::kDynamic, model.getVocab()}, Float32Type::get(module.getContext()));
  if (type.getNumInputs() != 2 || !isa<BatchType>(type.getInput(0)) || !isa<KVCacheType>(type.getInput(1)) ||
      type.getNumResults() != 1 || type.getResult(0) != logits)
    return error(forward) << "expected the type (!ingot.batch, !ingot.kv_cache<...>) -> " << logits << ", got " << type;
  return success();
}

/// Only @forward and kinds of layers, of one block each, with ops of this phase.
LogicalResult ModuleCheck::checkFunctions() {
  for (Operation &op : module.getBody()->getOperations()) {
    if (isa<ParameterOp, RotaryOp>(op))
      continue;
    auto function = dyn_cast<func::FuncOp>(op);
    if (!function)
      return error(&op) << "expected parameters, rotaries and functions only";
    if (function.getName() != forwardName && !kinds.contains(function.getName()))
      return error(function) << "expected @" << forwardName << " or a kind of layer that ingot.layers names, got @"
                             << function.getName();
    if (!llvm::hasSingleElement(function.getBody()))
      return error(function) << "expected a body of one block";
    for (Operation &inner : function.getBody().front())
      if (failed(checkOp(&inner)))
        return failure();
  }
  return success();
}

LogicalResult ModuleCheck::checkOp(Operation *op) {
  if (!isa<func::ReturnOp>(op) && !isa_and_nonnull<IngotDialect>(op->getDialect()))
    return error(op) << "expected ops of the ingot dialect only";
  if (isa<LayersOp>(op) && op->getParentOfType<func::FuncOp>().getName() != forwardName)
    return error(op) << "expected layers in @" << forwardName << " only";
  auto linear = dyn_cast<LinearOp>(op);
  bool isFused = isa<AddRMSNormOp, GatedActOp, QKNormRopeAppendOp>(op) ||
                 (linear && (linear.getWeights().size() > 1 || linear.getGated() || linear.getResidual()));
  if (isFused && !fused)
    return error(op) << "expected no fused op";
  if (linear && packed && linear.getWeights().size() != 1)
    return error(op) << "expected one packed weight, got " << linear.getWeights().size();
  if (auto weight = dyn_cast<WeightOp>(op)) {
    auto parameter = module.lookupSymbol<ParameterOp>(weight.getParameter());
    StringRef function = op->getParentOfType<func::FuncOp>().getName();
    if (parameter && parameter.getKind() && *parameter.getKind() != function)
      return error(op) << "expected a parameter of kind @" << function << ", got one of @" << *parameter.getKind();
  }
  for (OpOperand &operand : op->getOpOperands())
    if (packed && operand.get().getDefiningOp<WeightOp>() && failed(checkPackedUse(operand)))
      return failure();
  return success();
}

/// A parameter has the layout that its use reads.
LogicalResult ModuleCheck::checkPackedUse(OpOperand &operand) {
  Operation *op = operand.getOwner();
  auto type = cast<RankedTensorType>(operand.get().getType());
  auto layout = dyn_cast_or_null<PackedAttr>(type.getEncoding());
  if (!layout)
    return error(op) << "expected a packed parameter, got " << type;
  auto linear = dyn_cast<LinearOp>(op);
  if (linear && llvm::is_contained(linear.getWeights(), operand.get())) {
    Layout expected = linear.getGated() ? Layout::PanelPairs : Layout::Panels;
    if (layout.getLayout() != expected)
      return error(op) << "expected a weight in layout " << stringifyLayout(expected) << ", got " << type;
  } else if (!isa<EmbeddingOp>(op) && (layout.getLayout() != Layout::Rows || !type.getElementType().isF32())) {
    return error(op) << "expected norms and biases in layout rows of f32, got " << type;
  }
  return success();
}

/// Every parameter is read by something, and has a source until it is packed: that it is, with a recipe, follows from
/// the layout that each of its uses asks for.
LogicalResult ModuleCheck::checkParameters() {
  llvm::StringSet<> read;
  module.walk([&](WeightOp weight) { read.insert(weight.getParameter()); });
  for (auto parameter : module.getOps<ParameterOp>()) {
    if (!packed && !parameter.getSource())
      return error(parameter) << "expected @" << parameter.getSymName() << " to have a source, got a recipe";
    if (!read.contains(parameter.getSymName()))
      return error(parameter) << "expected every parameter to be read, @" << parameter.getSymName() << " is not";
  }
  return success();
}

/// No op of the dialect but parameters with their recipes, in the module and in all modules inside.
static LogicalResult checkLoops(ModuleOp module) {
  auto result = module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<ParameterOp>(op))
      return WalkResult::skip();
    if (isa_and_nonnull<IngotDialect>(op->getDialect())) {
      op->emitOpError("phase loops: expected no ingot op but parameters");
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

namespace {

struct VerifyPhase : ingot::impl::VerifyPhasePassBase<VerifyPhase> {
  using Base::Base;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    ModuleOp module = getOperation();
    LogicalResult result = failure();
    if (phase == "ingot" || phase == "fused" || phase == "packed")
      result = ModuleCheck(module, phase).run();
    else if (phase == "loops")
      result = checkLoops(module);
    else
      module.emitError(DEBUG_TYPE ": expected phase ingot, fused, packed or loops, got '") << phase << "'";
    if (failed(result))
      signalPassFailure();
  }
};

} // namespace
