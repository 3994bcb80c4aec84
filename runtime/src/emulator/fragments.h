// The products of tensor cores: which element of a matrix lies in which register of which thread (PTX ISA, "Matrix
// Fragments for mma.m16n8k16" and "for mma.m16n8k8"), and what is made of them.
#ifndef INGOT_RUNTIME_EMULATOR_FRAGMENTS_H
#define INGOT_RUNTIME_EMULATOR_FRAGMENTS_H

#include <cstdint>

namespace ingot::rt {

/// The registers of the 32 threads of a warp: A, B and C.
struct FragmentsOfWarp {
  uint32_t a[32][4], b[32][2];
  float c[32][4];
};

/// Replaces C by A B + C, for a shape and type of ingot_rt_mma. PTX leaves order and rounding of the sum open, but for
/// its being no less precise than f32: here it is taken in float64 and rounded once.
void multiplyFragments(uint32_t kind, FragmentsOfWarp &fragments);

} // namespace ingot::rt
#endif // INGOT_RUNTIME_EMULATOR_FRAGMENTS_H
