//===- DeviceKernels.h - The kernels that a step launches ---------------------------------------------------------===//
//
// Each method emits, into the host's step, the launch of a kernel and, the first time, the kernel itself. As on the CPU
// sizes are arguments, so that ops share kernels: code grows with the kinds of op and of storage.
//
// A launch is a call of the private host function `launch_<kernel>`, which hands the arguments, with the bytes that lie
// behind each address, to the callback of ingot_rt_step_args: a driver or the emulator. Kernels run in the order of
// their launches, so that what one has written the next may read.
//
// One result (promise P3): which thread computes what depends on the row and on constants alone, a sum has one order
// for one row and for many, and no sum is shared by blocks.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_CODEGEN_GPU_DEVICEKERNELS_H
#define INGOT_COMPILER_CODEGEN_GPU_DEVICEKERNELS_H

#include "compiler/Codegen/CPU/Kernels.h"
#include "compiler/Codegen/GPU/DeviceEmitter.h"
#include "mlir/IR/BuiltinOps.h"
#include <optional>

namespace ingot::gpu {

/// Prefix of the host's constant that describes a kernel (ingot_rt_kernel).
inline constexpr llvm::StringLiteral kernelSymbolPrefix = "ingot_kernel_";
/// Attribute of a kernel: the names of its arguments.
inline constexpr llvm::StringLiteral argumentNamesAttrName = "ingot.argument_names";
/// The kernel that fills random weights stored as `element`, in panels or in rows.
std::string randomKernelName(mlir::Type element, bool panels);
/// Prefix of the host's functions that launch.
inline constexpr llvm::StringLiteral launchPrefix = "launch_";

/// Memory on the host's side: a memref of what the device will read, and how many elements a kernel may touch.
struct HostMemory {
  mlir::Value memory;
  Ix count;
};

/// Rows of f32 activations: from the first row's first feature on, and floats between rows.
struct DeviceRows {
  HostMemory memory;
  Ix stride;
};

/// What is known of the tokens of a step.
struct DeviceBatch {
  HostMemory tokens, positions, sequences, slots, regimes, blockTables, rows;
  Ix tokenCount, rowCount, blockTableStride;
};

/// The cache, and which of its layers.
struct DeviceCache : cpu::CacheShape {
  HostMemory memory;
  Ix layer;
};

/// Cosines and sines of each token: [token][2][halfPadded].
struct DeviceRotary {
  HostMemory table;
  bool interleaved = false;
  int64_t headDim = 0;

  int64_t halfPadded() const { return cpu::Rotary::halfPadded(headDim); }
};

/// A product: result = input W^T (+ bias) (gated) (+ residual).
struct DeviceLinear : cpu::LinearWeights {
  /// K, or a segment of it, is no whole number of steps of 32.
  bool partialStep = false;
  DeviceRows input, result;
  HostMemory weights;
  std::optional<HostMemory> bias;
  std::optional<DeviceRows> residual;
  /// Features of the result (of one matrix), of the input, and rows.
  Ix n, k, rows;
};

/// How tokens are chosen.
struct DeviceSampling {
  HostMemory rows, sets;
  /// 32-bit words of a set.
  Ix setWords;
};

/// What each launch is told beside its kernel's arguments.
struct LaunchContext {
  /// !llvm.ptr: the callback and its context.
  mlir::Value launch, context;
  /// i32: the op's number, and the layer or -1.
  mlir::Value op, layer;
};

/// Emits launches and kernels.
class DeviceKernels {
public:
  /// `host` receives the functions that launch, `device` the kernels.
  DeviceKernels(mlir::ModuleOp host, mlir::gpu::GPUModuleOp device) : host(host), device(device) {}

  /// Set before an op's launches.
  LaunchContext context;

