// The figures of `bench` as text and JSON.
#include "cli/bench_report.h"

#include <algorithm>
#include <cinttypes>

namespace ingot::rt {

double BenchRow::median() const {
  size_t count = seconds.size();
  return count % 2 ? seconds[count / 2] : (seconds[count / 2 - 1] + seconds[count / 2]) / 2;
}

double BenchRow::spread() const { return (seconds.back() - seconds.front()) / 2 / median(); }

double shareOfLimit(const Work &work, double seconds, double bytesPerSecond, double flopsPerSecond) {
  double arithmetic = flopsPerSecond > 0 ? work.flops / flopsPerSecond : 0;
  return std::max(work.bytes / bytesPerSecond, arithmetic) / seconds;
}

double BenchRow::shareOfLimit() const {
  return ingot::rt::shareOfLimit(work, median(), bytesPerSecond, flopsPerSecond);
}

void printMachine(Output &out, const MachineLimits &machine) {
  if (!machine.device.empty())
    return out.print("%s: moves %.2f GB/s in a copy; its arithmetic is not measured\n", machine.device.c_str(),
                     machine.bytesPerSecond * 1e-9);
  out.print("%u %s: reads %.2f GB/s, computes %.2f f32 GFLOP/s and %.2f int8 GOP/s", machine.workers,
            machine.workers == 1 ? "worker" : "workers", machine.bytesPerSecond * 1e-9, machine.flopsPerSecond * 1e-9,
            machine.dotsPerSecond * 1e-9);
  if (machine.workers > 1)
    out.print(", a barrier takes %.0f ns", machine.barrierSeconds * 1e9);
  out.write("\n");
  for (size_t i = 0; i < machine.reads.size(); ++i) {
    const ReadFigure &figure = machine.reads[i];
    bool first = i == 0 || machine.reads[i - 1].pages != figure.pages;
    if (first)
      out.print("%s  %-11s GB/s by streams:", i == 0 ? "" : "\n", pagesName(figure.pages));
    out.print("  %2u: %6.2f", figure.streams, figure.bytesPerSecond * 1e-9);
  }
  out.write("\n");
}

void printHeading(Output &out) {
  out.print("\n%-6s %7s %7s %5s %7s  %10s %7s  %16s %18s  %5s\n", "test", "tokens", "depth", "batch", "workers",
            "tok/s", "spread", "GB/s", "GFLOP/s", "limit");
}

void printRow(Output &out, const BenchRow &row) {
  double seconds = row.median(), bytes = row.work.bytes / seconds, flops = row.work.flops / seconds;
  std::string ofPeak = row.flopsPerSecond > 0 ? formatText("%4.0f%%", 100 * flops / row.flopsPerSecond) : "    -";
  out.print("%-6s %7" PRIu64 " %7" PRIu64 " %5" PRIu64 " %7u  %10.2f %6.1f%%  %8.2f (%4.0f%%) %10.2f (%s) %5.0f%%\n",
            row.test, row.tokens, row.depth, row.batch, row.workers, row.tokensPerSecond(), 100 * row.spread(),
            bytes * 1e-9, 100 * bytes / row.bytesPerSecond, flops * 1e-9, ofPeak.c_str(), 100 * row.shareOfLimit());
  out.flush();
}

void printOps(Output &out, const BenchRow &row) {
  double total = 0;
  for (const OpFigure &op : row.ops)
    total += op.seconds;
  out.print("\n  %s of %" PRIu64 " tokens, depth %" PRIu64 ", batch %" PRIu64
            ", %u workers: a step passes %.0f barriers "
            "and waits there for %.1f%% of its time\n",
            row.test, row.tokens, row.depth, row.batch, row.workers, row.barriersPerStep, 100 * row.barrierShare);
  out.print("  %-32s %6s %12s %12s %8s %9s %9s %9s %6s\n", "op", "share", "us a call", "us waiting", "MB", "MFLOP",
            "GB/s", "GFLOP/s", "limit");
  for (const OpFigure &op : row.ops) {
    double calls = static_cast<double>(op.calls);
    out.print("  %-32s %5.1f%% %12.3f %12.3f %8.2f %9.2f %9.2f %9.2f %5.0f%%\n", op.name, 100 * op.seconds / total,
              op.seconds / calls * 1e6, op.barrierSeconds / calls * 1e6, op.work.bytes / calls * 1e-6,
              op.work.flops / calls * 1e-6, op.work.bytes / op.seconds * 1e-9, op.work.flops / op.seconds * 1e-9,
              100 * shareOfLimit(op.work, op.seconds, row.bytesPerSecond, row.flopsPerSecond));
  }
  out.write("\n");
}

namespace {

void member(JsonWriter &json, const char *name, double value, int digits = 6) {
  json.key(name);
  json.number(value, digits);
}

void member(JsonWriter &json, const char *name, uint64_t value) {
  json.key(name);
  json.number(value);
}

/// A figure that may not have been measured: null then.
void measured(JsonWriter &json, const char *name, double value, double limit, int digits = 6) {
  if (limit > 0)
    return member(json, name, value, digits);
  json.key(name);
  json.null();
}

void writeMachine(JsonWriter &json, const MachineLimits &machine) {
  json.beginObject();
  if (!machine.device.empty()) {
    json.key("device");
    json.text(machine.device);
  }
  member(json, "workers", uint64_t(machine.workers));
  member(json, "read_gigabytes_per_second", machine.bytesPerSecond * 1e-9);
  measured(json, "peak_gigaflops_per_second", machine.flopsPerSecond * 1e-9, machine.flopsPerSecond);
  member(json, "peak_int8_gigaops_per_second", machine.dotsPerSecond * 1e-9);
  member(json, "barrier_nanoseconds", machine.barrierSeconds * 1e9);
  json.key("reads");
  json.beginArray();
  for (const ReadFigure &figure : machine.reads) {
    json.beginObject();
    json.key("memory");
    json.text(pagesName(figure.pages));
    member(json, "streams", uint64_t(figure.streams));
    member(json, "gigabytes_per_second", figure.bytesPerSecond * 1e-9);
    json.endObject();
  }
  json.endArray();
  json.endObject();
}

void writeOps(JsonWriter &json, const BenchRow &row) {
  double total = 0;
  for (const OpFigure &op : row.ops)
    total += op.seconds;
  member(json, "barriers_per_step", row.barriersPerStep);
  member(json, "barrier_share", row.barrierShare, 4);
  json.key("ops");
  json.beginArray();
  for (const OpFigure &op : row.ops) {
    json.beginObject();
    json.key("op");
    json.text(op.name);
    json.key("kind");
    json.text(op.kind);
    member(json, "calls", op.calls);
    member(json, "seconds", op.seconds);
    member(json, "barrier_seconds", op.barrierSeconds);
    member(json, "share", op.seconds / total, 4);
    member(json, "bytes", op.work.bytes, 12);
    member(json, "flops", op.work.flops, 12);
    member(json, "gigabytes_per_second", op.work.bytes / op.seconds * 1e-9);
    member(json, "gigaflops_per_second", op.work.flops / op.seconds * 1e-9);
    member(json, "share_of_limit", shareOfLimit(op.work, op.seconds, row.bytesPerSecond, row.flopsPerSecond), 4);
    json.endObject();
  }
  json.endArray();
}

void writeRow(JsonWriter &json, const BenchRow &row) {
  double seconds = row.median(), bytes = row.work.bytes / seconds, flops = row.work.flops / seconds;
  json.beginObject();
  json.key("test");
  json.text(row.test);
  member(json, "tokens", row.tokens);
  member(json, "depth", row.depth);
  member(json, "batch", row.batch);
  member(json, "workers", uint64_t(row.workers));
  member(json, "seconds", seconds);
  member(json, "seconds_min", row.seconds.front());
  member(json, "seconds_max", row.seconds.back());
  member(json, "repetitions", uint64_t(row.seconds.size()));
  member(json, "tokens_per_second", row.tokensPerSecond());
  member(json, "spread", row.spread(), 4);
  member(json, "bytes", row.work.bytes, 12);
  member(json, "flops", row.work.flops, 12);
  member(json, "gigabytes_per_second", bytes * 1e-9);
  member(json, "gigaflops_per_second", flops * 1e-9);
  member(json, "read_gigabytes_per_second", row.bytesPerSecond * 1e-9);
  measured(json, "peak_gigaflops_per_second", row.flopsPerSecond * 1e-9, row.flopsPerSecond);
  member(json, "share_of_bandwidth", bytes / row.bytesPerSecond, 4);
  measured(json, "share_of_peak", flops / row.flopsPerSecond, row.flopsPerSecond, 4);
  member(json, "share_of_limit", row.shareOfLimit(), 4);
  if (!row.ops.empty())
    writeOps(json, row);
  json.endObject();
}

} // namespace

void writeJson(Output &out, const BenchReport &report) {
  JsonWriter json(out);
  json.beginObject();
  json.key("model");
  json.text(report.model);
  json.key("variant");
  json.text(report.variant);
  json.key("machine");
  json.beginArray();
  for (const MachineLimits &machine : report.machines)
    writeMachine(json, machine);
  json.endArray();
  json.key("rows");
  json.beginArray();
  for (const BenchRow &row : report.rows)
    writeRow(json, row);
  json.endArray();
  json.endObject();
  out.write("\n");
}

} // namespace ingot::rt
