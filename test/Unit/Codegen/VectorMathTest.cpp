//===- VectorMathTest.cpp - The code generator's own functions against libm in double -----------------------------===//
//
// Each function is compiled for this machine and run on every 1,000th float or more closely, and on what is special.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/CPU/VectorMath.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/bit.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/TargetSelect.h"
#include <bit>
#include <cmath>
#include <gtest/gtest.h>

using namespace mlir;
using namespace ingot::cpu;

namespace {

/// out[i] = what `compute` makes of in[i], whole vectors of 16.
class VectorFunction {
public:
  explicit VectorFunction(llvm::function_ref<Value(Emitter &, Value)> compute) {
    DialectRegistry registry;
    registerAllDialects(registry);
    registerAllExtensions(registry);
    registerAllToLLVMIRTranslations(registry);
    MLIRContext context(registry);
    context.loadAllAvailableDialects();
    Location location = UnknownLoc::get(&context);
    OwningOpRef<ModuleOp> module = ModuleOp::create(location);
    Emitter e(location, &context);
    e.setInsertionPointToEnd(module->getBody());
    auto type = e.getFunctionType({e.floats(), e.floats(), e.getIndexType()}, {});
    auto function = func::FuncOp::create(e, "run", type);
    e.setInsertionPointToStart(function.addEntryBlock());
    e.loop(e.c(0), e.ix(function.getArgument(2)), lanes,
           [&](Ix i) { e.vstore(compute(e, e.vload(function.getArgument(0), i)), function.getArgument(1), i); });
    func::ReturnOp::create(e);
    PassManager passes(&context);
    passes.addPass(createSCFToControlFlowPass());
    passes.addPass(createConvertVectorToLLVMPass());
    passes.addPass(createConvertMathToLLVMPass());
    passes.addPass(createFinalizeMemRefToLLVMConversionPass());
    passes.addPass(createArithToLLVMConversionPass());
    passes.addPass(createConvertFuncToLLVMPass());
    passes.addPass(createConvertControlFlowToLLVMPass());
    passes.addPass(createReconcileUnrealizedCastsPass());
    EXPECT_TRUE(succeeded(passes.run(*module)));
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    auto llvmContext = std::make_unique<llvm::LLVMContext>();
    auto llvmModule = translateModuleToLLVMIR(*module, *llvmContext);
    auto builder = llvm::cantFail(llvm::orc::JITTargetMachineBuilder::detectHost());
    for (llvm::Function &f : *llvmModule)
      f.addFnAttr("target-cpu", builder.getCPU());
    jit = llvm::cantFail(llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(builder).create());
    llvmModule->setDataLayout(jit->getDataLayout());
    llvm::cantFail(jit->addIRModule(llvm::orc::ThreadSafeModule(std::move(llvmModule), std::move(llvmContext))));
    entry = llvm::cantFail(jit->lookup("run")).toPtr<Entry>();
  }

  std::vector<float> operator()(std::vector<float> in) const {
    size_t count = in.size();
    in.resize((count + lanes - 1) / lanes * lanes);
    std::vector<float> out(in.size());
    int64_t size = static_cast<int64_t>(in.size());
    entry(in.data(), in.data(), 0, size, 1, out.data(), out.data(), 0, size, 1, size);
    out.resize(count);
    return out;
  }

private:
  using Entry = void (*)(float *, float *, int64_t, int64_t, int64_t, float *, float *, int64_t, int64_t, int64_t,
                         int64_t);
  std::unique_ptr<llvm::orc::LLJIT> jit;
  Entry entry;
};

/// Floats between two, every `step`th in the order of their bits; the bounds have one sign.
std::vector<float> floatsBetween(float small, float large, uint32_t step) {
  std::vector<float> result;
  for (uint32_t bits = std::bit_cast<uint32_t>(small); bits <= std::bit_cast<uint32_t>(large); bits += step)
    result.push_back(std::bit_cast<float>(bits));
  return result;
}

/// |actual - exact| in units of the last place of the exact value as a float, subnormal ones included.
double ulps(float actual, double exact) {
  float rounded = static_cast<float>(exact);
  if (std::isinf(rounded) || std::isinf(actual))
    return rounded == actual ? 0 : INFINITY;
  int exponent = 0;
  std::frexp(std::fabs(exact), &exponent);
  double unit = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::fabs(actual - exact) / unit;
}

} // namespace

TEST(VectorMath, ExpWithinTwoUlps) {
  VectorFunction exp([](Emitter &e, Value x) { return emitExp(e, x); });
  std::vector<float> in = floatsBetween(-0.0f, -110.0f, 997), positive = floatsBetween(0.0f, 89.5f, 997);
  in.insert(in.end(), positive.begin(), positive.end());
  std::vector<float> out = exp(in);
  for (size_t i = 0; i < in.size(); ++i)
    ASSERT_LE(ulps(out[i], std::exp(static_cast<double>(in[i]))), 2.0) << in[i] << " gives " << out[i];
  out = exp({0.0f, -INFINITY, INFINITY, NAN, -1e30f, 1e30f});
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], 0.0f);
  EXPECT_EQ(out[2], INFINITY);
  EXPECT_TRUE(std::isnan(out[3]));
  EXPECT_EQ(out[4], 0.0f);
  EXPECT_EQ(out[5], INFINITY);
}

