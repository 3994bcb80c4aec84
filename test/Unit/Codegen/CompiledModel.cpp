// See CompiledModel.h.
#include "CompiledModel.h"
#include "RandomBlocks.h"
#include "compiler/Conversion/Passes.h"
#include "compiler/Conversion/StepArguments.h"
#include "compiler/Evaluator/Parameters.h"
#include "compiler/Target/Packer.h"
#include "device/device.h"
#include "ingot_rt/emulate.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "tools/ingot-eval/CheckpointParameters.h"
#include "llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h"
#include "llvm/ExecutionEngine/Orc/ThreadSafeModule.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include <barrier>
#include <cstring>
#include <thread>

using namespace mlir;

namespace ingot::test {

[[noreturn]] static void fail(const llvm::Twine &what) {
  llvm::errs() << what << "\n";
  std::abort();
}

template <typename T>
static T take(llvm::Expected<T> value) {
  if (!value)
    fail(llvm::toString(value.takeError()));
  return std::move(*value);
}

static void check(llvm::Error error) {
  if (error)
    fail(llvm::toString(std::move(error)));
}

//===--------------------------------------------------------------------------------------------------------------===//
// Source
//===--------------------------------------------------------------------------------------------------------------===//

static std::string tensor(std::initializer_list<int64_t> shape, const std::string &element) {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + element + ">";
}

namespace {
/// Writes one module.
struct Writer {
  const DecoderShape &s;
  std::string text, body;

  std::string activation(int64_t n) const { return "tensor<?x" + std::to_string(n) + "xf32>"; }
  std::string cacheType() const {
    int64_t layers = 0;
    for (int64_t count : s.runs)
      layers += count;
    return "!ingot.kv_cache<" + std::to_string(layers) + " x " + std::to_string(s.kvHeads) + " x " +
           std::to_string(s.headDim) + " x " + s.cache + ">";
  }

