//===- Kernels.cpp - The functions that a step is made of: what they share
//----------------------------------------===//

#include "compiler/Codegen/CPU/Kernels.h"
#include "compiler/Codegen/CPU/QuantizedLinear.h"
#include "ingot_rt/abi.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;
using namespace ingot::cpu;

static_assert(lanes == INGOT_RT_PANEL && lanes == INGOT_RT_KEY_TILE, "a vector's lanes are a panel's features");

/// Floats of input rows that a worker packs at once, at most: four megabytes. A block of K of them is what a level 2
/// cache has to keep; the more rows, the less often all weights are read.
static constexpr int64_t packedTarget = 1 << 20;

Kernels::Kernels(ModuleOp module, VectorUnit unit, DotUnit dots, int64_t largestK, int64_t maxContext)
    : module(module), unit(unit), registerTiles(chooseTiles(unit)), dots(dots), contextLimit(maxContext) {
  // See LinearEmitter for the order of the regions.
  std::vector<Tile> quantizedTiles = chooseQuantizedTiles(dots);
  packedFloats = std::max<int64_t>({std::min<int64_t>(packedTarget, floatBlockRows * (largestK + 2)),
                                    registerTiles.front().rows * (largestK + 2),
                                    quantizedTiles.front().rows * (largestK + quantizedBlock)});
  int64_t accumulators = 0;
  for (Tile tile : llvm::concat<Tile>(registerTiles, quantizedTiles))
    accumulators = std::max(accumulators, tile.rows * std::max<int64_t>(tile.panels, 2) * lanes);
  widenedStart = packedFloats + std::max<int64_t>(accumulators * INGOT_RT_K_SEGMENTS, blockFloats);
  argmaxStart = widenedStart + widenedK * lanes;
  reserveScratch(argmaxStart + maxBlockRows * 2 * (lanes + 1));
}

void Kernels::call(Emitter &e, StringRef name, ArrayRef<Value> arguments,
                   function_ref<void(Emitter &, ValueRange)> body) {
  auto function = module.lookupSymbol<func::FuncOp>(name);
  if (!function) {
    auto type = e.getFunctionType(TypeRange(ValueRange(arguments)), {});
    Emitter outer(e.getLoc(), module.getContext());
    outer.setInsertionPointToEnd(module.getBody());
    function = func::FuncOp::create(outer, name, type);
    function.setPrivate();
    Emitter inner(e.getLoc(), module.getContext());
    inner.setInsertionPointToStart(function.addEntryBlock());
    body(inner, function.getArguments());
    func::ReturnOp::create(inner);
  }
  func::CallOp::create(e, function, arguments);
}

void Kernels::barrier(Emitter &e, Value barrier, Ix worker) {
  StringRef name = "ingot_rt_barrier";
  auto function = module.lookupSymbol<func::FuncOp>(name);
  if (!function) {
    Emitter outer(e.getLoc(), module.getContext());
    outer.setInsertionPointToEnd(module.getBody());
    auto type = e.getFunctionType({LLVM::LLVMPointerType::get(e.getContext()), e.getI32Type()}, {});
    function = func::FuncOp::create(outer, name, type);
    function.setPrivate();
  }
  func::CallOp::create(e, function, ValueRange{barrier, e.toI32(worker)});
}

Ix Cache::headStart(Ix head) const { return (layer * kvHeads + head) * headElements(); }

int64_t CacheShape::keyElements() const { return INGOT_RT_CACHE_BLOCK * headDim; }

int64_t CacheShape::scaleStart(bool ofValues) const {
  return INGOT_RT_CACHE_BLOCK * (headDim + paddedHeadDim() + (ofValues ? 4 : 0));
}

int64_t CacheShape::headElements() const {
  return INGOT_RT_CACHE_BLOCK * (headDim + paddedHeadDim() + (hasScales() ? 8 : 0));
}

int64_t CacheShape::blockElements() const { return layers * kvHeads * headElements(); }
