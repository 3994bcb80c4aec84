// The model's vocabulary and merges, as both kinds of model look into them.
#ifndef INGOT_RUNTIME_TOKENIZER_VOCABULARY_H
#define INGOT_RUNTIME_TOKENIZER_VOCABULARY_H

#include "tokenizer/tables.h"

#include <cstdint>
#include <string_view>

namespace ingot::rt {

class Vocabulary {
public:
  /// Without `matchSpecial` special tokens are not found (the unknown token,
  /// which is not looked for by its text, may still be).
  Vocabulary(const uint8_t *base, const ingot_rt_tok_header &header, bool matchSpecial)
      : header(header), matchSpecial(matchSpecial), bytes(base, header.bytes), tokens(base, header.tokens),
        vocab(base, header.vocab), merges(base, header.merges), joints(base, header.joints) {}

  const ingot_rt_tok_vocab_slot *findPiece(std::string_view piece) const {
    if (piece.size() > header.longest_piece)
      return nullptr;
    const uint64_t mask = vocab.count - 1;
    uint64_t at = ingot_rt_tok_hash_bytes(reinterpret_cast<const uint8_t *>(piece.data()), piece.size());
    for (uint64_t probes = 0; probes < vocab.count; ++probes, ++at) {
      const ingot_rt_tok_vocab_slot &slot = vocab.data[at & mask];
      if (slot.id == INGOT_RT_TOK_NONE)
        return nullptr;
      if (slot.length == piece.size() && poolBytes(bytes, slot.offset, slot.length) == piece)
        return isAllowed(slot.id) ? &slot : nullptr;
    }
    return nullptr;
  }

  const ingot_rt_tok_merge_slot *findMerge(uint32_t left, uint32_t right) const {
    const uint64_t mask = merges.count - 1;
    uint64_t at = ingot_rt_tok_hash_pair(left, right);
    for (uint64_t probes = 0; probes < merges.count; ++probes, ++at) {
      const ingot_rt_tok_merge_slot &slot = merges.data[at & mask];
      if (slot.left == left && slot.right == right)
        return isAllowed(slot.merged) ? &slot : nullptr;
      if (slot.left == INGOT_RT_TOK_NONE)
        return nullptr;
    }
    return nullptr;
  }

  /// Whether some piece may hold the two side by side.
  bool mayJoin(uint32_t left, uint32_t right) const {
    if (!joints.count)
      return true;
    const uint64_t bit = ingot_rt_tok_hash_pair(left, right) & (joints.count * 64 - 1);
    return (joints.data[bit / 64] >> (bit % 64)) & 1;
  }

  bool isAllowed(uint32_t id) const {
    if (matchSpecial)
      return true;
    const ingot_rt_tok_token *token = tokens.at(id);
    return !token || !(token->flags & INGOT_RT_TOK_SPECIAL);
  }

private:
  const ingot_rt_tok_header &header;
  bool matchSpecial;
  Table<char> bytes;
  Table<ingot_rt_tok_token> tokens;
  Table<ingot_rt_tok_vocab_slot> vocab;
  Table<ingot_rt_tok_merge_slot> merges;
  Table<uint64_t> joints;
};

} // namespace ingot::rt

#endif // INGOT_RUNTIME_TOKENIZER_VOCABULARY_H
