// Stop strings.
#include "generation/text_stream.h"

#include <algorithm>
#include <utility>

namespace ingot::rt {

uint32_t StopMatcher::childOf(uint32_t node, unsigned char byte) const {
  uint32_t child = nodes[node].child;
  while (child != 0 && nodes[child].byte != byte)
    child = nodes[child].sibling;
  return child;
}

/// The longest prefix that ends with `byte`, once the text so far ends with the prefix `node`.
uint32_t StopMatcher::follow(uint32_t node, unsigned char byte) const {
  for (;;) {
    if (uint32_t child = childOf(node, byte))
      return child;
    if (node == 0)
      return 0;
    node = nodes[node].suffix;
  }
}

StopMatcher::StopMatcher(const std::vector<std::string> &stops) : nodes(1) {
  for (const std::string &stop : stops) {
    uint32_t node = 0;
    for (char c : stop) {
      auto byte = static_cast<unsigned char>(c);
      uint32_t child = childOf(node, byte);
      if (child == 0) {
        child = static_cast<uint32_t>(nodes.size());
        nodes.push_back({.sibling = nodes[node].child, .depth = nodes[node].depth + 1, .byte = byte});
        nodes[node].child = child;
      }
      node = child;
    }
    nodes[node].match = nodes[node].depth;
  }
  // Shorter prefixes first, since a suffix is shorter than what it is a suffix of.
  std::vector<uint32_t> order = {0};
  order.reserve(nodes.size());
  for (size_t i = 0; i < order.size(); ++i)
    for (uint32_t child = nodes[order[i]].child; child != 0; child = nodes[child].sibling) {
      Node &node = nodes[child];
      node.suffix = order[i] == 0 ? 0 : follow(nodes[order[i]].suffix, node.byte);
      node.match = std::max(node.match, nodes[node.suffix].match);
      order.push_back(child);
    }
}

std::string StopMatcher::push(std::string_view text) {
  if (found)
    return "";
  size_t waiting = held.size();
  held += text;
  for (size_t at = waiting; at < held.size(); ++at) {
    state = follow(state, static_cast<unsigned char>(held[at]));
    if (uint64_t length = nodes[state].match) {
      found = true;
      held.resize(at + 1 - length);
      return std::move(held);
    }
  }
  std::string shown = held.substr(0, held.size() - nodes[state].depth);
  held.erase(0, shown.size());
  return shown;
}

std::string StopMatcher::finish() { return found ? "" : std::exchange(held, ""); }

} // namespace ingot::rt
