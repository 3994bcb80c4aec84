//===- DeviceKernels.cpp - Launches, and the frame of a kernel ----------------------------------------------------===//
//
// See DeviceKernels.h. The structures that a launch fills are those of ingot_rt/abi.h, by the offsets that the header
// itself gives.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/GPU/DeviceKernels.h"
#include "ingot_rt/abi.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include <cstddef>

using namespace mlir;

namespace ingot::gpu {

/// Emits a kernel, and the constant of the host's module that describes it, which is empty until the kernel is code.
void DeviceKernels::emitKernel(StringRef name, ArrayRef<Parameter> parameters, function_ref<void(DeviceEmitter &)> body,
                               int64_t threads) {
  MLIRContext *context = device.getContext();
  OpBuilder builder = OpBuilder::atBlockEnd(device.getBody());
  auto global = LLVM::LLVMPointerType::get(context, static_cast<unsigned>(NVVM::NVVMMemorySpace::Global));
  SmallVector<Type> types;
  SmallVector<Attribute> names;
  for (const Parameter &parameter : parameters) {
    types.push_back(parameter.isMemory ? Type(global) : parameter.type);
    names.push_back(builder.getStringAttr(parameter.name));
  }
  auto kernel = mlir::gpu::GPUFuncOp::create(builder, NameLoc::get(builder.getStringAttr(name)), name,
                                             builder.getFunctionType(types, {}));
  kernel->setAttr(mlir::gpu::GPUDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  kernel->setAttr(argumentNamesAttrName, builder.getArrayAttr(names));
  kernel.setKnownBlockSize(ArrayRef<int32_t>{static_cast<int32_t>(threads), 1, 1});
  DeviceEmitter e(kernel);
  for (auto [parameter, value] : llvm::zip(parameters, kernel.getArguments())) {
    if (parameter.isMemory)
      e.memories[parameter.name] = {value, parameter.type, parameter.name.str()};
    else
      e.values[parameter.name] = value;
  }
  body(e);
  mlir::gpu::ReturnOp::create(e);
  builder.setInsertionPointToStart(host.getBody());
  LLVM::GlobalOp::create(builder, e.getLoc(), LLVM::LLVMArrayType::get(e.getI8Type(), sizeof(ingot_rt_kernel)),
                         /*isConstant=*/true, LLVM::Linkage::External, (kernelSymbolPrefix + name).str(), Attribute());
}

/// The body of `launch_<name>`: `inner` are the callback, its context, op and layer, three sizes of the grid, then each
/// argument, memory followed by its count of elements.
void DeviceKernels::emitLaunch(cpu::Emitter &e, StringRef name, ArrayRef<Argument> arguments, ValueRange inner) {
  static constexpr size_t firstArgument = 7;
  Type i64 = e.getI64Type();
  auto pointer = LLVM::LLVMPointerType::get(e.getContext());
  auto toI64 = [&](Value value) -> Value { return arith::IndexCastOp::create(e, i64, value); };
  auto array = [&](int64_t bytes) -> Value {
    Value size = LLVM::ConstantOp::create(e, i64, e.getI64IntegerAttr(bytes));
    return LLVM::AllocaOp::create(e, pointer, e.getI8Type(), size, /*alignment=*/8);
  };
  auto storeAt = [&](Value value, Value base, size_t offset) {
    Value at =
        LLVM::GEPOp::create(e, pointer, e.getI8Type(), base, ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)});
    LLVM::StoreOp::create(e, value, at);
  };
  Value slots = array(8 * arguments.size()), extents = array(8 * arguments.size());
  size_t next = firstArgument;
  for (auto [number, argument] : llvm::enumerate(arguments)) {
    Value given = inner[next++], word, extent = LLVM::ConstantOp::create(e, i64, e.getI64IntegerAttr(0));
    if (argument.count.value) {
      Type element = cast<MemRefType>(given.getType()).getElementType();
      word = toI64(memref::ExtractAlignedPointerAsIndexOp::create(e, given));
      extent = toI64(e.ix(inner[next++]) * (element.getIntOrFloatBitWidth() / 8));
    } else if (given.getType().isIndex()) {
      word = toI64(given);
    } else {
      if (given.getType().isF32())
        given = arith::BitcastOp::create(e, e.getI32Type(), given);
      word = arith::ExtUIOp::create(e, i64, given);
    }
    storeAt(word, slots, 8 * number);
    storeAt(extent, extents, 8 * number);
  }
  Value record = array(sizeof(ingot_rt_launch));
  Value kernel = LLVM::AddressOfOp::create(e, pointer, (kernelSymbolPrefix + name).str());
  storeAt(kernel, record, offsetof(ingot_rt_launch, kernel));
  storeAt(slots, record, offsetof(ingot_rt_launch, arguments));
  storeAt(extents, record, offsetof(ingot_rt_launch, extents));
  for (int i = 0; i < 3; ++i)
    storeAt(e.toI32(e.ix(inner[4 + i])), record, offsetof(ingot_rt_launch, grid) + 4 * i);
  storeAt(inner[2], record, offsetof(ingot_rt_launch, op));
  storeAt(inner[3], record, offsetof(ingot_rt_launch, layer));
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(e.getContext()), {pointer, pointer});
  LLVM::CallOp::create(e, type, ValueRange{inner[0], inner[1], record});
}

void DeviceKernels::launch(cpu::Emitter &e, StringRef name, ArrayRef<Argument> arguments, ArrayRef<Ix> grid,
                           function_ref<void(DeviceEmitter &)> body, int64_t threads) {
  SmallVector<Value> operands = {context.launch, context.context, context.op, context.layer};
  for (size_t i = 0; i < 3; ++i)
    operands.push_back(i < grid.size() ? grid[i].value : e.c(1).value);
  for (const Argument &argument : arguments) {
    operands.push_back(argument.value);
    if (argument.count.value)
      operands.push_back(argument.count.value);
  }
  std::string launchName = (launchPrefix + name).str();
  auto function = host.lookupSymbol<func::FuncOp>(launchName);
  if (!function) {
    SmallVector<Parameter> parameters;
    for (const Argument &argument : arguments) {
      Type type = argument.value.getType();
      bool isMemory = static_cast<bool>(argument.count.value);
      parameters.push_back({argument.name, isMemory ? cast<MemRefType>(type).getElementType() : type, isMemory});
    }
    emitKernel(name, parameters, body, threads);
    cpu::Emitter outer(e.getLoc(), host.getContext());
    outer.setInsertionPointToEnd(host.getBody());
    function = func::FuncOp::create(outer, launchName, e.getFunctionType(TypeRange(ValueRange(operands)), {}));
    function.setPrivate();
    cpu::Emitter inner(e.getLoc(), host.getContext());
    inner.setInsertionPointToStart(function.addEntryBlock());
    emitLaunch(inner, name, arguments, function.getArguments());
    func::ReturnOp::create(inner);
  }
  func::CallOp::create(e, function, operands);
}

} // namespace ingot::gpu
