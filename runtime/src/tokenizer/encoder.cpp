// The stages of an encoding: added tokens, normalizers, pre-tokenizers; the
// models are in byte_pair.cpp and unigram.cpp. Each follows the `tokenizers`
// library to the letter, which the comments name where it is not obvious.
#include "tokenizer/encoder.h"

#include "tokenizer/matcher.h"
#include "tokenizer/utf8.h"

#include <algorithm>

namespace ingot::rt {

static constexpr uint32_t none = INGOT_RT_TOK_NONE;

/// Where some text may not become a special token, the model may not make one
/// of any text: what is special in a template is an added token.
static bool modelMatchesSpecial(const EncodeOptions &options) {
  return options.matchSpecial && options.untrusted.empty();
}

Encoder::Encoder(const uint8_t *base, const ingot_rt_tok_header &header, const EncodeOptions &options,
                 std::vector<int32_t> &ids)
    : base(base), header(header), options(options), ids(ids), bytes(base, header.bytes), added(base, header.added),
      rawAdded(base, header.raw_added), normalizedAdded(base, header.normalized_added),
      properties(base, header.properties), normalizer(base, header), preTokenizers(base, header.pre_tokenizers),
      automata(base, header.automata), bytePair(base, header, modelMatchesSpecial(options), ids),
      unigram(base, header, modelMatchesSpecial(options), ids) {}

void Encoder::encode(std::string_view text) {
  splitAdded(rawAdded, {text}, [&](const Piece &part) { normalizeAndSplit(part); });
}

void Encoder::normalizeAndSplit(const Piece &piece) {
  std::string result;
  std::vector<uint64_t> origins;
  const bool track = !normalizer.empty() && ((header.flags & INGOT_RT_TOK_TRACK_ORIGIN) || !options.untrusted.empty());
  if (track) {
    uint32_t length;
    for (size_t at = 0; at < piece.text.size(); at += length) {
      codePointAt(piece.text, at, length);
      origins.resize(at + length, piece.origin + at);
    }
  }
  Piece normalized = piece;
  normalized.text = normalizer.run(piece.text, result, track ? &origins : nullptr);
  normalized.origins = track ? origins.data() : nullptr;
  partEnd = piece.origin + piece.text.size();
  splitAdded(normalizedAdded, normalized, [&](const Piece &part) { preTokenize(part, 0); });
}

bool Encoder::isTrusted(uint64_t begin, uint64_t end) const {
  auto after = std::lower_bound(options.untrusted.begin(), options.untrusted.end(), begin,
                                [](const TextSpan &span, uint64_t at) { return span.end <= at; });
  return after == options.untrusted.end() || after->begin >= end;
}

/// Bytes [begin, end) of a piece come from the text between the origins of its
/// first byte and of the byte after it.
bool Encoder::isTrusted(const Piece &piece, size_t begin, size_t end) const {
  if (options.untrusted.empty())
    return true;
  if (!piece.origins)
    return isTrusted(piece.origin + begin, piece.origin + end);
  return isTrusted(piece.origins[begin], end < piece.text.size() ? piece.origins[end] : partEnd);
}

// ---------------------------------------------------------------------------
// Added tokens
// ---------------------------------------------------------------------------

template <typename Allowed>
const uint32_t *Encoder::Trie::match(std::string_view text, size_t at, size_t &length, Allowed allowed) const {
  const uint32_t *found = nullptr;
  uint32_t index = root[static_cast<uint8_t>(text[at])];
  for (size_t end = at + 1; const auto *node = nodes.at(index); ++end) {
    if (node->added != none && allowed(node->added, end)) {
      found = &node->added;
      length = end - at;
    }
    if (end == text.size())
      break;
    const uint8_t byte = static_cast<uint8_t>(text[end]);
    index = none;
    for (uint64_t e = node->first_edge, last = uint64_t(node->first_edge) + node->edge_count; e < last; ++e) {
      const ingot_rt_tok_trie_edge *edge = edges.at(e);
      if (!edge || edge->byte > byte)
        break;
      if (edge->byte == byte)
        index = edge->node;
    }
  }
  return found;
}

/// Follows AddedVocabulary::find_matches: a match that its flags refuse is
/// passed over as a whole, and stripped white space belongs to the token.
template <typename Between>
void Encoder::splitAdded(const Trie &trie, const Piece &piece, Between between) {
  const std::string_view text = piece.text;
  if (text.empty())
    return;
  size_t done = 0;
  for (size_t at = 0; trie.nodes.count && at < text.size();) {
    size_t length = 0, ignored;
    uint32_t ignoredLength;
    const uint32_t *index = trie.match(text, at, length, [&](uint32_t index, size_t end) {
      const ingot_rt_tok_added *token = added.at(index);
      if (!token || !(token->flags & INGOT_RT_TOK_ADDED_SPECIAL))
        return true;
      return options.matchSpecial && isTrusted(piece, at, end);
    });
    if (!index) {
      ++at;
      continue;
    }
    size_t start = at, stop = at + length;
    at = stop;
    const ingot_rt_tok_added *token = added.at(*index);
    if (!token)
      continue;
    auto is = [&](uint32_t codePoint, uint8_t property) { return (properties[codePoint] & property) != 0; };
    if (token->flags & INGOT_RT_TOK_ADDED_SINGLE_WORD) {
      if (start > 0 && is(codePointBefore(text, start, ignored), INGOT_RT_TOK_WORD))
        continue;
      if (stop < text.size() && is(codePointAt(text, stop, ignoredLength), INGOT_RT_TOK_WORD))
        continue;
    }
    if (token->flags & INGOT_RT_TOK_ADDED_LSTRIP) {
      size_t stripped = start, before;
      while (stripped > 0 && is(codePointBefore(text, stripped, before), INGOT_RT_TOK_WHITE_SPACE))
        stripped = before;
      // White space that the token before took is not taken twice.
      start = std::max(stripped, done);
    }
    if (token->flags & INGOT_RT_TOK_ADDED_RSTRIP) {
      uint32_t space;
      while (stop < text.size() && is(codePointAt(text, stop, space), INGOT_RT_TOK_WHITE_SPACE))
        stop += space;
    }
    if (start >= stop)
      continue;
    if (done < start)
      between(piece.part(done, start));
    ids.push_back(static_cast<int32_t>(token->id));
    done = stop;
  }
  if (done != text.size())
    between(piece.part(done, text.size()));
}

// ---------------------------------------------------------------------------
// Pre-tokenizers
// ---------------------------------------------------------------------------

namespace {

/// Turns the alternation of matches and other text into pieces by a behaviour,
/// as NormalizedString::split does, one piece at a time.
template <typename Emit>
class SplitBehavior {
public:
  SplitBehavior(uint32_t behavior, bool invert, Emit emit) : behavior(behavior), invert(invert), emit(emit) {}

