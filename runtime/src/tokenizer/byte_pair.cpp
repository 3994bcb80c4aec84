// Byte pair encoding, after BPE::merge_word and Word::merge_all of the
// `tokenizers` library.
//
// A text that no pre-tokenizer splits is one piece as long as it is. Where the
// compiler knows that no piece of the vocabulary holds two neighbouring symbols
// side by side (Vocabulary::mayJoin), no merge ever reaches across them: what
// lies before is encoded by itself, mostly a word, which is looked up whole.
#include "tokenizer/byte_pair.h"

#include "tokenizer/matcher.h"

#include <algorithm>
#include <cstring>

namespace ingot::rt {

static constexpr uint32_t none = INGOT_RT_TOK_NONE;

void BytePairEncoder::encode(std::string_view piece) {
  const ingot_rt_tok_vocab_slot *slot = vocabulary.findPiece(piece);
  if (slot && (slot->flags & INGOT_RT_TOK_WHOLE_PIECE)) {
    ids.push_back(static_cast<int32_t>(slot->id));
    return;
  }
  if (header.model != INGOT_RT_TOK_MODEL_BYTE_BPE)
    return encodeSymbols(piece);
  startBytes(piece);
  merge(piece);
}

/// A byte without a token becomes the unknown token, or nothing if there is
/// none; like BPE::merge_word, an unknown is held until the next known byte or
/// the next unknown that is not fused with it.
void BytePairEncoder::startBytes(std::string_view piece) {
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

uint32_t BytePairEncoder::symbolAt(std::string_view piece, size_t at, uint32_t &length, std::string_view &text) {
  const uint32_t codePoint = codePointAt(piece, at, length);
  const bool first = at == 0, last = at + length == piece.size();
  text = piece.substr(at, length);
  if ((first || continuingPrefix.empty()) && (!last || wordSuffix.empty())) {
    const uint32_t id = symbolOf[codePoint];
    return vocabulary.isAllowed(id) ? id : none;
  }
  affixed.clear();
  if (!first)
    affixed += continuingPrefix;
  affixed += text;
  if (last)
    affixed += wordSuffix;
  text = affixed;
  const ingot_rt_tok_vocab_slot *slot = vocabulary.findPiece(affixed);
  return slot ? slot->id : none;
}

/// Unknown symbols are held as in startBytes; as in the reference, byte tokens
/// do not put an end to that, so that they can overtake an unknown.
void BytePairEncoder::encodeSymbols(std::string_view piece) {
  bool heldUnknown = false;
  size_t heldAt = 0;
  symbols.clear();
  uint32_t length;
  for (size_t at = 0; at < piece.size(); at += length) {
    std::string_view text;
    const uint32_t id = symbolAt(piece, at, length, text);
    if (id != none) {
      if (heldUnknown)
        add(piece, header.unknown_id, heldAt, at, /*plain=*/false);
      heldUnknown = false;
      add(piece, id, at, at + length, /*plain=*/text.data() != affixed.data());
      continue;
    }
    auto byteId = [&](char byte) { return header.byte_ids[static_cast<uint8_t>(byte)]; };
    if ((header.model_flags & INGOT_RT_TOK_BYTE_FALLBACK) &&
        std::none_of(text.begin(), text.end(), [&](char byte) { return byteId(byte) == none; })) {
      for (char byte : text)
        add(piece, byteId(byte), at, at + length, /*plain=*/false);
      continue;
    }
    if (header.unknown_id == none)
      continue;
    if (heldUnknown && !(header.model_flags & INGOT_RT_TOK_FUSE_UNKNOWN))
      add(piece, header.unknown_id, heldAt, at, /*plain=*/false);
    heldUnknown = true;
    heldAt = at;
  }
  if (heldUnknown)
    add(piece, header.unknown_id, heldAt, piece.size(), /*plain=*/false);
  flush(piece);
}

void BytePairEncoder::add(std::string_view piece, uint32_t symbol, size_t from, size_t to, bool isPlain) {
  if (!symbols.empty() && !vocabulary.mayJoin(symbols.back(), symbol))
    flush(piece);
  if (symbols.empty()) {
    begin = from;
    plain = true;
  }
  symbols.push_back(symbol);
  end = to;
  plain &= isPlain;
}

void BytePairEncoder::flush(std::string_view piece) {
  if (symbols.size() < 2) {
    ids.insert(ids.end(), symbols.begin(), symbols.end());
    symbols.clear();
    return;
  }
  const std::string_view text = plain ? piece.substr(begin, end - begin) : std::string_view();
  const ingot_rt_tok_vocab_slot *slot = plain ? vocabulary.findPiece(text) : nullptr;
  if (slot && (slot->flags & INGOT_RT_TOK_MERGED))
    ids.push_back(static_cast<int32_t>(slot->id));
  else
    merge(text);
  symbols.clear();
}

void BytePairEncoder::merge(std::string_view text) {
  Memo *entry = nullptr;
  if (++merged > memoAfter && !text.empty() && text.size() <= sizeof(Memo::text)) {
    memo.resize(memoSize);
    entry = &memo[ingot_rt_tok_hash_bytes(reinterpret_cast<const uint8_t *>(text.data()), text.size()) % memoSize];
    if (entry->length == text.size() && std::memcmp(entry->text, text.data(), text.size()) == 0) {
      ids.insert(ids.end(), entry->ids, entry->ids + entry->count);
      return;
    }
  }
  const size_t before = ids.size();
  // Below some length, looking through all pairs beats keeping them in a queue.
  if (symbols.size() <= 48)
    mergeFew();
  else if (symbols.size() < UINT32_MAX)
    mergeMany(chain);
  else
    mergeMany(longChain);
  const size_t count = ids.size() - before;
  if (entry && count <= std::size(entry->ids)) {
    entry->length = static_cast<uint8_t>(text.size());
    entry->count = static_cast<uint8_t>(count);
    std::memcpy(entry->text, text.data(), text.size());
    std::copy_n(ids.begin() + static_cast<ptrdiff_t>(before), count, entry->ids);
  }
}

void BytePairEncoder::mergeFew() {
  size_t count = symbols.size();
  pairs.assign(count, nullptr);
  for (size_t i = 0; i + 1 < count; ++i)
    pairs[i] = vocabulary.findMerge(symbols[i], symbols[i + 1]);
  while (true) {
    size_t best = SIZE_MAX;
    uint32_t rank = INGOT_RT_TOK_NONE;
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
      pairs[best - 1] = vocabulary.findMerge(symbols[best - 1], symbols[best]);
    if (best + 1 < count)
      pairs[best] = vocabulary.findMerge(symbols[best], symbols[best + 1]);
  }
  ids.insert(ids.end(), symbols.begin(), symbols.begin() + count);
}

/// The same with a queue of merges, n log n in the piece's length at worst. An entry is out of date if the pair that
/// stands at its position now has another rank or none.
template <typename Position>
void BytePairEncoder::mergeMany(Chain<Position> &chain) {
  auto &links = chain.links;
  const auto count = static_cast<Position>(symbols.size());
  links.resize(count);
  auto offer = [&](Position at, Position right) {
    if (const auto *merge = vocabulary.findMerge(symbols[at], symbols[right]))
      chain.queue.push(merge->rank, at);
  };
  for (Position i = 0; i < count; ++i) {
    links[i] = {i - 1, i + 1};
    if (i + 1 < count)
      offer(i, i + 1);
  }
  uint32_t rank;
  Position at;
  while (chain.queue.pop(rank, at)) {
    const Position right = links[at].next;
    if (symbols[at] == none || right >= count)
      continue;
    const auto *merge = vocabulary.findMerge(symbols[at], symbols[right]);
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
  for (Position i = 0; i < count; i = links[i].next)
    ids.push_back(static_cast<int32_t>(symbols[i]));
}

} // namespace ingot::rt
