// Unigram: the pieces with the greatest sum of scores.
#ifndef INGOT_RUNTIME_TOKENIZER_UNIGRAM_H
#define INGOT_RUNTIME_TOKENIZER_UNIGRAM_H

#include "tokenizer/vocabulary.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace ingot::rt {

class UnigramEncoder {
public:
  /// Ids are appended to `ids`.
  UnigramEncoder(const uint8_t *base, const ingot_rt_tok_header &header, bool matchSpecial, std::vector<int32_t> &ids)
      : header(header), vocabulary(base, header, matchSpecial), pieces(base, header.pieces),
        scores(base, header.scores), ids(ids) {}

  /// Encodes one piece of text: valid UTF-8, not empty.
  void encode(std::string_view text);

private:
  /// The best way to reach a position: from where, by which id.
  struct Best {
    double score;
    size_t from;
    uint32_t id;
  };
  static constexpr size_t unreached = SIZE_MAX;

  void offer(size_t from, size_t to, double score, uint32_t id);
  void extend(std::string_view text, size_t at, size_t length);
  /// Emits the best pieces up to `end`, which all ways go through; returns the
  /// score there.
  double settle(std::string_view text, size_t end);
  void emitUnknown(std::string_view text);

  const ingot_rt_tok_header &header;
  Vocabulary vocabulary;
  Table<ingot_rt_tok_piece_node> pieces;
  Table<double> scores;
  std::vector<int32_t> &ids;

  /// best[i] for the position settled + i.
  size_t settled = 0;
  std::vector<Best> best;
  std::vector<size_t> path;
  /// Bytes [unknownBegin, unknownEnd) are unknown and not emitted yet.
  size_t unknownBegin = 0, unknownEnd = 0;
};

} // namespace ingot::rt

#endif // INGOT_RUNTIME_TOKENIZER_UNIGRAM_H
