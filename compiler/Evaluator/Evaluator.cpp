//===- Evaluator.cpp - The interpreter of the ingot dialect ------------------------------------------------------===//
//
// One method per op, in the order of IngotOps.td, templated on the type in
// which activations are held and sums are made (float or double).
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Evaluator/Evaluator.h"
#include "compiler/Evaluator/Kernels.h"
#include "compiler/Evaluator/Parameters.h"
#include "dialects/ingot/Quantization.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>
#include <thread>

using namespace llvm;
using namespace mlir;

namespace ingot {

//===--------------------------------------------------------------------------------------------------------------===//
// Batch and cache
//===--------------------------------------------------------------------------------------------------------------===//

void Batch::append(int32_t sequence, int32_t start, ArrayRef<int32_t> ids) {
  for (int32_t id : ids) {
    rows.push_back(static_cast<int32_t>(tokens.size()));
    tokens.push_back(id);
    positions.push_back(start++);
    sequences.push_back(sequence);
  }
}

Cache::Cache(KVCacheType type, bool exact)
    : type(type), exact(exact), keys(type.getLayers()), values(type.getLayers()) {}

/// Rounds to multiples of 1/largestCode of the largest magnitude, which below 2^-100 counts as zero.
template <typename T>
static void roundToCodes(MutableArrayRef<T> values, float largestCode) {
  float largest = 0;
  for (T value : values)
    largest = std::max(largest, std::fabs(static_cast<float>(value)));
  float scale = largest / largestCode, inverse = largestCode / largest;
  for (T &value : values)
    value = largest < 0x1p-100f
                ? T(0)
                : static_cast<T>(scale) * static_cast<T>(std::nearbyint(static_cast<float>(value) * inverse));
}

void Cache::write(int64_t layer, int64_t sequence, int64_t position, ArrayRef<float> key, ArrayRef<float> value) {
  count = std::max(count, sequence + 1);
  auto store = [&](Table &table, ArrayRef<float> from) {
    auto &bySequence = table[layer];
    if (static_cast<int64_t>(bySequence.size()) <= sequence)
      bySequence.resize(sequence + 1);
    auto &byPosition = bySequence[sequence];
    if (static_cast<int64_t>(byPosition.size()) <= position)
      byPosition.resize(position + 1);
    std::vector<float> &to = byPosition[position];
    to.assign(from.begin(), from.end());
    if (type.getElementType().isInteger(8)) {
      for (int64_t head = 0; head < type.getKvHeads() && !exact; ++head)
        roundToCodes(MutableArrayRef<float>(to).slice(head * type.getHeadDim(), type.getHeadDim()), 127);
      return;
    }
    for (float &stored : to)
      stored = roundTo(type.getElementType(), stored);
  };
  store(keys, key);
  store(values, value);
}

ArrayRef<float> Cache::find(const Table &table, int64_t layer, int64_t sequence, int64_t position) {
  const auto &bySequence = table[layer];
  if (sequence >= static_cast<int64_t>(bySequence.size()) ||
      position >= static_cast<int64_t>(bySequence[sequence].size()))
    return {};
  return bySequence[sequence][position];
}

int64_t Cache::positions(int64_t layer, int64_t sequence) const {
  const auto &bySequence = keys[layer];
  return sequence < static_cast<int64_t>(bySequence.size()) ? static_cast<int64_t>(bySequence[sequence].size()) : 0;
}

//===--------------------------------------------------------------------------------------------------------------===//
// The interpreter
//===--------------------------------------------------------------------------------------------------------------===//

namespace {

/// Activations while they are computed with: [rows][columns].
template <typename T>
struct Rows {
  int64_t rows = 0, columns = 0;
  std::vector<T> values;

