// What AddressSanitizer is told in every sanitized program, unless ASAN_OPTIONS says otherwise.

// LLVM's headers poison memory of its allocators when they are compiled with AddressSanitizer; the packaged shared
// libraries, which are compiled without, hand the same memory out and never clear it.
extern "C" const char *__asan_default_options() { return "allow_user_poisoning=0"; }
