// The stages of an encoding: added tokens, normalizers, pre-tokenizers, and
// byte pair encoding. Each follows the `tokenizers` library to the letter,
// which the comments name where it is not obvious.
#include "tokenizer/encoder.h"

#include "tokenizer/utf8.h"

#include <algorithm>

namespace ingot::rt {

static constexpr uint32_t none = INGOT_RT_TOK_NONE;

Encoder::Encoder(const uint8_t *base, const ingot_rt_tok_header &header, const EncodeOptions &options,
                 std::vector<int32_t> &ids)
    : base(base), header(header), options(options), ids(ids), bytes(base, header.bytes), vocab(base, header.vocab),
      merges(base, header.merges), added(base, header.added), rawAdded(base, header.raw_added),
      normalizedAdded(base, header.normalized_added), properties(base, header.properties),
      normalForm(base, header.normal_form), normalizers(base, header.normalizers),
      preTokenizers(base, header.pre_tokenizers), automata(base, header.automata) {}

void Encoder::encode(std::string_view text) {
  splitAdded(rawAdded, text, 0,
             [&](std::string_view part) { normalizeAndSplit(part, static_cast<uint64_t>(part.data() - text.data())); });
}

void Encoder::normalizeAndSplit(std::string_view text, uint64_t origin) {
  // Where text changed, its bytes are trusted only as a whole.
  std::optional<uint64_t> unchanged = origin;
  const uint64_t end = origin + text.size();
  std::string normalized;
  for (uint64_t i = 0; i < normalizers.count; ++i) {
    std::string next;
    if (normalForm.composeCanonically(text, next)) {
      normalized = std::move(next);
      text = normalized;
      unchanged.reset();
    }
  }
  const bool matchSpecial = options.matchSpecial;
  options.matchSpecial = matchSpecial && (unchanged || isTrusted(origin, end));
  splitAdded(normalizedAdded, text, unchanged, [&](std::string_view part) { preTokenize(part, 0); });
  options.matchSpecial = matchSpecial;
}

bool Encoder::isTrusted(uint64_t begin, uint64_t end) const {
  auto after = std::lower_bound(options.untrusted.begin(), options.untrusted.end(), begin,
                                [](const TextSpan &span, uint64_t at) { return span.end <= at; });
  return after == options.untrusted.end() || after->begin >= end;
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

/// The code point that ends before `at` > 0.
static uint32_t codePointBefore(std::string_view text, size_t at, size_t &start) {
  start = at - 1;
  while (start > 0 && at - start < 4 && (static_cast<uint8_t>(text[start]) & 0xc0) == 0x80)
    --start;
  return readUtf8(text.data() + start, text.data() + at).codePoint;
}

static uint32_t codePointAt(std::string_view text, size_t at, uint32_t &length) {
  Utf8Step step = readUtf8(text.data() + at, text.data() + text.size());
  length = step.length;
  return step.codePoint;
}

/// Follows AddedVocabulary::find_matches: a match that its flags refuse is
/// passed over as a whole, and stripped white space belongs to the token.
template <typename Between>
void Encoder::splitAdded(const Trie &trie, std::string_view text, std::optional<uint64_t> origin, Between between) {
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
      return options.matchSpecial && (!origin || isTrusted(*origin + at, *origin + end));
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
      between(text.substr(done, start - done));
    ids.push_back(static_cast<int32_t>(token->id));
    done = stop;
  }
  if (done != text.size())
    between(text.substr(done));
}

// ---------------------------------------------------------------------------
// Pre-tokenizers
// ---------------------------------------------------------------------------

namespace {

/// Finds the matches of a split pattern, see ingot_rt_tok_automaton.
class Matcher {
public:
  Matcher(const uint8_t *base, const ingot_rt_tok_automaton &automaton)
      : transitions(base, automaton.transitions), classOf(base, automaton.class_of), classes(automaton.classes) {}

