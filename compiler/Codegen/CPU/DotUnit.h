//===- DotUnit.h - Products of small integers on a CPU ------------------------------------------------------------===//
//
// Sums of four products of unsigned and signed bytes for each 32-bit lane, exact. Which instructions make them depends
// on the CPU; the sums do not.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_CODEGEN_CPU_DOTUNIT_H
#define INGOT_COMPILER_CODEGEN_CPU_DOTUNIT_H

#include "compiler/Codegen/CPU/Emitter.h"
#include "llvm/ADT/StringRef.h"

namespace ingot::cpu {

/// How a CPU multiplies bytes.
struct DotUnit {
  /// 32-bit lanes of its vectors: 8 with AVX2, 16 with AVX-512 VNNI. AArch64 takes AVX2's, cut into registers of four.
  int64_t lanes = 8;
  /// Sums of four products of bytes are added to 32-bit lanes by one instruction (vpdpbusd); else pairs of products are
  /// sums of 16 bits (vpmaddubsw), which saturate.
  bool fourInOne = false;
  /// The instructions themselves are emitted; else their definition in terms of vectors, which any machine runs, and
  /// of which AArch64's own instructions are made as LLVM finds them.
  bool native = true;
};

/// The unit of the CPU that LLVM calls `cpu`, "x86-64-v4-bf16" or "native" (this machine).
DotUnit dotUnitOf(llvm::StringRef cpu);

/// Emits sums of products of bytes. Weights are vectors of 4 * unit.lanes bytes, as are inputs; sums are 32-bit.
class DotEmitter {
public:
  DotEmitter(Emitter &e, DotUnit unit) : e(e), unit(unit) {}

  mlir::VectorType bytes() { return e.vector(e.getI8Type(), 4 * unit.lanes); }
  mlir::VectorType words() { return e.vector(e.getI16Type(), 2 * unit.lanes); }
  mlir::VectorType ints() { return e.vector(e.getI32Type(), unit.lanes); }

  /// Sums under construction: of one register tile's row, over the groups of K of a block.
  struct Sum {
    /// 32-bit sums, and pairs of 16 bits not yet added to them (null: none) with the number of products in each pair.
    mlir::Value ints, words;
    int64_t pending = 0;
  };

  /// Adds unsigned codes, at most `largest` < 128, times inputs in [-127, 127].
  ///
  /// Pairs: |a b + c d| <= 2 * 127 * largest; as many of them are added in 16 bits as stay below 2^15: 8 of 4-bit codes
  /// (8 * 3810 = 30480), 4 of 5-bit codes (31496), 2 of 6-bit codes (32004).
  void add(Sum &sum, mlir::Value codes, mlir::Value inputs, int64_t largest);

  /// The same with signed codes in [-128, 127]. Four in one: the codes are given plus 128 (`biased`), and 128 times the
  /// sum of the inputs has to be taken off in the end. Pairs: |code| * (input with the code's sign), |pair| <= 2 * 128
  /// * 127 = 32512, so that nothing saturates.
  void addSigned(Sum &sum, mlir::Value codes, mlir::Value inputs);

  /// What addSigned adds to a code's value with fourInOne.
  static constexpr int64_t signedBias = 128;

  /// Adds products of words, whose pairs are added in 32 bits: codes in [-128, 127] times inputs in [-32767, 32767], of
  /// which 256 stay below 2^31.
  void addWords(Sum &sum, mlir::Value codes, mlir::Value inputs);

  /// The 32-bit sums.
  mlir::Value finish(Sum &sum);

private:
  mlir::Value intrinsic(llvm::StringRef name, mlir::Type type, mlir::ValueRange operands);
  mlir::Value constant(mlir::VectorType type, int64_t value) { return e.splatInt(type, value); }
  /// The sums of neighbours: n lanes to n / 2.
  mlir::Value addNeighbours(mlir::Value value);
  mlir::Value multiplyPairs(mlir::Value codes, mlir::Value inputs);
  mlir::Value widenPairs(mlir::Value words);
  void flush(Sum &sum);

  Emitter &e;
  DotUnit unit;
};

} // namespace ingot::cpu

#endif // INGOT_COMPILER_CODEGEN_CPU_DOTUNIT_H
