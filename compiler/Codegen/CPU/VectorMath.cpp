//===- VectorMath.cpp - Transcendental functions and fixed trees on vectors
//---------------------------------------===//
//
// See VectorMath.h. Integers come from floats by adding 1.5 * 2^23 (or 2^52)
// and looking at the bits: unlike a conversion this is defined for NaN and what
// is out of range.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/CPU/VectorMath.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace ingot::cpu;

/// Horner's rule: coefficients from the highest power on.
static Value polynomial(Emitter &e, Value x, ArrayRef<double> coefficients) {
  Value sum = e.splat(x.getType(), coefficients.front());
  for (double coefficient : coefficients.drop_front())
    sum = e.fma(sum, x, e.splat(x.getType(), coefficient));
  return sum;
}

static Value bitcast(Emitter &e, Type type, Value value) { return arith::BitcastOp::create(e, type, value); }

/// 1.5 * 2^23: x plus this has x, rounded to an integer, in its low bits.
static constexpr double expMagic = 12582912.0;

/// x ln 2 = n ln 2 + r with |r| <= ln(2)/2: n as an integer in the low bits of the first result, e^r as the second.
static std::pair<Value, Value> reduceExp(Emitter &e, Value x) {
  Type floats = x.getType();
  auto c = [&](double value) { return e.splat(floats, value); };
  Value shifted = e.fma(x, c(1.44269504088896341), c(expMagic));
  Value n = e.sub(shifted, c(expMagic));
  // ln 2 in two parts, the first with few bits so that n times it is exact.
  Value r = e.fma(n, c(-0.693359375), x);
  r = e.fma(n, c(2.12194440e-4), r);
  Value p = polynomial(
      e, r, {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1});
  return {shifted, e.add(e.fma(p, e.mul(r, r), r), c(1.0))};
}

Value ingot::cpu::emitExp(Emitter &e, Value x) {
  auto floats = cast<VectorType>(x.getType());
  VectorType ints = e.vector(e.getI32Type(), floats.getNumElements());
  auto c = [&](double value) { return e.splat(floats, value); };
  auto ci = [&](int64_t value) { return e.splatInt(ints, value); };
  // Beyond these bounds the result is 0 or infinity. NaN passes both
  // comparisons by.
  x = e.choose(e.compare(arith::CmpFPredicate::OLT, x, c(-104.0)), c(-104.0), x);
  x = e.choose(e.compare(arith::CmpFPredicate::OGT, x, c(89.0)), c(89.0), x);
  auto [shifted, p] = reduceExp(e, x);
  Value power = arith::SubIOp::create(e, bitcast(e, ints, shifted), ci(0x4B400000));
  // 2^n = 2^a 2^b with normal factors; the first product is exact, the second
  // rounds once into the subnormals.
  auto powerOfTwo = [&](Value exponent) {
    Value biased = arith::AddIOp::create(e, exponent, ci(127));
    return bitcast(e, floats, arith::ShLIOp::create(e, biased, ci(23)));
  };
  Value half = arith::ShRSIOp::create(e, power, ci(1));
  Value rest = arith::SubIOp::create(e, power, half);
  return e.mul(e.mul(p, powerOfTwo(half)), powerOfTwo(rest));
}

Value ingot::cpu::emitExpOfNegative(Emitter &e, Value x) {
  auto floats = cast<VectorType>(x.getType());
  VectorType ints = e.vector(e.getI32Type(), floats.getNumElements());
  // From here on the result is normal: n >= -126, and there r > 0.
  Value least = e.splat(floats, -87.3);
  Value small = e.compare(arith::CmpFPredicate::OLT, x, least);
  auto [shifted, p] = reduceExp(e, e.choose(small, least, x));
  // The low 9 bits of `shifted` are n's. A product keeps a NaN, which integers would not.
  Value exponent = arith::ShLIOp::create(e, bitcast(e, ints, shifted), e.splatInt(ints, 23));
  Value power = arith::AddIOp::create(e, exponent, e.splatInt(ints, 127 << 23));
  Value scaled = e.mul(p, bitcast(e, floats, power));
  return e.choose(small, e.splat(floats, 0.0), scaled);
}

Value ingot::cpu::emitSiLU(Emitter &e, Value x) {
  Value minus = e.sub(e.splat(x.getType(), -0.0), x);
  return e.div(x, e.add(emitExp(e, minus), e.splat(x.getType(), 1.0)));
}

