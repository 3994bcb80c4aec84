//===- ModelLayout.cpp - Where parameters lie, and the table of a step's ops
//--------------------------------------===//
//
// See ModelLayout.h. Everything here is arithmetic on types: no tensor is read.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Conversion/ModelLayout.h"
#include "dialects/ingot/Quantization.h"
#include "ingot_rt/abi.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/CheckedArithmetic.h"

using namespace mlir;
using namespace ingot;

/// The enum ingot_rt_dtype of an element type.
static uint32_t dtypeOf(Type type) {
  if (auto quantized = dyn_cast<QuantizedType>(type))
    return INGOT_RT_Q8_0 + static_cast<uint32_t>(quantized.getKind());
  if (type.isF32())
    return INGOT_RT_F32;
  return type.isBF16() ? INGOT_RT_BF16 : INGOT_RT_F16;
}

/// The product of `factors`, or nothing if it exceeds 64 bits.
static std::optional<uint64_t> product(std::initializer_list<uint64_t> factors) {
  uint64_t result = 1;
  for (uint64_t factor : factors) {
    std::optional<uint64_t> next = llvm::checkedMulUnsigned(result, factor);
    if (!next)
      return std::nullopt;
    result = *next;
  }
  return result;
}

/// `value` rounded up to a multiple of `unit`, or nothing if it exceeds 64
/// bits.
static std::optional<uint64_t> roundUp(uint64_t value, uint64_t unit) {
  std::optional<uint64_t> sum = llvm::checkedAddUnsigned<uint64_t>(value, unit - 1);
  return sum ? std::optional<uint64_t>(*sum / unit * unit) : std::nullopt;
}

/// The layers of each kind, from the attribute of a converted module or from
/// the runs of `ingot.layers`.
static llvm::StringMap<uint64_t> countLayers(ModuleOp module) {
  llvm::StringMap<uint64_t> counts;
  if (auto attr = module->getAttrOfType<ArrayAttr>(parametersAttrName)) {
    llvm::StringMap<uint64_t> ofParameter;
    for (auto row : attr.getAsRange<DictionaryAttr>())
      ofParameter[cast<StringAttr>(row.get("name")).getValue()] = cast<IntegerAttr>(row.get("count")).getInt();
    for (auto parameter : module.getOps<ParameterOp>())
      if (parameter.getKind())
        counts[*parameter.getKind()] = ofParameter.lookup(parameter.getSymName());
    return counts;
  }
  module.walk([&](LayersOp layers) {
    for (auto run : layers.getRuns().getAsRange<RunAttr>())
      counts[run.getKind().getValue()] += run.getCount();
  });
  return counts;
}

/// Fills in everything but the offset. Fails where a size exceeds 64 bits.
static LogicalResult measure(ParameterLayout &layout) {
  RankedTensorType type = layout.op.getTensorType();
  auto packed = dyn_cast_or_null<PackedAttr>(type.getEncoding());
  layout.dtype = dtypeOf(type.getElementType());
  layout.layout = INGOT_RT_ROWS;
  layout.columns = type.getShape().back();
  layout.rows = type.getRank() == 1 ? 1 : type.getDimSize(type.getRank() - 2);
  const QuantizedFormat *quantized = getQuantizedFormat(type.getElementType());
  uint64_t matrices = type.getRank() == 3 ? type.getDimSize(0) : 1, group = ingot_rt_k_group(layout.dtype);
  // Of a quantized matrix, panels of one unit each.
  uint64_t size = quantized ? quantized->unitBytes() / INGOT_RT_PANEL : ingot_rt_dtype_size(layout.dtype);
  std::optional<uint64_t> elements = product({matrices, layout.rows, layout.columns});
  std::optional<uint64_t> stored = elements;
  if (packed && packed.getLayout() != Layout::Rows) {
    bool pairs = packed.getLayout() == Layout::PanelPairs;
    layout.layout = pairs ? INGOT_RT_PANEL_PAIRS : INGOT_RT_PANELS;
    layout.segments = packed.getSegments();
    std::optional<uint64_t> features = roundUp(layout.rows, INGOT_RT_PANEL), k = roundUp(layout.columns, group);
    if (quantized)
      k = quantized->units(type.getShape().back());
    stored = features && k ? product({matrices, *features, *k}) : std::nullopt;
  } else if (type.getRank() == 3) {
    layout.rows *= matrices;
  }
  if (!stored || !elements)
    return failure();
  std::optional<uint64_t> bytes = product({*stored, size});
  std::optional<uint64_t> stride = bytes ? roundUp(*bytes, INGOT_RT_PARAMETER_ALIGNMENT) : std::nullopt;
  std::optional<uint64_t> all = stride ? product({*stride, layout.count}) : std::nullopt;
  std::optional<uint64_t> parameters = product({*elements, layout.count});
  if (!all || !parameters)
    return failure();
  layout.layerBytes = *bytes;
  layout.layerStride = *stride;
  layout.parameters = *parameters;
  return success();
}

