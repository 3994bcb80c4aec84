// UTF-8 reading and replacement, see utf8.h.
#include "tokenizer/utf8.h"

#include <cstring>

namespace ingot::rt {

static constexpr uint32_t replacement = 0xfffd;

Utf8Step readUtf8(const char *at, const char *end) {
  auto byte = [&](int64_t i) { return static_cast<uint8_t>(at[i]); };
  const int64_t available = end - at;
  const uint8_t first = byte(0);
  if (first < 0x80)
    return {Utf8Step::Kind::Valid, 1, first};

  // The second byte's range excludes overlong forms, surrogates and values past
  // U+10FFFF (Unicode 3.9, table 3-7).
  uint32_t length = 0, value = 0, low = 0x80, high = 0xbf;
  if (first >= 0xc2 && first <= 0xdf) {
    length = 2;
    value = first & 0x1f;
  } else if (first >= 0xe0 && first <= 0xef) {
    length = 3;
    value = first & 0x0f;
    low = first == 0xe0 ? 0xa0 : 0x80;
    high = first == 0xed ? 0x9f : 0xbf;
  } else if (first >= 0xf0 && first <= 0xf4) {
    length = 4;
    value = first & 0x07;
    low = first == 0xf0 ? 0x90 : 0x80;
    high = first == 0xf4 ? 0x8f : 0xbf;
  } else {
    return {Utf8Step::Kind::Broken, 1, replacement};
  }
  for (uint32_t i = 1; i < length; ++i) {
    if (i >= available)
      return {Utf8Step::Kind::Incomplete, i, replacement};
    if (byte(i) < low || byte(i) > high)
      return {Utf8Step::Kind::Broken, i, replacement};
    value = (value << 6) | (byte(i) & 0x3f);
    low = 0x80;
    high = 0xbf;
  }
  return {Utf8Step::Kind::Valid, length, value};
}

void appendUtf8(std::string &text, uint32_t codePoint) {
  auto put = [&](uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (codePoint < 0x80) {
    put(codePoint);
  } else if (codePoint < 0x800) {
    put(0xc0 | (codePoint >> 6));
    put(0x80 | (codePoint & 0x3f));
  } else if (codePoint < 0x10000) {
    put(0xe0 | (codePoint >> 12));
    put(0x80 | ((codePoint >> 6) & 0x3f));
    put(0x80 | (codePoint & 0x3f));
  } else {
    put(0xf0 | (codePoint >> 18));
    put(0x80 | ((codePoint >> 12) & 0x3f));
    put(0x80 | ((codePoint >> 6) & 0x3f));
    put(0x80 | (codePoint & 0x3f));
  }
}

/// How many of the bytes [at, end) are ASCII before the first that is not, or a
/// little fewer.
static int64_t asciiRun(const char *at, const char *end) {
  const char *start = at;
  for (; end - at >= 8; at += 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    if (word & 0x8080808080808080ull)
      break;
  }
  return at - start;
}

bool isValidUtf8(std::string_view text) {
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    if (int64_t run = asciiRun(at, end)) {
      at += run;
      continue;
    }
    Utf8Step step = readUtf8(at, end);
    if (step.kind != Utf8Step::Kind::Valid)
      return false;
    at += step.length;
  }
  return true;
}

void appendLossyUtf8(std::string &text, std::string_view bytes) {
  Utf8Stream stream;
  stream.push(bytes, text);
  stream.finish(text);
}

void Utf8Stream::push(std::string_view bytes, std::string &text) {
  // The held bytes are completed or given up with the help of the new ones.
  while (!held.empty() && !bytes.empty()) {
    held.push_back(bytes.front());
    Utf8Step step = readUtf8(held.data(), held.data() + held.size());
    if (step.kind == Utf8Step::Kind::Incomplete) {
      bytes.remove_prefix(1);
    } else if (step.kind == Utf8Step::Kind::Valid) {
      bytes.remove_prefix(1);
      text += held;
      held.clear();
    } else {
      // The new byte does not continue it and is read again on its own.
      appendUtf8(text, replacement);
      held.clear();
    }
  }
  const char *at = bytes.data(), *end = at + bytes.size();
  while (at < end) {
    if (int64_t run = asciiRun(at, end)) {
      text.append(at, run);
      at += run;
      continue;
    }
    Utf8Step step = readUtf8(at, end);
    if (step.kind == Utf8Step::Kind::Valid)
      text.append(at, step.length);
    else if (step.kind == Utf8Step::Kind::Broken)
      appendUtf8(text, replacement);
    else
      held.assign(at, step.length);
    at += step.length;
  }
}

void Utf8Stream::finish(std::string &text) {
  if (!held.empty())
    appendUtf8(text, replacement);
  held.clear();
}

} // namespace ingot::rt
