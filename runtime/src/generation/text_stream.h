// From generated tokens to text that may be shown: characters are whole, special tokens are left out, and nothing that
// might still turn out to be the beginning of a stop string is shown.
#ifndef INGOT_RUNTIME_GENERATION_TEXT_STREAM_H
#define INGOT_RUNTIME_GENERATION_TEXT_STREAM_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::rt {

/// Watches text for stop strings, piece by piece. The text before the first one that is complete is the result.
class StopFilter {
public:
  /// Empty stop strings are ignored.
  explicit StopFilter(std::vector<std::string> stops);

  /// Takes more text; returns what can be shown now. After a stop string was seen, nothing is.
  std::string push(std::string_view text);
  /// The rest, when the text ends without a stop string.
  std::string finish();
  bool stopped() const { return found; }

private:
  std::vector<std::string> stops;
  std::string held; ///< not shown yet: may be the beginning of a stop string
  bool found = false;
};

} // namespace ingot::rt
#endif // INGOT_RUNTIME_GENERATION_TEXT_STREAM_H
