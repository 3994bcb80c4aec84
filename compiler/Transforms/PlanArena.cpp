//===- PlanArena.cpp - An address in one arena for every activation -----------------------------------------------===//
//
// Liveness of a function's activations, then first fit, the largest first. ArenaPlan.h says what the result means.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Transforms/ArenaPlan.h"
#include "compiler/Transforms/Passes.h"
#include "ingot_rt/abi.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"
#include <map>
#include <optional>

#define DEBUG_TYPE "ingot-plan-arena"

using namespace mlir;
using namespace ingot;

namespace ingot {
#define GEN_PASS_DEF_PLANARENAPASS
#include "compiler/Transforms/Passes.h.inc"
} // namespace ingot

int64_t ingot::getRowBytes(RankedTensorType type) {
  return llvm::alignTo(static_cast<uint64_t>(type.getDimSize(1)), INGOT_RT_PANEL) * 4;
}

Value ingot::getArenaRoot(Value value) {
  while (auto split = value.getDefiningOp<SplitOp>())
    value = split.getInput();
  return value;
}

/// Whether `type` is that of an activation.
static bool isActivation(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 2 && tensor.isDynamicDim(0);
}

bool ingot::isInRowSpace(Value value) {
  // Rows are chosen once: whatever a value is computed from by way of a select_rows has a row for each wanted one.
  SmallVector<Value> worklist = {value};
  DenseSet<Value> seen;
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val().getDefiningOp();
    if (!op)
      continue;
    if (isa<SelectRowsOp>(op))
      return true;
    for (Value operand : op->getOperands())
      if (isActivation(operand.getType()) && seen.insert(operand).second)
        worklist.push_back(operand);
  }
  return false;
}

bool ingot::isStepResult(Value value) {
  if (!value.getDefiningOp<LinearOp>() || !value.hasOneUse())
    return false;
  auto returned = dyn_cast<func::ReturnOp>(*value.getUsers().begin());
  return returned && returned->getParentOfType<func::FuncOp>().getSymName() == forwardName;
}

/// The whole activation (not a part of one) that `op` may write a result over, if it is `root`; see ArenaPlan.h.
static bool mayWriteOver(Operation *op, Value root) {
  if (isa<AddOp, MulOp, SiLUOp, GatedActOp>(op))
    return llvm::is_contained(op->getOperands(), root);
  if (auto layers = dyn_cast<LayersOp>(op))
    return layers.getInput() == root;
  auto linear = dyn_cast<LinearOp>(op);
  return linear && linear.getResidual() == root && getArenaRoot(linear.getInput()) != root;
}

namespace {

/// A range of token space: from the first byte to behind the last.
using Range = std::pair<int64_t, int64_t>;

/// An activation in memory. Positions count the ops of the function's block; an argument is written at -1.
struct Tenant {
  Value value;
  int64_t written;
  /// Positions of the ops that read it or a part of it, ascending; not of splits, which read nothing.
  SmallVector<int64_t> reads;
  int64_t last() const { return reads.empty() ? written : std::max(written, reads.back()); }
};

/// Activations that share one range of memory, one after the other.
struct Buffer {
  SmallVector<Tenant, 2> tenants;
  int64_t bytes = 0, offset = -1;
  bool perRow = false;
};

/// How two activations come to lie in common memory.
enum class Sharing {
  /// Anyhow: the first is dead, and a barrier that is needed anyway lies in between.
  Any,
  /// The second exactly over the first: the op that writes it may also be the last that reads the first.
  InPlace,
  /// They are old and new hidden state, which must share one buffer: as InPlace, with or without a barrier.
  Hidden
};

/// The plan of one function.
class FunctionPlan {
public:
  explicit FunctionPlan(func::FuncOp function) : function(function) {}

  /// Finds buffers and lifetimes. `isKind`: the function is a kind of layer, whose argument and result share a buffer.
  LogicalResult analyze(bool isKind);
  /// Gives every buffer an offset outside of `reserved`.
  LogicalResult place(ArrayRef<Range> reserved);
  /// Writes the attributes of the function and its ops, and appends its tenants to `list`.
  void annotate(SmallVector<Attribute> &list);
  /// Ranges, but for the hidden state's, that are live across a `layers` op that runs `kind`.
  void addLiveAcross(StringAttr kind, SmallVector<Range> &ranges) const;

