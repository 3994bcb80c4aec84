// What emulated kernels call for tensor cores, for copies from global to shared memory and for atomic operations, by
// the definitions of PTX, beside what device.h has. `what` names the place in the kernel.
#ifndef INGOT_RT_EMULATE_H
#define INGOT_RT_EMULATE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// mma.sync.aligned.*.row.col with accumulators of f32: 4 registers of A, 2 of B, 4 of C, which become those of D.
enum ingot_rt_mma { INGOT_RT_MMA_M16N8K16_BF16 = 0, INGOT_RT_MMA_M16N8K16_F16 = 1, INGOT_RT_MMA_M16N8K8_TF32 = 2 };
void ingot_rt_emulate_mma(uint32_t kind, const uint32_t *a, const uint32_t *b, float *accumulators, const char *what);
/// ldmatrix.sync.aligned.m8n8.x<count>.shared.b16, with `transposed` .trans: `row` is the row that the thread points
/// at, `registers` receives `count`.
void ingot_rt_emulate_load_matrix(const void *row, uint32_t count, uint32_t transposed, uint32_t *registers,
                                  const char *what);
/// cp.async.shared.global of `bytes` (4, 8 or 16), of which `source_bytes` are read and the others zero; into the
/// group that the next commit closes.
void ingot_rt_emulate_copy(void *to, const void *from, uint32_t bytes, uint32_t source_bytes, const char *what);
/// cp.async.commit_group.
void ingot_rt_emulate_copy_commit(void);
/// cp.async.wait_group: until no group of the thread but the `pending` latest ones is in flight.
void ingot_rt_emulate_copy_wait(uint32_t pending);

/// atom.relaxed on global or shared memory: what lay there before. Operands and result are the type's bits, in the
/// lower ones of 64. MIN and MAX are of signed integers, UMIN and UMAX of unsigned ones; INCREMENT and DECREMENT are
/// atom.inc and atom.dec of 32 bits; floats have ADD and EXCHANGE only. `compare` is for CAS.
enum ingot_rt_atomic {
  INGOT_RT_ATOMIC_ADD = 0,
  INGOT_RT_ATOMIC_MIN = 1,
  INGOT_RT_ATOMIC_MAX = 2,
  INGOT_RT_ATOMIC_UMIN = 3,
  INGOT_RT_ATOMIC_UMAX = 4,
  INGOT_RT_ATOMIC_AND = 5,
  INGOT_RT_ATOMIC_OR = 6,
  INGOT_RT_ATOMIC_XOR = 7,
  INGOT_RT_ATOMIC_EXCHANGE = 8,
  INGOT_RT_ATOMIC_CAS = 9,
  INGOT_RT_ATOMIC_INCREMENT = 10,
  INGOT_RT_ATOMIC_DECREMENT = 11
};
enum ingot_rt_atomic_type { INGOT_RT_ATOMIC_I32 = 0, INGOT_RT_ATOMIC_I64 = 1, INGOT_RT_ATOMIC_F32 = 2 };
uint64_t ingot_rt_emulate_atomic(uint32_t kind, uint32_t type, void *address, uint64_t value, uint64_t compare,
                                 const char *what);

#ifdef __cplusplus
}
#endif
#endif // INGOT_RT_EMULATE_H
