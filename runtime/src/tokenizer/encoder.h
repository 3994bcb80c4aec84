// One encoding of one text: the stages between Tokenizer::encode and the ids.
#ifndef INGOT_RUNTIME_TOKENIZER_ENCODER_H
#define INGOT_RUNTIME_TOKENIZER_ENCODER_H

#include "tokenizer/byte_pair.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/tables.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unigram.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::rt {

class Encoder {
public:
  /// Ids are appended to `ids`.
  Encoder(const uint8_t *base, const ingot_rt_tok_header &header, const EncodeOptions &options,
          std::vector<int32_t> &ids);

  /// Encodes `text`, which is valid UTF-8.
  void encode(std::string_view text);

private:
  struct Trie {
    const uint32_t *root;
    Table<ingot_rt_tok_trie_node> nodes;
    Table<ingot_rt_tok_trie_edge> edges;

    Trie(const uint8_t *base, const ingot_rt_tok_trie &trie)
        : root(trie.root), nodes(base, trie.nodes), edges(base, trie.edges) {}
    /// The longest added token that starts at `at` and that `allowed(index,
    /// end)` lets pass; null if there is none. Its length goes to `length`.
    template <typename Allowed>
    const uint32_t *match(std::string_view text, size_t at, size_t &length, Allowed allowed) const;
  };

  /// Text on its way to the model.
  struct Piece {
    std::string_view text;
    /// Where in the text to encode each byte comes from, or null: text[0] comes
    /// from `origin` and the rest follows.
    const uint64_t *origins = nullptr;
    uint64_t origin = 0;

    uint64_t originOf(size_t at) const { return origins ? origins[at] : origin + at; }
    Piece part(size_t start, size_t stop) const {
      return {text.substr(start, stop - start), origins ? origins + start : nullptr, origin + start};
    }
  };

  /// Emits the ids of the added tokens of `trie` in `piece` and gives what lies
  /// between them to `between`.
  template <typename Between>
  void splitAdded(const Trie &trie, const Piece &piece, Between between);
  /// Whether bytes [begin, end) of the text to encode may be a special token.
  bool isTrusted(uint64_t begin, uint64_t end) const;
  bool isTrusted(const Piece &piece, size_t begin, size_t end) const;
  void normalizeAndSplit(const Piece &piece);

  /// Gives `piece` to the pre-tokenizers from `step` on, then to the model.
  void preTokenize(const Piece &piece, uint64_t step);
  void split(const Piece &piece, const ingot_rt_tok_pre_tokenizer &how, uint64_t next);
  void prependSpace(const Piece &piece, uint64_t next);
  void metaspace(const Piece &piece, const ingot_rt_tok_pre_tokenizer &how, uint64_t next);
  void byteLevel(const Piece &piece, uint64_t next);

  const uint8_t *base;
  const ingot_rt_tok_header &header;
  EncodeOptions options;
  std::vector<int32_t> &ids;
  /// The end of the part that is normalized, in the text to encode.
  uint64_t partEnd = 0;

  Table<char> bytes;
  Table<ingot_rt_tok_added> added;
  Trie rawAdded, normalizedAdded;
  CodePointMap properties;
  Normalizer normalizer;
  Table<ingot_rt_tok_pre_tokenizer> preTokenizers;
  Table<ingot_rt_tok_automaton> automata;
  BytePairEncoder bytePair;
  UnigramEncoder unigram;
};

} // namespace ingot::rt

#endif // INGOT_RUNTIME_TOKENIZER_ENCODER_H
