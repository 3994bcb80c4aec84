//===- EmulateNVVM.cpp - Kernels in the NVVM dialect as functions of the host -------------------------------------===//
//
// Where the emulator takes over: the NVVM dialect is what a GPU will be given, before parts of it become inline PTX.
// Address spaces vanish, every access is announced to the emulator first, ops of NVVM become its calls, and the host's
// constant ingot_rt_kernel of each kernel gets its contents.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Conversion/KernelDescriptions.h"
#include "compiler/Conversion/Passes.h"
#include "compiler/Conversion/StepArguments.h"
#include "ingot_rt/abi.h"
#include "ingot_rt/emulate.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/ADT/StringMap.h"

namespace ingot {
#define GEN_PASS_DEF_EMULATENVVMPASS
#include "compiler/Conversion/Passes.h.inc"
} // namespace ingot

using namespace mlir;
using namespace ingot;

namespace {
/// Moves the kernels of one gpu.module into the host's module.
class KernelEmulation {
public:
  KernelEmulation(mlir::gpu::GPUModuleOp device, ModuleOp host)
      : device(device), host(host), b(host.getLoc(), host.getContext()), layout(host),
        pointer(LLVM::LLVMPointerType::get(host.getContext())), descriptions(host) {}

  LogicalResult run();

private:
  LogicalResult rewrite(LLVM::LLVMFuncOp kernel);
  LogicalResult rewriteOp(Operation *op);
  /// Ops of NVVM; false if `op` is none that the emulator has.
  bool rewriteNVVM(Operation *op);
  void rewriteShuffle(NVVM::ShflOp op);
  bool rewriteMma(NVVM::MmaOp op);
  bool rewriteLoadMatrix(NVVM::LdMatrixOp op);
  void rewriteCopy(NVVM::CpAsyncOp op);
  /// False if the emulator does not have the operation or the type.
  bool rewriteAtomic(LLVM::AtomicRMWOp op);
  bool rewriteAtomic(LLVM::AtomicCmpXchgOp op);
  /// What lay at the address, of `value`'s type; null for another type than the emulator's.
  Value callAtomic(Operation *op, uint32_t kind, Value address, Value value, Value compare);
  /// An array of 32-bit words of the running thread, made once for the kernel.
  Value words(unsigned count, Value &array);
  Value wordAt(Value array, unsigned i) {
    return LLVM::GEPOp::create(b, pointer, b.getI32Type(), array, ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
  }
  /// The words of `array` as an op's result: one, or a structure.
  Value readWords(Value array, Type type);
  void announce(Operation *op, Value address, Type type, bool isStore);
  Type hostType(Type type) { return isa<LLVM::LLVMPointerType>(type) ? Type(pointer) : type; }
  /// Emits the function of one thread, which takes its arguments from memory.
  LLVM::LLVMFuncOp emitThread(LLVM::LLVMFuncOp kernel);

  Value i32(uint32_t value) {
    return LLVM::ConstantOp::create(b, b.getI32Type(), b.getI32IntegerAttr(static_cast<int32_t>(value)));
  }
  /// The address of a constant text of the host's module.
  Value text(StringRef value) { return descriptions.text(b, value); }
  /// A call of a function of the emulator.
  Value call(StringRef name, Type result, ValueRange operands);

  mlir::gpu::GPUModuleOp device;
  ModuleOp host;
  ImplicitLocOpBuilder b;
  DataLayout layout;
  LLVM::LLVMPointerType pointer;
  KernelDescriptions descriptions;
  /// Of the kernel's variables.
  KernelDescriptions::SharedLayout shared;
  /// Names of the constant tables that the kernel reads.
  SmallVector<StringRef> constants;
  /// What the kernel's warp operations pass in memory: A, B and C of a product, the registers of ldmatrix.
  Value fragments[3], registers;
  Block *entry = nullptr;
};
} // namespace

/// The name that the innermost location with one has.
static std::string nameOf(Location loc) {
  if (auto named = dyn_cast<NameLoc>(loc))
    return named.getName().str();
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : fused.getLocations())
      if (std::string name = nameOf(part); !name.empty())
        return name;
  if (auto site = dyn_cast<CallSiteLoc>(loc))
    return nameOf(site.getCallee());
  return "";
}

