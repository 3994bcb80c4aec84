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
  /// Ops that wrote or read it since the last barrier.
  SmallVector<Operation *> touched;
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
  bool barrierBefore(Operation *op) const;
  void barrier();
  Content *find(Value root) {
    auto *it = llvm::find_if(contents, [&](const Content &c) { return c.root == root; });
    return it == contents.end() ? nullptr : it;
  }

  ModuleOp module;
  SmallVector<Content> contents;
  /// Keys were appended to the cache since the last barrier.
  bool appended = false;
};

} // namespace

static bool isActivation(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() == 2 && type.isDynamicDim(0);
}

static bool isElementwise(Operation *op) { return isa<AddOp, MulOp, SiLUOp, GatedActOp>(op); }

void ArenaWalk::barrier() {
  for (Content &content : contents)
    content.touched.clear();
  appended = false;
}

/// Barriers B1 and B2; B3 is in executeLayers.
bool ArenaWalk::barrierBefore(Operation *op) const {
  if (isa<SplitOp>(op))
    return false;
  if (isa<AttentionOp>(op) && appended)
    return true;
  return llvm::any_of(op->getOperands(), [](Value operand) {
    Operation *maker = getArenaRoot(operand).getDefiningOp();
    return maker && isa<LinearOp, AttentionOp, LayersOp>(maker);
  });
}

LogicalResult ArenaWalk::read(Operation *op, Value operand) {
  Content *content = find(getArenaRoot(operand));
  if (!content)
    return op->emitOpError("reads an activation whose memory has been written over: ") << operand;
  content->touched.push_back(op);
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
    bool over = content.start == start && content.end == end;
    auto linear = dyn_cast<LinearOp>(op);
    bool inPlace =
        over && ((isElementwise(op) && llvm::is_contained(op->getOperands(), content.root)) ||
                 (linear && linear.getResidual() == content.root && getArenaRoot(linear.getInput()) != content.root));
    for (Operation *user : content.touched)
      if (!inPlace || (user != op && !isElementwise(user)))
        return op->emitOpError("writes over ")
               << content.root << ", which another worker may still use in " << user->getName();
  }
  llvm::erase_if(contents, [&](const Content &c) {
    return c.root == result || (c.perRow == perRow && c.start < end && start < c.end);
  });
  contents.push_back({result, perRow, start, end, {op}});
  return success();
}

LogicalResult ArenaWalk::executeLayers(LayersOp layers) {
  Value state = layers.getInput();
  for (auto run : layers.getRuns().getAsRange<RunAttr>()) {
    auto kind = module.lookupSymbol<func::FuncOp>(run.getKind().getAttr());
    // Twice, so that a layer follows itself.
    for (int64_t i = 0; i < std::min<int64_t>(run.getCount(), 2); ++i) {
      barrier();
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
  barrier();
  find(state)->root = layers.getResult();
  return success();
}

LogicalResult ArenaWalk::step(Operation *op) {
  if (barrierBefore(op))
    barrier();
  if (!isa<SplitOp>(op))
    for (Value operand : op->getOperands())
      if (isActivation(operand) && failed(read(op, operand)))
        return failure();
  if (isa<KVAppendOp, QKNormRopeAppendOp>(op))
    appended = true;
  if (auto layers = dyn_cast<LayersOp>(op))
    if (failed(executeLayers(layers)))
      return failure();
  auto results = llvm::filter_to_vector(op->getResults(), [](Value v) { return isActivation(v); });
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
  barrier();
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
