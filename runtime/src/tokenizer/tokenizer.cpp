// Opening a tokenizer section, and decoding; encoding is in encoder.cpp.
#include "tokenizer/tokenizer.h"

#include "tokenizer/encoder.h"
#include "tokenizer/tables.h"

#include <algorithm>

namespace ingot::rt {

namespace {

/// Checks that the header's arrays lie in the section and have the lengths that
/// the code relies on. Looks at no table's content, except the small ones of
/// automata and steps.
class SectionChecker {
public:
  SectionChecker(const uint8_t *base, uint64_t size, std::string &error) : base(base), size(size), error(error) {}

  bool check() {
    if (size < sizeof(ingot_rt_tok_header))
      return fail("the section is too small for its header", sizeof(ingot_rt_tok_header), size);
    const auto &h = *reinterpret_cast<const ingot_rt_tok_header *>(base);
    if (h.magic != INGOT_RT_TOK_MAGIC)
      return fail("bad magic number", INGOT_RT_TOK_MAGIC, h.magic);
    if (h.version != INGOT_RT_TOK_VERSION)
      return fail("unknown version", INGOT_RT_TOK_VERSION, h.version);
    if (h.size != size)
      return fail("the section's size", h.size, size);
    if (h.model < INGOT_RT_TOK_MODEL_BYTE_BPE || h.model > INGOT_RT_TOK_MODEL_UNIGRAM)
      return fail("unknown model", INGOT_RT_TOK_MODEL_UNIGRAM, h.model);
    if (!array<uint8_t>(h.bytes, "bytes") || !array<ingot_rt_tok_token>(h.tokens, "tokens") ||
        !table<ingot_rt_tok_vocab_slot>(h.vocab, "vocab") || !table<ingot_rt_tok_merge_slot>(h.merges, "merges") ||
        !array<uint16_t>(h.symbols.page_of, "symbol pages") || !array<uint32_t>(h.symbols.pages, "symbols") ||
        !table<uint64_t>(h.joints, "joints") || !array<ingot_rt_tok_piece_node>(h.pieces, "pieces") ||
        !array<double>(h.scores, "scores") || !array<ingot_rt_tok_added>(h.added, "added") || !trie(h.raw_added) ||
        !trie(h.normalized_added) || !map(h.properties, "properties") || !array<uint32_t>(h.prefix, "prefix") ||
        !array<uint32_t>(h.suffix, "suffix"))
      return false;
    if (h.tokens.count > INT32_MAX)
      return fail("too many tokens", INT32_MAX, h.tokens.count);
    return automata(h) && normalizers(h) && preTokenizers(h) && decoders(h);
  }

private:
  bool fail(const std::string &what, uint64_t expected, uint64_t actual) {
    error = "tokenizer: " + what + ": expected " + std::to_string(expected) + ", got " + std::to_string(actual);
    return false;
  }

  template <typename T>
  bool array(const ingot_rt_tok_array &a, const char *name) {
    if (a.offset % 8 != 0 || a.offset > size || a.count > (size - a.offset) / sizeof(T)) {
      error = std::string("tokenizer: table '") + name + "' of " + std::to_string(a.count) + " elements at offset " +
              std::to_string(a.offset) + " does not lie in the section of " + std::to_string(size) + " bytes";
      return false;
    }
    return true;
  }

  /// A hash table: empty or a power of two of slots.
  template <typename T>
  bool table(const ingot_rt_tok_array &a, const char *name) {
    if (!array<T>(a, name))
      return false;
    if (a.count & (a.count - 1)) {
      error = std::string("tokenizer: slots of table '") + name + "': expected a power of two, got " +
              std::to_string(a.count);
      return false;
    }
    return true;
  }

  bool map(const ingot_rt_tok_code_point_map &m, const char *name) {
    return array<uint16_t>(m.page_of, name) && array<uint8_t>(m.pages, name);
  }

  bool trie(const ingot_rt_tok_trie &t) {
    return array<ingot_rt_tok_trie_node>(t.nodes, "trie nodes") && array<ingot_rt_tok_trie_edge>(t.edges, "trie edges");
  }

