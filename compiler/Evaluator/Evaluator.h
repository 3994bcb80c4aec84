//===- Evaluator.h - What every op of the dialect means, executed ------------------------------------------------===//
//
// The naive evaluator: plain loops over logical tensors, one op at a time, for
// any stage of IR that is in the `ingot` dialect (fused forms, packed types and
// recipes included). It is the oracle of the passes (evaluate before ==
// evaluate after) and of the compiled code (compiled == evaluated within a
// bound), and computes the reference logits that an executable's self-test
// carries.
//
// Numerics, unless Accumulation::F64 is asked for: everything is float32. A
// product of a linear is one chain acc = fma(x[k], w[k], acc) from +0 in
// ascending order of k within each segment of K (one segment, or as many as the
// packed type says), segments are added by the tree
// ((s0+s1)+(s2+s3))+((s4+s5)+(s6+s7)); other sums are plain ascending chains.
// exp, cos, sin and sqrt are libm's in double, rounded once.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_EVALUATOR_EVALUATOR_H
#define INGOT_COMPILER_EVALUATOR_EVALUATOR_H

#include "dialects/ingot/Ingot.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ingot {

/// Activations as the evaluator takes and returns them: [rows][columns].
struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<float> values;

  llvm::ArrayRef<float> row(int64_t index) const {
    return llvm::ArrayRef<float>(values).slice(index * columns, columns);
  }
};

/// The values of the checkpoint's tensors.
class ParameterProvider {
public:
  virtual ~ParameterProvider();

  /// Writes rows [firstRow, firstRow + rows) of the checkpoint's tensor `name`
  /// to `dst` as float32, exactly; a row is the last dimension, a vector is one
  /// row. `type` is what the IR says of the tensor: an error says so where the
  /// checkpoint has another shape or element type. Called from several threads
  /// at a time when EvaluatorOptions::threads is more than one.
  virtual llvm::Error readRows(llvm::StringRef name, mlir::RankedTensorType type, int64_t firstRow, int64_t rows,
                               llvm::MutableArrayRef<float> dst) = 0;
};

/// The weights that a seed and the tensors' names define (ingot_rt/random.h):
/// biases end in ".bias", norms are the other vectors, all else are matrices.
class RandomParameters final : public ParameterProvider {
public:
  explicit RandomParameters(uint64_t seed) : seed(seed) {}
  llvm::Error readRows(llvm::StringRef name, mlir::RankedTensorType type, int64_t firstRow, int64_t rows,
                       llvm::MutableArrayRef<float> dst) override;

private:
  uint64_t seed;
};

/// The tokens of one step, as `!ingot.batch` describes them. A sequence is
/// named by its number in the Cache.
struct Batch {
  /// Per token: its id, its position, its sequence.
  std::vector<int32_t> tokens, positions, sequences;
  /// Per token of which the output is wanted: its number in the batch.
  std::vector<int32_t> rows;
  /// Per sequence of the cache: true if it uses a rotary's long_inv_freq. What
  /// is missing at the end is false.
  std::vector<bool> longRegime;

  /// Appends `ids` of `sequence` at the positions from `start` on; the output
  /// of all of them is wanted.
  void append(int32_t sequence, int32_t start, llvm::ArrayRef<int32_t> ids);
};

/// Keys and values of every layer and sequence, rounded to the element type of
/// an `!ingot.kv_cache`. Grows with what is written.
class Cache {
public:
  /// `exact`: int8 elements are stored unrounded, as float32.
  explicit Cache(KVCacheType type, bool exact = false);

  KVCacheType getType() const { return type; }
  /// Features of a key or value: kv_heads * head_dim.
  int64_t features() const { return type.getKvHeads() * type.getHeadDim(); }

  /// Rounds key and value, features() elements each, to the element type and
  /// stores them; what was there is overwritten.
  void write(int64_t layer, int64_t sequence, int64_t position, llvm::ArrayRef<float> key, llvm::ArrayRef<float> value);
  /// The stored key or value; empty where nothing was written.
  llvm::ArrayRef<float> key(int64_t layer, int64_t sequence, int64_t position) const {
    return find(keys, layer, sequence, position);
  }
  llvm::ArrayRef<float> value(int64_t layer, int64_t sequence, int64_t position) const {
    return find(values, layer, sequence, position);
  }
  /// Number of sequences, and positions of one in a layer up to the last one
  /// written.
  int64_t sequenceCount() const { return count; }
  int64_t positions(int64_t layer, int64_t sequence) const;

private:
  /// [layer][sequence][position] -> features() elements, or none.
  using Table = std::vector<std::vector<std::vector<std::vector<float>>>>;
  static llvm::ArrayRef<float> find(const Table &table, int64_t layer, int64_t sequence, int64_t position);

  KVCacheType type;
  bool exact;
  Table keys, values;
  int64_t count = 0;
};

/// In what the evaluator computes.
enum class Accumulation {
  /// float32 everywhere, in the order that the file's header says.
  F32,
  /// float64 everywhere, results rounded to float32 at the end. Roundings that
  /// belong to the model stay: parameters, the cache, the angles of RoPE.
  F64,
};

struct EvaluatorOptions {
  Accumulation accumulation = Accumulation::F32;
  /// Segments of K in a `row_parallel` linear whose weight has no packed type;
  /// 8 gives the sums that layout selection will ask for.
  int64_t rowParallelSegments = 1;
  /// Products that round their inputs to int8 take them unrounded.
  bool exactInputs = false;
  /// Threads that share the features of a linear; no result depends on it.
  unsigned threads = 1;
  /// Called with every result that is an activation, in order; `layer` is -1
  /// outside the layers.
  std::function<void(mlir::Operation *op, int64_t layer, const Matrix &result)> observer;
};

/// Evaluates functions of one module. Parameters are read row by row where they
/// are used: apart from activations and the cache it holds 16 rows of a matrix.
class Evaluator {
public:
  /// `module` is verified IR and outlives the evaluator, as does `parameters`.
  Evaluator(mlir::ModuleOp module, ParameterProvider &parameters, EvaluatorOptions options = {});

  /// Runs @forward: the logits of the batch's wanted rows.
  llvm::Expected<Matrix> forward(const Batch &batch, Cache &cache);

  /// The logits of every token of every sequence (a matrix for each), computed
  /// in steps that take up to `chunk` tokens of each sequence; 0: all at once.
  /// A sequence longer than a rotary's `long_from` has the long regime from its
  /// first token on. `cache` should be empty.
  llvm::Expected<std::vector<Matrix>> logits(llvm::ArrayRef<std::vector<int32_t>> sequences, int64_t chunk,
                                             Cache &cache);

  /// Runs any function whose arguments are activations, indices, a batch and a
  /// cache: the activations and indices are taken in order. Returns its
  /// results. `cache` may be null if the function has none.
  llvm::Expected<std::vector<Matrix>> call(llvm::StringRef function, llvm::ArrayRef<Matrix> activations,
                                           llvm::ArrayRef<int64_t> indices, const Batch &batch, Cache *cache);

  /// The cache that @forward takes, or an error that says what is wrong with
  /// @forward.
  llvm::Expected<KVCacheType> cacheType();

private:
  mlir::ModuleOp module;
  ParameterProvider &parameters;
  EvaluatorOptions options;
};

/// Rounds to bfloat16 or float16 (nearest, ties to even; NaN stays NaN) and
/// back; float32 unchanged. `type` is f32, bf16 or f16.
float roundTo(mlir::Type type, float value);

} // namespace ingot

#endif // INGOT_COMPILER_EVALUATOR_EVALUATOR_H
