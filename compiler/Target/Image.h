//===- Image.h - The payload's tables: generation defaults, ledger, arena plan,
// selftest --------------------------===//
//
// Each function gives the bytes of one section of ingot_rt/image.h.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_TARGET_IMAGE_H
#define INGOT_COMPILER_TARGET_IMAGE_H

#include "compiler/Import/GenerationDefaults.h"
#include "compiler/Import/Ledger.h"
#include "mlir/IR/BuiltinOps.h"
#include <string>
#include <vector>

namespace ingot {

std::string makeGenerationSection(const GenerationDefaults &defaults);

std::string makeLedgerSection(const Ledger &ledger);

/// From the attribute `ingot.arena_plan` of a module, an array of {name, unit,
/// bytes, offset, first_op, last_op}.
std::string makeArenaPlanSection(mlir::ModuleOp module);

/// Reference logits for `selftest`, or the reason why there are none.
struct SelftestReference {
  std::vector<int32_t> tokens;
  std::vector<int32_t> rows; ///< tokens whose logits are kept
  std::vector<int32_t> ids;  ///< [rows][idsPerRow]
  std::vector<float> values; ///< [rows][idsPerRow]
  uint32_t idsPerRow = 0;
  float tolerance = 0, largest = 0;
  std::string reason; ///< set if and only if there are no rows
};

std::string makeSelftestSection(const SelftestReference &reference);

} // namespace ingot

#endif // INGOT_COMPILER_TARGET_IMAGE_H
