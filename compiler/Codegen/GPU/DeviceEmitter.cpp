//===- DeviceEmitter.cpp - Short words for the code of one thread of a kernel -------------------------------------===//
//
// See DeviceEmitter.h.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/GPU/DeviceEmitter.h"
#include "compiler/Codegen/CPU/VectorMath.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace ingot::gpu {

/// Names an access for as long as it lives.
namespace {
class Named {
public:
  Named(DeviceEmitter &e, StringRef name) : e(e), before(e.getLoc()) {
    e.setLoc(NameLoc::get(e.getStringAttr(name), before));
  }
  ~Named() { e.setLoc(before); }

private:
  DeviceEmitter &e;
  Location before;
};
} // namespace

DeviceEmitter::DeviceEmitter(mlir::gpu::GPUFuncOp kernel)
    : cpu::Emitter(kernel.getLoc(), kernel.getContext()), kernel(kernel) {
  setInsertionPointToStart(&kernel.getBody().front());
  threadId = ix(mlir::gpu::ThreadIdOp::create(*this, mlir::gpu::Dimension::x));
}

void DeviceEmitter::residentBlocks(int32_t blocks) {
  kernel->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(), getI32IntegerAttr(blocks));
}

const DeviceMemory &DeviceEmitter::memory(StringRef name) const {
  auto it = memories.find(name);
  assert(it != memories.end() && "no such memory among the kernel's arguments");
  return it->second;
}

Value DeviceEmitter::value(StringRef name) const {
  assert(values.contains(name) && "no such value among the kernel's arguments");
  return values.lookup(name);
}

Ix DeviceEmitter::index(StringRef name) { return ix(value(name)); }

Ix DeviceEmitter::block(int dimension) {
  static constexpr mlir::gpu::Dimension dimensions[] = {mlir::gpu::Dimension::x, mlir::gpu::Dimension::y,
                                                        mlir::gpu::Dimension::z};
  return ix(mlir::gpu::BlockIdOp::create(*this, dimensions[dimension]));
}

DeviceMemory DeviceEmitter::shared(StringRef name, Type element, int64_t count) {
  auto space = mlir::gpu::AddressSpaceAttr::get(getContext(), mlir::gpu::AddressSpace::Workgroup);
  auto type = MemRefType::get({count}, element, MemRefLayoutAttrInterface(), space);
  return {kernel.addWorkgroupAttribution(type, NameLoc::get(getStringAttr(name))), Type(), name.str()};
}

DeviceMemory DeviceEmitter::sharedTile(StringRef name, Type element, int64_t count) {
  static constexpr auto sharedSpace = static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared);
  std::string symbol = (kernel.getName() + "_" + name).str();
  llvm::replace(symbol, ' ', '_');
  {
    OpBuilder::InsertionGuard guard(*this);
    setInsertionPointToStart(kernel->getParentOfType<mlir::gpu::GPUModuleOp>().getBody());
    LLVM::GlobalOp::create(*this, LLVM::LLVMArrayType::get(element, count), /*isConstant=*/false,
                           LLVM::Linkage::Internal, symbol, Attribute(), /*alignment=*/16, sharedSpace);
  }
  auto pointer = LLVM::LLVMPointerType::get(getContext(), sharedSpace);
  return {LLVM::AddressOfOp::create(*this, pointer, symbol), element, name.str()};
}

DeviceMemory DeviceEmitter::constants(StringRef name, ArrayRef<float> values) {
  static constexpr auto constantSpace = static_cast<unsigned>(NVVM::NVVMMemorySpace::Constant);
  std::string symbol = (kernel.getName() + "_" + name).str();
  {
    OpBuilder::InsertionGuard guard(*this);
    setInsertionPointToStart(kernel->getParentOfType<mlir::gpu::GPUModuleOp>().getBody());
    auto type = LLVM::LLVMArrayType::get(getF32Type(), values.size());
    auto table =
        DenseElementsAttr::get(RankedTensorType::get({static_cast<int64_t>(values.size())}, getF32Type()), values);
    LLVM::GlobalOp::create(*this, type, /*isConstant=*/true, LLVM::Linkage::Internal, symbol, table, /*alignment=*/16,
                           constantSpace);
  }
  auto pointer = LLVM::LLVMPointerType::get(getContext(), constantSpace);
  return {LLVM::AddressOfOp::create(*this, pointer, symbol), getF32Type(), name.str()};
}