  Rows(int64_t rows, int64_t columns) : rows(rows), columns(columns), values(rows * columns) {}
  T *row(int64_t index) { return values.data() + index * columns; }
  const T *row(int64_t index) const { return values.data() + index * columns; }
};

/// What an SSA value holds. Batch and cache are the interpreter's own.
template <typename T>
struct Slot {
  std::shared_ptr<const Rows<T>> activation;
  Parameter parameter;
  int64_t index = 0;
};

/// The element type's product and sum with one rounding.
float fused(float a, float b, float c) { return std::fma(a, b, c); }
double fused(double a, double b, double c) { return std::fma(a, b, c); }

template <typename T>
T silu(T x) {
  double wide = x;
  return static_cast<T>(wide / (1.0 + std::exp(-wide)));
}

template <typename T>
T activate(Activation, T x) {
  return silu(x);
}

/// sum[0] + ... by the tree ((s0+s1)+(s2+s3))+((s4+s5)+(s6+s7)), as many as
/// there are, missing ones +0.
template <typename T>
T sumTree(ArrayRef<T> sums) {
  if (sums.size() == 1)
    return sums[0];
  size_t half = PowerOf2Ceil(sums.size()) / 2;
  return sumTree(sums.take_front(half)) + sumTree(sums.drop_front(half));
}

template <typename T>
class Interpreter {
public:
  using Value = mlir::Value;
  using Handle = std::shared_ptr<const Rows<T>>;
  using Environment = llvm::DenseMap<Value, Slot<T>>;

  Interpreter(ModuleOp module, ParameterProvider &provider, const EvaluatorOptions &options, const Batch &batch,
              Cache *cache)
      : module(module), provider(provider), options(options), batch(batch), cache(cache) {
    module.walk([&](LayersOp layers) {
      int64_t layer = 0;
      for (auto run : layers.getRuns().getAsRange<RunAttr>())
        for (int64_t i = 0; i < run.getCount(); ++i)
          layersOfKind[run.getKind().getValue()].push_back(layer++);
    });
  }

  /// Runs `function`; `arguments` has a slot for each of its arguments.
  Expected<SmallVector<Slot<T>>> call(func::FuncOp function, ArrayRef<Slot<T>> arguments) {
    if (function.isExternal())
      return createStringError("function @%s has no body", function.getName().str().c_str());
    Environment environment;
    for (auto [argument, slot] : zip(function.getArguments(), arguments))
      environment[argument] = slot;
    if (!function.getBody().hasOneBlock())
      return createStringError("function @%s has more than one block", function.getName().str().c_str());
    for (Operation &op : function.getBody().front()) {
      if (auto results = dyn_cast<func::ReturnOp>(op)) {
        SmallVector<Slot<T>> slots;
        for (Value value : results.getOperands())
          slots.push_back(environment.lookup(value));
        return slots;
      }
      if (Error error = run(op, environment))
        return std::move(error);
      observe(op, environment);
    }
    return createStringError("function @%s does not return", function.getName().str().c_str());
  }

private:
  int64_t tokens() const { return static_cast<int64_t>(batch.tokens.size()); }

  void observe(Operation &op, Environment &environment) {
    if (!options.observer)
      return;
    for (Value result : op.getResults())
      if (Handle rows = environment.lookup(result).activation)
        options.observer(
            &op, currentLayer,
            Matrix{rows->rows, rows->columns, std::vector<float>(rows->values.begin(), rows->values.end())});
  }

  Error run(Operation &op, Environment &env) {
    return llvm::TypeSwitch<Operation *, Error>(&op)
        .Case<WeightOp, EmbeddingOp, LinearOp, RMSNormOp, RopeOp, KVAppendOp, AttentionOp, AddOp, MulOp, SiLUOp,
              SplitOp, SelectRowsOp, LayersOp, AddRMSNormOp, GatedActOp, QKNormRopeAppendOp, func::CallOp,
              arith::ConstantOp>([&](auto typed) { return evaluate(typed, env); })
        .Default([](Operation *other) {
          return createStringError("'%s' cannot be evaluated", other->getName().getStringRef().str().c_str());
        });
  }

  Error set(Environment &env, Value value, Rows<T> &&rows) {
    env[value].activation = std::make_shared<const Rows<T>>(std::move(rows));
    return Error::success();
  }

  const Rows<T> &get(const Environment &env, Value value) const { return *env.find(value)->second.activation; }

  Expected<std::vector<float>> readVector(const Environment &env, Value value) const {
    return env.find(value)->second.parameter.readAll(provider);
  }

  //===------------------------------------------------------------------------------------------------------------===//
  // Parameters, indices, calls
  //===------------------------------------------------------------------------------------------------------------===//

