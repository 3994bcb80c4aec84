//===- SelectLayout.cpp - Layout, storage type and K segments of every parameter ----------------------------------===//
//
// Reads what each parameter is used for and writes the decision down as attributes. Passes.td has the table.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Transforms/FusionSupport.h"
#include "compiler/Transforms/Passes.h"
#include "ingot_rt/abi.h"
#include "mlir/IR/Remarks.h"

#define DEBUG_TYPE "ingot-select-layout"

using namespace mlir;
using namespace ingot;

namespace ingot {
#define GEN_PASS_DEF_SELECTLAYOUTPASS
#include "compiler/Transforms/Passes.h.inc"
} // namespace ingot

namespace {

/// How one use wants a parameter.
struct Need {
  PackedAttr layout;
  /// Element type in memory.
  Type storage;
  /// Element type that values are rounded to before; null: none.
  Type round;
  /// What products multiply; null: float32.
  ComputeAttr compute = {};
  bool operator==(const Need &other) const {
    return layout == other.layout && storage == other.storage && round == other.round && compute == other.compute;
  }
};

/// A need and the operands that have it.
struct Group {
  Need need;
  SmallVector<OpOperand *> operands;
};

/// Number of chains into which a linear's sums over K are cut.
static int64_t getSegments(LinearOp linear) {
  return linear.getRowParallel() && getFeatures(linear.getInput()) >= INGOT_RT_PANEL ? INGOT_RT_K_SEGMENTS : 1;
}

/// Element type that a dtype names; a null type for "auto", failure for anything else.
static FailureOr<Type> parseStorage(MLIRContext *context, StringRef dtype) {
  if (dtype == "auto")
    return Type();
  if (dtype == "f32")
    return Type(Float32Type::get(context));
  if (dtype == "bf16")
    return Type(BFloat16Type::get(context));
  if (dtype == "f16")
    return Type(Float16Type::get(context));
  return failure();
}

struct SelectLayout : ingot::impl::SelectLayoutPassBase<SelectLayout> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<Type> chosen = parseStorage(&getContext(), dtype);
    if (failed(chosen)) {
      module.emitError(DEBUG_TYPE ": expected dtype auto, f32, bf16 or f16, got '") << dtype << "'";
      return signalPassFailure();
    }
    if (failed(checkOptions(module)))
      return signalPassFailure();
    SymbolTable symbols(module);
    llvm::MapVector<ParameterOp, SmallVector<Group>> groups;
    // In the order of ops, not of use lists, which printing and parsing may change.
    module.walk([&](Operation *op) {
      for (OpOperand &operand : op->getOpOperands())
        if (auto weight = operand.get().getDefiningOp<WeightOp>())
          if (auto parameter = symbols.lookup<ParameterOp>(weight.getParameter()))
            addUse(groups[parameter], operand, parameter.getTensorType().getElementType(), *chosen);
    });
    bool quantized = false;
    for (auto &[parameter, needs] : groups) {
      writeDown(symbols, parameter, needs);
      quantized |= llvm::any_of(needs, [](const Group &g) { return isa<QuantizedType>(g.need.storage); });
    }
    if (computeOf() && compute != "auto" && !quantized) {
      module.emitError("compute ")
          << compute << ": expected quantized weights (a quantized GGUF file, or --quantize=int8 or int4), got none";
      signalPassFailure();
    }
  }

