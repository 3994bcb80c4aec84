// GGUF's tokenizer metadata -> TokenizerDescription. A file names its
// pre-tokenizer instead of describing it; what a name stands for is the table
// below: the tokenizer.json of the models that use it.
#include "compiler/Text/TokenizerGguf.h"
#include "compiler/Import/Gguf.h"
#include "compiler/Import/InputError.h"
#include "llvm/ADT/StringMap.h"
#include <functional>

using namespace llvm;
using namespace ingot;

namespace {

using Kind = PreTokenizerStep::Kind;

constexpr char llama3Pattern[] = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
                                 R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char qwen2Pattern[] = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
                                R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char qwen35Pattern[] = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
                                 R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char minicpm5Pattern[] = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+)"
                                   R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char seedCoderPattern[] = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1})"
                                    R"(| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char jais2Pattern[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)"
    R"(|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S))"
    R"(|\s{1,2}(?!\S)|\s{1})";
constexpr char hanPattern[] = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+";
constexpr char deepseekPattern[] =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char ideographPattern[] = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+";
/// Letters with case: Latin, Greek, Cyrillic, Armenian, Georgian and so on.
constexpr char deepseekLlmPattern[] =
    "\\s?["
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373"
    "\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f"
    "\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
    "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d"
    "\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb"
    "\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128"
    "\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4"
    "\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf"
    "\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
    "]+";
constexpr char bloomPattern[] = R"( ?[^(\s|.,!?…。，、।۔،)]+)";
constexpr char gpt4oPattern[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char tekkenPattern[] = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
                                 R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
                                 R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// What a value of tokenizer.ggml.pre stands for.
struct NamedPreTokenizer {
  std::vector<StringRef> names;
  std::vector<PreTokenizerStep> steps;
  bool nfc = false;
  bool ignoreMerges = false;
  bool addBos = false; ///< unless the file says otherwise
};

const std::vector<NamedPreTokenizer> &namedPreTokenizers() {
  static const std::vector<NamedPreTokenizer> table = {
      // Files from before the key was there: split as llama.cpp does.
      {{"", "default"},
       {{Kind::SplitPattern, R"([\p{P}\$\+<=>\^~\|]+)"},
        {Kind::SplitPattern, gpt2Pattern},
        {Kind::SplitPattern, R"(\p{N}+)"},
        {Kind::SplitPattern, "[0-9][0-9][0-9]"}}},
      {{"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "exaone4", "a.x-4.0", "mellum", "gigachat",
        "granite-docling"},
       {{Kind::SplitPattern, gpt2Pattern}}},
      {{"smollm", "starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2"},
       {{Kind::SplitNumeric}, {Kind::SplitPattern, gpt2Pattern}}},
      {{"command-r"}, {{Kind::SplitNumeric}, {Kind::SplitPattern, gpt2Pattern}}, /*nfc=*/true},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
       {{Kind::SplitPattern, llama3Pattern}},
       /*nfc=*/false,
       /*ignoreMerges=*/true,
       /*addBos=*/true},
      {{"dbrx", "smaug-bpe", "chatglm-bpe", "glm4"}, {{Kind::SplitPattern, llama3Pattern}}},
      {{"minicpm5"},
       {{Kind::SplitPattern, R"(\p{N}{1,3})"}, {Kind::SplitPattern, minicpm5Pattern}},
       /*nfc=*/false,
       /*ignoreMerges=*/true},
      {{"qwen2"}, {{Kind::SplitPattern, qwen2Pattern}}, /*nfc=*/true},
      {{"qwen35"}, {{Kind::SplitPattern, qwen35Pattern}}, /*nfc=*/true},
      {{"deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez", "grok-2", "solar-open"},
       {{Kind::SplitPattern, qwen2Pattern}}},
      {{"seed-coder"}, {{Kind::SplitPattern, seedCoderPattern}}},
      {{"jais-2"}, {{Kind::SplitPattern, jais2Pattern}}},
      {{"deepseek-llm"},
       {{Kind::SplitPattern, R"([\r\n])"},
        {Kind::SplitPattern, deepseekLlmPattern},
        {Kind::SplitPattern, "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"},
        {Kind::SplitPattern, R"(\s+$)"},
        {Kind::SplitPattern, ideographPattern},
        {Kind::SplitNumeric}}},
      {{"deepseek-coder"},
       {{Kind::SplitPattern, R"([\r\n])"},
        {Kind::SplitPattern, R"(\s?\p{L}+)"},
        {Kind::SplitPattern, R"(\s?\p{P}+)"},
        {Kind::SplitPattern, ideographPattern},
        {Kind::SplitNumeric}}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm"},
       {{Kind::SplitPattern, R"(\p{N}{1,3})"},
        {Kind::SplitPattern, hanPattern},
        {Kind::SplitPattern, deepseekPattern}}},
      {{"falcon"},
       {{Kind::SplitPattern, R"([\p{P}\$\+<=>\^~\|`]+)"},
        {Kind::SplitPattern, gpt2Pattern},
        {Kind::SplitPattern, "[0-9][0-9][0-9]"}}},
      {{"bloom", "poro-chat", "gpt3-finnish"}, {{Kind::SplitPattern, bloomPattern}}},
      {{"viking"}, {{Kind::SplitPattern, bloomPattern}, {Kind::SplitNumeric}}},
      {{"gpt-4o", "llama4", "kanana2", "minimax-m2"}, {{Kind::SplitPattern, gpt4oPattern}}},
      {{"tekken"},
       {{Kind::SplitPattern, tekkenPattern}},
       /*nfc=*/false,
       /*ignoreMerges=*/true,
       /*addBos=*/true},
  };
  return table;
}