  /// Bytes per token and per row to behind the last buffer.
  int64_t perToken = 0, perRow = 0;

private:
  LogicalResult addTenant(Value value, int64_t written);
  /// Unites the hidden states that come from and go to `layers`, or the argument and result of a kind.
  LogicalResult shareHidden(bool isKind);
  LogicalResult join(Value earlier, Value later, Operation *op);
  void shareInPlace();
  /// Whether a barrier that code is sure to have lies between op `i` and the writes of op `j`.
  bool separated(int64_t i, int64_t j) const { return i < j && barriers[j + 1] > barriers[i + 1]; }
  /// Whether `later` may be written where `earlier` lay.
  bool mayFollow(const Tenant &earlier, const Tenant &later, Sharing sharing) const;
  bool compatible(const Buffer &a, const Buffer &b, Sharing sharing) const;
  std::string nameOf(const Tenant &tenant);

  func::FuncOp function;
  SmallVector<Operation *> ops;
  DenseMap<Operation *, int64_t> positions;
  SmallVector<Buffer> buffers;
  DenseMap<Value, size_t> bufferOf;
  /// At index p + 1: barriers up to the one before op p.
  SmallVector<int64_t> barriers;
  /// The buffer at offset 0: a layer's hidden state, input and result of `layers`.
  std::optional<size_t> hidden;
};

LogicalResult FunctionPlan::addTenant(Value value, int64_t written) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getDimSize(1) > int64_t(1) << 40)
    return emitError(value.getLoc(), "expected an activation of at most 2^40 features, got ") << type.getDimSize(1);
  Tenant tenant{value, written, {}};
  SmallVector<Value> views = {value};
  while (!views.empty())
    for (Operation *user : views.pop_back_val().getUsers())
      if (auto split = dyn_cast<SplitOp>(user))
        llvm::append_range(views, split.getParts());
      else
        tenant.reads.push_back(positions.lookup(user));
  llvm::sort(tenant.reads);
  bufferOf[value] = buffers.size();
  Buffer &buffer = buffers.emplace_back();
  buffer.bytes = getRowBytes(type);
  buffer.perRow = isInRowSpace(value);
  buffer.tenants.push_back(std::move(tenant));
  return success();
}

LogicalResult FunctionPlan::analyze(bool isKind) {
  if (!llvm::hasSingleElement(function.getBody()))
    return function.emitOpError("expected a body of one block to plan the arena of");
  Block &block = function.getBody().front();
  for (Operation &op : block) {
    if (isKind && isa<LayersOp>(op))
      return op.emitOpError("expected no layers inside a layer");
    positions[&op] = ops.size();
    ops.push_back(&op);
  }

  // Barriers B1 to B3 of ArenaPlan.h.
  barriers.push_back(0);
  bool appended = false;
  for (Operation *op : ops) {
    bool before = isa<LayersOp>(op) || (isa<AttentionOp>(op) && appended);
    for (Value operand : op->getOperands()) {
      Operation *maker = getArenaRoot(operand).getDefiningOp();
      before |= isa_and_nonnull<LinearOp, AttentionOp, LayersOp>(maker) && !isa<SplitOp>(op);
    }
    barriers.push_back(barriers.back() + before);
    appended = isa<KVAppendOp, QKNormRopeAppendOp>(op) || (appended && !before);
  }

  for (Value argument : block.getArguments())
    if (isActivation(argument.getType()) && failed(addTenant(argument, -1)))
      return failure();
  for (Operation *op : ops)
    for (Value result : op->getResults())
      if (isActivation(result.getType()) && !isa<SplitOp>(op) && !isStepResult(result) &&
          failed(addTenant(result, positions.lookup(op))))
        return failure();
  if (failed(shareHidden(isKind)))
    return failure();
  shareInPlace();
  return success();
}

bool FunctionPlan::mayFollow(const Tenant &earlier, const Tenant &later, Sharing sharing) const {
  bool over = sharing != Sharing::Any && later.written >= 0 && earlier.last() == later.written &&
              mayWriteOver(ops[later.written], earlier.value);
  if (sharing == Sharing::Hidden)
    return over || earlier.last() < later.written;
  if (separated(earlier.last(), later.written))
    return true;
  // Its other readers must be behind a barrier as well, or share out the elements among workers in the same way.
  return over && llvm::all_of(earlier.reads, [&](int64_t read) {
           return read == later.written || separated(read, later.written) ||
                  isa<AddOp, MulOp, SiLUOp, GatedActOp>(ops[read]);
         });
}

bool FunctionPlan::compatible(const Buffer &a, const Buffer &b, Sharing sharing) const {
  for (const Tenant &x : a.tenants)
    for (const Tenant &y : b.tenants)
      if (!(x.written < y.written ? mayFollow(x, y, sharing) : y.written < x.written && mayFollow(y, x, sharing)))
        return false;
  return true;
}