Value DeviceEmitter::address(const DeviceMemory &memory, Ix at) {
  Value offset = arith::IndexCastOp::create(*this, getI64Type(), at.value);
  return LLVM::GEPOp::create(*this, memory.memory.getType(), memory.element, memory.memory,
                             ArrayRef<LLVM::GEPArg>{offset});
}

Value DeviceEmitter::load(const DeviceMemory &memory, Ix at) {
  Named named(*this, memory.name);
  if (!memory.element)
    return memref::LoadOp::create(*this, memory.memory, ValueRange{at.value});
  return LLVM::LoadOp::create(*this, memory.element, address(memory, at));
}

void DeviceEmitter::store(Value value, const DeviceMemory &memory, Ix at) {
  Named named(*this, memory.name);
  if (!memory.element)
    memref::StoreOp::create(*this, value, memory.memory, ValueRange{at.value});
  else
    LLVM::StoreOp::create(*this, value, address(memory, at));
}

Value DeviceEmitter::loadAs(Type type, const DeviceMemory &memory, Ix at) {
  Named named(*this, memory.name);
  return LLVM::LoadOp::create(*this, type, address(memory, at));
}

Value DeviceEmitter::addAtomically(Value value, const DeviceMemory &memory, Ix at) {
  Named named(*this, memory.name);
  // Nothing is ordered by it: barriers do that.
  return LLVM::AtomicRMWOp::create(*this, LLVM::AtomicBinOp::add, address(memory, at), value,
                                   LLVM::AtomicOrdering::monotonic, "block");
}

void DeviceEmitter::copyAsync(const DeviceMemory &to, Ix toAt, const DeviceMemory &from, Ix fromAt, int64_t bytes,
                              Value sourceBytes) {
  Named named(*this, from.name);
  // Past L1, which only copies of 16 bytes may.
  auto cache = bytes == 16 ? NVVM::LoadCacheModifierKind::CG : NVVM::LoadCacheModifierKind::CA;
  NVVM::CpAsyncOp::create(*this, address(to, toAt), address(from, fromAt), static_cast<uint32_t>(bytes), cache,
                          sourceBytes);
}

void DeviceEmitter::commitCopies() { NVVM::CpAsyncCommitGroupOp::create(*this); }

void DeviceEmitter::waitForCopies(int64_t pending) {
  NVVM::CpAsyncWaitGroupOp::create(*this, static_cast<uint32_t>(pending));
}

SmallVector<Value> DeviceEmitter::mma(Multiplicand type, ArrayRef<Value> a, ArrayRef<Value> b, ArrayRef<Value> c) {
  Named named(*this, "product");
  auto result = LLVM::LLVMStructType::getLiteral(getContext(), SmallVector<Type>(4, getF32Type()));
  const int64_t shape[] = {16, 8, type == Multiplicand::TF32 ? 8 : 16};
  auto ptx = type == Multiplicand::TF32 ? NVVM::MMATypes::tf32 : NVVM::MMATypes::bf16;
  Value sums = NVVM::MmaOp::create(*this, result, a, b, c, shape, std::nullopt, std::nullopt, std::array{ptx, ptx},
                                   std::array{NVVM::MMALayout::row, NVVM::MMALayout::col});
  SmallVector<Value> values;
  for (int64_t i = 0; i < 4; ++i)
    values.push_back(LLVM::ExtractValueOp::create(*this, sums, ArrayRef<int64_t>{i}));
  return values;
}

