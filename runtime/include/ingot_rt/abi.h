// The one contract between compiled code and the runtime: the step function, its arguments, the description of a
// model that the compiler stores in the executable's object file, and the layouts both sides must agree on.
//
// Everything is plain C with fixed-width integers. Structures start with their own size so that either side can tell
// an older or newer partner; fields are only ever appended.
#ifndef INGOT_RT_ABI_H
#define INGOT_RT_ABI_H

#include "ingot_rt/device.h"
#include "ingot_rt/sampling.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define INGOT_RT_ABI_VERSION 1u

// ---------------------------------------------------------------------------------------------------------------------
// Constants of the layouts
// ---------------------------------------------------------------------------------------------------------------------

/// Output features in a panel of packed weights, and f32 lanes in an activation row's unit of padding.
#define INGOT_RT_PANEL 16
/// Positions in a block of the cache.
#define INGOT_RT_CACHE_BLOCK 64
/// Positions in a transposed tile of keys inside a block.
#define INGOT_RT_KEY_TILE 16
/// Positions after which attention's running maximum, sum and accumulator are folded and restarted.
#define INGOT_RT_ATTENTION_SPLIT 512
/// Segments of K in the row-parallel linears.
#define INGOT_RT_K_SEGMENTS 8
/// Alignment of the payload in the executable, in bytes.
#define INGOT_RT_PAYLOAD_ALIGNMENT 65536
/// Alignment of every packed parameter and of every layer's share of it, in bytes.
#define INGOT_RT_PARAMETER_ALIGNMENT 64

/// How an element is stored. The order is part of the format of executables.
enum ingot_rt_dtype {
  INGOT_RT_F32 = 0,
  INGOT_RT_BF16 = 1,
  INGOT_RT_F16 = 2,
  // Quantized weights: blocks of 32 or 256 elements of K, in the panels of dialects/ingot/Quantization.h. In its order.
  INGOT_RT_Q8_0 = 3,
  INGOT_RT_Q4_0 = 4,
  INGOT_RT_Q4_1 = 5,
  INGOT_RT_Q5_0 = 6,
  INGOT_RT_Q5_1 = 7,
  INGOT_RT_Q4_K = 8,
  INGOT_RT_Q5_K = 9,
  INGOT_RT_Q6_K = 10,
  // Keys and values of a cache: integers with a scale for each head and token.
  INGOT_RT_INT8 = 11,
};

/// Bytes of an element that is not quantized.
static inline uint64_t ingot_rt_dtype_size(uint32_t dtype) {
  return dtype == INGOT_RT_F32 ? 4 : dtype == INGOT_RT_INT8 ? 1 : 2;
}

/// How a parameter's elements lie in memory.
enum ingot_rt_layout {
  /// Rows as in the checkpoint: norms, biases, an untied embedding.
  INGOT_RT_ROWS = 0,
  /// [segment][panel][k / group][16 features][group].
  INGOT_RT_PANELS = 1,
  /// Panels of two matrices of the same shape in turn: first 0, second 0, first 1, ... (gate and up).
  INGOT_RT_PANEL_PAIRS = 2,
};

/// Elements of K that lie together in a panel: pairs for bf16, which widen with a shift and a mask; one otherwise.
static inline uint64_t ingot_rt_k_group(uint32_t dtype) { return dtype == INGOT_RT_BF16 ? 2 : 1; }

/// Length of the segments of K; the last ones may be shorter or empty. `segments` is 1 or INGOT_RT_K_SEGMENTS.
static inline uint64_t ingot_rt_segment_length(uint64_t k, uint64_t segments) {
  uint64_t length = (k + segments - 1) / segments;
  return segments == 1 ? k : (length + 1) / 2 * 2;
}

/// Length of segment `s` of K, between 0 and ingot_rt_segment_length.
static inline uint64_t ingot_rt_segment_extent(uint64_t k, uint64_t segments, uint64_t s) {
  uint64_t length = ingot_rt_segment_length(k, segments), start = s * length;
  if (start >= k)
    return 0;
  return k - start < length ? k - start : length;
}

