// Viterbi over the pieces of the vocabulary, after Unigram::encode_optimized of
// the `tokenizers` library: the same sums in the same order, so that ties fall
// the same way.
//
// Where no piece holds two neighbouring code points side by side, every way
// through the text stops between them: what lies before is settled there and its
// score carried on, so that a text of any length needs little memory.
#include "tokenizer/unigram.h"

#include "tokenizer/matcher.h"

#include <algorithm>

namespace ingot::rt {

static constexpr uint32_t none = INGOT_RT_TOK_NONE;

void UnigramEncoder::encode(std::string_view text) {
  settled = unknownBegin = unknownEnd = 0;
  best.assign(1, {0, 0, none});
  uint32_t before = 0, length;
  for (size_t at = 0; at < text.size(); at += length) {
    const uint32_t codePoint = codePointAt(text, at, length);
    if (at > settled && !vocabulary.mayJoin(before, codePoint)) {
      const double score = settle(text, at);
      settled = at;
      best.assign(1, {score, at, none});
    }
    before = codePoint;
    extend(text, at, length);
  }
  settle(text, text.size());
  emitUnknown(text);
}

void UnigramEncoder::offer(size_t from, size_t to, double score, uint32_t id) {
  const size_t index = to - settled;
  if (index >= best.size())
    best.resize(index + 1, {0, unreached, none});
  if (best[index].from == unreached || score > best[index].score)
    best[index] = {score, from, id};
}

/// Offers every piece that starts at `at`, whose code point has `length` bytes.
void UnigramEncoder::extend(std::string_view text, size_t at, size_t length) {
  // Each position between two code points is reached: by a piece, or unknown.
  const double score = at - settled < best.size() ? best[at - settled].score : 0;
  bool hasSingle = false;
  const ingot_rt_tok_piece_node *node = pieces.at(0);
  uint32_t index = 0;
  for (size_t end = at; node && end < text.size();) {
    const uint64_t next = uint64_t(node->base) + static_cast<uint8_t>(text[end]);
    node = pieces.at(next);
    if (!node || node->parent != index)
      break;
    index = static_cast<uint32_t>(next);
    ++end;
    if (node->id == none || !vocabulary.isAllowed(node->id))
      continue;
    const double *value = scores.at(node->id);
    offer(at, end, (value ? *value : 0) + score, node->id);
    hasSingle |= end == at + length;
  }
  if (!hasSingle)
    offer(at, at + length, header.unknown_score + score, header.unknown_id);
}

double UnigramEncoder::settle(std::string_view text, size_t end) {
  path.clear();
  for (size_t at = end; at > settled;) {
    const size_t index = at - settled;
    // Damaged tables can end pieces inside code points.
    if (index >= best.size() || best[index].from >= at || best[index].from < settled)
      break;
    path.push_back(at);
    at = best[index].from;
  }
  std::reverse(path.begin(), path.end());
  for (size_t at : path) {
    const Best &piece = best[at - settled];
    if (piece.id == header.unknown_id) {
      if (unknownBegin == unknownEnd)
        unknownBegin = piece.from;
      unknownEnd = at;
      continue;
    }
    emitUnknown(text);
    ids.push_back(static_cast<int32_t>(piece.id));
  }
  const size_t index = end - settled;
  return index < best.size() ? best[index].score : 0;
}

/// Unknown neighbours count as one text, which may by chance be a piece again.
void UnigramEncoder::emitUnknown(std::string_view text) {
  if (unknownBegin == unknownEnd)
    return;
  const std::string_view unknown = text.substr(unknownBegin, unknownEnd - unknownBegin);
  unknownBegin = unknownEnd = 0;
  auto byteId = [&](char byte) { return header.byte_ids[static_cast<uint8_t>(byte)]; };
  if (const auto *slot = vocabulary.findPiece(unknown)) {
    ids.push_back(static_cast<int32_t>(slot->id));
  } else if ((header.model_flags & INGOT_RT_TOK_BYTE_FALLBACK) &&
             std::none_of(unknown.begin(), unknown.end(), [&](char byte) { return byteId(byte) == none; })) {
    for (char byte : unknown)
      ids.push_back(static_cast<int32_t>(byteId(byte)));
  } else {
    ids.push_back(static_cast<int32_t>(header.unknown_id));
  }
}

} // namespace ingot::rt
