// A buffered writer to a file descriptor, and a JSON writer on top of it. stdout is written through it, so that a
// closed pipe is noticed once and ends the program quietly.
#ifndef INGOT_RUNTIME_SUPPORT_OUTPUT_H
#define INGOT_RUNTIME_SUPPORT_OUTPUT_H

#include "support/error.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::rt {

/// Buffers text for a file descriptor. Errors are kept and told by `finish`; after one, writes do nothing.
class Output {
public:
  explicit Output(int descriptor) : descriptor(descriptor) {}

  void write(std::string_view text);
  void print(const char *format, ...) __attribute__((format(printf, 2, 3)));
  void flush();
  /// errno of the first write that failed, 0 if none did. EPIPE: the reader has gone.
  int failed() const { return failure; }

private:
  int descriptor;
  int failure = 0;
  std::string buffer;
};

/// Writes one JSON text, commas and quotes included. Strings are taken as UTF-8; bytes that are not become U+FFFD.
class JsonWriter {
public:
  explicit JsonWriter(Output &output) : output(output) {}

  void beginObject() { open('{'); }
  void endObject() { close('}'); }
  void beginArray() { open('['); }
  void endArray() { close(']'); }
  void key(std::string_view name);
  void text(std::string_view value);
  void number(uint64_t value);
  void integer(int64_t value);
  /// %.9g, which gives the same float back; infinities and NaN, which JSON lacks, are null.
  void number(float value);
  void number(double value, int digits);
  void boolean(bool value);
  void null();
  /// A value that is JSON already.
  void raw(std::string_view value);
  void tokens(const int32_t *ids, size_t count);

private:
  void open(char bracket);
  void close(char bracket);
  void separate();
  void real(double value, int digits);

  Output &output;
  std::vector<bool> filled; ///< per open bracket: has it a member already?
  bool afterKey = false;
};

/// `text` as valid UTF-8: every byte that is not part of a well-formed sequence becomes U+FFFD.
std::string validUtf8(std::string_view text);

/// How many bytes at the end of `text` are the beginning of a UTF-8 sequence that is not complete yet, 0 to 3.
size_t incompleteUtf8(std::string_view text);

} // namespace ingot::rt
#endif // INGOT_RUNTIME_SUPPORT_OUTPUT_H
