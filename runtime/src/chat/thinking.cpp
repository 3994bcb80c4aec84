// Tags in a stream.
#include "chat/thinking.h"

#include <algorithm>

namespace ingot::rt {

namespace {
constexpr std::string_view openTag = "<think>", closeTag = "</think>";
} // namespace

void ThinkingSplitter::add(std::vector<Part> &parts, std::string_view text) const {
  if (!text.empty())
    parts.push_back({thinking ? Kind::Thinking : Kind::Answer, std::string(text)});
}

std::vector<ThinkingSplitter::Part> ThinkingSplitter::push(std::string_view text) {
  std::vector<Part> parts;
  held += text;
  for (;;) {
    std::string_view tag = thinking ? closeTag : openTag, all = held;
    size_t at = all.find(tag);
    if (at == std::string_view::npos) {
      size_t waits = std::min(all.size(), tag.size() - 1);
      while (!all.ends_with(tag.substr(0, waits)))
        --waits;
      add(parts, all.substr(0, all.size() - waits));
      held.erase(0, all.size() - waits);
      return parts;
    }
    add(parts, all.substr(0, at));
    parts.push_back({Kind::Tag, std::string(tag)});
    held.erase(0, at + tag.size());
    thinking = !thinking;
  }
}

std::vector<ThinkingSplitter::Part> ThinkingSplitter::finish() {
  std::vector<Part> parts;
  add(parts, held);
  held.clear();
  return parts;
}

bool opensThinking(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \t\r\n") + 1).ends_with(openTag);
}

std::string withoutControls(std::string_view text) {
  std::string shown;
  for (size_t i = 0; i < text.size(); ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    bool c0 = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f;
    bool c1 = byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (c0 || c1)
      shown += "\xef\xbf\xbd";
    else
      shown += text[i];
    i += c1;
  }
  return shown;
}

} // namespace ingot::rt
