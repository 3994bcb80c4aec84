//===- StepFunction.cpp - What every way of lowering a step has in common -----------------------------------------===//
//
// See StepFunction.h.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Conversion/StepFunction.h"
#include "compiler/Conversion/StepArguments.h"
#include "dialects/ingot/Quantization.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace ingot {

using cpu::lanes;

static int64_t roundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

//===--------------------------------------------------------------------------------------------------------------===//
// The model
//===--------------------------------------------------------------------------------------------------------------===//

FailureOr<StepPlan> planStep(ModuleOp module) {
  StepPlan plan;
  plan.module = module;
  auto forward = module.lookupSymbol<func::FuncOp>(forwardName);
  auto arena = module->getAttrOfType<DictionaryAttr>(arenaAttrName);
  auto model = module->getAttrOfType<ModelAttr>(modelAttrName);
  if (!forward || !arena || !model)
    return module.emitError("expected a packed model: a function @")
           << forwardName << " and the attributes '" << arenaAttrName << "' and '" << modelAttrName << "'";
  Operation *end = forward.getBody().front().getTerminator();
  if (end->getNumOperands() != 1 || !isStepResult(end->getOperand(0)))
    return forward.emitError("expected @")
           << forwardName << " to return the result of an ingot.linear that has no other use";
  plan.maxContext = model.getMaxContext();
  plan.cache = cast<KVCacheType>(forward.getArgument(1).getType());
  auto number = [&](StringRef name) {
    auto attr = arena.getAs<IntegerAttr>(name);
    return attr ? attr.getInt() : 0;
  };
  plan.base = number("base");
  plan.perToken = number("per_token");
  plan.perRow = number("per_row");
  FailureOr<ParameterTable> parameters = computeParameterTable(module);
  if (failed(parameters))
    return failure();
  plan.parameters = std::move(*parameters);
  plan.ops = computeStepOpTable(module, plan.parameters);
  for (auto rotary : module.getOps<RotaryOp>()) {
    plan.rotaryTables[rotary.getSymNameAttr()] = plan.perToken;
    plan.perToken += 2 * cpu::Rotary::halfPadded(rotary.getHeadDim()) * 4;
  }
  return plan;
}

void finishStep(const StepPlan &plan, int64_t perWorker) {
  ModuleOp module = plan.module;
  Builder builder(module.getContext());
  module->setAttr(parametersAttrName, plan.parameters.toAttr(module.getContext()));
  module->setAttr(opsAttrName, plan.ops.toAttr(module.getContext()));
  auto number = [&](StringRef name, int64_t value) {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
  };
  module->setAttr(arenaAttrName,
                  builder.getDictionaryAttr({number("base", plan.base), number("per_token", plan.perToken),
                                             number("per_row", plan.perRow), number("per_worker", perWorker)}));
  for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
    if (function.getSymName() == forwardName) {
      function.erase();
      continue;
    }
    function.eraseBody();
    function.setType(builder.getFunctionType({}, {}));
    function->removeAttr(arenaArgsAttrName);
    function.setPrivate();
  }
  for (auto rotary : llvm::make_early_inc_range(module.getOps<RotaryOp>()))
    rotary.erase();
}

//===--------------------------------------------------------------------------------------------------------------===//
// A function and its arguments
//===--------------------------------------------------------------------------------------------------------------===//

StepFunction::StepFunction(const StepPlan &plan, ModuleOp target, func::FuncOp source)
    : plan(plan), target(target), source(source), isForward(source.getSymName() == forwardName),
      e(source.getLoc(), source.getContext()) {}

static Type typeOf(cpu::Emitter &e, StepArgumentKind kind) {
  switch (kind) {
  case StepArgumentKind::Bytes:
    return e.bytes();
  case StepArgumentKind::Ints:
    return e.ints();
  case StepArgumentKind::Longs:
    return e.memref(e.getI64Type());
  case StepArgumentKind::Floats:
    return e.floats();
  case StepArgumentKind::Index:
    return e.getIndexType();
  case StepArgumentKind::Int:
    return e.getI32Type();
  case StepArgumentKind::Pointer:
    return LLVM::LLVMPointerType::get(e.getContext());
  }
  llvm_unreachable("an argument is of one of these kinds");
}

