//===- ingot-eval.cpp - Evaluates IR in the ingot dialect, or compares two ---------------------------------------===//
//
// Runs @forward on tokens, or any function on inputs that a seed defines, with
// the naive evaluator. `--compare` evaluates two modules on the same inputs and
// fails where they differ: this is how every pass is tested.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Evaluator/Evaluator.h"
#include "compiler/Import/OpenModel.h"
#include "dialects/ingot/Ingot.h"
#include "ingot_rt/random.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Parser/Parser.h"
#include "tools/ingot-eval/CheckpointParameters.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include <bit>
#include <cmath>

using namespace llvm;
using namespace mlir;
using namespace ingot;

static cl::OptionCategory category("ingot-eval options");
static cl::opt<std::string> inputFile(cl::Positional, cl::Required, cl::desc("FILE.mlir"), cl::cat(category));
static cl::opt<std::string> tokensText("tokens", cl::value_desc("IDS[;IDS...]"),
                                       cl::desc("run @forward on these sequences of token ids, as "
                                                "\"1,2,3;4,5\": the logits of every token"),
                                       cl::cat(category));
static cl::opt<int64_t> chunk("chunk", cl::init(0), cl::value_desc("N"),
                              cl::desc("with --tokens: at most N tokens of a sequence in a step "
                                       "(default: all)"),
                              cl::cat(category));
static cl::opt<std::string> entry("entry", cl::value_desc("@NAME"),
                                  cl::desc("run this function on inputs that the seed defines "
                                           "(default: @forward, or every function where there is none)"),
                                  cl::cat(category));
static cl::opt<std::string> weights("weights", cl::init("random:0"), cl::value_desc("random:SEED"),
                                    cl::desc("where parameters come from (default: random:0)"), cl::cat(category));
static cl::opt<std::string> weightsFrom("weights-from", cl::value_desc("PATH"),
                                        cl::desc("read parameters from a directory with safetensors, a "
                                                 ".safetensors file or index, or a GGUF file"),
                                        cl::cat(category));
static cl::opt<uint64_t> inputSeed("seed", cl::init(0), cl::value_desc("N"),
                                   cl::desc("seed of tokens, activations and cached keys and values "
                                            "where none are given (default: 0)"),
                                   cl::cat(category));
static cl::opt<bool> wide("f64",
                          cl::desc("compute in float64; roundings that belong "
                                   "to the model stay"),
                          cl::cat(category));
static cl::opt<int64_t> segments("segments", cl::init(1), cl::value_desc("N"),
                                 cl::desc("segments of K in row_parallel linears whose weights are "
                                          "not packed yet; 8 gives the sums of packed ones "
                                          "(default: 1)"),
                                 cl::cat(category));
static cl::opt<unsigned> threads("jobs", cl::init(1), cl::value_desc("N"),
                                 cl::desc("threads; no result depends on it "
                                          "(default: 1)"),
                                 cl::cat(category));
static cl::opt<std::string> compareFile("compare", cl::value_desc("FILE2.mlir"),
                                        cl::desc("evaluate both files on the same inputs, print the "
                                                 "largest difference, exit 1 when it is too large"),
                                        cl::cat(category));
static cl::opt<double> tolerance("tolerance", cl::init(-1), cl::value_desc("X"),
                                 cl::desc("with --compare: differences up to X are equal, in "
                                          "results and in what was written to the cache"),
                                 cl::cat(category));
static cl::opt<bool> bits("bits",
                          cl::desc("with --compare: every bit has to be equal "
                                   "(default without --tolerance)"),
                          cl::cat(category));

//===--------------------------------------------------------------------------------------------------------------===//
// Inputs
//===--------------------------------------------------------------------------------------------------------------===//

/// `count` numbers between -1 and 1 that the seed and a name define.
static std::vector<float> randomValues(StringRef name, size_t count) {
  uint64_t key = ingot_rt_random_key(inputSeed, name.data(), name.size());
  std::vector<float> values(count);
  for (auto [i, value] : llvm::enumerate(values))
    value = ingot_rt_random_element(INGOT_RT_RANDOM_MATRIX, key, 0, i);
  return values;
}

