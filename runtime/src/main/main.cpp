// The entry of every executable, and the note that the compiler patches after the link.
#include "cli/verbs.h"

#include <cstdio>
#include <new>

extern "C" {
/// Where the payload is, in an ELF section of its own. Volatile: what the linker sees is not what will be there.
extern const volatile ingot_rt_payload_note ingot_rt_note;
__attribute__((section(".ingot.payload"), used, aligned(64)))
const volatile ingot_rt_payload_note ingot_rt_note = {INGOT_RT_NOTE_MAGIC, 0, 0, {0, 0}};
}

int main(int argc, char **argv) {
  try {
    ingot_rt_payload_note note;
    note.magic = ingot_rt_note.magic;
    note.offset = ingot_rt_note.offset;
    note.size = ingot_rt_note.size;
    note.header_hash[0] = ingot_rt_note.header_hash[0];
    note.header_hash[1] = ingot_rt_note.header_hash[1];
    return ingot::rt::runProgram(argc, argv, ingot_rt_the_model, note);
  } catch (const std::bad_alloc &) {
    fputs("error: out of memory\n", stderr);
    return 1;
  }
}
