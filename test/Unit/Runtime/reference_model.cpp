// The decoder, twice. Both versions add in the same order, so their logits are equal in bits.
#include "reference_model.h"

#include "ingot_rt/random.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>

namespace ingot::rt::reference {

namespace {

constexpr uint64_t qkvRows = (heads + 2 * kvHeads) * headDim;

constexpr uint64_t bytesOf(uint64_t elements) { return (elements * 4 + 63) / 64 * 64; }
constexpr uint64_t padded(uint64_t n) { return (n + 15) / 16 * 16; }

struct ParameterSpec {
  const char *name;
  uint32_t layout;
  uint64_t rows, columns, segments, count, layerBytes, elements;
  const char *part;
};

constexpr ParameterSpec specs[] = {
    {"embed_tokens", INGOT_RT_ROWS, vocab, hidden, 1, 1, bytesOf(vocab * hidden), vocab * hidden, "embedding"},
    {"layer.input_norm", INGOT_RT_ROWS, 1, hidden, 1, layers, bytesOf(hidden), hidden * layers, "norm"},
    {"layer.qkv", INGOT_RT_PANELS, qkvRows, hidden, 1, layers, bytesOf(padded(qkvRows) * hidden),
     qkvRows * hidden * layers, "attention"},
    {"layer.o_proj", INGOT_RT_PANELS, hidden, heads * headDim, 8, layers, bytesOf(padded(hidden) * heads * headDim),
     hidden * heads * headDim * layers, "attention"},
    {"layer.post_norm", INGOT_RT_ROWS, 1, hidden, 1, layers, bytesOf(hidden), hidden * layers, "norm"},
    {"layer.gate_up", INGOT_RT_PANEL_PAIRS, intermediate, hidden, 1, layers, bytesOf(2 * padded(intermediate) * hidden),
     2 * intermediate * hidden * layers, "mlp"},
    {"layer.down_proj", INGOT_RT_PANELS, hidden, intermediate, 8, layers, bytesOf(padded(hidden) * intermediate),
     hidden * intermediate * layers, "mlp"},
    {"norm", INGOT_RT_ROWS, 1, hidden, 1, 1, bytesOf(hidden), hidden, "norm"},
    {"lm_head", INGOT_RT_PANELS, vocab, hidden, 1, 1, bytesOf(padded(vocab) * hidden), vocab * hidden, "lm_head"},
};
enum { Embed, InputNorm, Qkv, OProj, PostNorm, GateUp, DownProj, Norm, LmHead, parameterCount };

constexpr uint64_t offsetOf(int parameter) {
  uint64_t offset = 0;
  for (int i = 0; i < parameter; ++i)
    offset += specs[i].layerBytes * specs[i].count;
  return offset;
}

/// A tensor as a checkpoint would have it.
struct Source {
  const char *pattern;
  int parameter;
  uint32_t kind;
  uint64_t which, firstRow, rows, columns;
};
constexpr Source sources[] = {
    {"embed_tokens.weight", Embed, INGOT_RT_RANDOM_MATRIX, 0, 0, vocab, hidden},
    {"layers.{layer}.input_layernorm.weight", InputNorm, INGOT_RT_RANDOM_NORM, 0, 0, 1, hidden},
    {"layers.{layer}.q_proj.weight", Qkv, INGOT_RT_RANDOM_MATRIX, 0, 0, heads * headDim, hidden},
    {"layers.{layer}.k_proj.weight", Qkv, INGOT_RT_RANDOM_MATRIX, 0, heads * headDim, kvHeads * headDim, hidden},
    {"layers.{layer}.v_proj.weight", Qkv, INGOT_RT_RANDOM_MATRIX, 0, (heads + kvHeads) * headDim, kvHeads * headDim,
     hidden},
    {"layers.{layer}.o_proj.weight", OProj, INGOT_RT_RANDOM_MATRIX, 0, 0, hidden, heads * headDim},
    {"layers.{layer}.post_attention_layernorm.weight", PostNorm, INGOT_RT_RANDOM_NORM, 0, 0, 1, hidden},
    {"layers.{layer}.gate_proj.weight", GateUp, INGOT_RT_RANDOM_MATRIX, 0, 0, intermediate, hidden},
    {"layers.{layer}.up_proj.weight", GateUp, INGOT_RT_RANDOM_MATRIX, 1, 0, intermediate, hidden},
    {"layers.{layer}.down_proj.weight", DownProj, INGOT_RT_RANDOM_MATRIX, 0, 0, hidden, intermediate},
    {"norm.weight", Norm, INGOT_RT_RANDOM_NORM, 0, 0, 1, hidden},
    {"lm_head.weight", LmHead, INGOT_RT_RANDOM_MATRIX, 0, 0, vocab, hidden},
};

float element(const Source &source, uint64_t layer, uint64_t row, uint64_t column) {
  return ingot_rt_random_element(static_cast<ingot_rt_random_kind>(source.kind),
                                 ingot_rt_random_layer_key(seed, source.pattern, layer),
                                 ingot_rt_random_shift(source.columns), row * source.columns + column);
}

// ------------------------------------------------------------------------------------ shared arithmetic of one token

void rmsNorm(const float *x, const float *weight, float *out) {
  float sum = 0;
  for (uint64_t i = 0; i < hidden; ++i)
    sum += x[i] * x[i];
  float scale = 1 / std::sqrt(sum / static_cast<float>(hidden) + 1e-6f);
  for (uint64_t i = 0; i < hidden; ++i)
    out[i] = x[i] * scale * weight[i];
}

/// Half-split rotation; regime 1 turns at half the speed.
void rope(float *head, int32_t position, int32_t regime) {
  for (uint64_t i = 0; i < headDim / 2; ++i) {
    float frequency = std::pow(10000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(headDim));
    float angle = static_cast<float>(position) * frequency * (regime ? 0.5f : 1.0f);
    float c = std::cos(angle), s = std::sin(angle), a = head[i], b = head[i + headDim / 2];
    head[i] = a * c - b * s;
    head[i + headDim / 2] = b * c + a * s;
  }
}

/// Attention of one head over `length` positions; key(p) and value(p) give rows of headDim floats.
template <typename Key, typename Value>
void attend(const float *query, uint64_t length, Key key, Value value, float *out) {
  std::vector<float> scores(length);
  float largest = -INFINITY, sum = 0;
  for (uint64_t p = 0; p < length; ++p) {
    float score = 0;
    for (uint64_t d = 0; d < headDim; ++d)
      score += query[d] * key(p, d);
    scores[p] = score / std::sqrt(static_cast<float>(headDim));
    largest = std::max(largest, scores[p]);
  }
  std::fill(out, out + headDim, 0.0f);
  for (uint64_t p = 0; p < length; ++p) {
    float weight = std::exp(scores[p] - largest);
    sum += weight;
    for (uint64_t d = 0; d < headDim; ++d)
      out[d] += weight * value(p, d);
  }
  for (uint64_t d = 0; d < headDim; ++d)
    out[d] /= sum;
}

float silu(float x) { return x / (1 + std::exp(-x)); }

// ------------------------------------------------------------------------------------ over packed layouts and blocks

struct Packed {
  const uint8_t *weights;
  const float *base(int parameter, uint64_t layer) const {
    return reinterpret_cast<const float *>(weights + offsetOf(parameter) + layer * specs[parameter].layerBytes);
  }
  /// out[n] = sum over k of W[n, k] * x[k]; of a pair: of matrix `which`.
  void linear(int parameter, uint64_t layer, uint64_t which, const float *x, float *out) const {
    const ParameterSpec &spec = specs[parameter];
    bool pair = spec.layout == INGOT_RT_PANEL_PAIRS;
    const float *matrix = base(parameter, layer);
    for (uint64_t n = 0; n < spec.rows; ++n) {
      float sum = 0;
      uint64_t feature = pair ? ingot_rt_pair_feature(which, n) : n;
      for (uint64_t k = 0; k < spec.columns; ++k)
        sum += matrix[ingot_rt_panel_index(pair ? 2 * padded(spec.rows) : spec.rows, spec.columns, spec.segments, 1,
                                           feature, k)] *
               x[k];
      out[n] = sum;
    }
  }
};

/// Where a cached element lies, in floats.
struct CacheView {
  float *cache;
  uint64_t blockFloats = ingot_rt_cache_block_bytes(layers, kvHeads, headDim, INGOT_RT_F32) / 4;
  float *head(int64_t block, uint64_t layer, uint64_t kvHead) const {
    uint64_t headFloats =
        (ingot_rt_cache_key_bytes(headDim, INGOT_RT_F32) + ingot_rt_cache_value_bytes(headDim, INGOT_RT_F32)) / 4;
    return cache + static_cast<uint64_t>(block) * blockFloats + (layer * kvHeads + kvHead) * headFloats;
  }
  float &key(int64_t slot, uint64_t layer, uint64_t kvHead, uint64_t d) const {
    uint64_t place = static_cast<uint64_t>(slot) % INGOT_RT_CACHE_BLOCK;
    return head(slot / INGOT_RT_CACHE_BLOCK, layer, kvHead)[place / INGOT_RT_KEY_TILE * headDim * INGOT_RT_KEY_TILE +
                                                            d * INGOT_RT_KEY_TILE + place % INGOT_RT_KEY_TILE];
  }
  float &value(int64_t slot, uint64_t layer, uint64_t kvHead, uint64_t d) const {
    uint64_t place = static_cast<uint64_t>(slot) % INGOT_RT_CACHE_BLOCK;
    return head(slot / INGOT_RT_CACHE_BLOCK, layer,
                kvHead)[ingot_rt_cache_key_bytes(headDim, INGOT_RT_F32) / 4 + place * padded(headDim) + d];
  }
};

constexpr ingot_rt_op ops[] = {
    {"embed", "embedding", 0, 0, 0, 0, hidden, 0},
    {"layer.qkv", "linear", qkvRows * hidden * 4, 2 * qkvRows * hidden, 0, 0, qkvRows, 1},
    {"layer.attention", "attention", 0, 0, 0, 4 * heads * headDim, heads * headDim, 1},
    {"layer.mlp", "linear", 3 * intermediate * hidden * 4, 6 * intermediate * hidden, 0, 0, hidden, 1},
    {"lm_head", "linear", vocab * hidden * 4, 0, 2 * vocab * hidden, 0, vocab, 0},
};

/// Arena: the residual stream [tokens][hidden] and queries [tokens][qkvRows].
constexpr uint64_t perToken = bytesOf(hidden) + bytesOf(qkvRows) + bytesOf(hidden);

uint32_t step(const ingot_rt_step_args *args, uint32_t worker, uint32_t workers) {
  if (args->size != sizeof *args || args->version != INGOT_RT_ABI_VERSION)
    return INGOT_RT_BAD_SIZE;
  if (args->cache_id != model().cache_id)
    return INGOT_RT_BAD_CACHE;
  bool largestOnly = args->output == INGOT_RT_ARGMAX;
  if ((args->output != INGOT_RT_LOGITS && !largestOnly) || args->adapters || args->embeddings || args->ancestors ||
      args->communicator)
    return INGOT_RT_UNSUPPORTED;
  if (args->token_count > maxStepTokens || args->sequence_count > maxBatch || args->logits_stride < padded(vocab))
    return INGOT_RT_BAD_SIZE;
  auto stream = reinterpret_cast<float *>(args->arena);
  auto qkv = reinterpret_cast<float *>(args->arena + args->token_count * bytesOf(hidden));
  auto attended = reinterpret_cast<float *>(args->arena + args->token_count * (bytesOf(hidden) + bytesOf(qkvRows)));
  constexpr uint64_t stride = bytesOf(hidden) / 4, qkvStride = bytesOf(qkvRows) / 4;
  Packed packed{args->weights};
  CacheView view{reinterpret_cast<float *>(args->cache)};
  auto shown = [&](uint32_t op, int32_t layer, const float *data, uint64_t rows, uint64_t rowStride) {
    if (!args->hook)
      return;
    ingot_rt_barrier(args->barrier, worker);
    args->hook(args->hook_context, worker, op, layer, data, rows, ops[op].columns, rowStride);
  };
  auto mine = [&](auto body) {
    for (uint64_t t = worker; t < args->token_count; t += workers)
      body(t);
  };
  mine([&](uint64_t t) {
    memcpy(stream + t * stride, packed.base(Embed, 0) + static_cast<uint64_t>(args->tokens[t]) * hidden, hidden * 4);
  });
  shown(0, -1, stream, args->token_count, stride);
  for (uint64_t layer = 0; layer < layers; ++layer) {
    mine([&](uint64_t t) {
      float normed[hidden], *row = qkv + t * qkvStride;
      rmsNorm(stream + t * stride, packed.base(InputNorm, layer), normed);
      packed.linear(Qkv, layer, 0, normed, row);
      int32_t regime = args->regimes[args->sequences[t]];
      for (uint64_t h = 0; h < heads + kvHeads; ++h)
        rope(row + h * headDim, args->positions[t], regime);
      for (uint64_t h = 0; h < kvHeads; ++h)
        for (uint64_t d = 0; d < headDim; ++d) {
          view.key(args->slots[t], layer, h, d) = row[(heads + h) * headDim + d];
          view.value(args->slots[t], layer, h, d) = row[(heads + kvHeads + h) * headDim + d];
        }
    });
    ingot_rt_barrier(args->barrier, worker); // keys and values of all tokens are there
    shown(1, static_cast<int32_t>(layer), qkv, args->token_count, qkvStride);
    mine([&](uint64_t t) {
      const int32_t *table = args->block_tables + static_cast<uint64_t>(args->sequences[t]) * args->block_table_stride;
      auto slot = [&](uint64_t p) {
        return static_cast<int64_t>(table[p / INGOT_RT_CACHE_BLOCK]) * INGOT_RT_CACHE_BLOCK +
               static_cast<int64_t>(p % INGOT_RT_CACHE_BLOCK);
      };
      for (uint64_t h = 0; h < heads; ++h) {
        uint64_t kvHead = h / (heads / kvHeads);
        attend(
            qkv + t * qkvStride + h * headDim, static_cast<uint64_t>(args->positions[t]) + 1,
            [&](uint64_t p, uint64_t d) { return view.key(slot(p), layer, kvHead, d); },
            [&](uint64_t p, uint64_t d) { return view.value(slot(p), layer, kvHead, d); },
            attended + t * stride + h * headDim);
      }
    });
    shown(2, static_cast<int32_t>(layer), attended, args->token_count, stride);
    mine([&](uint64_t t) {
      float out[hidden], normed[hidden], gate[intermediate], up[intermediate], *row = stream + t * stride;
      packed.linear(OProj, layer, 0, attended + t * stride, out);
      for (uint64_t i = 0; i < hidden; ++i)
        row[i] += out[i];
      rmsNorm(row, packed.base(PostNorm, layer), normed);
      packed.linear(GateUp, layer, 0, normed, gate);
      packed.linear(GateUp, layer, 1, normed, up);
      for (uint64_t i = 0; i < intermediate; ++i)
        gate[i] = silu(gate[i]) * up[i];
      packed.linear(DownProj, layer, 0, gate, out);
      for (uint64_t i = 0; i < hidden; ++i)
        row[i] += out[i];
    });
    shown(3, static_cast<int32_t>(layer), stream, args->token_count, stride);
  }
  ingot_rt_barrier(args->barrier, worker);
  for (uint64_t r = worker; r < args->row_count; r += workers) {
    float normed[hidden];
    rmsNorm(stream + static_cast<uint64_t>(args->rows[r]) * stride, packed.base(Norm, 0), normed);
    float own[padded(vocab)], *logits = largestOnly ? own : args->logits + r * args->logits_stride;
    packed.linear(LmHead, 0, 0, normed, logits);
    if (largestOnly) {
      int32_t best = 0;
      for (uint64_t i = 1; i < vocab; ++i)
        if (logits[i] > logits[best] || logits[i] != logits[i])
          best = static_cast<int32_t>(i);
      args->argmax[r] = best;
      args->argmax_value[r] = logits[best];
    }
  }
  shown(4, -1, args->logits, args->row_count, args->logits_stride);
  return INGOT_RT_OK;
}

// ------------------------------------------------------------------------------------ the description

struct Tables {
  ingot_rt_parameter parameters[parameterCount];
  std::vector<ingot_rt_random_source> randomSources;
  ingot_rt_cache_group group = {
      0, INGOT_RT_F32, layers, kvHeads, headDim, 0, ingot_rt_cache_block_bytes(layers, kvHeads, headDim, INGOT_RT_F32)};
  ingot_rt_variant variants[2] = {
      {"x86-64-v3", INGOT_RT_CPU_V3, step, nullptr, nullptr},
      {"never", uint64_t(1) << 40, step, nullptr, nullptr}}; // a feature that no machine has
  ingot_rt_model model = {};

