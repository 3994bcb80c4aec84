// Lays out the tables of ingot_rt/image_tokenizer.h: the vocabulary and the
// merges as open-addressing hash tables at most half full, added tokens as
// tries, split patterns as automata, Unicode properties as paged maps.
#include "compiler/Text/TokenizerImage.h"
#include "compiler/Import/InputError.h"
#include "compiler/Text/SplitPattern.h"
#include "compiler/Text/UnicodeData.h"
#include "ingot_rt/image_tokenizer.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"
#include <cstring>
#include <map>

using namespace llvm;
using namespace ingot;

namespace {

/// The section as it grows. Tables are aligned to 8.
class Section {
public:
  std::vector<char> bytes = std::vector<char>(sizeof(ingot_rt_tok_header));

  template <typename T>
  ingot_rt_tok_array add(const std::vector<T> &elements) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes.resize(alignTo(bytes.size(), 8));
    ingot_rt_tok_array array = {bytes.size(), elements.size()};
    const auto *data = reinterpret_cast<const char *>(elements.data());
    bytes.insert(bytes.end(), data, data + elements.size() * sizeof(T));
    return array;
  }

  /// A byte for every code point; equal pages are stored once.
  ingot_rt_tok_code_point_map addMap(const std::vector<uint8_t> &values) {
    std::map<std::vector<uint8_t>, uint16_t> numbers;
    std::vector<uint16_t> pageOf;
    std::vector<uint8_t> pages;
    for (uint32_t page = 0; page < INGOT_RT_TOK_PAGES; ++page) {
      std::vector<uint8_t> part(values.begin() + page * 256, values.begin() + (page + 1) * 256);
      auto [found, isNew] = numbers.try_emplace(part, numbers.size());
      if (isNew)
        pages.insert(pages.end(), part.begin(), part.end());
      pageOf.push_back(found->second);
    }
    return {add(pageOf), add(pages)};
  }
};

/// Byte pair encoding while compiling, to see which pieces the merges lead to.
class MergeTable {
public:
  /// A later rule for the same pair replaces an earlier one.
  explicit MergeTable(ArrayRef<MergeRule> rules) {
    for (auto [rank, rule] : enumerate(rules))
      table[key(rule.left, rule.right)] = {uint32_t(rank), rule.merged};
  }

  struct Merge {
    uint32_t rank, merged;
  };
  const Merge *find(uint32_t left, uint32_t right) const {
    auto found = table.find(key(left, right));
    return found == table.end() ? nullptr : &found->second;
  }

  /// Applies all merges to `symbols`. Stops early, with more than one symbol
  /// left, where the result does not matter: in pieces that are very long.
  void apply(SmallVectorImpl<uint32_t> &symbols) const {
    if (symbols.size() > 1024)
      return;
    while (true) {
      const Merge *best = nullptr;
      size_t at = 0;
      for (size_t i = 0; i + 1 < symbols.size(); ++i)
        if (const Merge *merge = find(symbols[i], symbols[i + 1]))
          if (!best || merge->rank < best->rank) {
            best = merge;
            at = i;
          }
      if (!best)
        return;
      symbols[at] = best->merged;
      symbols.erase(symbols.begin() + at + 1);
    }
  }

  /// Rules by pair, in a fixed order.
  std::vector<ingot_rt_tok_merge_slot> rules() const {
    std::vector<ingot_rt_tok_merge_slot> result;
    for (const auto &[pair, merge] : table)
      result.push_back({uint32_t(pair >> 32), uint32_t(pair), merge.rank, merge.merged});
    using Slot = ingot_rt_tok_merge_slot;
    sort(result, [](const Slot &a, const Slot &b) { return a.rank < b.rank; });
    return result;
  }

private:
  static uint64_t key(uint32_t left, uint32_t right) { return uint64_t(left) << 32 | right; }
  DenseMap<uint64_t, Merge> table;
};

