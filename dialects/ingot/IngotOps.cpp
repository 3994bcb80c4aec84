//===- IngotOps.cpp - Verifiers, folders and canonicalizations of the ingot dialect -------------------------------===//
//
// A verifier's message starts with the label of the constraint in IngotOps.td that it checks.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "dialects/ingot/Ingot.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include <cmath>

using namespace mlir;
using namespace ingot;

/// custom<Word>: an enum attribute as its bare word. The generated printer of such an attribute writes a second blank.
template <typename EnumAttr>
static ParseResult parseWord(OpAsmParser &parser, EnumAttr &attribute) {
  auto value = FieldParser<decltype(attribute.getValue())>::parse(parser);
  if (failed(value))
    return failure();
  attribute = EnumAttr::get(parser.getContext(), *value);
  return success();
}

template <typename EnumAttr>
static void printWord(OpAsmPrinter &printer, Operation *, EnumAttr attribute) {
  printer << stringifyEnum(attribute.getValue());
}

/// A list of float32 in brackets. Dense arrays of MLIR print six digits, which would lose bits of a frequency on the
/// way through text; this prints as many as it takes.
static void printExactFloats(OpAsmPrinter &printer, Operation *, DenseF32ArrayAttr values) {
  printer << '[';
  llvm::interleaveComma(values.asArrayRef(), printer, [&](float value) { printer.printFloat(APFloat(value)); });
  printer << ']';
}

static ParseResult parseExactFloats(OpAsmParser &parser, DenseF32ArrayAttr &values) {
  SmallVector<float> elements;
  auto parseElement = [&]() -> ParseResult {
    APFloat value(0.0f);
    if (parser.parseFloat(value.getSemantics(), value))
      return failure();
    elements.push_back(value.convertToFloat());
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseElement))
    return failure();
  values = parser.getBuilder().getDenseF32ArrayAttr(elements);
  return success();
}

#define GET_OP_CLASSES
#include "dialects/ingot/IngotOps.cpp.inc"

/// Features of an activation: its second dimension.
static int64_t features(Value value) { return cast<RankedTensorType>(value.getType()).getDimSize(1); }

static RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Checks a norm's weight (C1) and epsilon (C2) against the features they apply to.
static LogicalResult verifyNorm(Operation *op, Value input, Value weight, const APFloat &eps) {
  RankedTensorType type = tensorType(weight);
  if (type.getRank() != 1 || features(input) % type.getDimSize(0) != 0)
    return op->emitOpError("C1: expected a weight vector whose length divides ") << features(input) << ", got " << type;
  if (!eps.isFinite() || eps.isNegative() || eps.isZero())
    return op->emitOpError("C2: expected a positive finite eps, got ") << eps.convertToFloat();
  return success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Parameters
//===--------------------------------------------------------------------------------------------------------------===//

Value ParameterOp::getYielded() {
  if (getRecipe().empty() || getRecipe().front().empty())
    return {};
  auto yield = dyn_cast<YieldOp>(getRecipe().front().back());
  return yield ? yield.getResult() : Value();
}

LogicalResult ParameterOp::verify() {
  bool hasRecipe = !getRecipe().empty();
  if (getSource().has_value() == hasRecipe)
    return emitOpError("C1: expected either a source or a recipe, got ") << (hasRecipe ? "both" : "neither");
  auto checkName = [&](StringRef name) -> LogicalResult {
    bool perLayer = name.contains("{layer}");
    if (perLayer == getKind().has_value())
      return success();
    return emitOpError("C2: expected a source ") << (getKind() ? "with" : "without") << " '{layer}' "
                                                 << (getKind() ? "in" : "outside") << " a kind, got '" << name << "'";
  };
  if (getSource()) {
    if (getTensorType().getEncoding())
      return emitOpError("C5: expected a type without encoding for a source, got ") << getType();
    return checkName(*getSource());
  }
  Value yielded = getYielded();
  if (!yielded)
    return emitOpError("C4: expected a recipe that ends with ingot.yield");
  if (yielded.getType() != getType())
    return emitOpError("C4: expected a recipe that yields ") << getType() << ", got " << yielded.getType();
  for (auto source : getRecipe().getOps<SourceOp>())
    if (failed(checkName(source.getName())))
      return failure();
  return success();
}

LogicalResult ParameterOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (getKind() && !symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, getKindAttr()))
    return emitOpError("C3: expected kind to name a function, got @") << *getKind();
  return success();
}

