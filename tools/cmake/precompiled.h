// The MLIR headers that nearly every translation unit of the compiler includes, compiled once per library: they cost
// about five seconds each time otherwise. Sources still include what they use.
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/Error.h"