/// Elements from the start of a matrix [n, k] in panels to the start of segment `s`. Every segment is padded to whole
/// groups of K, every matrix to whole panels of features (a pair: both matrices each).
static inline uint64_t ingot_rt_segment_start(uint64_t n, uint64_t k, uint64_t segments, uint64_t group, uint64_t s) {
  uint64_t start = s * ingot_rt_segment_length(k, segments);
  if (start > k)
    start = k;
  uint64_t padded = (start + group - 1) / group * group; // only the last segment's length may be odd
  return (n + INGOT_RT_PANEL - 1) / INGOT_RT_PANEL * INGOT_RT_PANEL * padded;
}

/// Where feature `feature`, element `element` of K of a matrix [n, k] lies, in elements from the matrix's start.
static inline uint64_t ingot_rt_panel_index(uint64_t n, uint64_t k, uint64_t segments, uint64_t group, uint64_t feature,
                                            uint64_t element) {
  uint64_t length = ingot_rt_segment_length(k, segments), s = element / length, inside = element - s * length;
  uint64_t extent = ingot_rt_segment_extent(k, segments, s), padded = (extent + group - 1) / group * group;
  return ingot_rt_segment_start(n, k, segments, group, s) + feature / INGOT_RT_PANEL * (INGOT_RT_PANEL * padded) +
         inside / group * (INGOT_RT_PANEL * group) + feature % INGOT_RT_PANEL * group + inside % group;
}

/// A pair of matrices [n, k] is one matrix of 2 * roundUp(n, 16) features: this is where feature `feature` of matrix
/// `which` (0 or 1) stands in it.
static inline uint64_t ingot_rt_pair_feature(uint64_t which, uint64_t feature) {
  return (feature / INGOT_RT_PANEL * 2 + which) * INGOT_RT_PANEL + feature % INGOT_RT_PANEL;
}

// ---------------------------------------------------------------------------------------------------------------------
// One step
// ---------------------------------------------------------------------------------------------------------------------

/// What a step leaves behind for each selected row.
enum ingot_rt_output {
  /// `logits`: f32 [rows][logits_stride].
  INGOT_RT_LOGITS = 0,
  /// `argmax`: the id of the largest logit (the lowest of equals) and its value.
  INGOT_RT_ARGMAX = 1,
  /// `candidates`: the largest `candidates_per_row` logits. Not produced yet.
  INGOT_RT_CANDIDATES = 2,
  /// `logits` holds the final hidden state, after the last norm: f32 [rows][hidden]. Not produced yet.
  INGOT_RT_HIDDEN = 3,
  /// `argmax`: the id chosen as `sampling` says, -1 where none can be: a logit is not a number, or all are -infinity.
  /// `logits` is work space. Of steps that launch kernels; a CPU's do not produce it.
  INGOT_RT_TOKENS = 4,
};

/// What a step returns. Anything but OK means that nothing was written.
enum ingot_rt_status { INGOT_RT_OK = 0, INGOT_RT_UNSUPPORTED = 1, INGOT_RT_BAD_CACHE = 2, INGOT_RT_BAD_SIZE = 3 };

/// The arguments of a step. A batch is a flattened list of `token_count` tokens of `sequence_count` sequences, each
/// sequence's tokens contiguous and in order of position; there is no padding. All addresses of metadata stay the same
/// for the life of a session.
struct ingot_rt_step_args {
  uint64_t size;    ///< sizeof(struct ingot_rt_step_args)
  uint32_t version; ///< INGOT_RT_ABI_VERSION
  uint32_t output;  ///< enum ingot_rt_output

  const uint8_t *weights; ///< the packed parameters, aligned to INGOT_RT_PARAMETER_ALIGNMENT
  uint8_t *arena;         ///< temporaries: ingot_rt_model.arena formula for this step's sizes; aligned to 64
  uint8_t *cache;         ///< the pool of cache blocks; aligned to 64
  uint64_t cache_blocks;  ///< blocks in the pool
  uint64_t cache_id;      ///< must equal ingot_rt_model.cache_id, else INGOT_RT_BAD_CACHE

  uint64_t token_count;
  uint64_t sequence_count;
  uint64_t row_count; ///< rows of the batch whose output is wanted