/// Values of tokenizer.ggml.token_type.
enum TokenType { Normal = 1, Unknown, Control, UserDefined, Unused, Byte };

class Converter {
public:
  Converter(const GgufTokenizer &metadata, StringRef file) : metadata(metadata), file(file) {
    result.file = file.str();
  }

  Expected<TokenizerDescription> convert() {
    if (!metadata.precompiledCharsmap.empty())
      return fail("tokenizer.ggml.precompiled_charsmap is not supported yet");
    if (metadata.model == "llama")
      return convertSentencePiece();
    if (metadata.model != "gpt2")
      return fail("tokenizer.ggml.model " + quote(metadata.model) + " is not supported yet");
    const NamedPreTokenizer *pre = findPreTokenizer();
    if (!pre)
      return fail("tokenizer.ggml.pre: the pre-tokenizer " + quote(metadata.pre) + " is not known; expected one of " +
                  knownNames());
    result.ignoreMerges = pre->ignoreMerges;
    if (pre->nfc)
      result.normalizers.push_back({NormalizerStep::Kind::Nfc});
    if (metadata.addSpacePrefix.value_or(false))
      result.preTokenizers.push_back({Kind::PrefixSpace});
    result.preTokenizers.insert(result.preTokenizers.end(), pre->steps.begin(), pre->steps.end());
    result.preTokenizers.push_back({Kind::ByteLevel});
    result.decoders.push_back({DecoderStep::Kind::ByteLevel});
    if (Error error = readTokens())
      return error;
    if (Error error = readMerges())
      return error;
    if (Error error = around(metadata.addBos.value_or(pre->addBos), metadata.bosId, "bos", result.prefix))
      return error;
    if (Error error = around(metadata.addEos.value_or(false), metadata.eosId, "eos", result.suffix))
      return error;
    return std::move(result);
  }

private:
  /// The model "llama": SentencePiece's byte pair encoding. There is no list of
  /// merges: any neighbours may merge whose text is a token, the highest score
  /// first, then the leftmost.
  Expected<TokenizerDescription> convertSentencePiece() {
    if (!metadata.pre.empty() && metadata.pre != "default")
      return fail("tokenizer.ggml.pre: the pre-tokenizer " + quote(metadata.pre) +
                  " is not known for the model 'llama'; expected 'default'");
    if (metadata.removeExtraWhitespaces.value_or(false))
      return fail("tokenizer.ggml.remove_extra_whitespaces is not supported yet");
    if (metadata.scores.size() != metadata.tokens.size())
      return fail("tokenizer.ggml.scores: expected " + Twine(metadata.tokens.size()) + " scores, one a token, got " +
                  Twine(metadata.scores.size()));
    result.byteFallback = result.fuseUnknown = true;
    if (Error error = readTokens())
      return error;
    makeMerges();
    const int64_t unknown = metadata.unknownId.value_or(0);
    if (unknown < 0 || uint64_t(unknown) >= metadata.tokens.size())
      return fail("tokenizer.ggml.unknown_token_id: expected an id below " + Twine(metadata.tokens.size()) + ", got " +
                  Twine(unknown));
    result.unknownId = unknown;
    using Normalize = NormalizerStep::Kind;
    using Decode = DecoderStep::Kind;
    const bool prefix = metadata.addSpacePrefix.value_or(true);
    if (prefix)
      result.normalizers.push_back({Normalize::Prepend, "", metaspace});
    result.normalizers.push_back({Normalize::ReplaceLiteral, " ", metaspace});
    result.decoders = {{Decode::ReplaceLiteral, metaspace, " "}, {Decode::ByteFallback}, {Decode::Fuse}};
    if (prefix)
      result.decoders.push_back({Decode::Strip, " ", "", /*left=*/1});
    if (Error error = around(metadata.addBos.value_or(true), metadata.bosId.value_or(1), "bos", result.prefix))
      return error;
    if (Error error = around(metadata.addEos.value_or(false), metadata.eosId.value_or(2), "eos", result.suffix))
      return error;
    return std::move(result);
  }

  static constexpr char metaspace[] = "\u2581";

