//===- Link.h - Links an executable with lld and the prelinked runtime
//--------------------------------------------===//

#ifndef INGOT_COMPILER_TARGET_LINK_H
#define INGOT_COMPILER_TARGET_LINK_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace ingot {

/// Where the runtime's objects lie: <prefix>/lib/ingot/<triple>, beside the
/// <prefix>/bin that holds this program. Errors: the folder, or a file in it, does not exist.
llvm::Expected<std::string> findRuntime(llvm::StringRef programPath, llvm::StringRef triple);

/// How an executable is linked.
enum class LinkKind {
  Static, ///< needs nothing
  Cuda    ///< with the part that drives GPUs; needs the C library, whose loader loads the GPU's driver
};

/// Whether an executable of this kind can be linked from `runtimeFolder`.
llvm::Error checkRuntime(llvm::StringRef runtimeFolder, LinkKind kind);

/// Links `objects` with the runtime in `runtimeFolder` (link.txt or link-cuda.txt
/// lists its files in the linker's order; the line `OBJECTS` stands for ours)
/// into `output`. No compiler driver takes part.
llvm::Error linkExecutable(llvm::ArrayRef<std::string> objects, llvm::StringRef runtimeFolder, LinkKind kind,
                           llvm::StringRef output);

/// Merges objects into one relocatable object.
llvm::Expected<llvm::SmallVector<char, 0>> mergeObjects(llvm::ArrayRef<llvm::SmallVector<char, 0>> objects);

/// Files with given contents for the linker, removed with this object.
class ObjectFiles {
public:
  ObjectFiles() = default;
  ObjectFiles(const ObjectFiles &) = delete;
  ObjectFiles &operator=(const ObjectFiles &) = delete;
  ~ObjectFiles();
  llvm::Error add(llvm::StringRef name, llvm::ArrayRef<char> bytes);
  llvm::ArrayRef<std::string> get() const { return paths; }

private:
  std::vector<std::string> paths;
};

} // namespace ingot

#endif // INGOT_COMPILER_TARGET_LINK_H
