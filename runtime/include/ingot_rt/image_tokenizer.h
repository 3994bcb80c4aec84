// The tokenizer section of the payload: what compiler/Text makes of a
// tokenizer.json or of GGUF metadata, and runtime/src/tokenizer reads in place.
//
// Nothing is parsed or built when an executable starts: the vocabulary and the
// merges are open-addressing hash tables, added tokens are tries, split
// patterns (regular expressions) are automata over classes of code points. A
// vocabulary of 150,000 tokens costs the page faults of what a text touches.
//
// Layout: an ingot_rt_tok_header at the start of the section, everything else
// where an ingot_rt_tok_array in it says. Offsets are bytes from the start of
// the section and multiples of 8; all integers are little-endian.
//
// Text goes through: added tokens that match the text as it is -> normalizers
// -> added tokens that match normalized text -> pre-tokenizers, each splitting
// the pieces of the one before -> the model, which turns a piece into ids. Ids
// become text through the decoders. Each stage is a table of steps with a kind,
// so that a new normalizer, pre-tokenizer, model or decoder is a new kind and
// nothing else changes.
#ifndef INGOT_RT_IMAGE_TOKENIZER_H
#define INGOT_RT_IMAGE_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define INGOT_RT_TOK_MAGIC 0x314b4f54474e49ull // "INGTOK1"
#define INGOT_RT_TOK_VERSION 2u
/// No id, no state, no trie node.
#define INGOT_RT_TOK_NONE 0xffffffffu
/// Pages of 256 code points up to U+10FFFF, for ingot_rt_tok_code_point_map.
#define INGOT_RT_TOK_PAGES 4352u

/// `count` elements at `offset`; absent tables have count 0.
struct ingot_rt_tok_array {
  uint64_t offset, count;
};

/// Bytes of the pool `bytes`.
struct ingot_rt_tok_text {
  uint32_t offset, length;
};

/// A byte for every code point: pages[page_of[c >> 8] * 256 + (c & 255)].
struct ingot_rt_tok_code_point_map {
  struct ingot_rt_tok_array page_of; ///< uint16_t [INGOT_RT_TOK_PAGES]
  struct ingot_rt_tok_array pages;   ///< uint8_t [number of pages * 256]
};

/// Bits of the map `properties`, as the Rust regex engine defines \s and \w.
enum ingot_rt_tok_property {
  INGOT_RT_TOK_WHITE_SPACE = 1,
  INGOT_RT_TOK_WORD = 2,
};

// ------------------------------------------------------------- vocabulary

enum ingot_rt_tok_token_flag {
  INGOT_RT_TOK_PRESENT = 1, ///< unset: a hole in the ids, decoded to nothing
  INGOT_RT_TOK_SPECIAL = 2, ///< left out when special tokens are skipped
};

/// What an id is decoded from: bytes of the pool `bytes`. With
/// INGOT_RT_TOK_DECODE_BYTES those that the text is made of, with
/// INGOT_RT_TOK_DECODE_STEPS what the first decoder gets.
struct ingot_rt_tok_token {
  uint32_t offset, length, flags;
};

enum ingot_rt_tok_piece_flag {
  /// The model turns these bytes, as a whole piece, into this one id: a look-up
  /// replaces the merges.
  INGOT_RT_TOK_WHOLE_PIECE = 1,
  /// The merges lead from these bytes to this one id, also inside a piece.
  INGOT_RT_TOK_MERGED = 2,
};

/// A slot of the hash table from a piece's bytes to its id; free if id is
/// INGOT_RT_TOK_NONE. Probing is linear from ingot_rt_tok_hash_bytes, the
/// number of slots a power of two.
struct ingot_rt_tok_vocab_slot {
  uint32_t id;
  uint32_t offset, length; ///< the bytes, in the pool `bytes`
  uint32_t flags;
};

