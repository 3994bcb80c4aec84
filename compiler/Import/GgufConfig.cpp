// GGUF metadata in config.json's terms. The keys are those of the GGUF
// specification and of llama.cpp's llama-arch.cpp, their meaning that of
// llama.cpp; a key that nothing here takes is an error that names it.
#include "compiler/Import/GgufConfig.h"
#include "compiler/Import/InputError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;
using namespace ingot;

static constexpr GgufArchitecture architectures[] = {
    {"llama", true}, {"qwen2", false}, {"qwen3", false}, {"ernie4_5", false}};

const GgufArchitecture *ingot::findGgufArchitecture(StringRef name) {
  const GgufArchitecture *found =
      llvm::find_if(architectures, [&](const GgufArchitecture &a) { return a.name == name; });
  return found == std::end(architectures) ? nullptr : found;
}

namespace {

/// Reads keys and records what became of each. The first fault is kept and
/// returned by finish(), so that the code that reads can be a list of what it
/// reads.
class MetadataReader {
public:
  using Use = GgufKeyUse::Use;

  MetadataReader(const GgufFile &file) : file(file) {}

  void fail(const Twine &what) {
    if (message.empty())
      message = what.str();
  }
  bool failed() const { return !message.empty(); }
  Error error() const { return message.empty() ? Error::success() : inputError(file.file, message); }

  /// The value of a key, or null; from then on the key has been used.
  const GgufValue *take(StringRef key, Use use = Use::Consumed, StringRef reason = "") {
    const GgufValue *value = file.find(key);
    if (value && used.insert(key).second)
      uses.push_back({key.str(), use, reason.str()});
    return value;
  }

  std::optional<int64_t> integer(StringRef key, Use use = Use::Consumed) {
    const GgufValue *value = take(key, use);
    if (!value)
      return std::nullopt;
    if (std::optional<std::vector<int64_t>> perLayer = value->integers(); perLayer && !perLayer->empty()) {
      if (llvm::all_equal(*perLayer))
        return perLayer->front();
      fail("key " + quote(key) + ": values that differ between layers are not supported");
      return std::nullopt;
    }
    return checked(key, *value, value->integer(), "an integer");
  }
  std::optional<double> number(StringRef key) {
    const GgufValue *value = take(key);
    return value ? checked(key, *value, value->number(), "a number") : std::nullopt;
  }
  std::optional<bool> boolean(StringRef key, Use use = Use::Consumed) {
    const GgufValue *value = take(key, use);
    return value ? checked(key, *value, value->boolean(), "a bool") : std::nullopt;
  }
  std::optional<StringRef> string(StringRef key, Use use = Use::Consumed, StringRef reason = "") {
    const GgufValue *value = take(key, use, reason);
    return value ? checked(key, *value, value->string(), "a string") : std::nullopt;
  }

  /// A positive integer that must be there.
  int64_t count(StringRef key) {
    std::optional<int64_t> value = integer(key);
    if (!failed() && !value)
      fail("has no key " + quote(key));
    else if (value && *value < 1)
      fail("key " + quote(key) + " is " + Twine(*value) + "; expected 1 or more");
    return value && *value >= 1 ? *value : 1; // after a fault, a size that can be computed with
  }

  /// A key whose only supported value is `expected`: what it would change
  /// otherwise is not built.
  void mustBe(StringRef key, double expected) {
    std::optional<double> value;
    if (const GgufValue *stored = take(key)) {
      value = stored->boolean() ? std::optional<double>(*stored->boolean()) : stored->number();
      if (!value || *value != expected)
        fail("key " + quote(key) + " is " + stored->describe() + ", which is not supported; expected " +
             Twine(int64_t(expected)));
    }
  }

  const GgufFile &file;
  std::vector<GgufKeyUse> uses;
  StringSet<> used;

private:
  template <typename T>
  std::optional<T> checked(StringRef key, const GgufValue &value, std::optional<T> result, const char *expected) {
    if (!result)
      fail("key " + quote(key) + " is " + value.describe() + "; expected " + expected);
    return result;
  }

  std::string message;
};

/// The model's part of the metadata.
class ConfigBuilder {
public:
  ConfigBuilder(MetadataReader &reader, const GgufArchitecture &architecture, GgufTensorLookup tensor)
      : reader(reader), architecture(architecture), tensor(tensor) {}