/// Puts `later` into the buffer of `earlier`: what `op` needs. An error where that cannot be.
LogicalResult FunctionPlan::join(Value earlier, Value later, Operation *op) {
  if (getArenaRoot(earlier) != earlier || getArenaRoot(later) != later)
    return op->emitOpError("expected a hidden state that is no part of a split");
  size_t a = bufferOf.lookup(earlier), b = bufferOf.lookup(later);
  if (a != b) {
    if (buffers[a].perRow || buffers[b].perRow)
      return op->emitOpError("expected a hidden state with a row for each "
                             "token, got one for each wanted row");
    if (!compatible(buffers[a], buffers[b], Sharing::Hidden))
      return op->emitOpError("expected the old hidden state to be dead, or "
                             "added to, when the new one is written: both "
                             "lie in one buffer");
    for (Tenant &tenant : buffers[b].tenants) {
      bufferOf[tenant.value] = a;
      buffers[a].tenants.push_back(std::move(tenant));
    }
    buffers[b].tenants.clear();
  }
  return success();
}

LogicalResult FunctionPlan::shareHidden(bool isKind) {
  std::optional<Value> state;
  auto add = [&](Value value, Operation *op) -> LogicalResult {
    if (state && failed(join(*state, value, op)))
      return failure();
    if (!state && getArenaRoot(value) != value)
      return op->emitOpError("expected a hidden state that is no part of a split");
    state = state ? *state : value;
    hidden = bufferOf.lookup(*state);
    return success();
  };
  if (isKind)
    return failed(add(function.getArgument(0), function)) ? failure() : add(ops.back()->getOperand(0), ops.back());
  for (Operation *op : ops)
    if (auto layers = dyn_cast<LayersOp>(op))
      if (failed(add(layers.getInput(), op)) || failed(add(layers.getResult(), op)))
        return failure();
  return success();
}

void FunctionPlan::shareInPlace() {
  for (Operation *op : ops) {
    if (op->getNumResults() != 1 || !bufferOf.contains(op->getResult(0)))
      continue;
    for (Value operand : op->getOperands()) {
      auto from = bufferOf.find(operand), to = bufferOf.find(op->getResult(0));
      if (from == bufferOf.end() || from->second == to->second || !mayWriteOver(op, operand))
        continue;
      size_t a = from->second, b = to->second;
      if (hidden == b)
        std::swap(a, b);
      if (buffers[a].bytes != buffers[b].bytes || buffers[a].perRow != buffers[b].perRow ||
          !compatible(buffers[a], buffers[b], Sharing::InPlace))
        continue;
      for (Tenant &tenant : buffers[b].tenants) {
        bufferOf[tenant.value] = a;
        buffers[a].tenants.push_back(std::move(tenant));
      }
      buffers[b].tenants.clear();
    }
  }
}

LogicalResult FunctionPlan::place(ArrayRef<Range> reserved) {
  SmallVector<size_t> order;
  for (size_t i = 0; i < buffers.size(); ++i)
    if (!buffers[i].tenants.empty())
      order.push_back(i);
  llvm::sort(order, [&](size_t a, size_t b) {
    return std::make_pair(-buffers[a].bytes, a) < std::make_pair(-buffers[b].bytes, b);
  });
  if (hidden) {
    llvm::erase(order, *hidden);
    order.insert(order.begin(), *hidden);
  }
  for (size_t i : order) {
    Buffer &buffer = buffers[i];
    SmallVector<Range> taken;
    if (!buffer.perRow)
      llvm::append_range(taken, reserved);
    for (const Buffer &other : buffers)
      if (other.offset >= 0 && other.perRow == buffer.perRow && !compatible(buffer, other, Sharing::Any))
        taken.push_back({other.offset, other.offset + other.bytes});
    llvm::sort(taken);
    buffer.offset = 0;
    for (auto [start, end] : taken)
      if (start < buffer.offset + buffer.bytes)
        buffer.offset = std::max(buffer.offset, end);
    int64_t end, &total = buffer.perRow ? perRow : perToken;
    if (llvm::AddOverflow(buffer.offset, buffer.bytes, end))
      return function.emitOpError("expected an arena of less than 2^63 bytes for each token");
    total = std::max(total, end);
  }
  return success();
}

void FunctionPlan::addLiveAcross(StringAttr kind, SmallVector<Range> &ranges) const {
  for (Operation *op : ops) {
    auto layers = dyn_cast<LayersOp>(op);
    if (!layers || llvm::none_of(layers.getRuns().getAsRange<RunAttr>(),
                                 [&](RunAttr run) { return run.getKind().getAttr() == kind; }))
      continue;
    int64_t at = positions.lookup(op);
    for (const auto &[i, buffer] : llvm::enumerate(buffers))
      if (i != hidden && !buffer.perRow &&
          llvm::any_of(buffer.tenants, [&](const Tenant &t) { return t.written < at && t.last() > at; }))
        ranges.push_back({buffer.offset, buffer.offset + buffer.bytes});
  }
}

