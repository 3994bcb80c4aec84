// Any bytes as stop strings and a text, cut anywhere: what is shown is the text up to the stop string that is complete
// first. Up to four stop strings, each with its length before it (modulo 8), then a byte that seeds the cuts, then the
// text.
#include "generation/text_stream.h"
#include <algorithm>
#include <cstdlib>

using namespace ingot;

static void require(bool holds) {
  if (!holds)
    std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view input(reinterpret_cast<const char *>(data), size);
  auto take = [&](size_t length) {
    std::string_view part = input.substr(0, length);
    input.remove_prefix(part.size());
    return part;
  };
  auto number = [&] {
    std::string_view byte = take(1);
    return byte.empty() ? 0u : static_cast<unsigned char>(byte[0]);
  };
  std::vector<std::string> stops(number() % 5);
  for (std::string &stop : stops)
    stop = take(number() % 8);
  uint32_t random = number() + 1;

  std::string_view expected = input;
  bool ended = false;
  for (size_t end = 1; end <= input.size() && !ended; ++end)
    for (const std::string &stop : stops)
      if (!stop.empty() && input.substr(0, end).ends_with(stop)) {
        ended = true;
        expected = expected.substr(0, std::min(expected.size(), end - stop.size()));
      }

  rt::StopMatcher matcher(stops);
  std::string shown;
  size_t longest = 0, seen = 0;
  for (const std::string &stop : stops)
    longest = std::max(longest, stop.size());
  while (seen < input.size()) {
    random = random * 1664525 + 1013904223;
    std::string_view piece = input.substr(seen, (random >> 24) % 7);
    shown += matcher.push(piece);
    seen += piece.size();
    require(expected.starts_with(shown));
    require(matcher.stopped() || shown.size() + longest >= seen); // no more waits than could begin a stop string
  }
  shown += matcher.finish();
  require(shown == expected && matcher.stopped() == ended);
  return 0;
}
