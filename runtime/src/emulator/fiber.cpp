// Fibers: what a switch saves is the set of registers that the System V calling conventions (x86-64 psABI 3.2.1,
// AAPCS64 6.1) leave to the callee; everything else the compiler has saved around the call.
#include "emulator/fiber.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>

extern "C" {
/// Stores the stack pointer to *save and continues on the stack `load`.
void ingot_emulator_switch(void **save, void *load);
/// Where a prepared fiber starts: calls the entry with the context, both left in registers by its first frame.
void ingot_emulator_start();
}

#if defined(__x86_64__)
asm(R"(
.text
.type ingot_emulator_switch,@function
.globl ingot_emulator_switch
ingot_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size ingot_emulator_switch,.-ingot_emulator_switch
.type ingot_emulator_start,@function
.globl ingot_emulator_start
ingot_emulator_start:
  movq %rbx, %rdi
  callq *%r12
  ud2
.size ingot_emulator_start,.-ingot_emulator_start
)");
/// Words that the switch pops, in order, and where the entry, its context and the first address go. The frame's
/// distance from the stack's end leaves the stack aligned to 16 when `ingot_emulator_start` calls.
static constexpr int frameWords = 7, entryWord = 3, contextWord = 4, addressWord = 6, frameDistance = 248;
#elif defined(__aarch64__)
asm(R"(
.text
.type ingot_emulator_switch,%function
.globl ingot_emulator_switch
ingot_emulator_switch:
  stp x29, x30, [sp, #-160]!
  stp x19, x20, [sp, #16]
  stp x21, x22, [sp, #32]
  stp x23, x24, [sp, #48]
  stp x25, x26, [sp, #64]
  stp x27, x28, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #16]
  ldp x21, x22, [sp, #32]
  ldp x23, x24, [sp, #48]
  ldp x25, x26, [sp, #64]
  ldp x27, x28, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  ldp x29, x30, [sp], #160
  ret
.size ingot_emulator_switch,.-ingot_emulator_switch
.type ingot_emulator_start,%function
.globl ingot_emulator_start
ingot_emulator_start:
  mov x0, x20
  blr x19
  brk #0
.size ingot_emulator_start,.-ingot_emulator_start
)");
static constexpr int frameWords = 20, entryWord = 2, contextWord = 3, addressWord = 1, frameDistance = 256;
#else
#error "the emulator's switch between fibers is written for x86-64 and AArch64"
#endif

namespace ingot::rt {

Error Fibers::reserve(uint32_t count) {
  if (count <= fiberCount)
    return {};
  Result<Mapping> memory = Mapping::anonymous(uint64_t(count) * stackBytes, "stacks of emulated threads", false);
  if (!memory)
    return memory.takeError();
  stacks = std::move(*memory);
  Result<Mapping> words = Mapping::anonymous(uint64_t(count) * sizeof(void *), "emulated threads", false);
  if (!words)
    return words.takeError();
  saved = std::move(*words);
  positions = reinterpret_cast<void **>(saved.data());
  for (uint32_t i = 0; i < count; ++i)
    if (mprotect(stacks.data() + uint64_t(i) * stackBytes, 4096, PROT_NONE) != 0)
      return makeError("a guard page of an emulated thread's stack cannot be made: %s", strerror(errno));
  fiberCount = count;
  return {};
}

void Fibers::prepare(uint32_t index, Entry entry, void *context) {
  uint64_t *frame = reinterpret_cast<uint64_t *>(stackTop(index) - frameDistance);
  memset(frame, 0, frameWords * sizeof(uint64_t));
  frame[entryWord] = reinterpret_cast<uint64_t>(entry);
  frame[contextWord] = reinterpret_cast<uint64_t>(context);
  frame[addressWord] = reinterpret_cast<uint64_t>(&ingot_emulator_start);
  positions[index] = frame;
}

void Fibers::resume(uint32_t index) {
  current = index;
  ingot_emulator_switch(&scheduler, positions[index]);
}

void Fibers::pause() { ingot_emulator_switch(&positions[current], scheduler); }

} // namespace ingot::rt