  Error evaluate(WeightOp op, Environment &env) {
    Parameter parameter{SymbolTable::lookupNearestSymbolFrom<ParameterOp>(op, op.getParameterAttr())};
    if (std::optional<StringRef> kind = parameter.op.getKind()) {
      int64_t index = env.lookup(op.getIndex()).index;
      auto known = layersOfKind.find(*kind);
      parameter.layer = index;
      if (index < 0 || (known != layersOfKind.end() && index >= static_cast<int64_t>(known->second.size())))
        return createStringError("@%s has no index %lld", op.getParameter().str().c_str(),
                                 static_cast<long long>(index));
      if (known != layersOfKind.end())
        parameter.layer = known->second[index];
    }
    env[op.getResult()].parameter = parameter;
    return Error::success();
  }

  Error evaluate(arith::ConstantOp op, Environment &env) {
    auto value = dyn_cast<IntegerAttr>(op.getValue());
    if (!value || !op.getType().isIndex())
      return createStringError("a constant that is not an index");
    env[op.getResult()].index = value.getInt();
    return Error::success();
  }

  Error evaluate(func::CallOp op, Environment &env) {
    SmallVector<Slot<T>> arguments;
    for (Value operand : op.getOperands())
      arguments.push_back(env.lookup(operand));
    auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, op.getCalleeAttr());
    Expected<SmallVector<Slot<T>>> results = call(callee, arguments);
    if (!results)
      return results.takeError();
    for (auto [value, slot] : zip(op.getResults(), *results))
      env[value] = slot;
    return Error::success();
  }

  Error evaluate(LayersOp op, Environment &env) {
    Slot<T> hidden = env.lookup(op.getInput());
    int64_t layer = 0, outer = currentLayer;
    for (auto run : op.getRuns().getAsRange<RunAttr>()) {
      auto kind = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, run.getKind());
      for (int64_t i = 0; i < run.getCount(); ++i, ++layer) {
        Slot<T> index, number;
        index.index = run.getFirst() + i;
        number.index = layer;
        currentLayer = layer;
        Expected<SmallVector<Slot<T>>> result = call(kind, {hidden, Slot<T>(), Slot<T>(), index, number});
        if (!result)
          return result.takeError();
        hidden = result->front();
      }
    }
    currentLayer = outer;
    env[op.getResult()] = hidden;
    return Error::success();
  }

  //===------------------------------------------------------------------------------------------------------------===//
  // Embedding, linear
  //===------------------------------------------------------------------------------------------------------------===//

  Error evaluate(EmbeddingOp op, Environment &env) {
    const Parameter &table = env.find(op.getTable())->second.parameter;
    RankedTensorType type = op.getTable().getType();
    Rows<T> result(tokens(), type.getDimSize(1));
    std::vector<float> row(result.columns);
    for (int64_t t = 0; t < tokens(); ++t) {
      if (batch.tokens[t] < 0 || batch.tokens[t] >= type.getDimSize(0))
        return createStringError("token id %d is not in [0, %lld)", batch.tokens[t],
                                 static_cast<long long>(type.getDimSize(0)));
      if (Error error = table.readRows(provider, batch.tokens[t], 1, row))
        return error;
      llvm::copy(row, result.row(t));
    }
    return set(env, op.getResult(), std::move(result));
  }

  /// Chains into which the sums over K of `weight` are cut.
  int64_t segmentsOf(LinearOp op, RankedTensorType weight) const {
    if (auto packed = dyn_cast_or_null<PackedAttr>(weight.getEncoding()))
      return packed.getSegments();
    return op.getRowParallel() ? options.rowParallelSegments : 1;
  }

  /// out[t][j] = x_t . row(firstRow + j), j < count, in segments of K.
  Error multiplyRows(const Rows<T> &x, const Parameter &weight, int64_t firstRow, int64_t count, int64_t segments,
                     MutableArrayRef<T> out) const {
    int64_t k = x.columns;
    std::vector<float> stored(panelFeatures * k), panel(panelFeatures * k);
    if (Error error = weight.readRows(provider, firstRow, count, MutableArrayRef<float>(stored).take_front(count * k)))
      return error;
    for (int64_t element = 0; element < k; ++element)
      for (int64_t j = 0; j < panelFeatures; ++j)
        panel[element * panelFeatures + j] = stored[j * k + element];
    // Segments are whole pairs of elements: the layout of bfloat16 stores
    // pairs.
    int64_t length = segments == 1 ? k : static_cast<int64_t>(alignTo(divideCeil(k, segments), 2));
    // Of quantized weights, whole blocks.
    if (const QuantizedFormat *format = getQuantizedFormat(ParameterOp(weight.op).getTensorType()))
      length = format->segmentLength(k, segments);
    std::vector<T> sums(segments * x.rows * panelFeatures);
    for (int64_t s = 0; s < segments; ++s)
      multiplyPanel(x.values.data(), k, x.rows, panel.data(), std::min(k, s * length), std::min(k, (s + 1) * length),
                    sums.data() + s * x.rows * panelFeatures);
    SmallVector<T, 8> chains(segments);
    for (int64_t i = 0; i < x.rows * panelFeatures; ++i) {
      for (int64_t s = 0; s < segments; ++s)
        chains[s] = sums[s * x.rows * panelFeatures + i];
      out[i] = sumTree<T>(chains);
    }
    return Error::success();
  }

