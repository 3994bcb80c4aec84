//===- Tiles.h - Register tiles from a machine's vector registers
//-------------------------------------------------===//
//
// How many rows and panels of 16 features a product keeps in registers at once.
// It never changes a result: every lane sums over K by itself, so that tiles
// are free to differ between machines, and between one row and many.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_CODEGEN_CPU_TILES_H
#define INGOT_COMPILER_CODEGEN_CPU_TILES_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <vector>

namespace ingot::cpu {

/// The vector registers of a CPU: how many, and f32 lanes in each.
struct VectorUnit {
  int64_t registers, lanes;
};

/// Whether the CPU that --target-cpu calls `cpu` is an AArch64 one ("native": this machine's).
bool isAArch64Cpu(llvm::StringRef cpu);

/// The vector registers of the CPU that --target-cpu calls `cpu`: 32 of 16 lanes with AVX-512, 16 of 8 on other x86-64,
/// 32 of 4 on AArch64 (Advanced SIMD, also where there is SVE).
VectorUnit vectorUnitOf(llvm::StringRef cpu);

/// A register tile of accumulators.
struct Tile {
  int64_t rows, panels;
};

/// The tiles for products, by descending rows; the last has one row. A count of rows is cut greedily into them.
/// Many rows are bound by arithmetic: the first tile has as many rows of one panel as registers hold, so that one read
/// of weights serves many multiply-adds. Few rows are bound by the reads of weights: they walk several panels at once,
/// which are as many streams for the memory and enough sums in flight.
std::vector<Tile> chooseTiles(VectorUnit unit);

/// The most panels, a power of two and at most 8, that registers hold with `rows` rows.
int64_t panelsFor(int64_t rows, VectorUnit unit);

} // namespace ingot::cpu

#endif // INGOT_COMPILER_CODEGEN_CPU_TILES_H
