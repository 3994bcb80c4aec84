// Random weights, generated at start into the packed layout.
//
// An 8B model has 16 GB of them, so a block of Philox is computed once for its sixteen values, and a value is looked up
// in a table of the 256 that a byte can stand for, already in the stored type.
#include "ingot_rt/random.h"
#include "payload/payload.h"
#include "pool/pool.h"
#include "support/checked.h"
#include "support/float16.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cinttypes>
#include <cstring>
#include <vector>

namespace ingot::rt {

namespace {

constexpr uint64_t panel = INGOT_RT_PANEL;
constexpr uint64_t columnsAtOnce = 512;

/// The stored bits of a float.
uint32_t storedBits(uint32_t dtype, float value) {
  if (dtype == INGOT_RT_BF16)
    return bfloatFromFloat(value);
  if (dtype == INGOT_RT_F16)
    return halfFromFloat(value);
  return std::bit_cast<uint32_t>(value);
}

/// Where the elements of a source's tensor of one layer, the `turn`th of the source, go: a matrix of `features`
/// features in panels, or rows.
struct Destination {
  const ingot_rt_parameter &parameter;
  const ingot_rt_random_source &source;
  uint64_t key;      ///< of the layer's tensor
  uint64_t index;    ///< of the parameter's layer
  uint8_t *layer;    ///< start of the parameter's layer
  uint64_t features; ///< of the whole matrix (a pair: of both)

  Destination(const ingot_rt_model &model, const ingot_rt_random_source &source, uint64_t turn, uint8_t *weights)
      : parameter(model.parameters[source.parameter]), source(source),
        key(ingot_rt_random_layer_key(model.random_seed, source.pattern,
                                      source.first_layer + turn * source.layer_step)),
        index(source.first_index + turn), layer(weights + parameter.offset + index * parameter.layer_stride),
        features(parameter.layout == INGOT_RT_PANEL_PAIRS ? 2 * roundUp(parameter.rows, panel) : parameter.rows) {}

  uint64_t feature(uint64_t row) const {
    uint64_t feature = source.first_row + row;
    return parameter.layout == INGOT_RT_PANEL_PAIRS ? ingot_rt_pair_feature(source.which, feature) : feature;
  }

  /// First element of a source kept in rows. A vector's sources lie behind one another, whichever way they are shaped.
  uint64_t rowsStart() const { return parameter.rows == 1 ? source.first_row : source.first_row * parameter.columns; }

  /// Element of the layer at which the source's [row][column] lies, by the definition in abi.h.
  uint64_t elementAt(uint64_t row, uint64_t column) const {
    if (parameter.layout == INGOT_RT_ROWS)
      return rowsStart() + row * source.columns + column;
    return ingot_rt_panel_index(features, parameter.columns, parameter.segments, ingot_rt_k_group(parameter.dtype),
                                feature(row), column);
  }

  /// Pieces that workers take: the panels that the source touches, or blocks of elements.
  uint64_t units() const {
    if (parameter.layout == INGOT_RT_ROWS)
      return ceilDiv(source.rows * source.columns, panel * columnsAtOnce);
    return (source.first_row + source.rows - 1) / panel - source.first_row / panel + 1;
  }
};

/// The bytes of a key's stream from element `first` on: at least `count` of them at `out` + the returned offset. `out`
/// holds count + 32 bytes.
uint64_t streamBytes(uint64_t key, uint64_t first, uint64_t count, uint8_t *out) {
  uint64_t block = first / 16, last = (first + count + 15) / 16;
  for (uint8_t *at = out; block < last; ++block, at += 16) {
    uint32_t words[4];
    ingot_rt_random_block(key, block, words);
    memcpy(at, words, sizeof words); // little-endian: the lowest byte first, as ingot_rt_random_byte counts
  }
  return first % 16;
}

template <typename Stored>
struct Filler {
  Destination destination;
  Stored table[256];

  explicit Filler(const Destination &destination) : destination(destination) {
    const ingot_rt_random_source &source = destination.source;
    auto kind = static_cast<ingot_rt_random_kind>(source.kind);
    int shift = ingot_rt_random_shift(source.columns);
    for (int byte = 0; byte < 256; ++byte)
      table[byte] = static_cast<Stored>(
          storedBits(destination.parameter.dtype, ingot_rt_random_value(kind, static_cast<int8_t>(byte), shift)));
  }

  void fill(uint64_t unit) const {
    if (destination.parameter.layout == INGOT_RT_ROWS)
      fillRows(unit);
    else
      fillPanel(unit);
  }

  void fillRows(uint64_t unit) const {
    const ingot_rt_random_source &source = destination.source;
    uint64_t first = unit * panel * columnsAtOnce,
             end = std::min(first + panel * columnsAtOnce, source.rows * source.columns);
    auto out = reinterpret_cast<Stored *>(destination.layer) + destination.rowsStart();
    uint8_t bytes[columnsAtOnce + 32];
    for (; first < end; first += columnsAtOnce) {
      uint64_t count = std::min(columnsAtOnce, end - first);
      const uint8_t *in = bytes + streamBytes(destination.key, first, count, bytes);
      for (uint64_t i = 0; i < count; ++i)
        out[first + i] = table[in[i]];
    }
  }