/// A slot of the hash table of merges: the pair (left, right) becomes `merged`;
/// the lowest rank goes first. Free if left is INGOT_RT_TOK_NONE. Probing is
/// linear from ingot_rt_tok_hash_pair.
struct ingot_rt_tok_merge_slot {
  uint32_t left, right, rank, merged;
};

enum ingot_rt_tok_model_kind {
  /// Byte-level byte pair encoding: a piece starts as one symbol a byte
  /// (byte_ids); while any neighbours are in the table of merges, those of the
  /// lowest rank, the leftmost first, become one symbol.
  INGOT_RT_TOK_MODEL_BYTE_BPE = 1,
  /// The same from one symbol a code point (`symbols`, or the vocabulary where
  /// there is a prefix or a suffix).
  INGOT_RT_TOK_MODEL_BPE = 2,
  /// The pieces with the greatest sum of scores (Viterbi over `pieces`).
  INGOT_RT_TOK_MODEL_UNIGRAM = 3,
};

enum ingot_rt_tok_model_flag {
  /// Neighbouring unknown symbols become one unknown id instead of one each.
  INGOT_RT_TOK_FUSE_UNKNOWN = 1,
  /// What is unknown becomes its bytes' ids (byte_ids) where all of them exist.
  INGOT_RT_TOK_BYTE_FALLBACK = 2,
};

/// A uint32_t for every code point, laid out as ingot_rt_tok_code_point_map.
struct ingot_rt_tok_id_map {
  struct ingot_rt_tok_array page_of; ///< uint16_t [INGOT_RT_TOK_PAGES]
  struct ingot_rt_tok_array pages;   ///< uint32_t [number of pages * 256]
};

/// A node of the double array of Unigram's pieces: the child of node n by byte
/// b is base of n plus b, if that node's parent is n. Node 0 is the root.
struct ingot_rt_tok_piece_node {
  uint32_t base, parent;
  uint32_t id; ///< of the piece that ends here, or NONE
};

// ------------------------------------------------------------- added tokens

enum ingot_rt_tok_added_flag {
  INGOT_RT_TOK_ADDED_SPECIAL = 1,
  INGOT_RT_TOK_ADDED_SINGLE_WORD = 2, ///< no \w on either side
  INGOT_RT_TOK_ADDED_LSTRIP = 4,      ///< takes the white space before it
  INGOT_RT_TOK_ADDED_RSTRIP = 8,      ///< takes the white space after it
};

struct ingot_rt_tok_added {
  uint32_t id, flags;
};

/// A trie of added tokens, walked from every position a token starts at. Of the
/// matches the leftmost counts, of those the longest.
struct ingot_rt_tok_trie {
  uint32_t root[256];              ///< the node after one byte, or NONE
  struct ingot_rt_tok_array nodes; ///< ingot_rt_tok_trie_node
  struct ingot_rt_tok_array edges; ///< ingot_rt_tok_trie_edge
};

struct ingot_rt_tok_trie_node {
  uint32_t first_edge, edge_count; ///< sorted by byte
  uint32_t added;                  ///< index of the added token that ends here, or NONE
};

struct ingot_rt_tok_trie_edge {
  uint32_t byte, node;
};

// ------------------------------------------------------------- normalizers

enum ingot_rt_tok_normalizer_kind {
  INGOT_RT_TOK_NORMALIZER_FORM = 1,       ///< `index`: of the normal form
  INGOT_RT_TOK_NORMALIZER_MAP = 2,        ///< `index`: of the map, each code point by itself
  INGOT_RT_TOK_NORMALIZER_REPLACE = 3,    ///< `index`: of the automaton; `text`: in place of each match
  INGOT_RT_TOK_NORMALIZER_PREPEND = 4,    ///< `text` before what is not empty
  INGOT_RT_TOK_NORMALIZER_STRIP = 5,      ///< white space; `index`: ingot_rt_tok_side
  INGOT_RT_TOK_NORMALIZER_BYTE_LEVEL = 6, ///< bytes into the byte-level alphabet
};

