//===- CommandLine.h - ingotc's command line
//----------------------------------------------------------------------===//

#ifndef INGOT_TOOLS_INGOTC_COMMANDLINE_H
#define INGOT_TOOLS_INGOTC_COMMANDLINE_H

#include "compiler/Pipelines/Options.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>
#include <vector>

namespace ingot {

/// What one run of ingotc is asked to do.
struct CommandLine {
  enum class Action { Compile, Help, Version, List };
  Action action = Action::Compile;
  std::string model, output, weightsFrom;
  Phase emit = Phase::Exe;
  std::string triple; ///< of the system that the executable is for; see getTargetSystems
  CompileOptions compile;
  std::optional<uint64_t> randomSeed;
  bool separateWeights = false, selftest = true, verbose = false, quiet = false;
  std::vector<std::string> ignoredKeys, ignoredTensors;
  /// The options that decide the output, as resolved, a `name=value` a line:
  /// stored in the executable.
  std::string resolved() const;
};

/// Parses the arguments after the program's name. An error is a usage error
/// (exit code 2) and names the nearest option where one is unknown, or the
/// valid values.
llvm::Expected<CommandLine> parseCommandLine(llvm::ArrayRef<llvm::StringRef> arguments);

/// The text of --help and of --list.
std::string getHelpText();
std::string getListText();

} // namespace ingot

#endif // INGOT_TOOLS_INGOTC_COMMANDLINE_H
