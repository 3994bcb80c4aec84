//===- Attention.h - Two lowerings of attention behind one interface
//----------------------------------------------===//

#ifndef INGOT_COMPILER_CODEGEN_CPU_ATTENTION_H
#define INGOT_COMPILER_CODEGEN_CPU_ATTENTION_H

#include "compiler/Codegen/CPU/Kernels.h"
#include <memory>

namespace ingot::cpu {

/// How `ingot.attention` becomes code. Either way a row's result depends on
/// that row, its position and the cache alone, in bits, and memory beyond a
/// query's keys is never an operand of arithmetic: it may hold anything.
class AttentionEmitter {
public:
  virtual ~AttentionEmitter() = default;

  /// Floats of scratch memory per worker.
  virtual int64_t scratchFloats(const AttentionShape &shape, const Cache &cache, int64_t maxContext) const = 0;

  /// result_t,h = sum_j softmax_j(scale q_t,h . K_j) V_j over the cache's
  /// positions in the window of each token.
  virtual void emit(Emitter &e, Kernels &kernels, const AttentionShape &shape, const Batch &batch, const Cache &cache,
                    Rows query, Rows result, const Worker &worker) const = 0;
};

/// All scores of a query in memory, their maximum, their exponentials, their
/// sum, then the weighted sum of values.
std::unique_ptr<AttentionEmitter> createNaiveAttention();

/// Several queries that share the reads of keys and values, in blocks of
/// INGOT_RT_CACHE_BLOCK positions at absolute multiples, with a running
/// maximum, sum and accumulator (Milakov and Gimelshein, 2018; Dao et al.,
/// 2022) that restart and fold at multiples of INGOT_RT_ATTENTION_SPLIT.
std::unique_ptr<AttentionEmitter> createTiledAttention();

} // namespace ingot::cpu

#endif // INGOT_COMPILER_CODEGEN_CPU_ATTENTION_H