  bool normalizers(const ingot_rt_tok_header &h) {
    if (!array<ingot_rt_tok_normalizer>(h.normalizers, "normalizers") ||
        !array<ingot_rt_tok_normal_form>(h.normal_forms, "normal forms") || !array<ingot_rt_tok_mapped>(h.maps, "maps"))
      return false;
    Table<ingot_rt_tok_normal_form> forms(base, h.normal_forms);
    for (uint64_t i = 0; i < forms.count; ++i) {
      const ingot_rt_tok_normal_form &form = forms.data[i];
      if (!map(form.flags, "normal form flags") || !map(form.combining_class, "combining classes") ||
          !array<ingot_rt_tok_decomposition>(form.decompositions, "decompositions") ||
          !array<uint32_t>(form.decomposed, "decomposed") ||
          !array<ingot_rt_tok_composition>(form.compositions, "compositions"))
        return false;
    }
    Table<ingot_rt_tok_mapped> maps(base, h.maps);
    for (uint64_t i = 0; i < maps.count; ++i)
      if (!map(maps.data[i].flags, "map flags") || !array<ingot_rt_tok_mapping>(maps.data[i].mappings, "mappings"))
        return false;
    Table<ingot_rt_tok_normalizer> steps(base, h.normalizers);
    if (steps.count > 256)
      return fail("too many normalizers", 256, steps.count);
    for (uint64_t i = 0; i < steps.count; ++i)
      if (steps.data[i].kind < INGOT_RT_TOK_NORMALIZER_FORM || steps.data[i].kind > INGOT_RT_TOK_NORMALIZER_BYTE_LEVEL)
        return fail("unknown normalizer", INGOT_RT_TOK_NORMALIZER_BYTE_LEVEL, steps.data[i].kind);
    return true;
  }

  bool preTokenizers(const ingot_rt_tok_header &h) {
    if (!array<ingot_rt_tok_pre_tokenizer>(h.pre_tokenizers, "pre-tokenizers"))
      return false;
    Table<ingot_rt_tok_pre_tokenizer> steps(base, h.pre_tokenizers);
    // Splitting recurses once for each step.
    if (steps.count > 256)
      return fail("too many pre-tokenizers", 256, steps.count);
    for (uint64_t i = 0; i < steps.count; ++i) {
      const ingot_rt_tok_pre_tokenizer &step = steps.data[i];
      if (step.kind < INGOT_RT_TOK_PRE_SPLIT || step.kind > INGOT_RT_TOK_PRE_BYTE_LEVEL)
        return fail("unknown pre-tokenizer", INGOT_RT_TOK_PRE_BYTE_LEVEL, step.kind);
      if (step.behavior > INGOT_RT_TOK_CONTIGUOUS)
        return fail("unknown behavior of a split", INGOT_RT_TOK_CONTIGUOUS, step.behavior);
      if (step.kind == INGOT_RT_TOK_PRE_SPLIT && step.index >= h.automata.count)
        return fail("automaton's index is not below the number of automata", h.automata.count, step.index);
    }
    return true;
  }

  bool automata(const ingot_rt_tok_header &h) {
    if (!array<ingot_rt_tok_automaton>(h.automata, "automata"))
      return false;
    Table<ingot_rt_tok_automaton> automata(base, h.automata);
    for (uint64_t i = 0; i < automata.count; ++i) {
      const ingot_rt_tok_automaton &a = automata.data[i];
      if (!array<uint16_t>(a.transitions, "transitions") || !map(a.class_of, "classes"))
        return false;
      if (a.states > INGOT_RT_TOK_ACCEPT || a.classes == 0 || a.classes > 256 ||
          a.transitions.count != uint64_t(a.states) * a.classes)
        return fail("size of an automaton's transitions", uint64_t(a.states) * a.classes, a.transitions.count);
    }
    return true;
  }

  bool decoders(const ingot_rt_tok_header &h) {
    if (!array<ingot_rt_tok_decoder>(h.decoders, "decoders"))
      return false;
    if (h.decode_mode != INGOT_RT_TOK_DECODE_BYTES && h.decode_mode != INGOT_RT_TOK_DECODE_STEPS)
      return fail("unknown way to decode", INGOT_RT_TOK_DECODE_STEPS, h.decode_mode);
    Table<ingot_rt_tok_decoder> steps(base, h.decoders);
    // Decoding recurses once for each step.
    if (steps.count > 256)
      return fail("too many decoders", 256, steps.count);
    for (uint64_t i = 0; i < steps.count; ++i)
      if (steps.data[i].kind < INGOT_RT_TOK_DECODER_BYTE_LEVEL || steps.data[i].kind > INGOT_RT_TOK_DECODER_PREFIX)
        return fail("unknown decoder", INGOT_RT_TOK_DECODER_PREFIX, steps.data[i].kind);
    return true;
  }

