//===- Emitter.cpp - Short words for structured loops on memory
//---------------------------------------------------===//
//
// See Emitter.h. Constants fold as they are made, so that emitted index
// arithmetic is what a person would write.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/CPU/Emitter.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace ingot::cpu;

template <typename OpTy>
static Ix binary(Ix a, Ix b) {
  Emitter &e = *a.emitter;
  return {&e, e.createOrFold<OpTy>(a.value, b.value)};
}

Ix Ix::operator+(Ix other) const { return binary<arith::AddIOp>(*this, other); }
Ix Ix::operator-(Ix other) const { return binary<arith::SubIOp>(*this, other); }
Ix Ix::operator*(Ix other) const { return binary<arith::MulIOp>(*this, other); }
Ix Ix::operator/(Ix other) const { return binary<arith::DivUIOp>(*this, other); }
Ix Ix::operator%(Ix other) const { return binary<arith::RemUIOp>(*this, other); }
Ix Ix::operator+(int64_t other) const { return other == 0 ? *this : *this + emitter->c(other); }
Ix Ix::operator-(int64_t other) const { return other == 0 ? *this : *this - emitter->c(other); }
Ix Ix::operator*(int64_t other) const { return other == 1 ? *this : *this * emitter->c(other); }
Ix Ix::operator/(int64_t other) const { return other == 1 ? *this : *this / emitter->c(other); }
Ix Ix::operator%(int64_t other) const { return other == 1 ? emitter->c(0) : *this % emitter->c(other); }

static Value compareIndex(arith::CmpIPredicate predicate, Ix a, Ix b) {
  return a.emitter->createOrFold<arith::CmpIOp>(predicate, a.value, b.value);
}
Value Ix::operator<(Ix other) const { return compareIndex(arith::CmpIPredicate::slt, *this, other); }
Value Ix::operator<=(Ix other) const { return compareIndex(arith::CmpIPredicate::sle, *this, other); }
Value Ix::operator==(Ix other) const { return compareIndex(arith::CmpIPredicate::eq, *this, other); }

//===--------------------------------------------------------------------------------------------------------------===//
// Constants and index arithmetic
//===--------------------------------------------------------------------------------------------------------------===//

Ix Emitter::c(int64_t value) { return ix(arith::ConstantIndexOp::create(*this, value)); }

Value Emitter::f32(float value) { return splat(getF32Type(), value); }

Value Emitter::i32(int64_t value) { return splatInt(getI32Type(), value); }