Value KernelEmulation::call(StringRef name, Type result, ValueRange operands) {
  auto function = host.lookupSymbol<LLVM::LLVMFuncOp>(name);
  if (!function) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(host.getBody());
    auto type = LLVM::LLVMFunctionType::get(result, SmallVector<Type>(operands.getTypes()));
    function = LLVM::LLVMFuncOp::create(b, name, type);
  }
  auto op = LLVM::CallOp::create(b, function, operands);
  return op.getNumResults() ? op.getResult() : Value();
}

void KernelEmulation::announce(Operation *op, Value address, Type type, bool isStore) {
  std::string name = nameOf(op->getLoc());
  call("ingot_rt_emulate_access", LLVM::LLVMVoidType::get(b.getContext()),
       {address, i32(layout.getTypeSize(type)), i32(isStore), text(name.empty() ? "memory" : name)});
}

/// `shfl.sync`: the value as 32 bits, and where it is asked for the predicate.
void KernelEmulation::rewriteShuffle(NVVM::ShflOp op) {
  Value value = op.getVal();
  bool isFloat = value.getType().isF32();
  if (isFloat)
    value = LLVM::BitcastOp::create(b, b.getI32Type(), value);
  Value both = call("ingot_rt_emulate_shuffle", b.getI64Type(),
                    {i32(static_cast<uint32_t>(op.getKind())), op.getThreadMask(), value, op.getOffset(),
                     op.getMaskAndClamp(), text(nameOf(op.getLoc()))});
  Value result = LLVM::TruncOp::create(b, b.getI32Type(), both);
  if (isFloat)
    result = LLVM::BitcastOp::create(b, b.getF32Type(), result);
  if (op.getReturnValueAndIsValid()) {
    Value thirtyTwo = LLVM::ConstantOp::create(b, b.getI64Type(), b.getI64IntegerAttr(32));
    Value valid = LLVM::TruncOp::create(b, b.getI1Type(), LLVM::LShrOp::create(b, both, thirtyTwo));
    Value pair = LLVM::UndefOp::create(b, op.getType());
    pair = LLVM::InsertValueOp::create(b, pair, result, ArrayRef<int64_t>{0});
    result = LLVM::InsertValueOp::create(b, pair, valid, ArrayRef<int64_t>{1});
  }
  op.replaceAllUsesWith(result);
}

Value KernelEmulation::words(unsigned count, Value &array) {
  if (!array) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(entry);
    array = LLVM::AllocaOp::create(b, pointer, b.getI32Type(), i32(count), /*alignment=*/16);
  }
  return array;
}

Value KernelEmulation::readWords(Value array, Type type) {
  auto structure = dyn_cast<LLVM::LLVMStructType>(type);
  if (!structure)
    return LLVM::LoadOp::create(b, type, array);
  Value result = LLVM::UndefOp::create(b, structure);
  for (auto [i, part] : llvm::enumerate(structure.getBody()))
    result = LLVM::InsertValueOp::create(b, result, LLVM::LoadOp::create(b, part, wordAt(array, i)),
                                         ArrayRef<int64_t>{static_cast<int64_t>(i)});
  return result;
}

