// What an atomic operation makes of a value (PTX ISA, "atom").
#ifndef INGOT_RUNTIME_EMULATOR_ATOMICS_H
#define INGOT_RUNTIME_EMULATOR_ATOMICS_H

#include <cstdint>

namespace ingot::rt {

/// Bytes of an ingot_rt_atomic_type.
uint32_t atomicBytes(uint32_t type);

/// What an operation `kind` of ingot_rt_atomic leaves where `old` lay, as bits of the type.
uint64_t atomicResult(uint32_t kind, uint32_t type, uint64_t old, uint64_t value, uint64_t compare);

} // namespace ingot::rt
#endif // INGOT_RUNTIME_EMULATOR_ATOMICS_H