  void makeMerges() {
    std::vector<double> ranks(metadata.scores.begin(), metadata.scores.end());
    sort(ranks, std::greater<>());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    auto isText = [&](uint32_t id) {
      return metadata.tokenTypes.empty() ||
             is_contained({int64_t(Normal), int64_t(UserDefined)}, metadata.tokenTypes[id]);
    };
    for (auto [id, text] : enumerate(metadata.tokens)) {
      if (!isText(id) || idOf.lookup(text) != id)
        continue;
      const uint32_t rank =
          std::lower_bound(ranks.begin(), ranks.end(), metadata.scores[id], std::greater<>()) - ranks.begin();
      for (size_t cut = 1; cut < text.size(); ++cut) {
        if ((uint8_t(text[cut]) & 0xc0) == 0x80)
          continue;
        auto left = idOf.find(text.take_front(cut)), right = idOf.find(text.drop_front(cut));
        if (left != idOf.end() && right != idOf.end() && isText(left->second) && isText(right->second))
          result.merges.push_back({left->second, right->second, uint32_t(id), rank});
      }
    }
  }

  Error fail(const Twine &what) { return inputError(file, what); }

  const NamedPreTokenizer *findPreTokenizer() const {
    for (const NamedPreTokenizer &row : namedPreTokenizers())
      if (is_contained(row.names, metadata.pre))
        return &row;
    return nullptr;
  }

  static std::string knownNames() {
    std::string list;
    for (const NamedPreTokenizer &row : namedPreTokenizers())
      for (StringRef name : row.names)
        if (!name.empty())
          list += (list.empty() ? "" : ", ") + name.str();
    return list;
  }

  Error readTokens() {
    if (metadata.tokens.size() >= INT32_MAX)
      return fail("tokenizer.ggml.tokens: expected less than " + Twine(INT32_MAX) + " tokens, got " +
                  Twine(metadata.tokens.size()));
    if (!metadata.tokenTypes.empty() && metadata.tokenTypes.size() != metadata.tokens.size())
      return fail("tokenizer.ggml.token_type: expected " + Twine(metadata.tokens.size()) + " types, one a token, got " +
                  Twine(metadata.tokenTypes.size()));
    for (auto [id, text] : enumerate(metadata.tokens)) {
      int64_t type = metadata.tokenTypes.empty() ? Normal : metadata.tokenTypes[id];
      if (type == Byte && metadata.model == "gpt2")
        return fail("tokenizer.ggml.token_type: a byte token (" + quote(text) + ") in a byte-level model");
      auto [found, isNew] = idOf.try_emplace(text, id);
      if (!isNew && !text.empty() && type != Unused)
        return fail("tokenizer.ggml.tokens: ids " + Twine(found->second) + " and " + Twine(id) + " are both " +
                    quote(text));
      result.vocabulary.push_back({text.str(), uint32_t(id), /*score=*/0, isNew && type != Unused});
      // The end token is special whatever its type says.
      bool isEnd = metadata.eosId && *metadata.eosId == int64_t(id);
      bool special = type == Control || type == Unknown || isEnd;
      if ((special || type == UserDefined) && !text.empty()) {
        AddedToken token;
        token.content = text.str();
        token.id = id;
        token.special = special;
        token.normalized = false;
        result.added.push_back(std::move(token));
      }
    }
    return Error::success();
  }

  Error readMerges() {
    for (auto [index, merge] : enumerate(metadata.merges)) {
      // A piece may not contain a space, nor be empty: the first space after
      // the first character divides.
      size_t space = merge.find(' ', 1);
      if (space == StringRef::npos)
        return fail("tokenizer.ggml.merges: entry " + Twine(index) +
                    ": expected two pieces with a space between, got " + quote(merge));
      StringRef left = merge.take_front(space), right = merge.drop_front(space + 1);
      MergeRule rule;
      rule.rank = result.merges.size();
      std::string merged = (left + right).str();
      for (auto [text, id] :
           {std::pair<StringRef, uint32_t *>(left, &rule.left), {right, &rule.right}, {merged, &rule.merged}}) {
        auto found = idOf.find(text);
        if (found == idOf.end())
          return fail("tokenizer.ggml.merges: entry " + Twine(index) + ": " + quote(text) + " is not among the tokens");
        *id = found->second;
      }
      result.merges.push_back(rule);
    }
    return Error::success();
  }

  /// Adds a token at the start or the end of every text.
  Error around(bool wanted, std::optional<int64_t> id, StringRef name, std::vector<uint32_t> &ids) {
    if (!wanted)
      return Error::success();
    if (!id || *id < 0 || uint64_t(*id) >= metadata.tokens.size())
      return fail("tokenizer.ggml." + name + "_token_id: expected an id below " + Twine(metadata.tokens.size()) +
                  ", as add_" + name + "_token asks for it, got " + (id ? std::to_string(*id) : std::string("none")));
    ids.push_back(uint32_t(*id));
    return Error::success();
  }

  const GgufTokenizer &metadata;
  StringRef file;
  TokenizerDescription result;
  StringMap<uint32_t> idOf;
};

} // namespace

Expected<TokenizerDescription> ingot::convertGgufTokenizer(const GgufTokenizer &metadata, StringRef file) {
  return Converter(metadata, file).convert();
}
