// tokenizer.json -> TokenizerDescription. Each stage has a table from the type
// names of the `tokenizers` library to the member function that reads it; a
// type without a row is an error that names it. Defaults are the library's.
#include "compiler/Text/TokenizerJson.h"
#include "compiler/Import/InputError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/ConvertUTF.h"
#include <charconv>
#include <cmath>

using namespace llvm;
using namespace ingot;

namespace {

/// Sequences inside sequences end somewhere.
constexpr unsigned maxNesting = 16;

class Reader {
public:
  explicit Reader(StringRef file) : file(file) { result.file = file.str(); }

  Expected<TokenizerDescription> read(const Json &tokenizer, const Json &config, StringRef configFile) {
    if (!tokenizer.is_object())
      return fail("expected an object, got " + Twine(tokenizer.type_name()));
    if (Error error = readModel(tokenizer))
      return error;
    if (Error error = step(tokenizer, "normalizer", normalizers()))
      return error;
    if (Error error = step(tokenizer, "pre_tokenizer", preTokenizers()))
      return error;
    if (Error error = step(tokenizer, "post_processor", postProcessors()))
      return error;
    if (Error error = step(tokenizer, "decoder", decoders()))
      return error;
    if (!member(tokenizer, "decoder"))
      result.decoders.push_back({DecoderStep::Kind::Join});
    if (Error error = readAddedTokens(tokenizer))
      return error;
    // truncation and padding are left alone: the reference sets both anew for
    // each text that it encodes.
    if (Error error = readConfig(config, configFile))
      return error;
    return std::move(result);
  }

private:
  using Handler = Error (Reader::*)(const Json &, const Twine &, unsigned);
  struct Row {
    StringRef type;
    Handler handler;
  };
  static ArrayRef<Row> normalizers(), preTokenizers(), postProcessors(), decoders();

  Error fail(const Twine &what) { return inputError(file, what); }

  // ------------------------------------------------------------- JSON values

  /// The member of an object; null if it is absent or null.
  static const Json *member(const Json &object, StringRef key) {
    for (const auto &[name, value] : object.items())
      if (name == key)
        return value.is_null() ? nullptr : &value;
    return nullptr;
  }

  Error wrongType(const Twine &where, StringRef expected, const Json *actual) {
    return fail(where + ": expected " + expected + ", got " + (actual ? actual->type_name() : "nothing"));
  }

  Error getBool(const Json &object, const Twine &where, StringRef key, bool &value) {
    const Json *found = member(object, key);
    if (!found)
      return Error::success();
    if (!found->is_boolean())
      return wrongType(where + "." + key, "a boolean", found);
    value = found->get<bool>();
    return Error::success();
  }

  Error getString(const Json &object, const Twine &where, StringRef key, std::string &value) {
    const Json *found = member(object, key);
    if (!found || !found->is_string())
      return wrongType(where + "." + key, "a string", found);
    value = found->get<std::string>();
    return Error::success();
  }