  Json build();

private:
  std::string key(StringRef suffix) const { return (architecture.name + "." + suffix).str(); }
  void attention();
  void rope();
  void ropeScaling();
  void yarn(Json &scaling);
  void longrope(Json &scaling);
  void tokens();
  void biases();
  Json factors(StringRef tensorName);

  MetadataReader &reader;
  const GgufArchitecture &architecture;
  GgufTensorLookup tensor;
  Json config = Json::object();
  int64_t headDim = 0;
};

} // namespace

Json ConfigBuilder::build() {
  // llama.cpp writes mistral as llama; a window makes the difference.
  std::optional<int64_t> window = reader.integer(key("attention.sliding_window"));
  if (window && *window < 0)
    reader.fail("key " + quote(key("attention.sliding_window")) + " is " + Twine(*window) + "; expected 0 or more");
  bool windowed = window && *window > 0;
  config["model_type"] = architecture.name == "llama" && windowed ? "mistral" : architecture.name.str();
  config["hidden_size"] = reader.count(key("embedding_length"));
  config["intermediate_size"] = reader.count(key("feed_forward_length"));
  config["num_hidden_layers"] = reader.count(key("block_count"));
  attention();
  std::optional<double> epsilon = reader.number(key("attention.layer_norm_rms_epsilon"));
  if (!epsilon)
    reader.fail("has no key " + quote(key("attention.layer_norm_rms_epsilon")));
  config["rms_norm_eps"] = epsilon.value_or(0);
  config["hidden_act"] = "silu";
  config["max_position_embeddings"] = reader.count(key("context_length"));
  rope();
  if (windowed) {
    config["sliding_window"] = *window;
    if (architecture.name == "qwen2" || architecture.name == "qwen3") {
      config["use_sliding_window"] = true;
      config["max_window_layers"] = 0;
    } else if (architecture.name != "llama") {
      reader.fail("key " + quote(key("attention.sliding_window")) + " is not supported for " + architecture.name);
    }
  }
  tokens();
  biases();
  config["tie_word_embeddings"] = tensor("output.weight") == nullptr;
  reader.mustBe(key("attention.causal"), 1);
  reader.mustBe(key("use_parallel_residual"), 0);
  reader.mustBe(key("expert_count"), 0);
  reader.mustBe(key("expert_used_count"), 0);
  std::optional<StringRef> layout = reader.string(key("tensor_data_layout"));
  if (layout && *layout != "Meta AI original pth")
    reader.fail("key " + quote(key("tensor_data_layout")) + " is " + quote(*layout) +
                "; expected 'Meta AI original pth'");
  return std::move(config);
}

/// Heads and their size. The size is attention.key_length; a file without it
/// says it by the rows of q.
void ConfigBuilder::attention() {
  int64_t hidden = config["hidden_size"].get<int64_t>();
  int64_t heads = reader.count(key("attention.head_count"));
  config["num_attention_heads"] = heads;
  std::string kvKey = key("attention.head_count_kv");
  config["num_key_value_heads"] = reader.file.find(kvKey) ? reader.count(kvKey) : heads;
  std::optional<int64_t> keyLength = reader.integer(key("attention.key_length"));
  std::optional<int64_t> valueLength = reader.integer(key("attention.value_length"));
  const GgufTensor *q = tensor("blk.0.attn_q.weight");
  if (keyLength)
    headDim = *keyLength;
  else
    headDim = (q && q->shape.size() == 2 ? q->shape[0] : hidden) / heads;
  if (headDim < 1)
    reader.fail("key " + quote(key("attention.key_length")) + " gives a head dimension of " + Twine(headDim) +
                "; expected 1 or more");
  if (valueLength && *valueLength != headDim)
    reader.fail("key " + quote(key("attention.value_length")) + " is " + Twine(*valueLength) +
                "; values of another size than keys (" + Twine(headDim) + ") are not supported");
  config["head_dim"] = headDim;
}