/// A parsed file.
struct Program {
  std::string file;
  OwningOpRef<ModuleOp> module;
};

static Expected<Program> load(StringRef file, MLIRContext &context) {
  Program program{file.str(), parseSourceFile<ModuleOp>(file, &context)};
  if (!program.module)
    return createStringError(formatv("{0}: not valid IR", file));
  return program;
}

/// "1,2,3;4,5" as sequences.
static Expected<std::vector<std::vector<int32_t>>> parseTokens(StringRef text) {
  std::vector<std::vector<int32_t>> sequences;
  for (StringRef part : llvm::split(text, ';')) {
    sequences.emplace_back();
    for (StringRef word : llvm::split(part, ',')) {
      int32_t id = 0;
      if (word.trim().getAsInteger(10, id))
        return createStringError(formatv("--tokens: expected a number, got '{0}'", word));
      sequences.back().push_back(id);
    }
  }
  return sequences;
}

/// Where the sequences of the made-up step start, and how many tokens each has:
/// a prompt from its beginning, a decoded token, a chunk in the middle.
static constexpr std::pair<int32_t, int32_t> madeUpSequences[] = {{0, 4}, {5, 1}, {19, 3}};

/// One step of those sequences, with ids that every embedding has; the last
/// token of each is wanted.
static Batch makeUpBatch(ModuleOp module) {
  int64_t vocabulary = std::numeric_limits<int32_t>::max();
  module.walk([&](EmbeddingOp op) { vocabulary = std::min(vocabulary, op.getTable().getType().getDimSize(0)); });
  Batch batch;
  uint64_t key = ingot_rt_random_key(inputSeed, "tokens", 6);
  uint64_t drawn = 0;
  for (auto [sequence, range] : llvm::enumerate(madeUpSequences)) {
    std::vector<int32_t> ids(range.second);
    for (int32_t &id : ids) {
      uint32_t block[4];
      ingot_rt_random_block(key, drawn++, block);
      id = static_cast<int32_t>(block[0] % vocabulary);
    }
    batch.append(static_cast<int32_t>(sequence), range.first, ids);
  }
  batch.rows = {3, 4, 7};
  return batch;
}

/// Keys and values at every position of the made-up sequences.
static void fillCache(Cache &cache) {
  int64_t features = cache.features();
  for (int64_t layer = 0; layer < cache.getType().getLayers(); ++layer)
    for (auto [sequence, range] : llvm::enumerate(madeUpSequences)) {
      int32_t count = range.first + range.second;
      auto draw = [&](StringRef what) {
        return randomValues(formatv("{0}.{1}.{2}", what, layer, sequence).str(), count * features);
      };
      std::vector<float> keys = draw("keys"), values = draw("values");
      for (int32_t position = 0; position < count; ++position)
        cache.write(layer, static_cast<int64_t>(sequence), position,
                    ArrayRef<float>(keys).slice(position * features, features),
                    ArrayRef<float>(values).slice(position * features, features));
    }
}

//===--------------------------------------------------------------------------------------------------------------===//
// Runs
//===--------------------------------------------------------------------------------------------------------------===//

/// What a function left behind.
struct Outcome {
  std::vector<Matrix> results;
  std::optional<Cache> cache;
};

static EvaluatorOptions evaluatorOptions() {
  EvaluatorOptions options;
  options.accumulation = wide ? Accumulation::F64 : Accumulation::F32;
  options.rowParallelSegments = segments;
  options.threads = threads;
  return options;
}

static Expected<Outcome> runTokens(Program &program, ParameterProvider &provider) {
  auto sequences = parseTokens(tokensText);
  if (!sequences)
    return sequences.takeError();
  Evaluator evaluator(*program.module, provider, evaluatorOptions());
  Expected<KVCacheType> type = evaluator.cacheType();
  if (!type)
    return type.takeError();
  Outcome outcome{{}, Cache(*type)};
  auto logits = evaluator.logits(*sequences, chunk, *outcome.cache);
  if (!logits)
    return logits.takeError();
  outcome.results = std::move(*logits);
  return outcome;
}

