// A set of Unicode code points as sorted ranges: what a character class of a
// split pattern denotes.
#ifndef INGOT_COMPILER_TEXT_CODEPOINTSET_H
#define INGOT_COMPILER_TEXT_CODEPOINTSET_H

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace ingot {

inline constexpr uint32_t lastCodePoint = 0x10ffff;

class CodePointSet {
public:
  struct Range {
    uint32_t first, last; ///< both inside
    auto operator<=>(const Range &) const = default;
  };

  CodePointSet() = default;
  CodePointSet(std::initializer_list<Range> list) : parts(list) { tidy(); }

  void add(uint32_t first, uint32_t last) {
    parts.push_back({first, last});
    tidy();
  }
  void add(const CodePointSet &other) {
    parts.insert(parts.end(), other.parts.begin(), other.parts.end());
    tidy();
  }
  /// Ranges that come sorted are added without sorting each time.
  void append(uint32_t first, uint32_t last) {
    if (!parts.empty() && parts.back().last + 1 == first)
      parts.back().last = last;
    else
      parts.push_back({first, last});
  }

  CodePointSet complement() const {
    CodePointSet result;
    uint32_t next = 0;
    for (Range range : parts) {
      if (range.first > next)
        result.parts.push_back({next, range.first - 1});
      next = range.last + 1;
    }
    if (next <= lastCodePoint)
      result.parts.push_back({next, lastCodePoint});
    return result;
  }

  bool contains(uint32_t codePoint) const {
    auto after = std::upper_bound(parts.begin(), parts.end(), codePoint,
                                  [](uint32_t c, const Range &range) { return c < range.first; });
    return after != parts.begin() && codePoint <= std::prev(after)->last;
  }

  /// Sorted, apart from each other.
  const std::vector<Range> &ranges() const { return parts; }
  bool operator==(const CodePointSet &) const = default;

private:
  void tidy() {
    std::sort(parts.begin(), parts.end());
    std::vector<Range> merged;
    for (Range range : parts) {
      if (!merged.empty() && range.first <= merged.back().last + 1)
        merged.back().last = std::max(merged.back().last, range.last);
      else
        merged.push_back(range);
    }
    parts = std::move(merged);
  }

  std::vector<Range> parts;
};

} // namespace ingot

#endif // INGOT_COMPILER_TEXT_CODEPOINTSET_H
