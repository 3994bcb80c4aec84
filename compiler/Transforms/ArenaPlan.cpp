//===- ArenaPlan.cpp - The check of an arena's plan ---------------------------------------------------------------===//
//
// Goes through the ops as a worker does, with a map of what lies where; see ArenaPlan.h.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Transforms/ArenaPlan.h"

using namespace mlir;
using namespace ingot;

namespace {

/// One activation that lies in the arena.
struct Content {
  Value root;
  bool perRow;
  int64_t start, end;
  /// The current op reads it, or has written it.
  bool busy;
};

/// The state of an arena while a worker goes through a module.
class ArenaWalk {
public:
  explicit ArenaWalk(ModuleOp module) : module(module) {}
  /// Executes `function`, whose activation arguments are in place already.
  LogicalResult execute(func::FuncOp function);
  /// Puts an argument where the function's attribute says.
  LogicalResult bringArguments(func::FuncOp function);

private:
  LogicalResult step(Operation *op);
  LogicalResult read(Operation *op, Value operand);
  LogicalResult write(Operation *op, Value result, int64_t start);
  LogicalResult executeLayers(LayersOp layers);
  Content *find(Value root) {
    auto *it = llvm::find_if(contents, [&](const Content &c) { return c.root == root; });
    return it == contents.end() ? nullptr : it;
  }

  ModuleOp module;
  SmallVector<Content> contents;
};

} // namespace

static bool isActivation(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() == 2 && type.isDynamicDim(0);
}

/// Whether `op` may write its result over all of `root`, which it reads.
static bool mayBeInPlace(Operation *op, Value root) {
  if (isa<AddOp, MulOp, SiLUOp, GatedActOp>(op))
    return llvm::is_contained(op->getOperands(), root);
  auto linear = dyn_cast<LinearOp>(op);
  return linear && linear.getResidual() == root && getArenaRoot(linear.getInput()) != root;
}

LogicalResult ArenaWalk::read(Operation *op, Value operand) {
  Content *content = find(getArenaRoot(operand));
  if (!content)
    return op->emitOpError("reads an activation whose memory has been written over: ") << operand;
  content->busy = true;
  return success();
}

LogicalResult ArenaWalk::write(Operation *op, Value result, int64_t start) {
  int64_t bytes = getRowBytes(cast<RankedTensorType>(result.getType())), end = start + bytes;
  bool perRow = isInRowSpace(result);
  auto total =
      module->getAttrOfType<DictionaryAttr>(arenaAttrName).getAs<IntegerAttr>(perRow ? "per_row" : "per_token");
  if (start < 0 || start % 64 != 0 || !total || end > total.getInt())
    return op->emitOpError("has its result at ")
           << start << " to " << end << ", outside of the arena or not aligned to 64";
  for (Content &content : contents) {
    if (content.perRow != perRow || content.end <= start || end <= content.start || content.root == result)
      continue;
    bool exact = content.start == start && content.end == end;
    if (content.busy && !(exact && mayBeInPlace(op, content.root)))
      return op->emitOpError("writes its result over what it reads or has just written: ") << content.root;
  }
  llvm::erase_if(contents, [&](const Content &c) {
    return c.root == result || (c.perRow == perRow && c.start < end && start < c.end);
  });
  contents.push_back({result, perRow, start, end, /*busy=*/true});
  return success();
}

LogicalResult ArenaWalk::executeLayers(LayersOp layers) {
  Value state = layers.getInput();
  for (auto run : layers.getRuns().getAsRange<RunAttr>()) {
    auto kind = module.lookupSymbol<func::FuncOp>(run.getKind().getAttr());
    // Twice, so that a layer follows itself.
    for (int64_t i = 0; i < std::min<int64_t>(run.getCount(), 2); ++i) {
      Content *content = find(state);
      auto arguments = kind->getAttrOfType<DenseI64ArrayAttr>(arenaArgsAttrName);
      if (!content || !arguments || arguments.size() != 1 || arguments[0] != content->start)
        return layers.emitOpError("passes a hidden state that is not where @") << kind.getName() << " expects it";
      content->root = kind.getArgument(0);
      if (failed(execute(kind)))
        return failure();
      state = kind.getBody().front().getTerminator()->getOperand(0);
      Content *result = find(state);
      if (!result || result->start != arguments[0])
        return kind.emitOpError("returns a hidden state that is not where its argument was");
    }
  }
  find(state)->root = layers.getResult();
  return success();
}

LogicalResult ArenaWalk::step(Operation *op) {
  for (Content &content : contents)
    content.busy = false;
  if (!isa<SplitOp>(op))
    for (Value operand : op->getOperands())
      if (isActivation(operand) && !isStepResult(operand) && failed(read(op, operand)))
        return failure();
  if (auto layers = dyn_cast<LayersOp>(op))
    if (failed(executeLayers(layers)))
      return failure();
  auto results = llvm::filter_to_vector(op->getResults(), [](Value v) { return isActivation(v) && !isStepResult(v); });
  if (results.empty())
    return success();
  auto offsets = op->getAttrOfType<DenseI64ArrayAttr>(arenaAttrName);
  if (!offsets || offsets.size() != static_cast<int64_t>(results.size()))
    return op->emitOpError("expected ") << arenaAttrName << " with " << results.size() << " offsets";
  for (auto [result, offset] : llvm::zip(results, offsets.asArrayRef())) {
    if (isa<SplitOp, LayersOp>(op)) {
      Content *content = find(getArenaRoot(result));
      if (content && content->start != offset)
        return op->emitOpError("expected the offset of its input, ") << content->start << ", got " << offset;
    } else if (failed(write(op, result, offset))) {
      return failure();
    }
  }
  return success();
}

LogicalResult ArenaWalk::execute(func::FuncOp function) {
  for (Operation &op : function.getBody().front())
    if (failed(step(&op)))
      return failure();
  return success();
}

LogicalResult ArenaWalk::bringArguments(func::FuncOp function) {
  auto offsets = function->getAttrOfType<DenseI64ArrayAttr>(arenaArgsAttrName);
  size_t next = 0;
  for (Value argument : function.getArguments()) {
    if (!isActivation(argument))
      continue;
    if (!offsets || static_cast<size_t>(offsets.size()) <= next)
      return function.emitOpError("expected ") << arenaArgsAttrName << " with an offset for each activation";
    if (failed(write(function, argument, offsets[next++])))
      return failure();
  }
  return success();
}

LogicalResult ingot::verifyArenaPlan(ModuleOp module) {
  if (!module->getAttrOfType<DictionaryAttr>(arenaAttrName))
    return module.emitOpError("expected ") << arenaAttrName << " on the module";
  DenseSet<StringAttr> kinds;
  module.walk([&](LayersOp layers) {
    for (auto run : layers.getRuns().getAsRange<RunAttr>())
      kinds.insert(run.getKind().getAttr());
  });
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal() || kinds.contains(function.getSymNameAttr()))
      continue;
    ArenaWalk walk(module);
    if (failed(walk.bringArguments(function)) || failed(walk.execute(function)))
      return failure();
  }
  return success();
}