  /// Writes x W^T, all rows of `weight`, to columns [column, ...) of `result`.
  Error multiply(LinearOp op, const Rows<T> &x, const Parameter &weight, int64_t column, Rows<T> &result) const {
    RankedTensorType type = ParameterOp(weight.op).getTensorType();
    int64_t features = Parameter::rows(type), panels = static_cast<int64_t>(divideCeil(features, panelFeatures)),
            segments = segmentsOf(op, type);
    unsigned threads = std::max<unsigned>(1, static_cast<unsigned>(std::min<int64_t>(options.threads, panels)));
    std::vector<std::optional<Error>> errors(threads);
    auto work = [&](unsigned thread) {
      std::vector<T> out(x.rows * panelFeatures);
      for (int64_t panel = thread; panel < panels; panel += threads) {
        int64_t first = panel * panelFeatures, count = std::min(panelFeatures, features - first);
        if (Error error = multiplyRows(x, weight, first, count, segments, out)) {
          errors[thread].emplace(std::move(error));
          return;
        }
        for (int64_t t = 0; t < x.rows; ++t)
          std::copy_n(out.begin() + t * panelFeatures, count, result.row(t) + column + first);
      }
    };
    std::vector<std::thread> others;
    for (unsigned thread = 1; thread < threads; ++thread)
      others.emplace_back(work, thread);
    work(0);
    for (std::thread &other : others)
      other.join();
    Error all = Error::success();
    for (std::optional<Error> &error : errors)
      if (error)
        all = joinErrors(std::move(all), std::move(*error));
    return all;
  }

  /// The input as `compute` rounds it.
  static Rows<T> roundBlocks(Rows<T> x, Compute compute) {
    bool words = compute == Compute::Int16;
    int64_t block = words ? inputBlock16 : inputBlock8;
    for (int64_t t = 0; t < x.rows; ++t)
      for (int64_t first = 0; first < x.columns; first += block)
        roundToCodes(MutableArrayRef<T>(x.row(t) + first, std::min(block, x.columns - first)), words ? 32767 : 127);
    return x;
  }

  Error evaluate(LinearOp op, Environment &env) {
    bool rounds = op.getCompute() && !options.exactInputs;
    Rows<T> x = rounds ? roundBlocks(get(env, op.getInput()), *op.getCompute()) : get(env, op.getInput());
    int64_t width = 0;
    for (Value weight : op.getWeights())
      width += Parameter::rows(cast<RankedTensorType>(weight.getType()));
    Rows<T> products(x.rows, width);
    int64_t column = 0;
    for (auto [i, weight] : llvm::enumerate(op.getWeights())) {
      const Parameter &parameter = env.find(weight)->second.parameter;
      if (Error error = multiply(op, x, parameter, column, products))
        return error;
      int64_t features = Parameter::rows(cast<RankedTensorType>(weight.getType()));
      if (!op.getBiases().empty()) {
        Expected<std::vector<float>> bias = readVector(env, op.getBiases()[i]);
        if (!bias)
          return bias.takeError();
        for (int64_t t = 0; t < x.rows; ++t)
          for (int64_t j = 0; j < features; ++j)
            products.row(t)[column + j] += (*bias)[j];
      }
      column += features;
    }
    if (auto activation = op.getGated()) {
      Rows<T> gated(x.rows, width / 2);
      for (int64_t t = 0; t < x.rows; ++t)
        for (int64_t j = 0; j < gated.columns; ++j)
          gated.row(t)[j] = activate(*activation, products.row(t)[j]) * products.row(t)[gated.columns + j];
      products = std::move(gated);
    }
    if (op.getResidual()) {
      const Rows<T> &residual = get(env, op.getResidual());
      for (auto [sum, other] : zip(products.values, residual.values))
        sum += other;
    }
    return set(env, op.getResult(), std::move(products));
  }

