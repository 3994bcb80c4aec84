// Byte pair encoding of pieces, from bytes or from code points.
#ifndef INGOT_RUNTIME_TOKENIZER_BYTE_PAIR_H
#define INGOT_RUNTIME_TOKENIZER_BYTE_PAIR_H

#include "tokenizer/merge_queue.h"
#include "tokenizer/vocabulary.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::rt {

class BytePairEncoder {
public:
  /// Ids are appended to `ids`.
  BytePairEncoder(const uint8_t *base, const ingot_rt_tok_header &header, bool matchSpecial, std::vector<int32_t> &ids)
      : header(header), vocabulary(base, header, matchSpecial), symbolOf(base, header.symbols),
        continuingPrefix(poolBytes(Table<char>(base, header.bytes), header.continuing_prefix)),
        wordSuffix(poolBytes(Table<char>(base, header.bytes), header.word_suffix)), ids(ids) {}

  /// Encodes one piece: valid UTF-8, not empty.
  void encode(std::string_view piece);

private:
  void startBytes(std::string_view piece);
  void encodeSymbols(std::string_view piece);
  /// The id of the symbol [at, at + length) of `piece`, or NONE; `text` is what
  /// it is looked for by, if that is not just the code point.
  uint32_t symbolAt(std::string_view piece, size_t at, uint32_t &length, std::string_view &text);
  /// The next symbol of a piece: bytes [begin, end), `plain` if it stands for
  /// just these.
  void add(std::string_view piece, uint32_t symbol, size_t begin, size_t end, bool plain);
  /// Merges the symbols at hand, which nothing after them can join.
  void flush(std::string_view piece);
  /// Merges symbols whose bytes are `text`; the result is remembered by it, if
  /// it is not empty.
  void merge(std::string_view text);
  void mergeFew();
  template <typename Position>
  struct Chain;
  template <typename Position>
  void mergeMany(Chain<Position> &chain);

  const ingot_rt_tok_header &header;
  Vocabulary vocabulary;
  IdMap symbolOf;
  std::string_view continuingPrefix, wordSuffix;
  std::vector<int32_t> &ids;

  /// The symbols of the piece (or part of it) at hand, as ids, its extent, and
  /// whether they stand for just its bytes.
  std::vector<uint32_t> symbols;
  size_t begin = 0, end = 0;
  bool plain = true;
  /// A symbol's text with what belongs before and after it.
  std::string affixed;
  /// mergeFew: the merge of symbols i and i+1, or null.
  std::vector<const ingot_rt_tok_merge_slot *> pairs;
  /// mergeMany: the list of symbols that are left, and the merges to do. Nearly every piece has less than 2^32 symbols,
  /// and what is written for each of them is most of the time that it takes.
  template <typename Position>
  struct Chain {
    struct Link {
      Position previous, next;
    };
    std::vector<Link> links;
    MergeQueue<Position> queue;
  };
  Chain<uint32_t> chain;
  Chain<uint64_t> longChain;

  /// What short pieces became, by hash; made when there is much to encode.
  struct Memo {
    uint8_t length = 0, count = 0;
    char text[22];
    uint32_t ids[10];
  };
  static constexpr size_t memoSize = 8192, memoAfter = 1024;
  std::vector<Memo> memo;
  size_t merged = 0;
};

} // namespace ingot::rt

#endif // INGOT_RUNTIME_TOKENIZER_BYTE_PAIR_H