FailureOr<ParameterTable> ingot::computeParameterTable(ModuleOp module) {
  ParameterTable table;
  llvm::StringMap<uint64_t> layersOf = countLayers(module);
  for (auto parameter : module.getOps<ParameterOp>()) {
    ParameterLayout layout;
    layout.op = parameter;
    layout.count = parameter.getKind() ? layersOf.lookup(*parameter.getKind()) : 1;
    if (layout.count == 0) {
      parameter.emitOpError("expected its kind to be among the runs of ingot.layers, got @") << *parameter.getKind();
      return failure();
    }
    layout.offset = table.weightsBytes;
    std::optional<uint64_t> end;
    if (succeeded(measure(layout)))
      end = llvm::checkedAddUnsigned(table.weightsBytes, layout.layerStride * layout.count);
    if (!end) {
      parameter.emitOpError("expected parameters of less than 2^64 bytes, got ")
          << parameter.getType() << " for " << layout.count << " layers after " << table.weightsBytes << " bytes";
      return failure();
    }
    table.weightsBytes = *end;
    table.parameters.push_back(layout);
  }
  return table;
}

const ParameterLayout *ParameterTable::find(StringRef name) const {
  for (const ParameterLayout &layout : parameters)
    if (ParameterOp(layout.op).getSymName() == name)
      return &layout;
  return nullptr;
}

ArrayAttr ParameterTable::toAttr(MLIRContext *context) const {
  Builder builder(context);
  SmallVector<Attribute> rows;
  for (const ParameterLayout &layout : parameters)
    rows.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr("name", builder.getStringAttr(ParameterOp(layout.op).getSymName())),
         builder.getNamedAttr("offset", builder.getI64IntegerAttr(layout.offset)),
         builder.getNamedAttr("stride", builder.getI64IntegerAttr(layout.layerStride)),
         builder.getNamedAttr("count", builder.getI64IntegerAttr(layout.count))}));
  return builder.getArrayAttr(rows);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Ops
//===--------------------------------------------------------------------------------------------------------------===//

/// Features of an activation, or 0 of what is none.
static uint64_t features(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() == 2 && type.isDynamicDim(0) ? type.getDimSize(1) : 0;
}

bool ingot::isPerRow(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (isa<SelectRowsOp>(op))
      return true;
    auto input = llvm::find_if(op->getOperands(), [](Value operand) { return features(operand) != 0; });
    if (input == op->getOperands().end())
      return false;
    value = *input;
  }
  return false;
}

/// Floating-point operations of one row of `op`; a fused multiply-add counts as
/// two.
static uint64_t flopsOf(Operation *op, uint64_t columns) {
  if (auto linear = dyn_cast<LinearOp>(op)) {
    uint64_t flops = 0, extras = linear.getBiases().size() + (linear.getResidual() ? 1 : 0);
    for (Value weight : linear.getWeights())
      flops += 2 * cast<RankedTensorType>(weight.getType()).getNumElements();
    return flops + columns * (extras + (linear.getGated() ? 5 : 0));
  }
  if (isa<RMSNormOp>(op))
    return 4 * columns;
  if (isa<AddRMSNormOp>(op))
    return 5 * columns;
  if (isa<RopeOp>(op))
    return 3 * columns;
  if (auto fused = dyn_cast<QKNormRopeAppendOp>(op))
    return (fused.getQNorm() ? 7 : 3) * (columns + features(fused.getKey()));
  if (isa<AddOp, MulOp>(op))
    return columns;
  if (isa<SiLUOp>(op))
    return 4 * columns;
  return isa<GatedActOp>(op) ? 5 * columns : 0;
}

