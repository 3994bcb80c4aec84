//===- ConvertLoopsToLLVM.cpp - Nested modules of loops to the LLVM dialect,
// with exported step functions ---------===//
//
// MLIR's own conversions do the loops. What this pass adds is the entry: from a
// struct of abi.h to the arguments of `step`, by the offsets that the header
// itself gives.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Conversion/Passes.h"
#include "compiler/Conversion/StepArguments.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include <limits>

namespace ingot {
#define GEN_PASS_DEF_CONVERTLOOPSTOLLVMPASS
#include "compiler/Conversion/Passes.h.inc"
} // namespace ingot

using namespace mlir;
using namespace ingot;

/// The constant that Target emits beside the step functions.
static constexpr llvm::StringLiteral modelSymbol = "ingot_rt_the_model";

namespace {
/// Emits a module's entry function.
class EntryEmitter {
public:
  EntryEmitter(ModuleOp module, LLVM::LLVMFuncOp step)
      : module(module), step(step), b(step.getLoc(), module.getContext()) {}

  void emit();

private:
  Value integer(IntegerType type, uint64_t value) {
    return LLVM::ConstantOp::create(b, type, b.getIntegerAttr(type, static_cast<int64_t>(value)));
  }
  Value i32(uint64_t value) { return integer(b.getI32Type(), value); }
  Value i64(uint64_t value) { return integer(b.getI64Type(), value); }
  Value loadFrom(Value base, size_t offset, Type type) {
    Value address =
        LLVM::GEPOp::create(b, pointer, b.getI8Type(), base, ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)});
    return LLVM::LoadOp::create(b, type, address);
  }
  Value load(size_t offset, Type type) { return loadFrom(arguments, offset, type); }
  Value differs(Value a, Value other) { return LLVM::ICmpOp::create(b, LLVM::ICmpPredicate::ne, a, other); }
  /// Returns `status` where `condition` holds, and goes on where it does not.
  void returnIf(Value condition, uint32_t status);
  void check();
  void callStep(Value worker, Value workers);

  ModuleOp module;
  LLVM::LLVMFuncOp step;
  ImplicitLocOpBuilder b;
  LLVM::LLVMPointerType pointer;
  LLVM::LLVMFuncOp entry;
  Value arguments;
};
} // namespace

void EntryEmitter::returnIf(Value condition, uint32_t status) {
  Block *here = b.getInsertionBlock();
  Block *leave = entry.addBlock(), *next = entry.addBlock();
  b.setInsertionPointToEnd(here);
  LLVM::CondBrOp::create(b, condition, leave, next);
  b.setInsertionPointToStart(leave);
  LLVM::ReturnOp::create(b, i32(status));
  b.setInsertionPointToStart(next);
}

/// Everything that makes a step refuse its arguments. Older callers pass a
/// smaller struct, newer ones a larger.
void EntryEmitter::check() {
  Value size = load(offsetof(ingot_rt_step_args, size), b.getI64Type());
  returnIf(LLVM::ICmpOp::create(b, LLVM::ICmpPredicate::ult, size, i64(sizeof(ingot_rt_step_args))), INGOT_RT_BAD_SIZE);
  Value version = load(offsetof(ingot_rt_step_args, version), b.getI32Type());
  returnIf(differs(version, i32(INGOT_RT_ABI_VERSION)), INGOT_RT_BAD_SIZE);
  Value model = LLVM::AddressOfOp::create(b, pointer, modelSymbol);
  Value expected = loadFrom(model, offsetof(ingot_rt_model, cache_id), b.getI64Type());
  returnIf(differs(load(offsetof(ingot_rt_step_args, cache_id), b.getI64Type()), expected), INGOT_RT_BAD_CACHE);
  Value null = LLVM::ZeroOp::create(b, pointer);
  for (size_t reserved : {offsetof(ingot_rt_step_args, adapters), offsetof(ingot_rt_step_args, embeddings),
                          offsetof(ingot_rt_step_args, ancestors), offsetof(ingot_rt_step_args, communicator)})
    returnIf(differs(load(reserved, pointer), null), INGOT_RT_UNSUPPORTED);
  bool launches = module.getSymName() == emulatedVariantName || module.getSymName() == cudaVariantName;
  if (launches)
    returnIf(
        LLVM::ICmpOp::create(b, LLVM::ICmpPredicate::eq, load(offsetof(ingot_rt_step_args, launch), pointer), null),
        INGOT_RT_UNSUPPORTED);
  Value output = load(offsetof(ingot_rt_step_args, output), b.getI32Type());
  Value isOther = LLVM::ICmpOp::create(b, LLVM::ICmpPredicate::ugt, output, i32(INGOT_RT_ARGMAX));
  if (launches)
    isOther = LLVM::AndOp::create(b, isOther, differs(output, i32(INGOT_RT_TOKENS)));
  returnIf(isOther, INGOT_RT_UNSUPPORTED);
}

