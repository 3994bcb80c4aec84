//===- MergeParameters.cpp - One parameter for the weights of each linear -----------------------------------------===//
//
// linear(x, [W_1, ..., W_n]) -> linear(x, concat(W_1, ..., W_n)), gated: stack. Passes.td has the whole story.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Transforms/Passes.h"
#include "compiler/Transforms/Recipes.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include <map>

#define DEBUG_TYPE "ingot-merge-parameters"

using namespace mlir;
using namespace ingot;

namespace ingot {
#define GEN_PASS_DEF_MERGEPARAMETERSPASS
#include "compiler/Transforms/Passes.h.inc"
} // namespace ingot

/// A name for several parameters in one: `layer.q_proj`, `layer.k_proj`, `layer.v_proj` become `layer.qkv_proj`, and
/// `layer.gate_proj_bias`, `layer.up_proj_bias` become `layer.gate_up_proj_bias`: where names differ in one part
/// between dots, the pieces (between `_`) that this part ends with alike stand once, what is before them is joined.
/// Names that differ elsewhere are joined as they are.
static std::string joinNames(ArrayRef<StringRef> names) {
  auto split = [](StringRef text, char separator) {
    SmallVector<StringRef> pieces;
    text.split(pieces, separator);
    return pieces;
  };
  auto parts = llvm::map_to_vector(names, [&](StringRef name) { return split(name, '.'); });
  SmallVector<size_t> different;
  for (size_t i = 0; i < parts.front().size(); ++i)
    if (!llvm::all_of(parts,
                      [&](auto &part) { return part.size() == parts.front().size() && part[i] == parts.front()[i]; }))
      different.push_back(i);
  if (different.size() != 1)
    return llvm::join(names, "_");
  size_t at = different.front();
  auto stems = llvm::map_to_vector(parts, [&](auto &part) { return split(part[at], '_'); });
  std::string suffix;
  while (llvm::all_of(stems, [&](auto &stem) { return stem.size() > 1 && stem.back() == stems.front().back(); })) {
    suffix.insert(0, "_" + stems.front().back().str());
    for (auto &stem : stems)
      stem.pop_back();
  }
  bool letters = llvm::all_of(stems, [](auto &stem) { return stem.size() == 1 && stem.front().size() == 1; });
  auto words = llvm::map_to_vector(stems, [](auto &stem) { return llvm::join(stem, "_"); });
  std::string joined = llvm::join(words, letters ? "" : "_") + suffix;
  parts.front()[at] = joined;
  return llvm::join(parts.front(), ".");
}

namespace {

struct MergeParameters : ingot::impl::MergeParametersPassBase<MergeParameters> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    llvm::StringSet<> readBefore = readParameters(module);
    auto result = module.walk([&](LinearOp linear) {
      bool stack = linear.getGated().has_value();
      if (linear.getWeights().size() > 1 && failed(merge(symbols, linear, linear.getWeightsMutable(), stack)))
        return WalkResult::interrupt();
      if (linear.getBiases().size() > 1 && failed(merge(symbols, linear, linear.getBiasesMutable(), stack)))
        return WalkResult::interrupt();
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    for (auto weight : reads)
      if (weight->use_empty())
        weight->erase();
    llvm::StringSet<> readAfter = readParameters(module);
    for (auto parameter : llvm::make_early_inc_range(module.getOps<ParameterOp>()))
      if (readBefore.contains(parameter.getSymName()) && !readAfter.contains(parameter.getSymName()))
        symbols.erase(parameter);
  }

private:
  /// Names of the parameters that something reads.
  static llvm::StringSet<> readParameters(ModuleOp module) {
    llvm::StringSet<> names;
    module.walk([&](WeightOp weight) { names.insert(weight.getParameter()); });
    return names;
  }

  /// Replaces the parameters that `operands` of `linear` read by one.
  LogicalResult merge(SymbolTable &symbols, LinearOp linear, MutableOperandRange operands, bool stack) {
    SmallVector<ParameterOp> parameters;
    SmallVector<WeightOp> weights;
    for (OpOperand &operand : operands) {
      auto weight = operand.get().getDefiningOp<WeightOp>();
      auto parameter = weight ? symbols.lookup<ParameterOp>(weight.getParameter()) : ParameterOp();
      if (!parameter)
        return linear.emitOpError("expected weights that ingot.weight reads "
                                  "from parameters of this module");
      if (!weights.empty() && weight.getIndex() != weights.front().getIndex())
        return linear.emitOpError("expected all weights to be read at one index, got @")
               << weights.front().getParameter() << " and @" << weight.getParameter();
      if (!parameters.empty() &&
          parameter.getTensorType().getElementType() != parameters.front().getTensorType().getElementType())
        return linear.emitOpError("expected all weights in one element type, got ")
               << parameters.front().getType() << " and " << parameter.getType();
      parameters.push_back(parameter);
      weights.push_back(weight);
    }
    ParameterOp merged = getMerged(symbols, parameters, stack);
    OpBuilder builder(weights.front());
    for (WeightOp weight : weights)
      if (builder.getInsertionPoint()->isBeforeInBlock(weight))
        builder.setInsertionPoint(weight);
    auto read = WeightOp::create(
        builder, builder.getFusedLoc(llvm::map_to_vector(weights, [](WeightOp w) { return w.getLoc(); })),
        merged.getTensorType(), merged.getSymName(), weights.front().getIndex());
    operands.assign(read.getResult());
    reads.insert(weights.begin(), weights.end());
    return success();
  }

  /// The parameter that holds `parameters` one after the other (`stack`: as matrices of their own); made at first need.
  ParameterOp getMerged(SymbolTable &symbols, ArrayRef<ParameterOp> parameters, bool stack) {
    SmallVector<StringRef> names = llvm::map_to_vector(parameters, [](ParameterOp p) { return p.getSymName(); });
    ParameterOp &merged = known[(stack ? "stack " : "concat ") + llvm::join(names, " ")];
    if (merged)
      return merged;
    ParameterOp first = parameters.front();
    OpBuilder builder(first);
    Location location = builder.getFusedLoc(llvm::map_to_vector(parameters, [](ParameterOp p) { return p.getLoc(); }));
    SmallVector<int64_t> shape(first.getTensorType().getShape());
    if (stack)
      shape.insert(shape.begin(), parameters.size());
    else
      for (ParameterOp parameter : parameters.drop_front())
        shape[0] += parameter.getTensorType().getDimSize(0);
    auto type = RankedTensorType::get(shape, first.getTensorType().getElementType());
    merged = ParameterOp::create(builder, location, joinNames(names),
                                 /*source=*/StringAttr(), first.getKindAttr(), first.getPart(), type);
    builder.createBlock(&merged.getRecipe());
    SmallVector<Value> inputs = llvm::map_to_vector(parameters, [&](ParameterOp p) { return buildTensor(builder, p); });
    Value result = stack ? StackOp::create(builder, location, type, inputs).getResult()
                         : ConcatOp::create(builder, location, type, inputs).getResult();
    YieldOp::create(builder, location, result);
    symbols.insert(merged, Block::iterator(first));
    return merged;
  }

  /// Merged parameters by what they hold.
  std::map<std::string, ParameterOp> known;
  /// Reads that merged ones have replaced in some linear.
  llvm::SmallSetVector<WeightOp, 16> reads;
};

} // namespace
