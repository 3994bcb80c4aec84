//===- Compile.h - One run of the compiler
//------------------------------------------------------------------------===//

#ifndef INGOT_TOOLS_INGOTC_COMPILE_H
#define INGOT_TOOLS_INGOTC_COMPILE_H

#include "tools/ingotc/CommandLine.h"

namespace ingot {

/// Compiles as `line` says. `program` is this program's own path, beside which
/// the runtime is found. MLIR's diagnostics go to stderr as they come; the
/// error returned, if it has a message, is what remains to be said.
llvm::Error compile(const CommandLine &line, llvm::StringRef program);

} // namespace ingot

#endif // INGOT_TOOLS_INGOTC_COMPILE_H
