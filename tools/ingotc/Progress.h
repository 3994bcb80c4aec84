//===- Progress.h - What ingotc says while it works
//---------------------------------------------------------------===//

#ifndef INGOT_TOOLS_INGOTC_PROGRESS_H
#define INGOT_TOOLS_INGOTC_PROGRESS_H

#include "llvm/ADT/StringRef.h"
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace ingot {

/// Reports long work on stderr: a bar that is redrawn on a terminal, else a
/// plain line every few seconds. Work that is done in less than a second or two
/// says nothing.
class Progress {
public:
  explicit Progress(bool quiet);
  ~Progress() { finish(); }

  /// Starts the part of the work called `name`.
  void phase(llvm::StringRef name);
  /// `done` of `total` bytes of the current part are written. May be called
  /// from any thread.
  void update(uint64_t done, uint64_t total);
  /// Removes the bar.
  void finish();

private:
  void show(const std::string &text);

  using Clock = std::chrono::steady_clock;
  std::mutex mutex;
  bool quiet, terminal, shown = false;
  std::string name;
  Clock::time_point last;
};

} // namespace ingot

#endif // INGOT_TOOLS_INGOTC_PROGRESS_H
