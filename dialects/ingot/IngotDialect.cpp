//===- IngotDialect.cpp - Registration, types and attributes of the ingot dialect ---------------------------------===//

#include "dialects/ingot/Ingot.h"
#include "dialects/ingot/Quantization.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

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

/// The product of positive sizes; nothing when one is not positive or the product reaches maxElements.
static std::optional<int64_t> countElements(ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    if (size <= 0 || llvm::MulOverflow(product, size, product) || product >= maxElements)
      return std::nullopt;
  return product;
}

bool ingot::isActivationType(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getElementType().isF32() && tensor.getRank() == 2 && tensor.isDynamicDim(0) &&
         !tensor.isDynamicDim(1) && countElements(tensor.getDimSize(1)) && !tensor.getEncoding();
}

bool ingot::isFloatElement(Type type) { return type.isF32() || type.isBF16() || type.isF16(); }

bool ingot::isParameterType(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() || tensor.getRank() < 1 || tensor.getRank() > 3)
    return false;
  Type element = tensor.getElementType();
  if (const QuantizedFormat *format = getQuantizedFormat(element)) {
    // Blocks with a header are never partly filled.
    if (tensor.getRank() < 2 || (format->hasHeader() && tensor.getShape().back() % format->unit != 0))
      return false;
  } else if (!isFloatElement(element)) {
    return false;
  }
  return countElements(tensor.getShape()).has_value();
}

LogicalResult IngotDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() != modelAttrName)
    return success();
  if (!isa<ModuleOp>(op) || !isa<ModelAttr>(attribute.getValue()))
    return op->emitOpError() << "expected " << modelAttrName << " to be a #ingot.model of a module, got "
                             << attribute.getValue();
  return success();
}

LogicalResult KVCacheType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t layers, int64_t kvHeads,
                                  int64_t headDim, Type elementType) {
  if (!countElements({layers, kvHeads, headDim}))
    return emitError() << "kv_cache sizes must be positive and their product less than 2^48, got " << layers << " x "
                       << kvHeads << " x " << headDim;
  if (!isFloatElement(elementType) && !elementType.isSignlessInteger(8))
    return emitError() << "kv_cache element type must be f32, f16, bf16 or i8, got " << elementType;
  return success();
}

LogicalResult RunAttr::verify(function_ref<InFlightDiagnostic()> emitError, FlatSymbolRefAttr, int64_t first,
                              int64_t count) {
  if (first < 0 || count <= 0 || first >= maxElements || count >= maxElements)
    return emitError() << "a run needs first >= 0 and count > 0, both less than 2^48, got first = " << first
                       << ", count = " << count;
  return success();
}

LogicalResult ModelAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringAttr, StringAttr architecture,
                                int64_t vocab, int64_t hidden, int64_t intermediate, int64_t heads, int64_t maxContext,
                                int64_t maxBatch, int64_t maxStepTokens) {
  if (architecture.empty())
    return emitError() << "a model needs an architecture, got an empty name";
  const std::pair<StringRef, int64_t> sizes[] = {
      {"vocab", vocab},           {"hidden", hidden},     {"intermediate", intermediate},  {"heads", heads},
      {"maxContext", maxContext}, {"maxBatch", maxBatch}, {"maxStepTokens", maxStepTokens}};
  for (auto [name, size] : sizes)
    if (size <= 0)
      return emitError() << name << " must be positive, got " << size;
  return success();
}

LogicalResult PackedAttr::verify(function_ref<InFlightDiagnostic()> emitError, Layout layout, int64_t segments) {
  if (segments <= 0 || (layout == Layout::Rows && segments != 1))
    return emitError() << "segments must be positive, and 1 in layout rows, got " << segments;
  return success();
}

LogicalResult PackedAttr::verifyEncoding(ArrayRef<int64_t> shape, Type element,
                                         function_ref<InFlightDiagnostic()> emitError) const {
  if (getLayout() == Layout::Rows && isa<QuantizedType>(element))
    return emitError() << "a quantized type is packed in panels, got layout rows";
  if (getLayout() == Layout::Panels && shape.size() != 2)
    return emitError() << "layout panels is one of a matrix, got a tensor of rank " << shape.size();
  if (getLayout() == Layout::PanelPairs && (shape.size() != 3 || shape[0] != 2))
    return emitError() << "layout panel_pairs is one of two matrices, tensor<2xNxK>, got rank " << shape.size()
                       << (shape.empty() ? "" : " and first size ")
                       << (shape.empty() ? std::string() : std::to_string(shape[0]));
  return success();
}
