// The decoders of a tokenizer section, for tokens that come one by one.
#ifndef INGOT_RUNTIME_TOKENIZER_DECODER_H
#define INGOT_RUNTIME_TOKENIZER_DECODER_H

#include "tokenizer/tables.h"
#include "tokenizer/utf8.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::rt {

/// The reference gives the whole list of tokens to one decoder after the other.
/// Here each decoder is a stage that passes on what is certain as soon as it is:
/// a token begins, its text comes in parts, it ends; at last the list ends.
class DecoderChain {
public:
  /// Text is appended to what push and finish are given.
  DecoderChain(const uint8_t *base, const ingot_rt_tok_header &header);

  void push(std::string_view token, std::string &text);
  void finish(std::string &text);

private:
  struct Stage {
    const ingot_rt_tok_decoder *step;
    std::string held = {};  ///< text whose fate is open
    uint64_t count = 0;     ///< tokens begun; STRIP: characters still to strip
    bool open = false;      ///< FUSE, BYTE_LEVEL: the one token has begun; SUFFIX: one is held
    bool passing = false;   ///< BYTE_FALLBACK: this token is no byte; STRIP: past its start
    std::string bytes = {}; ///< BYTE_FALLBACK: the run so far
    Utf8Stream utf8 = {};
  };

  void begin(size_t stage);
  void part(size_t stage, std::string_view text);
  void end(size_t stage);
  void finish(size_t stage);
  /// A whole token for the stage.
  void token(size_t stage, std::string_view text);

  void beginFused(size_t stage);
  void flushBytes(size_t stage);
  void replacePart(size_t stage, std::string_view text);
  std::string replaceMatches(const ingot_rt_tok_decoder &step, std::string_view text) const;
  void stripPart(size_t stage, std::string_view text);
  void endStrip(size_t stage);
  void metaspacePart(size_t stage, std::string_view text);
  void endPrefixed(size_t stage);

  const uint8_t *base;
  Table<char> bytes;
  Table<ingot_rt_tok_automaton> automata;
  std::vector<Stage> stages;
  std::string *out = nullptr;
  /// What comes out is UTF-8 unless the tables are damaged.
  Utf8Stream checked;
};

} // namespace ingot::rt

#endif // INGOT_RUNTIME_TOKENIZER_DECODER_H