  void linear(cpu::Emitter &e, const DeviceLinear &linear);
  /// The id of each row's largest logit, the lowest of equals, and its value.
  void argmax(cpu::Emitter &e, DeviceRows logits, Ix n, Ix rows, HostMemory ids, HostMemory values);
  /// The id of a token of each row, chosen as its `sampling` says (ingot_rt_sampling, as 64-bit words). Changes the
  /// logits.
  void sample(cpu::Emitter &e, DeviceRows logits, Ix n, Ix rows, const DeviceSampling &sampling, HostMemory ids);
  /// result = norm(input (+ residual, also stored to `sum`)) for `heads` heads of `n` features in each row.
  void rmsNorm(cpu::Emitter &e, DeviceRows input, std::optional<DeviceRows> residual, std::optional<DeviceRows> sum,
               HostMemory weight, float eps, DeviceRows result, Ix heads, Ix n, Ix rows);
  /// What `compute` makes of the inputs' elements. `name` identifies it.
  void elementwise(cpu::Emitter &e, llvm::StringRef name, llvm::ArrayRef<DeviceRows> inputs, DeviceRows result, Ix n,
                   Ix rows, llvm::function_ref<mlir::Value(DeviceEmitter &, llvm::ArrayRef<mlir::Value>)> compute);
  /// result_t = table[id_t]; the matrix lies in rows or in panels of one segment.
  void embedding(cpu::Emitter &e, const DeviceBatch &batch, HostMemory table, mlir::Type element, bool panels,
                 DeviceRows result, Ix n);
  void selectRows(cpu::Emitter &e, const DeviceBatch &batch, DeviceRows input, DeviceRows result, Ix n);
  /// Fills a rotary's table for the step's tokens; `name` is the rotary's.
  void rotaryTable(cpu::Emitter &e, llvm::StringRef name, const DeviceBatch &batch, const DeviceRotary &rotary,
                   llvm::ArrayRef<float> frequencies, llvm::ArrayRef<float> longFrequencies, float scaling);
  void rope(cpu::Emitter &e, const DeviceRotary &rotary, DeviceRows input, DeviceRows result, Ix heads, Ix rows);
  void kvAppend(cpu::Emitter &e, const DeviceBatch &batch, const DeviceCache &cache, DeviceRows key, DeviceRows value);
  /// result = rope(norm(query)); kvAppend(rope(norm(key)), value); without norms both are left out.
  void qkNormRopeAppend(cpu::Emitter &e, const DeviceBatch &batch, const DeviceCache &cache, const DeviceRotary &rotary,
                        DeviceRows query, DeviceRows key, DeviceRows value, std::optional<HostMemory> queryNorm,
                        std::optional<HostMemory> keyNorm, float eps, DeviceRows result, int64_t heads);
  void attention(cpu::Emitter &e, const cpu::AttentionShape &shape, const DeviceBatch &batch, const DeviceCache &cache,
                 DeviceRows query, DeviceRows result);
  /// The kernel that fills random weights (ingot_rt_random_argument), which the runtime launches by itself.
  void randomWeights(mlir::Type element, bool panels);

private:
  /// An argument as the kernel has it: memory with elements of a type, or a value of that type.
  struct Parameter {
    llvm::StringRef name;
    mlir::Type type;
    bool isMemory;
  };

  /// One argument of a launch: memory, or a value (index, i32 or f32).
  struct Argument {
    llvm::StringRef name;
    mlir::Value value;
    Ix count;

    Argument(llvm::StringRef name, HostMemory memory) : name(name), value(memory.memory), count(memory.count) {}
    Argument(llvm::StringRef name, mlir::Value value) : name(name), value(value) {}
    Argument(llvm::StringRef name, Ix value) : name(name), value(value) {}
  };

  /// Launches kernel `name` on a grid of blocks of `threads`; `body` makes it the first time.
  void launch(cpu::Emitter &e, llvm::StringRef name, llvm::ArrayRef<Argument> arguments, llvm::ArrayRef<Ix> grid,
              llvm::function_ref<void(DeviceEmitter &)> body, int64_t threads = blockThreads);
  void emitKernel(llvm::StringRef name, llvm::ArrayRef<Parameter> parameters,
                  llvm::function_ref<void(DeviceEmitter &)> body, int64_t threads = blockThreads);
  /// Of f32 weights, and of 16-bit weights on tensor cores: the kernels are `name` and what distinguishes them.
  void plainLinear(cpu::Emitter &e, const DeviceLinear &linear, llvm::ArrayRef<Argument> arguments,
                   const std::string &name);
  void tensorLinear(cpu::Emitter &e, const DeviceLinear &linear, llvm::ArrayRef<Argument> arguments,
                    const std::string &name);
  void emitLaunch(cpu::Emitter &e, llvm::StringRef name, llvm::ArrayRef<Argument> arguments, mlir::ValueRange inner);
  static void append(llvm::SmallVectorImpl<Argument> &arguments, llvm::StringRef name, llvm::StringRef stride,
                     DeviceRows rows) {
    arguments.emplace_back(name, rows.memory);
    arguments.emplace_back(stride, rows.stride);
  }

  mlir::ModuleOp host;
  mlir::gpu::GPUModuleOp device;
};

} // namespace ingot::gpu

#endif // INGOT_COMPILER_CODEGEN_GPU_DEVICEKERNELS_H
