//===- Tiles.cpp - Register tiles from a machine's vector registers
//-----------------------------------------------===//

#include "compiler/Codegen/CPU/Tiles.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/TargetParser/AArch64TargetParser.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/TargetParser/X86TargetParser.h"
#include <algorithm>

using namespace ingot::cpu;

/// f32 lanes in a panel.
static constexpr int64_t panelLanes = 16;
/// Rows of a tile, at most: more would leave more rows over and save no loads that matter.
static constexpr int64_t maxRows = 16;

bool ingot::cpu::isAArch64Cpu(llvm::StringRef cpu) {
  if (cpu == "native")
    return llvm::Triple(llvm::sys::getProcessTriple()).isAArch64();
  // No name is one of both architectures but "generic", which x86-64 names are never.
  llvm::StringRef base = cpu.split('+').first;
  return llvm::AArch64::parseArch(base) || llvm::AArch64::parseCpu(base);
}

VectorUnit ingot::cpu::vectorUnitOf(llvm::StringRef cpu) {
  if (isAArch64Cpu(cpu))
    return {32, 4};
  cpu.consume_back("-bf16");
  bool wide = false, native = cpu == "native";
  if (native) {
    wide = llvm::sys::getHostCPUFeatures().lookup("avx512vl");
  } else if (llvm::X86::parseArchX86(cpu) != llvm::X86::CK_None) {
    // LLVM leaves avx512f out of its list where another feature implies it.
    llvm::SmallVector<llvm::StringRef> features;
    llvm::X86::getFeaturesForCPU(cpu, features);
    wide = llvm::is_contained(features, "avx512vl");
  }
  return wide ? VectorUnit{32, 16} : VectorUnit{16, 8};
}

/// Registers that a tile occupies: its accumulators, and on x86-64 a quarter of all for weights (of a pair of k, as
/// they are stored and widened) and broadcast inputs. AArch64 cuts a panel into so many registers that a pair's two
/// halves are counted, and its instructions take no operand from memory: an input and the mask of the halves need one
/// each. With more than one panel the inputs of all rows stay in registers until the last panel's weights are there.
static int64_t registersOf(Tile tile, VectorUnit unit) {
  int64_t perPanel = panelLanes / unit.lanes;
  int64_t others = perPanel >= 4 ? 2 * perPanel + 2 : unit.registers / 4;
  if (tile.panels > 1)
    others = std::max(others, tile.rows + perPanel);
  return tile.rows * tile.panels * perPanel + others;
}

static bool fits(Tile tile, VectorUnit unit) { return registersOf(tile, unit) <= unit.registers; }

int64_t ingot::cpu::panelsFor(int64_t rows, VectorUnit unit) {
  int64_t panels = 1;
  while (panels < 8 && fits({rows, panels * 2}, unit))
    panels *= 2;
  return panels;
}

std::vector<Tile> ingot::cpu::chooseTiles(VectorUnit unit) {
  // One panel: with two, the weights of a pair of k leave too few registers and LLVM spills. A broadcast for each row
  // is then the load that each multiply-add (AVX-512) or two of them (AVX2) can afford.
  Tile best = {1, 1};
  while (best.rows < maxRows && fits({best.rows + 1, 1}, unit))
    ++best.rows;
  std::vector<Tile> tiles = {best};
  for (int64_t rows : {4, 2, 1}) {
    if (rows < best.rows)
      tiles.push_back({rows, panelsFor(rows, unit)});
  }
  return tiles;
}
