// One encoding of one text: the stages between Tokenizer::encode and the ids.
#ifndef INGOT_RUNTIME_TOKENIZER_ENCODER_H
#define INGOT_RUNTIME_TOKENIZER_ENCODER_H

#include "tokenizer/merge_queue.h"
#include "tokenizer/normal_form.h"
#include "tokenizer/tables.h"
#include "tokenizer/tokenizer.h"

#include <cstdint>
#include <optional>
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

  /// Emits the ids of the added tokens of `trie` in `text` and gives what lies
  /// between them to `between`.
  /// `origin` is where `text` stands in the text to encode, or nothing if its
  /// bytes are no longer those.
  template <typename Between>
  void splitAdded(const Trie &trie, std::string_view text, std::optional<uint64_t> origin, Between between);
  /// Whether bytes [begin, end) of the text to encode may be a special token.
  bool isTrusted(uint64_t begin, uint64_t end) const;
  void normalizeAndSplit(std::string_view text, uint64_t origin);

  /// Gives `text` to the pre-tokenizers from `step` on, then to the model.
  void preTokenize(std::string_view text, uint64_t step);
  void split(std::string_view text, const ingot_rt_tok_pre_tokenizer &how, uint64_t next);

  /// Byte pair encoding of one piece.
  void encodePiece(std::string_view piece);
  const ingot_rt_tok_vocab_slot *findPiece(std::string_view piece) const;
  const ingot_rt_tok_merge_slot *findMerge(uint32_t left, uint32_t right) const;
  void startSymbols(std::string_view piece);
  void mergeFew();
  void mergeMany();

  const uint8_t *base;
  const ingot_rt_tok_header &header;
  EncodeOptions options;
  std::vector<int32_t> &ids;

  Table<char> bytes;
  Table<ingot_rt_tok_vocab_slot> vocab;
  Table<ingot_rt_tok_merge_slot> merges;
  Table<ingot_rt_tok_added> added;
  Trie rawAdded, normalizedAdded;
  CodePointMap properties;
  NormalForm normalForm;
  Table<ingot_rt_tok_normalizer> normalizers;
  Table<ingot_rt_tok_pre_tokenizer> preTokenizers;
  Table<ingot_rt_tok_automaton> automata;

  /// The symbols of the piece at hand, as ids.
  std::vector<uint32_t> symbols;
  /// mergeFew: the merge of symbols i and i+1, or null.
  std::vector<const ingot_rt_tok_merge_slot *> pairs;
  /// mergeMany: the list of symbols that are left, and the merges to do.
  struct Link {
    size_t previous, next;
  };
  std::vector<Link> links;
  MergeQueue queue;
};

} // namespace ingot::rt

#endif // INGOT_RUNTIME_TOKENIZER_ENCODER_H