  Tables() {
    for (int i = 0; i < parameterCount; ++i)
      parameters[i] = {specs[i].name,    INGOT_RT_F32,      specs[i].layout, specs[i].rows,
                       specs[i].columns, specs[i].segments, specs[i].count,  specs[i].layerBytes,
                       offsetOf(i),      specs[i].elements, specs[i].part};
    for (const Source &source : sources)
      randomSources.push_back({source.pattern, static_cast<uint32_t>(source.parameter), source.kind, source.which,
                               source.firstRow, source.rows, source.columns, 0, specs[source.parameter].count, 0, 1});
    model.size = sizeof model;
    model.version = INGOT_RT_ABI_VERSION;
    model.cache_group_count = 1;
    model.name = "reference";
    model.architecture = "reference";
    model.vocab = vocab;
    model.hidden = hidden;
    model.intermediate = intermediate;
    model.layers = layers;
    model.heads = heads;
    model.kv_heads = kvHeads;
    model.head_dim = headDim;
    model.max_context = maxContext;
    model.max_batch = maxBatch;
    model.max_step_tokens = maxStepTokens;
    model.cache_id = 0x1234;
    model.weights_bytes = offsetOf(parameterCount);
    model.random_seed = seed;
#ifdef REFERENCE_STORED
    model.random = 0;
#else
    model.random = 1;
#endif
    model.variant_count = 2;
    model.arena = {0, perToken, 0, 0};
    model.cache_groups = &group;
    model.variants = variants;
    model.parameters = parameters;
    model.parameter_count = parameterCount;
    model.random_sources = randomSources.data();
    model.random_source_count = randomSources.size();
    model.ops = ops;
    model.op_count = sizeof ops / sizeof ops[0];
  }
};

} // namespace

const ingot_rt_model &model() {
  static const Tables tables;
  return tables.model;
}

std::vector<uint8_t> packedWeights() {
  std::vector<uint8_t> bytes(offsetOf(parameterCount));
  for (const Source &source : sources) {
    const ParameterSpec &spec = specs[source.parameter];
    for (uint64_t layer = 0; layer < spec.count; ++layer)
      for (uint64_t row = 0; row < source.rows; ++row)
        for (uint64_t column = 0; column < source.columns; ++column) {
          uint64_t feature = source.firstRow + row, at = feature * spec.columns + column;
          if (spec.layout == INGOT_RT_PANELS)
            at = ingot_rt_panel_index(spec.rows, spec.columns, spec.segments, 1, feature, column);
          else if (spec.layout == INGOT_RT_PANEL_PAIRS)
            at = ingot_rt_panel_index(2 * padded(spec.rows), spec.columns, spec.segments, 1,
                                      ingot_rt_pair_feature(source.which, feature), column);
          float value = element(source, layer, row, column);
          memcpy(bytes.data() + offsetOf(source.parameter) + layer * spec.layerBytes + at * 4, &value, 4);
        }
  }
  return bytes;
}

std::vector<float> denseLogits(const std::vector<int32_t> &tokens, int32_t regime) {
  static std::map<std::pair<const Source *, uint64_t>, std::vector<float>> matrices; // row-major, as checkpoints are
  auto linear = [](const Source &source, uint64_t layer, const std::vector<float> &x) {
    std::vector<float> &matrix = matrices[{&source, layer}], out(source.rows);
    if (matrix.empty())
      for (uint64_t n = 0; n < source.rows; ++n)
        for (uint64_t k = 0; k < source.columns; ++k)
          matrix.push_back(element(source, layer, n, k));
    for (uint64_t n = 0; n < source.rows; ++n)
      for (uint64_t k = 0; k < source.columns; ++k)
        out[n] += matrix[n * source.columns + k] * x[k];
    return out;
  };
  auto norm = [](const Source &source, uint64_t layer, const std::vector<float> &x) {
    std::vector<float> weight(hidden), out(hidden);
    for (uint64_t i = 0; i < hidden; ++i)
      weight[i] = element(source, layer, 0, i);
    rmsNorm(x.data(), weight.data(), out.data());
    return out;
  };
  enum { SEmbed, SInputNorm, SQ, SK, SV, SO, SPostNorm, SGate, SUp, SDown, SNorm, SHead };
  std::vector<std::vector<float>> stream(tokens.size());
  for (size_t t = 0; t < tokens.size(); ++t)
    for (uint64_t i = 0; i < hidden; ++i)
      stream[t].push_back(element(sources[SEmbed], 0, static_cast<uint64_t>(tokens[t]), i));
  for (uint64_t layer = 0; layer < layers; ++layer) {
    std::vector<std::vector<float>> keys, values, queries;
    for (size_t t = 0; t < tokens.size(); ++t) {
      std::vector<float> normed = norm(sources[SInputNorm], layer, stream[t]);
      queries.push_back(linear(sources[SQ], layer, normed));
      keys.push_back(linear(sources[SK], layer, normed));
      values.push_back(linear(sources[SV], layer, normed));
      for (uint64_t h = 0; h < heads; ++h)
        rope(queries[t].data() + h * headDim, static_cast<int32_t>(t), regime);
      for (uint64_t h = 0; h < kvHeads; ++h)
        rope(keys[t].data() + h * headDim, static_cast<int32_t>(t), regime);
    }
    for (size_t t = 0; t < tokens.size(); ++t) {
      std::vector<float> attended(heads * headDim);
      for (uint64_t h = 0; h < heads; ++h) {
        uint64_t at = h / (heads / kvHeads) * headDim;
        attend(
            queries[t].data() + h * headDim, t + 1, [&](uint64_t p, uint64_t d) { return keys[p][at + d]; },
            [&](uint64_t p, uint64_t d) { return values[p][at + d]; }, attended.data() + h * headDim);
      }
      std::vector<float> out = linear(sources[SO], layer, attended);
      for (uint64_t i = 0; i < hidden; ++i)
        stream[t][i] += out[i];
      std::vector<float> normed = norm(sources[SPostNorm], layer, stream[t]);
      std::vector<float> gate = linear(sources[SGate], layer, normed), up = linear(sources[SUp], layer, normed);
      for (uint64_t i = 0; i < intermediate; ++i)
        gate[i] = silu(gate[i]) * up[i];
      out = linear(sources[SDown], layer, gate);
      for (uint64_t i = 0; i < hidden; ++i)
        stream[t][i] += out[i];
    }
  }
  std::vector<float> logits;
  for (size_t t = 0; t < tokens.size(); ++t) {
    std::vector<float> row = linear(sources[SHead], 0, norm(sources[SNorm], 0, stream[t]));
    logits.insert(logits.end(), row.begin(), row.end());
  }
  return logits;
}

} // namespace ingot::rt::reference