static Expected<Outcome> runFunction(Program &program, ParameterProvider &provider, func::FuncOp function) {
  Batch batch = makeUpBatch(*program.module);
  Outcome outcome;
  std::vector<Matrix> activations;
  std::vector<int64_t> indices;
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    if (auto tensor = dyn_cast<RankedTensorType>(type); tensor && tensor.getRank() == 2) {
      int64_t rows = static_cast<int64_t>(batch.tokens.size()), columns = tensor.getDimSize(1);
      activations.push_back({rows, columns, randomValues(formatv("argument.{0}", i).str(), rows * columns)});
    } else if (type.isIndex()) {
      indices.push_back(0);
    } else if (auto cacheType = dyn_cast<KVCacheType>(type)) {
      outcome.cache.emplace(cacheType);
      fillCache(*outcome.cache);
    }
  }
  Evaluator evaluator(*program.module, provider, evaluatorOptions());
  auto results =
      evaluator.call(function.getName(), activations, indices, batch, outcome.cache ? &*outcome.cache : nullptr);
  if (!results)
    return results.takeError();
  outcome.results = std::move(*results);
  return outcome;
}

/// The functions to run: the one that is asked for, @forward, or all.
static Expected<std::vector<func::FuncOp>> entries(Program &program) {
  StringRef name = StringRef(entry).ltrim('@');
  bool asked = !name.empty();
  if (!asked)
    name = forwardName;
  if (auto function = program.module->lookupSymbol<func::FuncOp>(name))
    return std::vector<func::FuncOp>{function};
  std::vector<func::FuncOp> all;
  if (!asked)
    for (auto function : program.module->getOps<func::FuncOp>())
      if (!function.isExternal())
        all.push_back(function);
  if (all.empty())
    return createStringError(formatv("{0}: no function @{1}", program.file, name));
  return all;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Reports
//===--------------------------------------------------------------------------------------------------------------===//

static void print(StringRef what, const Matrix &matrix) {
  for (int64_t row = 0; row < matrix.rows; ++row) {
    outs() << what << " row " << row << ":";
    for (float value : matrix.row(row))
      outs() << ' ' << llvm::format("%.9g", value);
    outs() << '\n';
  }
}

/// The largest difference of two lists of numbers, and how many differ in bits.
struct Difference {
  double largest = 0;
  size_t different = 0, count = 0;

  void add(ArrayRef<float> a, ArrayRef<float> b) {
    if (a.size() != b.size()) {
      largest = INFINITY;
      different += std::max(a.size(), b.size());
      return;
    }
    for (auto [x, y] : llvm::zip(a, b)) {
      ++count;
      if (std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y))
        continue;
      ++different;
      double difference = std::fabs(double(x) - double(y));
      // A NaN on one side only is as far away as can be.
      largest = std::max(largest, std::isnan(difference) ? INFINITY : difference);
    }
  }
  bool acceptable() const { return bits || tolerance < 0 ? different == 0 : largest <= tolerance; }
  std::string text() const {
    return formatv("{0} in {1} values, {2} differ in bits", llvm::format("%g", largest), count, different).str();
  }
};

static Difference difference(const Cache &a, const Cache &b) {
  Difference difference;
  for (int64_t layer = 0; layer < a.getType().getLayers(); ++layer)
    for (int64_t s = 0; s < std::max(a.sequenceCount(), b.sequenceCount()); ++s)
      for (int64_t p = 0, end = std::max(a.positions(layer, s), b.positions(layer, s)); p < end; ++p) {
        difference.add(a.key(layer, s, p), b.key(layer, s, p));
        difference.add(a.value(layer, s, p), b.value(layer, s, p));
      }
  return difference;
}