/// `mma.sync` with accumulators of f32: m16n8k16 of bf16 or f16, m16n8k8 of tf32.
bool KernelEmulation::rewriteMma(NVVM::MmaOp op) {
  std::optional<NVVM::MMATypes> type = op.getMultiplicandAPtxType();
  NVVM::MMAShapeAttr shape = op.getShape();
  uint32_t kind = 0;
  if (type == NVVM::MMATypes::bf16 && shape.getK() == 16)
    kind = INGOT_RT_MMA_M16N8K16_BF16;
  else if (type == NVVM::MMATypes::f16 && shape.getK() == 16)
    kind = INGOT_RT_MMA_M16N8K16_F16;
  else if (type == NVVM::MMATypes::tf32 && shape.getK() == 8)
    kind = INGOT_RT_MMA_M16N8K8_TF32;
  else
    return false;
  auto isF32 = [](Value value) { return value.getType().isF32(); };
  if (shape.getM() != 16 || shape.getN() != 8 || op.getMultiplicandBPtxType() != type ||
      op.getLayoutA() != NVVM::MMALayout::row || op.getLayoutB() != NVVM::MMALayout::col ||
      op.getOperandA().size() != 4 || op.getOperandB().size() != 2 || op.getOperandC().size() != 4 ||
      !llvm::all_of(op.getOperandC(), isF32))
    return false;
  const ValueRange parts[] = {op.getOperandA(), op.getOperandB(), op.getOperandC()};
  SmallVector<Value> operands = {i32(kind)};
  for (auto [part, array] : llvm::zip(parts, fragments)) {
    words(part.size(), array);
    for (auto [i, word] : llvm::enumerate(part))
      LLVM::StoreOp::create(b, word, wordAt(array, i));
    operands.push_back(array);
  }
  operands.push_back(text(nameOf(op.getLoc())));
  call("ingot_rt_emulate_mma", LLVM::LLVMVoidType::get(b.getContext()), operands);
  op.replaceAllUsesWith(readWords(fragments[2], op.getType()));
  return true;
}

/// `ldmatrix` of 8x8 elements of 16 bits.
bool KernelEmulation::rewriteLoadMatrix(NVVM::LdMatrixOp op) {
  if (op.getShape().getM() != 8 || op.getShape().getN() != 8 || op.getEltType() != NVVM::LdStMatrixEltType::B16)
    return false;
  words(4, registers);
  call("ingot_rt_emulate_load_matrix", LLVM::LLVMVoidType::get(b.getContext()),
       {op.getPtr(), i32(op.getNum()), i32(op.getLayout() == NVVM::MMALayout::col), registers,
        text(nameOf(op.getLoc()))});
  op.replaceAllUsesWith(readWords(registers, op.getType()));
  return true;
}

/// `cp.async`: without a size of the source all of it is read.
void KernelEmulation::rewriteCopy(NVVM::CpAsyncOp op) {
  Value bytes = i32(op.getSize());
  call("ingot_rt_emulate_copy", LLVM::LLVMVoidType::get(b.getContext()),
       {op.getDst(), op.getSrc(), bytes, op.getCpSize() ? op.getCpSize() : bytes, text(nameOf(op.getLoc()))});
}

Value KernelEmulation::callAtomic(Operation *op, uint32_t kind, Value address, Value value, Value compare) {
  Type type = value.getType(), i64 = b.getI64Type();
  uint32_t which = INGOT_RT_ATOMIC_I32;
  if (type.isInteger(64))
    which = INGOT_RT_ATOMIC_I64;
  else if (type.isF32())
    which = INGOT_RT_ATOMIC_F32;
  else if (!type.isInteger(32))
    return {};
  auto widen = [&](Value x) -> Value {
    if (which == INGOT_RT_ATOMIC_F32)
      x = LLVM::BitcastOp::create(b, b.getI32Type(), x);
    return which == INGOT_RT_ATOMIC_I64 ? x : LLVM::ZExtOp::create(b, i64, x).getResult();
  };
  Value none = LLVM::ConstantOp::create(b, i64, b.getI64IntegerAttr(0));
  std::string name = nameOf(op->getLoc());
  Value old = call("ingot_rt_emulate_atomic", i64,
                   {i32(kind), i32(which), address, widen(value), compare ? widen(compare) : none,
                    text(name.empty() ? "memory" : name)});
  if (which == INGOT_RT_ATOMIC_I64)
    return old;
  old = LLVM::TruncOp::create(b, b.getI32Type(), old);
  return which == INGOT_RT_ATOMIC_F32 ? LLVM::BitcastOp::create(b, type, old).getResult() : old;
}

