// The bar.
#include "cli/progress.h"

#include "cli/program.h"
#include "platform/machine.h"

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace ingot::rt {

static bool drawsBar() {
  const char *plain = getenv("NO_COLOR");
  return isatty(2) && !(plain && *plain);
}

Progress::Progress(std::string name) : name(std::move(name)), terminal(drawsBar()), last(now()) {}

Progress::~Progress() {
  if (terminal && shown)
    fputs("\r\x1b[K", stderr);
}

void Progress::update(uint64_t done, uint64_t total) {
  double time = now();
  if (total == 0 || time - last < (terminal ? 0.1 : 3.0))
    return;
  last = time;
  shown = true;
  auto percent = static_cast<unsigned>(100.0 * static_cast<double>(done) / static_cast<double>(total));
  if (!terminal)
    return note("%s: %u%% of %s", name.c_str(), percent, bytesText(total).c_str());
  std::string bar(percent / 4, '#');
  bar.resize(25, ' ');
  fprintf(stderr, "\r\x1b[K%s [%s] %u%% of %s", name.c_str(), bar.c_str(), percent, bytesText(total).c_str());
}

} // namespace ingot::rt
