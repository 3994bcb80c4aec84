// A tokenizer as the readers of tokenizer.json and of GGUF metadata understand
// it, whichever it came from. TokenizerImage.h turns it into the tables of an
// executable.
//
// The stages are lists of steps, so that a tokenizer with other normalizers or
// pre-tokenizers needs a new kind of step and a row in the readers' tables.
#ifndef INGOT_COMPILER_TEXT_TOKENIZERDESCRIPTION_H
#define INGOT_COMPILER_TEXT_TOKENIZERDESCRIPTION_H

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ingot {

/// A piece of the model's vocabulary. In a byte-level model the text has one
/// character of the byte-level alphabet for each byte.
struct VocabularyEntry {
  std::string text;
  uint32_t id;
  double score = 0; ///< Unigram: log probability
  /// Pieces of text can become it (unlike GGUF's unused tokens).
  bool reachable = true;
};

/// left and right become merged, all ids; the lowest rank goes first.
struct MergeRule {
  uint32_t left, right, merged, rank;
};

/// A token that is found in the text before the model sees it.
struct AddedToken {
  std::string content;
  uint32_t id = 0;
  bool special = false;    ///< left out when special tokens are skipped
  bool singleWord = false; ///< only between characters that are not \w
  bool lstrip = false;     ///< takes the white space before it
  bool rstrip = false;     ///< takes the white space after it
  bool normalized = true;  ///< matched in normalized text, itself normalized
};

struct NormalizerStep {
  enum class Kind {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
    Lowercase,
    RemoveMarks, ///< StripAccents
    Nmt,
    BertClean,      ///< no control characters, every white space a space
    BertSpaced,     ///< spaces around Chinese characters
    BertUnmark,     ///< no non-spacing marks
    ReplaceLiteral, ///< `text` by `content`
    ReplacePattern, ///< matches of `text` by `content`
    Prepend,        ///< `content` before what is not empty
    Strip,          ///< white space at the sides named
    ByteLevel,
  };
  Kind kind;
  std::string text = {}, content = {};
  bool left = false, right = false;
};

struct PreTokenizerStep {
  enum class Kind {
    SplitPattern,     ///< `text` is a regular expression
    SplitRustPattern, ///< the same as Rust's engine reads it
    SplitLiteral,     ///< `text` stands for itself
    SplitNumeric,     ///< each numeric character matches
    SplitSpace,       ///< each white space character
    SplitPunctuation, ///< each punctuation character
    PrefixSpace,      ///< a space before a piece that does not start with one
    Metaspace,        ///< spaces become `text`, see prepend and split
    ByteLevel,        ///< bytes become characters of the byte-level alphabet
  };
  /// What becomes of matches, see ingot_rt_tok_behavior (equal values).
  enum class Behavior { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };
  Kind kind;
  std::string text = {};
  Behavior behavior = Behavior::Isolated;
  bool invert = false;
  /// Metaspace: where to put a character in front, see ingot_rt_tok_scheme
  /// (equal values), and whether to split before each.
  enum class Prepend { Never, First, Always };
  Prepend prepend = Prepend::Never;
  bool split = false;
};

struct DecoderStep {
  /// See ingot_rt_tok_decoder_kind (equal names and values).
  enum class Kind {
    ByteLevel = 1,
    ByteFallback,
    Fuse,
    ReplaceLiteral,
    ReplacePattern,
    Strip,
    Metaspace,
    Join,
    Suffix,
    Prefix,
  };
  Kind kind;
  std::string text = {}, content = {};
  uint32_t left = 0, right = 0;
};

struct TokenizerDescription {
  /// What errors about it call the file.
  std::string file;

  enum class Model { BytePair, Unigram };
  Model model = Model::BytePair;
  std::vector<VocabularyEntry> vocabulary;
  std::vector<MergeRule> merges;
  /// What a character without a piece becomes; nothing: it is dropped.
  std::optional<uint32_t> unknownId;
  bool fuseUnknown = false;
  /// It becomes the tokens <0xXX> of its bytes, where all of them exist.
  bool byteFallback = false;
  /// A piece of text that is in the vocabulary is not split by merges.
  bool ignoreMerges = false;
  /// What characters but the first have before them, and the last after it.
  std::string continuingPrefix, wordSuffix;

  std::vector<AddedToken> added;
  std::vector<NormalizerStep> normalizers;
  std::vector<PreTokenizerStep> preTokenizers;
  std::vector<DecoderStep> decoders;
  /// Ids put around a text's own by the post-processor.
  std::vector<uint32_t> prefix, suffix;
};

/// GPT-2's pattern, which the pre-tokenizer ByteLevel implies.
inline constexpr char gpt2Pattern[] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// The character (below U+0144) that stands for each byte in a byte-level
/// vocabulary: itself where it is printable, else one from U+0100 on, in order.
std::array<uint16_t, 256> byteLevelAlphabet();

/// The bytes of a text in the byte-level alphabet; nothing if a character is
/// not in it.
std::optional<std::string> bytesOfByteLevel(const std::string &text);

} // namespace ingot

#endif // INGOT_COMPILER_TEXT_TOKENIZERDESCRIPTION_H