/// What a tenant is called in the list for people: function, op and position.
std::string FunctionPlan::nameOf(const Tenant &tenant) {
  std::string name = function.getName().str() + ".";
  if (tenant.written < 0)
    return name + "hidden";
  name += ops[tenant.written]->getName().stripDialect().str() + "." + std::to_string(tenant.written);
  auto result = cast<OpResult>(tenant.value);
  return result.getResultNumber() ? name + "." + std::to_string(result.getResultNumber()) : name;
}

void FunctionPlan::annotate(SmallVector<Attribute> &list) {
  Builder builder(function.getContext());
  auto offsetOf = [&](Value value) { return buffers[bufferOf.lookup(getArenaRoot(value))].offset; };
  SmallVector<int64_t> arguments;
  for (Value argument : function.getArguments())
    if (isActivation(argument.getType()))
      arguments.push_back(offsetOf(argument));
  if (!arguments.empty())
    function->setAttr(arenaArgsAttrName, builder.getDenseI64ArrayAttr(arguments));
  for (Operation *op : ops) {
    SmallVector<int64_t> offsets;
    for (Value result : op->getResults())
      if (isActivation(result.getType()) && !isStepResult(result))
        offsets.push_back(offsetOf(result));
    if (!offsets.empty())
      op->setAttr(arenaAttrName, builder.getDenseI64ArrayAttr(offsets));
  }
  // In order of the ops that write them.
  std::map<std::pair<int64_t, unsigned>, std::pair<const Tenant *, const Buffer *>> tenants;
  for (const Buffer &buffer : buffers)
    for (const Tenant &tenant : buffer.tenants) {
      auto result = dyn_cast<OpResult>(tenant.value);
      unsigned which = result ? result.getResultNumber() : cast<BlockArgument>(tenant.value).getArgNumber();
      tenants[{tenant.written, which}] = {&tenant, &buffer};
    }
  auto number = [&](StringRef name, int64_t value) {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
  };
  auto text = [&](StringRef name, StringRef value) { return builder.getNamedAttr(name, builder.getStringAttr(value)); };
  for (auto &[key, entry] : tenants) {
    auto [tenant, buffer] = entry;
    list.push_back(builder.getDictionaryAttr(
        {text("name", nameOf(*tenant)), text("unit", buffer->perRow ? "row" : "token"), number("bytes", buffer->bytes),
         number("offset", buffer->offset), number("first_op", tenant->written), number("last_op", tenant->last())}));
  }
}

} // namespace

LogicalResult ingot::planArena(ModuleOp module) {
  llvm::MapVector<StringAttr, SmallVector<Range>> kinds;
  module.walk([&](LayersOp layers) {
    for (auto run : layers.getRuns().getAsRange<RunAttr>())
      kinds[run.getKind().getAttr()];
  });
  SmallVector<Attribute> list;
  int64_t perToken = 0, perRow = 0;
  auto finish = [&](FunctionPlan &plan) {
    plan.annotate(list);
    perToken = std::max(perToken, plan.perToken);
    perRow = std::max(perRow, plan.perRow);
  };
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal() || kinds.contains(function.getSymNameAttr()))
      continue;
    FunctionPlan plan(function);
    if (failed(plan.analyze(/*isKind=*/false)) || failed(plan.place({})))
      return failure();
    for (auto &[kind, ranges] : kinds)
      plan.addLiveAcross(kind, ranges);
    finish(plan);
  }
  for (auto &[kind, ranges] : kinds) {
    FunctionPlan plan(module.lookupSymbol<func::FuncOp>(kind));
    if (failed(plan.analyze(/*isKind=*/true)) || failed(plan.place(ranges)))
      return failure();
    finish(plan);
  }
  Builder builder(module.getContext());
  auto number = [&](StringRef name, int64_t value) {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
  };
  module->setAttr(arenaAttrName, builder.getDictionaryAttr(
                                     {number("base", 0), number("per_token", perToken), number("per_row", perRow)}));
  module->setAttr(arenaPlanAttrName, builder.getArrayAttr(list));
  remark::analysis(module.getLoc(), remark::RemarkOpts::name(DEBUG_TYPE).category("ingot"))
      << (Twine(perToken) + " bytes for each token, " + Twine(perRow) + " for each row").str();
  return success();
}

namespace {

struct PlanArena : ingot::impl::PlanArenaPassBase<PlanArena> {
  void runOnOperation() override {
    if (failed(planArena(getOperation())))
      signalPassFailure();
  }
};

} // namespace