  /// Declares a parameter of a kind and reads it; returns its value and type.
  std::string parameter(const std::string &kind, const std::string &name, std::initializer_list<int64_t> shape) {
    std::string type = tensor(shape, s.weights);
    bool bias = name.find("bias") != std::string::npos;
    text += "ingot.parameter @" + kind + "." + name + " \"" + kind + ".{layer}." + name + (bias ? "" : ".weight") +
            "\" kind @" + kind + " part \"mlp\" : " + type + "\n";
    body += "  %w_" + name + " = ingot.weight @" + kind + "." + name + "[%index] : " + type + "\n";
    return type;
  }
  void linear(const std::string &kind, const std::string &result, const std::string &input, int64_t k, int64_t n,
              const std::string &name, bool bias, bool rowParallel) {
    std::string type = parameter(kind, name, {n, k});
    std::string biasText;
    if (bias) {
      std::string biasType = parameter(kind, name + "_bias", {n});
      biasText = " bias(%w_" + name + "_bias : " + biasType + ")";
    }
    body += "  %" + result + " = ingot.linear %" + input + " weights(%w_" + name + " : " + type + ")" + biasText +
            (rowParallel ? " row_parallel" : "") + " : " + activation(k) + " -> " + activation(n) + "\n";
  }
  void norm(const std::string &kind, const std::string &result, const std::string &input, int64_t n,
            const std::string &name, int64_t size) {
    std::string type = parameter(kind, name, {size});
    body += "  %" + result + " = ingot.rms_norm %" + input + ", %w_" + name + " eps = 1.0e-5 : " + activation(n) +
            ", " + type + "\n";
  }
  void layer(const std::string &kind, bool window);
  void forward();
};
} // namespace

void Writer::layer(const std::string &kind, bool window) {
  int64_t q = s.heads * s.headDim, kv = s.kvHeads * s.headDim;
  body.clear();
  norm(kind, "x", "h", s.hidden, "input_norm", s.hidden);
  linear(kind, "q", "x", s.hidden, q, "q", s.bias, false);
  linear(kind, "k", "x", s.hidden, kv, "k", s.bias, false);
  linear(kind, "v", "x", s.hidden, kv, "v", s.bias, false);
  std::string qName = "q", kName = "k";
  if (s.qkNorm) {
    norm(kind, "qn", "q", q, "q_norm", s.headDim);
    norm(kind, "kn", "k", kv, "k_norm", s.headDim);
    qName = "qn";
    kName = "kn";
  }
  body += "  %qr = ingot.rope %" + qName + ", %batch, @rotary : " + activation(q) + "\n";
  body += "  %kr = ingot.rope %" + kName + ", %batch, @rotary : " + activation(kv) + "\n";
  body += "  ingot.kv_append %kr, %v, %batch, %cache[%layer] : " + activation(kv) + ", " + cacheType() + "\n";
  body += "  %a = ingot.attention %qr, %batch, %cache[%layer] scale = 0.28867513 " +
          (window ? "window = " + std::to_string(s.window) : std::string()) + " : " + activation(q) + ", " +
          cacheType() + "\n";
  linear(kind, "o", "a", q, s.hidden, "o", s.bias, true);
  body += "  %h1 = ingot.add %h, %o : " + activation(s.hidden) + "\n";
  norm(kind, "y", "h1", s.hidden, "post_norm", s.hidden);
  linear(kind, "g", "y", s.hidden, s.intermediate, "gate", s.bias, false);
  linear(kind, "u", "y", s.hidden, s.intermediate, "up", s.bias, false);
  body += "  %s = ingot.silu %g : " + activation(s.intermediate) + "\n";
  body += "  %m = ingot.mul %s, %u : " + activation(s.intermediate) + "\n";
  linear(kind, "d", "m", s.intermediate, s.hidden, "down", false, true);
  body += "  %h2 = ingot.add %h1, %d : " + activation(s.hidden) + "\n";
  text += "func.func private @" + kind + "(%h: " + activation(s.hidden) +
          ", %batch: !ingot.batch, %cache: " + cacheType() + ", %index: index, %layer: index) -> " +
          activation(s.hidden) + " {\n" + body + "  return %h2 : " + activation(s.hidden) + "\n}\n";
}

void Writer::forward() {
  std::string table = tensor({s.vocab, s.hidden}, s.weights), hidden = activation(s.hidden);
  text += "ingot.parameter @embed \"embed.weight\" part \"embedding\" : " + table + "\n";
  text += "ingot.parameter @norm \"norm.weight\" part \"norm\" : " + tensor({s.hidden}, s.weights) + "\n";
  if (!s.tied)
    text += "ingot.parameter @lm_head \"lm_head.weight\" part \"lm_head\" : " + table + "\n";
  std::string runs;
  std::map<std::string, int64_t> next;
  for (size_t i = 0; i < s.runs.size(); ++i) {
    std::string kind = i % 2 ? "other" : "layer";
    runs += (i ? ", " : "") + ("#ingot.run<@" + kind + ", first = " + std::to_string(next[kind]) +
                               ", count = " + std::to_string(s.runs[i]) + ">");
    next[kind] += s.runs[i];
  }
  text += "func.func @forward(%batch: !ingot.batch, %cache: " + cacheType() + ") -> " + activation(s.vocab) + " {\n";
  text += "  %t = ingot.weight @embed : " + table + "\n";
  text += "  %h = ingot.embedding %batch, %t : " + table + " -> " + hidden + "\n";
  text += "  %l = ingot.layers %h, %batch, %cache [" + runs + "] : " + hidden + ", " + cacheType() + "\n";
  text += "  %r = ingot.select_rows %l, %batch : " + hidden + "\n";
  text += "  %n = ingot.weight @norm : " + tensor({s.hidden}, s.weights) + "\n";
  text += "  %y = ingot.rms_norm %r, %n eps = 1.0e-5 : " + hidden + ", " + tensor({s.hidden}, s.weights) + "\n";
  text += std::string("  %head = ingot.weight ") + (s.tied ? "@embed" : "@lm_head") + " : " + table + "\n";
  text +=
      "  %logits = ingot.linear %y weights(%head : " + table + ") : " + hidden + " -> " + activation(s.vocab) + "\n";
  text += "  return %logits : " + activation(s.vocab) + "\n}\n";
}

std::string decoderText(const DecoderShape &s) {
  Writer writer{s, {}, {}};
  std::string frequencies, longFrequencies;
  for (int64_t i = 0; i < s.headDim / 2; ++i) {
    float frequency = 1.0f / std::pow(10000.0f, 2.0f * static_cast<float>(i) / static_cast<float>(s.headDim));
    char number[64];
    snprintf(number, sizeof number, "%s%.9e", i ? ", " : "", frequency);
    frequencies += number;
    snprintf(number, sizeof number, "%s%.9e", i ? ", " : "", frequency / 3);
    longFrequencies += number;
  }
  writer.text =
      "module @test attributes {ingot.model = #ingot.model<name = \"test\", architecture = \"llama\", vocab = " +
      std::to_string(s.vocab) + ", hidden = " + std::to_string(s.hidden) +
      ", intermediate = " + std::to_string(s.intermediate) + ", heads = " + std::to_string(s.heads) +
      ", maxContext = " + std::to_string(s.maxContext) + ", maxBatch = 8, maxStepTokens = 512>} {\n";
  writer.text += std::string("ingot.rotary @rotary ") + (s.interleaved ? "interleaved" : "half") + " inv_freq = [" +
                 frequencies + "] scaling = " + (s.longRope ? "1.19" : "1.0") +
                 (s.longRope ? " long_inv_freq = [" + longFrequencies + "] long_from = 32" : "") + "\n";
  writer.layer("layer", s.window > 0 && s.runs.size() == 1);
  if (s.runs.size() > 1)
    writer.layer("other", s.window > 0);
  writer.forward();
  return writer.text + "}\n";
}

//===--------------------------------------------------------------------------------------------------------------===//
// Compilation
//===--------------------------------------------------------------------------------------------------------------===//

/// Which worker waits where; a step's `barrier` argument.
using Barrier = std::barrier<>;

extern "C" void ingot_test_barrier(void *barrier, uint32_t) { static_cast<Barrier *>(barrier)->arrive_and_wait(); }

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.SLPVectorization = tuning.LoopUnrolling = false;
  llvm::PassBuilder builder(&machine, tuning);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

CompiledModel::CompiledModel(const std::string &text, const Build &build) {
  DialectRegistry registry;
  registerAllDialects(registry);
  registerAllExtensions(registry);
  registerAllToLLVMIRTranslations(registry);
  registry.insert<IngotDialect>();
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
  compile(text, build);
  reset();
}

CompiledModel::~CompiledModel() = default;

/// From packed to the LLVM dialect.
void CompiledModel::convert(const Build &build) {
  PassManager toLLVM(&context);
  if (build.emulated) {
    CompileOptions options;
    options.target = TargetKind::CUDAEmulated;
    options.randomWeights = build.randomWeights;
    variant = getTargetName(options.target).str();
    PassManager toKernels(&context);
    populateGPUPipeline(toKernels, options);
    if (failed(toKernels.run(*module)))
      fail("no kernels");
    if (build.sabotage)
      build.sabotage(*module);
    populateNVVMPipeline(toLLVM, options);
    populateLaunchesPipeline(toLLVM, options);
  } else {
    ConvertIngotToLoopsPassOptions conversion;
    conversion.cpus = {variant};
    conversion.attention = build.attention;
    conversion.tilesOf = build.tilesOf;
    conversion.definitions = build.definitions;
    toLLVM.addPass(createConvertIngotToLoopsPass(std::move(conversion)));
    toLLVM.addPass(createConvertLoopsToLLVMPass());
  }
  if (failed(toLLVM.run(*module)))
    fail("no LLVM dialect");
}

/// Whether some parameter is stored quantized.
static bool usesQuantized(ModuleOp packed) {
  return llvm::any_of(packed.getOps<ParameterOp>(), [](ParameterOp parameter) {
    return isa<QuantizedType>(parameter.getTensorType().getElementType());
  });
}

void CompiledModel::compile(const std::string &text, const Build &build) {
  source = parseSourceString<ModuleOp>(text, &context);
  if (!source)
    fail(text);
  module = source->clone();
  CompileOptions options;
  options.fuse = build.fuse;
  options.quantize = build.quantize;
  options.compute = build.compute;
  PassManager toPacked(&context);
  populateFusedPipeline(toPacked, options);
  populatePackedPipeline(toPacked, options);
  if (failed(toPacked.run(*module)))
    fail("no packed module");
  packed = module->clone();
  if (usesQuantized(*packed)) {
    packBlocks(*packed);
  } else {
    parameters = std::make_unique<RandomParameters>(7);
    pack(*module, *computeParameterTable(*module));
  }
  auto model = (*module)->getAttrOfType<ModelAttr>(modelAttrName);
  auto cache = cast<KVCacheType>(module->lookupSymbol<func::FuncOp>(forwardName).getArgument(1).getType());
  vocab = model.getVocab();
  cacheDtype = cache.getElementType().isF32()        ? INGOT_RT_F32
               : cache.getElementType().isF16()      ? INGOT_RT_F16
               : cache.getElementType().isInteger(8) ? INGOT_RT_INT8
                                                     : INGOT_RT_BF16;
  blockBytes = ingot_rt_cache_block_bytes(cache.getLayers(), cache.getKvHeads(), cache.getHeadDim(), cacheDtype);

  convert(build);
  auto sizes = (*module)->getAttrOfType<DictionaryAttr>(arenaAttrName);
  auto number = [&](StringRef name) { return static_cast<uint64_t>(sizes.getAs<IntegerAttr>(name).getInt()); };
  arena = {number("base"), number("per_token"), number("per_row"), number("per_worker")};
  for (auto row : (*module)->getAttrOfType<ArrayAttr>(opsAttrName).getAsRange<DictionaryAttr>())
    opNames.push_back(row.getAs<StringAttr>("name").str());

  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto machineBuilder = take(llvm::orc::JITTargetMachineBuilder::detectHost());
  auto machine = take(machineBuilder.createTargetMachine());
  auto llvmContext = std::make_unique<llvm::LLVMContext>();
  auto nested = *module->getOps<ModuleOp>().begin();
  auto llvmModule = translateModuleToLLVMIR(nested, *llvmContext);
  if (!llvmModule)
    fail("no LLVM IR");
  llvmModule->setDataLayout(machine->createDataLayout());
  llvmModule->setTargetTriple(machine->getTargetTriple());
  for (llvm::Function &function : *llvmModule)
    function.addFnAttr("target-cpu", machine->getTargetCPU());
  optimize(*llvmModule, *machine);
  jit = take(llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(machineBuilder).create());
  modelRecord.resize(sizeof(ingot_rt_model));
  reinterpret_cast<ingot_rt_model *>(modelRecord.data())->cache_id = 0x1234567890abcdefull;
  llvm::orc::SymbolMap symbols;
  auto define = [&](const char *name, void *address) {
    symbols[jit->mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(address), llvm::JITSymbolFlags::Exported};
  };
  define("ingot_rt_barrier", reinterpret_cast<void *>(&ingot_test_barrier));
  define("ingot_rt_the_model", modelRecord.data());
  define("ingot_rt_emulate_special", reinterpret_cast<void *>(&ingot_rt_emulate_special));
  define("ingot_rt_emulate_shared", reinterpret_cast<void *>(&ingot_rt_emulate_shared));
  define("ingot_rt_emulate_access", reinterpret_cast<void *>(&ingot_rt_emulate_access));
  define("ingot_rt_emulate_barrier", reinterpret_cast<void *>(&ingot_rt_emulate_barrier));
  define("ingot_rt_emulate_shuffle", reinterpret_cast<void *>(&ingot_rt_emulate_shuffle));
  define("ingot_rt_emulate_vote", reinterpret_cast<void *>(&ingot_rt_emulate_vote));
  define("ingot_rt_emulate_mma", reinterpret_cast<void *>(&ingot_rt_emulate_mma));
  define("ingot_rt_emulate_load_matrix", reinterpret_cast<void *>(&ingot_rt_emulate_load_matrix));
  define("ingot_rt_emulate_copy", reinterpret_cast<void *>(&ingot_rt_emulate_copy));
  define("ingot_rt_emulate_atomic", reinterpret_cast<void *>(&ingot_rt_emulate_atomic));
  define("ingot_rt_emulate_copy_commit", reinterpret_cast<void *>(&ingot_rt_emulate_copy_commit));
  define("ingot_rt_emulate_copy_wait", reinterpret_cast<void *>(&ingot_rt_emulate_copy_wait));
  check(jit->getMainJITDylib().define(llvm::orc::absoluteSymbols(symbols)));
  check(jit->addIRModule(llvm::orc::ThreadSafeModule(std::move(llvmModule), std::move(llvmContext))));
  entry = take(jit->lookup(stepSymbol(variant))).toPtr<ingot_rt_step_fn>();
}

void CompiledModel::packBlocks(ModuleOp packed) {
  auto blocks = std::make_shared<RandomBlocks>(packed);
  auto layouts = getPackedParameters(packed);
  if (failed(layouts))
    fail("no layouts");
  uint64_t size = computeParameterTable(packed)->weightsBytes;
  weightBytes.assign(size + 64, 0);
  weights = weightBytes.data() + (64 - reinterpret_cast<uintptr_t>(weightBytes.data()) % 64) % 64;
  check(packParameters(*layouts, *blocks, llvm::MutableArrayRef<char>(reinterpret_cast<char *>(weights), size),
                       [](uint64_t) {}));
  parameters = std::make_unique<CheckpointParameters>(blocks);
}

/// A value as `dtype` stores it, which must be exact.
static void storeElement(uint8_t *to, uint32_t dtype, float value) {
  if (dtype == INGOT_RT_F32) {
    std::memcpy(to, &value, 4);
    return;
  }
  llvm::APFloat rounded(value);
  bool lost = false;
  rounded.convert(dtype == INGOT_RT_BF16 ? llvm::APFloat::BFloat() : llvm::APFloat::IEEEhalf(),
                  llvm::APFloat::rmNearestTiesToEven, &lost);
  uint16_t bits = static_cast<uint16_t>(rounded.bitcastToAPInt().getZExtValue());
  if (lost)
    fail("a weight is not exact in its storage type");
  std::memcpy(to, &bits, 2);
}

void CompiledModel::pack(ModuleOp packed, const ParameterTable &table) {
  weightBytes.assign(table.weightsBytes + 64, 0);
  weights = weightBytes.data() + (64 - reinterpret_cast<uintptr_t>(weightBytes.data()) % 64) % 64;
  // Which layers of the model are those of a kind.
  std::map<std::string, std::vector<int64_t>> layersOf;
  int64_t layer = 0;
  packed.walk([&](LayersOp op) {
    for (auto run : op.getRuns().getAsRange<RunAttr>())
      for (int64_t i = 0; i < run.getCount(); ++i)
        layersOf[run.getKind().getValue().str()].push_back(layer++);
  });
  for (const ParameterLayout &layout : table.parameters) {
    ParameterOp op = layout.op;
    uint64_t elementBytes = ingot_rt_dtype_size(layout.dtype), group = ingot_rt_k_group(layout.dtype);
    for (uint64_t index = 0; index < layout.count; ++index) {
      Parameter parameter{op, op.getKind() ? layersOf[op.getKind()->str()][index] : -1};
      std::vector<float> all = take(parameter.readAll(*parameters));
      uint8_t *base = weights + layout.offset + index * layout.layerStride;
      uint64_t padded = (layout.rows + 15) / 16 * 16;
      for (uint64_t i = 0; i < all.size(); ++i) {
        uint64_t row = i / layout.columns, k = i % layout.columns, at = i;
        if (layout.layout == INGOT_RT_PANELS)
          at = ingot_rt_panel_index(layout.rows, layout.columns, layout.segments, group, row, k);
        else if (layout.layout == INGOT_RT_PANEL_PAIRS)
          at = ingot_rt_panel_index(2 * padded, layout.columns, layout.segments, group,
                                    ingot_rt_pair_feature(row / layout.rows, row % layout.rows), k);
        storeElement(base + at * elementBytes, layout.dtype, all[i]);
      }
    }
  }
}

//===--------------------------------------------------------------------------------------------------------------===//
// Steps
//===--------------------------------------------------------------------------------------------------------------===//

void CompiledModel::reset() {
  tables.clear();
  lengths.clear();
  blocks = 64;
  // Blocks are handed out from the end, so that numbers say nothing.
  nextBlock = blocks;
  cacheBytes.assign(blocks * blockBytes + 64, 0xff);
}

/// `bytes` from the first multiple of 64 on.
static uint8_t *aligned(std::vector<uint8_t> &bytes) {
  return bytes.data() + (64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64) % 64;
}

static void seeOp(void *context, uint32_t worker, uint32_t op, int32_t layer, const float *data, uint64_t rows,
                  uint64_t columns, uint64_t stride) {
  if (worker != 0)
    return;
  Seen seen{op, layer, {}};
  for (uint64_t r = 0; data && r < rows; ++r)
    seen.values.insert(seen.values.end(), data + r * stride, data + r * stride + columns);
  static_cast<std::vector<Seen> *>(context)->push_back(std::move(seen));
}

void CompiledModel::run(const std::vector<Chunk> &chunks, unsigned workers, uint32_t output, ingot_rt_step_args *keep) {
  tokens.clear();
  positions.clear();
  sequences.clear();
  slots.clear();
  starts.assign(1, 0);
  lengthsOf.clear();
  regimes.clear();
  rows.clear();
  uint64_t tableStride = blocks;
  blockTables.assign(chunks.size() * tableStride, -1);
  for (size_t s = 0; s < chunks.size(); ++s) {
    const Chunk &chunk = chunks[s];
    std::vector<int32_t> &table = tables[chunk.sequence];
    int32_t &length = lengths[chunk.sequence];
    for (int32_t id : chunk.ids) {
      if (length % INGOT_RT_CACHE_BLOCK == 0) {
        if (nextBlock == 0)
          fail("no cache block left");
        table.push_back(static_cast<int32_t>(--nextBlock));
      }
      rows.push_back(static_cast<int32_t>(tokens.size()));
      tokens.push_back(id);
      positions.push_back(length);
      sequences.push_back(static_cast<int32_t>(s));
      slots.push_back(int64_t(table.back()) * INGOT_RT_CACHE_BLOCK + length % INGOT_RT_CACHE_BLOCK);
      ++length;
    }
    starts.push_back(static_cast<int32_t>(tokens.size()));
    lengthsOf.push_back(length);
    regimes.push_back(longRegime);
    std::copy(table.begin(), table.end(), blockTables.begin() + s * tableStride);
  }
  uint64_t stride = (vocab + 15) / 16 * 16;
  // Memory that nothing has written holds NaNs, as an arena may that a step of another size has used.
  arenaBytes.assign(arena.base + tokens.size() * arena.per_token + rows.size() * arena.per_row +
                        workers * arena.per_worker + 64,
                    0xff);
  logitsBytes.assign(rows.size() * stride + 16, -1);
  ids.assign(rows.size(), -1);
  values.assign(rows.size(), -1);
  Barrier barrier(workers);
  ingot_rt_step_args args = {};
  args.size = sizeof args;
  args.version = INGOT_RT_ABI_VERSION;
  args.output = output;
  args.weights = weights;
  args.arena = aligned(arenaBytes);
  args.cache = aligned(cacheBytes);
  args.cache_blocks = blocks;
  args.cache_id = reinterpret_cast<ingot_rt_model *>(modelRecord.data())->cache_id;
  args.token_count = tokens.size();
  args.sequence_count = chunks.size();
  args.row_count = rows.size();
  args.tokens = tokens.data();
  args.positions = positions.data();
  args.sequences = sequences.data();
  args.slots = slots.data();
  args.query_starts = starts.data();
  args.lengths = lengthsOf.data();
  args.regimes = regimes.data();
  args.block_tables = blockTables.data();
  args.block_table_stride = tableStride;
  args.rows = rows.data();
  args.logits = logitsBytes.data();
  args.logits_stride = stride;
  args.argmax = ids.data();
  args.argmax_value = values.data();
  args.sampling = sampling;
  args.token_sets = tokenSets;
  args.token_set_words = tokenSetWords;
  args.barrier = &barrier;
  if (seen) {
    args.hook = seeOp;
    args.hook_context = seen;
  }
  std::unique_ptr<rt::Device> device;
  if (variant != "native") {
    setenv("INGOT_EMULATOR_ORDER", emulatorOrder.c_str(), 1);
    rt::Result<std::unique_ptr<rt::Device>> opened =
        ingot_rt_emulator.open(reinterpret_cast<ingot_rt_model *>(modelRecord.data()), {});
    if (!opened)
      fail(opened.takeError().message());
    device = std::move(*opened);
    args.launch = rt::Device::launchOn;
    args.launch_context = device.get();
  }
  if (keep) {
    *keep = args;
    return;
  }
  std::vector<std::thread> threads;
  for (unsigned worker = 1; worker < workers; ++worker)
    threads.emplace_back([&, worker] {
      if (entry(&args, worker, workers) != INGOT_RT_OK)
        fail("a step failed");
    });
  if (entry(&args, 0, workers) != INGOT_RT_OK)
    fail("a step failed");
  for (std::thread &thread : threads)
    thread.join();
  if (device) {
    const char *error = device->fault();
    if (error && fault.empty())
      fault = error;
  }
}

std::vector<std::vector<float>> CompiledModel::step(const std::vector<Chunk> &chunks, unsigned workers) {
  run(chunks, workers, INGOT_RT_LOGITS);
  uint64_t stride = (vocab + 15) / 16 * 16;
  std::vector<std::vector<float>> result;
  for (size_t row = 0; row < rows.size(); ++row)
    result.emplace_back(logitsBytes.begin() + row * stride, logitsBytes.begin() + row * stride + vocab);
  return result;
}

std::vector<std::pair<int32_t, float>> CompiledModel::argmax(const std::vector<Chunk> &chunks, unsigned workers) {
  run(chunks, workers, INGOT_RT_ARGMAX);
  std::vector<std::pair<int32_t, float>> result;
  for (size_t row = 0; row < rows.size(); ++row)
    result.emplace_back(ids[row], values[row]);
  return result;
}

std::vector<int32_t> CompiledModel::choose(const std::vector<Chunk> &chunks,
                                           const std::vector<ingot_rt_sampling> &rowSampling,
                                           const std::vector<uint32_t> &sets, uint64_t setWords) {
  sampling = rowSampling.data();
  tokenSets = sets.data();
  tokenSetWords = setWords;
  run(chunks, 1, INGOT_RT_TOKENS);
  return ids;
}

std::vector<std::vector<float>> CompiledModel::logits(int sequence, const std::vector<int32_t> &tokenIds, size_t chunk,
                                                      unsigned workers) {
  std::vector<std::vector<float>> result;
  for (size_t start = 0; start < tokenIds.size(); start += chunk) {
    size_t end = std::min(start + chunk, tokenIds.size());
    auto part = step({{sequence, {tokenIds.begin() + start, tokenIds.begin() + end}}}, workers);
    result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

std::vector<std::vector<float>> CompiledModel::evaluate(const std::vector<int32_t> &tokenIds,
                                                        Accumulation accumulation) {
  EvaluatorOptions options;
  options.accumulation = accumulation;
  options.rowParallelSegments = INGOT_RT_K_SEGMENTS;
  Evaluator evaluator(*source, *parameters, options);
  Cache cache(take(evaluator.cacheType()));
  auto logits = take(evaluator.logits({tokenIds}, 0, cache));
  std::vector<std::vector<float>> result;
  for (int64_t row = 0; row < logits[0].rows; ++row)
    result.push_back(logits[0].row(row).vec());
  return result;
}

std::vector<std::pair<int64_t, Matrix>> CompiledModel::observe(const std::vector<int32_t> &tokenIds) {
  std::vector<std::pair<int64_t, Matrix>> observed;
  EvaluatorOptions options;
  options.rowParallelSegments = INGOT_RT_K_SEGMENTS;
  options.observer = [&](Operation *op, int64_t layer, const Matrix &result) {
    if (!isa<LayersOp>(op))
      observed.emplace_back(layer, result);
  };
  Evaluator evaluator(*source, *parameters, options);
  Cache cache(take(evaluator.cacheType()));
  take(evaluator.logits({tokenIds}, 0, cache));
  return observed;
}

const ingot_rt_kernel *CompiledModel::kernel(const std::string &name) {
  return take(jit->lookup("ingot_kernel_" + name)).toPtr<const ingot_rt_kernel *>();
}

uint32_t CompiledModel::statusOf(llvm::function_ref<void(ingot_rt_step_args &)> change) {
  ingot_rt_step_args args = {};
  run({{0, {1}}}, 1, INGOT_RT_LOGITS, &args);
  Barrier barrier(1);
  args.barrier = &barrier;
  change(args);
  return entry(&args, 0, 1);
}

} // namespace ingot::test
