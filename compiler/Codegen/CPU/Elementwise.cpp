//===- Elementwise.cpp - Norms, sums, activations, embeddings
//-----------------------------------------------------===//
//
// Everything that reads and writes activations but has no matrix. Whole vectors
// are stored where a row's padding allows it; heads, whose neighbours another
// worker writes, get a mask on their last vector.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/CPU/Kernels.h"
#include "compiler/Codegen/CPU/VectorMath.h"
#include "ingot_rt/abi.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace ingot::cpu;

/// Calls `body(start, mask)` for each vector of [0, n); the mask is null where
/// all lanes are inside.
static void forVectors(Emitter &e, Ix n, function_ref<void(Ix, Value)> body) {
  Ix whole = n / lanes * lanes;
  e.loop(e.c(0), whole, lanes, [&](Ix i) { body(i, Value()); });
  e.when(whole < n, [&] { body(whole, e.maskBelow(n - whole)); });
}

static Value loadVector(Emitter &e, Value memory, Ix at, Value mask) {
  return mask ? e.maskedLoad(memory, at, mask) : e.vload(memory, at);
}

static void storeVector(Emitter &e, Value value, Value memory, Ix at, Value mask) {
  if (mask)
    e.maskedStore(value, memory, at, mask);
  else
    e.vstore(value, memory, at);
}

Value ingot::cpu::emitInverseRms(Emitter &e, Ix n, Value eps, function_ref<Value(Ix, Value)> load) {
  Ix whole = n / lanes * lanes;
  SmallVector<Value> sums = {e.zeros()};
  sums = e.loop(e.c(0), whole, lanes, sums, [&](Ix i, ValueRange carried) {
    Value x = load(i, Value());
    return SmallVector<Value>{e.fma(x, x, carried[0])};
  });
  // The last, partial vector; with no lanes inside it adds zeros.
  sums = e.loop(whole, n, lanes, sums, [&](Ix i, ValueRange carried) {
    Value x = load(i, e.maskBelow(n - i));
    return SmallVector<Value>{e.fma(x, x, carried[0])};
  });
  Value count = arith::SIToFPOp::create(e, e.getF32Type(), e.toI32(n));
  Value mean = e.div(emitSumOfLanes(e, sums[0]), count);
  return e.div(e.f32(1), math::SqrtOp::create(e, e.add(mean, eps)));
}

void Kernels::rmsNorm(Emitter &e, Rows input, std::optional<Rows> residual, std::optional<Rows> sum, Value weight,
                      float eps, Rows result, Ix heads, Ix n, Ix rows, const Worker &worker) {
  SmallVector<Value> arguments = {input.memory,  input.stride,  weight,      e.f32(eps),
                                  result.memory, result.stride, heads,       n,
                                  rows,          worker.id,     worker.count};
  if (residual)
    arguments.append({residual->memory, residual->stride, sum->memory, sum->stride});
  call(e, residual ? "add_rms_norm" : "rms_norm", arguments, [&](Emitter &f, ValueRange a) {
    Ix inputStride = f.ix(a[1]), resultStride = f.ix(a[5]), headCount = f.ix(a[6]), size = f.ix(a[7]);
    IndexRange mine = f.share(f.ix(a[8]) * headCount, f.ix(a[9]), f.ix(a[10]));
    f.loop(mine, [&](Ix unit) {
      Ix row = unit / headCount, column = unit % headCount * size;
      Ix from = row * inputStride + column, to = row * resultStride + column;
      Value source = a[0];
      if (residual) {
        // The sum first: it is what the norm reads.
        Ix other = row * f.ix(a[12]) + column, total = row * f.ix(a[14]) + column;
        forVectors(f, size, [&](Ix i, Value mask) {
          Value value = f.add(loadVector(f, a[0], from + i, mask), loadVector(f, a[11], other + i, mask));
          storeVector(f, value, a[13], total + i, mask);
        });
        source = a[13];
        from = total;
      }
      Value inverse =
          emitInverseRms(f, size, a[3], [&](Ix i, Value mask) { return loadVector(f, source, from + i, mask); });
      Value factor = f.broadcast(inverse);
      forVectors(f, size, [&](Ix i, Value mask) {
        Value normal = f.mul(loadVector(f, source, from + i, mask), factor);
        storeVector(f, f.mul(normal, loadVector(f, a[2], i, mask)), a[4], to + i, mask);
      });
    });
  });
}