  Error getId(const Json &value, const Twine &where, uint32_t &id) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() >= INT32_MAX)
      return fail(where + ": expected an id from 0 to " + Twine(INT32_MAX - 1) + ", got " +
                  quote(value.dump(-1, ' ', true)));
    id = value.get<uint32_t>();
    return Error::success();
  }

  // ------------------------------------------------------------------ stages

  Error step(const Json &tokenizer, StringRef key, ArrayRef<Row> rows) {
    const Json *value = member(tokenizer, key);
    return value ? dispatch(*value, key, rows, 0) : Error::success();
  }

  Error dispatch(const Json &value, const Twine &where, ArrayRef<Row> rows, unsigned depth) {
    if (!value.is_object())
      return wrongType(where, "an object", &value);
    if (depth > maxNesting)
      return fail(where + ": nested more than " + Twine(maxNesting) + " deep");
    std::string type;
    if (Error error = getString(value, where, "type", type))
      return error;
    for (const Row &row : rows)
      if (row.type == type)
        return (this->*row.handler)(value, where, depth);
    return fail(where + ": the type " + quote(type) + " is not supported yet");
  }

  Error sequence(const Json &value, const Twine &where, StringRef key, ArrayRef<Row> rows, unsigned depth) {
    const Json *parts = member(value, key);
    if (!parts || !parts->is_array())
      return wrongType(where + "." + key, "an array", parts);
    for (auto [index, part] : enumerate(*parts)) {
      std::string place = (where + "." + key + "[" + Twine(index) + "]").str();
      if (Error error = dispatch(part, place, rows, depth + 1))
        return error;
    }
    return Error::success();
  }

  /// A step without parameters that changes nothing here.
  Error nothing(const Json &, const Twine &, unsigned) { return Error::success(); }

  // ------------------------------------------------------------------- model

  Error readModel(const Json &tokenizer) {
    const Json *model = member(tokenizer, "model");
    if (!model || !model->is_object())
      return wrongType("model", "an object", model);
    // Old files have no type: what has merges is BPE.
    const Json *type = member(*model, "type");
    std::string name = member(*model, "merges") || !member(*model, "unk_id") ? "BPE" : "Unigram";
    if (type && !type->is_string())
      return wrongType("model.type", "a string", type);
    if (type)
      name = type->get<std::string>();
    if (name == "Unigram")
      return readUnigram(*model);
    if (name != "BPE")
      return fail("model: the type " + quote(name) + " is not supported yet");
    return readBytePair(*model);
  }

  Error readBytePair(const Json &model) {
    for (auto [key, value] :
         {std::pair<StringRef, std::string *>("continuing_subword_prefix", &result.continuingPrefix),
          {"end_of_word_suffix", &result.wordSuffix}})
      if (member(model, key))
        if (Error error = getString(model, "model", key, *value))
          return error;
    if (const Json *dropout = member(model, "dropout"))
      if (!dropout->is_number() || dropout->get<double>() != 0)
        return fail("model.dropout is not supported: it makes tokens random");
    for (auto [key, value] : {std::pair<StringRef, bool *>("byte_fallback", &result.byteFallback),
                              {"fuse_unk", &result.fuseUnknown},
                              {"ignore_merges", &result.ignoreMerges}})
      if (Error error = getBool(model, "model", key, *value))
        return error;
    if (Error error = readVocabulary(model))
      return error;
    if (Error error = readMerges(model))
      return error;
    if (const Json *unknown = member(model, "unk_token")) {
      if (!unknown->is_string())
        return wrongType("model.unk_token", "a string", unknown);
      const auto &text = unknown->get_ref<const std::string &>();
      auto found = idOf.find(text);
      if (found == idOf.end())
        return fail("model.unk_token " + quote(text) + " is not in the vocabulary");
      result.unknownId = found->second;
    }
    return Error::success();
  }

  /// The reference reads numbers with serde_json, which multiplies or divides
  /// all digits by a power of ten and so may miss the nearest double. Sums of
  /// scores that are equal but for rounding tell which pieces win, so its value
  /// is what counts. Digits are those of the shortest form, as files have them.
  static double scoreOf(double nearest) {
    char text[40];
    auto end = std::to_chars(text, text + sizeof(text), nearest, std::chars_format::scientific).ptr;
    StringRef digits(text, end - text);
    bool negative = digits.consume_front("-");
    auto [mantissa, exponentText] = digits.split('e');
    auto [whole, fraction] = mantissa.split('.');
    uint64_t significand = 0;
    int exponent = 0;
    if ((whole + fraction).str().size() > 19 || (whole + fraction).str().empty() ||
        StringRef((whole + fraction).str()).getAsInteger(10, significand) ||
        exponentText.ltrim('+').getAsInteger(10, exponent))
      return nearest;
    exponent -= static_cast<int>(fraction.size());
    auto value = static_cast<double>(significand);
    // Powers of ten to 308 come from a table of nearest doubles.
    auto power = [](int n) { return std::strtod(("1e" + std::to_string(n)).c_str(), nullptr); };
    for (; exponent < -308; exponent += 308)
      value /= 1e308;
    value = exponent < 0 ? value / power(-exponent) : value * power(exponent);
    return negative ? -value : value;
  }

  /// The vocabulary is a list of texts and scores, by id.
  Error readUnigram(const Json &model) {
    result.model = TokenizerDescription::Model::Unigram;
    if (Error error = getBool(model, "model", "byte_fallback", result.byteFallback))
      return error;
    for (StringRef key : {"alpha", "nbest_size"})
      if (member(model, key))
        return fail("model." + key + " is not supported: it makes tokens random");
    const Json *vocab = member(model, "vocab");
    if (!vocab || !vocab->is_array())
      return wrongType("model.vocab", "an array", vocab);
    if (vocab->size() >= INT32_MAX)
      return fail("model.vocab: expected less than " + Twine(INT32_MAX) + " pieces, got " + Twine(vocab->size()));
    for (auto [id, entry] : enumerate(*vocab)) {
      if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
        return fail("model.vocab[" + Twine(id) + "]: expected a pair of text and score");
      double score = scoreOf(entry[1].get<double>());
      if (!std::isfinite(score))
        return fail("model.vocab[" + Twine(id) + "]: expected a finite score");
      const auto &text = entry[0].get_ref<const std::string &>();
      idOf[text] = id;
      result.vocabulary.push_back({text, uint32_t(id), score});
    }
    const Json *unknown = member(model, "unk_id");
    uint32_t unknownId;
    if (!unknown)
      return fail("model.unk_id: Unigram without an unknown token is not supported yet");
    if (Error error = getId(*unknown, "model.unk_id", unknownId))
      return error;
    if (unknownId >= vocab->size())
      return fail("model.unk_id: expected an id below " + Twine(vocab->size()) + ", got " + Twine(unknownId));
    result.unknownId = unknownId;
    return Error::success();
  }

  Error readVocabulary(const Json &model) {
    const Json *vocab = member(model, "vocab");
    if (!vocab || !vocab->is_object())
      return wrongType("model.vocab", "an object", vocab);
    for (const auto &[text, value] : vocab->items()) {
      uint32_t id;
      if (Error error = getId(value, "model.vocab: " + quote(text), id))
        return error;
      idOf[text] = id;
      result.vocabulary.push_back({text, id});
    }
    return Error::success();
  }

  /// Merges are pairs or, in older files, strings with one space.
  Error readMerges(const Json &model) {
    const Json *merges = member(model, "merges");
    if (!merges || !merges->is_array())
      return wrongType("model.merges", "an array", merges);
    for (auto [index, merge] : enumerate(*merges)) {
      StringRef left, right;
      if (merge.is_string()) {
        StringRef text = merge.get_ref<const std::string &>();
        if (text.starts_with("#version"))
          continue;
        std::tie(left, right) = text.split(' ');
        if (text.count(' ') != 1)
          return fail("model.merges[" + Twine(index) + "]: expected two pieces with a space between, got " +
                      quote(text));
      } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        left = merge[0].get_ref<const std::string &>();
        right = merge[1].get_ref<const std::string &>();
      } else {
        return fail("model.merges[" + Twine(index) + "]: expected a string or a pair of strings");
      }
      if (!right.starts_with(result.continuingPrefix))
        return fail("model.merges[" + Twine(index) + "]: expected " + quote(right) + " to start with " +
                    quote(result.continuingPrefix));
      MergeRule rule;
      rule.rank = result.merges.size();
      std::string merged = (left + right.drop_front(result.continuingPrefix.size())).str();
      for (auto [text, id] :
           {std::pair<StringRef, uint32_t *>(left, &rule.left), {right, &rule.right}, {merged, &rule.merged}}) {
        auto found = idOf.find(text);
        if (found == idOf.end())
          return fail("model.merges[" + Twine(index) + "]: " + quote(text) + " is not in the vocabulary");
        *id = found->second;
      }
      result.merges.push_back(rule);
    }
    return Error::success();
  }

  // ------------------------------------------------------------- normalizers

  using Normalize = NormalizerStep::Kind;

  template <Normalize K>
  Error normalizerPlain(const Json &, const Twine &, unsigned) {
    result.normalizers.push_back({K});
    return Error::success();
  }

  /// A pattern: {"String": text} or {"Regex": text}.
  Error getPattern(const Json &value, const Twine &where, std::string &text, bool &isLiteral) {
    const Json *pattern = member(value, "pattern");
    if (!pattern || !pattern->is_object() || pattern->size() != 1)
      return wrongType(where + ".pattern", "an object with Regex or String", pattern);
    isLiteral = member(*pattern, "String") != nullptr;
    return getString(*pattern, where + ".pattern", isLiteral ? "String" : "Regex", text);
  }

  Error normalizerReplace(const Json &value, const Twine &where, unsigned) {
    NormalizerStep step = {Normalize::ReplacePattern};
    bool isLiteral = false;
    if (Error error = getPattern(value, where, step.text, isLiteral))
      return error;
    if (isLiteral)
      step.kind = Normalize::ReplaceLiteral;
    if (Error error = getString(value, where, "content", step.content))
      return error;
    result.normalizers.push_back(std::move(step));
    return Error::success();
  }

  Error normalizerPrepend(const Json &value, const Twine &where, unsigned) {
    NormalizerStep step = {Normalize::Prepend};
    if (Error error = getString(value, where, "prepend", step.content))
      return error;
    result.normalizers.push_back(std::move(step));
    return Error::success();
  }

  Error normalizerStrip(const Json &value, const Twine &where, unsigned) {
    NormalizerStep step = {Normalize::Strip};
    if (Error error = getBool(value, where, "strip_left", step.left))
      return error;
    if (Error error = getBool(value, where, "strip_right", step.right))
      return error;
    result.normalizers.push_back(std::move(step));
    return Error::success();
  }

  Error normalizerBert(const Json &value, const Twine &where, unsigned) {
    bool clean = true, spaced = true, lowercase = true;
    for (auto [key, flag] : {std::pair<StringRef, bool *>("clean_text", &clean),
                             {"handle_chinese_chars", &spaced},
                             {"lowercase", &lowercase}})
      if (Error error = getBool(value, where, key, *flag))
        return error;
    bool unmark = lowercase;
    if (Error error = getBool(value, where, "strip_accents", unmark))
      return error;
    if (clean)
      result.normalizers.push_back({Normalize::BertClean});
    if (spaced)
      result.normalizers.push_back({Normalize::BertSpaced});
    if (unmark) {
      result.normalizers.push_back({Normalize::Nfd});
      result.normalizers.push_back({Normalize::BertUnmark});
    }
    if (lowercase)
      result.normalizers.push_back({Normalize::Lowercase});
    return Error::success();
  }

  Error normalizerSequence(const Json &value, const Twine &where, unsigned depth) {
    return sequence(value, where, "normalizers", normalizers(), depth);
  }

  // ---------------------------------------------------------- pre-tokenizers

  using Kind = PreTokenizerStep::Kind;
  using Behavior = PreTokenizerStep::Behavior;

  Error addStep(PreTokenizerStep step) {
    result.preTokenizers.push_back(std::move(step));
    return Error::success();
  }

  Error preTokenizerByteLevel(const Json &value, const Twine &where, unsigned) {
    bool prefixSpace = true, useRegex = true;
    if (Error error = getBool(value, where, "add_prefix_space", prefixSpace))
      return error;
    if (Error error = getBool(value, where, "use_regex", useRegex))
      return error;
    if (prefixSpace)
      result.preTokenizers.push_back({Kind::PrefixSpace});
    if (useRegex)
      result.preTokenizers.push_back({Kind::SplitPattern, gpt2Pattern});
    return addStep({Kind::ByteLevel});
  }

  Error preTokenizerMetaspace(const Json &value, const Twine &where, unsigned) {
    PreTokenizerStep step = {Kind::Metaspace};
    bool prefixSpace = true;
    if (Error error = readMetaspace(value, where, step.text, step.prepend, prefixSpace))
      return error;
    step.split = true;
    if (Error error = getBool(value, where, "split", step.split))
      return error;
    return addStep(std::move(step));
  }

  /// What the pre-tokenizer and the decoder have in common.
  Error readMetaspace(const Json &value, const Twine &where, std::string &character, PreTokenizerStep::Prepend &prepend,
                      bool &prefixSpace) {
    using Prepend = PreTokenizerStep::Prepend;
    if (Error error = getString(value, where, "replacement", character))
      return error;
    if (Error error = isOneCharacter(character, where + ".replacement"))
      return error;
    prepend = Prepend::Always;
    if (member(value, "prepend_scheme")) {
      std::string scheme;
      if (Error error = getString(value, where, "prepend_scheme", scheme))
        return error;
      static const StringMap<Prepend> schemes = {
          {"never", Prepend::Never}, {"first", Prepend::First}, {"always", Prepend::Always}};
      auto found = schemes.find(scheme);
      if (found == schemes.end())
        return fail(where + ".prepend_scheme: unknown value " + quote(scheme));
      prepend = found->second;
    }
    if (Error error = getBool(value, where, "add_prefix_space", prefixSpace))
      return error;
    if (!prefixSpace) {
      // Files from before there was a scheme have no more than this.
      if (member(value, "prepend_scheme") && prepend != Prepend::Never)
        return fail(where + ": add_prefix_space does not match prepend_scheme");
      prepend = Prepend::Never;
    }
    return Error::success();
  }

  Error isOneCharacter(StringRef text, const Twine &where) {
    if (text.empty() || text.size() != getNumBytesForUTF8(text.front()))
      return fail(where + ": expected one character, got " + quote(text));
    return Error::success();
  }

  Error preTokenizerWhitespace(const Json &, const Twine &, unsigned) {
    return addStep({Kind::SplitRustPattern, R"(\w+|[^\w\s]+)", Behavior::Removed, /*invert=*/true});
  }

  Error preTokenizerWhitespaceSplit(const Json &, const Twine &, unsigned) {
    return addStep({Kind::SplitSpace, "", Behavior::Removed});
  }

  Error preTokenizerBert(const Json &, const Twine &, unsigned) {
    result.preTokenizers.push_back({Kind::SplitSpace, "", Behavior::Removed});
    return addStep({Kind::SplitPunctuation});
  }

  Error preTokenizerPunctuation(const Json &value, const Twine &where, unsigned) {
    PreTokenizerStep step = {Kind::SplitPunctuation};
    if (member(value, "behavior"))
      if (Error error = getBehavior(value, where, step.behavior))
        return error;
    return addStep(std::move(step));
  }

  Error preTokenizerDelimiter(const Json &value, const Twine &where, unsigned) {
    PreTokenizerStep step = {Kind::SplitLiteral, "", Behavior::Removed};
    if (Error error = getString(value, where, "delimiter", step.text))
      return error;
    if (Error error = isOneCharacter(step.text, where + ".delimiter"))
      return error;
    return addStep(std::move(step));
  }

  Error preTokenizerDigits(const Json &value, const Twine &where, unsigned) {
    bool individual = false;
    if (Error error = getBool(value, where, "individual_digits", individual))
      return error;
    return addStep({Kind::SplitNumeric, "", individual ? Behavior::Isolated : Behavior::Contiguous});
  }

  Error preTokenizerSplit(const Json &value, const Twine &where, unsigned) {
    PreTokenizerStep step = {Kind::SplitPattern};
    bool isLiteral = false;
    if (Error error = getPattern(value, where, step.text, isLiteral))
      return error;
    if (isLiteral)
      step.kind = Kind::SplitLiteral;
    if (Error error = getBool(value, where, "invert", step.invert))
      return error;
    if (Error error = getBehavior(value, where, step.behavior))
      return error;
    return addStep(std::move(step));
  }

  Error getBehavior(const Json &value, const Twine &where, Behavior &result) {
    std::string behavior;
    if (Error error = getString(value, where, "behavior", behavior))
      return error;
    static const StringMap<Behavior> behaviors = {{"Removed", Behavior::Removed},
                                                  {"Isolated", Behavior::Isolated},
                                                  {"MergedWithPrevious", Behavior::MergedWithPrevious},
                                                  {"MergedWithNext", Behavior::MergedWithNext},
                                                  {"Contiguous", Behavior::Contiguous}};
    auto found = behaviors.find(behavior);
    if (found == behaviors.end())
      return fail(where + ".behavior: unknown value " + quote(behavior));
    result = found->second;
    return Error::success();
  }

  Error preTokenizerSequence(const Json &value, const Twine &where, unsigned depth) {
    return sequence(value, where, "pretokenizers", preTokenizers(), depth);
  }

  // --------------------------------------------------------- post-processors

  Error postTemplate(const Json &value, const Twine &where, unsigned) {
    const Json *pieces = member(value, "single");
    const Json *tokens = member(value, "special_tokens");
    if (!pieces || !pieces->is_array())
      return wrongType(where + ".single", "an array", pieces);
    std::vector<uint32_t> before, after;
    unsigned texts = 0;
    for (auto [index, piece] : enumerate(*pieces)) {
      std::string place = (where + ".single[" + Twine(index) + "]").str();
      if (!piece.is_object())
        return wrongType(place, "an object", &piece);
      std::string name;
      if (const Json *text = member(piece, "Sequence")) {
        if (!text->is_object())
          return wrongType(place + ".Sequence", "an object", text);
        if (Error error = getString(*text, place + ".Sequence", "id", name))
          return error;
        if (name != "A")
          return fail(place + ": expected the sequence 'A', got " + quote(name));
        ++texts;
        continue;
      }
      const Json *special = member(piece, "SpecialToken");
      if (!special || !special->is_object())
        return wrongType(place, "Sequence or SpecialToken", special);
      if (Error error = getString(*special, place + ".SpecialToken", "id", name))
        return error;
      if (Error error = templateIds(tokens, where, name, texts ? after : before))
        return error;
    }
    if (texts != 1)
      return fail(where + ".single: expected the text once, got it " + Twine(texts) + " times");
    wrap(before, after);
    return Error::success();
  }

  /// Appends the ids that a template's special_tokens has under `name`.
  Error templateIds(const Json *tokens, const Twine &where, StringRef name, std::vector<uint32_t> &ids) {
    std::string place = (where + ".special_tokens." + name).str();
    const Json *entry = tokens && tokens->is_object() ? member(*tokens, name) : nullptr;
    const Json *list = entry && entry->is_object() ? member(*entry, "ids") : nullptr;
    if (!list || !list->is_array())
      return wrongType(place + ".ids", "an array", list);
    for (const Json &value : *list)
      if (Error error = getId(value, place + ".ids", ids.emplace_back()))
        return error;
    return Error::success();
  }

  /// Puts ids around what earlier post-processors made.
  void wrap(ArrayRef<uint32_t> before, ArrayRef<uint32_t> after) {
    result.prefix.insert(result.prefix.begin(), before.begin(), before.end());
    result.suffix.insert(result.suffix.end(), after.begin(), after.end());
  }

  /// BertProcessing and RobertaProcessing: "cls" before and "sep" after, each a
  /// pair of text and id.
  Error postClsSep(const Json &value, const Twine &where, unsigned) {
    uint32_t cls, sep;
    for (auto [key, id] : {std::pair<StringRef, uint32_t *>("cls", &cls), {"sep", &sep}}) {
      const Json *pair = member(value, key);
      if (!pair || !pair->is_array() || pair->size() != 2)
        return wrongType(where + "." + key, "a pair of text and id", pair);
      if (Error error = getId((*pair)[1], where + "." + key, *id))
        return error;
    }
    wrap(cls, sep);
    return Error::success();
  }

  Error postSequence(const Json &value, const Twine &where, unsigned depth) {
    return sequence(value, where, "processors", postProcessors(), depth);
  }

  // ---------------------------------------------------------------- decoders

  using Decode = DecoderStep::Kind;

  template <Decode K>
  Error decoderPlain(const Json &, const Twine &, unsigned) {
    result.decoders.push_back({K});
    return Error::success();
  }

  Error decoderReplace(const Json &value, const Twine &where, unsigned) {
    DecoderStep step = {Decode::ReplacePattern};
    bool isLiteral = false;
    if (Error error = getPattern(value, where, step.text, isLiteral))
      return error;
    if (isLiteral)
      step.kind = Decode::ReplaceLiteral;
    if (step.text.empty())
      return fail(where + ".pattern: replacing what may be empty is not supported yet");
    if (Error error = getString(value, where, "content", step.content))
      return error;
    result.decoders.push_back(std::move(step));
    return Error::success();
  }

  Error decoderStrip(const Json &value, const Twine &where, unsigned) {
    DecoderStep step = {Decode::Strip};
    if (Error error = getString(value, where, "content", step.text))
      return error;
    if (Error error = isOneCharacter(step.text, where + ".content"))
      return error;
    for (auto [key, count] : {std::pair<StringRef, uint32_t *>("start", &step.left), {"stop", &step.right}}) {
      const Json *found = member(value, key);
      if (!found || !found->is_number_unsigned() || found->get<uint64_t>() > UINT32_MAX)
        return wrongType(where + "." + key, "a small number", found);
      *count = found->get<uint32_t>();
    }
    result.decoders.push_back(std::move(step));
    return Error::success();
  }

  Error decoderMetaspace(const Json &value, const Twine &where, unsigned) {
    DecoderStep step = {Decode::Metaspace};
    PreTokenizerStep::Prepend prepend;
    bool prefixSpace = true;
    if (Error error = readMetaspace(value, where, step.text, prepend, prefixSpace))
      return error;
    step.left = prepend != PreTokenizerStep::Prepend::Never;
    result.decoders.push_back(std::move(step));
    return Error::success();
  }

  Error decoderSuffix(const Json &value, const Twine &where, unsigned) {
    DecoderStep step = {Decode::Suffix};
    if (Error error = getString(value, where, "suffix", step.text))
      return error;
    if (step.text.empty())
      return fail(where + ".suffix: an empty one is not supported");
    result.decoders.push_back(std::move(step));
    return Error::success();
  }

  Error decoderPrefix(const Json &value, const Twine &where, unsigned) {
    DecoderStep step = {Decode::Prefix};
    bool cleanup = true;
    if (Error error = getString(value, where, "prefix", step.text))
      return error;
    if (Error error = getBool(value, where, "cleanup", cleanup))
      return error;
    result.decoders.push_back(std::move(step));
    if (cleanup)
      addCleanup(/*contracts=*/true);
    return Error::success();
  }

  /// Takes out spaces that English does not have; the library's list also has
  /// "do not", transformers' does not.
  void addCleanup(bool contracts) {
    for (auto [from, to] : {std::pair(" .", "."),
                            {" ?", "?"},
                            {" !", "!"},
                            {" ,", ","},
                            {" ' ", "'"},
                            {" n't", "n't"},
                            {" 'm", "'m"},
                            {" do not", " don't"},
                            {" 's", "'s"},
                            {" 've", "'ve"},
                            {" 're", "'re"}})
      if (contracts || StringRef(from) != " do not")
        result.decoders.push_back({Decode::ReplaceLiteral, from, to});
  }

  Error decoderSequence(const Json &value, const Twine &where, unsigned depth) {
    return sequence(value, where, "decoders", decoders(), depth);
  }

  // ------------------------------------------------------------ added tokens

  Error readFlags(const Json &object, const Twine &where, AddedToken &token) {
    for (auto [key, flag] : {std::pair<StringRef, bool *>("special", &token.special),
                             {"single_word", &token.singleWord},
                             {"lstrip", &token.lstrip},
                             {"rstrip", &token.rstrip},
                             {"normalized", &token.normalized}})
      if (Error error = getBool(object, where, key, *flag))
        return error;
    return Error::success();
  }

  Error readAddedTokens(const Json &tokenizer) {
    const Json *list = member(tokenizer, "added_tokens");
    if (!list)
      return Error::success();
    if (!list->is_array())
      return wrongType("added_tokens", "an array", list);
    uint32_t next = nextAddedId();
    for (auto [index, value] : enumerate(*list)) {
      std::string place = ("added_tokens[" + Twine(index) + "]").str();
      if (!value.is_object())
        return wrongType(place, "an object", &value);
      AddedToken token;
      if (Error error = getString(value, place, "content", token.content))
        return error;
      if (Error error = readFlags(value, place, token))
        return error;
      addToken(std::move(token), next);
    }
    return Error::success();
  }

  /// The first id for an added token that is not in the vocabulary: the
  /// library looks at the number of pieces, and at the added tokens there are.
  uint32_t nextAddedId() const {
    uint32_t next = result.vocabulary.size();
    for (const AddedToken &token : result.added)
      next = std::max(next, token.id + 1);
    return next;
  }

  /// The id that stands in the file does not count: a text of the vocabulary
  /// keeps its id, others are numbered on, as the library does.
  void addToken(AddedToken token, uint32_t &next) {
    if (token.content.empty())
      return;
    auto known = find_if(result.added, [&](const AddedToken &other) { return other.content == token.content; });
    if (known != result.added.end()) {
      token.id = known->id;
      *known = std::move(token);
      return;
    }
    auto found = idOf.find(token.content);
    token.id = found != idOf.end() ? found->second : next++;
    result.added.push_back(std::move(token));
  }

  /// Tokens that tokenizer_config.json names become special if tokenizer.json
  /// does not have them among its added tokens.
  Error readConfig(const Json &config, StringRef configFile) {
    if (config.is_null())
      return Error::success();
    if (!config.is_object())
      return inputError(configFile, "expected an object, got " + Twine(config.type_name()));
    std::vector<const Json *> named;
    for (StringRef key : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"})
      if (const Json *value = member(config, key))
        named.push_back(value);
    if (const Json *list = member(config, "additional_special_tokens"))
      if (list->is_array())
        for (const Json &value : *list)
          named.push_back(&value);
    if (Error error = addNamed(named, configFile))
      return error;
    return readSettings(config, configFile);
  }

  /// What transformers does beyond the library: where the config says whether to
  /// add a start or an end token, these replace the post-processor; for models
  /// that are not BPE spaces are cleaned up.
  Error readSettings(const Json &config, StringRef configFile) {
    file = configFile;
    bool addBos = false, addEos = false, cleanup = false;
    for (auto [key, flag] : {std::pair<StringRef, bool *>("add_bos_token", &addBos),
                             {"add_eos_token", &addEos},
                             {"clean_up_tokenization_spaces", &cleanup}})
      if (Error error = getBool(config, "tokenizer_config", key, *flag))
        return error;
    if (config.contains("add_bos_token") || config.contains("add_eos_token")) {
      result.prefix.clear();
      result.suffix.clear();
      for (auto [wanted, key, ids] :
           {std::tuple<bool, StringRef, std::vector<uint32_t> *>(addBos, "bos_token", &result.prefix),
            {addEos, "eos_token", &result.suffix}})
        if (const Json *token = wanted ? member(config, key) : nullptr) {
          const Json *content = token->is_object() ? member(*token, "content") : token;
          auto found = find_if(result.added, [&](const AddedToken &added) {
            return content && content->is_string() && added.content == content->get_ref<const std::string &>();
          });
          if (found == result.added.end())
            return fail(key + ": the token is not in the tokenizer");
          ids->push_back(found->id);
        }
    }
    if (cleanup && result.model == TokenizerDescription::Model::Unigram) {
      result.decoders.push_back({Decode::Fuse});
      addCleanup(/*contracts=*/false);
    }
    return Error::success();
  }

  Error addNamed(ArrayRef<const Json *> named, StringRef configFile) {
    uint32_t next = nextAddedId();
    for (const Json *value : named) {
      AddedToken token;
      token.normalized = false;
      if (value->is_string()) {
        token.content = value->get<std::string>();
      } else if (value->is_object()) {
        file = configFile;
        if (Error error = getString(*value, "a special token", "content", token.content))
          return error;
        if (Error error = readFlags(*value, "a special token", token))
          return error;
      } else {
        return inputError(configFile, "a special token: expected a string or "
                                      "an object, got " +
                                          Twine(value->type_name()));
      }
      token.special = true;
      if (none_of(result.added, [&](const AddedToken &other) { return other.content == token.content; }))
        addToken(std::move(token), next);
    }
    return Error::success();
  }

  StringRef file;
  TokenizerDescription result;
  StringMap<uint32_t> idOf;
};

