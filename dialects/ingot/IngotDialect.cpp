//===- IngotDialect.cpp - Registration, types and attributes of the ingot dialect --------------------------------===//

#include "dialects/ingot/Ingot.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace ingot;

#include "dialects/ingot/IngotDialect.cpp.inc"
#include "dialects/ingot/IngotEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/ingot/IngotAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/ingot/IngotTypes.cpp.inc"

void IngotDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/ingot/IngotOps.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/ingot/IngotTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/ingot/IngotAttrs.cpp.inc"
      >();
}

LogicalResult KVCacheType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t layers, int64_t kvHeads,
                                  int64_t headDim, Type elementType) {
  if (layers <= 0 || kvHeads <= 0 || headDim <= 0)
    return emitError() << "kv_cache sizes must be positive, got " << layers << " x " << kvHeads << " x " << headDim;
  if (!elementType.isF32() && !elementType.isF16() && !elementType.isBF16())
    return emitError() << "kv_cache element type must be f32, f16 or bf16, got " << elementType;
  return success();
}

LogicalResult RunAttr::verify(function_ref<InFlightDiagnostic()> emitError, FlatSymbolRefAttr, int64_t first,
                              int64_t count) {
  if (first < 0 || count <= 0)
    return emitError() << "a run needs first >= 0 and count > 0, got first = " << first << ", count = " << count;
  return success();
}

LogicalResult PackedAttr::verify(function_ref<InFlightDiagnostic()> emitError, Layout layout, int64_t segments) {
  if (segments <= 0 || (layout == Layout::Rows && segments != 1))
    return emitError() << "segments must be positive, and 1 in layout rows, got " << segments;
  return success();
}