  //===------------------------------------------------------------------------------------------------------------===//
  // Norms, RoPE
  //===------------------------------------------------------------------------------------------------------------===//

  Rows<T> normalize(const Rows<T> &x, ArrayRef<float> weight, float eps) const {
    Rows<T> result(x.rows, x.columns);
    int64_t size = static_cast<int64_t>(weight.size()), end = static_cast<int64_t>(x.values.size());
    for (int64_t start = 0; start < end; start += size) {
      const T *from = x.values.data() + start;
      T squares = 0;
      for (int64_t i = 0; i < size; ++i)
        squares = fused(from[i], from[i], squares);
      T mean = squares / static_cast<T>(size) + static_cast<T>(eps);
      T scale = static_cast<T>(1.0 / std::sqrt(static_cast<double>(mean)));
      for (int64_t i = 0; i < size; ++i)
        result.values[start + i] = from[i] * scale * weight[i];
    }
    return result;
  }

  Error evaluate(RMSNormOp op, Environment &env) {
    Expected<std::vector<float>> weight = readVector(env, op.getWeight());
    if (!weight)
      return weight.takeError();
    return set(env, op.getResult(), normalize(get(env, op.getInput()), *weight, op.getEps().convertToFloat()));
  }

  Rows<T> rotate(const Rows<T> &x, RotaryOp rotary) const {
    Rows<T> result(x.rows, x.columns);
    float scaling = rotary.getScaling().convertToFloat();
    int64_t size = rotary.getHeadDim(), half = size / 2;
    bool interleaved = rotary.getStyle() == RotaryStyle::Interleaved;
    for (int64_t t = 0; t < x.rows; ++t) {
      size_t sequence = batch.sequences[t];
      bool longRegime = rotary.getLongInvFreq() && sequence < batch.longRegime.size() && batch.longRegime[sequence];
      ArrayRef<float> frequencies = longRegime ? *rotary.getLongInvFreq() : rotary.getInvFreq();
      for (int64_t i = 0; i < half; ++i) {
        // The angle is a float32 in the reference, whatever follows.
        float angle = static_cast<float>(batch.positions[t]) * frequencies[i];
        T cosine = static_cast<T>(std::cos(static_cast<double>(angle))) * static_cast<T>(scaling);
        T sine = static_cast<T>(std::sin(static_cast<double>(angle))) * static_cast<T>(scaling);
        int64_t first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + half;
        for (int64_t head = 0; head < x.columns; head += size) {
          T a = x.row(t)[head + first], b = x.row(t)[head + second];
          result.row(t)[head + first] = a * cosine - b * sine;
          result.row(t)[head + second] = b * cosine + a * sine;
        }
      }
    }
    return result;
  }

  RotaryOp rotaryOf(Operation *op, FlatSymbolRefAttr name) const {
    return SymbolTable::lookupNearestSymbolFrom<RotaryOp>(op, name);
  }

  Error evaluate(RopeOp op, Environment &env) {
    return set(env, op.getResult(), rotate(get(env, op.getInput()), rotaryOf(op, op.getRotaryAttr())));
  }

  //===------------------------------------------------------------------------------------------------------------===//
  // Cache, attention
  //===------------------------------------------------------------------------------------------------------------===//

  Error checkLayer(int64_t layer) const {
    if (layer < 0 || layer >= cache->getType().getLayers())
      return createStringError("layer %lld is not one of the cache's %lld", static_cast<long long>(layer),
                               static_cast<long long>(cache->getType().getLayers()));
    return Error::success();
  }

  Error append(const Rows<T> &keys, const Rows<T> &values, int64_t layer) {
    if (Error error = checkLayer(layer))
      return error;
    for (int64_t t = 0; t < tokens(); ++t) {
      std::vector<float> key(keys.row(t), keys.row(t) + keys.columns),
          value(values.row(t), values.row(t) + values.columns);
      cache->write(layer, batch.sequences[t], batch.positions[t], key, value);
    }
    return Error::success();
  }

  Error evaluate(KVAppendOp op, Environment &env) {
    return append(get(env, op.getKey()), get(env, op.getValue()), env.lookup(op.getLayer()).index);
  }