  const int32_t *tokens;    ///< [token_count] ids
  const int32_t *positions; ///< [token_count] absolute positions, from 0
  const int32_t *sequences; ///< [token_count] index of the token's sequence in this batch
  const int64_t *slots;     ///< [token_count] where k and v go: block * INGOT_RT_CACHE_BLOCK + position % block

  const int32_t *query_starts; ///< [sequence_count + 1] first token of each sequence
  const int32_t *lengths;      ///< [sequence_count] positions in the cache once this step is done
  const int32_t *regimes;      ///< [sequence_count] RoPE regime (0: only or short, 1: long factors)
  const int32_t *block_tables; ///< [sequence_count][block_table_stride] block ids, in order of position
  uint64_t block_table_stride;

  const int32_t *rows;    ///< [row_count] tokens whose output is wanted, ascending
  float *logits;          ///< [row_count][logits_stride], aligned to 64
  uint64_t logits_stride; ///< floats; at least roundUp(vocab, 16)
  int32_t *argmax;        ///< [row_count] ids, for INGOT_RT_ARGMAX and INGOT_RT_TOKENS
  float *argmax_value;    ///< [row_count]

  void *barrier; ///< given to ingot_rt_barrier

  /// Called by every worker after each op that has a number, when not null (time per op, traces): op is the index in
  /// ingot_rt_model.ops, layer the layer or -1. `data`, f32 [rows][stride] with `columns` of them valid, is the op's
  /// result, or null. A hook makes workers meet at a barrier after each op.
  void (*hook)(void *context, uint32_t worker, uint32_t op, int32_t layer, const float *data, uint64_t rows,
               uint64_t columns, uint64_t stride);
  void *hook_context;

  // Reserved for what later versions pass. Not null: INGOT_RT_UNSUPPORTED.
  const int32_t *adapters;   ///< [sequence_count] LoRA adapter ids
  const float *embeddings;   ///< [token_count][hidden] instead of ids
  const uint64_t *ancestors; ///< tree speculation: mask of ancestors per token
  void *communicator;        ///< tensor parallelism

  /// Runs a kernel of device code; null for CPU variants. What launches get and leave behind is in order, but a launch
  /// may return before the kernel has run.
  void (*launch)(void *context, const struct ingot_rt_launch *launch);
  void *launch_context;

  // For INGOT_RT_TOKENS.
  const struct ingot_rt_sampling *sampling; ///< [row_count]
  /// [row_count][INGOT_RT_TOKEN_SETS][token_set_words] Sets of tokens, a bit for each id, the lowest first; of those
  /// that no row's `sets` name nothing is read.
  const uint32_t *token_sets;
  uint64_t token_set_words; ///< at least vocab / 32, rounded up
};

/// Compiled per CPU variant. Every worker of `workers` calls it with the same arguments; all return the same status.
typedef uint32_t (*ingot_rt_step_fn)(const struct ingot_rt_step_args *args, uint32_t worker, uint32_t workers);

/// Provided by the runtime: returns when all workers have called it.
void ingot_rt_barrier(void *barrier, uint32_t worker);

// ---------------------------------------------------------------------------------------------------------------------
// The model's description: `ingot_rt_the_model`, a constant in the object file that the compiler emits
// ---------------------------------------------------------------------------------------------------------------------

/// CPU features a variant needs, checked by the runtime against cpuid and xgetbv before it is chosen.
enum ingot_rt_cpu_feature {
  INGOT_RT_CPU_V3 = 1u << 0,         ///< x86-64-v3: AVX2, FMA, BMI, F16C
  INGOT_RT_CPU_AVX512 = 1u << 1,     ///< x86-64-v4: F, BW, CD, DQ, VL
  INGOT_RT_CPU_AVX512BF16 = 1u << 2, ///< AVX512_BF16
  INGOT_RT_CPU_AVX512VNNI = 1u << 3, ///< AVX512_VNNI
};

/// One compilation of the step function; the last variant in the table whose features are all there is used.
struct ingot_rt_variant {
  const char *name; ///< as --target-cpu spells it: "x86-64-v3", "x86-64-v4", "x86-64-v4-bf16"
  uint64_t features;
  ingot_rt_step_fn step;
  const struct ingot_rt_device *device; ///< what runs the step's kernels; null: the CPU does everything
  /// [INGOT_RT_RANDOM_KERNELS] What fills random weights where the device has them, by ingot_rt_random_kernel; null for
  /// those that the model has no use for. Null: the host fills them.
  const struct ingot_rt_kernel *const *random_kernels;
};

