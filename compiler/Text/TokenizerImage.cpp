// Lays out the tables of ingot_rt/image_tokenizer.h: the vocabulary and the
// merges as open-addressing hash tables at most half full, Unigram's pieces as a
// double array, added tokens as tries, patterns as automata, Unicode properties
// as paged maps.
#include "compiler/Text/TokenizerImage.h"
#include "compiler/Import/InputError.h"
#include "compiler/Text/Normalization.h"
#include "compiler/Text/SplitPattern.h"
#include "compiler/Text/UnicodeData.h"
#include "ingot_rt/image_tokenizer.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"
#include <cstring>
#include <limits>
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

  /// A value for every code point; equal pages are stored once.
  template <typename T>
  std::pair<ingot_rt_tok_array, ingot_rt_tok_array> addPages(const std::vector<T> &values) {
    StringMap<uint16_t> numbers;
    std::vector<uint16_t> pageOf;
    std::vector<T> pages;
    for (uint32_t page = 0; page < INGOT_RT_TOK_PAGES; ++page) {
      const T *part = values.data() + page * 256;
      auto [found, isNew] =
          numbers.try_emplace(StringRef(reinterpret_cast<const char *>(part), 256 * sizeof(T)), numbers.size());
      if (isNew)
        pages.insert(pages.end(), part, part + 256);
      pageOf.push_back(found->second);
    }
    ingot_rt_tok_array first = add(pageOf);
    return {first, add(pages)};
  }

  ingot_rt_tok_code_point_map addMap(const std::vector<uint8_t> &values) {
    auto [pageOf, pages] = addPages(values);
    return {pageOf, pages};
  }
};

/// A bit for each pair of neighbours that some piece may hold, by hash: pairs
/// without a bit are held by none.
class Joints {
public:
  void add(uint32_t left, uint32_t right) { pairs.insert(uint64_t(left) << 32 | right); }

  std::vector<uint64_t> bits() const {
    // One pair in eight that is in no piece looks as if it were.
    std::vector<uint64_t> words(std::max<uint64_t>(PowerOf2Ceil(pairs.size() * 8) / 64, 16));
    for (uint64_t pair : pairs) {
      uint64_t bit = ingot_rt_tok_hash_pair(pair >> 32, uint32_t(pair)) & (words.size() * 64 - 1);
      words[bit / 64] |= uint64_t(1) << (bit % 64);
    }
    return words;
  }

private:
  DenseSet<uint64_t> pairs;
};

/// The double array of Unigram's pieces, see ingot_rt_tok_piece_node.
class PieceTrie {
public:
  void add(StringRef text, uint32_t id) {
    uint32_t at = 0;
    for (char byte : text) {
      auto [found, isNew] = tree[at].next.try_emplace(uint8_t(byte), tree.size());
      at = found->second;
      if (isNew)
        tree.emplace_back();
    }
    tree[at].id = id;
  }

  std::vector<ingot_rt_tok_piece_node> nodes() {
    // Node 0 has itself for a parent, which no look-up can reach: bases start at 1.
    result.assign(1, {0, INGOT_RT_TOK_NONE, INGOT_RT_TOK_NONE});
    place(0, 0);
    return std::move(result);
  }

private:
  struct Node {
    std::map<uint8_t, uint32_t> next;
    uint32_t id = INGOT_RT_TOK_NONE;
  };

  bool isFree(size_t index) const { return index >= result.size() || result[index].parent == INGOT_RT_TOK_NONE; }

  /// Gives the children of `node`, which stands at `index`, a place where all
  /// are free, and so on for theirs.
  void place(uint32_t root, uint32_t rootIndex) {
    std::vector<std::pair<uint32_t, uint32_t>> rest = {{root, rootIndex}};
    size_t firstFree = 1;
    while (!rest.empty()) {
      auto [node, index] = rest.back();
      rest.pop_back();
      result[index].id = tree[node].id;
      const auto &children = tree[node].next;
      if (children.empty())
        continue;
      while (!isFree(firstFree))
        ++firstFree;
      // From the first free place on, for a while; then at the end.
      size_t first = children.begin()->first, base = std::max<size_t>(firstFree, first + 1) - first;
      for (size_t tries = 0; !all_of(children, [&](const auto &child) { return isFree(base + child.first); });) {
        ++base;
        if (++tries == 512)
          base = std::max(base, result.size());
      }
      result[index].base = base;
      for (auto [byte, child] : children) {
        size_t at = base + byte;
        if (at >= result.size())
          result.resize(at + 1, {0, INGOT_RT_TOK_NONE, INGOT_RT_TOK_NONE});
        result[at].parent = index;
        rest.push_back({child, uint32_t(at)});
      }
    }
  }

