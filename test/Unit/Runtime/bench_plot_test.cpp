// The roofline as SVG: every op has a label, and no label lies on another.
#include "cli/bench_report.h"

#include <gtest/gtest.h>
#include <regex>

using namespace ingot::rt;

namespace {

struct Spot {
  double x, y;
};

/// The places of the labels of ops called opN.
std::vector<Spot> labelsOf(const std::string &svg) {
  static const std::regex label("<text x=\"([0-9.]+)\" y=\"([0-9.]+)\"[^>]*>[^<]*op[0-9]+</text>");
  std::vector<Spot> spots;
  for (std::sregex_iterator it(svg.begin(), svg.end(), label), end; it != end; ++it)
    spots.push_back({std::stod((*it)[1]), std::stod((*it)[2])});
  return spots;
}

/// A report of `count` ops that took `seconds` and from one to the next `spread` more.
BenchReport reportOf(size_t count, double seconds, double spread, std::vector<std::string> &names) {
  BenchReport report;
  report.model = "m";
  report.variant = "v";
  MachineLimits machine;
  machine.bytesPerSecond = 3e10;
  machine.flopsPerSecond = 1e11;
  report.machines.push_back(machine);
  BenchRow row = {};
  row.test = "decode";
  row.tokens = 1;
  row.seconds = {1};
  row.bytesPerSecond = machine.bytesPerSecond;
  row.flopsPerSecond = machine.flopsPerSecond;
  for (size_t i = 0; i < count; ++i)
    names.push_back("op" + std::to_string(i));
  for (size_t i = 0; i < count; ++i) {
    OpFigure op = {};
    op.name = names[i].c_str();
    op.kind = "linear";
    op.calls = 1;
    op.seconds = seconds + spread * static_cast<double>(i);
    op.work = {1e9, 1e9};
    row.ops.push_back(op);
  }
  report.rows.push_back(row);
  return report;
}

} // namespace

TEST(BenchPlot, LabelsNeverMeet) {
  for (double spread : {0.0, 1e-6, 0.0013, 0.01})
    for (size_t count : {1, 7, 60}) {
      std::vector<std::string> names;
      std::vector<Spot> spots = labelsOf(drawRoofline(reportOf(count, 1, spread, names)));
      ASSERT_EQ(spots.size(), count);
      for (size_t i = 0; i < count; ++i)
        for (size_t j = 0; j < i; ++j)
          EXPECT_TRUE(std::abs(spots[i].x - spots[j].x) >= 149 || std::abs(spots[i].y - spots[j].y) >= 10.5)
              << "labels " << j << " and " << i << " of " << count << ", spread " << spread;
    }
}

// A label's place plus its height, rounded, can be nearer than its height: it must not be moved there again and again.
// Where the sum rounds depends on the place, so many are tried.
TEST(BenchPlot, LabelsComeToRest) {
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::string> names;
    ASSERT_EQ(labelsOf(drawRoofline(reportOf(4, 0.02 + 0.001 * i, 0, names))).size(), 4u);
  }
}