/// Kernels that fill random weights: for each type of elements one for rows, one for panels (and pairs of them). Their
/// arguments are those of ingot_rt_random_argument; each thread makes the 16 elements of one block of Philox.
#define INGOT_RT_RANDOM_KERNELS 6
static inline uint32_t ingot_rt_random_kernel(uint32_t dtype, uint32_t layout) {
  return 2 * dtype + (layout == INGOT_RT_ROWS ? 0 : 1);
}

/// Of both kinds of kernels, then of those for panels.
enum ingot_rt_random_argument {
  /// Address: of a source's first element in rows; of the layer's matrix in panels. Of its elements only those of the
  /// source are written.
  INGOT_RT_RANDOM_WEIGHTS = 0,
  INGOT_RT_RANDOM_KEY = 1, ///< of the layer's tensor
  /// A byte b of the stream becomes ((b >> DROP) * FACTOR + OFFSET) * SCALE, SCALE a float and a power of two.
  INGOT_RT_RANDOM_DROP = 2,
  INGOT_RT_RANDOM_FACTOR = 3,
  INGOT_RT_RANDOM_OFFSET = 4,
  INGOT_RT_RANDOM_SCALE = 5,
  /// Elements of the source. Grid: blocks of 16 * threads elements.
  INGOT_RT_RANDOM_COUNT = 6,
  INGOT_RT_RANDOM_ROW_ARGUMENTS = 7,
  /// Shape of the source, and its first row among the features of one matrix. Grid: panels that it touches, then blocks
  /// of threads / 16 * 16 elements of a row, one more than fit where rows do not begin with a block of Philox.
  INGOT_RT_RANDOM_ROWS = 6,
  INGOT_RT_RANDOM_COLUMNS = 7,
  INGOT_RT_RANDOM_FIRST_ROW = 8,
  /// Panel p of one matrix is panel p * PANEL_STEP + PANEL_FIRST as they lie, of PANELS.
  INGOT_RT_RANDOM_PANELS = 9,
  INGOT_RT_RANDOM_PANEL_STEP = 10,
  INGOT_RT_RANDOM_PANEL_FIRST = 11,
  INGOT_RT_RANDOM_SEGMENT = 12, ///< ingot_rt_segment_length of the columns
  INGOT_RT_RANDOM_PANEL_ARGUMENTS = 13
};

/// Bytes = base + tokens * per_token + rows * per_row + workers * per_worker, each already aligned to 64.
struct ingot_rt_arena {
  uint64_t base, per_token, per_row, per_worker;
};

/// One stored parameter of `count` layers (1 outside the layers): count * layer_stride bytes from `offset`.
struct ingot_rt_parameter {
  const char *name;       ///< symbol of the packed module, e.g. "layer.qkv"
  uint32_t dtype;         ///< enum ingot_rt_dtype
  uint32_t layout;        ///< enum ingot_rt_layout
  uint64_t rows, columns; ///< logical shape of one layer's matrix [N, K] (a vector: [1, K]); a pair: N of one of them
  uint64_t segments;
  uint64_t count, layer_stride, offset; ///< bytes from the payload's weights
  uint64_t parameters; ///< logical elements in all layers: what a count of the model's parameters adds up
  const char *part;    ///< which part of the model it counts for: "embedding", "attention", "mlp", "norm", "lm_head"
};

/// How a random parameter is filled in `count` of its layers, however many: for each i below it, the rows of the source
/// tensor of the model's layer number first_layer + i layer_step go to rows [first_row, first_row + rows) of
/// `parameter`'s layer first_index + i (a pair: matrix `which`). A parameter outside the layers has one.
struct ingot_rt_random_source {
  const char *pattern; ///< the tensor's name, "{layer}" for the layer's number; see ingot_rt_random_layer_key
  uint32_t parameter;  ///< index in the parameter table
  uint32_t kind;       ///< enum ingot_rt_random_kind
  uint64_t which, first_row, rows, columns;
  uint64_t first_index, count, first_layer, layer_step;
};