LogicalResult WeightOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto parameter = symbols.lookupNearestSymbolFrom<ParameterOp>(*this, getParameterAttr());
  if (!parameter)
    return emitOpError("C1: expected the name of a parameter, got @") << getParameter();
  if (parameter.getKind().has_value() != static_cast<bool>(getIndex()))
    return emitOpError("C2: expected ") << (parameter.getKind() ? "an index for a parameter of a kind"
                                                                : "no index for a parameter without kind");
  if (parameter.getType() != getType())
    return emitOpError("C3: expected result type ") << parameter.getType() << ", got " << getType();
  return success();
}

LogicalResult ConcatOp::verify() {
  if (getInputs().empty())
    return emitOpError("C1: expected at least one input");
  RankedTensorType first = tensorType(getInputs().front());
  SmallVector<int64_t> shape(first.getShape());
  shape[0] = 0;
  for (Value input : getInputs()) {
    RankedTensorType type = tensorType(input);
    if (type.getRank() != first.getRank() || type.getElementType() != first.getElementType() ||
        type.getShape().drop_front() != first.getShape().drop_front())
      return emitOpError("C1: expected inputs that differ in the first dimension only, got ")
             << first << " and " << type;
    shape[0] += type.getDimSize(0);
  }
  auto expected = RankedTensorType::get(shape, first.getElementType());
  if (getType() != expected)
    return emitOpError("C1: expected result type ") << expected << ", got " << getType();
  return success();
}

LogicalResult StackOp::verify() {
  if (getInputs().empty())
    return emitOpError("C1: expected at least one input");
  RankedTensorType first = tensorType(getInputs().front());
  for (Value input : getInputs())
    if (input.getType() != first)
      return emitOpError("C1: expected inputs of one type, got ") << first << " and " << input.getType();
  SmallVector<int64_t> shape = {static_cast<int64_t>(getInputs().size())};
  shape.append(first.getShape().begin(), first.getShape().end());
  auto expected = RankedTensorType::get(shape, first.getElementType());
  if (getType() != expected)
    return emitOpError("C1: expected result type ") << expected << ", got " << getType();
  return success();
}

OpFoldResult ConcatOp::fold(FoldAdaptor) { return getInputs().size() == 1 ? getInputs().front() : OpFoldResult(); }

LogicalResult ConcatOp::canonicalize(ConcatOp op, PatternRewriter &rewriter) {
  SmallVector<Value> inputs;
  for (Value input : op.getInputs())
    if (auto inner = input.getDefiningOp<ConcatOp>())
      llvm::append_range(inputs, inner.getInputs());
    else
      inputs.push_back(input);
  if (inputs.size() == op.getInputs().size())
    return rewriter.notifyMatchFailure(op, "no input is a concat of several tensors");
  rewriter.replaceOpWithNewOp<ConcatOp>(op, op.getType(), inputs);
  return success();
}

OpFoldResult ConvertOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  // T -> f32 -> T: float32 holds every value of the narrower types, so that rounding back changes nothing.
  auto inner = getInput().getDefiningOp<ConvertOp>();
  if (inner && inner.getInput().getType() == getType() && inner.getType().getElementType().isF32())
    return inner.getInput();
  return {};
}

LogicalResult ConvertOp::verify() {
  if (!isFloatElement(getType().getElementType()))
    return emitOpError("C1: expected a result of f32, bf16 or f16, got ") << getType();
  return success();
}

LogicalResult QuantizeOp::verify() {
  if (!isFloatElement(getInput().getType().getElementType()))
    return emitOpError("C1: expected an input of f32, bf16 or f16, got ") << getInput().getType();
  auto quantized = dyn_cast<QuantizedType>(getType().getElementType());
  if (!quantized || (quantized.getKind() != Quantization::Q8_0 && quantized.getKind() != Quantization::Q4_1))
    return emitOpError("C2: expected a result quantized as q8_0 or q4_1, got ") << getType();
  return success();
}

LogicalResult PackOp::verify() {
  RankedTensorType from = tensorType(getInput()), to = tensorType(getResult());
  if (from.getEncoding() || !isa_and_nonnull<PackedAttr>(to.getEncoding()) || from.getShape() != to.getShape() ||
      from.getElementType() != to.getElementType())
    return emitOpError("C1: expected the type ") << from << " with an encoding #ingot.packed, got " << to;
  return success();
}

