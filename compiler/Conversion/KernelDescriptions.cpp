//===- KernelDescriptions.cpp - The constants by which launches name their kernels --------------------------------===//
//
// See KernelDescriptions.h.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Conversion/KernelDescriptions.h"
#include "compiler/Codegen/GPU/DeviceKernels.h"
#include "ingot_rt/abi.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/Support/MathExtras.h"
#include <cstddef>

using namespace mlir;

namespace ingot {

KernelDescriptions::KernelDescriptions(ModuleOp host)
    : host(host), layout(host), pointer(LLVM::LLVMPointerType::get(host.getContext())) {}

bool KernelDescriptions::isShared(LLVM::GlobalOp global) {
  return global.getAddrSpace() == static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared);
}

FailureOr<uint32_t> KernelDescriptions::place(SharedLayout &layout, LLVM::GlobalOp global, const DataLayout &types) {
  if (auto known = layout.offsets.find(global.getSymName()); known != layout.offsets.end())
    return known->second;
  if (global.getValueOrNull())
    return global.emitError("expected shared memory without a value");
  uint64_t start = llvm::alignTo(layout.bytes, 16);
  uint64_t end = start + types.getTypeSize(global.getType());
  if (end > UINT32_MAX)
    return global.emitError("expected less than 2^32 bytes of shared memory");
  layout.offsets[global.getSymName()] = static_cast<uint32_t>(start);
  layout.bytes = static_cast<uint32_t>(end);
  return static_cast<uint32_t>(start);
}

uint32_t KernelDescriptions::threadsOf(LLVM::LLVMFuncOp kernel) {
  auto size = kernel->getAttrOfType<DenseI32ArrayAttr>(NVVM::NVVMDialect::getMaxntidAttrName());
  return size && !size.empty() ? static_cast<uint32_t>(size[0]) : static_cast<uint32_t>(gpu::blockThreads);
}

ArrayAttr KernelDescriptions::argumentsOf(LLVM::LLVMFuncOp kernel) {
  auto names = kernel->getAttrOfType<ArrayAttr>(gpu::argumentNamesAttrName);
  if (!names)
    kernel.emitError("expected a kernel, with the attribute '") << gpu::argumentNamesAttrName << "'";
  return names;
}

Value KernelDescriptions::text(ImplicitLocOpBuilder &b, StringRef value) {
  auto [entry, isNew] = texts.try_emplace(value, "ingot_text_" + std::to_string(texts.size()));
  if (isNew) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(host.getBody());
    std::string bytes = value.str() + std::string(1, '\0');
    LLVM::GlobalOp::create(b, LLVM::LLVMArrayType::get(b.getI8Type(), bytes.size()), /*isConstant=*/true,
                           LLVM::Linkage::Internal, entry->second, b.getStringAttr(bytes));
  }
  return LLVM::AddressOfOp::create(b, pointer, entry->second);
}

/// A table of 8-byte fields as a constant of its own.
LLVM::GlobalOp KernelDescriptions::table(ImplicitLocOpBuilder &b, StringRef name, Type type,
                                         function_ref<Value(Value)> fill) {
  auto global = LLVM::GlobalOp::create(b, type, /*isConstant=*/true, LLVM::Linkage::Internal, name, Attribute(),
                                       /*alignment=*/8);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(b.createBlock(&global.getInitializerRegion()));
  LLVM::ReturnOp::create(b, fill(LLVM::ZeroOp::create(b, type)));
  return global;
}

void KernelDescriptions::describe(Location loc, StringRef kernel, const KernelFacts &facts) {
  std::string symbol = (gpu::kernelSymbolPrefix + kernel).str();
  auto description = host.lookupSymbol<LLVM::GlobalOp>(symbol);
  ImplicitLocOpBuilder b(loc, host.getContext());
  b.setInsertionPoint(description);
  auto set = [&](Value into, Value value, ArrayRef<int64_t> position) -> Value {
    return LLVM::InsertValueOp::create(b, into, value, position);
  };
  auto integer = [&](IntegerType type, uint64_t value) -> Value {
    return LLVM::ConstantOp::create(b, type, b.getIntegerAttr(type, static_cast<int64_t>(value)));
  };
  auto names = table(b, symbol + "_arguments", LLVM::LLVMArrayType::get(pointer, facts.arguments.size()), [&](Value v) {
    for (auto [i, name] : llvm::enumerate(facts.arguments.getAsRange<StringAttr>()))
      v = set(v, text(b, name), {static_cast<int64_t>(i)});
    return v;
  });
  static_assert(sizeof(ingot_rt_constant) == 16, "an address and a size");
  auto pair = LLVM::LLVMStructType::getLiteral(b.getContext(), {pointer, b.getI64Type()});
  auto constants =
      table(b, symbol + "_constants", LLVM::LLVMArrayType::get(pair, facts.constants.size()), [&](Value v) {
        for (auto [i, name] : llvm::enumerate(facts.constants)) {
          auto global = host.lookupSymbol<LLVM::GlobalOp>(name);
          v = set(v, LLVM::AddressOfOp::create(b, pointer, name), {static_cast<int64_t>(i), 0});
          v = set(v, integer(b.getI64Type(), layout.getTypeSize(global.getType())), {static_cast<int64_t>(i), 1});
        }
        return v;
      });
  static_assert(offsetof(ingot_rt_kernel, threads) == 16 && offsetof(ingot_rt_kernel, argument_names) == 32 &&
                    sizeof(ingot_rt_kernel) == 48,
                "the fields of a kernel's description, in order");
  IntegerType word = b.getI32Type();
  auto type =
      LLVM::LLVMStructType::getLiteral(b.getContext(), {pointer, pointer, word, word, word, word, pointer, pointer});
  description.setGlobalType(type);
  description.setAlignment(8);
  b.setInsertionPointToStart(b.createBlock(&description.getInitializerRegion()));
  Value value = LLVM::ZeroOp::create(b, type);
  value = set(value, text(b, kernel), {0});
  if (LLVM::LLVMFuncOp thread = facts.thread)
    value = set(value, LLVM::AddressOfOp::create(b, pointer, thread.getSymName()), {1});
  const size_t sizes[] = {facts.threads, facts.sharedBytes, facts.arguments.size(), facts.constants.size()};
  for (auto [i, field] : llvm::enumerate(sizes))
    value = set(value, integer(word, field), {static_cast<int64_t>(2 + i)});
  value = set(value, LLVM::AddressOfOp::create(b, pointer, names.getSymName()), {6});
  value = set(value, LLVM::AddressOfOp::create(b, pointer, constants.getSymName()), {7});
  LLVM::ReturnOp::create(b, value);
}

} // namespace ingot
