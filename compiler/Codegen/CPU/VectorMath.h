//===- VectorMath.h - Transcendental functions and fixed trees on vectors
//-----------------------------------------===//
//
// Our own polynomials, so that every machine and every lane gives the same bits
// and nothing calls libm.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_CODEGEN_CPU_VECTORMATH_H
#define INGOT_COMPILER_CODEGEN_CPU_VECTORMATH_H

#include "compiler/Codegen/CPU/Emitter.h"
#include <utility>

namespace ingot::cpu {

/// e^x of f32 lanes within 2 ulp for every x, including subnormal results; 0
/// below -104, infinity above 88.73, NaN of NaN. x = n ln 2 + r with |r| <=
/// ln(2)/2, then the polynomial of Cephes' expf (S. Moshier), then 2^n in two
/// factors.
mlir::Value emitExp(Emitter &e, mlir::Value x);

/// e^x of f32 lanes for x <= 0 within 2 ulp; 0 below -87.3, where it would be subnormal soon, NaN of NaN. emitExp
/// without the steps that only other results need.
mlir::Value emitExpOfNegative(Emitter &e, mlir::Value x);

/// x / (1 + e^-x) of f32 lanes.
mlir::Value emitSiLU(Emitter &e, mlir::Value x);

/// cos and sin of f32 lanes within 1 ulp for |x| < 2^20: reduced by pi/2 in two
/// parts and evaluated in f64 (Taylor up to r^14 on |r| <= pi/4), rounded once.
std::pair<mlir::Value, mlir::Value> emitCosSin(Emitter &e, mlir::Value x);

/// 1 / sqrt(mean(x^2) + eps) of `n` features as a scalar: 16 partial sums, lane
/// j of the features congruent to j, then emitSumOfLanes. `load` gives the
/// vector at a position, with zeros outside the mask if there is one.
mlir::Value emitInverseRms(Emitter &e, Ix n, mlir::Value eps, llvm::function_ref<mlir::Value(Ix, mlir::Value)> load);

/// The sum of 16 lanes by halves: ((0+8)+(4+12))+... The order is part of the
/// numerics.
mlir::Value emitSumOfLanes(Emitter &e, mlir::Value vector);

/// The largest of 16 lanes, without NaNs.
mlir::Value emitMaxOfLanes(Emitter &e, mlir::Value vector);

/// The smallest of 16 signed integers.
mlir::Value emitMinOfLanes(Emitter &e, mlir::Value vector);

/// f32, scalar or lanes, rounded to nearest even as bf16 or f16; f32 as it is. For bf16 by integers: LLVM would turn a
/// truncation into calls.
mlir::Value emitRound(Emitter &e, mlir::Value value, mlir::Type element);

/// f32, bf16, f16 or signed i8, scalar or lanes, widened to f32 exactly.
mlir::Value emitWiden(Emitter &e, mlir::Value stored);

} // namespace ingot::cpu

#endif // INGOT_COMPILER_CODEGEN_CPU_VECTORMATH_H
