// From generated tokens to text that may be shown: nothing that might still turn out to be the beginning of a stop
// string is shown, whatever pieces the text comes in.
#ifndef INGOT_RUNTIME_GENERATION_TEXT_STREAM_H
#define INGOT_RUNTIME_GENERATION_TEXT_STREAM_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::rt {

/// Watches text for stop strings, piece by piece. The stop string that is complete first ends the text; of those that
/// are complete at the same byte, the longest. The text before it is the result: it is the same however the text is cut
/// into pieces, since bytes are looked at one by one.
///
/// One pass over the text for any number of stop strings, with the automaton of A. Aho and M. Corasick, "Efficient
/// string matching", 1975: its state is the longest end of the text that begins a stop string, so the state's depth is
/// what has to wait. Where stop strings and pieces are whole characters of UTF-8, so is what is shown.
class StopMatcher {
public:
  /// Empty stop strings are ignored.
  explicit StopMatcher(const std::vector<std::string> &stops);

  /// Takes more text; returns what can be shown now. After a stop string was seen, nothing is.
  std::string push(std::string_view text);
  /// The rest, when the text ends without a stop string.
  std::string finish();
  bool stopped() const { return found; }

private:
  /// A prefix of one or more stop strings. The root is node 0.
  struct Node {
    uint32_t child = 0, sibling = 0; ///< first longer prefix, and the next of the same parent; 0: none
    uint32_t suffix = 0;             ///< the longest proper end of this prefix that is a prefix too
    uint64_t depth = 0;              ///< bytes
    uint64_t match = 0;              ///< bytes of the longest stop string that ends here; 0: none does
    unsigned char byte = 0;          ///< the last one
  };

  uint32_t childOf(uint32_t node, unsigned char byte) const;
  uint32_t follow(uint32_t node, unsigned char byte) const;

  std::vector<Node> nodes;
  uint32_t state = 0;
  std::string held; ///< not shown yet: the first nodes[state].depth bytes of some stop string
  bool found = false;
};

} // namespace ingot::rt
#endif // INGOT_RUNTIME_GENERATION_TEXT_STREAM_H
