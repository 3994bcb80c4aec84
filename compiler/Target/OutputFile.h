//===- OutputFile.h - A file that appears whole or not at all
//-----------------------------------------------------===//
//
// Written beside its final name and renamed when it is complete: a failed or
// interrupted run leaves nothing behind and keeps the file that was there.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_TARGET_OUTPUTFILE_H
#define INGOT_COMPILER_TARGET_OUTPUTFILE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace ingot {

class OutputFile {
public:
  OutputFile(OutputFile &&other) noexcept;
  OutputFile &operator=(OutputFile &&) = delete;
  /// Removes the temporary file unless it was kept.
  ~OutputFile();

  /// Creates a temporary file in the folder of `path`. Errors name `path`: no
  /// such folder, not writable, a directory.
  static llvm::Expected<OutputFile> create(llvm::StringRef path);

  /// The temporary file's name, for a linker that writes it itself; call reopen
  /// afterwards.
  const std::string &temporaryPath() const { return temporary; }
  llvm::Error reopen();

  /// Grows the file to `size` bytes, which must fit on the disk, and maps it
  /// for writing. Bytes that were not in the file before are zero.
  llvm::Expected<llvm::MutableArrayRef<char>> map(uint64_t size);
  /// Writes back and unmaps.
  llvm::Error unmap();

  /// Replaces `path` by the file, executable by all who may read it if asked.
  llvm::Error keep(bool executable);

private:
  OutputFile(std::string path, std::string temporary, int descriptor)
      : path(std::move(path)), temporary(std::move(temporary)), descriptor(descriptor) {}
  llvm::Error fail(llvm::StringRef what) const;

  std::string path, temporary;
  int descriptor = -1;
  char *mapped = nullptr;
  uint64_t mappedSize = 0;
};

} // namespace ingot

#endif // INGOT_COMPILER_TARGET_OUTPUTFILE_H