std::pair<Value, Value> ingot::cpu::emitCosSin(Emitter &e, Value x) {
  auto floats = cast<VectorType>(x.getType());
  int64_t n = floats.getNumElements();
  VectorType doubles = e.vector(e.getF64Type(), n), ints = e.vector(e.getI64Type(), n);
  auto c = [&](double value) { return e.splat(doubles, value); };
  auto ci = [&](int64_t value) { return e.splatInt(ints, value); };
  const double magic = 6755399441055744.0; // 1.5 * 2^52
  Value a = arith::ExtFOp::create(e, doubles, x);
  Value shifted = e.fma(a, c(0.63661977236758134308), c(magic));
  Value turns = e.sub(shifted, c(magic));
  Value quadrant = bitcast(e, ints, shifted);
  Value r = e.fma(turns, c(-1.57079632679489655800), a);
  r = e.fma(turns, c(-6.12323399573676603587e-17), r);
  Value r2 = e.mul(r, r);
  Value sine = polynomial(
      e, r2, {1.0 / 6227020800.0, -1.0 / 39916800.0, 1.0 / 362880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0});
  sine = e.fma(e.mul(sine, r2), r, r);
  Value cosine = polynomial(
      e, r2,
      {-1.0 / 87178291200.0, 1.0 / 479001600.0, -1.0 / 3628800.0, 1.0 / 40320.0, -1.0 / 720.0, 1.0 / 24.0, -0.5, 1.0});
  auto bit = [&](Value value, int64_t mask) -> Value {
    Value masked = arith::AndIOp::create(e, value, ci(mask));
    return arith::CmpIOp::create(e, arith::CmpIPredicate::ne, masked, ci(0));
  };
  Value odd = bit(quadrant, 1);
  Value cosineSign = bit(arith::AddIOp::create(e, quadrant, ci(1)), 2), sineSign = bit(quadrant, 2);
  auto negateIf = [&](Value condition, Value value) { return e.choose(condition, e.sub(c(-0.0), value), value); };
  Value resultCosine = negateIf(cosineSign, e.choose(odd, sine, cosine));
  Value resultSine = negateIf(sineSign, e.choose(odd, cosine, sine));
  return {arith::TruncFOp::create(e, floats, resultCosine), arith::TruncFOp::create(e, floats, resultSine)};
}

/// Folds the upper half of the lanes onto the lower one until one is left.
static Value fold(Emitter &e, Value value, function_ref<Value(Value, Value)> combine) {
  for (int64_t n = cast<VectorType>(value.getType()).getNumElements(); n > 1; n /= 2) {
    Value low = vector::ExtractStridedSliceOp::create(e, value, ArrayRef<int64_t>{0}, ArrayRef<int64_t>{n / 2},
                                                      ArrayRef<int64_t>{1});
    Value high = vector::ExtractStridedSliceOp::create(e, value, ArrayRef<int64_t>{n / 2}, ArrayRef<int64_t>{n / 2},
                                                       ArrayRef<int64_t>{1});
    value = combine(low, high);
  }
  return vector::ExtractOp::create(e, value, ArrayRef<int64_t>{0});
}

Value ingot::cpu::emitSumOfLanes(Emitter &e, Value vector) {
  return fold(e, vector, [&](Value a, Value b) { return e.add(a, b); });
}

Value ingot::cpu::emitMaxOfLanes(Emitter &e, Value vector) {
  return fold(e, vector, [&](Value a, Value b) { return e.larger(a, b); });
}

Value ingot::cpu::emitMinOfLanes(Emitter &e, Value vector) {
  return fold(e, vector, [&](Value a, Value b) -> Value { return arith::MinSIOp::create(e, a, b); });
}

/// `element`, or a vector of it as long as `like`.
static Type likeShape(Type like, Type element) {
  auto vectorType = dyn_cast<VectorType>(like);
  return vectorType ? Type(VectorType::get(vectorType.getShape(), element)) : element;
}

Value ingot::cpu::emitRound(Emitter &e, Value value, Type element) {
  Type type = value.getType();
  if (element.isF32())
    return value;
  if (element.isF16())
    return arith::TruncFOp::create(e, likeShape(type, element), value);
  Type ints = likeShape(type, e.getI32Type());
  auto ci = [&](int64_t constant) { return e.splatInt(ints, constant); };
  Value bits = bitcast(e, ints, value);
  Value odd = arith::AndIOp::create(e, arith::ShRUIOp::create(e, bits, ci(16)), ci(1));
  Value bias = arith::AddIOp::create(e, odd, ci(0x7fff));
  Value rounded = arith::ShRUIOp::create(e, arith::AddIOp::create(e, bits, bias), ci(16));
  // The carry could turn a NaN into an infinity: a quiet bit instead.
  Value quiet = arith::OrIOp::create(e, arith::ShRUIOp::create(e, bits, ci(16)), ci(0x40));
  Value isNaN = e.compare(arith::CmpFPredicate::UNO, value, value);
  Value result = e.choose(isNaN, quiet, rounded);
  Value low = arith::TruncIOp::create(e, likeShape(type, e.getI16Type()), result);
  return bitcast(e, likeShape(type, element), low);
}

Value ingot::cpu::emitWiden(Emitter &e, Value stored) {
  Type type = stored.getType(), element = getElementTypeOrSelf(type);
  if (element.isF32())
    return stored;
  Type floats = likeShape(type, e.getF32Type());
  if (element.isInteger(8))
    return arith::SIToFPOp::create(e, floats, stored);
  if (element.isF16())
    return arith::ExtFOp::create(e, floats, stored);
  Type ints = likeShape(type, e.getI32Type());
  Value wide = arith::ExtUIOp::create(e, ints, bitcast(e, likeShape(type, e.getI16Type()), stored));
  return bitcast(e, floats, arith::ShLIOp::create(e, wide, e.splatInt(ints, 16)));
}