  /// One head of one token over positions [first, last] of its sequence.
  void attend(const T *query, int64_t token, int64_t layer, int64_t kvHead, int64_t first, T scale, T *out) const {
    int64_t size = cache->getType().getHeadDim(), last = batch.positions[token], sequence = batch.sequences[token];
    std::vector<T> scores;
    scores.reserve(last - first + 1);
    for (int64_t j = first; j <= last; ++j) {
      ArrayRef<float> key = cache->key(layer, sequence, j).drop_front(kvHead * size);
      T dot = 0;
      for (int64_t i = 0; i < size; ++i)
        dot = fused(query[i], static_cast<T>(key[i]), dot);
      scores.push_back(dot * scale);
    }
    T largest = *std::max_element(scores.begin(), scores.end()), sum = 0;
    for (T &score : scores) {
      score = static_cast<T>(std::exp(static_cast<double>(score - largest)));
      sum += score;
    }
    std::fill_n(out, size, T(0));
    for (int64_t j = first; j <= last; ++j) {
      ArrayRef<float> value = cache->value(layer, sequence, j).drop_front(kvHead * size);
      for (int64_t i = 0; i < size; ++i)
        out[i] = fused(scores[j - first], static_cast<T>(value[i]), out[i]);
    }
    for (int64_t i = 0; i < size; ++i)
      out[i] /= sum;
  }

  Error evaluate(AttentionOp op, Environment &env) {
    int64_t layer = env.lookup(op.getLayer()).index;
    if (Error error = checkLayer(layer))
      return error;
    const Rows<T> &query = get(env, op.getQuery());
    Rows<T> result(query.rows, query.columns);
    int64_t size = cache->getType().getHeadDim(), heads = query.columns / size,
            group = heads / cache->getType().getKvHeads();
    T scale = static_cast<T>(op.getScale().convertToFloat());
    for (int64_t t = 0; t < tokens(); ++t) {
      int64_t position = batch.positions[t], first = 0;
      if (op.getWindow())
        first = std::max<int64_t>(0, position - static_cast<int64_t>(*op.getWindow()) + 1);
      for (int64_t j = first; j <= position; ++j)
        if (cache->key(layer, batch.sequences[t], j).empty())
          return createStringError("position %lld of sequence %d is not in the cache of layer %lld",
                                   static_cast<long long>(j), batch.sequences[t], static_cast<long long>(layer));
      for (int64_t head = 0; head < heads; ++head)
        attend(query.row(t) + head * size, t, layer, head / group, first, scale, result.row(t) + head * size);
    }
    return set(env, op.getResult(), std::move(result));
  }

  //===------------------------------------------------------------------------------------------------------------===//
  // Element by element, rows, columns
  //===------------------------------------------------------------------------------------------------------------===//

  template <typename Function>
  Error combine(Environment &env, Value result, Value lhs, Value rhs, Function function) {
    Rows<T> combined = get(env, lhs);
    for (auto [to, other] : zip(combined.values, get(env, rhs).values))
      to = function(to, other);
    return set(env, result, std::move(combined));
  }

  Error evaluate(AddOp op, Environment &env) {
    return combine(env, op.getResult(), op.getLhs(), op.getRhs(), [](T a, T b) { return a + b; });
  }

  Error evaluate(MulOp op, Environment &env) {
    return combine(env, op.getResult(), op.getLhs(), op.getRhs(), [](T a, T b) { return a * b; });
  }

  Error evaluate(SiLUOp op, Environment &env) {
    return combine(env, op.getResult(), op.getInput(), op.getInput(), [](T a, T) { return silu(a); });
  }

  Error evaluate(GatedActOp op, Environment &env) {
    Activation function = op.getActivation();
    return combine(env, op.getResult(), op.getGate(), op.getUp(), [=](T a, T b) { return activate(function, a) * b; });
  }

  Error evaluate(SplitOp op, Environment &env) {
    // Setting results moves the environment's slots: hold the input.
    Handle input = env.lookup(op.getInput()).activation;
    int64_t column = 0;
    for (Value part : op.getParts()) {
      Rows<T> rows(input->rows, cast<RankedTensorType>(part.getType()).getDimSize(1));
      for (int64_t t = 0; t < rows.rows; ++t)
        std::copy_n(input->row(t) + column, rows.columns, rows.row(t));
      column += rows.columns;
      if (Error error = set(env, part, std::move(rows)))
        return error;
    }
    return Error::success();
  }