void StepFunction::declare() {
  SmallVector<Type> types;
  for (const StepArgument &step : stepArguments)
    types.push_back(typeOf(e, step.kind));
  types.append(isForward ? 2 : 4, e.getIndexType());
  e.setInsertionPointToEnd(target.getBody());
  auto function =
      func::FuncOp::create(e, isForward ? StringRef(stepName) : source.getSymName(), e.getFunctionType(types, {}));
  if (!isForward)
    function.setPrivate();
  Block *entry = function.addEntryBlock();
  e.setInsertionPointToStart(entry);
  size_t next = 0;
  for (const StepArgument &step : stepArguments)
    arguments[step.name] = entry->getArgument(next++);
  worker = e.ix(entry->getArgument(next++));
  workers = e.ix(entry->getArgument(next++));
  if (!isForward) {
    indices[source.getArgument(3)] = entry->getArgument(next++);
    layerNumber = indices[source.getArgument(4)] = entry->getArgument(next++);
  }
}

Value StepFunction::argument(StringRef name) const {
  assert(arguments.contains(name) && "no such argument of a step");
  return arguments.lookup(name);
}

Value StepFunction::opNumber(Operation *op) {
  auto number = plan.ops.numbers.find(op);
  assert(number != plan.ops.numbers.end() && "every op that computes has a number");
  return e.i32(number->second);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Memory
//===--------------------------------------------------------------------------------------------------------------===//

bool isActivation(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() == 2 && type.isDynamicDim(0);
}

void StepFunction::place(Operation *op) {
  if (auto split = dyn_cast<SplitOp>(op)) {
    Place part = placeOf(split.getInput());
    for (Value result : split.getParts()) {
      places[result] = part;
      part.column += features(result);
    }
    return;
  }
  auto offsets = op->getAttrOfType<DenseI64ArrayAttr>(arenaAttrName);
  size_t next = 0;
  for (Value result : op->getResults()) {
    if (!isActivation(result))
      continue;
    Place where;
    where.perRow = isPerRow(result);
    where.rowBytes = roundUp(features(result), lanes) * 4;
    where.logits = isStepResult(result);
    if (!where.logits && offsets && next < static_cast<size_t>(offsets.size()))
      where.offset = offsets[next];
    ++next;
    places[result] = where;
  }
}

std::pair<StepFunction::View, cpu::Ix> StepFunction::rows(Value activation) {
  const Place &where = placeOf(activation);
  Ix stride = where.logits ? count("logits_stride") : e.c(where.rowBytes / 4);
  // Of an empty batch there is nothing.
  Ix floats = e.saturatingSub(rowsOf(activation) * stride, stride - features(activation));
  if (where.logits)
    return {{argument("logits"), floats}, stride};
  Ix start = count("token_count") * (where.perRow ? plan.perToken : where.offset);
  if (where.perRow)
    start = start + count("row_count") * where.offset;
  start = start + (plan.base + where.column * 4);
  return {{e.view(argument("arena"), start, e.getF32Type(), floats), floats}, stride};
}

StepFunction::View StepFunction::weight(Value value) {
  auto op = value.getDefiningOp<WeightOp>();
  const ParameterLayout *layout = plan.parameters.find(op.getParameter());
  Ix offset = e.c(layout->offset);
  if (op.getIndex())
    offset = index(op.getIndex()) * layout->layerStride + layout->offset;
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  if (isa<QuantizedType>(element)) {
    Ix bytes = e.c(layout->layerBytes);
    return {e.view(argument("weights"), offset, e.getI8Type(), bytes), bytes};
  }
  Ix elements = e.c(layout->layerBytes / ingot_rt_dtype_size(layout->dtype));
  return {e.view(argument("weights"), offset, element, elements), elements};
}

RotaryOp StepFunction::rotaryOp(StringRef name) {
  return SymbolTable::lookupNearestSymbolFrom<RotaryOp>(source, StringAttr::get(e.getContext(), name));
}

StepFunction::View StepFunction::rotaryTable(RotaryOp rotary) {
  Ix tokens = count("token_count"), floats = tokens * (2 * cpu::Rotary::halfPadded(rotary.getHeadDim()));
  Ix start = tokens * plan.rotaryTables.lookup(rotary.getSymNameAttr()) + plan.base;
  return {e.view(argument("arena"), start, e.getF32Type(), floats), floats};
}

void StepFunction::describe(cpu::CacheShape &shape) const {
  shape.element = plan.cache.getElementType();
  shape.layers = plan.cache.getLayers();
  shape.kvHeads = plan.cache.getKvHeads();
  shape.headDim = plan.cache.getHeadDim();
}

StepFunction::View StepFunction::cacheMemory(const cpu::CacheShape &shape) {
  Ix elements = count("cache_blocks") * shape.blockElements();
  return {e.view(argument("cache"), e.c(0), shape.element, elements), elements};
}

FailureOr<cpu::LinearWeights> StepFunction::weightsOf(LinearOp op) {
  if (op.getWeights().size() != 1)
    return op.emitOpError("expected one packed weight, got ") << op.getWeights().size();
  auto type = cast<RankedTensorType>(op.getWeights()[0].getType());
  auto packed = dyn_cast_or_null<PackedAttr>(type.getEncoding());
  bool pairs = packed && packed.getLayout() == Layout::PanelPairs;
  if (!packed || packed.getLayout() == Layout::Rows || pairs != op.getGated().has_value())
    return op.emitOpError("expected a weight in ") << (op.getGated() ? "panel_pairs" : "panels") << ", got " << type;
  if (packed.getSegments() != 1 && packed.getSegments() != INGOT_RT_K_SEGMENTS)
    return op.emitOpError("expected 1 or ") << INGOT_RT_K_SEGMENTS << " segments, got " << packed.getSegments();
  cpu::LinearWeights weights;
  weights.element = type.getElementType();
  if (auto quantized = dyn_cast<QuantizedType>(weights.element)) {
    weights.quantized = quantized.getKind();
    if (auto compute = op.getCompute())
      weights.inputBits = *compute == Compute::Int8 ? 8 : 16;
    weights.partialBlock = type.getShape().back() % quantizedBlock != 0;
  }
  weights.segmented = packed.getSegments() != 1;
  weights.gated = pairs;
  weights.oddK = weights.element.isBF16() && type.getShape().back() % 2 != 0;
  return weights;
}

cpu::AttentionShape StepFunction::shapeOf(AttentionOp op) const {
  cpu::AttentionShape shape;
  shape.heads = features(op.getQuery()) / plan.cache.getHeadDim();
  shape.scale = op.getScale().convertToFloat();
  shape.window = op.getWindow().value_or(0);
  return shape;
}

Value StepFunction::constant(StringRef name, DenseElementsAttr values, int64_t alignment) {
  auto type = MemRefType::get(values.getType().getShape(), values.getElementType());
  {
    OpBuilder::InsertionGuard guard(e);
    e.setInsertionPointToStart(target.getBody());
    memref::GlobalOp::create(e, name, e.getStringAttr("private"), type, values, /*constant=*/true,
                             alignment ? e.getI64IntegerAttr(alignment) : IntegerAttr());
  }
  return memref::GetGlobalOp::create(e, type, name);
}

//===--------------------------------------------------------------------------------------------------------------===//
// Ops
//===--------------------------------------------------------------------------------------------------------------===//

SmallVector<Value, 4> StepFunction::shown(Operation *op) {
  auto pointer = LLVM::LLVMPointerType::get(e.getContext());
  if (!op->getNumResults())
    return {LLVM::ZeroOp::create(e, pointer), e.c(0), e.c(0), e.c(0)};
  Value result = op->getResults().back();
  auto [view, stride] = rows(result);
  Value address = memref::ExtractAlignedPointerAsIndexOp::create(e, view.memory);
  address = arith::IndexCastOp::create(e, e.getI64Type(), address);
  return {LLVM::IntToPtrOp::create(e, pointer, address), rowsOf(result), e.c(features(result)), stride};
}

void StepFunction::callHook(cpu::Emitter &e, Value hook, ValueRange operands) {
  SmallVector<Value> all = {hook};
  for (auto [i, operand] : llvm::enumerate(operands)) {
    // The worker's number is a uint32_t, sizes are uint64_t.
    if (operand.getType().isIndex())
      operand = i == 1 ? e.toI32(e.ix(operand)) : arith::IndexCastOp::create(e, e.getI64Type(), operand).getResult();
    all.push_back(operand);
  }
  SmallVector<Type> types(ValueRange(all).drop_front().getTypes());
  LLVM::CallOp::create(e, LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(e.getContext()), types), all);
}