Value DeviceEmitter::either(Value condition, function_ref<Value()> then, function_ref<Value()> otherwise) {
  auto branch = [](function_ref<Value()> compute, DeviceEmitter &e) {
    return [compute, &e](OpBuilder &builder, Location loc) {
      OpBuilder::InsertionGuard guard(e);
      e.restoreInsertionPoint(builder.saveInsertionPoint());
      Value value = compute();
      scf::YieldOp::create(e, loc, value);
    };
  };
  return scf::IfOp::create(*this, condition, branch(then, *this), branch(otherwise, *this)).getResult(0);
}

void DeviceEmitter::barrier(StringRef what) {
  Named named(*this, what);
  mlir::gpu::BarrierOp::create(*this);
}

Value DeviceEmitter::shuffleXor(Value value, int64_t distance) {
  Named named(*this, "butterfly of " + std::to_string(distance));
  return mlir::gpu::ShuffleOp::create(*this, value, i32(distance), i32(warpThreads), mlir::gpu::ShuffleMode::XOR)
      .getShuffleResult();
}

Value DeviceEmitter::shuffleUpWide(Value value, int64_t distance) {
  Named named(*this, "scan of " + std::to_string(distance));
  Value thirtyTwo = arith::ConstantIntOp::create(*this, 32, 64);
  auto up = [&](Value word) -> Value {
    word = arith::TruncIOp::create(*this, getI32Type(), word);
    word = mlir::gpu::ShuffleOp::create(*this, word, i32(distance), i32(warpThreads), mlir::gpu::ShuffleMode::UP)
               .getShuffleResult();
    return arith::ExtUIOp::create(*this, getI64Type(), word);
  };
  Value low = up(value), high = up(arith::ShRUIOp::create(*this, value, thirtyTwo));
  return arith::OrIOp::create(*this, low, arith::ShLIOp::create(*this, high, thirtyTwo));
}

Value DeviceEmitter::butterfly(Value value, function_ref<Value(Value, Value)> combine) {
  for (int64_t distance = warpThreads / 2; distance > 0; distance /= 2)
    value = combine(value, shuffleXor(value, distance));
  return value;
}

// Addition is commutative in bits, so that both partners of a butterfly get the same sum.
Value DeviceEmitter::warpSum(Value partial) {
  return butterfly(partial, [&](Value a, Value b) { return add(a, b); });
}

Value DeviceEmitter::warpMax(Value partial) {
  return butterfly(partial, [&](Value a, Value b) { return larger(a, b); });
}

Value DeviceEmitter::blockSum(Value partial) {
  static constexpr int64_t warps = blockThreads / warpThreads;
  static_assert(warps == 4, "the sums of the warps are a tree of four");
  DeviceMemory sums = shared("warp sums", getF32Type(), warps);
  Value sum = warpSum(partial);
  when(lane() == c(0), [&] { store(sum, sums, warp()); });
  barrier("sum over the block");
  auto of = [&](int64_t i) { return load(sums, c(i)); };
  return add(add(of(0), of(1)), add(of(2), of(3)));
}

Value DeviceEmitter::sqrt(Value x) {
  return LLVM::CallIntrinsicOp::create(*this, getF32Type(), getStringAttr("llvm.sqrt.f32"), ValueRange{x}).getResult(0);
}

Value DeviceEmitter::exp(Value x) {
  return vector::ExtractOp::create(*this, cpu::emitExp(*this, broadcast(x, 1)), ArrayRef<int64_t>{0});
}

Value DeviceEmitter::silu(Value x) {
  return vector::ExtractOp::create(*this, cpu::emitSiLU(*this, broadcast(x, 1)), ArrayRef<int64_t>{0});
}

std::pair<Value, Value> DeviceEmitter::cosSin(Value x) {
  auto [cosine, sine] = cpu::emitCosSin(*this, broadcast(x, 1));
  return {vector::ExtractOp::create(*this, cosine, ArrayRef<int64_t>{0}),
          vector::ExtractOp::create(*this, sine, ArrayRef<int64_t>{0})};
}

} // namespace ingot::gpu