/// `atom`, of which a result that nobody reads makes `red`.
bool KernelEmulation::rewriteAtomic(LLVM::AtomicRMWOp op) {
  static const std::pair<LLVM::AtomicBinOp, uint32_t> kinds[] = {
      {LLVM::AtomicBinOp::add, INGOT_RT_ATOMIC_ADD},
      {LLVM::AtomicBinOp::fadd, INGOT_RT_ATOMIC_ADD},
      {LLVM::AtomicBinOp::min, INGOT_RT_ATOMIC_MIN},
      {LLVM::AtomicBinOp::max, INGOT_RT_ATOMIC_MAX},
      {LLVM::AtomicBinOp::umin, INGOT_RT_ATOMIC_UMIN},
      {LLVM::AtomicBinOp::umax, INGOT_RT_ATOMIC_UMAX},
      {LLVM::AtomicBinOp::_and, INGOT_RT_ATOMIC_AND},
      {LLVM::AtomicBinOp::_or, INGOT_RT_ATOMIC_OR},
      {LLVM::AtomicBinOp::_xor, INGOT_RT_ATOMIC_XOR},
      {LLVM::AtomicBinOp::xchg, INGOT_RT_ATOMIC_EXCHANGE},
      {LLVM::AtomicBinOp::uinc_wrap, INGOT_RT_ATOMIC_INCREMENT},
      {LLVM::AtomicBinOp::udec_wrap, INGOT_RT_ATOMIC_DECREMENT}};
  auto kind = llvm::find_if(kinds, [&](const auto &entry) { return entry.first == op.getBinOp(); });
  if (kind == std::end(kinds))
    return false;
  // PTX has inc and dec of 32 bits.
  bool wraps = kind->second == INGOT_RT_ATOMIC_INCREMENT || kind->second == INGOT_RT_ATOMIC_DECREMENT;
  if (wraps && !op.getType().isInteger(32))
    return false;
  Value old = callAtomic(op, kind->second, op.getPtr(), op.getVal(), Value());
  if (!old)
    return false;
  op.getResult().replaceAllUsesWith(old);
  op.erase();
  return true;
}

bool KernelEmulation::rewriteAtomic(LLVM::AtomicCmpXchgOp op) {
  if (!op.getVal().getType().isInteger())
    return false;
  Value old = callAtomic(op, INGOT_RT_ATOMIC_CAS, op.getPtr(), op.getVal(), op.getCmp());
  if (!old)
    return false;
  Value done = LLVM::ICmpOp::create(b, LLVM::ICmpPredicate::eq, old, op.getCmp());
  Value both = LLVM::UndefOp::create(b, op.getType());
  both = LLVM::InsertValueOp::create(b, both, old, ArrayRef<int64_t>{0});
  op.getResult().replaceAllUsesWith(LLVM::InsertValueOp::create(b, both, done, ArrayRef<int64_t>{1}));
  op.erase();
  return true;
}

/// What a read of a special register of PTX is called, or nothing.
static std::optional<uint32_t> specialOf(Operation *op) {
  static const llvm::StringMap<uint32_t> names = {
      {"tid.x", INGOT_RT_TID},       {"tid.y", INGOT_RT_TID + 1},       {"tid.z", INGOT_RT_TID + 2},
      {"ntid.x", INGOT_RT_NTID},     {"ntid.y", INGOT_RT_NTID + 1},     {"ntid.z", INGOT_RT_NTID + 2},
      {"ctaid.x", INGOT_RT_CTAID},   {"ctaid.y", INGOT_RT_CTAID + 1},   {"ctaid.z", INGOT_RT_CTAID + 2},
      {"nctaid.x", INGOT_RT_NCTAID}, {"nctaid.y", INGOT_RT_NCTAID + 1}, {"nctaid.z", INGOT_RT_NCTAID + 2},
      {"laneid", INGOT_RT_LANEID},   {"warpid", INGOT_RT_WARPID}};
  StringRef name = op->getName().getStringRef();
  if (!name.consume_front("nvvm.read.ptx.sreg."))
    return std::nullopt;
  auto it = names.find(name);
  return it == names.end() ? std::nullopt : std::optional<uint32_t>(it->second);
}

