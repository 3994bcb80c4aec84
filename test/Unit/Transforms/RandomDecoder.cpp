//===- RandomDecoder.cpp - Decoders that a seed defines, as IR ----------------------------------------------------===//
//
// See RandomDecoder.h.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "RandomDecoder.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <functional>
#include <vector>

using llvm::formatv;

namespace {

/// Writes one module.
class DecoderWriter {
public:
  explicit DecoderWriter(uint64_t seed) : draw(seed) {}
  std::string write();

private:
  /// A parameter of the current kind (or of none), read where it is needed; returns "%name : type" in two strings.
  std::pair<std::string, std::string> weight(const std::string &name, const std::string &shape, bool vector);
  std::string linear(const std::string &name, const std::string &input, int64_t n, int64_t k, bool bias,
                     bool rowParallel = false);
  std::string norm(const std::string &name, const std::string &input, int64_t features, int64_t length);
  std::string unary(const std::string &op, const std::string &input, int64_t features);
  std::string binary(const std::string &op, std::string a, std::string b, int64_t features);
  std::string attention(const std::string &input);
  std::string mlp(const std::string &input);
  void layer(const std::string &name);
  void forward();

  std::string fresh() { return "%v" + std::to_string(next++); }
  static std::string activation(int64_t features) { return formatv("tensor<?x{0}xf32>", features).str(); }
  std::string elementType() {
    static const char *const types[] = {"f32", "bf16", "f16"};
    return types[draw.chance(85) ? mainType : draw.in(0, 2)];
  }

  Draw draw;
  int64_t hidden, intermediate, heads, kvHeads, headDim, vocab, mainType, layers = 0;
  std::string cacheType, runs, kind, parameters, body, module;
  std::vector<std::string> kinds;
  int64_t next = 0;
};

} // namespace

std::pair<std::string, std::string> DecoderWriter::weight(const std::string &name, const std::string &shape,
                                                          bool vector) {
  std::string type = formatv("tensor<{0}x{1}>", shape, elementType()), symbol = (kind.empty() ? "" : kind + ".") + name;
  std::string source = kind.empty() ? name : formatv("{0}.{{layer}.{1}", kind, name).str();
  parameters += formatv("  ingot.parameter @{0} \"{1}\"{2} part \"{3}\" : {4}\n", symbol, source,
                        kind.empty() ? "" : " kind @" + kind, vector ? "norm" : "mlp", type);
  std::string value = fresh();
  body += formatv("    {0} = ingot.weight @{1}{2} : {3}\n", value, symbol, kind.empty() ? "" : "[%index]", type);
  return {value, type};
}

std::string DecoderWriter::linear(const std::string &name, const std::string &input, int64_t n, int64_t k, bool bias,
                                  bool rowParallel) {
  auto [w, type] = weight(name + ".weight", formatv("{0}x{1}", n, k), false);
  std::string biasText;
  if (bias) {
    auto [b, biasType] = weight(name + ".bias", std::to_string(n), true);
    biasText = formatv(" bias({0} : {1})", b, biasType);
  }
  std::string result = fresh();
  // Segments are not tested here below the width at which layout selection uses them.
  body += formatv("    {0} = ingot.linear {1} weights({2} : {3}){4}{5} : {6} -> {7}\n", result, input, w, type,
                  biasText, rowParallel && k >= 16 ? " row_parallel" : "", activation(k), activation(n));
  return result;
}

std::string DecoderWriter::norm(const std::string &name, const std::string &input, int64_t features, int64_t length) {
  auto [w, type] = weight(name + ".weight", std::to_string(length), true);
  std::string result = fresh();
  body += formatv("    {0} = ingot.rms_norm {1}, {2} eps = {3} : {4}, {5}\n", result, input, w,
                  draw.chance(90) ? "1.0e-5" : "1.0e-6", activation(features), type);
  return result;
}

std::string DecoderWriter::unary(const std::string &op, const std::string &input, int64_t features) {
  std::string result = fresh();
  body += formatv("    {0} = ingot.{1} {2} : {3}\n", result, op, input, activation(features));
  return result;
}

