//===- Kernels.h - The functions that a step is made of
//-----------------------------------------------------------===//
//
// Each method emits a call, and the first time the private function that it
// calls into the module of the CPU variant. Functions take sizes as arguments,
// so that a model's ops share them: code grows with the kinds of op and of
// storage, not with the number of ops or layers.
//
// Every function is SPMD code. Worker w of n takes a share of panels, rows or
// heads and writes nothing else; what is written may be read by others after a
// barrier, which is the caller's business unless a method says otherwise. A
// row's result depends neither on the share nor on the rows beside it.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_CODEGEN_CPU_KERNELS_H
#define INGOT_COMPILER_CODEGEN_CPU_KERNELS_H

#include "compiler/Codegen/CPU/DotUnit.h"
#include "compiler/Codegen/CPU/Emitter.h"
#include "compiler/Codegen/CPU/Tiles.h"
#include "dialects/ingot/Ingot.h"
#include "mlir/IR/BuiltinOps.h"

namespace ingot::cpu {

/// Rows of f32 activations: memref<?xf32> from the first row's first feature
/// on, and floats between rows.
struct Rows {
  mlir::Value memory;
  Ix stride;
};

/// Who computes, and with which scratch memory.
struct Worker {
  Ix id, count;
  /// memref<?xf32> of the worker's own, Kernels::scratchFloats long.
  mlir::Value scratch;
  /// The scratch memory of all workers: worker i's starts at i * sharedStride.
  mlir::Value shared;
  Ix sharedStride;
  /// !llvm.ptr for ingot_rt_barrier.
  mlir::Value barrier;
};

/// How the weights of a linear lie, for which its function is specialised.
struct LinearWeights {
  /// f32, bf16 or f16, as the weights are stored; of quantized weights their format instead.
  mlir::Type element;
  std::optional<Quantization> quantized;
  /// Quantized weights: the input is rounded to integers of so many bits too, 8 or 16, unless this is 0.
  int64_t inputBits = 0;
  /// Quantized weights: K is no multiple of 32.
  bool partialBlock = false;
  /// K is cut into INGOT_RT_K_SEGMENTS.
  bool segmented = false;
  /// K is odd and the weights lie in pairs of k: a zero is appended to each
  /// input row.
  bool oddK = false;
  /// Gate and up in pairs of panels, SiLU(gate) * up as the result.
  bool gated = false;
};

/// What a linear's function is specialised for.
struct LinearShape : LinearWeights {
  /// The largest feature of each row instead of all of them.
  bool argmax = false;
};

/// Operands of a linear. `weights` is a view of the packed weights as their
/// element type, of quantized ones as bytes.
struct LinearOperands {
  Rows input;
  mlir::Value weights;
  /// memref<?xf32> of the features' biases (gated: of both matrices in turn, n
  /// apart), or null.
  mlir::Value bias;
  /// Rows to add, or null.
  std::optional<Rows> residual;
  Rows result;
  /// argmax: memref<?xi32> of ids and memref<?xf32> of values, a place for each
  /// row.
  mlir::Value argmax, argmaxValue;
  /// Features of the result (of one matrix), of the input, and rows.
  Ix n, k, rows;
};

/// Sizes of the cache; its layout is that of ingot_rt/abi.h.
struct CacheShape {
  /// f32, bf16 or f16; or i8, with a scale for each head and position.
  mlir::Type element;
  int64_t layers = 0, kvHeads = 0, headDim = 0;

  /// Features of a position's values in memory.
  int64_t paddedHeadDim() const { return (headDim + lanes - 1) / lanes * lanes; }
  bool hasScales() const { return element.isInteger(8); }
  /// Bytes from the start of a head's keys to their scales, f32 [positions], and to those of its values. Of i8 only.
  int64_t scaleStart(bool ofValues) const;
  /// Elements of a head's keys, of a head and of a whole block.
  int64_t keyElements() const;
  int64_t headElements() const;
  int64_t blockElements() const;
};

/// The cache as kernels see it.
struct Cache : CacheShape {
  /// Memref of all blocks' elements.
  mlir::Value memory;
  /// Which of the layers.
  Ix layer;

  /// Elements from the start of a block to the keys of head `head`.
  Ix headStart(Ix head) const;
};

/// RoPE as kernels see it: cosines and sines of each token,
/// [token][2][halfPadded].
struct Rotary {
  mlir::Value table;
  bool interleaved = false;
  int64_t headDim = 0;

