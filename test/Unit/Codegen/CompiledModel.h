// A model compiled for this machine and run in this process: what the runtime does for an executable, done plainly.
#ifndef INGOT_TEST_UNIT_CODEGEN_COMPILEDMODEL_H
#define INGOT_TEST_UNIT_CODEGEN_COMPILEDMODEL_H

#include "compiler/Conversion/ModelLayout.h"
#include "compiler/Evaluator/Evaluator.h"
#include "compiler/Pipelines/Pipelines.h"
#include "ingot_rt/abi.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ingot::test {

/// A decoder's shape and storage, from which `decoderText` writes a module at stage `ingot`.
struct DecoderShape {
  int64_t vocab = 131, hidden = 48, intermediate = 80, heads = 4, kvHeads = 2, headDim = 12;
  /// Layers per run; with more than one run, two kinds alternate (the second has a window).
  std::vector<int64_t> runs = {2};
  int64_t window = 0;
  std::string weights = "bf16", cache = "f16";
  bool tied = true, qkNorm = false, bias = false, interleaved = false, longRope = false;
  int64_t maxContext = 4096;
};

std::string decoderText(const DecoderShape &shape);

/// How a model is compiled.
struct Build {
  bool fuse = true;
  std::string attention = "tiled";
  /// Whose register tiles are used; the code is always for this machine.
  std::string tilesOf = "x86-64-v3";
  /// Kernels of a GPU, run by the emulator.
  bool emulated = false;
  /// Then with kernels that fill random weights.
  bool randomWeights = false;
  /// Changes the kernels before they become code.
  std::function<void(mlir::ModuleOp)> sabotage = {};
  /// The definitions of a CPU's instructions instead of the instructions.
  bool definitions = false;
  Quantize quantize = Quantize::None;
  ComputeType compute = ComputeType::Auto;
};

/// Tokens of one sequence in a step.
struct Chunk {
  int sequence;
  std::vector<int32_t> ids;
};

/// What a hook saw of one op.
struct Seen {
  uint32_t op;
  int32_t layer;
  std::vector<float> values;
};

class CompiledModel {
public:
  /// Compiles, packs weights that the evaluator's RandomParameters define, or, where parameters are or become
  /// quantized, those of a RandomBlocks checkpoint by the packer. Faults end the test program.
  CompiledModel(const std::string &text, const Build &build);
  ~CompiledModel();

  /// Forgets all sequences; the cache is filled with NaNs.
  void reset();
  /// One step of `workers` threads; the logits of every token, row by row.
  std::vector<std::vector<float>> step(const std::vector<Chunk> &chunks, unsigned workers = 1);
  /// The same with INGOT_RT_ARGMAX: (id, value) of every token.
  std::vector<std::pair<int32_t, float>> argmax(const std::vector<Chunk> &chunks, unsigned workers = 1);
  /// The same with INGOT_RT_TOKENS: the token chosen of every token's row. `sets`: as in
  /// ingot_rt_step_args.
  std::vector<int32_t> choose(const std::vector<Chunk> &chunks, const std::vector<ingot_rt_sampling> &sampling,
                              const std::vector<uint32_t> &sets, uint64_t setWords);
  /// The logits of one sequence from the start on, in steps of `chunk` tokens.
  std::vector<std::vector<float>> logits(int sequence, const std::vector<int32_t> &ids, size_t chunk,
                                         unsigned workers = 1);

  /// The evaluator's logits of every token of one sequence, of the module before it was compiled.
  std::vector<std::vector<float>> evaluate(const std::vector<int32_t> &ids, Accumulation accumulation);

  /// The module at stage `packed`, whose ops a hook sees, and the values of its parameters.
  mlir::ModuleOp packedModule() { return *packed; }
  ParameterProvider &weightValues() { return *parameters; }

  /// Layer and value of every activation that the evaluator computes for one step of one sequence.
  std::vector<std::pair<int64_t, Matrix>> observe(const std::vector<int32_t> &ids);

  /// The description of an emulated kernel.
  const ingot_rt_kernel *kernel(const std::string &name);

  /// Calls the entry with a changed copy of a valid step's arguments.
  uint32_t statusOf(llvm::function_ref<void(ingot_rt_step_args &)> change);

  /// Names of the op table.
  std::vector<std::string> opNames;
  /// Filled by a step if set: worker 0's view.
  std::vector<Seen> *seen = nullptr;
  /// The first thing that the emulator found wrong; else empty. With `emulatorOrder` blocks run in that order.
  std::string fault;
  std::string emulatorOrder = "forward";
  /// All sequences have the long RoPE regime.
  bool longRegime = false;

private:
  void compile(const std::string &text, const Build &build);
  void convert(const Build &build);
  void pack(mlir::ModuleOp packed, const ParameterTable &table);
  void packBlocks(mlir::ModuleOp packed);
  void run(const std::vector<Chunk> &chunks, unsigned workers, uint32_t output, ingot_rt_step_args *keep = nullptr);

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> source, packed, module;
  std::unique_ptr<ParameterProvider> parameters;
  std::unique_ptr<llvm::orc::LLJIT> jit;
  ingot_rt_step_fn entry = nullptr;
  std::string variant = "native";
  std::vector<char> modelRecord;
  ingot_rt_arena arena = {};
  std::vector<uint8_t> weightBytes, arenaBytes, cacheBytes;
  uint8_t *weights = nullptr;
  uint64_t blockBytes = 0, blocks = 0, nextBlock = 0;
  int64_t vocab = 0;
  uint32_t cacheDtype = 0;
  std::map<int, std::vector<int32_t>> tables;
  std::map<int, int32_t> lengths;
  // One step's metadata.
  std::vector<int32_t> tokens, positions, sequences, starts, lengthsOf, regimes, blockTables, rows, ids;
  std::vector<int64_t> slots;
  std::vector<float> logitsBytes, values;
  // How tokens are chosen in the next step.
  const ingot_rt_sampling *sampling = nullptr;
  const uint32_t *tokenSets = nullptr;
  uint64_t tokenSetWords = 0;
};

} // namespace ingot::test

#endif // INGOT_TEST_UNIT_CODEGEN_COMPILEDMODEL_H
