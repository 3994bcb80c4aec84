// Buffered output, JSON and UTF-8 repair.
#include "support/output.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <unistd.h>

namespace ingot::rt {

namespace {
constexpr size_t bufferBytes = size_t(1) << 16;

/// Length of the well-formed UTF-8 sequence at the start of `text` (Unicode 15, table 3-7), 0 if there is none;
/// `needed` is the length that its first byte asks for, when what is there is a proper beginning of it.
size_t sequenceLength(std::string_view text, size_t &needed) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char first = byte(0), low = 0x80, high = 0xbf;
  needed = 0;
  size_t length = 0;
  if (first < 0x80)
    return 1;
  if (first >= 0xc2 && first <= 0xdf)
    length = 2;
  else if (first >= 0xe0 && first <= 0xef) {
    length = 3;
    low = first == 0xe0 ? 0xa0 : 0x80;
    high = first == 0xed ? 0x9f : 0xbf;
  } else if (first >= 0xf0 && first <= 0xf4) {
    length = 4;
    low = first == 0xf0 ? 0x90 : 0x80;
    high = first == 0xf4 ? 0x8f : 0xbf;
  } else
    return 0;
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) {
      needed = length;
      return 0;
    }
    if (byte(i) < low || byte(i) > high)
      return 0;
    low = 0x80;
    high = 0xbf;
  }
  return length;
}
} // namespace

void Output::flush() {
  size_t done = 0;
  while (done < buffer.size() && failure == 0) {
    ssize_t count = ::write(descriptor, buffer.data() + done, buffer.size() - done);
    if (count >= 0)
      done += static_cast<size_t>(count);
    else if (errno != EINTR)
      failure = errno;
  }
  buffer.clear();
}

void Output::write(std::string_view text) {
  if (failure != 0)
    return;
  buffer.append(text);
  if (buffer.size() >= bufferBytes)
    flush();
}

void Output::print(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write(formatTextV(format, arguments));
  va_end(arguments);
}

void JsonWriter::separate() {
  if (afterKey)
    afterKey = false;
  else if (!filled.empty()) {
    if (filled.back())
      output.write(", ");
    filled.back() = true;
  }
}

void JsonWriter::open(char bracket) {
  separate();
  output.write(std::string_view(&bracket, 1));
  filled.push_back(false);
}

void JsonWriter::close(char bracket) {
  filled.pop_back();
  output.write(std::string_view(&bracket, 1));
}

void JsonWriter::key(std::string_view name) {
  text(name);
  output.write(": ");
  afterKey = true;
}

void JsonWriter::text(std::string_view value) {
  separate();
  std::string quoted = "\"";
  for (char c : validUtf8(value)) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n')
      quoted += "\\n";
    else if (c == '\t')
      quoted += "\\t";
    else if (c == '\r')
      quoted += "\\r";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      quoted += formatText("\\u%04x", static_cast<unsigned>(c));
    else
      quoted += c;
  }
  quoted += '"';
  output.write(quoted);
}

void JsonWriter::number(uint64_t value) {
  separate();
  char digits[24];
  auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  output.write({digits, static_cast<size_t>(end - digits)});
}

void JsonWriter::integer(int64_t value) {
  separate();
  char digits[24];
  auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  output.write({digits, static_cast<size_t>(end - digits)});
}

void JsonWriter::real(double value, int digits) {
  separate();
  if (!std::isfinite(value)) {
    output.write("null");
    return;
  }
  char text[64];
  auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::general, digits).ptr;
  output.write({text, static_cast<size_t>(end - text)});
}

void JsonWriter::number(float value) { real(value, 9); }

void JsonWriter::number(double value, int digits) { real(value, digits); }

void JsonWriter::boolean(bool value) {
  separate();
  output.write(value ? "true" : "false");
}

void JsonWriter::null() { raw("null"); }

void JsonWriter::raw(std::string_view value) {
  separate();
  output.write(value);
}

void JsonWriter::tokens(const int32_t *ids, size_t count) {
  beginArray();
  for (size_t i = 0; i < count; ++i)
    integer(ids[i]);
  endArray();
}

std::string validUtf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    size_t needed = 0, length = sequenceLength(text, needed);
    if (length != 0) {
      result.append(text.substr(0, length));
      text.remove_prefix(length);
      continue;
    }
    result += "\xef\xbf\xbd";
    // A cut sequence at the end counts once (Unicode 15, 3.9: maximal subparts).
    text.remove_prefix(needed != 0 ? text.size() : 1);
  }
  return result;
}

size_t incompleteUtf8(std::string_view text) {
  for (size_t tail = 1; tail <= 3 && tail <= text.size(); ++tail) {
    size_t needed = 0;
    if (sequenceLength(text.substr(text.size() - tail), needed) == 0 && needed != 0)
      return tail;
  }
  return 0;
}

} // namespace ingot::rt
