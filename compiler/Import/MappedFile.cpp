// Maps files with mmap. A file that shrinks while it is mapped ends the process
// with SIGBUS, as for every program that maps files; all other faults are
// errors here.
#include "compiler/Import/MappedFile.h"
#include "compiler/Import/InputError.h"
#include "llvm/Support/Errno.h"
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace llvm;
using namespace ingot;

Expected<std::shared_ptr<MappedFile>> MappedFile::open(StringRef path) {
  std::string terminated = path.str();
  int fd = ::open(terminated.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return inputError(path, "cannot be opened: " + Twine(sys::StrError(errno)));
  struct stat status;
  if (fstat(fd, &status) != 0) {
    int reason = errno;
    ::close(fd);
    return inputError(path, "cannot be examined: " + Twine(sys::StrError(reason)));
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(fd);
    return inputError(path, S_ISDIR(status.st_mode) ? "is a directory; expected a file" : "is not a regular file");
  }
  if (status.st_size == 0) {
    ::close(fd);
    return inputError(path, "is empty (0 bytes)");
  }
  void *data = mmap(nullptr, size_t(status.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
  int reason = errno;
  ::close(fd);
  if (data == MAP_FAILED)
    return inputError(path, "cannot be mapped (" + Twine(uint64_t(status.st_size)) +
                                " bytes): " + Twine(sys::StrError(reason)));
  return std::shared_ptr<MappedFile>(new MappedFile(path, static_cast<const char *>(data), size_t(status.st_size)));
}

MappedFile::~MappedFile() { munmap(const_cast<char *>(data), size); }

void MappedFile::release(ArrayRef<char> part) const {
  auto page = uintptr_t(sysconf(_SC_PAGESIZE));
  uintptr_t begin = (reinterpret_cast<uintptr_t>(part.begin()) + page - 1) / page * page;
  uintptr_t end = reinterpret_cast<uintptr_t>(part.end()) / page * page;
  if (begin < end)
    madvise(reinterpret_cast<void *>(begin), end - begin,
            MADV_DONTNEED); // only advice: a failure changes nothing
}

Error ingot::checkForStandIn(StringRef file, StringRef bytes) {
  StringRef start = bytes.substr(0, 1024);
  if (start.starts_with("version https://git-lfs"))
    return inputError(file, "is a Git-LFS pointer, not the file itself (" + Twine(bytes.size()) +
                                " bytes); run 'git lfs pull' in its repository "
                                "or download the file");
  StringRef text = start.ltrim();
  if (text.starts_with_insensitive("<!doctype html") || text.starts_with_insensitive("<html"))
    return inputError(file, "is an HTML page, probably an error or login page saved by a "
                            "download; download the file "
                            "again from its 'resolve' link or with the hub's own tool");
  bool zip = start.starts_with(StringRef("PK\3\4", 4));
  // A safetensors file may begin with the same two bytes, as the length of its
  // header; the upper half of that length is zero.
  bool pickle = start.size() > 8 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5 &&
                start.substr(4, 4) != StringRef("\0\0\0\0", 4);
  if (zip || pickle)
    return inputError(file, "is a pickle (a PyTorch file), which Ingot does "
                            "not run; convert it to safetensors with "
                            "safetensors.torch.save_file or save_pretrained");
  return Error::success();
}
