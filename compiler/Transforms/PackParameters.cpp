//===- PackParameters.cpp - Recipes that make the bytes that the target reads -------------------------------------===//
//
// Carries out what ingot-select-layout decided. Passes.td has IR before and after.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Transforms/Passes.h"
#include "compiler/Transforms/Recipes.h"

#define DEBUG_TYPE "ingot-pack-parameters"

using namespace mlir;
using namespace ingot;

namespace ingot {
#define GEN_PASS_DEF_PACKPARAMETERSPASS
#include "compiler/Transforms/Passes.h.inc"
} // namespace ingot

namespace {

struct PackParameters : ingot::impl::PackParametersPassBase<PackParameters> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::StringMap<Type> types;
    llvm::StringMap<ComputeAttr> computes;
    for (auto parameter : llvm::make_early_inc_range(module.getOps<ParameterOp>())) {
      auto layout = parameter->getAttrOfType<PackedAttr>(layoutAttrName);
      auto storage = parameter->getAttrOfType<TypeAttr>(storageAttrName);
      if (!layout || !storage)
        continue;
      StringAttr name = parameter.getSymNameAttr(); // pack erases the parameter
      computes[name] = parameter->getAttrOfType<ComputeAttr>(computeAttrName);
      types[name] = pack(parameter, layout, storage.getValue());
    }
    module.walk([&](WeightOp weight) {
      if (Type type = types.lookup(weight.getParameter()))
        weight.getResult().setType(cast<RankedTensorType>(type));
    });
    module.walk([&](LinearOp linear) {
      for (Value value : linear.getWeights())
        if (auto weight = value.getDefiningOp<WeightOp>())
          if (ComputeAttr compute = computes.lookup(weight.getParameter()))
            linear.setComputeAttr(compute);
    });
  }

private:
  /// Gives `parameter` a recipe that ends in `layout`, with elements of type `storage`. Returns its new type.
  RankedTensorType pack(ParameterOp parameter, PackedAttr layout, Type storage) {
    Location location = parameter.getLoc();
    OpBuilder builder(parameter);
    auto packed = ParameterOp::create(builder, location, parameter.getSymName(), /*source=*/StringAttr(),
                                      parameter.getKindAttr(), parameter.getPart(), parameter.getType());
    builder.createBlock(&packed.getRecipe());
    Value value = buildTensor(builder, parameter);
    auto convert = [&](Type element) {
      auto type = cast<RankedTensorType>(value.getType());
      if (type.getElementType() != element)
        value = ConvertOp::create(builder, location, type.clone(element), value);
    };
    if (auto round = parameter->getAttrOfType<TypeAttr>(roundAttrName))
      convert(round.getValue());
    if (!isa<QuantizedType>(storage))
      convert(storage);
    else if (auto type = cast<RankedTensorType>(value.getType()); type.getElementType() != storage)
      value = QuantizeOp::create(builder, location, type.clone(storage), value);
    auto type = RankedTensorType::get(parameter.getTensorType().getShape(), storage, layout);
    value = PackOp::create(builder, location, type, value);
    YieldOp::create(builder, location, value);
    packed.setType(type);
    parameter.erase();
    return type;
  }
};

} // namespace