  Error evaluate(SelectRowsOp op, Environment &env) {
    const Rows<T> &input = get(env, op.getInput());
    Rows<T> result(static_cast<int64_t>(batch.rows.size()), input.columns);
    for (auto [r, row] : llvm::enumerate(batch.rows)) {
      if (row < 0 || row >= input.rows)
        return createStringError("row %d is not one of %lld", row, static_cast<long long>(input.rows));
      std::copy_n(input.row(row), input.columns, result.row(static_cast<int64_t>(r)));
    }
    return set(env, op.getResult(), std::move(result));
  }

  //===------------------------------------------------------------------------------------------------------------===//
  // Fused forms
  //===------------------------------------------------------------------------------------------------------------===//

  Error evaluate(AddRMSNormOp op, Environment &env) {
    Expected<std::vector<float>> weight = readVector(env, op.getWeight());
    if (!weight)
      return weight.takeError();
    Rows<T> sum = get(env, op.getInput());
    for (auto [to, other] : zip(sum.values, get(env, op.getResidual()).values))
      to += other;
    Rows<T> norm = normalize(sum, *weight, op.getEps().convertToFloat());
    if (Error error = set(env, op.getSum(), std::move(sum)))
      return error;
    return set(env, op.getResult(), std::move(norm));
  }

  Error evaluate(QKNormRopeAppendOp op, Environment &env) {
    Rows<T> query = get(env, op.getQuery()), key = get(env, op.getKey());
    if (op.getQNorm()) {
      Expected<std::vector<float>> queryWeight = readVector(env, op.getQNorm());
      if (!queryWeight)
        return queryWeight.takeError();
      Expected<std::vector<float>> keyWeight = readVector(env, op.getKNorm());
      if (!keyWeight)
        return keyWeight.takeError();
      float eps = op.getEps()->convertToFloat();
      query = normalize(query, *queryWeight, eps);
      key = normalize(key, *keyWeight, eps);
    }
    RotaryOp rotary = rotaryOf(op, op.getRotaryAttr());
    if (Error error = append(rotate(key, rotary), get(env, op.getValue()), env.lookup(op.getLayer()).index))
      return error;
    return set(env, op.getResult(), rotate(query, rotary));
  }

  ModuleOp module;
  ParameterProvider &provider;
  const EvaluatorOptions &options;
  const Batch &batch;
  Cache *cache;
  /// The layers that belong to a kind, by index within the kind.
  StringMap<std::vector<int64_t>> layersOfKind;
  int64_t currentLayer = -1;
};

/// Checks what the interpreter relies on: one entry per token, no position or
/// sequence below zero.
Error checkBatch(const Batch &batch) {
  size_t count = batch.tokens.size();
  if (batch.positions.size() != count || batch.sequences.size() != count)
    return createStringError("expected a position and a sequence for each of %zu tokens, got %zu "
                             "and %zu",
                             count, batch.positions.size(), batch.sequences.size());
  for (size_t t = 0; t < count; ++t)
    if (batch.positions[t] < 0 || batch.sequences[t] < 0)
      return createStringError("token %zu has position %d of sequence %d", t, batch.positions[t], batch.sequences[t]);
  return Error::success();
}

template <typename T>
Expected<std::vector<Matrix>> interpret(ModuleOp module, ParameterProvider &provider, const EvaluatorOptions &options,
                                        func::FuncOp function, ArrayRef<Matrix> activations, ArrayRef<int64_t> indices,
                                        const Batch &batch, Cache *cache) {
  SmallVector<Slot<T>> slots;
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    Slot<T> slot;
    if (auto tensor = dyn_cast<RankedTensorType>(type)) {
      if (activations.empty() || tensor.getRank() != 2 || activations.front().columns != tensor.getDimSize(1))
        return createStringError(formatv(
            "argument {0} of @{1} is {2}, given {3}", i, function.getName(), type,
            activations.empty() ? std::string("nothing") : formatv("{0} columns", activations.front().columns).str()));
      auto rows = std::make_shared<Rows<T>>(activations.front().rows, activations.front().columns);
      llvm::copy(activations.front().values, rows->values.begin());
      slot.activation = rows;
      activations = activations.drop_front();
    } else if (type.isIndex()) {
      if (indices.empty())
        return createStringError(formatv("argument {0} of @{1} is an index, "
                                         "given nothing",
                                         i, function.getName()));
      slot.index = indices.front();
      indices = indices.drop_front();
    } else if (isa<KVCacheType>(type)) {
      if (!cache || cache->getType() != type)
        return createStringError(formatv("argument {0} of @{1} is {2}, given {3}", i, function.getName(), type,
                                         cache ? formatv("{0}", cache->getType()).str() : "nothing"));
    } else if (!isa<BatchType>(type)) {
      return createStringError(
          formatv("argument {0} of @{1} has type {2}, which no caller can give", i, function.getName(), type));
    }
    slots.push_back(std::move(slot));
  }
  Interpreter<T> interpreter(module, provider, options, batch, cache);
  Expected<SmallVector<Slot<T>>> results = interpreter.call(function, slots);
  if (!results)
    return results.takeError();
  std::vector<Matrix> matrices;
  for (const Slot<T> &slot : *results) {
    if (!slot.activation)
      return createStringError(formatv("@{0} returns what is no activation", function.getName()));
    const Rows<T> &rows = *slot.activation;
    matrices.push_back({rows.rows, rows.columns, std::vector<float>(rows.values.begin(), rows.values.end())});
  }
  return matrices;
}

} // namespace