std::string DecoderWriter::binary(const std::string &op, std::string a, std::string b, int64_t features) {
  if (draw.chance(50))
    std::swap(a, b);
  std::string result = fresh();
  body += formatv("    {0} = ingot.{1} {2}, {3} : {4}\n", result, op, a, b, activation(features));
  return result;
}

std::string DecoderWriter::attention(const std::string &input) {
  int64_t queries = heads * headDim, keys = kvHeads * headDim, biases = draw.in(0, 3);
  bool shared = draw.chance(8);
  std::string q, k, v;
  std::vector<std::function<void()>> products = {[&] { q = linear("q_proj", input, queries, hidden, biases >= 2); },
                                                 [&] { k = linear("k_proj", input, keys, hidden, biases >= 2); },
                                                 [&] {
                                                   if (!shared)
                                                     v = linear("v_proj", input, keys, hidden,
                                                                biases == 3 || (biases == 1 && draw.chance(50)));
                                                 }};
  for (size_t i = products.size(); i > 1; --i)
    std::swap(products[i - 1], products[draw.in(0, i - 1)]);
  for (auto &product : products)
    product();
  if (shared)
    v = k;
  int64_t norms = draw.in(0, 4);
  if (norms >= 3)
    q = norm("q_norm", q, queries, headDim);
  if (norms == 4 || draw.chance(5))
    k = norm("k_norm", k, keys, headDim);
  auto rope = [&](const std::string &x, int64_t features) {
    std::string result = fresh();
    body += formatv("    {0} = ingot.rope {1}, %batch, @rotary{2} : {3}\n", result, x, draw.chance(95) ? 0 : 1,
                    activation(features));
    return result;
  };
  bool rotated = draw.chance(90), late = draw.chance(50);
  if (rotated) {
    k = rope(k, keys);
    if (!late)
      q = rope(q, queries);
  }
  body +=
      formatv("    ingot.kv_append {0}, {1}, %batch, %cache[%layer] : {2}, {3}\n", k, v, activation(keys), cacheType);
  if (rotated && late)
    q = rope(q, queries);
  std::string a = fresh();
  body += formatv("    {0} = ingot.attention {1}, %batch, %cache[%layer] scale = 0.3{2} : {3}, {4}\n", a, q,
                  draw.chance(30) ? " window = 4" : "", activation(queries), cacheType);
  return linear("o_proj", a, hidden, queries, draw.chance(20), draw.chance(80));
}

std::string DecoderWriter::mlp(const std::string &input) {
  int64_t form = draw.in(0, 5), biases = draw.in(0, 9);
  std::string gate = linear("gate_proj", input, intermediate, hidden, biases >= 8);
  std::string inner;
  if (form == 0) {
    inner = unary("silu", gate, intermediate);
  } else {
    std::string up = form == 1
                         ? linear("up_proj", norm("up_norm", input, hidden, hidden), intermediate, hidden, biases >= 9)
                         : linear("up_proj", input, intermediate, hidden, biases >= 8);
    std::string activated = unary("silu", gate, intermediate);
    inner = binary("mul", activated, up, intermediate);
    if (form == 2)
      inner = binary("add", inner, draw.chance(50) ? up : activated, intermediate);
  }
  return linear("down_proj", inner, hidden, intermediate, draw.chance(20), draw.chance(80));
}

void DecoderWriter::layer(const std::string &name) {
  kind = name;
  body.clear();
  std::string h = "%h";
  int64_t form = draw.in(0, 9);
  if (form < 7) { // pre-norm, as in Llama
    h = binary("add", h, attention(norm("input_norm", h, hidden, hidden)), hidden);
    h = binary("add", h, mlp(norm("mlp_norm", h, hidden, hidden)), hidden);
  } else if (form == 7) { // parallel, as in GPT-J
    std::string x = norm("input_norm", h, hidden, hidden);
    std::string a = attention(x), m = mlp(x);
    h = binary("add", binary("add", h, a, hidden), m, hidden);
  } else if (form == 8) { // post-norm, as in OLMo 2
    h = binary("add", h, norm("attention_norm", attention(h), hidden, hidden), hidden);
    h = binary("add", h, norm("mlp_norm", mlp(h), hidden, hidden), hidden);
  } else { // the sum itself is normed, and the norm goes on, as in the first Transformer
    h = norm("attention_norm", binary("add", h, attention(h), hidden), hidden, hidden);
    h = norm("mlp_norm", binary("add", h, mlp(h), hidden), hidden, hidden);
  }
  module +=
      formatv("  func.func private @{0}(%h: {1}, %batch: !ingot.batch, %cache: {2}, %index: index, %layer: index) "
              "-> {1} {{\n{3}    return {4} : {1}\n  }\n",
              name, activation(hidden), cacheType, body, h);
}

