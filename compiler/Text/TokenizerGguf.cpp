// GGUF's tokenizer metadata -> TokenizerDescription. A file names its
// pre-tokenizer instead of describing it; what a name stands for is the table
// below: the tokenizer.json of the models that use it.
#include "compiler/Text/TokenizerGguf.h"
#include "compiler/Import/Gguf.h"
#include "compiler/Import/InputError.h"
#include "llvm/ADT/StringMap.h"

using namespace llvm;
using namespace ingot;

namespace {

using Kind = PreTokenizerStep::Kind;

constexpr char llama3Pattern[] = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
                                 R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char qwen2Pattern[] = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
                                R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
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
      {{"gpt-2"}, {{Kind::SplitPattern, gpt2Pattern}}},
      {{"smollm", "starcoder"}, {{Kind::SplitNumeric}, {Kind::SplitPattern, gpt2Pattern}}},
      {{"llama-bpe", "llama3", "llama-v3"},
       {{Kind::SplitPattern, llama3Pattern}},
       /*nfc=*/false,
       /*ignoreMerges=*/true,
       /*addBos=*/true},
      {{"qwen2"}, {{Kind::SplitPattern, qwen2Pattern}}, /*nfc=*/true},
      {{"deepseek-r1-qwen"}, {{Kind::SplitPattern, qwen2Pattern}}},
      {{"gpt-4o"}, {{Kind::SplitPattern, gpt4oPattern}}},
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
    if (metadata.model != "gpt2")
      return fail("tokenizer.ggml.model " + quote(metadata.model) + " is not supported yet");
    if (!metadata.precompiledCharsmap.empty())
      return fail("tokenizer.ggml.precompiled_charsmap is not supported yet");
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
      if (type == Byte)
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