//===--------------------------------------------------------------------------------------------------------------===//
// Evaluator
//===--------------------------------------------------------------------------------------------------------------===//

Evaluator::Evaluator(ModuleOp module, ParameterProvider &parameters, EvaluatorOptions options)
    : module(module), parameters(parameters), options(std::move(options)) {}

Expected<std::vector<Matrix>> Evaluator::call(StringRef name, ArrayRef<Matrix> activations, ArrayRef<int64_t> indices,
                                              const Batch &batch, Cache *cache) {
  auto function = module.lookupSymbol<func::FuncOp>(name);
  if (!function)
    return createStringError(formatv("no function @{0} in the module", name));
  if (Error error = checkBatch(batch))
    return std::move(error);
  auto *run = options.accumulation == Accumulation::F64 ? interpret<double> : interpret<float>;
  return run(module, parameters, options, function, activations, indices, batch, cache);
}

Expected<KVCacheType> Evaluator::cacheType() {
  auto function = module.lookupSymbol<func::FuncOp>(forwardName);
  if (!function)
    return createStringError(formatv("no function @{0} in the module", forwardName));
  FunctionType type = function.getFunctionType();
  if (type.getNumInputs() != 2 || !isa<BatchType>(type.getInput(0)) || !isa<KVCacheType>(type.getInput(1)) ||
      type.getNumResults() != 1)
    return createStringError(formatv("expected @{0} to take a batch and a cache and to return "
                                     "logits, got {1}",
                                     forwardName, type));
  return cast<KVCacheType>(type.getInput(1));
}

Expected<Matrix> Evaluator::forward(const Batch &batch, Cache &cache) {
  if (Expected<KVCacheType> type = cacheType(); !type)
    return type.takeError();
  Expected<std::vector<Matrix>> results = call(forwardName, {}, {}, batch, &cache);
  if (!results)
    return results.takeError();
  return std::move(results->front());
}

Expected<std::vector<Matrix>> Evaluator::logits(ArrayRef<std::vector<int32_t>> sequences, int64_t chunk, Cache &cache) {
  size_t longest = 0;
  std::vector<bool> longRegime(sequences.size());
  for (auto [s, ids] : llvm::enumerate(sequences)) {
    longest = std::max(longest, ids.size());
    for (auto rotary : module.getOps<RotaryOp>())
      if (rotary.getLongFrom() && ids.size() > *rotary.getLongFrom())
        longRegime[s] = true;
  }
  size_t step = chunk > 0 ? static_cast<size_t>(chunk) : longest;
  std::vector<Matrix> all(sequences.size());
  for (size_t start = 0; start < longest; start += step) {
    Batch batch;
    batch.longRegime = longRegime;
    for (auto [s, ids] : llvm::enumerate(sequences))
      if (start < ids.size())
        batch.append(static_cast<int32_t>(s), static_cast<int32_t>(start),
                     ArrayRef<int32_t>(ids).slice(start, std::min(step, ids.size() - start)));
    Expected<Matrix> rows = forward(batch, cache);
    if (!rows)
      return rows.takeError();
    for (auto [r, row] : llvm::enumerate(batch.rows)) {
      Matrix &matrix = all[batch.sequences[row]];
      matrix.columns = rows->columns;
      ++matrix.rows;
      llvm::append_range(matrix.values, rows->row(static_cast<int64_t>(r)));
    }
  }
  return all;
}

} // namespace ingot
