// The .npy format: magic, version, length of a Python dictionary padded so that the data is aligned to 64, data.
#include "support/npy.h"

#include <cerrno>
#include <cinttypes>
#include <cstring>

namespace ingot::rt {

NpyWriter::~NpyWriter() {
  if (file)
    fclose(file);
}

Error NpyWriter::failed() const { return makeError("%s: cannot write: %s", path.c_str(), strerror(errno)); }

Error NpyWriter::open(const std::string &name, uint64_t rowCount, uint64_t columnCount) {
  path = name;
  rows = rowCount;
  columns = columnCount;
  file = fopen(path.c_str(), "wb");
  if (!file)
    return failed();
  std::string header =
      formatText("{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRIu64 ", %" PRIu64 "), }", rows, columns);
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string start("\x93NUMPY\x01\x00", 8);
  start += static_cast<char>(header.size() & 255);
  start += static_cast<char>(header.size() >> 8);
  start += header;
  return fwrite(start.data(), 1, start.size(), file) == start.size() ? Error() : failed();
}

Error NpyWriter::writeRow(const float *values) {
  ++written;
  return fwrite(values, sizeof(float), columns, file) == columns ? Error() : failed();
}

Error NpyWriter::close() {
  if (written != rows)
    return makeError("%s: expected %" PRIu64 " rows, got %" PRIu64, path.c_str(), rows, written);
  FILE *closing = file;
  file = nullptr;
  return fclose(closing) == 0 ? Error() : failed();
}

Error writeNpy(const std::string &path, const float *data, uint64_t rows, uint64_t columns, uint64_t stride) {
  NpyWriter writer;
  if (Error error = writer.open(path, rows, columns))
    return error;
  for (uint64_t row = 0; row < rows; ++row)
    if (Error error = writer.writeRow(data + row * stride))
      return error;
  return writer.close();
}

} // namespace ingot::rt