LogicalResult RotaryOp::verify() {
  if (getLongInvFreq().has_value() != getLongFrom().has_value())
    return emitOpError("C1: expected long_inv_freq and long_from both or neither");
  if (getInvFreq().empty() || (getLongInvFreq() && getLongInvFreq()->size() != getInvFreq().size()))
    return emitOpError("C2: expected as many long_inv_freq as inv_freq, at least one, got ")
           << (getLongInvFreq() ? getLongInvFreq()->size() : 0) << " and " << getInvFreq().size();
  if (!getScaling().isFinite())
    return emitOpError("C3: expected a finite scaling, got ") << getScaling().convertToFloat();
  for (ArrayRef<float> frequencies : {getInvFreq(), getLongInvFreq().value_or(ArrayRef<float>())})
    for (float frequency : frequencies)
      if (!std::isfinite(frequency))
        return emitOpError("C3: expected finite frequencies, got ") << frequency;
  if (getLongFrom() && static_cast<int64_t>(*getLongFrom()) <= 0)
    return emitOpError("C4: expected a positive long_from, got ") << static_cast<int64_t>(*getLongFrom());
  return success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// The decoder
//===--------------------------------------------------------------------------------------------------------------===//

LogicalResult EmbeddingOp::verify() {
  RankedTensorType table = tensorType(getTable());
  if (table.getRank() != 2 || table.getDimSize(1) != features(getResult()))
    return emitOpError("C1: expected a table with ") << features(getResult()) << " columns, got " << table;
  return success();
}

LogicalResult LinearOp::verify() {
  if (getWeights().empty())
    return emitOpError("C1: expected at least one weight");
  int64_t rows = 0, inputs = features(getInput());
  SmallVector<int64_t> rowsOf;
  for (Value weight : getWeights()) {
    RankedTensorType type = tensorType(weight);
    bool pair = getGated() && getWeights().size() == 1 && type.getRank() == 3 && type.getDimSize(0) == 2;
    if ((type.getRank() != 2 && !pair) || type.getShape().back() != inputs)
      return emitOpError("C1: expected weights with ") << inputs << " columns, got " << type;
    if (pair)
      rowsOf.push_back(type.getDimSize(1));
    rowsOf.push_back(type.getDimSize(pair ? 1 : 0));
  }
  for (int64_t n : rowsOf)
    rows += n;
  if (getGated() && (rowsOf.size() != 2 || rowsOf[0] != rowsOf[1]))
    return emitOpError("C3: expected two weights of one shape for a gated product, got ") << getWeights().getTypes();
  if (getGated() && features(getResult()) != rowsOf[0])
    return emitOpError("C3: expected ") << rowsOf[0] << " features, got " << features(getResult());
  if (!getGated() && features(getResult()) != rows)
    return emitOpError("C4: expected ") << rows << " features, got " << features(getResult());
  if (!getBiases().empty()) {
    if (getBiases().size() != getWeights().size())
      return emitOpError("C2: expected no bias or one for each of ")
             << getWeights().size() << " weights, got " << getBiases().size();
    for (auto [bias, weight] : llvm::zip(getBiases(), getWeights()))
      if (tensorType(bias).getShape() != tensorType(weight).getShape().drop_back())
        return emitOpError("C2: expected a bias for the rows of ") << weight.getType() << ", got " << bias.getType();
  }
  if (getResidual() && getResidual().getType() != getType())
    return emitOpError("C5: expected a residual of type ") << getType() << ", got " << getResidual().getType();
  for (Value weight : getWeights())
    if (getCompute() && !isa<QuantizedType>(tensorType(weight).getElementType()))
      return emitOpError("C6: expected quantized weights for compute ")
             << stringifyCompute(*getCompute()) << ", got " << weight.getType();
  return success();
}

LogicalResult RMSNormOp::verify() { return verifyNorm(*this, getInput(), getWeight(), getEps()); }

/// Completes an error about the symbol `name` of a rotary, which is `found` or names none.
static LogicalResult emitRotaryError(InFlightDiagnostic error, StringRef name, RotaryOp found) {
  error << ", got @" << name;
  if (found)
    return error << " of head_dim " << found.getHeadDim();
  return error << ", which is none";
}

LogicalResult RopeOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto rotary = symbols.lookupNearestSymbolFrom<RotaryOp>(*this, getRotaryAttr());
  if (!rotary || features(getInput()) % rotary.getHeadDim() != 0)
    return emitRotaryError(emitOpError("C1: expected a rotary whose head_dim divides ") << features(getInput()),
                           getRotary(), rotary);
  return success();
}

/// Checks that keys have the cache's features and queries a multiple of them.
static LogicalResult verifyHeads(Operation *op, StringRef label, KVCacheType cache, Value query, Value key) {
  int64_t expected = cache.getKvHeads() * cache.getHeadDim();
  if (key && features(key) != expected)
    return op->emitOpError(label) << ": expected keys and values of " << expected << " features, got " << features(key);
  if (query && features(query) % expected != 0)
    return op->emitOpError(label) << ": expected queries of a multiple of " << expected << " features, got "
                                  << features(query);
  return success();
}