bool KernelEmulation::rewriteNVVM(Operation *op) {
  Type none = LLVM::LLVMVoidType::get(b.getContext());
  if (std::optional<uint32_t> special = specialOf(op)) {
    op->getResult(0).replaceAllUsesWith(call("ingot_rt_emulate_special", b.getI32Type(), {i32(*special)}));
  } else if (isa<NVVM::Barrier0Op>(op)) {
    call("ingot_rt_emulate_barrier", none, {i32(0), text(nameOf(op->getLoc()))});
  } else if (auto barrier = dyn_cast<NVVM::BarrierOp>(op)) {
    if (barrier.getNumberOfThreads() || barrier.getReductionOp())
      return false;
    call("ingot_rt_emulate_barrier", none,
         {barrier.getBarrierId() ? barrier.getBarrierId() : i32(0), text(nameOf(op->getLoc()))});
  } else if (auto shuffle = dyn_cast<NVVM::ShflOp>(op)) {
    rewriteShuffle(shuffle);
  } else if (auto vote = dyn_cast<NVVM::VoteSyncOp>(op)) {
    Value predicate = LLVM::ZExtOp::create(b, b.getI32Type(), vote.getPred());
    Value result =
        call("ingot_rt_emulate_vote", b.getI32Type(),
             {i32(static_cast<uint32_t>(vote.getKind())), vote.getMask(), predicate, text(nameOf(op->getLoc()))});
    if (vote.getType().isInteger(1))
      result = LLVM::TruncOp::create(b, b.getI1Type(), result);
    vote.replaceAllUsesWith(result);
  } else if (auto product = dyn_cast<NVVM::MmaOp>(op)) {
    if (!rewriteMma(product))
      return false;
  } else if (auto matrix = dyn_cast<NVVM::LdMatrixOp>(op)) {
    if (!rewriteLoadMatrix(matrix))
      return false;
  } else if (auto copy = dyn_cast<NVVM::CpAsyncOp>(op)) {
    rewriteCopy(copy);
  } else if (isa<NVVM::CpAsyncCommitGroupOp>(op)) {
    call("ingot_rt_emulate_copy_commit", none, {});
  } else if (auto wait = dyn_cast<NVVM::CpAsyncWaitGroupOp>(op)) {
    call("ingot_rt_emulate_copy_wait", none, {i32(wait.getN())});
  } else {
    return false;
  }
  op->erase();
  return true;
}

LogicalResult KernelEmulation::rewriteOp(Operation *op) {
  b.setLoc(op->getLoc());
  b.setInsertionPoint(op);
  if (isa_and_nonnull<NVVM::NVVMDialect>(op->getDialect())) {
    std::string what = op->getName().getStringRef().str();
    Location loc = op->getLoc();
    if (!rewriteNVVM(op))
      return emitError(loc) << what << ": the emulator does not have this op in this form";
    return success();
  }
  if (auto address = dyn_cast<LLVM::AddressOfOp>(op)) {
    auto global = device.lookupSymbol<LLVM::GlobalOp>(address.getGlobalName());
    if (global && KernelDescriptions::isShared(global)) {
      FailureOr<uint32_t> offset = KernelDescriptions::place(shared, global, layout);
      if (failed(offset))
        return failure();
      Value at = call("ingot_rt_emulate_shared", pointer, {i32(*offset)});
      address.replaceAllUsesWith(at);
      address.erase();
      return success();
    }
    if (global && !llvm::is_contained(constants, global.getSymName()))
      constants.push_back(global.getSymName());
  }
  auto load = dyn_cast<LLVM::LoadOp>(op);
  auto store = dyn_cast<LLVM::StoreOp>(op);
  auto atomic = dyn_cast<LLVM::AtomicRMWOp>(op);
  auto exchange = dyn_cast<LLVM::AtomicCmpXchgOp>(op);
  if (atomic || exchange) {
    if (atomic ? rewriteAtomic(atomic) : rewriteAtomic(exchange))
      return success();
    return op->emitOpError("the emulator does not have this op in this form");
  }
  if (isa<LLVM::AllocaOp, LLVM::CallOp, LLVM::InlineAsmOp>(op))
    return op->emitOpError("the emulator does not have this op");
  if (load)
    announce(op, load.getAddr(), load.getType(), /*isStore=*/false);
  if (store)
    announce(op, store.getAddr(), store.getValue().getType(), /*isStore=*/true);
  for (Value result : op->getResults())
    result.setType(hostType(result.getType()));
  if (auto cast = dyn_cast<LLVM::AddrSpaceCastOp>(op)) {
    cast.replaceAllUsesWith(cast.getArg());
    cast.erase();
  }
  return success();
}

