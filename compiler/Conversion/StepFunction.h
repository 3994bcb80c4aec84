//===- StepFunction.h - What every way of lowering a step has in common -------------------------------------------===//
//
// A function of the packed model becomes a function with the arguments of StepArguments.h. Where its activations,
// weights, tables and the cache lie, how the layers are called and what a hook is shown does not depend on who
// computes; what an op becomes does: a call that each worker makes (convert-ingot-to-loops), or a launch
// (convert-ingot-to-gpu).
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_CONVERSION_STEPFUNCTION_H
#define INGOT_COMPILER_CONVERSION_STEPFUNCTION_H

#include "compiler/Codegen/CPU/Kernels.h"
#include "compiler/Conversion/ModelLayout.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/MapVector.h"

namespace ingot {

/// What a lowering knows of the whole model.
struct StepPlan {
  mlir::ModuleOp module;
  ParameterTable parameters;
  StepOpTable ops;
  /// Bytes of the arena, rotary tables included.
  int64_t base = 0, perToken = 0, perRow = 0;
  /// Bytes per token before each rotary's table.
  llvm::MapVector<mlir::StringAttr, int64_t> rotaryTables;
  KVCacheType cache;
  int64_t maxContext = 1;
};

/// Plans the step of a packed model. Emits an error where `module` is none.
mlir::FailureOr<StepPlan> planStep(mlir::ModuleOp module);

/// Replaces the model's functions by declarations of the kinds (parameters name them), takes the rotaries away and sets
/// the module's attributes. `perWorker`: bytes of the arena for each worker.
void finishStep(const StepPlan &plan, int64_t perWorker);

/// Where an activation lies: one row for each token or selected row.
struct Place {
  bool perRow = false;
  /// Bytes per token or row before it, bytes of a row, floats of a row before the first feature.
  int64_t offset = 0, rowBytes = 0, column = 0;
  /// The logits go to the caller's memory.
  bool logits = false;
};

/// Whether `value` is a row for each token or selected row.
bool isActivation(mlir::Value value);
inline int64_t features(mlir::Value value) { return mlir::cast<mlir::RankedTensorType>(value.getType()).getDimSize(1); }

/// Emits the function of one function of the model.
class StepFunction {
public:
  /// `target` receives the function; that of a layer gets `source`'s name.
  StepFunction(const StepPlan &plan, mlir::ModuleOp target, mlir::func::FuncOp source);
  virtual ~StepFunction() = default;

  mlir::LogicalResult emit();

protected:
  using Ix = cpu::Ix;

  /// Memory, and how many elements of it the activation (or weight, table, cache) may touch.
  struct View {
    mlir::Value memory;
    Ix count;
  };

  /// Of the forward function: the tables of cosines and sines of the step's tokens.
  virtual void emitRotaryTables() = 0;
  /// An op with a number, whose activations are placed.
  virtual mlir::LogicalResult emitOp(mlir::Operation *op) = 0;
  virtual void beforeLayers() {}
  virtual void atEnd() {}

  mlir::Value argument(llvm::StringRef name) const;
  Ix count(llvm::StringRef name) { return e.ix(argument(name)); }
  /// The value of an operand of type index: a constant, or an argument of a layer's function.
  Ix index(mlir::Value value) { return e.ix(indices.lookup(value)); }
  /// i32: an op's number, and the number of the layer or -1.
  mlir::Value opNumber(mlir::Operation *op);
  mlir::Value layer() { return layerNumber ? e.toI32(e.ix(layerNumber)) : e.i32(-1); }

  const Place &placeOf(mlir::Value activation) const { return places.find(activation)->second; }
  Ix rowsOf(mlir::Value activation) { return count(placeOf(activation).perRow ? "row_count" : "token_count"); }
  /// From the first row's first feature to the end of the last row's features; floats between rows.
  std::pair<View, Ix> rows(mlir::Value activation);
  /// The packed parameter that an `ingot.weight` reads; a quantized one as bytes.
  View weight(mlir::Value value);
  RotaryOp rotaryOp(llvm::StringRef name);
  View rotaryTable(RotaryOp rotary);
  void describe(cpu::CacheShape &shape) const;
  View cacheMemory(const cpu::CacheShape &shape);
  /// How the weights of a linear with one packed weight lie. Emits an error for all others.
  mlir::FailureOr<cpu::LinearWeights> weightsOf(LinearOp op);
  cpu::AttentionShape shapeOf(AttentionOp op) const;

  /// A constant table in the target's module.
  mlir::Value constant(llvm::StringRef name, mlir::DenseElementsAttr values, int64_t alignment = 0);
  /// What a hook is shown of an op's last result: its address (null: there is none), rows, columns and stride.
  llvm::SmallVector<mlir::Value, 4> shown(mlir::Operation *op);
  /// Calls `hook` with its context, a worker's number, an op, a layer and what is shown, as indices where they are
  /// sizes.
  static void callHook(cpu::Emitter &e, mlir::Value hook, mlir::ValueRange operands);

  const StepPlan &plan;
  mlir::ModuleOp target;
  mlir::func::FuncOp source;
  const bool isForward;
  cpu::Emitter e;
  /// Which of the workers runs the function, and how many there are.
  Ix worker, workers;

private:
  void declare();
  void place(mlir::Operation *op);
  void emitLayers(LayersOp op);
  mlir::LogicalResult visit(mlir::Operation *op);

  llvm::StringMap<mlir::Value> arguments;
  /// Null outside layers.
  mlir::Value layerNumber;
  llvm::DenseMap<mlir::Value, mlir::Value> indices;
  llvm::DenseMap<mlir::Value, Place> places;
};

} // namespace ingot

#endif // INGOT_COMPILER_CONVERSION_STEPFUNCTION_H