LogicalResult KVAppendOp::verify() { return verifyHeads(*this, "C1", getCache().getType(), Value(), getKey()); }

LogicalResult AttentionOp::verify() {
  if (failed(verifyHeads(*this, "C1", getCache().getType(), getQuery(), Value())))
    return failure();
  if (getWindow() && static_cast<int64_t>(*getWindow()) <= 0)
    return emitOpError("C2: expected a positive window, got ") << static_cast<int64_t>(*getWindow());
  if (!getScale().isFinite())
    return emitOpError("C3: expected a finite scale, got ") << getScale().convertToFloat();
  return success();
}

LogicalResult SplitOp::verify() {
  int64_t sum = 0;
  for (Value part : getParts())
    sum += features(part);
  if (sum != features(getInput()))
    return emitOpError("C1: expected parts of ") << features(getInput()) << " features together, got " << sum;
  return success();
}

LogicalResult SplitOp::canonicalize(SplitOp op, PatternRewriter &rewriter) {
  if (op.getParts().size() != 1)
    return rewriter.notifyMatchFailure(op, "more than one part");
  rewriter.replaceOp(op, op.getInput());
  return success();
}

LogicalResult LayersOp::verifySymbolUses(SymbolTableCollection &symbols) {
  int64_t layers = 0;
  llvm::StringMap<int64_t> next;
  Type index = IndexType::get(getContext());
  auto expected = FunctionType::get(
      getContext(), {getInput().getType(), getBatch().getType(), getCache().getType(), index, index}, {getType()});
  for (auto run : getRuns().getAsRange<RunAttr>()) {
    auto kind = symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, run.getKind());
    if (!kind || kind.getFunctionType() != expected)
      return emitOpError("C1: expected a function of type ") << expected << ", got " << run.getKind();
    int64_t &first = next[run.getKind().getValue()];
    if (run.getFirst() != first)
      return emitOpError("C3: expected the run of ")
             << run.getKind() << " to start at " << first << ", got " << run.getFirst();
    first += run.getCount();
    layers += run.getCount();
  }
  if (layers != getCache().getType().getLayers())
    return emitOpError("C2: expected ") << getCache().getType().getLayers() << " layers, got " << layers;
  return success();
}

LogicalResult LayersOp::canonicalize(LayersOp op, PatternRewriter &rewriter) {
  SmallVector<Attribute> merged;
  for (auto run : op.getRuns().getAsRange<RunAttr>()) {
    auto last = merged.empty() ? RunAttr() : cast<RunAttr>(merged.back());
    // C3 makes the second run of a kind start where the first one ends.
    if (last && last.getKind() == run.getKind())
      merged.back() = RunAttr::get(run.getContext(), run.getKind(), last.getFirst(), last.getCount() + run.getCount());
    else
      merged.push_back(run);
  }
  if (merged.size() == op.getRuns().size())
    return rewriter.notifyMatchFailure(op, "no two runs of one kind follow each other");
  rewriter.modifyOpInPlace(op, [&] { op.setRunsAttr(rewriter.getArrayAttr(merged)); });
  return success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Fused forms
//===--------------------------------------------------------------------------------------------------------------===//

LogicalResult AddRMSNormOp::verify() { return verifyNorm(*this, getInput(), getWeight(), getEps()); }

LogicalResult QKNormRopeAppendOp::verify() {
  KVCacheType cache = getCache().getType();
  bool norms = static_cast<bool>(getQNorm());
  if (norms != static_cast<bool>(getKNorm()) || norms != getEps().has_value())
    return emitOpError("C1: expected q_norm, k_norm and eps all or none");
  for (Value norm : {getQNorm(), getKNorm()})
    if (norm && (tensorType(norm).getRank() != 1 || tensorType(norm).getDimSize(0) != cache.getHeadDim()))
      return emitOpError("C1: expected norms of ") << cache.getHeadDim() << " elements, got " << norm.getType();
  if (getEps() && (!getEps()->isFinite() || getEps()->isNegative() || getEps()->isZero()))
    return emitOpError("C4: expected a positive finite eps, got ") << getEps()->convertToFloat();
  return verifyHeads(*this, "C3", cache, getQuery(), getKey());
}

LogicalResult QKNormRopeAppendOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto rotary = symbols.lookupNearestSymbolFrom<RotaryOp>(*this, getRotaryAttr());
  if (!rotary || rotary.getHeadDim() != getCache().getType().getHeadDim())
    return emitRotaryError(emitOpError("C2: expected a rotary of head_dim ") << getCache().getType().getHeadDim(),
                           getRotary(), rotary);
  return success();
}
