//===- DotUnit.cpp - Products of small integers on a CPU ----------------------------------------------------------===//
//
// See DotUnit.h. Every instruction has a definition in the vector dialect here, with which the kernels of any CPU can
// be run on any other.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "compiler/Codegen/CPU/DotUnit.h"
#include "compiler/Codegen/CPU/Tiles.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/X86TargetParser.h"

using namespace mlir;
using namespace ingot::cpu;

DotUnit ingot::cpu::dotUnitOf(llvm::StringRef cpu) {
  if (isAArch64Cpu(cpu))
    return {8, false, false};
  bool vnni = cpu == "x86-64-v4-bf16";
  if (cpu == "native") {
    vnni = llvm::sys::getHostCPUFeatures().lookup("avx512vnni");
  } else if (!vnni && llvm::X86::parseArchX86(cpu) != llvm::X86::CK_None) {
    llvm::SmallVector<llvm::StringRef> features;
    llvm::X86::getFeaturesForCPU(cpu, features);
    vnni = llvm::is_contained(features, "avx512vnni");
  }
  return vnni ? DotUnit{16, true, true} : DotUnit{8, false, true};
}

Value DotEmitter::intrinsic(StringRef name, Type type, ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(e, type, e.getStringAttr(name), operands).getResult(0);
}

Value DotEmitter::addNeighbours(Value value) {
  int64_t n = cast<VectorType>(value.getType()).getNumElements();
  SmallVector<int64_t> even, odd;
  for (int64_t i = 0; i < n; i += 2) {
    even.push_back(i);
    odd.push_back(i + 1);
  }
  Value a = vector::ShuffleOp::create(e, value, value, even), b = vector::ShuffleOp::create(e, value, value, odd);
  return arith::AddIOp::create(e, a, b);
}

/// vpmaddubsw: products of unsigned and signed bytes, neighbours added in 16 bits. Callers keep the sums in range.
Value DotEmitter::multiplyPairs(Value codes, Value inputs) {
  if (unit.native)
    return intrinsic("llvm.x86.avx2.pmadd.ub.sw", words(), {codes, inputs});
  VectorType wide = e.vector(e.getI16Type(), 4 * unit.lanes);
  Value product =
      arith::MulIOp::create(e, arith::ExtUIOp::create(e, wide, codes), arith::ExtSIOp::create(e, wide, inputs));
  return addNeighbours(product);
}

/// vpmaddwd with ones: neighbours of 16 bits added in 32.
Value DotEmitter::widenPairs(Value pairs) {
  if (unit.native)
    return intrinsic("llvm.x86.avx2.pmadd.wd", ints(), {pairs, constant(words(), 1)});
  return addNeighbours(arith::ExtSIOp::create(e, e.vector(e.getI32Type(), 2 * unit.lanes), pairs));
}

void DotEmitter::flush(Sum &sum) {
  if (sum.words)
    sum.ints = arith::AddIOp::create(e, sum.ints, widenPairs(sum.words));
  sum.words = Value();
  sum.pending = 0;
}

void DotEmitter::add(Sum &sum, Value codes, Value inputs, int64_t largest) {
  if (unit.fourInOne) {
    if (unit.native) {
      // The instruction takes its bytes as vectors of 32-bit lanes.
      sum.ints = intrinsic("llvm.x86.avx512.vpdpbusd.512", ints(), {sum.ints, codes, inputs});
      return;
    }
    VectorType wide = e.vector(e.getI32Type(), 4 * unit.lanes);
    Value product =
        arith::MulIOp::create(e, arith::ExtUIOp::create(e, wide, codes), arith::ExtSIOp::create(e, wide, inputs));
    sum.ints = arith::AddIOp::create(e, sum.ints, addNeighbours(addNeighbours(product)));
    return;
  }
  int64_t room = 32767 / (2 * 127 * largest);
  assert(room >= 1 && "a pair of products fits 16 bits");
  Value pairs = multiplyPairs(codes, inputs);
  sum.words = sum.words ? arith::AddIOp::create(e, sum.words, pairs).getResult() : pairs;
  if (++sum.pending == room)
    flush(sum);
}

void DotEmitter::addSigned(Sum &sum, Value codes, Value inputs) {
  if (unit.fourInOne) {
    add(sum, arith::XOrIOp::create(e, codes, constant(bytes(), -128)), inputs, 255);
    return;
  }
  Value zero = constant(bytes(), 0), magnitude, turned;
  Value negative = arith::CmpIOp::create(e, arith::CmpIPredicate::slt, codes, zero);
  magnitude = arith::SelectOp::create(e, negative, arith::SubIOp::create(e, zero, codes), codes);
  if (unit.native)
    turned = intrinsic("llvm.x86.avx2.psign.b", bytes(), {inputs, codes});
  else
    turned = arith::SelectOp::create(e, negative, arith::SubIOp::create(e, zero, inputs), inputs);
  sum.ints = arith::AddIOp::create(e, sum.ints, widenPairs(multiplyPairs(magnitude, turned)));
}

void DotEmitter::addWords(Sum &sum, Value codes, Value inputs) {
  if (unit.native && unit.fourInOne) {
    sum.ints = intrinsic("llvm.x86.avx512.vpdpwssd.512", ints(), {sum.ints, codes, inputs});
    return;
  }
  Value pairs;
  if (unit.native) {
    pairs = intrinsic("llvm.x86.avx2.pmadd.wd", ints(), {codes, inputs});
  } else {
    VectorType wide = e.vector(e.getI32Type(), 2 * unit.lanes);
    pairs = addNeighbours(
        arith::MulIOp::create(e, arith::ExtSIOp::create(e, wide, codes), arith::ExtSIOp::create(e, wide, inputs)));
  }
  sum.ints = arith::AddIOp::create(e, sum.ints, pairs);
}

Value DotEmitter::finish(Sum &sum) {
  flush(sum);
  return sum.ints;
}
