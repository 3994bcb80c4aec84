// Sizes that cannot wrap: products and sums of dimensions go through this type.
#ifndef INGOT_RUNTIME_SUPPORT_CHECKED_H
#define INGOT_RUNTIME_SUPPORT_CHECKED_H

#include <cstdint>

namespace ingot::rt {

/// A 64-bit size that remembers whether any step of its computation overflowed.
struct Checked {
  uint64_t value = 0;
  bool overflowed = false;

  constexpr Checked(uint64_t value) : value(value) {}

  friend constexpr Checked operator*(Checked a, Checked b) {
    Checked result(0);
    result.overflowed = a.overflowed | b.overflowed | __builtin_mul_overflow(a.value, b.value, &result.value);
    return result;
  }
  friend constexpr Checked operator+(Checked a, Checked b) {
    Checked result(0);
    result.overflowed = a.overflowed | b.overflowed | __builtin_add_overflow(a.value, b.value, &result.value);
    return result;
  }
  /// Rounded up to a multiple of `unit`, which is a power of two.
  constexpr Checked roundedUp(uint64_t unit) const {
    Checked result = *this + Checked(unit - 1);
    result.value &= ~(unit - 1);
    return result;
  }
};

constexpr uint64_t ceilDiv(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }
constexpr uint64_t roundUp(uint64_t a, uint64_t unit) { return ceilDiv(a, unit) * unit; }

} // namespace ingot::rt
#endif // INGOT_RUNTIME_SUPPORT_CHECKED_H
