// The roofline as SVG, after Williams, Waterman and Patterson (2009): attainable operations per second over operations
// per byte, min(peak, intensity * bandwidth).
#include "cli/bench_report.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>

namespace ingot::rt {

namespace {

struct Point {
  double intensity, flopsPerSecond; ///< FLOP per byte, FLOP/s
  std::string label, details;
  size_t row;
};

/// Text between tags.
std::string escaped(const std::string &text) {
  std::string out;
  for (char c : validUtf8(text))
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

constexpr const char *colours[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd",
                                   "#ff7f0e", "#17becf", "#8c564b", "#e377c2"};
constexpr double width = 1000, height = 640, left = 80, right = 300, top = 50, bottom = 60;

/// From intensity and rate to the drawing's units.
struct Axes {
  double xLow, xHigh, yLow, yHigh; ///< decimal logarithms
  double x(double intensity) const {
    return left + (std::log10(intensity) - xLow) / (xHigh - xLow) * (width - left - right);
  }
  double y(double rate) const {
    return height - bottom - (std::log10(rate) - yLow) / (yHigh - yLow) * (height - top - bottom);
  }
};

std::vector<Point> pointsOf(const BenchReport &report) {
  std::vector<Point> points;
  for (size_t r = 0; r < report.rows.size(); ++r) {
    const BenchRow &row = report.rows[r];
    auto add = [&](const char *label, const Work &work, double seconds) {
      if (work.flops > 0 && work.bytes > 0 && seconds > 0)
        points.push_back({work.flops / work.bytes, work.flops / seconds, label,
                          formatText("%s: %.3g FLOP a byte, %.2f GFLOP/s, %.2f GB/s, %.0f%% of the limit", label,
                                     work.flops / work.bytes, work.flops / seconds * 1e-9, work.bytes / seconds * 1e-9,
                                     100 * shareOfLimit(work, seconds, row.bytesPerSecond, row.flopsPerSecond)),
                          r});
    };
    if (row.ops.empty())
      add(row.test, row.work, row.median());
    for (const OpFigure &op : row.ops) {
      Work work = op.work;
      if (work.bytes == 0) // no parameters: what it writes
        work.bytes = op.resultBytes;
      add(op.name, work, op.seconds);
    }
  }
  return points;
}

Axes axesOf(const BenchReport &report, const std::vector<Point> &points) {
  double xLow = 0.1, xHigh = 100, yLow = 1e9, yHigh = 1e10;
  for (const MachineLimits &machine : report.machines) {
    xHigh = std::max(xHigh, 10 * machine.flopsPerSecond / machine.bytesPerSecond);
    yHigh = std::max(yHigh, 1.5 * machine.flopsPerSecond);
  }
  for (const Point &point : points) {
    xLow = std::min(xLow, point.intensity);
    xHigh = std::max(xHigh, point.intensity);
    yLow = std::min(yLow, point.flopsPerSecond);
    yHigh = std::max(yHigh, point.flopsPerSecond);
  }
  return {std::floor(std::log10(xLow)), std::ceil(std::log10(xHigh)), std::floor(std::log10(yLow)),
          std::ceil(std::log10(yHigh))};
}

void drawGrid(std::string &svg, const Axes &axes) {
  for (int decade = static_cast<int>(axes.xLow); decade <= axes.xHigh; ++decade) {
    double x = axes.x(std::pow(10, decade));
    svg += formatText("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", x, top, x,
                      height - bottom);
    svg += formatText("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g</text>\n", x, height - bottom + 18,
                      std::pow(10, decade));
  }
  for (int decade = static_cast<int>(axes.yLow); decade <= axes.yHigh; ++decade) {
    double y = axes.y(std::pow(10, decade));
    svg += formatText("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", left, y,
                      width - right, y);
    svg += formatText("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", left - 6, y + 4,
                      std::pow(10, decade - 9));
  }
  svg += formatText("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">FLOP per byte read</text>\n",
                    (left + width - right) / 2, height - 16);
  svg += formatText("<text transform=\"translate(24,%.1f) rotate(-90)\" text-anchor=\"middle\">GFLOP/s</text>\n",
                    (top + height - bottom) / 2);
}

void drawRoof(std::string &svg, const Axes &axes, const MachineLimits &machine, size_t number) {
  double ridge = machine.flopsPerSecond / machine.bytesPerSecond;
  // The slope starts where it enters the drawing, from the left or from below.
  double first = std::max(std::pow(10, axes.xLow), std::pow(10, axes.yLow) / machine.bytesPerSecond);
  svg += formatText(
      "<polyline fill=\"none\" stroke=\"#333\" stroke-width=\"2\"%s points=\"%.1f,%.1f %.1f,%.1f %.1f,%.1f\"/>\n",
      number == 0 ? "" : formatText(" stroke-dasharray=\"%zu 3\"", 2 + 3 * number).c_str(), axes.x(first),
      axes.y(first * machine.bytesPerSecond), axes.x(ridge), axes.y(machine.flopsPerSecond),
      axes.x(std::pow(10, axes.xHigh)), axes.y(machine.flopsPerSecond));
  svg += formatText("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%u %s: %.1f GB/s, %.1f GFLOP/s</text>\n",
                    width - right - 4, axes.y(machine.flopsPerSecond) - 5, machine.workers,
                    machine.workers == 1 ? "worker" : "workers", machine.bytesPerSecond * 1e-9,
                    machine.flopsPerSecond * 1e-9);
}

} // namespace

std::string drawRoofline(const BenchReport &report) {
  std::vector<Point> points = pointsOf(report);
  Axes axes = axesOf(report, points);
  std::string svg =
      formatText("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f "
                 "%.0f\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"%.0f\" height=\"%.0f\" "
                 "fill=\"white\"/>\n",
                 width, height, width, height, width, height);
  svg += formatText("<text x=\"%.1f\" y=\"28\" font-size=\"16\">%s, %s</text>\n", left, escaped(report.model).c_str(),
                    escaped(report.variant).c_str());
  drawGrid(svg, axes);
  for (size_t i = 0; i < report.machines.size(); ++i)
    drawRoof(svg, axes, report.machines[i], i);
  constexpr size_t colourCount = sizeof colours / sizeof *colours;
  // Labels that would lie on each other go below the one before.
  std::sort(points.begin(), points.end(), [](const Point &a, const Point &b) {
    return a.flopsPerSecond != b.flopsPerSecond ? a.flopsPerSecond > b.flopsPerSecond : a.label < b.label;
  });
  struct Spot {
    double x, y;
  };
  std::vector<Spot> labels;
  for (const Point &point : points) {
    double x = axes.x(point.intensity), y = axes.y(point.flopsPerSecond);
    Spot spot{x + 6, y + 4};
    for (bool moved = true; moved;) {
      moved = false;
      for (const Spot &other : labels)
        if (std::fabs(other.x - spot.x) < 150 && std::fabs(other.y - spot.y) < 10.9) {
          spot.y = other.y + 11; // further than what is looked for: after rounding too it is another place
          moved = true;
        }
    }
    labels.push_back(spot);
    const char *colour = colours[point.row % colourCount];
    svg += formatText("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"><title>%s</title></circle>\n", x, y,
                      colour, escaped(point.details).c_str());
    svg += formatText("<text x=\"%.1f\" y=\"%.1f\" font-size=\"10\" fill=\"%s\">%s</text>\n", spot.x, spot.y, colour,
                      escaped(point.label).c_str());
  }
  for (size_t r = 0; r < report.rows.size(); ++r) {
    const BenchRow &row = report.rows[r];
    double y = top + 12 + 32 * static_cast<double>(r);
    svg += formatText("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" fill=\"%s\"/>\n", width - right + 20, y - 4,
                      colours[r % colourCount]);
    svg += formatText("<text x=\"%.1f\" y=\"%.1f\">%s %" PRIu64 ", depth %" PRIu64 ", batch %" PRIu64
                      ", %u workers</text>\n",
                      width - right + 32, y, row.test, row.tokens, row.depth, row.batch, row.workers);
    svg += formatText("<text x=\"%.1f\" y=\"%.1f\">%.1f tok/s, %.0f%% of the limit</text>\n", width - right + 32,
                      y + 14, row.tokensPerSecond(), 100 * row.shareOfLimit());
  }
  return svg + "</svg>\n";
}

} // namespace ingot::rt
