//===- Link.cpp - Links an executable with lld and the prelinked runtime
//------------------------------------------===//

#include "compiler/Target/Link.h"
#include "lld/Common/Driver.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

using namespace llvm;

namespace ingot {

ObjectFiles::~ObjectFiles() {
  for (const std::string &path : paths) {
    // A destructor has nobody to tell; what stays is a file in the temporary folder.
    [[maybe_unused]] std::error_code ignored = sys::fs::remove(path);
    sys::DontRemoveFileOnSignal(path);
  }
}

Error ObjectFiles::add(StringRef name, ArrayRef<char> bytes) {
  SmallString<128> path;
  int descriptor = -1;
  if (std::error_code error = sys::fs::createTemporaryFile(name, "o", descriptor, path))
    return createStringError(error, "a temporary object file cannot be written: " + error.message());
  sys::RemoveFileOnSignal(path);
  paths.push_back(path.str().str());
  raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
  stream.write(bytes.data(), bytes.size());
  stream.close();
  if (std::error_code error = stream.error()) {
    stream.clear_error();
    return createStringError(error, Twine(path) + ": " + error.message());
  }
  return Error::success();
}

/// Runs lld with `arguments`; an error is what it said.
static Error runLinker(ArrayRef<std::string> arguments, StringRef output) {
  std::vector<const char *> argv;
  for (const std::string &argument : arguments)
    argv.push_back(argument.c_str());
  std::string said;
  raw_string_ostream stream(said);
  lld::Result result = lld::lldMain(argv, stream, stream, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0)
    return createStringError("link of " + output + " failed: " + StringRef(said).trim());
  return Error::success();
}

Expected<SmallVector<char, 0>> mergeObjects(ArrayRef<SmallVector<char, 0>> objects) {
  ObjectFiles files;
  for (const SmallVector<char, 0> &object : objects)
    if (Error error = files.add("ingot-part", object))
      return error;
  if (Error error = files.add("ingot-merged", {}))
    return error;
  std::string output = files.get().back();
  std::vector<std::string> arguments = {"ld.lld", "-r", "-o", output};
  append_range(arguments, files.get().drop_back());
  if (Error error = runLinker(arguments, output))
    return error;
  ErrorOr<std::unique_ptr<MemoryBuffer>> merged =
      MemoryBuffer::getFile(output, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!merged)
    return createStringError(merged.getError(), output + ": " + merged.getError().message());
  StringRef bytes = (*merged)->getBuffer();
  return SmallVector<char, 0>(bytes.begin(), bytes.end());
}

Expected<std::string> findRuntime(StringRef programPath, StringRef triple) {
  SmallString<256> folder(sys::path::parent_path(sys::path::parent_path(programPath)));
  sys::path::append(folder, "lib", "ingot", triple);
  for (StringRef name : {"link.txt", "ingot_rt.o"}) {
    SmallString<256> file(folder);
    sys::path::append(file, name);
    if (!sys::fs::exists(file))
      return createStringError(Twine(file) + ": the runtime that goes into executables for " + triple +
                               " is missing; expected it beside " + programPath +
                               ", from a build that was not configured without it (INGOT_AARCH64=OFF)");
  }
  return folder.str().str();
}

static SmallString<256> linkList(StringRef runtimeFolder, LinkKind kind) {
  SmallString<256> list(runtimeFolder);
  sys::path::append(list, kind == LinkKind::Static ? "link.txt" : "link-cuda.txt");
  return list;
}

Error checkRuntime(StringRef runtimeFolder, LinkKind kind) {
  if (SmallString<256> list = linkList(runtimeFolder, kind); !sys::fs::exists(list))
    return createStringError(Twine(list) +
                             ": the runtime that drives GPUs is missing; expected it for x86_64-linux-gnu");
  return Error::success();
}

Error linkExecutable(ArrayRef<std::string> objects, StringRef runtimeFolder, LinkKind kind, StringRef output) {
  SmallString<256> list = linkList(runtimeFolder, kind);
  ErrorOr<std::unique_ptr<MemoryBuffer>> text = MemoryBuffer::getFile(list);
  if (!text)
    return createStringError(text.getError(), Twine(list) + ": " + text.getError().message());
  std::vector<std::string> arguments = {
      "ld.lld", "--gc-sections", "--build-id=none", "--eh-frame-hdr", "-z", "noexecstack", "-o", output.str()};
  // RELRO would end its segment inside a page, which the kernel fills up with zeros before the first instruction: a
  // file that was cut before that page dies there without a word (entry.ld does the same for .bss).
  if (kind == LinkKind::Static)
    arguments.insert(arguments.end(), {"-static", "-z", "norelro"});
  SmallVector<StringRef> lines;
  (*text)->getBuffer().split(lines, '\n', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  bool placed = false;
  for (StringRef line : lines) {
    if (line == "OBJECTS") {
      append_range(arguments, objects);
      placed = true;
    } else if (line.starts_with("-")) {
      for (StringRef word : split(line, ' ')) // "-z now"
        arguments.push_back(word.str());
    } else {
      SmallString<256> file(runtimeFolder);
      sys::path::append(file, line);
      arguments.push_back(file.str().str());
    }
  }
  if (!placed)
    return createStringError(Twine(list) + ": expected a line OBJECTS, got none");
  return runLinker(arguments, output);
}

} // namespace ingot
