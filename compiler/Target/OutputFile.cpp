//===- OutputFile.cpp - A file that appears whole or not at all
//---------------------------------------------------===//

#include "compiler/Target/OutputFile.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

using namespace llvm;

namespace ingot {

OutputFile::OutputFile(OutputFile &&other) noexcept
    : path(std::move(other.path)), temporary(std::exchange(other.temporary, {})),
      descriptor(std::exchange(other.descriptor, -1)), mapped(std::exchange(other.mapped, nullptr)),
      mappedSize(std::exchange(other.mappedSize, 0)) {}

OutputFile::~OutputFile() {
  if (mapped)
    munmap(mapped, mappedSize);
  if (descriptor >= 0)
    close(descriptor);
  if (!temporary.empty()) {
    unlink(temporary.c_str());
    sys::DontRemoveFileOnSignal(temporary);
  }
}

Error OutputFile::fail(StringRef what) const {
  return createStringError(path + ": cannot " + what + ": " + std::strerror(errno));
}

Expected<OutputFile> OutputFile::create(StringRef path) {
  if (sys::fs::is_directory(path))
    return createStringError(path + ": is a directory; expected the name of a file to write");
  // The file is put in place whole, by renaming: a device or a pipe would be replaced by it.
  sys::fs::file_status status;
  if (!sys::fs::status(path, status) && sys::fs::exists(status) && !sys::fs::is_regular_file(status))
    return createStringError(path + ": is a device, a pipe or a socket; expected the name of a file to write");
  StringRef folder = sys::path::parent_path(path);
  if (!folder.empty() && !sys::fs::is_directory(folder))
    return createStringError(path + ": the directory " + folder + " does not exist");
  SmallString<256> temporary;
  int descriptor = -1;
  if (std::error_code error = sys::fs::createUniqueFile(path + ".%%%%%%.tmp", descriptor, temporary))
    return createStringError(error, path + ": cannot be written: " + error.message());
  sys::RemoveFileOnSignal(temporary);
  return OutputFile(path.str(), temporary.str().str(), descriptor);
}

Error OutputFile::reopen() {
  close(descriptor);
  descriptor = open(temporary.c_str(), O_RDWR | O_CLOEXEC);
  return descriptor < 0 ? fail("be opened again") : Error::success();
}

Expected<MutableArrayRef<char>> OutputFile::map(uint64_t size) {
  Expected<sys::fs::space_info> space = errorOrToExpected(sys::fs::disk_space(temporary));
  struct stat status;
  if (fstat(descriptor, &status) != 0)
    return fail("be examined");
  uint64_t present = static_cast<uint64_t>(status.st_size);
  if (space && size > present && size - present > space->available)
    return createStringError(path + ": not enough space on the disk; needs " + Twine(size - present) + " bytes, " +
                             Twine(space->available) + " are free");
  consumeError(space.takeError());
  // Blocks are reserved now: a disk that fills up later would otherwise end the
  // process with a signal.
  if (size > present) {
    if (int code = posix_fallocate(descriptor, static_cast<off_t>(present), static_cast<off_t>(size - present))) {
      errno = code;
      return fail("be extended");
    }
  }
  void *address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED)
    return fail("be mapped");
  mapped = static_cast<char *>(address);
  mappedSize = size;
  return MutableArrayRef<char>(mapped, size);
}

Error OutputFile::unmap() {
  if (mapped && munmap(mapped, mappedSize) != 0)
    return fail("be unmapped");
  mapped = nullptr;
  return Error::success();
}

Error OutputFile::keep(bool executable) {
  if (Error error = unmap())
    return error;
  mode_t mask = umask(0);
  umask(mask);
  if (fchmod(descriptor, (executable ? 0777 : 0666) & ~mask) != 0)
    return fail("be made executable");
  if (close(std::exchange(descriptor, -1)) != 0)
    return fail("be closed");
  if (rename(temporary.c_str(), path.c_str()) != 0)
    return fail("be put in place");
  sys::DontRemoveFileOnSignal(temporary);
  temporary.clear();
  return Error::success();
}

} // namespace ingot
