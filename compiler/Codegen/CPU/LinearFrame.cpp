//===- LinearFrame.cpp - What every product with packed weights has in common
//--------------------------------------===//
//
// A linear's function and its operands, and what becomes of a tile of sums: the tree of segments, bias, gate, residual,
// the largest feature of a row. How the sums are made is another file's business.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/CPU/LinearFrame.h"
#include "compiler/Codegen/CPU/VectorMath.h"
#include "ingot_rt/abi.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace ingot::cpu {

int64_t LinearFrame::segments() const { return shape.segmented ? INGOT_RT_K_SEGMENTS : 1; }

/// The sum of the segments by the fixed tree.
Value LinearFrame::combine(Ix at, Ix segmentStride) {
  SmallVector<Value> parts;
  for (int64_t s = 0; s < segments(); ++s)
    parts.push_back(e.vload(worker.scratch, at + segmentStride * s));
  for (size_t n = parts.size(); n > 1; n /= 2)
    for (size_t i = 0; i < n / 2; ++i)
      parts[i] = e.add(parts[2 * i], parts[2 * i + 1]);
  return parts[0];
}

void LinearFrame::finish(Ix firstRow, Ix blockRow, Ix unit, Value value, Value up) {
  Ix column = unit * lanes, row = firstRow + blockRow;
  if (in.bias)
    value = e.add(value, e.vload(in.bias, column));
  if (shape.gated) {
    if (in.bias)
      up = e.add(up, e.vload(in.bias, in.n + column));
    value = e.mul(emitSiLU(e, value), up);
  }
  if (in.residual)
    value = e.add(value, e.vload(in.residual->memory, row * in.residual->stride + column));
  if (shape.argmax)
    updateArgmax(blockRow, unit, value);
  else
    e.vstore(value, in.result.memory, row * in.result.stride + column);
}

/// Bias, activation, residual and the store of a tile in the accumulators: the body of a function of its own, which all
/// sizes of tiles share.
void LinearFrame::storeTile(Ix firstRow, Ix blockRow, Ix unit, Ix tileRows, Ix rowFloats, Ix unitCount) {
  Ix segmentStride = tileRows * rowFloats;
  auto emitOne = [&](Ix r, Ix u) {
    Ix at = accumulators + r * rowFloats + u * (unitPanels() * lanes);
    Value value = combine(at, segmentStride), up = shape.gated ? combine(at + lanes, segmentStride) : Value();
    finish(firstRow, blockRow + r, unit + u, value, up);
  };
  e.loop(e.c(0), tileRows, 1, [&](Ix r) { e.loop(e.c(0), unitCount, 1, [&](Ix u) { emitOne(r, u); }); });
}

void LinearFrame::epilogue(Ix firstRow, Ix blockRow, Ix unit, Ix rows, Ix rowFloats, Ix unitCount) {
  SmallVector<Value> arguments = argumentsOf(shape, in, worker);
  size_t own = arguments.size();
  arguments.append({firstRow, blockRow, unit, rows, rowFloats, unitCount});
  kernels.call(e, nameOf(shape, in) + "_store", arguments, [&](Emitter &f, ValueRange a) {
    LinearFrame inner(f, kernels, shape);
    inner.bind(a, in);
    inner.storeTile(f.ix(a[own]), f.ix(a[own + 1]), f.ix(a[own + 2]), f.ix(a[own + 3]), f.ix(a[own + 4]),
                    f.ix(a[own + 5]));
  });
}

//===--------------------------------------------------------------------------------------------------------------===//
// The largest feature
//===--------------------------------------------------------------------------------------------------------------===//

/// Whether `value` takes the place of `best`: it is larger, or not a number, which then stays.
static Value isBetter(Emitter &e, Value value, Value best) {
  Value larger = e.compare(arith::CmpFPredicate::OGT, value, best);
  return arith::OrIOp::create(e, larger, e.compare(arith::CmpFPredicate::UNO, value, value));
}

/// Per row of the block and lane: the largest value so far and its feature.
/// Panels come in ascending order, so that the first of equals stays.
void LinearFrame::updateArgmax(Ix row, Ix unit, Value value) {
  auto floats = e.vector(e.getF32Type()), ints = e.vector(e.getI32Type());
  Ix at = kernels.argmaxState(e) + row * (2 * lanes);
  Value feature = arith::AddIOp::create(e, e.broadcast(e.toI32(unit * lanes)), e.iota());
  Value inside = arith::CmpIOp::create(e, arith::CmpIPredicate::slt, feature, e.broadcast(e.toI32(in.n)));
  Value best = e.vload(worker.scratch, at);
  Value bestFeature = arith::BitcastOp::create(e, ints, e.vload(worker.scratch, at + lanes));
  Value better = arith::AndIOp::create(e, inside, isBetter(e, value, best));
  e.vstore(e.choose(better, value, best), worker.scratch, at);
  Value chosen = e.choose(better, feature, bestFeature);
  e.vstore(arith::BitcastOp::create(e, floats, chosen), worker.scratch, at + lanes);
}

