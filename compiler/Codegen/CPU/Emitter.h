//===- Emitter.h - Short words for structured loops on memory
//-----------------------------------------------------===//
//
// The kernels are emitted op by op. This builder keeps that readable: index
// arithmetic with C++'s operators, loops and conditions as lambdas, loads and
// stores of whole vectors of f32 lanes.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_CODEGEN_CPU_EMITTER_H
#define INGOT_COMPILER_CODEGEN_CPU_EMITTER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace ingot::cpu {

class Emitter;

/// An index value with arithmetic. Operands are not negative and results do not
/// overflow; division is unsigned.
struct Ix {
  Emitter *emitter = nullptr;
  mlir::Value value;

  operator mlir::Value() const { return value; }
  Ix operator+(Ix other) const;
  Ix operator-(Ix other) const;
  Ix operator*(Ix other) const;
  Ix operator/(Ix other) const;
  Ix operator%(Ix other) const;
  Ix operator+(int64_t other) const;
  Ix operator-(int64_t other) const;
  Ix operator*(int64_t other) const;
  Ix operator/(int64_t other) const;
  Ix operator%(int64_t other) const;
  /// The next multiple of `unit`.
  Ix roundUp(int64_t unit) const { return (*this + (unit - 1)) / unit * unit; }
  mlir::Value operator<(Ix other) const;
  mlir::Value operator<=(Ix other) const;
  mlir::Value operator==(Ix other) const;
};

/// A half-open range of indices.
struct IndexRange {
  Ix begin, end;
};

/// f32 lanes that a vector of the kernels has, whatever the machine's width:
/// the unit of panels and padding.
inline constexpr int64_t lanes = 16;

/// Builds ops at one location.
class Emitter : public mlir::ImplicitLocOpBuilder {
public:
  using mlir::ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  // Types.
  mlir::MemRefType memref(mlir::Type element) { return mlir::MemRefType::get({mlir::ShapedType::kDynamic}, element); }
  mlir::MemRefType bytes() { return memref(getI8Type()); }
  mlir::MemRefType floats() { return memref(getF32Type()); }
  mlir::MemRefType ints() { return memref(getI32Type()); }
  mlir::VectorType vector(mlir::Type element, int64_t n = lanes) { return mlir::VectorType::get({n}, element); }

  // Constants.
  Ix c(int64_t value);
  mlir::Value f32(float value);
  mlir::Value i32(int64_t value);
  /// A vector or scalar of type `type` with each element `value`.
  mlir::Value splat(mlir::Type type, double value);
  mlir::Value splatInt(mlir::Type type, int64_t value);
  mlir::Value zeros() { return splat(vector(getF32Type()), 0.0); }
  /// 0, 1, ..., 15 as i32.
  mlir::Value iota();

  // Index arithmetic.
  Ix ix(mlir::Value value) { return {this, value}; }
  /// An i32 or i64 as an index.
  Ix toIndex(mlir::Value value);
  mlir::Value toI32(Ix value);
  Ix min(Ix a, Ix b);
  Ix max(Ix a, Ix b);
  Ix select(mlir::Value condition, Ix a, Ix b);
  /// a - b, or 0 if that is negative.
  Ix saturatingSub(Ix a, Ix b);
  /// The share of [0, n) that worker `worker` of `workers` takes: contiguous,
  /// sizes differ by one at most.
  IndexRange share(Ix n, Ix worker, Ix workers);

  // Structure.
  void loop(Ix begin, Ix end, int64_t step, llvm::function_ref<void(Ix)> body);
  void loop(IndexRange range, llvm::function_ref<void(Ix)> body) { loop(range.begin, range.end, 1, body); }
  /// A loop that carries values from one iteration to the next; returns the
  /// last ones.
  llvm::SmallVector<mlir::Value> loop(Ix begin, Ix end, int64_t step, mlir::ValueRange init,
                                      llvm::function_ref<llvm::SmallVector<mlir::Value>(Ix, mlir::ValueRange)> body);
  void when(mlir::Value condition, llvm::function_ref<void()> then, llvm::function_ref<void()> otherwise = nullptr);

  // Memory. Positions are in elements.
  mlir::Value load(mlir::Value memory, Ix at);
  void store(mlir::Value value, mlir::Value memory, Ix at);
  mlir::Value vload(mlir::Value memory, Ix at, int64_t n = lanes);
  void vstore(mlir::Value vector, mlir::Value memory, Ix at);
  /// Asks for the cache line of an element that will be read; the position may be outside of the memory.
  void prefetch(mlir::Value memory, Ix at);
  /// Lanes below `count` only; the others load zero or are not stored.
  mlir::Value maskedLoad(mlir::Value memory, Ix at, mlir::Value mask);
  void maskedStore(mlir::Value vector, mlir::Value memory, Ix at, mlir::Value mask);
  /// A mask of the lanes below `count`.
  mlir::Value maskBelow(Ix count, int64_t n = lanes);
  /// `memory`, bytes, from byte `offset` on as `count` elements of another type.
  mlir::Value view(mlir::Value memory, Ix offset, mlir::Type element, Ix count);

  // Arithmetic on scalars and vectors of floats.
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, mlir::Value b);
  /// a * b + c with one rounding.
  mlir::Value fma(mlir::Value a, mlir::Value b, mlir::Value c);
  mlir::Value broadcast(mlir::Value scalar, int64_t n = lanes);
  mlir::Value compare(mlir::arith::CmpFPredicate predicate, mlir::Value a, mlir::Value b);
  mlir::Value choose(mlir::Value condition, mlir::Value a, mlir::Value b);
  /// The larger of two; `b` where they do not compare.
  mlir::Value larger(mlir::Value a, mlir::Value b);
};

/// Loads behind this are not made before it, nor merged with those before it, of which LLVM would otherwise keep more
/// than registers hold. It is no instruction.
void keepLoadsApart(Emitter &e);

} // namespace ingot::cpu

#endif // INGOT_COMPILER_CODEGEN_CPU_EMITTER_H