class ImageBuilder {
public:
  ImageBuilder(const TokenizerDescription &tokenizer, std::optional<int64_t> rows)
      : tokenizer(tokenizer), rows(rows), merges(tokenizer.merges) {}

  Expected<std::vector<char>> build() {
    header.magic = INGOT_RT_TOK_MAGIC;
    header.version = INGOT_RT_TOK_VERSION;
    header.model = INGOT_RT_TOK_MODEL_BYTE_BPE;
    header.model_flags = tokenizer.fuseUnknown ? INGOT_RT_TOK_FUSE_UNKNOWN : 0;
    header.unknown_id = tokenizer.unknownId.value_or(INGOT_RT_TOK_NONE);
    if (Error error = checkRows())
      return error;
    if (Error error = addTokens())
      return error;
    addMerges();
    if (Error error = addAddedTokens())
      return error;
    addNormalizers();
    if (Error error = addPreTokenizers())
      return error;
    header.prefix = section.add(tokenizer.prefix);
    header.suffix = section.add(tokenizer.suffix);
    section.bytes.resize(alignTo(section.bytes.size(), 8));
    header.size = section.bytes.size();
    std::memcpy(section.bytes.data(), &header, sizeof(header));
    return std::move(section.bytes);
  }

private:
  Error fail(const Twine &what) { return inputError(tokenizer.file, what); }

  Error checkRows() {
    auto check = [&](uint64_t id, StringRef text) -> Error {
      if (id >= INT32_MAX)
        return fail("token " + quote(text) + " has the id " + Twine(id) + "; expected less than " + Twine(INT32_MAX));
      if (rows && id >= uint64_t(*rows))
        return fail("token " + quote(text) + " has the id " + Twine(id) + ", but the model's embedding has " +
                    Twine(*rows) + " rows");
      return Error::success();
    };
    for (const VocabularyEntry &entry : tokenizer.vocabulary)
      if (Error error = check(entry.id, entry.text))
        return error;
    for (const AddedToken &token : tokenizer.added)
      if (Error error = check(token.id, token.content))
        return error;
    for (const std::vector<uint32_t> *ids : {&tokenizer.prefix, &tokenizer.suffix})
      for (uint32_t id : *ids)
        if (Error error = check(id, "of the post-processor"))
          return error;
    return Error::success();
  }

  /// An added token's text as the normalizers leave it.
  std::string normalized(StringRef text) const {
    std::string result = text.str();
    for (NormalizerStep step : tokenizer.normalizers)
      if (step.kind == NormalizerStep::Kind::Nfc)
        result = composeCanonically(result);
    return result;
  }

  Expected<std::pair<uint32_t, uint32_t>> pooled(StringRef bytes) {
    if (pool.size() + bytes.size() > UINT32_MAX)
      return fail("the texts of all tokens exceed 4 GiB");
    std::pair<uint32_t, uint32_t> place(pool.size(), bytes.size());
    pool.insert(pool.end(), bytes.begin(), bytes.end());
    return place;
  }

  /// The bytes a token is decoded to: those its byte-level characters stand
  /// for, or its own if one of them stands for none.
  static std::string decodedBytes(const std::string &text) { return bytesOfByteLevel(text).value_or(text); }

