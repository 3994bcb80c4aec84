// NumPy's .npy files (format 1.0) of float32 matrices: logits and traces.
#ifndef INGOT_RUNTIME_SUPPORT_NPY_H
#define INGOT_RUNTIME_SUPPORT_NPY_H

#include "support/error.h"

#include <cstdint>
#include <cstdio>
#include <string>

namespace ingot::rt {

/// Writes a matrix row by row. The file is complete once `close` has succeeded.
class NpyWriter {
public:
  NpyWriter() = default;
  NpyWriter(const NpyWriter &) = delete;
  NpyWriter &operator=(const NpyWriter &) = delete;
  ~NpyWriter();

  /// Starts a file of shape [rows, columns].
  Error open(const std::string &path, uint64_t rows, uint64_t columns);
  Error writeRow(const float *values);
  Error close();

private:
  Error failed() const;

  std::string path;
  FILE *file = nullptr;
  uint64_t rows = 0, columns = 0, written = 0;
};

/// Writes `rows` rows of `columns` floats that lie `stride` floats apart.
Error writeNpy(const std::string &path, const float *data, uint64_t rows, uint64_t columns, uint64_t stride);

} // namespace ingot::rt
#endif // INGOT_RUNTIME_SUPPORT_NPY_H