LogicalResult KernelEmulation::rewrite(LLVM::LLVMFuncOp kernel) {
  for (Block &block : kernel.getBody())
    for (BlockArgument argument : block.getArguments())
      argument.setType(hostType(argument.getType()));
  SmallVector<Type> types;
  for (Type type : kernel.getFunctionType().getParams())
    types.push_back(hostType(type));
  kernel.setType(LLVM::LLVMFunctionType::get(kernel.getFunctionType().getReturnType(), types));
  entry = &kernel.getBody().front();
  fragments[0] = fragments[1] = fragments[2] = registers = Value();
  SmallVector<Operation *> ops;
  kernel.walk([&](Operation *op) {
    if (op != kernel)
      ops.push_back(op);
  });
  for (Operation *op : ops)
    if (failed(rewriteOp(op)))
      return failure();
  for (NamedAttribute attribute : llvm::to_vector(kernel->getDiscardableAttrs()))
    kernel->removeDiscardableAttr(attribute.getName());
  return success();
}

LLVM::LLVMFuncOp KernelEmulation::emitThread(LLVM::LLVMFuncOp kernel) {
  b.setInsertionPointToEnd(host.getBody());
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), {pointer});
  auto thread = LLVM::LLVMFuncOp::create(b, (kernel.getSymName() + "_thread").str(), type);
  Block *entry = thread.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  SmallVector<Value> operands;
  for (auto [i, parameter] : llvm::enumerate(kernel.getFunctionType().getParams())) {
    Value at = LLVM::GEPOp::create(b, pointer, b.getI64Type(), entry->getArgument(0),
                                   ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    operands.push_back(LLVM::LoadOp::create(b, parameter, at));
  }
  LLVM::CallOp::create(b, kernel, operands);
  LLVM::ReturnOp::create(b, ValueRange());
  return thread;
}

LogicalResult KernelEmulation::run() {
  // Tables first: the kernels' descriptions need them in the host's module.
  for (auto global : llvm::make_early_inc_range(device.getOps<LLVM::GlobalOp>())) {
    if (KernelDescriptions::isShared(global))
      continue;
    b.setInsertionPointToStart(host.getBody());
    auto clone = cast<LLVM::GlobalOp>(b.clone(*global));
    clone.setAddrSpace(0);
  }
  for (auto kernel : llvm::make_early_inc_range(device.getOps<LLVM::LLVMFuncOp>())) {
    KernelFacts facts;
    facts.arguments = KernelDescriptions::argumentsOf(kernel);
    if (!facts.arguments)
      return failure();
    facts.threads = KernelDescriptions::threadsOf(kernel);
    shared = {};
    constants.clear();
    if (failed(rewrite(kernel)))
      return failure();
    kernel->moveBefore(host.getBody(), host.getBody()->end());
    b.setLoc(kernel.getLoc());
    facts.thread = emitThread(kernel);
    facts.sharedBytes = shared.bytes;
    facts.constants = constants;
    descriptions.describe(kernel.getLoc(), kernel.getSymName(), facts);
  }
  device.erase();
  return success();
}

namespace {
struct EmulateNVVM : ingot::impl::EmulateNVVMPassBase<EmulateNVVM> {
  using Base::Base;

  void runOnOperation() override {
    auto device = getOperation().lookupSymbol<mlir::gpu::GPUModuleOp>(kernelsModuleName);
    auto host = getOperation().lookupSymbol<ModuleOp>(emulatedVariantName);
    if (!device || !host) {
      getOperation().emitError("expected a gpu.module @")
          << kernelsModuleName << " and a module @\"" << emulatedVariantName << "\" of launches";
      return signalPassFailure();
    }
    if (failed(KernelEmulation(device, host).run()))
      signalPassFailure();
  }
};
} // namespace