void DecoderWriter::forward() {
  kind.clear();
  body.clear();
  auto [table, tableType] = weight("embed.weight", formatv("{0}x{1}", vocab, hidden), false);
  body += formatv("    %e = ingot.embedding %batch, {0} : {1} -> {2}\n", table, tableType, activation(hidden));
  body += formatv("    %l = ingot.layers %e, %batch, %cache [{0}] : {1}, {2}\n", runs, activation(hidden), cacheType);
  bool normFirst = draw.chance(20);
  std::string x = normFirst ? norm("norm", "%l", hidden, hidden) : "%l", rows = fresh();
  body += formatv("    {0} = ingot.select_rows {1}, %batch : {2}\n", rows, x, activation(hidden));
  if (!normFirst)
    rows = norm("norm", rows, hidden, hidden);
  std::string logits;
  if (draw.chance(50)) {
    logits = fresh();
    body += formatv("    {0} = ingot.linear {1} weights({2} : {3}) : {4} -> {5}\n", logits, rows, table, tableType,
                    activation(hidden), activation(vocab));
  } else {
    logits = linear("lm_head", rows, vocab, hidden, draw.chance(10));
  }
  module += formatv("  func.func @forward(%batch: !ingot.batch, %cache: {0}) -> {1} {{\n{2}    return {3} : {1}\n  }\n",
                    cacheType, activation(vocab), body, logits);
}

std::string DecoderWriter::write() {
  kvHeads = draw.in(1, 3);
  heads = kvHeads * draw.in(1, 3);
  headDim = 2 * draw.in(1, 9);
  hidden = draw.in(5, 50);
  intermediate = draw.in(5, 70);
  vocab = draw.in(17, 80);
  mainType = draw.in(0, 2);
  static const char *const cacheTypes[] = {"f32", "bf16", "f16"};
  int64_t count = draw.in(1, 3), cacheElement = draw.in(0, 2);
  std::vector<int64_t> first(count, 0);
  for (int64_t i = 0; i < count; ++i)
    kinds.push_back("kind" + std::to_string(i));
  for (int64_t run = 0, total = count == 1 ? 1 : draw.in(count, 5); run < total; ++run) {
    int64_t of = run < count ? run : draw.in(0, count - 1), length = draw.in(1, 2);
    runs += formatv("{0}#ingot.run<@{1}, first = {2}, count = {3}>", run ? ", " : "", kinds[of], first[of], length);
    first[of] += length;
    layers += length;
  }
  cacheType = formatv("!ingot.kv_cache<{0} x {1} x {2} x {3}>", layers, kvHeads, headDim, cacheTypes[cacheElement]);
  for (int i = 0; i < 2; ++i) {
    std::string frequencies;
    for (int64_t j = 0; j < headDim / 2; ++j)
      frequencies += formatv("{0}{1:f6}", j ? ", " : "", 1.0 / double(1 + j * (i + 1)));
    module += formatv("  ingot.rotary @rotary{0} {1} inv_freq = [{2}] scaling = 1.0\n", i,
                      draw.chance(50) ? "half" : "interleaved", frequencies);
  }
  for (const std::string &name : kinds)
    layer(name);
  forward();
  return formatv("module attributes {{ingot.model = #ingot.model<name = \"random\", architecture = \"random\", vocab = "
                 "{0}, hidden = {1}, intermediate = {2}, heads = {3}, maxContext = 64, maxBatch = 4, maxStepTokens = "
                 "64>} {{\n{4}{5}}\n",
                 vocab, hidden, intermediate, heads, parameters, module);
}

std::string makeRandomDecoder(uint64_t seed) { return DecoderWriter(seed).write(); }