  std::vector<Node> tree = std::vector<Node>(1);
  std::vector<ingot_rt_tok_piece_node> result;
};

/// Byte pair encoding while compiling, to see which pieces the merges lead to.
class MergeTable {
public:
  /// A later rule for the same pair replaces an earlier one.
  explicit MergeTable(ArrayRef<MergeRule> rules) {
    for (const MergeRule &rule : rules)
      table[key(rule.left, rule.right)] = {rule.rank, rule.merged};
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
    sort(result, [](const Slot &a, const Slot &b) {
      return std::tuple(a.rank, a.left, a.right) < std::tuple(b.rank, b.left, b.right);
    });
    return result;
  }

private:
  static uint64_t key(uint32_t left, uint32_t right) { return uint64_t(left) << 32 | right; }
  DenseMap<uint64_t, Merge> table;
};

class ImageBuilder {
public:
  ImageBuilder(const TokenizerDescription &tokenizer, std::optional<int64_t> rows)
      : tokenizer(tokenizer), rows(rows), merges(tokenizer.merges), preTokenizers(tokenizer.preTokenizers) {}

  Expected<std::vector<char>> build() {
    header.magic = INGOT_RT_TOK_MAGIC;
    header.version = INGOT_RT_TOK_VERSION;
    chooseModel();
    header.model_flags = (tokenizer.fuseUnknown ? INGOT_RT_TOK_FUSE_UNKNOWN : 0) |
                         (tokenizer.byteFallback ? INGOT_RT_TOK_BYTE_FALLBACK : 0);
    header.unknown_id = tokenizer.unknownId.value_or(INGOT_RT_TOK_NONE);
    if (Error error = checkRows())
      return error;
    if (Error error = addDecoders())
      return error;
    if (Error error = addTokens())
      return error;
    if (Error error = addVocabulary())
      return error;
    addMerges();
    if (Error error = addAddedTokens())
      return error;
    if (Error error = addNormalizers())
      return error;
    if (Error error = addPreTokenizers())
      return error;
    header.automata = section.add(automata);
    header.bytes = section.add(pool);
    header.prefix = section.add(tokenizer.prefix);
    header.suffix = section.add(tokenizer.suffix);
    section.bytes.resize(alignTo(section.bytes.size(), 8));
    header.size = section.bytes.size();
    std::memcpy(section.bytes.data(), &header, sizeof(header));
    return std::move(section.bytes);
  }

private:
  Error fail(const Twine &what) { return inputError(tokenizer.file, what); }

  /// Byte-level encoding has a shorter way: the model starts from bytes, and no
  /// text is written in the byte-level alphabet.
  void chooseModel() {
    header.model = INGOT_RT_TOK_MODEL_BPE;
    if (tokenizer.model == TokenizerDescription::Model::Unigram) {
      header.model = INGOT_RT_TOK_MODEL_UNIGRAM;
      return;
    }
    auto isByteLevel = [](const PreTokenizerStep &step) { return step.kind == PreTokenizerStep::Kind::ByteLevel; };
    bool onlyLast =
        !preTokenizers.empty() && isByteLevel(preTokenizers.back()) && none_of(drop_end(preTokenizers), isByteLevel);
    if (onlyLast && !tokenizer.byteFallback && tokenizer.continuingPrefix.empty() && tokenizer.wordSuffix.empty()) {
      header.model = INGOT_RT_TOK_MODEL_BYTE_BPE;
      preTokenizers.pop_back();
    }
  }

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
  Expected<std::string> matchedText(const AddedToken &token) {
    if (!token.normalized || tokenizer.normalizers.empty())
      return token.content;
    auto text = normalize(tokenizer.normalizers, token.content);
    if (!text)
      return fail("normalizer: " + toString(text.takeError()));
    return text;
  }

