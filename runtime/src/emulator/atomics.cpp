// See atomics.h.
#include "emulator/atomics.h"

#include "ingot_rt/emulate.h"

#include <algorithm>
#include <bit>
#include <type_traits>

namespace ingot::rt {

uint32_t atomicBytes(uint32_t type) { return type == INGOT_RT_ATOMIC_I64 ? 8 : 4; }

/// Of unsigned integers, whose sums wrap around.
template <typename T>
static T integerResult(uint32_t kind, T old, T value, T compare) {
  using Signed = std::make_signed_t<T>;
  switch (kind) {
  case INGOT_RT_ATOMIC_ADD:
    return old + value;
  case INGOT_RT_ATOMIC_MIN:
    return static_cast<T>(std::min(static_cast<Signed>(old), static_cast<Signed>(value)));
  case INGOT_RT_ATOMIC_MAX:
    return static_cast<T>(std::max(static_cast<Signed>(old), static_cast<Signed>(value)));
  case INGOT_RT_ATOMIC_UMIN:
    return std::min(old, value);
  case INGOT_RT_ATOMIC_UMAX:
    return std::max(old, value);
  case INGOT_RT_ATOMIC_AND:
    return old & value;
  case INGOT_RT_ATOMIC_OR:
    return old | value;
  case INGOT_RT_ATOMIC_XOR:
    return old ^ value;
  case INGOT_RT_ATOMIC_CAS:
    return old == compare ? value : old;
  case INGOT_RT_ATOMIC_INCREMENT:
    return old >= value ? 0 : old + 1;
  case INGOT_RT_ATOMIC_DECREMENT:
    return old == 0 || old > value ? value : old - 1;
  default: // EXCHANGE
    return value;
  }
}

uint64_t atomicResult(uint32_t kind, uint32_t type, uint64_t old, uint64_t value, uint64_t compare) {
  if (type == INGOT_RT_ATOMIC_I64)
    return integerResult<uint64_t>(kind, old, value, compare);
  auto low = [](uint64_t word) { return static_cast<uint32_t>(word); };
  if (type == INGOT_RT_ATOMIC_F32 && kind == INGOT_RT_ATOMIC_ADD)
    return std::bit_cast<uint32_t>(std::bit_cast<float>(low(old)) + std::bit_cast<float>(low(value)));
  return integerResult<uint32_t>(kind, low(old), low(value), low(compare));
}

} // namespace ingot::rt