/// Prints how `a` and `b`, results of the function `name`, differ. True if that
/// is acceptable.
static bool report(StringRef name, const Outcome &a, const Outcome &b) {
  Difference results;
  for (auto [x, y] : llvm::zip_equal(a.results, b.results))
    results.add(x.values, y.values);
  outs() << '@' << name << ": largest difference " << results.text();
  bool good = results.acceptable();
  if (a.cache) {
    Difference cached = difference(*a.cache, *b.cache);
    outs() << "; cache " << cached.text();
    good &= cached.acceptable();
  }
  outs() << (good ? "" : ": too large") << '\n';
  return good;
}

/// Evaluates one function of `program` (and of `other`, if there is one) and
/// prints what came out. True if nothing differs by too much.
static Expected<bool> evaluate(Program &program, Program *other, func::FuncOp function, ParameterProvider &provider) {
  auto run = [&](Program &which, func::FuncOp what) {
    return tokensText.empty() ? runFunction(which, provider, what) : runTokens(which, provider);
  };
  Expected<Outcome> outcome = run(program, function);
  if (!outcome)
    return outcome.takeError();
  if (!other) {
    for (auto [i, matrix] : llvm::enumerate(outcome->results))
      print(formatv("@{0} {1} {2}", function.getName(), tokensText.empty() ? "result" : "sequence", i).str(), matrix);
    return true;
  }
  auto counterpart = other->module->lookupSymbol<func::FuncOp>(function.getName());
  if (!counterpart || counterpart.getFunctionType() != function.getFunctionType())
    return createStringError(formatv("{0}: expected a function @{1} of type {2}, got {3}", other->file,
                                     function.getName(), function.getFunctionType(),
                                     counterpart ? formatv("{0}", counterpart.getFunctionType()).str() : "none"));
  Expected<Outcome> second = run(*other, counterpart);
  if (!second)
    return second.takeError();
  return report(function.getName(), *outcome, *second);
}

/// The parameters that the command line names.
static Expected<std::unique_ptr<ParameterProvider>> openParameters() {
  if (!weightsFrom.empty()) {
    if (weights.getNumOccurrences())
      return createStringError("--weights and --weights-from exclude each other");
    auto checkpoint = openCheckpoint(weightsFrom);
    if (!checkpoint)
      return checkpoint.takeError();
    return std::make_unique<CheckpointParameters>(*checkpoint);
  }
  StringRef seedText = weights;
  uint64_t seed = 0;
  if (!seedText.consume_front("random:") || seedText.getAsInteger(10, seed))
    return createStringError(formatv("--weights: expected random:SEED, got '{0}'", weights));
  return std::make_unique<RandomParameters>(seed);
}

static Expected<bool> evaluateAll(MLIRContext &context) {
  if (segments < 1 || segments > 8)
    return createStringError(formatv("--segments: expected 1 to 8, got {0}", segments));
  auto provider = openParameters();
  if (!provider)
    return provider.takeError();
  Expected<Program> program = load(inputFile, context);
  if (!program)
    return program.takeError();
  std::optional<Program> other;
  if (!compareFile.empty()) {
    Expected<Program> loaded = load(compareFile, context);
    if (!loaded)
      return loaded.takeError();
    other = std::move(*loaded);
  }
  auto functions = entries(*program);
  if (!functions)
    return functions.takeError();
  bool good = true;
  for (func::FuncOp function : *functions) {
    Expected<bool> one = evaluate(*program, other ? &*other : nullptr, function, **provider);
    if (!one)
      return one.takeError();
    good &= *one;
  }
  return good;
}

int main(int argc, char **argv) {
  InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(argc, argv,
                              "Evaluates IR in the ingot dialect with plain loops.\n\n"
                              "  ingot-eval model.mlir --tokens \"1,2,3;4,5\" --chunk 2\n"
                              "  ingot-eval before.mlir --compare after.mlir --bits\n");
  MLIRContext context;
  context.loadDialect<IngotDialect, func::FuncDialect, arith::ArithDialect>();
  Expected<bool> good = evaluateAll(context);
  if (good)
    return *good ? 0 : 1;
  errs() << "error: " << toString(good.takeError()) << '\n';
  return 1;
}
