//===- DeviceEmitter.h - Short words for the code of one thread of a kernel ---------------------------------------===//
//
// The emitter of the CPU's kernels, whose index arithmetic, loops and vector math serve here as well, with what a GPU
// adds: memory by address space, threads and blocks, barriers, and reductions over a warp and over a block.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_CODEGEN_GPU_DEVICEEMITTER_H
#define INGOT_COMPILER_CODEGEN_GPU_DEVICEEMITTER_H

#include "compiler/Codegen/CPU/Emitter.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/ADT/StringMap.h"
#include <string>

namespace ingot::gpu {

using cpu::IndexRange;
using cpu::Ix;

/// Threads in a block of every kernel that asks for no other number: four warps.
inline constexpr int64_t blockThreads = 128;
inline constexpr int64_t warpThreads = 32;

/// What tensor cores multiply.
enum class Multiplicand { BF16, TF32 };

/// Memory that a kernel reads and writes: an address in global or constant memory with the type of what lies there, or
/// a memref in shared memory. The name stands in the locations of all accesses, and so in what the emulator reports.
struct DeviceMemory {
  mlir::Value memory;
  /// Null: `memory` is a memref.
  mlir::Type element;
  std::string name;
};

/// Builds the code that each thread runs.
class DeviceEmitter : public cpu::Emitter {
public:
  DeviceEmitter(mlir::gpu::GPUFuncOp kernel);

  // Arguments of the kernel, by name.
  const DeviceMemory &memory(llvm::StringRef name) const;
  Ix index(llvm::StringRef name);
  mlir::Value value(llvm::StringRef name) const;

  /// So many blocks of the kernel find room on a multiprocessor: each thread may have its share of the registers.
  void residentBlocks(int32_t blocks);

  // Who the thread is. All kernels' blocks are one-dimensional.
  Ix thread() { return threadId; }
  Ix lane() { return threadId % warpThreads; }
  Ix warp() { return threadId / warpThreads; }
  /// The block's number in dimension 0, 1 or 2 of the grid.
  Ix block(int dimension);

  // Memory. Positions are in elements.
  /// `count` elements of the block's shared memory; undefined until written.
  DeviceMemory shared(llvm::StringRef name, mlir::Type element, int64_t count);
  /// The same for what vectors and copies go to: an address, aligned to 16 bytes.
  DeviceMemory sharedTile(llvm::StringRef name, mlir::Type element, int64_t count);
  /// A table in constant memory.
  DeviceMemory constants(llvm::StringRef name, llvm::ArrayRef<float> values);
  mlir::Value load(const DeviceMemory &memory, Ix at);
  void store(mlir::Value value, const DeviceMemory &memory, Ix at);
  /// What lies at an element, as a value of another type, to whose size it is aligned. Not of `shared`.
  mlir::Value loadAs(mlir::Type type, const DeviceMemory &memory, Ix at);

  /// Adds to an element of `sharedTile`, together with other threads of the block, and returns what was there.
  mlir::Value addAtomically(mlir::Value value, const DeviceMemory &memory, Ix at);

  // Copies from global memory to shared memory that go on by themselves (cp.async).
  /// `bytes`: 8 or 16, to which both places are aligned; with `sourceBytes`, an i32, only so many are read and the
  /// others become zero.
  void copyAsync(const DeviceMemory &to, Ix toAt, const DeviceMemory &from, Ix fromAt, int64_t bytes,
                 mlir::Value sourceBytes = {});
  /// Closes the thread's group of copies.
  void commitCopies();
  /// Until no groups of the thread but the `pending` latest ones are on their way. Others see them behind a barrier.
  void waitForCopies(int64_t pending);

  /// A product of fragments of a warp's threads (mma.sync): the sums `c` plus A B. m16n8k16 of bf16, pairs of which are
  /// the words of `a` (4) and `b` (2), or m16n8k8 of tf32, each in a word.
  llvm::SmallVector<mlir::Value> mma(Multiplicand type, llvm::ArrayRef<mlir::Value> a, llvm::ArrayRef<mlir::Value> b,
                                     llvm::ArrayRef<mlir::Value> c);

  Ix bitXor(Ix a, Ix b) { return ix(createOrFold<mlir::arith::XOrIOp>(a.value, b.value)); }

  /// What one of two branches computes.
  mlir::Value either(mlir::Value condition, llvm::function_ref<mlir::Value()> then,
                     llvm::function_ref<mlir::Value()> otherwise);

  // Threads together.
  void barrier(llvm::StringRef what);
  /// The sum, or the largest, over the lanes of a warp in every lane: a butterfly, whose order is the same in each
  /// lane.
  mlir::Value warpSum(mlir::Value partial);
  mlir::Value warpMax(mlir::Value partial);
  /// An i32 or f32 of the lane with another bit `distance`, and an i64 of the lane `distance` below; of the first lanes
  /// their own.
  mlir::Value shuffleXor(mlir::Value value, int64_t distance);
  mlir::Value shuffleUpWide(mlir::Value value, int64_t distance);
  /// The sum over the block in every thread: of each warp, then of the four in order of a tree. Has a barrier and uses
  /// shared memory of its own, so that a kernel may call it once.
  mlir::Value blockSum(mlir::Value partial);
  /// [0, n) over the threads of the block: thread t takes t, t + 128, ...
  void each(Ix n, llvm::function_ref<void(Ix)> body) { loop(threadId, n, blockThreads, body); }

  /// The correctly rounded square root of an f32. As a call of LLVM's intrinsic: MLIR's conversion makes calls to
  /// libdevice of math.sqrt.
  mlir::Value sqrt(mlir::Value x);

  // Functions of the CPU's vector math on one f32.
  mlir::Value exp(mlir::Value x);
  mlir::Value silu(mlir::Value x);
  /// cos and sin.
  std::pair<mlir::Value, mlir::Value> cosSin(mlir::Value x);

private:
  friend class DeviceKernels;
  mlir::Value butterfly(mlir::Value value, llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> combine);
  /// The address of an element.
  mlir::Value address(const DeviceMemory &memory, Ix at);

  mlir::gpu::GPUFuncOp kernel;
  Ix threadId;
  llvm::StringMap<DeviceMemory> memories;
  llvm::StringMap<mlir::Value> values;
};

} // namespace ingot::gpu

#endif // INGOT_COMPILER_CODEGEN_GPU_DEVICEEMITTER_H