  Expected<ingot_rt_tok_text> pooledText(StringRef bytes) {
    auto place = pooled(bytes);
    if (!place)
      return place.takeError();
    return ingot_rt_tok_text{place->first, place->second};
  }

  Expected<std::pair<uint32_t, uint32_t>> pooled(StringRef bytes) {
    if (pool.size() + bytes.size() > UINT32_MAX)
      return fail("the texts of all tokens exceed 4 GiB");
    std::pair<uint32_t, uint32_t> place(pool.size(), bytes.size());
    pool.insert(pool.end(), bytes.begin(), bytes.end());
    return place;
  }

  /// What a token is decoded from: with a single ByteLevel decoder the bytes
  /// that its characters stand for, or its own if one of them stands for none.
  std::string decodedBytes(const std::string &text) const {
    return header.decode_mode == INGOT_RT_TOK_DECODE_BYTES ? bytesOfByteLevel(text).value_or(text) : text;
  }

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
      auto text = matchedText(token);
      if (!text)
        return text.takeError();
      set(token.id, std::move(*text));
      if (token.special)
        special.insert(token.content);
    }
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
    return Error::success();
  }

  /// A piece of the vocabulary as the model looks for it; nothing if it cannot.
  std::optional<std::string> lookedUpText(const VocabularyEntry &entry) const {
    if (!entry.reachable || entry.text.empty())
      return std::nullopt;
    return header.model == INGOT_RT_TOK_MODEL_BYTE_BPE ? bytesOfByteLevel(entry.text) : entry.text;
  }

  /// The hash table from bytes to ids, and what each kind of model has besides.
  Error addVocabulary() {
    struct Piece {
      std::string bytes;
      uint32_t id;
    };
    std::vector<Piece> pieces;
    StringMap<size_t> indexOf;
    for (const VocabularyEntry &entry : tokenizer.vocabulary)
      if (std::optional<std::string> bytes = lookedUpText(entry)) {
        // Of equal texts the last counts.
        auto [found, isNew] = indexOf.try_emplace(*bytes, pieces.size());
        if (isNew)
          pieces.push_back({std::move(*bytes), entry.id});
        else
          pieces[found->second].id = entry.id;
      }
    std::fill(std::begin(header.byte_ids), std::end(header.byte_ids), INGOT_RT_TOK_NONE);
    auto idOf = [&](StringRef text) {
      auto found = indexOf.find(text);
      return found == indexOf.end() ? INGOT_RT_TOK_NONE : pieces[found->second].id;
    };
    for (unsigned byte = 0; byte < 256; ++byte) {
      char itself = char(byte);
      header.byte_ids[byte] = header.model == INGOT_RT_TOK_MODEL_BYTE_BPE
                                  ? idOf(StringRef(&itself, 1))
                                  : idOf(std::string("<0x") + hexdigit(byte / 16) + hexdigit(byte % 16) + ">");
    }
    if (Error error = addSymbols(idOf))
      return error;
    std::vector<ingot_rt_tok_vocab_slot> slots(PowerOf2Ceil(pieces.size() * 2), {INGOT_RT_TOK_NONE, 0, 0, 0});
    PieceTrie trie;
    for (const Piece &piece : pieces) {
      header.longest_piece = std::max<uint64_t>(header.longest_piece, piece.bytes.size());
      ingot_rt_tok_vocab_slot slot = {piece.id, tokens[piece.id].offset, tokens[piece.id].length, 0};
      // Normally the bytes are those the id is decoded from.
      if (StringRef(pool.data() + slot.offset, slot.length) != piece.bytes) {
        auto place = pooled(piece.bytes);
        if (!place)
          return place.takeError();
        std::tie(slot.offset, slot.length) = *place;
      }
      if (header.model == INGOT_RT_TOK_MODEL_UNIGRAM)
        trie.add(piece.bytes, piece.id);
      else if (mergesLeadTo(piece.bytes, piece.id))
        slot.flags |= INGOT_RT_TOK_WHOLE_PIECE | INGOT_RT_TOK_MERGED;
      if (tokenizer.ignoreMerges)
        slot.flags |= INGOT_RT_TOK_WHOLE_PIECE;
      uint64_t at = ingot_rt_tok_hash_bytes(reinterpret_cast<const uint8_t *>(piece.bytes.data()), piece.bytes.size());
      while (slots[at & (slots.size() - 1)].id != INGOT_RT_TOK_NONE)
        ++at;
      slots[at & (slots.size() - 1)] = slot;
    }
    header.vocab = section.add(slots);
    if (header.model == INGOT_RT_TOK_MODEL_UNIGRAM) {
      header.pieces = section.add(trie.nodes());
      addScores();
    }
    return Error::success();
  }

  /// The symbols that characters start as.
  template <typename IdOf>
  Error addSymbols(IdOf idOf) {
    for (auto [text, place] : {std::pair(&tokenizer.continuingPrefix, &header.continuing_prefix),
                               std::pair(&tokenizer.wordSuffix, &header.word_suffix)}) {
      auto pooled = pooledText(*text);
      if (!pooled)
        return pooled.takeError();
      *place = *pooled;
    }
    if (header.model != INGOT_RT_TOK_MODEL_BPE)
      return Error::success();
    symbols.assign(lastCodePoint + 1, INGOT_RT_TOK_NONE);
    for (const VocabularyEntry &entry : tokenizer.vocabulary) {
      std::vector<uint32_t> text = codePointsOf(entry.text);
      if (text.size() == 1 && entry.reachable)
        symbols[text.front()] = idOf(entry.text);
    }
    std::tie(header.symbols.page_of, header.symbols.pages) = section.addPages(symbols);
    // With a prefix or a suffix pieces are words, seldom long.
    if (tokenizer.continuingPrefix.empty() && tokenizer.wordSuffix.empty())
      addJoints();
    return Error::success();
  }

  /// For byte pair encoding: the symbols that a token may start or end with as
  /// merges make it, and from them the neighbours that some merge puts together.
  void addJoints() {
    std::vector<SmallVector<uint32_t, 1>> firsts(tokens.size()), lasts(tokens.size());
    auto start = [&](uint32_t id) {
      if (id != INGOT_RT_TOK_NONE && firsts[id].empty()) {
        firsts[id].push_back(id);
        lasts[id].push_back(id);
      }
    };
    for_each(symbols, start);
    for_each(header.byte_ids, start);
    start(header.unknown_id);
    // A rule may come before those that make its parts.
    for (bool changed = true; changed;) {
      changed = false;
      auto join = [&](SmallVector<uint32_t, 1> &set, ArrayRef<uint32_t> more) {
        for (uint32_t id : more)
          if (!is_contained(set, id)) {
            set.push_back(id);
            changed = true;
          }
      };
      for (const MergeRule &rule : tokenizer.merges) {
        join(firsts[rule.merged], SmallVector<uint32_t, 1>(firsts[rule.left]));
        join(lasts[rule.merged], SmallVector<uint32_t, 1>(lasts[rule.right]));
      }
    }
    Joints joints;
    for (const MergeRule &rule : tokenizer.merges)
      for (uint32_t left : lasts[rule.left])
        for (uint32_t right : firsts[rule.right])
          joints.add(left, right);
    header.joints = section.add(joints.bits());
  }

  void addScores() {
    std::vector<double> scores(tokens.size());
    double least = std::numeric_limits<double>::infinity();
    Joints joints;
    for (const VocabularyEntry &entry : tokenizer.vocabulary) {
      scores[entry.id] = entry.score;
      least = std::min(least, entry.score);
      std::vector<uint32_t> text = codePointsOf(entry.text);
      for (size_t i = 1; i < text.size(); ++i)
        joints.add(text[i - 1], text[i]);
    }
    header.scores = section.add(scores);
    header.unknown_score = least - 10; // K_UNK_PENALTY of the reference
    header.joints = section.add(joints.bits());
  }

  bool mergesLeadTo(StringRef bytes, uint32_t id) const {
    SmallVector<uint32_t> ids;
    if (header.model == INGOT_RT_TOK_MODEL_BYTE_BPE) {
      for (char byte : bytes)
        ids.push_back(header.byte_ids[uint8_t(byte)]);
    } else {
      if (!tokenizer.continuingPrefix.empty() || !tokenizer.wordSuffix.empty())
        return false;
      for (uint32_t c : codePointsOf(bytes))
        ids.push_back(symbols[c]);
    }
    if (is_contained(ids, INGOT_RT_TOK_NONE))
      return false;
    merges.apply(ids);
    return ids.size() == 1 && ids.front() == id;
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
      auto matched = matchedText(token);
      if (!matched)
        return matched.takeError();
      const std::string &text = *matched;
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
    needsProperties |=
        any_of(tokenizer.normalizers, [](const auto &step) { return step.kind == NormalizerStep::Kind::Strip; });
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

  Error addNormalizers() {
    using Kind = NormalizerStep::Kind;
    std::vector<ingot_rt_tok_normalizer> steps;
    std::vector<ingot_rt_tok_normal_form> forms;
    std::vector<ingot_rt_tok_mapped> maps;
    for (const NormalizerStep &step : tokenizer.normalizers) {
      auto content = pooledText(step.content);
      if (!content)
        return content.takeError();
      bool compatible, composes;
      if (isForm(step.kind, compatible, composes)) {
        steps.push_back({INGOT_RT_TOK_NORMALIZER_FORM, uint32_t(forms.size()), {}});
        forms.push_back(addNormalForm(NormalForm::get(compatible, composes)));
      } else if (isMapping(step.kind)) {
        steps.push_back({INGOT_RT_TOK_NORMALIZER_MAP, uint32_t(maps.size()), {}});
        auto map = addMapping(step.kind);
        if (!map)
          return map.takeError();
        maps.push_back(*map);
      } else if (step.kind == Kind::Prepend) {
        steps.push_back({INGOT_RT_TOK_NORMALIZER_PREPEND, 0, *content});
      } else if (step.kind == Kind::Strip) {
        steps.push_back({INGOT_RT_TOK_NORMALIZER_STRIP,
                         uint32_t((step.left ? INGOT_RT_TOK_LEFT : 0) | (step.right ? INGOT_RT_TOK_RIGHT : 0)),
                         {}});
      } else if (step.kind == Kind::ByteLevel) {
        steps.push_back({INGOT_RT_TOK_NORMALIZER_BYTE_LEVEL, 0, {}});
      } else {
        auto compiled = compileReplaced(step);
        if (!compiled)
          return fail("normalizer: replaced pattern " + quote(step.text) + ": " + toString(compiled.takeError()));
        steps.push_back({INGOT_RT_TOK_NORMALIZER_REPLACE, addAutomaton(*compiled), *content});
      }
    }
    header.normalizers = section.add(steps);
    header.normal_forms = section.add(forms);
    header.maps = section.add(maps);
    return Error::success();
  }

  ingot_rt_tok_normal_form addNormalForm(const NormalForm &form) {
    std::vector<ingot_rt_tok_decomposition> decompositions;
    std::vector<uint32_t> decomposed;
    for (const auto &[codePoint, parts] : form.decompositions) {
      decompositions.push_back({codePoint, uint32_t(decomposed.size()), uint32_t(parts.size())});
      decomposed.insert(decomposed.end(), parts.begin(), parts.end());
    }
    std::vector<ingot_rt_tok_composition> compositions;
    for (const auto &[pair, composed] : form.compositions)
      compositions.push_back({pair.first, pair.second, composed});
    return {section.addMap(form.active()), section.addMap(form.combiningClass), section.add(decompositions),
            section.add(decomposed),       section.add(compositions),           form.composes};
  }

  Expected<ingot_rt_tok_mapped> addMapping(NormalizerStep::Kind kind) {
    std::vector<uint8_t> flags(lastCodePoint + 1);
    std::vector<ingot_rt_tok_mapping> mappings;
    for (const auto &[codePoint, parts] : mappingOf(kind)) {
      auto text = pooledText(utf8Of(parts));
      if (!text)
        return text.takeError();
      flags[codePoint] = 1;
      mappings.push_back({codePoint, *text});
    }
    return ingot_rt_tok_mapped{section.addMap(flags), section.add(mappings)};
  }

  uint32_t addAutomaton(const SplitAutomaton &automaton) {
    automata.push_back(
        {automaton.states, automaton.classes, section.add(automaton.transitions), section.addMap(automaton.classOf)});
    return automata.size() - 1;
  }

  Error addPreTokenizers() {
    using Kind = PreTokenizerStep::Kind;
    std::vector<ingot_rt_tok_pre_tokenizer> steps;
    for (auto [index, step] : enumerate(preTokenizers)) {
      auto text = pooledText(step.text);
      if (!text)
        return text.takeError();
      // After other steps, a piece's place in its own text does not tell its
      // place in the whole.
      if (step.kind == Kind::Metaspace && step.prepend == PreTokenizerStep::Prepend::First &&
          (index || !tokenizer.normalizers.empty()))
        header.flags |= INGOT_RT_TOK_TRACK_ORIGIN;
      switch (step.kind) {
      case Kind::PrefixSpace:
        steps.push_back({INGOT_RT_TOK_PRE_SPACE, 0, 0, 0, {}});
        continue;
      case Kind::Metaspace:
        steps.push_back({INGOT_RT_TOK_PRE_METASPACE, 0, uint32_t(step.prepend), step.split, *text});
        continue;
      case Kind::ByteLevel:
        steps.push_back({INGOT_RT_TOK_PRE_BYTE_LEVEL, 0, 0, 0, {}});
        continue;
      default:
        break;
      }
      auto compiled = compileSplit(step);
      if (!compiled)
        return fail("split pattern " + quote(step.text) + ": " + toString(compiled.takeError()));
      steps.push_back({INGOT_RT_TOK_PRE_SPLIT, addAutomaton(*compiled), uint32_t(step.behavior), step.invert, {}});
    }
    header.pre_tokenizers = section.add(steps);
    return Error::success();
  }

  static Expected<SplitAutomaton> compileSplit(const PreTokenizerStep &step) {
    using Kind = PreTokenizerStep::Kind;
    switch (step.kind) {
    case Kind::SplitPattern:
      return compilePattern(step.text);
    case Kind::SplitRustPattern:
      return compilePattern(step.text, PatternDialect::Rust);
    case Kind::SplitNumeric:
      return compileSet(numericCharacter());
    case Kind::SplitSpace:
      return compileSet(whiteSpace());
    case Kind::SplitPunctuation:
      return compileSet(punctuationCharacter());
    default:
      return compileLiteral(step.text);
    }
  }

  Error addDecoders() {
    using Kind = DecoderStep::Kind;
    ArrayRef<DecoderStep> list = tokenizer.decoders;
    // One text has nothing to be joined with.
    if (!list.empty() && list.front().kind == Kind::ByteLevel &&
        all_of(list.drop_front(), [](const DecoderStep &step) { return step.kind == Kind::Fuse; })) {
      header.decode_mode = INGOT_RT_TOK_DECODE_BYTES;
      return Error::success();
    }
    header.decode_mode = INGOT_RT_TOK_DECODE_STEPS;
    std::vector<ingot_rt_tok_decoder> steps;
    for (const DecoderStep &step : list) {
      auto text = pooledText(step.text), content = pooledText(step.content);
      if (!text || !content)
        return joinErrors(text.takeError(), content.takeError());
      uint32_t index = 0;
      if (step.kind == Kind::ReplacePattern) {
        auto compiled = compilePattern(step.text);
        if (compiled && matchesEmpty(*compiled))
          compiled = createStringError("pattern: replacing what may be empty is not supported yet");
        if (!compiled)
          return fail("decoder: replaced pattern " + quote(step.text) + ": " + toString(compiled.takeError()));
        index = addAutomaton(*compiled);
      }
      steps.push_back({uint32_t(step.kind), index, step.left, step.right, *text, *content});
    }
    header.decoders = section.add(steps);
    return Error::success();
  }

  const TokenizerDescription &tokenizer;
  std::optional<int64_t> rows;
  MergeTable merges;
  /// Without a ByteLevel at the end that the model does itself.
  std::vector<PreTokenizerStep> preTokenizers;
  std::vector<ingot_rt_tok_token> tokens;
  std::vector<ingot_rt_tok_automaton> automata;
  std::vector<uint32_t> symbols; ///< [lastCodePoint + 1], byte pair encoding of characters
  ingot_rt_tok_header header = {};
  Section section;
  std::vector<char> pool;
};

} // namespace

Expected<std::vector<char>> ingot::makeTokenizerImage(const TokenizerDescription &tokenizer,
                                                      std::optional<int64_t> rows) {
  return ImageBuilder(tokenizer, rows).build();
}