void Kernels::elementwise(Emitter &e, StringRef name, ArrayRef<Rows> inputs, Rows result, Ix n, Ix rows,
                          const Worker &worker, function_ref<Value(Emitter &, ArrayRef<Value>)> compute) {
  SmallVector<Value> arguments = {result.memory, result.stride, n, rows, worker.id, worker.count};
  for (Rows input : inputs)
    arguments.append({input.memory, input.stride});
  call(e, name, arguments, [&](Emitter &f, ValueRange a) {
    // Vectors of all rows in turn, so that one row has work for every worker
    // too.
    Ix vectors = (f.ix(a[2]) + (lanes - 1)) / lanes;
    IndexRange mine = f.share(vectors * f.ix(a[3]), f.ix(a[4]), f.ix(a[5]));
    f.loop(mine, [&](Ix unit) {
      Ix row = unit / vectors, column = unit % vectors * lanes;
      SmallVector<Value> values;
      for (size_t i = 0; i < inputs.size(); ++i)
        values.push_back(f.vload(a[6 + 2 * i], row * f.ix(a[7 + 2 * i]) + column));
      f.vstore(compute(f, values), a[0], row * f.ix(a[1]) + column);
    });
  });
}

void Kernels::embedding(Emitter &e, const Batch &batch, Value table, Type element, bool panels, Rows result, Ix n,
                        const Worker &worker) {
  std::string name = panels ? "embedding_panels_" : "embedding_rows_";
  llvm::raw_string_ostream(name) << element;
  call(e, name, {batch.tokens, table, result.memory, result.stride, n, batch.tokenCount, worker.id, worker.count},
       [&](Emitter &f, ValueRange a) {
         Ix size = f.ix(a[4]);
         int64_t group = element.isBF16() ? 2 : 1;
         Ix pieces = (size + (lanes - 1)) / lanes;
         IndexRange mine = f.share(pieces * f.ix(a[5]), f.ix(a[6]), f.ix(a[7]));
         f.loop(mine, [&](Ix unit) {
           Ix row = unit / pieces, column = unit % pieces * lanes;
           Ix id = f.toIndex(f.load(a[0], row));
           Ix to = row * f.ix(a[3]);
           auto copyOne = [&](Ix k) {
             Ix at = id * size + k;
             if (panels)
               at = id / lanes * (size.roundUp(group) * lanes) + k / group * (lanes * group) + id % lanes * group +
                    k % group;
             f.store(emitWiden(f, f.load(a[1], at)), a[2], to + k);
           };
           f.loop(column, f.min(column + lanes, size), 1, copyOne);
         });
       });
}

void Kernels::selectRows(Emitter &e, const Batch &batch, Rows input, Rows result, Ix n, const Worker &worker) {
  call(e, "select_rows",
       {batch.rows, input.memory, input.stride, result.memory, result.stride, n, batch.rowCount, worker.id,
        worker.count},
       [&](Emitter &f, ValueRange a) {
         Ix vectors = (f.ix(a[5]) + (lanes - 1)) / lanes;
         IndexRange mine = f.share(vectors * f.ix(a[6]), f.ix(a[7]), f.ix(a[8]));
         f.loop(mine, [&](Ix unit) {
           Ix row = unit / vectors, column = unit % vectors * lanes;
           Ix from = f.toIndex(f.load(a[0], row)) * f.ix(a[2]) + column;
           f.vstore(f.vload(a[1], from), a[3], row * f.ix(a[4]) + column);
         });
       });
}
