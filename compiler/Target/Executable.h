//===- Executable.h - Puts an executable together: code, tables, weights
//------------------------------------------===//

#ifndef INGOT_COMPILER_TARGET_EXECUTABLE_H
#define INGOT_COMPILER_TARGET_EXECUTABLE_H

#include "compiler/Target/Link.h"
#include "compiler/Target/ModelTables.h"
#include "compiler/Target/Packer.h"
#include "ingot_rt/image.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <string>
#include <vector>

namespace ingot {

/// A section of the payload other than the weights.
struct PayloadSection {
  ingot_rt_section_kind kind;
  std::string bytes;
};

/// Where the packed parameters end up.
enum class WeightsPlace {
  Embedded, ///< in the executable's payload
  Separate, ///< in FILE.weights
  Random    ///< nowhere: the executable generates them when it starts
};

/// Everything that an executable is made of.
struct ExecutableInput {
  std::vector<llvm::SmallVector<char, 0>> objects; ///< one for each CPU variant
  /// The first variant: what decides the tables' object is common to all.
  CpuTarget target;
  ModelRecord record;
  std::vector<PackedParameter> parameters;
  const Checkpoint *checkpoint = nullptr;
  std::vector<PayloadSection> sections;
  WeightsPlace place = WeightsPlace::Embedded;
  LinkKind link = LinkKind::Static;
  std::string runtimeFolder; ///< findRuntime()
  std::string output;
};

/// What a finished executable consists of, in bytes.
struct ExecutableSizes {
  uint64_t code, tables, weights;
};

/// Writes `input.output` (and `.weights` beside it). Either both appear whole
/// or neither changes.
llvm::Expected<ExecutableSizes> writeExecutable(const ExecutableInput &input,
                                                llvm::function_ref<void(uint64_t)> progress);

} // namespace ingot

#endif // INGOT_COMPILER_TARGET_EXECUTABLE_H
