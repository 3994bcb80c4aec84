// A file mapped for reading, and what people find in place of a checkpoint: a
// Git-LFS pointer, a web page, a pickle.
#ifndef INGOT_COMPILER_IMPORT_MAPPEDFILE_H
#define INGOT_COMPILER_IMPORT_MAPPEDFILE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>

namespace ingot {

/// A regular file (symbolic links are followed) mapped read-only for the life
/// of the object.
class MappedFile {
public:
  /// Errors name the path and the system's reason; a directory and an empty
  /// file are errors of their own.
  static llvm::Expected<std::shared_ptr<MappedFile>> open(llvm::StringRef path);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  llvm::StringRef path() const { return name; }
  llvm::ArrayRef<char> bytes() const { return {data, size}; }
  llvm::StringRef text() const { return {data, size}; }

  /// Lets the system drop the pages that lie wholly inside a part of bytes().
  void release(llvm::ArrayRef<char> part) const;

private:
  MappedFile(llvm::StringRef path, const char *data, size_t size) : name(path), data(data), size(size) {}

  std::string name;
  const char *data;
  size_t size;
};

/// What the bytes are when they are none of what a checkpoint's file should
/// hold, with the remedy: a Git-LFS pointer, an HTML page, a pickle. Success
/// otherwise. `file` is what the error calls it.
llvm::Error checkForStandIn(llvm::StringRef file, llvm::StringRef bytes);

} // namespace ingot

#endif // INGOT_COMPILER_IMPORT_MAPPEDFILE_H