ArrayRef<Reader::Row> Reader::normalizers() {
  static const Row rows[] = {
      {"NFC", &Reader::normalizerPlain<Normalize::Nfc>},
      {"NFD", &Reader::normalizerPlain<Normalize::Nfd>},
      {"NFKC", &Reader::normalizerPlain<Normalize::Nfkc>},
      {"NFKD", &Reader::normalizerPlain<Normalize::Nfkd>},
      {"Lowercase", &Reader::normalizerPlain<Normalize::Lowercase>},
      {"StripAccents", &Reader::normalizerPlain<Normalize::RemoveMarks>},
      {"Nmt", &Reader::normalizerPlain<Normalize::Nmt>},
      {"ByteLevel", &Reader::normalizerPlain<Normalize::ByteLevel>},
      {"Replace", &Reader::normalizerReplace},
      {"Prepend", &Reader::normalizerPrepend},
      {"Strip", &Reader::normalizerStrip},
      {"BertNormalizer", &Reader::normalizerBert},
      {"Sequence", &Reader::normalizerSequence},
  };
  return rows;
}
ArrayRef<Reader::Row> Reader::preTokenizers() {
  static const Row rows[] = {
      {"ByteLevel", &Reader::preTokenizerByteLevel},
      {"Digits", &Reader::preTokenizerDigits},
      {"Split", &Reader::preTokenizerSplit},
      {"Metaspace", &Reader::preTokenizerMetaspace},
      {"Whitespace", &Reader::preTokenizerWhitespace},
      {"WhitespaceSplit", &Reader::preTokenizerWhitespaceSplit},
      {"Punctuation", &Reader::preTokenizerPunctuation},
      {"BertPreTokenizer", &Reader::preTokenizerBert},
      {"CharDelimiterSplit", &Reader::preTokenizerDelimiter},
      {"Sequence", &Reader::preTokenizerSequence},
  };
  return rows;
}
ArrayRef<Reader::Row> Reader::postProcessors() {
  static const Row rows[] = {
      {"ByteLevel", &Reader::nothing}, // changes offsets, not ids
      {"TemplateProcessing", &Reader::postTemplate},
      {"BertProcessing", &Reader::postClsSep},
      {"RobertaProcessing", &Reader::postClsSep},
      {"Sequence", &Reader::postSequence},
  };
  return rows;
}
ArrayRef<Reader::Row> Reader::decoders() {
  static const Row rows[] = {
      {"ByteLevel", &Reader::decoderPlain<Decode::ByteLevel>},
      {"ByteFallback", &Reader::decoderPlain<Decode::ByteFallback>},
      {"Fuse", &Reader::decoderPlain<Decode::Fuse>},
      {"Replace", &Reader::decoderReplace},
      {"Strip", &Reader::decoderStrip},
      {"Metaspace", &Reader::decoderMetaspace},
      {"BPEDecoder", &Reader::decoderSuffix},
      {"WordPiece", &Reader::decoderPrefix},
      {"Sequence", &Reader::decoderSequence},
  };
  return rows;
}

} // namespace

Expected<TokenizerDescription> ingot::convertTokenizerJson(const Json &tokenizer, StringRef file, const Json &config,
                                                           StringRef configFile) {
  return Reader(file).read(tokenizer, config, configFile);
}

Expected<TokenizerDescription> ingot::readTokenizerJson(StringRef path, StringRef configPath) {
  Expected<Json> tokenizer = readJsonFile(path);
  if (!tokenizer)
    return tokenizer.takeError();
  Json config;
  if (!configPath.empty()) {
    Expected<Json> parsed = readJsonFile(configPath);
    if (!parsed)
      return parsed.takeError();
    config = std::move(*parsed);
  }
  return convertTokenizerJson(*tokenizer, path, config, configPath);
}