private:
  LogicalResult checkOptions(ModuleOp module) {
    if (quantize != "none" && quantize != "int8" && quantize != "int4")
      return module.emitError(DEBUG_TYPE ": expected quantize none, int8 or int4, got '") << quantize << "'";
    if (quantize != "none" && dtype != "auto")
      return module.emitError(DEBUG_TYPE ": expected dtype auto with quantize, got '") << dtype << "'";
    if (compute != "auto" && compute != "f32" && !symbolizeCompute(compute))
      return module.emitError(DEBUG_TYPE ": expected compute auto, f32, int16 or int8, got '") << compute << "'";
    return success();
  }

  /// What products with quantized weights multiply; nothing: float32.
  std::optional<Compute> computeOf() const { return compute == "auto" ? Compute::Int16 : symbolizeCompute(compute); }

  /// How a matrix of elements of type `element` that `user` reads is stored.
  Type getStorage(Type element, Type chosen, Operation *user) {
    if (chosen || quantize == "none" || isa<QuantizedType>(element))
      return chosen ? chosen : element;
    // Embedding and output projection decide most about a model's quality, and the embedding is often both.
    bool inLayer = isa<LinearOp>(user) && user->getParentOfType<func::FuncOp>().getName() != forwardName;
    return QuantizedType::get(&getContext(), quantize == "int4" && inLayer ? Quantization::Q4_1 : Quantization::Q8_0);
  }

  /// Adds one use of a parameter to the group that shares its need.
  void addUse(SmallVector<Group> &groups, OpOperand &operand, Type element, Type chosen) {
    MLIRContext *context = &getContext();
    Type f32 = Float32Type::get(context), storage = getStorage(element, chosen, operand.getOwner());
    bool quantized = isa<QuantizedType>(storage);
    auto rows = PackedAttr::get(context, Layout::Rows, 1);
    Need need = {rows, f32, chosen != f32 ? chosen : Type()};
    Operation *user = operand.getOwner();
    auto linear = dyn_cast<LinearOp>(user);
    if (linear && llvm::is_contained(linear.getWeights(), operand.get()))
      need = {PackedAttr::get(context, linear.getGated() ? Layout::PanelPairs : Layout::Panels, getSegments(linear)),
              storage, Type(), quantized && computeOf() ? ComputeAttr::get(context, *computeOf()) : ComputeAttr()};
    else if (isa<EmbeddingOp>(user))
      need = {quantized ? PackedAttr::get(context, Layout::Panels, 1) : rows, storage, Type()};
    auto *group = llvm::find_if(groups, [&](const Group &g) { return g.need == need; });
    if (group == groups.end())
      group = &groups.emplace_back(Group{need, {}});
    group->operands.push_back(&operand);
  }

  /// Writes the decisions on `parameter` and, for each need beyond the first, on a copy of it.
  void writeDown(SymbolTable &symbols, ParameterOp parameter, SmallVector<Group> &groups) {
    // A tied embedding reads the matrix as the output projection does.
    auto *table =
        llvm::find_if(groups, [](const Group &g) { return isa<EmbeddingOp>(g.operands.front()->getOwner()); });
    auto *matrix = llvm::find_if(groups, [](const Group &g) { return isa<LinearOp>(g.operands.front()->getOwner()); });
    if (table != groups.end() && matrix != groups.end())
      groups.erase(table);
    for (Group &group : groups) {
      ParameterOp target = parameter;
      if (&group != &groups.front()) {
        target = cast<ParameterOp>(parameter->clone());
        symbols.insert(target, std::next(Block::iterator(parameter)));
        for (OpOperand *operand : group.operands) {
          OpBuilder builder(operand->get().getDefiningOp());
          auto weight = cast<WeightOp>(builder.clone(*operand->get().getDefiningOp()));
          weight.setParameter(target.getSymName());
          operand->set(weight);
        }
      }
      target->setAttr(layoutAttrName, group.need.layout);
      target->setAttr(storageAttrName, TypeAttr::get(group.need.storage));
      if (group.need.round)
        target->setAttr(roundAttrName, TypeAttr::get(group.need.round));
      if (group.need.compute)
        target->setAttr(computeAttrName, group.need.compute);
      std::string text;
      llvm::raw_string_ostream os(text);
      os << "@" << target.getSymName() << ": " << stringifyLayout(group.need.layout.getLayout()) << " of "
         << group.need.storage;
      if (group.need.layout.getSegments() > 1)
        os << ", sums over K in " << group.need.layout.getSegments() << " segments";
      if (group.need.compute)
        os << ", computed in " << stringifyCompute(group.need.compute.getValue());
      if (target != parameter)
        os << ", a copy of @" << parameter.getSymName() << " for another use";
      remark::passed(parameter.getLoc(), remark::RemarkOpts::name(DEBUG_TYPE).category("ingot")) << text;
    }
  }
};

} // namespace