Value Emitter::splat(Type type, double value) {
  TypedAttr scalar = getFloatAttr(getElementTypeOrSelf(type), value);
  if (auto vectorType = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(*this, DenseElementsAttr::get(vectorType, Attribute(scalar)));
  return arith::ConstantOp::create(*this, scalar);
}

Value Emitter::splatInt(Type type, int64_t value) {
  TypedAttr scalar = getIntegerAttr(getElementTypeOrSelf(type), value);
  if (auto vectorType = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(*this, DenseElementsAttr::get(vectorType, Attribute(scalar)));
  return arith::ConstantOp::create(*this, scalar);
}

Value Emitter::iota() {
  SmallVector<int32_t> values;
  for (int64_t lane = 0; lane < lanes; ++lane)
    values.push_back(static_cast<int32_t>(lane));
  return arith::ConstantOp::create(*this, DenseElementsAttr::get(vector(getI32Type()), ArrayRef<int32_t>(values)));
}

Ix Emitter::toIndex(Value value) { return ix(arith::IndexCastOp::create(*this, getIndexType(), value)); }

Value Emitter::toI32(Ix value) { return arith::IndexCastOp::create(*this, getI32Type(), value.value); }

Ix Emitter::min(Ix a, Ix b) { return binary<arith::MinSIOp>(a, b); }

Ix Emitter::max(Ix a, Ix b) { return binary<arith::MaxSIOp>(a, b); }

Ix Emitter::select(Value condition, Ix a, Ix b) {
  return ix(createOrFold<arith::SelectOp>(condition, a.value, b.value));
}

Ix Emitter::saturatingSub(Ix a, Ix b) { return max(a - b, c(0)); }

IndexRange Emitter::share(Ix n, Ix worker, Ix workers) { return {n * worker / workers, n * (worker + 1) / workers}; }

//===--------------------------------------------------------------------------------------------------------------===//
// Structure
//===--------------------------------------------------------------------------------------------------------------===//

void Emitter::loop(Ix begin, Ix end, int64_t step, function_ref<void(Ix)> body) {
  auto op = scf::ForOp::create(*this, begin, end, c(step));
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPointToStart(op.getBody());
  body(ix(op.getInductionVar()));
}

SmallVector<Value> Emitter::loop(Ix begin, Ix end, int64_t step, ValueRange init,
                                 function_ref<SmallVector<Value>(Ix, ValueRange)> body) {
  auto op = scf::ForOp::create(*this, begin, end, c(step), init);
  {
    OpBuilder::InsertionGuard guard(*this);
    setInsertionPointToStart(op.getBody());
    SmallVector<Value> next = body(ix(op.getInductionVar()), op.getRegionIterArgs());
    scf::YieldOp::create(*this, next);
  }
  return SmallVector<Value>(op.getResults());
}

void Emitter::when(Value condition, function_ref<void()> then, function_ref<void()> otherwise) {
  auto op = scf::IfOp::create(*this, condition,
                              /*withElseRegion=*/static_cast<bool>(otherwise));
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPointToStart(op.thenBlock());
  then();
  if (otherwise) {
    setInsertionPointToStart(op.elseBlock());
    otherwise();
  }
}

//===--------------------------------------------------------------------------------------------------------------===//
// Memory
//===--------------------------------------------------------------------------------------------------------------===//

Value Emitter::load(Value memory, Ix at) { return memref::LoadOp::create(*this, memory, ValueRange{at.value}); }

void Emitter::store(Value value, Value memory, Ix at) {
  memref::StoreOp::create(*this, value, memory, ValueRange{at.value});
}

Value Emitter::vload(Value memory, Ix at, int64_t n) {
  Type element = cast<MemRefType>(memory.getType()).getElementType();
  return vector::LoadOp::create(*this, vector(element, n), memory, ValueRange{at.value});
}

void Emitter::vstore(Value value, Value memory, Ix at) {
  vector::StoreOp::create(*this, value, memory, ValueRange{at.value});
}

void Emitter::prefetch(Value memory, Ix at) {
  memref::PrefetchOp::create(*this, memory, ValueRange{at.value}, /*isWrite=*/false, /*localityHint=*/3,
                             /*isDataCache=*/true);
}

Value Emitter::maskedLoad(Value memory, Ix at, Value mask) {
  Type element = cast<MemRefType>(memory.getType()).getElementType();
  auto type = vector(element, cast<VectorType>(mask.getType()).getNumElements());
  return vector::MaskedLoadOp::create(*this, type, memory, ValueRange{at.value}, mask, splat(type, 0.0));
}

void Emitter::maskedStore(Value value, Value memory, Ix at, Value mask) {
  vector::MaskedStoreOp::create(*this, memory, ValueRange{at.value}, mask, value);
}

Value Emitter::maskBelow(Ix count, int64_t n) {
  auto type = vector(getI1Type(), n);
  llvm::APInt known;
  if (matchPattern(count.value, m_ConstantInt(&known)))
    return vector::ConstantMaskOp::create(*this, type, ArrayRef<int64_t>{std::min(known.getSExtValue(), n)});
  return vector::CreateMaskOp::create(*this, type, ValueRange{count.value});
}

Value Emitter::view(Value memory, Ix offset, Type element, Ix count) {
  return memref::ViewOp::create(*this, memref(element), memory, offset, ValueRange{count.value});
}

//===--------------------------------------------------------------------------------------------------------------===//
// Floats
//===--------------------------------------------------------------------------------------------------------------===//

Value Emitter::add(Value a, Value b) { return arith::AddFOp::create(*this, a, b); }

Value Emitter::sub(Value a, Value b) { return arith::SubFOp::create(*this, a, b); }

Value Emitter::mul(Value a, Value b) { return arith::MulFOp::create(*this, a, b); }

Value Emitter::div(Value a, Value b) { return arith::DivFOp::create(*this, a, b); }

Value Emitter::fma(Value a, Value b, Value addend) { return math::FmaOp::create(*this, a, b, addend); }

Value Emitter::broadcast(Value scalar, int64_t n) {
  return vector::BroadcastOp::create(*this, vector(scalar.getType(), n), scalar);
}

Value Emitter::compare(arith::CmpFPredicate predicate, Value a, Value b) {
  return arith::CmpFOp::create(*this, predicate, a, b);
}

Value Emitter::choose(Value condition, Value a, Value b) { return arith::SelectOp::create(*this, condition, a, b); }

Value Emitter::larger(Value a, Value b) { return choose(compare(arith::CmpFPredicate::OGT, a, b), a, b); }

void ingot::cpu::keepLoadsApart(Emitter &e) { LLVM::FenceOp::create(e, LLVM::AtomicOrdering::acq_rel, "singlethread"); }