  void fillPanel(uint64_t unit) const {
    const ingot_rt_parameter &parameter = destination.parameter;
    const ingot_rt_random_source &source = destination.source;
    uint64_t group = ingot_rt_k_group(parameter.dtype), k = parameter.columns;
    uint64_t which = source.first_row / panel + unit; // among the panels of one matrix
    uint64_t firstRow = std::max(which * panel, source.first_row) - source.first_row;
    uint64_t endRow = std::min((which + 1) * panel, source.first_row + source.rows) - source.first_row;
    uint64_t firstLane = (source.first_row + firstRow) % panel;
    uint64_t place = destination.feature(firstRow) / panel; // among the panels as they lie
    uint8_t bytes[panel][columnsAtOnce + 32];
    for (uint64_t s = 0; s < parameter.segments; ++s) {
      uint64_t extent = ingot_rt_segment_extent(k, parameter.segments, s);
      uint64_t start = s * ingot_rt_segment_length(k, parameter.segments);
      auto out = reinterpret_cast<Stored *>(destination.layer) +
                 ingot_rt_segment_start(destination.features, k, parameter.segments, group, s) +
                 place * panel * roundUp(extent, group);
      for (uint64_t inside = 0; inside < extent; inside += columnsAtOnce) { // columnsAtOnce is a multiple of group
        uint64_t count = std::min(columnsAtOnce, extent - inside);
        const uint8_t *rows[panel];
        for (uint64_t row = firstRow; row < endRow; ++row)
          rows[row - firstRow] =
              bytes[row - firstRow] +
              streamBytes(destination.key, row * source.columns + start + inside, count, bytes[row - firstRow]);
        for (uint64_t i = 0; i < count; ++i) {
          Stored *at = out + (inside + i) / group * (panel * group) + firstLane * group + (inside + i) % group;
          for (uint64_t row = 0; row < endRow - firstRow; ++row)
            at[row * group] = table[rows[row][i]];
        }
      }
    }
  }
};

} // namespace

void fillRandomWeights(const ingot_rt_model &model, uint8_t *weights, Pool &pool) {
  std::vector<Destination> destinations;
  std::vector<uint64_t> ends;
  uint64_t total = 0;
  for (uint64_t i = 0; i < model.random_source_count; ++i)
    for (uint64_t turn = 0; turn < model.random_sources[i].count; ++turn) {
      destinations.emplace_back(model, model.random_sources[i], turn, weights);
      ends.push_back(total += destinations.back().units());
    }
  std::atomic<uint64_t> next{0};
  auto work = [&](uint32_t) {
    constexpr uint64_t unitsAtOnce = 16;
    for (uint64_t first; (first = next.fetch_add(unitsAtOnce, std::memory_order_relaxed)) < total;) {
      uint64_t end = std::min(first + unitsAtOnce, total);
      while (first < end) {
        auto which = static_cast<uint64_t>(std::upper_bound(ends.begin(), ends.end(), first) - ends.begin());
        uint64_t start = which == 0 ? 0 : ends[which - 1], stop = std::min(end, ends[which]);
        const Destination &destination = destinations[which];
        auto fill = [&](const auto &filler) {
          for (; first < stop; ++first)
            filler.fill(first - start);
        };
        if (destination.parameter.dtype == INGOT_RT_F32)
          fill(Filler<uint32_t>(destination));
        else
          fill(Filler<uint16_t>(destination));
      }
    }
  };
  pool.run(work);
}

namespace {

/// One launch of a kernel that fills random weights.
struct RandomLaunch {
  uint64_t arguments[INGOT_RT_RANDOM_PANEL_ARGUMENTS] = {};
  uint64_t extents[INGOT_RT_RANDOM_PANEL_ARGUMENTS] = {};
  uint32_t grid[3] = {1, 1, 1};

