// A model of one parameter with random weights, for tests of what fills them.
#ifndef INGOT_TEST_UNIT_RUNTIME_RANDOM_TABLE_H
#define INGOT_TEST_UNIT_RUNTIME_RANDOM_TABLE_H

#include "ingot_rt/abi.h"
#include "ingot_rt/random.h"

#include <vector>

namespace ingot::test {

/// A parameter of two layers, filled from two tensors that meet inside a panel (or from the two of a pair), "a" and "b"
/// of the layers 9 and 13.
struct RandomTable {
  ingot_rt_parameter parameter = {};
  std::vector<ingot_rt_random_source> sources;
  ingot_rt_model model = {};
  bool pair;
  uint64_t features, group; ///< of the whole matrix, of K
  uint64_t first;           ///< rows of the first tensor, where it is no pair

  RandomTable(uint32_t dtype, uint32_t layout, uint64_t rows, uint64_t columns, uint64_t segments,
              ingot_rt_random_kind kind = INGOT_RT_RANDOM_MATRIX)
      : pair(layout == INGOT_RT_PANEL_PAIRS), features(pair ? 2 * ((rows + 15) / 16 * 16) : rows),
        group(ingot_rt_k_group(dtype)), first(rows / 3) {
    parameter.name = "p";
    parameter.dtype = dtype;
    parameter.layout = layout;
    parameter.rows = rows;
    parameter.columns = columns;
    parameter.segments = segments;
    parameter.count = 2;
    uint64_t elements =
        layout == INGOT_RT_ROWS ? rows * columns : ingot_rt_segment_start(features, columns, segments, group, segments);
    parameter.layer_stride = (elements * ingot_rt_dtype_size(dtype) + 63) / 64 * 64;
    parameter.offset = 128;
    for (uint64_t part = 0; part < 2; ++part) {
      ingot_rt_random_source source = {};
      source.pattern = part == 0 ? "layers.{layer}.a" : "layers.{layer}.b";
      source.kind = kind;
      source.which = pair ? part : 0;
      source.first_row = pair || part == 0 ? 0 : first;
      source.rows = pair ? rows : part == 0 ? first : rows - first;
      source.columns = columns;
      source.count = 2;
      source.first_layer = 9;
      source.layer_step = 4;
      if (source.rows == 0)
        continue;
      if (part == 0) {
        sources.push_back(source);
        continue;
      }
      // The second tensor's layers in two rows of the table.
      source.count = 1;
      sources.push_back(source);
      source.first_index = 1;
      source.first_layer = 13;
      sources.push_back(source);
    }
    model.parameters = &parameter;
    model.parameter_count = 1;
    model.random_seed = 7;
    model.random_sources = sources.data();
    model.random_source_count = sources.size();
    model.weights_bytes = parameter.offset + 2 * parameter.layer_stride;
  }
  RandomTable(const RandomTable &) = delete;
  RandomTable &operator=(const RandomTable &) = delete;
};

} // namespace ingot::test
#endif // INGOT_TEST_UNIT_RUNTIME_RANDOM_TABLE_H