/// Calls the functions of the runs' kinds. More than one run is a table in memory, so that code does not grow with it.
void StepFunction::emitLayers(LayersOp op) {
  beforeLayers();
  SmallVector<Value> passed;
  for (const StepArgument &step : stepArguments)
    passed.push_back(argument(step.name));
  passed.append({worker, workers});
  auto callKind = [&](StringRef kind, Ix index, Ix layer) {
    SmallVector<Value> operands = passed;
    operands.append({index, layer});
    func::CallOp::create(e, TypeRange(), kind, ValueRange(operands));
  };
  SmallVector<int64_t> table;
  SmallVector<StringRef> kinds;
  int64_t firstLayer = 0;
  for (auto run : op.getRuns().getAsRange<RunAttr>()) {
    StringRef name = run.getKind().getValue();
    int64_t kind = llvm::find(kinds, name) - kinds.begin();
    if (kind == static_cast<int64_t>(kinds.size()))
      kinds.push_back(name);
    table.append({kind, run.getFirst(), run.getCount(), firstLayer});
    firstLayer += run.getCount();
  }
  static constexpr int64_t columns = 4;
  int64_t runCount = table.size() / columns;
  if (runCount == 1) {
    e.loop(e.c(0), e.c(table[2]), 1, [&](Ix i) { callKind(kinds[0], i + table[1], i); });
    return;
  }
  auto type = RankedTensorType::get({static_cast<int64_t>(table.size())}, e.getIndexType());
  Value runs = constant("runs", DenseElementsAttr::get(type, ArrayRef(table)));
  e.loop(e.c(0), e.c(runCount), 1, [&](Ix run) {
    auto field = [&](int64_t column) { return e.ix(e.load(runs, run * columns + column)); };
    Ix kind = field(0), first = field(1), layer = field(3);
    e.loop(e.c(0), field(2), 1, [&](Ix i) {
      for (auto [number, name] : llvm::enumerate(kinds))
        e.when(kind == e.c(number), [&] { callKind(name, first + i, layer + i); });
    });
  });
}

LogicalResult StepFunction::visit(Operation *op) {
  if (isa<WeightOp>(op) || op->hasTrait<OpTrait::IsTerminator>())
    return success();
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (!constant.getType().isIndex())
      return op->emitOpError("expected an index");
    indices[constant.getResult()] = e.c(cast<IntegerAttr>(constant.getValue()).getInt());
    return success();
  }
  e.setLoc(op->getLoc());
  place(op);
  if (isa<SplitOp>(op))
    return success();
  if (auto layers = dyn_cast<LayersOp>(op)) {
    emitLayers(layers);
    return success();
  }
  return emitOp(op);
}

LogicalResult StepFunction::emit() {
  declare();
  if (isForward) {
    emitRotaryTables();
  } else {
    Place hidden;
    hidden.rowBytes = roundUp(features(source.getArgument(0)), lanes) * 4;
    if (auto offsets = source->getAttrOfType<DenseI64ArrayAttr>(arenaArgsAttrName))
      hidden.offset = offsets[0];
    places[source.getArgument(0)] = hidden;
  }
  for (Operation &op : source.getBody().front())
    if (failed(visit(&op)))
      return failure();
  atEnd();
  func::ReturnOp::create(e);
  return success();
}

} // namespace ingot