  explicit RandomLaunch(const Destination &destination);
  void rows(const Destination &destination, uint32_t threads);
  void panels(const Destination &destination, uint32_t threads);
};

RandomLaunch::RandomLaunch(const Destination &destination) {
  const ingot_rt_random_source &source = destination.source;
  bool norm = source.kind == INGOT_RT_RANDOM_NORM;
  int shift = source.kind == INGOT_RT_RANDOM_BIAS ? 12 : 8 + ingot_rt_random_shift(source.columns);
  arguments[INGOT_RT_RANDOM_KEY] = destination.key;
  arguments[INGOT_RT_RANDOM_DROP] = norm ? 3 : 0;
  arguments[INGOT_RT_RANDOM_FACTOR] = norm ? 1 : 2;
  arguments[INGOT_RT_RANDOM_OFFSET] = norm ? 128 : 1;
  arguments[INGOT_RT_RANDOM_SCALE] = std::bit_cast<uint32_t>(1.0f / static_cast<float>(1u << (norm ? 7 : shift)));
}

void RandomLaunch::rows(const Destination &destination, uint32_t threads) {
  const ingot_rt_random_source &source = destination.source;
  uint64_t size = ingot_rt_dtype_size(destination.parameter.dtype), count = source.rows * source.columns;
  arguments[INGOT_RT_RANDOM_WEIGHTS] = reinterpret_cast<uint64_t>(destination.layer + destination.rowsStart() * size);
  extents[INGOT_RT_RANDOM_WEIGHTS] = count * size;
  arguments[INGOT_RT_RANDOM_COUNT] = count;
  grid[0] = static_cast<uint32_t>(ceilDiv(count, 16 * uint64_t(threads)));
}

void RandomLaunch::panels(const Destination &destination, uint32_t threads) {
  const ingot_rt_parameter &parameter = destination.parameter;
  const ingot_rt_random_source &source = destination.source;
  bool pair = parameter.layout == INGOT_RT_PANEL_PAIRS;
  uint64_t group = ingot_rt_k_group(parameter.dtype), k = parameter.columns;
  arguments[INGOT_RT_RANDOM_WEIGHTS] = reinterpret_cast<uint64_t>(destination.layer);
  extents[INGOT_RT_RANDOM_WEIGHTS] =
      roundUp(destination.features, panel) * roundUp(k, group) * ingot_rt_dtype_size(parameter.dtype);
  arguments[INGOT_RT_RANDOM_ROWS] = source.rows;
  arguments[INGOT_RT_RANDOM_COLUMNS] = k;
  arguments[INGOT_RT_RANDOM_FIRST_ROW] = source.first_row;
  arguments[INGOT_RT_RANDOM_PANELS] = ceilDiv(destination.features, panel);
  arguments[INGOT_RT_RANDOM_PANEL_STEP] = pair ? 2 : 1;
  arguments[INGOT_RT_RANDOM_PANEL_FIRST] = pair ? source.which : 0;
  arguments[INGOT_RT_RANDOM_SEGMENT] = ingot_rt_segment_length(k, parameter.segments);
  grid[0] = static_cast<uint32_t>(destination.units());
  // A row that begins inside a block of Philox touches one more than its elements fill.
  uint64_t blocks = k % 16 == 0 ? k / 16 : (k + 30) / 16;
  grid[1] = static_cast<uint32_t>(ceilDiv(blocks, threads / panel));
}

} // namespace

void launchRandomWeights(const ingot_rt_model &model, const ingot_rt_kernel *const *kernels, uint8_t *weights,
                         Device &device, const std::function<void(uint64_t)> &launched) {
  uint64_t done = 0;
  for (uint64_t i = 0; i < model.random_source_count; ++i)
    for (uint64_t turn = 0; turn < model.random_sources[i].count && !device.fault(); ++turn) {
      const ingot_rt_random_source &source = model.random_sources[i];
      Destination destination(model, source, turn, weights);
      const ingot_rt_parameter &parameter = destination.parameter;
      const ingot_rt_kernel *kernel = kernels[ingot_rt_random_kernel(parameter.dtype, parameter.layout)];
      RandomLaunch launch(destination);
      if (parameter.layout == INGOT_RT_ROWS)
        launch.rows(destination, kernel->threads);
      else
        launch.panels(destination, kernel->threads);
      device.launch({kernel,
                     launch.arguments,
                     launch.extents,
                     {launch.grid[0], launch.grid[1], launch.grid[2]},
                     static_cast<uint32_t>(model.op_count),
                     -1});
      launched(done += source.rows * source.columns * ingot_rt_dtype_size(parameter.dtype));
    }
}

Result<uint64_t> sampleRandomWeights(const ingot_rt_model &model, const uint8_t *weights, uint64_t stride) {
  uint64_t compared = 0;
  auto sample = [&](const Destination &destination) -> Error {
    const ingot_rt_random_source &source = destination.source;
    const ingot_rt_parameter &parameter = destination.parameter;
    auto kind = static_cast<ingot_rt_random_kind>(source.kind);
    int shift = ingot_rt_random_shift(source.columns);
    uint64_t size = ingot_rt_dtype_size(parameter.dtype);
    for (uint64_t element = 0; element < source.rows * source.columns; element += stride) {
      uint64_t row = element / source.columns, column = element % source.columns;
      uint32_t expected = storedBits(parameter.dtype, ingot_rt_random_element(kind, destination.key, shift, element)),
               found = 0;
      memcpy(&found, destination.layer + destination.elementAt(row, column) * size, size);
      if (found != expected)
        return makeError("parameter %s, layer %" PRIu64 ", row %" PRIu64 ", column %" PRIu64
                         ": expected bits %08x, got %08x",
                         parameter.name, destination.index, source.first_row + row, column, expected, found);
      ++compared;
    }
    return {};
  };
  for (uint64_t i = 0; i < model.random_source_count; ++i)
    for (uint64_t turn = 0; turn < model.random_sources[i].count; ++turn)
      // The cast is for the type's sake: a sample is only read.
      if (Error error = sample(Destination(model, model.random_sources[i], turn, const_cast<uint8_t *>(weights))))
        return error;
  return compared;
}

} // namespace ingot::rt
