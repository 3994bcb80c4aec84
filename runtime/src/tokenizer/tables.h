// Bounds-checked views of the tables in a tokenizer section.
#ifndef INGOT_RUNTIME_TOKENIZER_TABLES_H
#define INGOT_RUNTIME_TOKENIZER_TABLES_H

#include "ingot_rt/image_tokenizer.h"

#include <cstdint>
#include <string_view>

namespace ingot::rt {

/// The elements of an ingot_rt_tok_array whose extent was checked when the
/// section was opened.
template <typename T>
struct Table {
  const T *data = nullptr;
  uint64_t count = 0;

  Table() = default;
  Table(const uint8_t *base, const ingot_rt_tok_array &array)
      : data(reinterpret_cast<const T *>(base + array.offset)), count(array.count) {}

  /// The element, or null past the end.
  const T *at(uint64_t index) const { return index < count ? data + index : nullptr; }
};

/// A byte for every code point; 0 where the tables are damaged or absent.
struct CodePointMap {
  Table<uint16_t> pageOf;
  Table<uint8_t> pages;

  CodePointMap() = default;
  CodePointMap(const uint8_t *base, const ingot_rt_tok_code_point_map &map)
      : pageOf(base, map.page_of), pages(base, map.pages) {}

  uint8_t operator[](uint32_t codePoint) const {
    const uint16_t *page = pageOf.at(codePoint >> 8);
    if (!page)
      return 0;
    const uint8_t *value = pages.at(*page * 256u + (codePoint & 255));
    return value ? *value : 0;
  }
};

/// A uint32_t for every code point; NONE where the tables are damaged or absent.
struct IdMap {
  Table<uint16_t> pageOf;
  Table<uint32_t> pages;

  IdMap() = default;
  IdMap(const uint8_t *base, const ingot_rt_tok_id_map &map) : pageOf(base, map.page_of), pages(base, map.pages) {}

  uint32_t operator[](uint32_t codePoint) const {
    const uint16_t *page = pageOf.at(codePoint >> 8);
    const uint32_t *value = page ? pages.at(*page * 256u + (codePoint & 255)) : nullptr;
    return value ? *value : INGOT_RT_TOK_NONE;
  }
};

/// `length` bytes at `offset` of the pool, empty if they do not lie inside.
inline std::string_view poolBytes(const Table<char> &pool, uint64_t offset, uint64_t length) {
  if (offset > pool.count || length > pool.count - offset)
    return {};
  return {pool.data + offset, length};
}

inline std::string_view poolBytes(const Table<char> &pool, const ingot_rt_tok_text &text) {
  return poolBytes(pool, text.offset, text.length);
}

} // namespace ingot::rt

#endif // INGOT_RUNTIME_TOKENIZER_TABLES_H