  /// Finds the first match at or after `at`. False if there is none.
  bool find(std::string_view text, size_t at, size_t &start, size_t &stop) const {
    for (start = at;; start += lengthAt(text, start)) {
      if (matchAt(text, start, stop))
        return true;
      if (start == text.size())
        return false;
    }
  }

  static size_t lengthAt(std::string_view text, size_t at) {
    if (at >= text.size())
      return 1;
    uint32_t length;
    codePointAt(text, at, length);
    return length;
  }

private:
  bool matchAt(std::string_view text, size_t at, size_t &stop) const {
    bool found = false;
    uint32_t state = INGOT_RT_TOK_START;
    while (true) {
      uint32_t length = 0, group = classes - 1;
      if (at < text.size())
        group = classOf[codePointAt(text, at, length)];
      const uint16_t *next = transitions.at(state * uint64_t(classes) + group);
      if (!next)
        return found;
      if (*next & INGOT_RT_TOK_ACCEPT) {
        found = true;
        stop = at;
      }
      state = *next & ~INGOT_RT_TOK_ACCEPT;
      if (state == INGOT_RT_TOK_DEAD || at >= text.size())
        return found;
      at += length;
    }
  }

  Table<uint16_t> transitions;
  CodePointMap classOf;
  uint32_t classes;
};

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

void Encoder::preTokenize(std::string_view text, uint64_t step) {
  if (text.empty())
    return;
  const ingot_rt_tok_pre_tokenizer *how = preTokenizers.at(step);
  if (!how)
    return encodePiece(text);
  if (how->kind == INGOT_RT_TOK_PRE_SPLIT)
    return split(text, *how, step + 1);
  if (text.front() == ' ')
    return preTokenize(text, step + 1);
  preTokenize(" " + std::string(text), step + 1);
}

/// Matches are found as Oniguruma's find_iter does: an empty one directly after
/// the last match is passed over by one code point.
void Encoder::split(std::string_view text, const ingot_rt_tok_pre_tokenizer &how, uint64_t next) {
  const ingot_rt_tok_automaton *automaton = automata.at(how.index);
  if (!automaton)
    return;
  Matcher matcher(base, *automaton);
  SplitBehavior pieces(how.behavior, how.invert != 0,
                       [&](size_t start, size_t stop) { preTokenize(text.substr(start, stop - start), next); });
  size_t done = 0, lastStop = SIZE_MAX, at = 0, start, stop;
  while (at <= text.size() && matcher.find(text, at, start, stop)) {
    if (start == stop && lastStop == stop) {
      at = stop + Matcher::lengthAt(text, stop);
      continue;
    }
    if (done != start)
      pieces.add(done, start, false);
    pieces.add(start, stop, true);
    done = lastStop = at = stop;
  }
  if (done != text.size())
    pieces.add(done, text.size(), false);
  pieces.finish();
}

// ---------------------------------------------------------------------------
// Byte pair encoding
// ---------------------------------------------------------------------------

const ingot_rt_tok_vocab_slot *Encoder::findPiece(std::string_view piece) const {
  const uint64_t mask = vocab.count - 1;
  uint64_t at = ingot_rt_tok_hash_bytes(reinterpret_cast<const uint8_t *>(piece.data()), piece.size());
  for (uint64_t probes = 0; probes < vocab.count; ++probes, ++at) {
    const ingot_rt_tok_vocab_slot &slot = vocab.data[at & mask];
    if (slot.id == none)
      return nullptr;
    if (slot.length == piece.size() && poolBytes(bytes, slot.offset, slot.length) == piece)
      return &slot;
  }
  return nullptr;
}

const ingot_rt_tok_merge_slot *Encoder::findMerge(uint32_t left, uint32_t right) const {
  const uint64_t mask = merges.count - 1;
  uint64_t at = ingot_rt_tok_hash_pair(left, right);
  for (uint64_t probes = 0; probes < merges.count; ++probes, ++at) {
    const ingot_rt_tok_merge_slot &slot = merges.data[at & mask];
    if (slot.left == left && slot.right == right)
      return &slot;
    if (slot.left == none)
      return nullptr;
  }
  return nullptr;
}

void Encoder::encodePiece(std::string_view piece) {
  const ingot_rt_tok_vocab_slot *slot = findPiece(piece);
  if (slot && (slot->flags & INGOT_RT_TOK_WHOLE_PIECE)) {
    ids.push_back(static_cast<int32_t>(slot->id));
    return;
  }
  startSymbols(piece);
  // Below some length, looking through all pairs beats keeping them in a heap.
  if (symbols.size() <= 48)
    mergeFew();
  else
    mergeMany();
}

/// A byte without a token becomes the unknown token, or nothing if there is
/// none; like BPE::merge_word, an unknown is held until the next known byte or
/// the next unknown that is not fused with it.
void Encoder::startSymbols(std::string_view piece) {
  symbols.clear();
  bool heldUnknown = false;
  for (char byte : piece) {
    uint32_t id = header.byte_ids[static_cast<uint8_t>(byte)];
    if (id == none && header.unknown_id == none)
      continue;
    if (heldUnknown && (id != none || !(header.model_flags & INGOT_RT_TOK_FUSE_UNKNOWN)))
      symbols.push_back(header.unknown_id);
    heldUnknown = id == none;
    if (!heldUnknown)
      symbols.push_back(id);
  }
  if (heldUnknown)
    symbols.push_back(header.unknown_id);
}

void Encoder::mergeFew() {
  size_t count = symbols.size();
  pairs.assign(count, nullptr);
  for (size_t i = 0; i + 1 < count; ++i)
    pairs[i] = findMerge(symbols[i], symbols[i + 1]);
  while (true) {
    size_t best = SIZE_MAX;
    uint32_t rank = none;
    for (size_t i = 0; i + 1 < count; ++i)
      if (pairs[i] && pairs[i]->rank < rank) {
        best = i;
        rank = pairs[i]->rank;
      }
    if (best == SIZE_MAX)
      break;
    symbols[best] = pairs[best]->merged;
    std::copy(symbols.begin() + best + 2, symbols.begin() + count, symbols.begin() + best + 1);
    std::copy(pairs.begin() + best + 2, pairs.begin() + count, pairs.begin() + best + 1);
    --count;
    pairs[count - 1] = nullptr;
    if (best > 0)
      pairs[best - 1] = findMerge(symbols[best - 1], symbols[best]);
    if (best + 1 < count)
      pairs[best] = findMerge(symbols[best], symbols[best + 1]);
  }
  ids.insert(ids.end(), symbols.begin(), symbols.begin() + count);
}

/// The same with a queue of merges, n log n in the piece's length at worst. An entry is out of date if the pair that
/// stands at its position now has another rank or none.
void Encoder::mergeMany() {
  const size_t count = symbols.size();
  links.resize(count);
  auto offer = [&](size_t at, size_t right) {
    if (const auto *merge = findMerge(symbols[at], symbols[right]))
      queue.push(merge->rank, at);
  };
  for (size_t i = 0; i < count; ++i) {
    links[i] = {i - 1, i + 1};
    if (i + 1 < count)
      offer(i, i + 1);
  }
  uint32_t rank;
  size_t at;
  while (queue.pop(rank, at)) {
    size_t right = links[at].next;
    if (symbols[at] == none || right >= count)
      continue;
    const auto *merge = findMerge(symbols[at], symbols[right]);
    if (!merge || merge->rank != rank)
      continue;
    symbols[at] = merge->merged;
    symbols[right] = none; // removed
    links[at].next = links[right].next;
    if (links[at].next < count) {
      links[links[at].next].previous = at;
      offer(at, links[at].next);
    }
    if (links[at].previous < count)
      offer(links[at].previous, at);
  }
  for (size_t i = 0; i < count; i = links[i].next)
    ids.push_back(static_cast<int32_t>(symbols[i]));
}

} // namespace ingot::rt