/// Before a block of rows: no largest value yet.
void LinearFrame::initArgmax(Ix rows) {
  e.loop(e.c(0), rows, 1, [&](Ix row) {
    Ix at = kernels.argmaxState(e) + row * (2 * lanes);
    e.vstore(e.splat(e.vector(e.getF32Type()), -HUGE_VAL), worker.scratch, at);
    e.vstore(e.zeros(), worker.scratch, at + lanes);
  });
}

/// After a block of rows: each worker's lanes to one value and id (of equal
/// values the lowest id), then all workers'.
void LinearFrame::reduceArgmax(Ix firstRow, Ix rows) {
  auto ints = e.vector(e.getI32Type());
  auto bits = [&](Type type, Value value) -> Value { return arith::BitcastOp::create(e, type, value); };
  e.loop(e.c(0), rows, 1, [&](Ix row) {
    Ix at = kernels.argmaxState(e) + row * (2 * lanes);
    Value values = e.vload(worker.scratch, at), ids = bits(ints, e.vload(worker.scratch, at + lanes));
    Value best = emitMaxOfLanes(e, values);
    Value equal = e.compare(arith::CmpFPredicate::OEQ, values, e.broadcast(best));
    Value id = emitMinOfLanes(e, e.choose(equal, ids, e.splatInt(ints, INT32_MAX)));
    Value unordered = e.compare(arith::CmpFPredicate::UNO, values, values);
    Value nan = vector::ReductionOp::create(e, vector::CombiningKind::OR, unordered);
    best = e.choose(nan, e.f32(std::numeric_limits<float>::quiet_NaN()), best);
    e.store(best, worker.scratch, kernels.argmaxPartial(e) + row * 2);
    e.store(bits(e.getF32Type(), id), worker.scratch, kernels.argmaxPartial(e) + row * 2 + 1);
  });
  kernels.barrier(e, worker.barrier, worker.id);
  e.loop(e.share(rows, worker.id, worker.count), [&](Ix row) {
    auto partial = [&](Ix of) { return of * worker.sharedStride + kernels.argmaxPartial(e) + row * 2; };
    SmallVector<Value> init = {e.load(worker.shared, partial(e.c(0))), e.load(worker.shared, partial(e.c(0)) + 1)};
    // Workers hold ascending features.
    init = e.loop(e.c(1), worker.count, 1, init, [&](Ix of, ValueRange best) {
      Value value = e.load(worker.shared, partial(of)), id = e.load(worker.shared, partial(of) + 1);
      Value better = isBetter(e, value, best[0]);
      return SmallVector<Value>{e.choose(better, value, best[0]), e.choose(better, id, best[1])};
    });
    e.store(init[0], in.argmaxValue, firstRow + row);
    e.store(bits(e.getI32Type(), init[1]), in.argmax, firstRow + row);
  });
  kernels.barrier(e, worker.barrier, worker.id);
}

std::string LinearFrame::computeSuffix(const LinearShape &shape) {
  return shape.inputBits ? "_int" + std::to_string(shape.inputBits) : "";
}

std::string LinearFrame::nameOf(const LinearShape &shape, const LinearOperands &operands) {
  std::string name = "linear_";
  llvm::raw_string_ostream os(name);
  if (shape.quantized)
    os << stringifyQuantization(*shape.quantized) << computeSuffix(shape) << (shape.partialBlock ? "_partial" : "");
  else
    os << shape.element;
  os << (shape.segmented ? "_segments" : "") << (shape.oddK ? "_odd" : "") << (shape.gated ? "_gated_silu" : "")
     << (operands.bias ? "_bias" : "") << (operands.residual ? "_residual" : "") << (shape.argmax ? "_argmax" : "");
  return name;
}

SmallVector<Value> LinearFrame::argumentsOf(const LinearShape &shape, const LinearOperands &operands,
                                            const Worker &worker) {
  SmallVector<Value> arguments = {
      operands.input.memory, operands.input.stride, operands.weights, operands.n, operands.k, operands.rows, worker.id,
      worker.count,          worker.scratch};
  if (operands.bias)
    arguments.push_back(operands.bias);
  if (operands.residual)
    arguments.append({operands.residual->memory, operands.residual->stride});
  if (shape.argmax)
    arguments.append({operands.argmax, operands.argmaxValue, worker.shared, worker.sharedStride, worker.barrier});
  else
    arguments.append({operands.result.memory, operands.result.stride});
  return arguments;
}

void LinearFrame::bind(ValueRange arguments, const LinearOperands &outer) {
  size_t next = 0;
  auto value = [&] { return arguments[next++]; };
  auto index = [&] { return e.ix(arguments[next++]); };
  in.input.memory = value();
  in.input.stride = index();
  in.weights = value();
  in.n = index();
  in.k = index();
  in.rows = index();
  worker.id = index();
  worker.count = index();
  worker.scratch = value();
  if (outer.bias)
    in.bias = value();
  if (outer.residual) {
    Value memory = value();
    in.residual = Rows{memory, index()};
  }
  if (shape.argmax) {
    in.argmax = value();
    in.argmaxValue = value();
    worker.shared = value();
    worker.sharedStride = index();
    worker.barrier = value();
  } else {
    in.result.memory = value();
    in.result.stride = index();
  }
  features = in.n.roundUp(lanes) * unitPanels();
  accumulators = e.c(kernels.packedFloats);
}

} // namespace ingot::cpu