  Error addTokens() {
    // What each id is decoded from. An added token shows its normalized form,
    // by which it may also no longer be the special token it was.
    std::vector<std::optional<std::string>> texts;
    StringSet<> special;
    auto set = [&](uint32_t id, std::string text) {
      if (id >= texts.size())
        texts.resize(id + 1);
      texts[id] = std::move(text);
    };
    for (const VocabularyEntry &entry : tokenizer.vocabulary) {
      if (entry.id < texts.size() && texts[entry.id])
        return fail("tokens " + quote(*texts[entry.id]) + " and " + quote(entry.text) + " have the same id " +
                    Twine(entry.id));
      set(entry.id, entry.text);
    }
    for (const AddedToken &token : tokenizer.added) {
      set(token.id, token.normalized ? normalized(token.content) : token.content);
      if (token.special)
        special.insert(token.content);
    }
    std::vector<ingot_rt_tok_token> tokens;
    for (const std::optional<std::string> &text : texts) {
      if (!text) {
        tokens.push_back({0, 0, 0});
        continue;
      }
      auto place = pooled(decodedBytes(*text));
      if (!place)
        return place.takeError();
      uint32_t flags = INGOT_RT_TOK_PRESENT;
      if (special.contains(*text))
        flags |= INGOT_RT_TOK_SPECIAL;
      tokens.push_back({place->first, place->second, flags});
    }
    header.tokens = section.add(tokens);
    if (Error error = addVocabulary(tokens))
      return error;
    header.bytes = section.add(pool);
    return Error::success();
  }

  /// The hash table from bytes to ids.
  Error addVocabulary(ArrayRef<ingot_rt_tok_token> tokens) {
    struct Piece {
      std::string bytes;
      uint32_t id;
    };
    std::vector<Piece> pieces;
    std::fill(std::begin(header.byte_ids), std::end(header.byte_ids), INGOT_RT_TOK_NONE);
    for (const VocabularyEntry &entry : tokenizer.vocabulary) {
      std::optional<std::string> bytes = bytesOfByteLevel(entry.text);
      if (!bytes || bytes->empty() || !entry.reachable)
        continue;
      if (bytes->size() == 1)
        header.byte_ids[uint8_t(bytes->front())] = entry.id;
      pieces.push_back({std::move(*bytes), entry.id});
    }
    std::vector<ingot_rt_tok_vocab_slot> slots(PowerOf2Ceil(pieces.size() * 2), {INGOT_RT_TOK_NONE, 0, 0, 0});
    for (const Piece &piece : pieces) {
      ingot_rt_tok_vocab_slot slot = {piece.id, tokens[piece.id].offset, tokens[piece.id].length, 0};
      // Normally the bytes are those the id is decoded to.
      if (StringRef(pool.data() + slot.offset, slot.length) != piece.bytes) {
        auto place = pooled(piece.bytes);
        if (!place)
          return place.takeError();
        std::tie(slot.offset, slot.length) = *place;
      }
      if (tokenizer.ignoreMerges || mergesLeadTo(piece.bytes, piece.id))
        slot.flags |= INGOT_RT_TOK_WHOLE_PIECE;
      uint64_t at = ingot_rt_tok_hash_bytes(reinterpret_cast<const uint8_t *>(piece.bytes.data()), piece.bytes.size());
      while (slots[at & (slots.size() - 1)].id != INGOT_RT_TOK_NONE)
        ++at;
      slots[at & (slots.size() - 1)] = slot;
    }
    header.vocab = section.add(slots);
    return Error::success();
  }

  bool mergesLeadTo(StringRef bytes, uint32_t id) const {
    SmallVector<uint32_t> symbols;
    for (char byte : bytes)
      symbols.push_back(header.byte_ids[uint8_t(byte)]);
    if (is_contained(symbols, INGOT_RT_TOK_NONE))
      return false;
    merges.apply(symbols);
    return symbols.size() == 1 && symbols.front() == id;
  }

  void addMerges() {
    std::vector<ingot_rt_tok_merge_slot> rules = merges.rules();
    std::vector<ingot_rt_tok_merge_slot> slots(PowerOf2Ceil(rules.size() * 2),
                                               {INGOT_RT_TOK_NONE, INGOT_RT_TOK_NONE, 0, 0});
    for (const ingot_rt_tok_merge_slot &rule : rules) {
      uint64_t at = ingot_rt_tok_hash_pair(rule.left, rule.right);
      while (slots[at & (slots.size() - 1)].left != INGOT_RT_TOK_NONE)
        ++at;
      slots[at & (slots.size() - 1)] = rule;
    }
    header.merges = section.add(slots);
  }