  static int64_t halfPadded(int64_t headDim) { return (headDim / 2 + lanes - 1) / lanes * lanes; }
};

/// What is known of the tokens of a step: memrefs of abi.h's arrays.
struct Batch {
  mlir::Value tokens, positions, sequences, slots, queryStarts, lengths, regimes, blockTables, rows;
  Ix tokenCount, sequenceCount, rowCount, blockTableStride;
};

/// An attention's constants.
struct AttentionShape {
  int64_t heads = 0;
  float scale = 1;
  /// Positions that a query sees, its own included; 0: all before it.
  int64_t window = 0;
};

/// Emits calls of one CPU variant's functions.
class Kernels {
public:
  /// `module` receives the functions. `largestK`: the most features that a
  /// linear sums over; `maxContext`: positions.
  Kernels(mlir::ModuleOp module, VectorUnit unit, DotUnit dots, int64_t largestK, int64_t maxContext);

  /// Floats of scratch memory that each worker needs, a multiple of 16.
  int64_t scratchFloats() const { return scratch; }

  /// result = input W^T (+ bias) (gated) (+ residual). With argmax it is
  /// complete, for all rows, at the end: it has barriers of its own, before
  /// which `result` need not exist.
  void linear(Emitter &e, const LinearShape &shape, const LinearOperands &operands, const Worker &worker);

  /// The same with quantized weights.
  void quantizedLinear(Emitter &e, const LinearShape &shape, const LinearOperands &operands, const Worker &worker);

  /// result = norm(input (+ residual, also stored to `sum`)) for `heads` heads
  /// of `n` features in each of `rows` rows.
  void rmsNorm(Emitter &e, Rows input, std::optional<Rows> residual, std::optional<Rows> sum, mlir::Value weight,
               float eps, Rows result, Ix heads, Ix n, Ix rows, const Worker &worker);

  /// An elementwise op on `n` features: what `compute` makes of the inputs'
  /// lanes. `name` identifies it.
  void elementwise(Emitter &e, llvm::StringRef name, llvm::ArrayRef<Rows> inputs, Rows result, Ix n, Ix rows,
                   const Worker &worker,
                   llvm::function_ref<mlir::Value(Emitter &, llvm::ArrayRef<mlir::Value>)> compute);

  /// result_t = table[id_t]; the table's matrix [vocab, n] lies in rows or in
  /// panels of one segment.
  void embedding(Emitter &e, const Batch &batch, mlir::Value table, mlir::Type element, bool panels, Rows result, Ix n,
                 const Worker &worker);

  /// The same from a quantized table in panels of one segment, memref<?xi8>.
  void quantizedEmbedding(Emitter &e, const Batch &batch, mlir::Value table, Quantization kind, Rows result, Ix n,
                          const Worker &worker);

  /// result_r = input_{rows_r}.
  void selectRows(Emitter &e, const Batch &batch, Rows input, Rows result, Ix n, const Worker &worker);

  /// Fills a rotary's table for the step's tokens. `frequencies` and
  /// `longFrequencies` (null: none) are memref<halfPadded x f32>; angles are
  /// f32(position) * frequency in f32, the results are scaled in f32.
  void rotaryTable(Emitter &e, const Batch &batch, const Rotary &rotary, mlir::Value frequencies,
                   mlir::Value longFrequencies, float scaling, const Worker &worker);

  /// result = rope(input) for `heads` heads.
  void rope(Emitter &e, const Rotary &rotary, Rows input, Rows result, Ix heads, Ix rows, const Worker &worker);

  /// Stores keys and values at the tokens' slots.
  void kvAppend(Emitter &e, const Batch &batch, const Cache &cache, Rows key, Rows value, const Worker &worker);

  /// result = rope(norm(query)); kvAppend(rope(norm(key)), value). Without
  /// norms (null) both are left out.
  void qkNormRopeAppend(Emitter &e, const Batch &batch, const Cache &cache, const Rotary &rotary, Rows query, Rows key,
                        Rows value, mlir::Value queryNorm, mlir::Value keyNorm, float eps, Rows result, int64_t heads,
                        const Worker &worker);