/// Calls `step`; a memref is passed as its five fields, of which only the
/// address is read.
void EntryEmitter::callStep(Value worker, Value workers) {
  Value unknown = i64(std::numeric_limits<int64_t>::max()), zero = i64(0), one = i64(1);
  SmallVector<Value> operands;
  for (const StepArgument &argument : stepArguments) {
    switch (argument.kind) {
    case StepArgumentKind::Index:
      operands.push_back(load(argument.offset, b.getI64Type()));
      break;
    case StepArgumentKind::Int:
      operands.push_back(load(argument.offset, b.getI32Type()));
      break;
    case StepArgumentKind::Pointer:
      operands.push_back(load(argument.offset, pointer));
      break;
    default:
      Value address = load(argument.offset, pointer);
      operands.append({address, address, zero, unknown, one});
    }
  }
  for (Value number : {worker, workers})
    operands.push_back(LLVM::ZExtOp::create(b, b.getI64Type(), number));
  LLVM::CallOp::create(b, step, operands);
}

void EntryEmitter::emit() {
  pointer = LLVM::LLVMPointerType::get(module.getContext());
  b.setInsertionPointToStart(module.getBody());
  LLVM::GlobalOp::create(b, LLVM::LLVMArrayType::get(b.getI8Type(), sizeof(ingot_rt_model)),
                         /*isConstant=*/true, LLVM::Linkage::External, modelSymbol, Attribute());
  b.setInsertionPointToEnd(module.getBody());
  auto type = LLVM::LLVMFunctionType::get(b.getI32Type(), {pointer, b.getI32Type(), b.getI32Type()});
  entry = LLVM::LLVMFuncOp::create(b, stepSymbol(module.getSymName().value_or("")), type);
  Block *block = entry.addEntryBlock(b);
  b.setInsertionPointToStart(block);
  arguments = block->getArgument(0);
  check();
  callStep(block->getArgument(1), block->getArgument(2));
  LLVM::ReturnOp::create(b, i32(INGOT_RT_OK));
}

namespace {
struct ConvertLoopsToLLVM : ingot::impl::ConvertLoopsToLLVMPassBase<ConvertLoopsToLLVM> {
  using Base::Base;

  void getDependentDialects(DialectRegistry &registry) const override {
    Base::getDependentDialects(registry);
    buildPipeline().getDependentDialects(registry);
  }

  static OpPassManager buildPipeline() {
    OpPassManager pipeline(ModuleOp::getOperationName());
    pipeline.addPass(createSCFToControlFlowPass());
    pipeline.addPass(createConvertVectorToLLVMPass());
    pipeline.addPass(createConvertMathToLLVMPass());
    pipeline.addPass(createFinalizeMemRefToLLVMConversionPass());
    pipeline.addPass(createArithToLLVMConversionPass());
    pipeline.addPass(createConvertIndexToLLVMPass());
    pipeline.addPass(createConvertFuncToLLVMPass());
    pipeline.addPass(createConvertControlFlowToLLVMPass());
    pipeline.addPass(createReconcileUnrealizedCastsPass());
    pipeline.addPass(createCanonicalizerPass());
    pipeline.addPass(createCSEPass());
    return pipeline;
  }

  void runOnOperation() override;
};
} // namespace

void ConvertLoopsToLLVM::runOnOperation() {
  OpPassManager pipeline = buildPipeline();
  for (auto nested : getOperation().getOps<ModuleOp>()) {
    if (failed(runPipeline(pipeline, nested)))
      return signalPassFailure();
    auto step = nested.lookupSymbol<LLVM::LLVMFuncOp>(stepName);
    if (!step) {
      nested.emitError("expected a function @") << stepName << " in the module of a CPU variant";
      return signalPassFailure();
    }
    for (auto function : nested.getOps<LLVM::LLVMFuncOp>()) {
      // Symbols of different variants meet in one executable.
      function.setLinkage(function.isExternal() ? LLVM::Linkage::External : LLVM::Linkage::Internal);
      // Kernels are called rarely for what they do. Inlined into each other they would make one function of all loops,
      // whose compile time grows faster than its size.
      if (!function.isExternal())
        function.setNoInline(true);
    }
    EntryEmitter(nested, step).emit();
  }
}