enum ingot_rt_tok_side { INGOT_RT_TOK_LEFT = 1, INGOT_RT_TOK_RIGHT = 2 };

struct ingot_rt_tok_normalizer {
  uint32_t kind, index;
  struct ingot_rt_tok_text text;
};

/// What some code points become. Sorted by code_point.
struct ingot_rt_tok_mapping {
  uint32_t code_point;
  struct ingot_rt_tok_text text;
};

struct ingot_rt_tok_mapped {
  struct ingot_rt_tok_code_point_map flags; ///< 1: in `mappings`
  struct ingot_rt_tok_array mappings;       ///< ingot_rt_tok_mapping
};

enum ingot_rt_tok_normal_form_flag {
  /// May change under this form or move other marks; text without any such code
  /// point is normalized already.
  INGOT_RT_TOK_FORM_ACTIVE = 1,
};

/// The full decomposition of a code point: `count` code points at
/// `first` of decomposed. Sorted by code_point. (Hangul is arithmetic.)
struct ingot_rt_tok_decomposition {
  uint32_t code_point, first, count;
};

/// first and second compose to `composed`. Sorted by first, then second.
struct ingot_rt_tok_composition {
  uint32_t first, second, composed;
};

/// Decomposition (canonical or compatible), ordering and, if `composes`,
/// composition: Unicode Standard Annex 15.
struct ingot_rt_tok_normal_form {
  struct ingot_rt_tok_code_point_map flags;
  struct ingot_rt_tok_code_point_map combining_class;
  struct ingot_rt_tok_array decompositions; ///< ingot_rt_tok_decomposition
  struct ingot_rt_tok_array decomposed;     ///< uint32_t
  struct ingot_rt_tok_array compositions;   ///< ingot_rt_tok_composition
  uint64_t composes;
};

// ----------------------------------------------------------- pre-tokenizers

enum ingot_rt_tok_pre_tokenizer_kind {
  /// Splits a piece where the automaton `index` matches, see the behaviour.
  INGOT_RT_TOK_PRE_SPLIT = 1,
  /// Puts a space before a piece that does not start with one.
  INGOT_RT_TOK_PRE_SPACE = 2,
  /// Writes spaces as `text` (one character), puts one before a piece that does
  /// not start with it as the scheme says, and with `splits` splits before each.
  INGOT_RT_TOK_PRE_METASPACE = 3,
  /// Bytes into the byte-level alphabet.
  INGOT_RT_TOK_PRE_BYTE_LEVEL = 4,
};

enum ingot_rt_tok_scheme {
  INGOT_RT_TOK_PREPEND_NEVER = 0,
  INGOT_RT_TOK_PREPEND_FIRST = 1, ///< to a piece at the start of the whole text
  INGOT_RT_TOK_PREPEND_ALWAYS = 2,
};

/// What becomes of matches and of the text between them. "the-final--one", "-":
enum ingot_rt_tok_behavior {
  INGOT_RT_TOK_REMOVED = 0,         ///< the | final | one
  INGOT_RT_TOK_ISOLATED = 1,        ///< the | - | final | - | - | one
  INGOT_RT_TOK_MERGED_PREVIOUS = 2, ///< the- | final- | - | one
  INGOT_RT_TOK_MERGED_NEXT = 3,     ///< the | -final | - | -one
  INGOT_RT_TOK_CONTIGUOUS = 4,      ///< the | - | final | -- | one
};

struct ingot_rt_tok_pre_tokenizer {
  uint32_t kind;
  uint32_t index;    ///< of the automaton
  uint32_t behavior; ///< ingot_rt_tok_behavior; METASPACE: ingot_rt_tok_scheme
  uint32_t invert;   ///< 1: matches count as the text between, and vice versa; METASPACE: splits
  struct ingot_rt_tok_text text;
};

