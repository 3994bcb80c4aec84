//===- Ingot.h - The ingot dialect for C++
//------------------------------------------------------------------------===//
//
// Everything that the rest of the compiler includes of the dialect: the dialect
// itself, enums, attributes, types, ops.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_DIALECTS_INGOT_INGOT_H
#define INGOT_DIALECTS_INGOT_INGOT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace ingot {
/// The memory of keys and values that `kv_append` writes and `attention` reads.
struct CacheResource : public mlir::SideEffects::Resource::Base<CacheResource> {
  llvm::StringRef getName() override { return "ingot.kv_cache"; }
};

/// The module's attribute that holds a `#ingot.model`.
inline constexpr llvm::StringLiteral modelAttrName = "ingot.model";
/// The function that computes logits from a batch: (!ingot.batch,
/// !ingot.kv_cache) -> tensor<?xVxf32>.
inline constexpr llvm::StringLiteral forwardName = "forward";

/// Elements that no tensor and no cache may reach: what is below can be multiplied by a size in bytes, by a number of
/// layers or of tokens without leaving 64 bits.
inline constexpr int64_t maxElements = int64_t(1) << 48;
/// True for tensor<?xNxf32> with N > 0.
bool isActivationType(mlir::Type type);
/// True for f32, bf16 and f16.
bool isFloatElement(mlir::Type type);
/// True for a static tensor of f32, bf16 or f16 with 1 to 3 dimensions, or of a quantized type with 2 or 3 (of one with
/// blocks of 256: rows of whole blocks), none of them 0, and few enough elements.
bool isParameterType(mlir::Type type);
} // namespace ingot

#include "dialects/ingot/IngotDialect.h.inc"
#include "dialects/ingot/IngotEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/ingot/IngotAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/ingot/IngotTypes.h.inc"
#define GET_OP_CLASSES
#include "dialects/ingot/IngotOps.h.inc"

#endif // INGOT_DIALECTS_INGOT_INGOT_H