/// One op of a step, for `bench --per-op` and traces. Bytes and FLOPs are per step: fixed + per token (+ per row).
struct ingot_rt_op {
  const char *name;                                           ///< e.g. "layer.qkv"
  const char *kind;                                           ///< the dialect's op: "linear", "attention", ...
  uint64_t bytes;                                             ///< of parameters read, per layer
  uint64_t flops_per_token, flops_per_row, flops_per_context; ///< the last: per token and position attended to
  uint32_t columns;                                           ///< of the result, 0 if it has none
  uint32_t in_layer;                                          ///< 1: runs once per layer
};

/// A group of layers whose keys and values share blocks.
struct ingot_rt_cache_group {
  uint32_t kind;  ///< 0: attention with keys and values
  uint32_t dtype; ///< enum ingot_rt_dtype
  uint64_t layers, kv_heads, head_dim;
  uint64_t window; ///< positions a layer sees, its own included; 0: all (the widest of the group's layers)
  uint64_t block_bytes;
};

struct ingot_rt_model {
  uint64_t size;    ///< sizeof(struct ingot_rt_model)
  uint32_t version; ///< INGOT_RT_ABI_VERSION
  uint32_t cache_group_count;
  const char *name;         ///< display name
  const char *architecture; ///< model_type
  uint64_t vocab, hidden, intermediate, layers, heads, kv_heads, head_dim;
  uint64_t max_context;     ///< positions
  uint64_t max_batch;       ///< sequences in one step
  uint64_t max_step_tokens; ///< tokens in one step
  uint64_t rope_long_from;  ///< longrope: a sequence longer than this is in regime 1; 0: one regime only
  uint64_t cache_id;        ///< hash of the cache groups and of the model's name and shape
  uint64_t weights_bytes;   ///< of all packed parameters
  uint64_t random_seed;
  uint32_t random; ///< 1: weights are generated at start from `random_sources`
  uint32_t variant_count;
  struct ingot_rt_arena arena;
  const struct ingot_rt_cache_group *cache_groups;
  const struct ingot_rt_variant *variants;
  const struct ingot_rt_parameter *parameters;
  uint64_t parameter_count;
  const struct ingot_rt_random_source *random_sources;
  uint64_t random_source_count;
  const struct ingot_rt_op *ops;
  uint64_t op_count;
};

extern const struct ingot_rt_model ingot_rt_the_model;

/// Bytes of one head's keys of one layer in a block: [tiles][head_dim][INGOT_RT_KEY_TILE].
static inline uint64_t ingot_rt_cache_key_bytes(uint64_t head_dim, uint32_t dtype) {
  return INGOT_RT_CACHE_BLOCK * head_dim * ingot_rt_dtype_size(dtype);
}

/// Bytes of one head's values of one layer in a block: [positions][roundUp(head_dim, 16)].
static inline uint64_t ingot_rt_cache_value_bytes(uint64_t head_dim, uint32_t dtype) {
  return INGOT_RT_CACHE_BLOCK * ((head_dim + 15) / 16 * 16) * ingot_rt_dtype_size(dtype);
}

/// Bytes of one head's scales of one layer in a block, f32: [positions] of keys, then [positions] of values. Integers
/// only.
static inline uint64_t ingot_rt_cache_scale_bytes(uint32_t dtype) {
  return dtype == INGOT_RT_INT8 ? 2 * 4 * INGOT_RT_CACHE_BLOCK : 0;
}

/// Bytes of a block: [layer][kv head][keys, then values, then scales]. Always a multiple of 64.
static inline uint64_t ingot_rt_cache_block_bytes(uint64_t layers, uint64_t kv_heads, uint64_t head_dim,
                                                  uint32_t dtype) {
  return layers * kv_heads *
         (ingot_rt_cache_key_bytes(head_dim, dtype) + ingot_rt_cache_value_bytes(head_dim, dtype) +
          ingot_rt_cache_scale_bytes(dtype));
}

#ifdef __cplusplus
}
#endif
#endif // INGOT_RT_ABI_H