/// The parameter that names an op: the first weight that it reads, or nothing.
static StringRef parameterOf(Operation *op) {
  if (!isa<LinearOp, RMSNormOp, AddRMSNormOp, EmbeddingOp>(op))
    return {};
  for (Value operand : op->getOperands())
    if (auto weight = operand.getDefiningOp<WeightOp>())
      return weight.getParameter();
  return {};
}

/// Bytes of the parameters that a step's `op` reads whole, in one layer.
static uint64_t bytesOf(Operation *op, const ParameterTable &parameters) {
  uint64_t bytes = 0;
  if (isa<EmbeddingOp>(op)) // it reads a row for each token
    return 0;
  for (Value operand : op->getOperands())
    if (auto weight = operand.getDefiningOp<WeightOp>())
      if (const ParameterLayout *layout = parameters.find(weight.getParameter()))
        bytes += layout->layerBytes;
  return bytes;
}

StepOpTable ingot::computeStepOpTable(ModuleOp module, const ParameterTable &parameters) {
  StepOpTable table;
  llvm::StringMap<unsigned> uses;
  for (auto function : module.getOps<func::FuncOp>()) {
    bool inLayer = function.getSymName() != forwardName;
    function.walk([&](Operation *op) {
      bool activations = llvm::any_of(op->getOperands(), [](Value v) { return features(v) != 0; }) ||
                         llvm::any_of(op->getResults(), [](Value v) { return features(v) != 0; });
      if (!activations || isa<SplitOp, LayersOp>(op) || op->hasTrait<OpTrait::IsTerminator>())
        return;
      StepOp row;
      row.op = op;
      row.kind = op->getName().stripDialect();
      row.inLayer = inLayer;
      StringRef parameter = parameterOf(op);
      // A layer's parameters carry its kind's name already.
      row.name = parameter.empty() ? (function.getSymName() + "." + row.kind).str() : parameter.str();
      if (unsigned earlier = uses[row.name]++)
        row.name += "_" + std::to_string(earlier + 1);
      row.columns = op->getNumResults() ? features(op->getResults().back()) : 0;
      row.bytes = bytesOf(op, parameters);
      row.perRow = op->getNumResults() && isPerRow(op->getResult(0));
      (row.perRow ? row.flopsPerRow : row.flopsPerToken) = flopsOf(op, row.columns);
      if (isa<AttentionOp>(op))
        row.flopsPerContext = 4 * static_cast<uint64_t>(row.columns);
      table.numbers[op] = table.ops.size();
      table.ops.push_back(std::move(row));
    });
  }
  return table;
}

ArrayAttr StepOpTable::toAttr(MLIRContext *context) const {
  Builder builder(context);
  SmallVector<Attribute> rows;
  for (const StepOp &row : ops)
    rows.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr("name", builder.getStringAttr(row.name)),
         builder.getNamedAttr("kind", builder.getStringAttr(row.kind)),
         builder.getNamedAttr("bytes", builder.getI64IntegerAttr(row.bytes)),
         builder.getNamedAttr("flops_per_token", builder.getI64IntegerAttr(row.flopsPerToken)),
         builder.getNamedAttr("flops_per_row", builder.getI64IntegerAttr(row.flopsPerRow)),
         builder.getNamedAttr("flops_per_context", builder.getI64IntegerAttr(row.flopsPerContext)),
         builder.getNamedAttr("columns", builder.getI64IntegerAttr(row.columns)),
         builder.getNamedAttr("in_layer", builder.getBoolAttr(row.inLayer))}));
  return builder.getArrayAttr(rows);
}