/// Added to a transition: the text before the code point just read is a match.
#define INGOT_RT_TOK_ACCEPT 0x8000u
#define INGOT_RT_TOK_DEAD 0u
#define INGOT_RT_TOK_START 1u

/// A deterministic automaton for one pattern, run from one position, with the
/// priorities of a backtracking engine (leftmost alternative first) and
/// look-ahead of one code point: transitions[state * classes + class] is the
/// next state, plus INGOT_RT_TOK_ACCEPT if the text before this code point
/// matches; the last such mark before INGOT_RT_TOK_DEAD is the match's end.
/// The last class is the end of the text.
struct ingot_rt_tok_automaton {
  uint32_t states, classes;
  struct ingot_rt_tok_array transitions; ///< uint16_t [states * classes]
  struct ingot_rt_tok_code_point_map class_of;
};

// ----------------------------------------------------------------- decoders

enum ingot_rt_tok_decode_mode {
  /// The tokens' bytes one after the other, broken UTF-8 replaced.
  INGOT_RT_TOK_DECODE_BYTES = 1,
  /// The list of tokens through the decoders; what they leave is put together.
  INGOT_RT_TOK_DECODE_STEPS = 2,
};

enum ingot_rt_tok_decoder_kind {
  /// All tokens become one, of the bytes that byte-level characters stand for.
  INGOT_RT_TOK_DECODER_BYTE_LEVEL = 1,
  /// Runs of tokens <0xXX> become their bytes' text, or a U+FFFD each.
  INGOT_RT_TOK_DECODER_BYTE_FALLBACK = 2,
  /// All tokens become one.
  INGOT_RT_TOK_DECODER_FUSE = 3,
  INGOT_RT_TOK_DECODER_REPLACE = 4, ///< `text` by `content`
  INGOT_RT_TOK_DECODER_PATTERN = 5, ///< matches of the automaton `index` by `content`
  /// Takes up to `left` and `right` times the character `text` off each token.
  INGOT_RT_TOK_DECODER_STRIP = 6,
  /// The character `text` becomes a space; in the first token, with `left`, nothing.
  INGOT_RT_TOK_DECODER_METASPACE = 7,
  /// A space between tokens (what the reference does without a decoder).
  INGOT_RT_TOK_DECODER_JOIN = 8,
  /// `text` becomes a space, in the last token nothing.
  INGOT_RT_TOK_DECODER_SUFFIX = 9,
  /// Tokens but the first lose the prefix `text`, or get a space before them.
  INGOT_RT_TOK_DECODER_PREFIX = 10,
};

struct ingot_rt_tok_decoder {
  uint32_t kind, index;
  uint32_t left, right;
  struct ingot_rt_tok_text text, content;
};

// ------------------------------------------------------------------- header

enum ingot_rt_tok_flag {
  /// Whether a piece is at the start of the whole text depends on what the
  /// normalizers did: they keep track of where each byte came from.
  INGOT_RT_TOK_TRACK_ORIGIN = 1,
};

struct ingot_rt_tok_header {
  uint64_t magic; ///< INGOT_RT_TOK_MAGIC
  uint32_t version;
  uint32_t model; ///< ingot_rt_tok_model_kind
  uint64_t size;  ///< of the section

  uint32_t flags;       ///< ingot_rt_tok_flag
  uint32_t model_flags; ///< ingot_rt_tok_model_flag
  /// The id of what is unknown, or NONE: it is dropped, as the reference does.
  uint32_t unknown_id;
  uint32_t decode_mode; ///< ingot_rt_tok_decode_mode
  /// BYTE_BPE: the id of each single byte, or NONE. Others: of <0xXX>.
  uint32_t byte_ids[256];