  Error addAddedTokens() {
    std::vector<ingot_rt_tok_added> added;
    std::map<std::string, uint32_t> raw, normal;
    bool needsProperties = false;
    for (auto [index, token] : enumerate(tokenizer.added)) {
      uint32_t flags = (token.special ? INGOT_RT_TOK_ADDED_SPECIAL : 0) |
                       (token.singleWord ? INGOT_RT_TOK_ADDED_SINGLE_WORD : 0) |
                       (token.lstrip ? INGOT_RT_TOK_ADDED_LSTRIP : 0) | (token.rstrip ? INGOT_RT_TOK_ADDED_RSTRIP : 0);
      needsProperties |= token.singleWord || token.lstrip || token.rstrip;
      added.push_back({token.id, flags});
      std::string text = token.normalized ? normalized(token.content) : token.content;
      if (text.empty())
        return fail("the added token " + quote(token.content) + " is empty when normalized");
      auto [found, isNew] = (token.normalized ? normal : raw).try_emplace(text, index);
      if (!isNew)
        return fail("the added tokens " + quote(tokenizer.added[found->second].content) + " and " +
                    quote(token.content) + " are the same text when normalized");
    }
    header.added = section.add(added);
    header.raw_added = makeTrie(raw);
    header.normalized_added = makeTrie(normal);
    if (needsProperties) {
      std::vector<uint8_t> properties(lastCodePoint + 1);
      mark(properties, whiteSpace(), INGOT_RT_TOK_WHITE_SPACE);
      mark(properties, addedTokenWord(), INGOT_RT_TOK_WORD);
      header.properties = section.addMap(properties);
    }
    return Error::success();
  }

  static void mark(std::vector<uint8_t> &values, const CodePointSet &set, uint8_t bit) {
    for (CodePointSet::Range range : set.ranges())
      for (uint32_t c = range.first; c <= range.last; ++c)
        values[c] |= bit;
  }

  /// `texts` maps what is matched to the index of its added token.
  ingot_rt_tok_trie makeTrie(const std::map<std::string, uint32_t> &texts) {
    struct Node {
      std::map<uint8_t, uint32_t> next;
      uint32_t added = INGOT_RT_TOK_NONE;
    };
    std::vector<Node> tree(1);
    for (const auto &[text, index] : texts) {
      uint32_t at = 0;
      for (char byte : text) {
        auto [found, isNew] = tree[at].next.try_emplace(uint8_t(byte), tree.size());
        at = found->second;
        if (isNew)
          tree.emplace_back();
      }
      tree[at].added = index;
    }
    ingot_rt_tok_trie trie = {};
    std::fill(std::begin(trie.root), std::end(trie.root), INGOT_RT_TOK_NONE);
    // The root is the table itself: stored nodes start after it.
    for (auto [byte, node] : tree.front().next)
      trie.root[byte] = node - 1;
    std::vector<ingot_rt_tok_trie_node> nodes;
    std::vector<ingot_rt_tok_trie_edge> edges;
    for (const Node &node : drop_begin(tree)) {
      nodes.push_back({uint32_t(edges.size()), uint32_t(node.next.size()), node.added});
      for (auto [byte, next] : node.next)
        edges.push_back({byte, next - 1});
    }
    trie.nodes = section.add(nodes);
    trie.edges = section.add(edges);
    return trie;
  }

  void addNormalizers() {
    std::vector<ingot_rt_tok_normalizer> steps;
    for (NormalizerStep step : tokenizer.normalizers)
      if (step.kind == NormalizerStep::Kind::Nfc)
        steps.push_back({INGOT_RT_TOK_NORMALIZER_NFC, 0});
    header.normalizers = section.add(steps);
    if (!steps.empty())
      addNormalForm();
  }