void ConfigBuilder::rope() {
  std::optional<int64_t> rotated = reader.integer(key("rope.dimension_count"));
  if (rotated && *rotated != headDim)
    reader.fail("key " + quote(key("rope.dimension_count")) + " is " + Twine(*rotated) +
                "; partial rotary embedding is not supported, expected the "
                "head dimension " +
                Twine(headDim));
  double theta = reader.number(key("rope.freq_base")).value_or(10000.0);
  if (!(theta > 0))
    reader.fail("key " + quote(key("rope.freq_base")) + " is " + Twine(std::to_string(theta)) +
                "; expected a positive number");
  config["rope_theta"] = theta;
  ropeScaling();
  if (tensor("rope_freqs.weight"))
    config["rope_freqs"] = factors("rope_freqs.weight");
}

/// rope.scaling.* as Hugging Face's rope_scaling.
void ConfigBuilder::ropeScaling() {
  std::optional<StringRef> type = reader.string(key("rope.scaling.type"));
  std::optional<double> factor = reader.number(key("rope.scaling.factor"));
  std::optional<double> oldLinear = reader.number(key("rope.scale_linear"));
  reader.take(key("rope.scaling.finetuned"), GgufKeyUse::Use::Inert, "says how the model was trained");
  if (factor && !(*factor > 0 && std::isfinite(*factor)))
    reader.fail("key " + quote(key("rope.scaling.factor")) + " is " + Twine(std::to_string(*factor)) +
                "; expected a positive number");
  if (oldLinear && (type || factor))
    reader.fail("has both " + quote(key("rope.scale_linear")) + " and " + quote(key("rope.scaling.type")) +
                " or factor; expected one of them");
  Json scaling = Json::object();
  if (oldLinear) {
    if (!(*oldLinear > 0))
      reader.fail("key " + quote(key("rope.scale_linear")) + " is " + Twine(std::to_string(*oldLinear)) +
                  "; expected a positive number");
    scaling["rope_type"] = "linear";
    scaling["factor"] = *oldLinear;
  } else if (!type) {
    if (factor)
      reader.fail("key " + quote(key("rope.scaling.factor")) + " needs " + quote(key("rope.scaling.type")) +
                  ", which is not there");
    return;
  } else if (*type == "none") {
    if (factor && *factor != 1)
      reader.fail("key " + quote(key("rope.scaling.factor")) + " is " + Twine(std::to_string(*factor)) +
                  " though the type of scaling is 'none'; expected 1");
    return;
  } else if (*type == "linear" || *type == "yarn") {
    if (!factor)
      reader.fail("has no key " + quote(key("rope.scaling.factor")) + ", which scaling of type " + quote(*type) +
                  " needs");
    scaling["rope_type"] = type->str();
    scaling["factor"] = factor.value_or(1);
    if (*type == "yarn")
      yarn(scaling);
  } else if (*type == "longrope") {
    scaling["rope_type"] = "longrope";
    if (factor)
      scaling["factor"] = *factor;
    longrope(scaling);
  } else {
    reader.fail("key " + quote(key("rope.scaling.type")) + " is " + quote(*type) +
                "; expected none, linear, yarn or longrope");
  }
  config["rope_scaling"] = std::move(scaling);
}

void ConfigBuilder::yarn(Json &scaling) {
  if (reader.file.find(key("rope.scaling.original_context_length")))
    scaling["original_max_position_embeddings"] = reader.count(key("rope.scaling.original_context_length"));
  if (std::optional<double> beta = reader.number(key("rope.scaling.yarn_beta_fast")))
    scaling["beta_fast"] = *beta;
  if (std::optional<double> beta = reader.number(key("rope.scaling.yarn_beta_slow")))
    scaling["beta_slow"] = *beta;
  reader.mustBe(key("rope.scaling.yarn_ext_factor"), 1);
  reader.mustBe(key("rope.scaling.yarn_attn_factor"), 1);
  reader.mustBe(key("rope.scaling.attn_factor"), 1);
}

void ConfigBuilder::longrope(Json &scaling) {
  scaling["original_max_position_embeddings"] = reader.count(key("rope.scaling.original_context_length"));
  if (std::optional<double> attention = reader.number(key("rope.scaling.attn_factor")))
    scaling["attention_factor"] = *attention;
  for (StringRef length : {"long", "short"}) {
    std::string name = ("rope_factors_" + length + ".weight").str();
    if (tensor(name))
      scaling[(length + "_factor").str()] = factors(name);
    else
      reader.fail("has no tensor " + quote(name) + ", which rope scaling of type 'longrope' needs");
  }
}