  const uint8_t *base;
  uint64_t size;
  std::string &error;
};

} // namespace

std::optional<Tokenizer> Tokenizer::open(const void *section, uint64_t size, std::string &error) {
  const auto *base = static_cast<const uint8_t *>(section);
  if (reinterpret_cast<uintptr_t>(section) % 8 != 0) {
    error = "tokenizer: the section is not aligned to 8 bytes";
    return std::nullopt;
  }
  if (!SectionChecker(base, size, error).check())
    return std::nullopt;
  return Tokenizer(base, reinterpret_cast<const ingot_rt_tok_header *>(base));
}

static const ingot_rt_tok_token *findToken(const uint8_t *base, const ingot_rt_tok_header *header, int64_t id) {
  const auto *token = Table<ingot_rt_tok_token>(base, header->tokens).at(static_cast<uint64_t>(id));
  return token && (token->flags & INGOT_RT_TOK_PRESENT) ? token : nullptr;
}

bool Tokenizer::isSpecial(int64_t id) const {
  const ingot_rt_tok_token *token = findToken(base, header, id);
  return token && (token->flags & INGOT_RT_TOK_SPECIAL);
}

std::string_view Tokenizer::bytes(int64_t id) const {
  const ingot_rt_tok_token *token = findToken(base, header, id);
  if (!token)
    return {};
  return poolBytes(Table<char>(base, header->bytes), token->offset, token->length);
}

void Tokenizer::encode(std::string_view text, const EncodeOptions &options, std::vector<int32_t> &ids) const {
  Table<uint32_t> prefix(base, header->prefix), suffix(base, header->suffix);
  if (options.addSpecial)
    ids.insert(ids.end(), prefix.data, prefix.data + prefix.count);
  if (isValidUtf8(text)) {
    Encoder(base, *header, options, ids).encode(text);
  } else {
    // Spans are replaced one by one, so that it stays known where they are.
    std::string valid;
    std::vector<TextSpan> untrusted;
    uint64_t done = 0;
    for (TextSpan span : options.untrusted) {
      span.begin = std::clamp<uint64_t>(span.begin, done, text.size());
      span.end = std::clamp<uint64_t>(span.end, span.begin, text.size());
      appendLossyUtf8(valid, text.substr(done, span.begin - done));
      const uint64_t begin = valid.size();
      appendLossyUtf8(valid, text.substr(span.begin, span.end - span.begin));
      untrusted.push_back({begin, valid.size()});
      done = span.end;
    }
    appendLossyUtf8(valid, text.substr(done));
    EncodeOptions replaced = options;
    replaced.untrusted = untrusted;
    Encoder(base, *header, replaced, ids).encode(valid);
  }
  if (options.addSpecial)
    ids.insert(ids.end(), suffix.data, suffix.data + suffix.count);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skipSpecial) const {
  StreamDecoder decoder(*this, skipSpecial);
  std::string text;
  for (int32_t id : ids)
    text += decoder.push(id);
  return text + decoder.finish();
}

StreamDecoder::StreamDecoder(const Tokenizer &tokenizer, bool skipSpecial)
    : tokenizer(tokenizer), skipSpecial(skipSpecial) {
  if (tokenizer.header->decode_mode == INGOT_RT_TOK_DECODE_STEPS)
    chain.emplace(tokenizer.base, *tokenizer.header);
}

std::string StreamDecoder::push(int32_t id) {
  std::string text;
  const ingot_rt_tok_token *token = findToken(tokenizer.base, tokenizer.header, id);
  if (!token || (skipSpecial && (token->flags & INGOT_RT_TOK_SPECIAL)))
    return text;
  if (chain)
    chain->push(tokenizer.bytes(id), text);
  else
    stream.push(tokenizer.bytes(id), text);
  return text;
}

std::string StreamDecoder::finish() {
  std::string text;
  if (chain)
    chain->finish(text);
  else
    stream.finish(text);
  return text;
}

} // namespace ingot::rt
