// The first instructions of every executable: they refuse a file that ends before its code and constants do. The pages
// behind the end of such a file are mapped all the same and kill whoever touches them (SIGBUS), which would happen
// before main, or anywhere after it. So everything here lies in the file's first page (entry.ld), calls nothing and
// reads no other page; it runs before the C library has started. What is appended behind the code is checked in
// payload/payload.cpp.
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cstdint>

#define INGOT_ENTRY_CODE __attribute__((section(".ingot.entry.text"), used))
#define INGOT_ENTRY_DATA __attribute__((section(".ingot.entry.data"), used))

// The process starts here with its stack as the kernel made it, which is what the C library's _start has to find; %rdx
// is a function that _start registers for the exit (zero in a static program).
#if defined(__x86_64__)
asm(R"(.section .ingot.entry.text,"ax",@progbits
.globl ingot_rt_start
.type ingot_rt_start,@function
ingot_rt_start:
  movq %rdx, %rbx
  movq %rsp, %rdi
  call ingot_rt_check_file
  movq %rbx, %rdx
  jmp _start
.size ingot_rt_start, .-ingot_rt_start
.text)");
#elif defined(__aarch64__)
asm(R"(.section .ingot.entry.text,"ax",@progbits
.p2align 2
.globl ingot_rt_start
.type ingot_rt_start,@function
ingot_rt_start:
  mov x19, x0
  mov x0, sp
  bl ingot_rt_check_file
  mov x0, x19
  b _start
.size ingot_rt_start, .-ingot_rt_start
.text)");
#else
#error "no entry for this instruction set"
#endif

/// A system call without the C library, whose errno needs a thread that is set up.
INGOT_ENTRY_CODE static long systemCall(long number, long a, long b, long c, long d) {
#if defined(__x86_64__)
  long result;
  register long r10 asm("r10") = d;
  asm volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
  return result;
#else
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  asm volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
  return x0;
#endif
}

INGOT_ENTRY_DATA static const char beforePath[] = "error: ";
INGOT_ENTRY_DATA static const char beforeExpected[] = ": truncated: expected at least ";
INGOT_ENTRY_DATA static const char beforeActual[] = " bytes, the file has ";
INGOT_ENTRY_DATA static const char lineEnd[] = "\n";

INGOT_ENTRY_CODE static void say(const char *text) {
  long length = 0;
  while (text[length] != '\0')
    ++length;
  systemCall(SYS_write, 2, reinterpret_cast<long>(text), length, 0);
}

INGOT_ENTRY_CODE static void say(uint64_t number) {
  char digits[21];
  char *first = digits + 20;
  *first = '\0';
  do {
    *--first = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  say(first);
}

/// Ends the process with exit code 1 and a line on standard error if the file has fewer bytes than its segments need.
/// `stack` is what the kernel left there: argc, argv, 0, the environment, 0, the auxiliary vector. A file that cannot
/// be found by the path it was started with (AT_EXECFN) is not judged.
extern "C" INGOT_ENTRY_CODE void ingot_rt_check_file(const uint64_t *stack) {
  const uint64_t *next = stack + 1 + stack[0] + 1;
  while (*next != 0)
    ++next;
  const char *path = nullptr;
  const Elf64_Phdr *headers = nullptr;
  uint64_t count = 0;
  for (++next; next[0] != AT_NULL; next += 2) {
    if (next[0] == AT_EXECFN)
      path = reinterpret_cast<const char *>(next[1]);
    else if (next[0] == AT_PHDR)
      headers = reinterpret_cast<const Elf64_Phdr *>(next[1]);
    else if (next[0] == AT_PHNUM)
      count = next[1];
  }
  if (path == nullptr || headers == nullptr)
    return;
  uint64_t needed = 0;
  for (uint64_t i = 0; i < count; ++i)
    if (uint64_t end = headers[i].p_offset + headers[i].p_filesz; headers[i].p_type == PT_LOAD && end > needed)
      needed = end;
  struct stat status;
  if (systemCall(SYS_newfstatat, AT_FDCWD, reinterpret_cast<long>(path), reinterpret_cast<long>(&status), 0) != 0 ||
      static_cast<uint64_t>(status.st_size) >= needed)
    return;
  say(beforePath);
  say(path);
  say(beforeExpected);
  say(needed);
  say(beforeActual);
  say(static_cast<uint64_t>(status.st_size));
  say(lineEnd);
  systemCall(SYS_exit_group, 1, 0, 0, 0);
}