/// A tensor of headDim / 2 float32 numbers, one for each frequency.
Json ConfigBuilder::factors(StringRef tensorName) {
  const GgufTensor *stored = tensor(tensorName);
  Json result = Json::array();
  if (stored->dtype != ElementKind::F32 || stored->shape.size() != 1 || stored->shape[0] != headDim / 2) {
    reader.fail("tensor " + quote(tensorName) + " is " + elementKindName(stored->dtype) + " of shape " +
                shapeText(stored->shape) + "; expected F32 of shape " + shapeText({headDim / 2}));
    return result;
  }
  std::vector<float> values(stored->shape[0]);
  convertToF32(ElementKind::F32, stored->bytes, values);
  for (float value : values) {
    if (!(value > 0 && std::isfinite(value)))
      reader.fail("tensor " + quote(tensorName) + " holds " + Twine(std::to_string(value)) +
                  "; expected positive numbers");
    result.push_back(double(value));
  }
  return result;
}

/// Vocabulary and the ids that begin and end a text.
void ConfigBuilder::tokens() {
  const GgufTensor *embedding = tensor("token_embd.weight");
  const GgufValue *list = reader.file.find("tokenizer.ggml.tokens");
  std::optional<int64_t> size = reader.integer(key("vocab_size"));
  if (!size && embedding && embedding->shape.size() == 2)
    size = embedding->shape[0];
  else if (!size && list)
    size = int64_t(list->size());
  if (!size || *size < 1)
    reader.fail("has no vocabulary size: no key " + quote(key("vocab_size")) + ", no tensor 'token_embd.weight'");
  config["vocab_size"] = size.value_or(1);
  if (std::optional<int64_t> bos = reader.integer("tokenizer.ggml.bos_token_id", GgufKeyUse::Use::Tokenizer))
    config["bos_token_id"] = *bos;
  // The end of a text, of a turn, of a message: generation stops at any of
  // them, as llama.cpp's does.
  std::vector<int64_t> ends;
  for (StringRef end : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"})
    if (std::optional<int64_t> id = reader.integer(end, GgufKeyUse::Use::Tokenizer); id && !is_contained(ends, *id))
      ends.push_back(*id);
  if (ends.size() == 1)
    config["eos_token_id"] = ends[0];
  else if (!ends.empty())
    config["eos_token_id"] = ends;
}

/// Biases are not in the metadata; the tensors say it.
void ConfigBuilder::biases() {
  bool attention = tensor("blk.0.attn_q.bias") || tensor("blk.0.attn_output.bias");
  bool mlp = tensor("blk.0.ffn_gate.bias") || tensor("blk.0.ffn_down.bias");
  StringRef model = config["model_type"].get_ref<const std::string &>();
  if (model == "llama" || model == "qwen3")
    config["attention_bias"] = attention;
  if (model == "llama")
    config["mlp_bias"] = mlp;
  if (model == "ernie4_5")
    config["use_bias"] = attention || mlp;
}

/// Reads `tokenizer.*`. An array beside the tokens must be as long as they are.
static std::optional<GgufTokenizer> readTokenizer(MetadataReader &reader) {
  constexpr auto use = GgufKeyUse::Use::Tokenizer;
  const GgufValue *tokens = reader.take("tokenizer.ggml.tokens", use);
  GgufTokenizer result;
  result.model = reader.string("tokenizer.ggml.model", use).value_or("");
  result.pre = reader.string("tokenizer.ggml.pre", use).value_or("");
  auto array = [&](StringRef key, auto elements, const char *expected, bool perToken) {
    const GgufValue *value = reader.take(key, use);
    if (!value)
      return decltype((value->*elements)())();
    auto values = (value->*elements)();
    if (!values)
      reader.fail("key " + quote(key) + " is " + value->describe() + "; expected " + expected);
    else if (perToken && tokens && values->size() != tokens->size())
      reader.fail("key " + quote(key) + " has " + Twine(values->size()) + " elements; expected " +
                  Twine(tokens->size()) + ", one for each of 'tokenizer.ggml.tokens'");
    return values;
  };
  using Value = GgufValue;
  if (auto values = array("tokenizer.ggml.tokens", &Value::strings, "an array of strings", true))
    result.tokens = std::move(*values);
  if (auto values = array("tokenizer.ggml.scores", &Value::numbers, "an array of numbers", true))
    result.scores = std::move(*values);
  if (auto values = array("tokenizer.ggml.token_type", &Value::integers, "an array of integers", true))
    result.tokenTypes = std::move(*values);
  if (auto values = array("tokenizer.ggml.merges", &Value::strings, "an array of strings", false))
    result.merges = std::move(*values);
  std::pair<StringRef, std::optional<int64_t> *> ids[] = {
      {"bos", &result.bosId},         {"eos", &result.eosId},         {"eot", &result.eotId},
      {"eom", &result.eomId},         {"unknown", &result.unknownId}, {"seperator", &result.separatorId},
      {"padding", &result.paddingId}, {"cls", &result.clsId},         {"mask", &result.maskId}};
  for (auto [name, id] : ids) {
    std::string key = ("tokenizer.ggml." + name + "_token_id").str();
    *id = reader.integer(key, use);
    if (*id && tokens && (**id < 0 || uint64_t(**id) >= tokens->size()))
      reader.fail("key " + quote(key) + " is " + Twine(**id) + "; expected an id below the number of tokens, " +
                  Twine(tokens->size()));
  }
  result.addBos = reader.boolean("tokenizer.ggml.add_bos_token", use);
  result.addEos = reader.boolean("tokenizer.ggml.add_eos_token", use);
  result.addSeparator = reader.boolean("tokenizer.ggml.add_sep_token", use);
  result.addSpacePrefix = reader.boolean("tokenizer.ggml.add_space_prefix", use);
  result.removeExtraWhitespaces = reader.boolean("tokenizer.ggml.remove_extra_whitespaces", use);
  if (const GgufValue *map = reader.take("tokenizer.ggml.precompiled_charsmap", use)) {
    std::optional<StringRef> bytes = map->bytes();
    if (!bytes)
      reader.fail("key 'tokenizer.ggml.precompiled_charsmap' is " + map->describe() + "; expected an array of bytes");
    result.precompiledCharsmap = bytes.value_or("");
  }
  result.chatTemplate = reader.string("tokenizer.chat_template", use);
  reader.take("tokenizer.chat_templates", use);
  for (const auto &[key, value] : reader.file.metadata)
    if (StringRef name = key; name.consume_front("tokenizer.chat_template."))
      if (std::optional<StringRef> text = reader.string(key, use))
        result.namedChatTemplates.emplace_back(name, *text);
  return tokens ? std::optional<GgufTokenizer>(std::move(result)) : std::nullopt;
}

/// Keys that change nothing in the logits or the text, and why. A trailing '*'
/// stands for any rest.
static constexpr std::pair<StringLiteral, StringLiteral> inertKeys[] = {
    {"general.*", "describes the file"},
    {"quantize.*", "says how the file was quantized"},
    {"tokenizer.huggingface.json", "a second description of the tokenizer; the tokenizer.ggml keys are read"},
    {"tokenizer.ggml.token_type_count", "counts segment types, which decoders do not have"},
    {"tokenizer.ggml.prefix_token_id", "marks text to fill in, which only a prompt can ask for"},
    {"tokenizer.ggml.suffix_token_id", "marks text to fill in, which only a prompt can ask for"},
    {"tokenizer.ggml.middle_token_id", "marks text to fill in, which only a prompt can ask for"},
    {"tokenizer.ggml.fim_*", "marks text to fill in, which only a prompt can ask for"},
};

static bool matches(StringRef pattern, StringRef key) {
  if (key.starts_with("general.sampling."))
    return false; // readSampling takes what it knows
  return pattern.consume_back("*") ? key.starts_with(pattern) : key == pattern;
}

/// Every key that no reader has taken is inert, ignored on request, or an
/// error.
static void accountForRest(MetadataReader &reader, ArrayRef<std::string> ignoredKeys) {
  for (const auto &[key, value] : reader.file.metadata) {
    if (reader.used.contains(key))
      continue;
    StringRef name = key;
    const auto *inert = llvm::find_if(inertKeys, [&](const auto &entry) { return matches(entry.first, name); });
    if (inert != std::end(inertKeys))
      reader.take(key, GgufKeyUse::Use::Inert, inert->second);
    else if (is_contained(ignoredKeys, name))
      reader.take(key, GgufKeyUse::Use::Ignored, "--ignore-key");
    else
      reader.fail("the metadata key " + quote(key) + " (" + value.describe() +
                  ") is not known; --ignore-key=" + quote(key) + " takes the risk");
  }
}

/// general.sampling.*, the maker's recommended sampling, in generation_config.json's terms; null if there is none.
static Json readSampling(MetadataReader &reader) {
  Json result;
  std::pair<StringRef, StringRef> numbers[] = {
      {"temp", "temperature"}, {"top_p", "top_p"}, {"min_p", "min_p"}, {"penalty_repeat", "repetition_penalty"}};
  for (auto [from, to] : numbers)
    if (std::optional<double> value = reader.number(("general.sampling." + from).str()))
      result[to.str()] = *value;
  if (std::optional<int64_t> topK = reader.integer("general.sampling.top_k"))
    result["top_k"] = *topK;
  // What the sampler does not do must be switched off; then its parameters have no influence.
  std::tuple<StringRef, StringRef> off[] = {
      {"xtc_probability", "xtc_threshold"}, {"mirostat", "mirostat_tau"}, {"mirostat", "mirostat_eta"}};
  for (auto [feature, parameter] : off) {
    reader.mustBe(("general.sampling." + feature).str(), 0);
    reader.take(("general.sampling." + parameter).str(), GgufKeyUse::Use::Inert,
                ("belongs to " + feature + ", which is off").str());
  }
  if (result.is_null())
    return result;
  // The penalty looks at the whole text.
  if (result.value("repetition_penalty", 1.0) != 1)
    reader.mustBe("general.sampling.penalty_last_n", -1);
  else
    reader.take("general.sampling.penalty_last_n", GgufKeyUse::Use::Inert, "there is no repetition penalty");
  if (result.value("temperature", 1.0) == 0) {
    result.erase("temperature");
    result["do_sample"] = false;
  } else {
    result["do_sample"] = true;
  }
  return result;
}

static std::string readLicense(MetadataReader &reader) {
  constexpr auto use = GgufKeyUse::Use::Inert;
  std::string text;
  for (StringRef key : {"general.license", "general.license.name", "general.license.link"})
    if (std::optional<StringRef> part = reader.string(key, use, "shown as the model's licence"); part && !part->empty())
      text += (text.empty() ? "" : "\n") + part->str();
  return text;
}

Expected<GgufDescription> ingot::describeGguf(const GgufFile &file, GgufTensorLookup tensor,
                                              ArrayRef<std::string> ignoredKeys) {
  MetadataReader reader(file);
  std::optional<StringRef> name = reader.string("general.architecture");
  if (!name)
    reader.fail("has no key 'general.architecture'");
  GgufDescription result;
  result.architecture = name ? findGgufArchitecture(*name) : nullptr;
  if (name && !result.architecture) {
    std::string known;
    for (const GgufArchitecture &a : architectures)
      known += (known.empty() ? "" : ", ") + a.name.str();
    reader.fail("general.architecture is " + quote(*name) + ", which is not supported; expected one of " + known);
  }
  if (reader.failed())
    return reader.error();
  if (std::optional<StringRef> type = reader.string("general.type"); type && *type != "model")
    reader.fail("general.type is " + quote(*type) +
                "; expected 'model' (an adapter must be merged into its base model, " +
                "other parts of a model are not supported)");
  reader.take("general.alignment");
  for (StringRef key : {"split.no", "split.count", "split.tensors.count"})
    reader.take(key);
  result.name = reader.string("general.name", GgufKeyUse::Use::Inert, "shown as the model's name").value_or("").str();
  result.license = readLicense(reader);
  result.config = ConfigBuilder(reader, *result.architecture, tensor).build();
  result.generationConfig = readSampling(reader);
  result.tokenizer = readTokenizer(reader);
  accountForRest(reader, ignoredKeys);
  if (Error error = reader.error())
    return std::move(error);
  result.uses = std::move(reader.uses);
  return result;
}
