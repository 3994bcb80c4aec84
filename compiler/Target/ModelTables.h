//===- ModelTables.h - The object that describes the model to the runtime
//-----------------------------------------===//
//
// Fills the C structures of ingot_rt/abi.h themselves and emits their bytes
// with relocations where they hold pointers, so that the compiler cannot
// disagree with the header about where a field lies.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_TARGET_MODELTABLES_H
#define INGOT_COMPILER_TARGET_MODELTABLES_H

#include "compiler/Target/CodeGen.h"
#include "compiler/Target/Packer.h"
#include "ingot_rt/abi.h"
#include <string>
#include <vector>

namespace ingot {

/// One parameter as the runtime sees it; the strings of the C structure are
/// kept here.
struct ParameterRecord {
  std::string name, part;
  ingot_rt_parameter fields;
};

/// One op for `bench --per-op` and traces.
struct OpRecord {
  std::string name, kind;
  ingot_rt_op fields;
};

/// One CPU variant and the symbol of its step function.
struct VariantRecord {
  std::string name, symbol;
  uint64_t features;
  /// The ingot_rt_device that runs its kernels; empty: none.
  std::string device = {};
  /// Symbols of ingot_rt_variant.random_kernels, empty where there is none; or none at all.
  std::vector<std::string> randomKernels = {};
};

/// A row of the table of random sources.
struct RandomSourceRecord {
  std::string pattern;
  ingot_rt_random_source fields;
};

/// Everything in ingot_rt_model, with pointers replaced by what they point to.
struct ModelRecord {
  std::string name, architecture;
  ingot_rt_model fields = {}; ///< sizes and numbers; the pointer fields are ignored
  std::vector<ingot_rt_cache_group> cacheGroups;
  std::vector<VariantRecord> variants;
  std::vector<ParameterRecord> parameters;
  std::vector<RandomSourceRecord> randomSources;
  std::vector<OpRecord> ops;
};

/// An object file of the architecture of `target` that defines `ingot_rt_the_model`.
llvm::Expected<llvm::SmallVector<char, 0>> emitModelTables(const ModelRecord &record, const CpuTarget &target);

} // namespace ingot

#endif // INGOT_COMPILER_TARGET_MODELTABLES_H
