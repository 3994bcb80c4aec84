// Building strings with the marks of their bytes.
#include "template/text.h"

#include <algorithm>

namespace ingot::rt::tpl {

uint32_t codePointAt(std::string_view text, size_t at) {
  size_t length = characterLength(text[at]);
  auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[at + i])); };
  if (at + length > text.size() || length == 1)
    return byte(0);
  uint32_t code = byte(0) & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i)
    code = code << 6 | (byte(i) & 63);
  return code;
}

size_t previousCharacter(std::string_view text, size_t at) {
  do
    --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
  return at;
}

size_t countCharacters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

const std::shared_ptr<const Text::Data> &Text::empty() {
  static const std::shared_ptr<const Data> data = std::make_shared<const Data>();
  return data;
}

Text::Text(std::string bytes, bool trusted) {
  auto made = std::make_shared<Data>();
  made->bytes = std::move(bytes);
  made->length = countCharacters(made->bytes);
  if (trusted && !made->bytes.empty())
    made->trusted.push_back({0, made->bytes.size()});
  data = std::move(made);
}

bool Text::isTrusted(size_t at) const {
  auto found = std::partition_point(data->trusted.begin(), data->trusted.end(),
                                    [&](const ByteRange &range) { return range.end <= at; });
  return found != data->trusted.end() && found->begin <= at;
}

size_t Text::offsetOf(size_t index) const {
  if (isAscii())
    return index;
  size_t at = 0;
  while (index-- > 0 && at < size())
    at += characterLength(data->bytes[at]);
  return std::min(at, size());
}

Text Text::slice(size_t begin, size_t end) const {
  if (begin == 0 && end == size())
    return *this;
  TextBuilder builder;
  builder.append(*this, begin, end);
  return builder.take(isMarkup());
}

Text Text::withMarkup(bool markup) const {
  if (markup == data->markup)
    return *this;
  auto made = std::make_shared<Data>(*data);
  made->markup = markup;
  return Text(std::move(made));
}

void TextBuilder::trust(size_t begin, size_t end) {
  if (begin == end)
    return;
  if (!trusted.empty() && trusted.back().end == begin)
    trusted.back().end = end;
  else
    trusted.push_back({begin, end});
}

void TextBuilder::append(const Text &text, size_t begin, size_t end) {
  if (begin >= end)
    return;
  size_t base = bytes.size();
  bytes.append(text.bytes().substr(begin, end - begin));
  const std::vector<ByteRange> &ranges = text.trusted();
  auto range =
      std::partition_point(ranges.begin(), ranges.end(), [&](const ByteRange &one) { return one.end <= begin; });
  for (; range != ranges.end() && range->begin < end; ++range)
    trust(base + std::max(range->begin, begin) - begin, base + std::min(range->end, end) - begin);
}

void TextBuilder::append(std::string_view text, bool isTrusted) {
  size_t base = bytes.size();
  bytes.append(text);
  if (isTrusted)
    trust(base, bytes.size());
}

Text TextBuilder::take(bool markup) {
  auto made = std::make_shared<Text::Data>();
  made->bytes = std::move(bytes);
  made->trusted = std::move(trusted);
  made->length = countCharacters(made->bytes);
  made->markup = markup;
  bytes.clear();
  trusted.clear();
  return Text(std::move(made));
}

} // namespace ingot::rt::tpl
