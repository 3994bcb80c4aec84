//===- Packer.cpp - Executes the recipes of packed parameters
//-----------------------------------------------------===//

#include "compiler/Target/Packer.h"
#include "compiler/Import/InputError.h"
#include "compiler/Target/PackQuantized.h"
#include "ingot_rt/abi.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <atomic>
#include <cfloat>
#include <cmath>
#include <mutex>
#include <thread>

using namespace mlir;
using namespace llvm;

namespace ingot {

std::string instantiateSource(StringRef pattern, int64_t layer) {
  auto [before, after] = pattern.split("{layer}");
  if (before.size() == pattern.size())
    return pattern.str();
  return (before + Twine(layer) + after).str();
}

FailureOr<std::vector<PackedParameter>> getPackedParameters(ModuleOp module) {
  FailureOr<ParameterTable> table = computeParameterTable(module);
  if (failed(table))
    return failure();
  StringMap<std::vector<int64_t>> layersOf;
  module.walk([&](LayersOp op) {
    int64_t layer = 0;
    for (auto run : op.getRuns().getAsRange<RunAttr>())
      for (int64_t i = 0; i < run.getCount(); ++i)
        layersOf[run.getKind().getValue()].push_back(layer++);
  });
  std::vector<PackedParameter> result;
  for (const ParameterLayout &layout : table->parameters) {
    std::optional<StringRef> kind = ParameterOp(layout.op).getKind();
    result.push_back({layout, kind ? layersOf.lookup(*kind) : std::vector<int64_t>{-1}});
    if (result.back().layers.size() != layout.count)
      return ParameterOp(layout.op).emitOpError("expected ")
             << layout.count << " layers of its kind, got " << result.back().layers.size();
  }
  return result;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Recipes
//===--------------------------------------------------------------------------------------------------------------===//

static RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }
static int64_t rowSize(RankedTensorType type) { return type.getShape().back(); }
static int64_t rowCount(RankedTensorType type) {
  int64_t rows = 1;
  for (int64_t size : type.getShape().drop_back())
    rows *= size;
  return rows;
}

/// Bits of `value` rounded to bfloat16, to nearest, ties to even; NaNs stay
/// NaNs.
static uint16_t toBF16(float value) {
  uint32_t bits = bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static uint16_t toF16(float value) { return bit_cast<uint16_t>(static_cast<_Float16>(value)); }

/// Where the first value lies that is finite and beyond the range of `type`: bfloat16 or float16 would hold an infinity
/// in its place.
static std::optional<size_t> firstBeyond(Type type, ArrayRef<float> values) {
  if (!type.isBF16() && !type.isF16())
    return std::nullopt;
  // The least magnitudes that round to infinity: the largest finite value and half of its last digit.
  float limit = type.isBF16() ? 0x1.ffp127f : 65520.0f;
  auto beyond = [=](float value) { return std::fabs(value) >= limit && std::fabs(value) <= FLT_MAX; };
  bool any = false; // without a way out, so that it stays vector code: hardly any tensor has one
  for (float value : values)
    any |= beyond(value);
  if (!any)
    return std::nullopt;
  return std::find_if(values.begin(), values.end(), beyond) - values.begin();
}

static void roundTo(Type type, MutableArrayRef<float> values) {
  if (type.isBF16())
    for (float &value : values)
      value = bit_cast<float>(static_cast<uint32_t>(toBF16(value)) << 16);
  else if (type.isF16())
    for (float &value : values)
      value = static_cast<float>(static_cast<_Float16>(value));
}

/// The tensor that an element of a recipe's value comes from.
static std::string sourceAt(Value value, int64_t layer, int64_t row, int64_t column) {
  Operation *op = value.getDefiningOp();
  if (auto source = dyn_cast<SourceOp>(op))
    return instantiateSource(source.getName(), layer);
  // Vectors are joined along their only dimension, all else by rows.
  bool byRows = isa<StackOp>(op) || tensorType(value).getRank() > 1;
  int64_t &at = byRows ? row : column;
  for (Value input : op->getOperands().drop_back()) {
    int64_t size = byRows ? rowCount(tensorType(input)) : rowSize(tensorType(input));
    if (at < size)
      return sourceAt(input, layer, row, column);
    at -= size;
  }
  return sourceAt(op->getOperands().back(), layer, row, column);
}

Expected<const TensorInfo *> findSource(SourceOp op, int64_t layer, const Checkpoint &checkpoint) {
  std::string name = instantiateSource(op.getName(), layer);
  const TensorInfo *tensor = checkpoint.find(name);
  if (!tensor)
    return createStringError("tensor '" + name + "' is missing");
  RankedTensorType type = tensorType(op.getResult());
  if (ArrayRef<int64_t>(tensor->shape) != type.getShape())
    return inputError(tensor->file, "tensor '" + name + "' has the wrong shape; expected " +
                                        shapeText(type.getShape()) + ", got " + shapeText(tensor->shape));
  return tensor;
}

static Error readSource(SourceOp op, int64_t layer, const Checkpoint &checkpoint, int64_t firstRow, int64_t rows,
                        MutableArrayRef<float> dst) {
  Expected<const TensorInfo *> tensor = findSource(op, layer, checkpoint);
  if (!tensor)
    return tensor.takeError();
  return checkpoint.readF32(**tensor, firstRow, rows, dst);
}

/// Values as a quantized format holds them.
static void quantizeValues(Quantization kind, int64_t k, MutableArrayRef<float> values) {
  for (size_t row = 0; row < values.size(); row += k)
    for (int64_t first = 0; first < k; first += quantizedBlock) {
      MutableArrayRef<float> block = values.slice(row + first, std::min(quantizedBlock, k - first));
      dequantizeBlock(kind, quantizeBlock(kind, block), block);
    }
}

/// Rows of values stacked or concatenated: row r of the result is row r - start
/// of the input that holds it.
static Error readJoined(OperandRange inputs, int64_t layer, const Checkpoint &checkpoint, int64_t firstRow,
                        int64_t rows, MutableArrayRef<float> dst) {
  int64_t start = 0, size = rowSize(tensorType(inputs.front()));
  for (Value input : inputs) {
    int64_t end = start + rowCount(tensorType(input));
    int64_t first = std::max(start, firstRow), last = std::min(end, firstRow + rows);
    if (first < last)
      if (Error error = readRecipeRows(input, layer, checkpoint, first - start, last - first,
                                       dst.slice((first - firstRow) * size, (last - first) * size)))
        return error;
    start = end;
  }
  return Error::success();
}

Error readRecipeRows(Value value, int64_t layer, const Checkpoint &checkpoint, int64_t firstRow, int64_t rows,
                     MutableArrayRef<float> dst) {
  Operation *op = value.getDefiningOp();
  if (auto source = dyn_cast<SourceOp>(op))
    return readSource(source, layer, checkpoint, firstRow, rows, dst);
  if (auto stack = dyn_cast<StackOp>(op))
    return readJoined(stack.getInputs(), layer, checkpoint, firstRow, rows, dst);
  if (auto concat = dyn_cast<ConcatOp>(op)) {
    if (tensorType(value).getRank() > 1)
      return readJoined(concat.getInputs(), layer, checkpoint, firstRow, rows, dst);
    // Vectors are one row each: their elements follow one another.
    size_t at = 0;
    for (Value input : concat.getInputs()) {
      size_t size = rowSize(tensorType(input));
      if (Error error = readRecipeRows(input, layer, checkpoint, 0, 1, dst.slice(at, size)))
        return error;
      at += size;
    }
    return Error::success();
  }
  if (auto pack = dyn_cast<PackOp>(op))
    return readRecipeRows(pack.getInput(), layer, checkpoint, firstRow, rows, dst);
  if (auto quantize = dyn_cast<QuantizeOp>(op)) {
    if (Error error = readRecipeRows(quantize.getInput(), layer, checkpoint, firstRow, rows, dst))
      return error;
    quantizeValues(cast<QuantizedType>(tensorType(value).getElementType()).getKind(), rowSize(tensorType(value)), dst);
    return Error::success();
  }
  auto convert = cast<ConvertOp>(op);
  if (Error error = readRecipeRows(convert.getInput(), layer, checkpoint, firstRow, rows, dst))
    return error;
  Type type = tensorType(value).getElementType();
  if (std::optional<size_t> at = firstBeyond(type, dst)) {
    int64_t size = rowSize(tensorType(value)), row = firstRow + static_cast<int64_t>(*at) / size;
    std::string name = sourceAt(convert.getInput(), layer, row, static_cast<int64_t>(*at) % size);
    const TensorInfo *tensor = checkpoint.find(name);
    return inputError(tensor ? StringRef(tensor->file) : "the checkpoint",
                      "tensor '" + name + "': the value " + Twine(formatv("{0:e}", dst[*at]).str()) +
                          " is beyond the range of " + (type.isF16() ? "f16" : "bf16") +
                          "; expected weights that it holds, or --dtype=" + (type.isF16() ? "bf16 or f32" : "f32"));
  }
  roundTo(type, dst);
  return Error::success();
}

//===--------------------------------------------------------------------------------------------------------------===//
// Layouts
//===--------------------------------------------------------------------------------------------------------------===//

/// Writes `values`, which the element type holds exactly, from `dst` on.
static void store(Type type, ArrayRef<float> values, char *dst) {
  if (type.isF32()) {
    memcpy(dst, values.data(), values.size() * sizeof(float));
    return;
  }
  auto *out = reinterpret_cast<uint16_t *>(dst);
  if (type.isBF16())
    for (float value : values)
      *out++ = static_cast<uint16_t>(bit_cast<uint32_t>(value) >> 16);
  else
    for (float value : values)
      *out++ = toF16(value);
}

namespace {
/// One matrix in panels: its shape as stored and the geometry of
/// ingot_rt/abi.h.
struct PanelGeometry {
  uint64_t n, k, segments, group, elementSize;
};
} // namespace

/// Writes one panel: 16 rows of `k` floats, one after another in `rows`.
static void storePanel(const PanelGeometry &g, Type type, uint64_t panel, const float *rows, char *dst) {
  std::vector<float> line(INGOT_RT_PANEL * g.group);
  for (uint64_t s = 0; s < g.segments; ++s) {
    uint64_t extent = ingot_rt_segment_extent(g.k, g.segments, s), padded = alignTo(extent, g.group);
    uint64_t first = s * ingot_rt_segment_length(g.k, g.segments);
    if (extent == 0)
      continue;
    char *out = dst + (ingot_rt_segment_start(g.n, g.k, g.segments, g.group, s) + panel * INGOT_RT_PANEL * padded) *
                          g.elementSize;
    for (uint64_t k = 0; k < padded; k += g.group) {
      for (uint64_t f = 0; f < INGOT_RT_PANEL; ++f)
        for (uint64_t i = 0; i < g.group; ++i)
          line[f * g.group + i] = k + i < extent ? rows[f * g.k + first + k + i] : 0.0f;
      store(type, line, out);
      out += line.size() * g.elementSize;
    }
  }
}

namespace {
/// A share of the work: some panels or rows of one layer of one parameter.
struct Task {
  const PackedParameter *parameter;
  size_t index; ///< within the kind
  int64_t first, count;
};
} // namespace

static PackedAttr packing(RankedTensorType type) { return cast<PackedAttr>(type.getEncoding()); }

/// Rows of a packed parameter's tasks: features for panels (of both matrices of
/// a pair), rows otherwise.
static int64_t taskUnits(RankedTensorType type) {
  if (packing(type).getLayout() == Layout::Rows)
    return rowCount(type);
  int64_t panels = divideCeil(type.getShape()[type.getRank() - 2], INGOT_RT_PANEL);
  return packing(type).getLayout() == Layout::PanelPairs ? 2 * panels : panels;
}

/// The rows of a parameter that stored panel `panel` holds: the first one and how many.
static std::pair<int64_t, int64_t> panelRows(RankedTensorType type, int64_t panel) {
  int64_t n = type.getShape()[type.getRank() - 2], firstRow = 0;
  if (packing(type).getLayout() == Layout::PanelPairs) {
    firstRow = panel % 2 * n;
    panel /= 2;
  }
  int64_t feature = panel * INGOT_RT_PANEL;
  return {firstRow + feature, std::min<int64_t>(INGOT_RT_PANEL, n - feature)};
}

/// Reads the 16 features of stored panel `panel` (those beyond the matrix are
/// zero) into `rows`.
static Error readPanel(RankedTensorType type, Value value, int64_t layer, const Checkpoint &checkpoint, int64_t panel,
                       MutableArrayRef<float> rows) {
  int64_t k = rowSize(type);
  auto [first, count] = panelRows(type, panel);
  std::fill(rows.begin() + count * k, rows.end(), 0.0f);
  return readRecipeRows(value, layer, checkpoint, first, count, rows.take_front(count * k));
}

/// The panels of a task on a quantized parameter, which starts at `dst`.
static Error packQuantized(const Task &task, const QuantizedFormat &format, const Checkpoint &checkpoint, char *dst) {
  ParameterOp op = task.parameter->layout.op;
  RankedTensorType type = op.getTensorType();
  int64_t k = rowSize(type), panels = taskUnits(type);
  for (int64_t panel = task.first; panel < task.first + task.count; ++panel) {
    auto [first, count] = panelRows(type, panel);
    QuantizedRows rows(format, INGOT_RT_PANEL, k);
    if (Error error =
            readQuantizedRows(op.getYielded(), task.parameter->layers[task.index], checkpoint, first, count, rows, 0))
      return error;
    storeQuantizedPanel(format, rows, k, packing(type).getSegments(), panels, panel, dst);
  }
  return Error::success();
}

static Error runTask(const Task &task, const Checkpoint &checkpoint, MutableArrayRef<char> weights,
                     std::vector<float> &buffer) {
  ParameterOp op = task.parameter->layout.op;
  RankedTensorType type = op.getTensorType();
  Value value = op.getYielded();
  int64_t layer = task.parameter->layers[task.index], k = rowSize(type);
  char *dst = weights.data() + task.parameter->layout.offset + task.index * task.parameter->layout.layerStride;
  if (const QuantizedFormat *format = getQuantizedFormat(type))
    return packQuantized(task, *format, checkpoint, dst);
  uint64_t elementSize = type.getElementTypeBitWidth() / 8;
  if (packing(type).getLayout() == Layout::Rows) {
    buffer.resize(task.count * k);
    if (Error error = readRecipeRows(value, layer, checkpoint, task.first, task.count, buffer))
      return error;
    store(type.getElementType(), buffer, dst + task.first * k * elementSize);
    return Error::success();
  }
  uint64_t n = type.getShape()[type.getRank() - 2];
  if (packing(type).getLayout() == Layout::PanelPairs)
    n = 2 * alignTo(n, INGOT_RT_PANEL);
  PanelGeometry geometry{n, static_cast<uint64_t>(k), static_cast<uint64_t>(packing(type).getSegments()),
                         type.getElementType().isBF16() ? 2u : 1u, elementSize};
  buffer.resize(INGOT_RT_PANEL * k);
  for (int64_t panel = task.first; panel < task.first + task.count; ++panel) {
    if (Error error = readPanel(type, value, layer, checkpoint, panel, buffer))
      return error;
    storePanel(geometry, type.getElementType(), panel, buffer.data(), dst);
  }
  return Error::success();
}

Error packParameters(ArrayRef<PackedParameter> parameters, const Checkpoint &checkpoint, MutableArrayRef<char> weights,
                     llvm::function_ref<void(uint64_t)> progress) {
  constexpr int64_t bytesPerTask = 1 << 20;
  std::vector<Task> tasks;
  for (const PackedParameter &parameter : parameters) {
    RankedTensorType type = ParameterOp(parameter.layout.op).getTensorType();
    int64_t units = taskUnits(type), unitBytes = std::max<int64_t>(1, parameter.layout.layerStride / units);
    int64_t perTask = std::max<int64_t>(1, bytesPerTask / unitBytes);
    for (size_t index = 0; index < parameter.layers.size(); ++index)
      for (int64_t first = 0; first < units; first += perTask)
        tasks.push_back({&parameter, index, first, std::min(perTask, units - first)});
  }
  std::atomic<size_t> next = 0;
  std::atomic<uint64_t> done = 0;
  std::atomic<bool> failed = false;
  std::mutex mutex;
  Error firstError = Error::success();
  auto work = [&] {
    std::vector<float> buffer;
    for (size_t i = next++; i < tasks.size() && !failed; i = next++) {
      Error error = runTask(tasks[i], checkpoint, weights, buffer);
      std::lock_guard lock(mutex);
      if (error) {
        failed = true;
        if (firstError)
          consumeError(std::move(error));
        else
          firstError = std::move(error);
      } else {
        done += bytesPerTask;
        progress(std::min<uint64_t>(done, weights.size()));
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
  return firstError;
}

} // namespace ingot
