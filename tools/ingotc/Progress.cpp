//===- Progress.cpp - What ingotc says while it works
//-------------------------------------------------------------===//

#include "tools/ingotc/Progress.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <unistd.h>

using namespace llvm;

namespace ingot {

Progress::Progress(bool quiet) : quiet(quiet), terminal(isatty(STDERR_FILENO) != 0), last(Clock::now()) {}

void Progress::phase(StringRef newName) {
  std::lock_guard lock(mutex);
  name = newName.str();
  last = Clock::now();
  if (terminal)
    show(name);
}

void Progress::show(const std::string &text) {
  if (quiet)
    return;
  if (terminal)
    errs() << "\r\x1b[K" << text;
  else
    errs() << text << "\n";
  shown = true;
}

void Progress::update(uint64_t done, uint64_t total) {
  std::lock_guard lock(mutex);
  Clock::time_point now = Clock::now();
  if (quiet || total == 0 || now - last < (terminal ? std::chrono::milliseconds(100) : std::chrono::milliseconds(3000)))
    return;
  last = now;
  unsigned percent = static_cast<unsigned>(100.0 * static_cast<double>(done) / static_cast<double>(total));
  std::string bar;
  if (terminal)
    bar = " [" + std::string(percent / 4, '#') + std::string(25 - percent / 4, ' ') + "]";
  show(formatv("{0}{1} {2}% of {3:F0} MiB", name, bar, percent, static_cast<double>(total) / (1 << 20)));
}

void Progress::finish() {
  std::lock_guard lock(mutex);
  if (terminal && shown && !quiet)
    errs() << "\r\x1b[K";
  shown = false;
}

} // namespace ingot
