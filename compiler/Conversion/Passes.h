//===- Passes.h - Conversions: packed ingot to loops to the LLVM dialect
//------------------------------------------===//

#ifndef INGOT_COMPILER_CONVERSION_PASSES_H
#define INGOT_COMPILER_CONVERSION_PASSES_H

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include <memory>

namespace ingot {

#define GEN_PASS_DECL
#include "compiler/Conversion/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/Conversion/Passes.h.inc"

} // namespace ingot

#endif // INGOT_COMPILER_CONVERSION_PASSES_H
