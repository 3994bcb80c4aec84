// What an executable says on stderr while it starts.
#ifndef INGOT_RUNTIME_CLI_PROGRESS_H
#define INGOT_RUNTIME_CLI_PROGRESS_H

#include <cstdint>
#include <string>

namespace ingot::rt {

/// A bar that is redrawn on a terminal (without it where NO_COLOR asks for plain text), else a plain line every few
/// seconds. Work that is done in less than that says nothing.
class Progress {
public:
  explicit Progress(std::string name);
  /// Removes the bar.
  ~Progress();
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  /// `done` of `total` bytes are there.
  void update(uint64_t done, uint64_t total);

private:
  const std::string name;
  const bool terminal;
  bool shown = false;
  double last;
};

} // namespace ingot::rt
#endif // INGOT_RUNTIME_CLI_PROGRESS_H