  void addNormalForm() {
    std::vector<uint8_t> classes(lastCodePoint + 1), flags(lastCodePoint + 1);
    for (ClassRange range : combiningClassRanges())
      for (uint32_t c = range.first; c <= range.last; ++c) {
        classes[c] = range.combiningClass;
        flags[c] = INGOT_RT_TOK_NFC_ACTIVE;
      }
    std::map<uint32_t, Decomposition> steps;
    std::vector<ingot_rt_tok_composition> compositions;
    for (const Decomposition &step : canonicalDecompositions()) {
      steps[step.codePoint] = step;
      if (step.composes) {
        compositions.push_back({step.first, step.second, step.codePoint});
        // A starter that composes with what is before it.
        flags[step.second] = INGOT_RT_TOK_NFC_ACTIVE;
      } else {
        flags[step.codePoint] = INGOT_RT_TOK_NFC_ACTIVE;
      }
    }
    // Vowels and trailing consonants of Hangul compose with what is before.
    for (uint32_t c = 0x1161; c <= 0x1175; ++c)
      flags[c] = INGOT_RT_TOK_NFC_ACTIVE;
    for (uint32_t c = 0x11a8; c <= 0x11c2; ++c)
      flags[c] = INGOT_RT_TOK_NFC_ACTIVE;

    std::vector<ingot_rt_tok_decomposition> decompositions;
    std::vector<uint32_t> decomposed;
    for (const auto &[codePoint, step] : steps) {
      SmallVector<uint32_t> rest = {codePoint};
      uint32_t first = decomposed.size();
      while (!rest.empty()) {
        uint32_t c = rest.pop_back_val();
        auto found = steps.find(c);
        if (found == steps.end()) {
          decomposed.push_back(c);
          continue;
        }
        if (found->second.second)
          rest.push_back(found->second.second);
        rest.push_back(found->second.first);
      }
      decompositions.push_back({codePoint, first, uint32_t(decomposed.size()) - first});
    }
    sort(compositions,
         [](const auto &a, const auto &b) { return std::pair(a.first, a.second) < std::pair(b.first, b.second); });
    header.normal_form = {section.addMap(flags), section.addMap(classes), section.add(decompositions),
                          section.add(decomposed), section.add(compositions)};
  }

  Error addPreTokenizers() {
    using Kind = PreTokenizerStep::Kind;
    std::vector<ingot_rt_tok_pre_tokenizer> steps;
    std::vector<ingot_rt_tok_automaton> automata;
    for (const PreTokenizerStep &step : tokenizer.preTokenizers) {
      if (step.kind == Kind::PrefixSpace) {
        steps.push_back({INGOT_RT_TOK_PRE_SPACE, 0, 0, 0});
        continue;
      }
      SplitAutomaton automaton;
      if (step.kind == Kind::SplitNumeric) {
        automaton = compileSet(numericCharacter());
      } else {
        auto compiled = step.kind == Kind::SplitPattern ? compilePattern(step.text) : compileLiteral(step.text);
        if (!compiled)
          return fail("split pattern " + quote(step.text) + ": " + toString(compiled.takeError()));
        automaton = std::move(*compiled);
      }
      steps.push_back({INGOT_RT_TOK_PRE_SPLIT, uint32_t(automata.size()), uint32_t(step.behavior), step.invert});
      automata.push_back(
          {automaton.states, automaton.classes, section.add(automaton.transitions), section.addMap(automaton.classOf)});
    }
    header.pre_tokenizers = section.add(steps);
    header.automata = section.add(automata);
    return Error::success();
  }

  const TokenizerDescription &tokenizer;
  std::optional<int64_t> rows;
  MergeTable merges;
  ingot_rt_tok_header header = {};
  Section section;
  std::vector<char> pool;
};

} // namespace

Expected<std::vector<char>> ingot::makeTokenizerImage(const TokenizerDescription &tokenizer,
                                                      std::optional<int64_t> rows) {
  return ImageBuilder(tokenizer, rows).build();
}
