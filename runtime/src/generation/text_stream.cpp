// Stop strings.
#include "generation/text_stream.h"

#include <algorithm>

namespace ingot::rt {

StopFilter::StopFilter(std::vector<std::string> list) : stops(std::move(list)) { std::erase(stops, std::string()); }

std::string StopFilter::push(std::string_view text) {
  if (found)
    return "";
  held += text;
  size_t first = std::string::npos;
  for (const std::string &stop : stops)
    first = std::min(first, held.find(stop));
  std::string shown;
  if (first != std::string::npos) {
    found = true;
    shown = held.substr(0, first);
    held.clear();
    return shown;
  }
  // From the first place on at which a stop string may have begun, the text waits.
  size_t keep = 0;
  for (const std::string &stop : stops)
    for (size_t length = std::min(stop.size() - 1, held.size()); length > keep; --length)
      if (std::string_view(held).substr(held.size() - length) == std::string_view(stop).substr(0, length))
        keep = length;
  shown = held.substr(0, held.size() - keep);
  held.erase(0, held.size() - keep);
  return shown;
}

std::string StopFilter::finish() {
  std::string shown;
  if (!found)
    std::swap(shown, held);
  return shown;
}

} // namespace ingot::rt