  struct ingot_rt_tok_array bytes;  ///< uint8_t: the text of all tokens and steps
  struct ingot_rt_tok_array tokens; ///< ingot_rt_tok_token, by id
  struct ingot_rt_tok_array vocab;  ///< ingot_rt_tok_vocab_slot
  struct ingot_rt_tok_array merges; ///< ingot_rt_tok_merge_slot
  uint64_t longest_piece;           ///< bytes of the longest piece in `vocab`

  /// BPE: the id of each code point's symbol, or NONE.
  struct ingot_rt_tok_id_map symbols;
  /// BPE: what a symbol's text has before it (unless the first) and after it
  /// (if the last).
  struct ingot_rt_tok_text continuing_prefix, word_suffix;
  /// Bits, a power of two of them, at ingot_rt_tok_hash_pair of two neighbours
  /// (BPE: ids of symbols; Unigram: code points); unset: no piece holds the two
  /// side by side, so that text may be cut between them. None: never.
  struct ingot_rt_tok_array joints; ///< uint64_t

  /// Unigram.
  struct ingot_rt_tok_array pieces; ///< ingot_rt_tok_piece_node
  struct ingot_rt_tok_array scores; ///< double, by id
  double unknown_score;

  struct ingot_rt_tok_array added; ///< ingot_rt_tok_added
  /// Added tokens that match the text as it is, and those that match normalized
  /// text.
  struct ingot_rt_tok_trie raw_added, normalized_added;
  /// ingot_rt_tok_property; present if an added token or a normalizer needs it.
  struct ingot_rt_tok_code_point_map properties;

  struct ingot_rt_tok_array normalizers;    ///< ingot_rt_tok_normalizer
  struct ingot_rt_tok_array normal_forms;   ///< ingot_rt_tok_normal_form
  struct ingot_rt_tok_array maps;           ///< ingot_rt_tok_mapped
  struct ingot_rt_tok_array pre_tokenizers; ///< ingot_rt_tok_pre_tokenizer
  struct ingot_rt_tok_array automata;       ///< ingot_rt_tok_automaton
  struct ingot_rt_tok_array decoders;       ///< ingot_rt_tok_decoder

  /// uint32_t ids put before and after a text's own when special tokens are
  /// asked for.
  struct ingot_rt_tok_array prefix, suffix;
};

// ------------------------------------------------------------------- hashes

/// The code point (below U+0144) that stands for each byte in the byte-level
/// alphabet: itself where it is printable, else one from U+0100 on, in order.
static inline uint32_t ingot_rt_tok_byte_level(uint8_t byte) {
  if (byte <= 0x20)
    return 0x100u + byte;
  if (byte >= 0x7f && byte <= 0xa0)
    return 0x121u + (byte - 0x7fu);
  return byte == 0xad ? 0x143u : byte;
}

/// Mixes 64 bits (the finalizer of MurmurHash3).
static inline uint64_t ingot_rt_tok_mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  return x ^ (x >> 33);
}

/// Where the probe for a piece's bytes starts (modulo the number of slots).
static inline uint64_t ingot_rt_tok_hash_bytes(const uint8_t *bytes, uint64_t length) {
  uint64_t hash = length * 0x9e3779b97f4a7c15ull;
  for (; length >= 8; bytes += 8, length -= 8) {
    uint64_t word;
    memcpy(&word, bytes, 8);
    hash = ingot_rt_tok_mix(hash ^ word);
  }
  uint64_t rest = 0;
  for (uint64_t i = 0; i < length; ++i)
    rest |= (uint64_t)bytes[i] << (8 * i);
  return ingot_rt_tok_mix(hash ^ rest);
}

/// Where the probe for a pair of ids starts (modulo the number of slots).
static inline uint64_t ingot_rt_tok_hash_pair(uint32_t left, uint32_t right) {
  uint64_t pair = ((uint64_t)left << 32) | right;
  pair *= 0x9e3779b97f4a7c15ull;
  return pair ^ (pair >> 32);
}

#ifdef __cplusplus
}
#endif
#endif // INGOT_RT_IMAGE_TOKENIZER_H