TEST(VectorMath, ExpOfNegativeWithinTwoUlpsOfWhatIsNormal) {
  VectorFunction exp([](Emitter &e, Value x) { return emitExpOfNegative(e, x); });
  std::vector<float> in = floatsBetween(-0.0f, -87.3f, 997);
  std::vector<float> out = exp(in);
  for (size_t i = 0; i < in.size(); ++i)
    ASSERT_LE(ulps(out[i], std::exp(static_cast<double>(in[i]))), 2.0) << in[i] << " gives " << out[i];
  // A NaN with all of its low bits, which must not become an exponent.
  float odd = std::bit_cast<float>(0x7fffffffu);
  out = exp({0.0f, -INFINITY, NAN, odd, -1e30f, std::nextafter(-87.3f, -100.0f)});
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], 0.0f);
  EXPECT_TRUE(std::isnan(out[2]));
  EXPECT_TRUE(std::isnan(out[3]));
  EXPECT_EQ(out[4], 0.0f);
  EXPECT_EQ(out[5], 0.0f);
}

TEST(VectorMath, SiLU) {
  VectorFunction silu([](Emitter &e, Value x) { return emitSiLU(e, x); });
  std::vector<float> in = floatsBetween(-1e-30f, -80.0f, 9973), positive = floatsBetween(1e-30f, 1e30f, 9973);
  in.insert(in.end(), positive.begin(), positive.end());
  std::vector<float> out = silu(in);
  for (size_t i = 0; i < in.size(); ++i) {
    double x = in[i];
    ASSERT_LE(ulps(out[i], x / (1 + std::exp(-x))), 4.0) << in[i] << " gives " << out[i];
  }
  EXPECT_EQ(silu({-1000.0f})[0], 0.0f);
}

TEST(VectorMath, CosineAndSineWithinOneUlp) {
  VectorFunction cosine([](Emitter &e, Value x) { return emitCosSin(e, x).first; });
  VectorFunction sine([](Emitter &e, Value x) { return emitCosSin(e, x).second; });
  std::vector<float> in = floatsBetween(0.0f, 1048576.0f, 4999);
  // Whole positions, and next to multiples of pi / 2, where little of the angle is left.
  for (int i = 0; i < 131072; ++i)
    in.push_back(static_cast<float>(i));
  for (int i = 1; i < 80000; ++i)
    in.push_back(static_cast<float>(i * 1.57079632679489661923));
  std::vector<float> c = cosine(in), s = sine(in);
  for (size_t i = 0; i < in.size(); ++i) {
    ASSERT_LE(ulps(c[i], std::cos(static_cast<double>(in[i]))), 1.0) << in[i] << " gives " << c[i];
    ASSERT_LE(ulps(s[i], std::sin(static_cast<double>(in[i]))), 1.0) << in[i] << " gives " << s[i];
  }
}

TEST(VectorMath, SumOfLanesIsAFixedTree) {
  VectorFunction sum([](Emitter &e, Value x) { return e.broadcast(emitSumOfLanes(e, x)); });
  std::vector<float> in;
  for (int i = 0; i < 16; ++i)
    in.push_back(std::ldexp(1.0f + 0.13f * static_cast<float>(i), (i * 7) % 24));
  std::vector<float> tree = in;
  for (size_t n = 8; n >= 1; n /= 2)
    for (size_t i = 0; i < n; ++i)
      tree[i] += tree[i + n];
  EXPECT_EQ(sum(in)[0], tree[0]);
}

TEST(VectorMath, RoundsToNearestEven) {
  for (bool half : {false, true}) {
    VectorFunction round([half](Emitter &e, Value x) {
      Type type = half ? Type(e.getF16Type()) : Type(e.getBF16Type());
      return emitWiden(e, emitRound(e, x, type));
    });
    std::vector<float> in = floatsBetween(0.0f, 3e38f, 65521), negative = floatsBetween(-0.0f, -3e38f, 65521);
    in.insert(in.end(), negative.begin(), negative.end());
    // Ties and their neighbours.
    for (uint32_t bits = 0x3f800000; bits < 0x40000000; bits += 0x1000)
      for (uint32_t offset : {0u, 1u, 0xffffffffu})
        in.push_back(std::bit_cast<float>(bits + offset));
    in.insert(in.end(), {INFINITY, -INFINITY, 3.4028235e38f});
    std::vector<float> out = round(in);
    for (size_t i = 0; i < in.size(); ++i) {
      llvm::APFloat expected(in[i]);
      bool lost = false;
      expected.convert(half ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat(), llvm::APFloat::rmNearestTiesToEven,
                       &lost);
      ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), std::bit_cast<uint32_t>(expected.convertToFloat())) << in[i];
    }
    EXPECT_TRUE(std::isnan(round({std::bit_cast<float>(0x7fffffffu)})[0]));
    EXPECT_TRUE(std::isnan(round({std::bit_cast<float>(0x7f800001u)})[0]));
  }
}