  /// The next stretch of text; `match` says whether the pattern matched it.
  void add(size_t start, size_t stop, bool match) {
    match ^= invert;
    bool join = false;
    switch (behavior) {
    case INGOT_RT_TOK_REMOVED:
      if (match)
        return;
      break;
    case INGOT_RT_TOK_MERGED_PREVIOUS:
      join = match && !lastMatch;
      break;
    case INGOT_RT_TOK_MERGED_NEXT:
      join = !match && lastMatch;
      break;
    case INGOT_RT_TOK_CONTIGUOUS:
      join = match == lastMatch;
      break;
    default:
      break;
    }
    lastMatch = match;
    if (pending && join) {
      pendingStop = stop;
      return;
    }
    finish();
    pending = true;
    pendingStart = start;
    pendingStop = stop;
  }

  void finish() {
    if (pending && pendingStart < pendingStop)
      emit(pendingStart, pendingStop);
    pending = false;
  }

private:
  uint32_t behavior;
  bool invert;
  Emit emit;
  bool pending = false, lastMatch = false;
  size_t pendingStart = 0, pendingStop = 0;
};

} // namespace

void Encoder::preTokenize(const Piece &piece, uint64_t step) {
  if (piece.text.empty())
    return;
  const ingot_rt_tok_pre_tokenizer *how = preTokenizers.at(step);
  if (!how)
    return header.model == INGOT_RT_TOK_MODEL_UNIGRAM ? unigram.encode(piece.text) : bytePair.encode(piece.text);
  switch (how->kind) {
  case INGOT_RT_TOK_PRE_SPLIT:
    return split(piece, *how, step + 1);
  case INGOT_RT_TOK_PRE_SPACE:
    return prependSpace(piece, step + 1);
  case INGOT_RT_TOK_PRE_METASPACE:
    return metaspace(piece, *how, step + 1);
  case INGOT_RT_TOK_PRE_BYTE_LEVEL:
    return byteLevel(piece, step + 1);
  default:
    return;
  }
}

void Encoder::split(const Piece &piece, const ingot_rt_tok_pre_tokenizer &how, uint64_t next) {
  const ingot_rt_tok_automaton *automaton = automata.at(how.index);
  if (!automaton)
    return;
  SplitBehavior pieces(how.behavior, how.invert != 0,
                       [&](size_t start, size_t stop) { preTokenize(piece.part(start, stop), next); });
  size_t done = 0;
  Matcher(base, *automaton).findAll(piece.text, [&](size_t start, size_t stop) {
    if (done != start)
      pieces.add(done, start, false);
    pieces.add(start, stop, true);
    done = stop;
  });
  if (done != piece.text.size())
    pieces.add(done, piece.text.size(), false);
  pieces.finish();
}

void Encoder::prependSpace(const Piece &piece, uint64_t next) {
  if (piece.text.front() == ' ')
    return preTokenize(piece, next);
  const std::string text = " " + std::string(piece.text);
  std::vector<uint64_t> origins;
  if (header.flags & INGOT_RT_TOK_TRACK_ORIGIN) {
    origins.push_back(piece.originOf(0));
    for (size_t at = 0; at < piece.text.size(); ++at)
      origins.push_back(piece.originOf(at));
  }
  preTokenize({text, origins.empty() ? nullptr : origins.data(), piece.origin}, next);
}

void Encoder::metaspace(const Piece &piece, const ingot_rt_tok_pre_tokenizer &how, uint64_t next) {
  const std::string_view character = poolBytes(bytes, how.text);
  std::string text;
  std::vector<uint64_t> origins;
  const bool track = (header.flags & INGOT_RT_TOK_TRACK_ORIGIN) != 0;
  auto put = [&](std::string_view bytes, size_t at) {
    text += bytes;
    if (track && !bytes.empty())
      origins.resize(text.size(), piece.originOf(at));
  };
  const bool starts = piece.text.front() == ' ' || piece.text.starts_with(character);
  if (!starts && (how.behavior == INGOT_RT_TOK_PREPEND_ALWAYS ||
                  (how.behavior == INGOT_RT_TOK_PREPEND_FIRST && piece.originOf(0) == 0)))
    put(character, 0);
  for (size_t at = 0; at < piece.text.size();) {
    if (piece.text[at] == ' ') {
      put(character, at++);
      continue;
    }
    const size_t stop = std::min(piece.text.find(' ', at), piece.text.size());
    for (; track && at < stop; ++at)
      put(piece.text.substr(at, 1), at);
    put(piece.text.substr(at, stop - at), at);
    at = stop;
  }
  const Piece whole = {text, track ? origins.data() : nullptr, piece.origin};
  size_t done = 0;
  // Each character starts a piece: matches are merged with what is next.
  for (size_t at = how.invert && !character.empty() ? text.find(character, 1) : text.npos; at != text.npos;
       at = text.find(character, at + character.size())) {
    preTokenize(whole.part(done, at), next);
    done = at;
  }
  preTokenize(whole.part(done, text.size()), next);
}

void Encoder::byteLevel(const Piece &piece, uint64_t next) {
  std::string text;
  std::vector<uint64_t> from;
  const bool track = (header.flags & INGOT_RT_TOK_TRACK_ORIGIN) != 0;
  appendByteLevel(piece.text, text, track ? &from : nullptr);
  for (uint64_t &at : from)
    at = piece.originOf(at);
  preTokenize({text, track ? from.data() : nullptr, piece.origin}, next);
}

} // namespace ingot::rt