  /// The module's function `name`; `body` makes it the first time. Its
  /// arguments have the types of `arguments`.
  void call(Emitter &e, llvm::StringRef name, llvm::ArrayRef<mlir::Value> arguments,
            llvm::function_ref<void(Emitter &, mlir::ValueRange)> body);

  /// A product's inner loop over K; see MicroKernel.cpp.
  struct MicroKernel {
    mlir::Type element;
    int64_t rows = 1, panels = 1;
    /// Weights lie in pairs of k (bf16 parameters).
    bool pairs = false;
    /// Input rows lie as [k][rows]; else each `inputStride` after the one
    /// before.
    bool packedInput = false;
    /// Starts from what the accumulators hold instead of zero; or where `adds`, an i1, is true.
    bool accumulate = false;
    mlir::Value adds;
    /// Bytes ahead of the weights that are read that each panel prefetches; 0: none.
    int64_t prefetchBytes = 0;
    /// The same in elements, not known before the step runs; or null.
    mlir::Value ahead;
    /// What is prefetched is as much as is read, but in the order of memory: `ahead` is where it starts.
    bool aheadInOrder = false;
    /// Elements between one k (or pair) and the next of a panel's 16 features.
    int64_t weightStride = lanes;
    /// Both or neither: so many earlier sums, each `foldStride` before the next, are added at the end, the last of them
    /// first; the result takes the place of the first.
    mlir::Value folds, foldStride;
  };
  /// accumulators[r * accumulatorStride + p * accumulatorPanelStride + lane] (+)= sum over k
  /// ascending of input[r][k] * weights[p][k][lane]. Positions are in elements
  /// of the memory given; `k` may be zero.
  void product(Emitter &e, const MicroKernel &kernel, mlir::Value input, Ix inputStart, Ix inputStride,
               mlir::Value weights, Ix weightStart, Ix panelStride, Ix k, mlir::Value accumulators, Ix accumulatorStart,
               Ix accumulatorStride, Ix accumulatorPanelStride);
  /// memory[target + k' * 16 + lane] = weights[start + ...][lane] as f32, for k' in [0, k) (of pairs: rounded up) of a
  /// panel.
  void widen(Emitter &e, mlir::Type element, bool pairs, mlir::Value weights, Ix start, Ix k, mlir::Value memory,
             Ix target);

  const std::vector<Tile> &tiles() const { return registerTiles; }
  /// Panels that registers hold with so many rows: a power of two.
  int64_t panelsOf(int64_t rows) const { return panelsFor(rows, unit); }
  /// Rows of a tile, at most, whose inputs do not lie packed: with 5, AArch64 runs out of registers.
  int64_t rowsApart() const { return unit.lanes >= 8 ? registerTiles.front().rows : 4; }
  /// How integers are multiplied.
  DotUnit dotUnit() const { return dots; }
  /// Floats of scratch memory that attention uses, per worker.
  void reserveScratch(int64_t floats) { scratch = std::max(scratch, (floats + lanes - 1) / lanes * lanes); }
  /// Calls ingot_rt_barrier.
  void barrier(Emitter &e, mlir::Value barrier, Ix worker);
  int64_t maxContext() const { return contextLimit; }
  /// Rows of a block of a linear, at most; of one with float weights.
  static constexpr int64_t maxBlockRows = 240, floatBlockRows = 168;
  /// Floats of a block's sums, and k of a panel that are widened together, in a linear with float weights.
  static constexpr int64_t blockFloats = 86016, widenedK = 256;
  /// Where a block's argmax lies in the scratch memory: [row][value, id][lane],
  /// and [row][value, id].
  Ix argmaxState(Emitter &e) const { return e.c(argmaxStart); }
  Ix argmaxPartial(Emitter &e) const { return e.c(argmaxStart + maxBlockRows * 2 * lanes); }

private:
  mlir::ModuleOp module;
  VectorUnit unit;
  std::vector<Tile> registerTiles;
  DotUnit dots;
  int64_t scratch = 0, contextLimit;
  /// Floats of packed input rows in the scratch memory, before the
  /// accumulators.
  int64_t packedFloats;
  /// Where widened weights and the state of argmax lie in the scratch memory.
  int64_t widenedStart, argmaxStart;

  friend struct LinearFrame;
  friend struct LinearEmitter;
  friend struct QuantizedLinearEmitter;
};

} // namespace ingot::cpu

#endif // INGOT_COMPILER_CODEGEN_CPU_KERNELS_H
