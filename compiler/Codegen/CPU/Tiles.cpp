//===- Tiles.cpp - Register tiles from a machine's vector registers
//-----------------------------------------------===//

#include "compiler/Codegen/CPU/Tiles.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/TargetParser/X86TargetParser.h"

using namespace ingot::cpu;

/// f32 lanes in a panel.
static constexpr int64_t panelLanes = 16;

VectorUnit ingot::cpu::vectorUnitOf(llvm::StringRef cpu) {
  cpu.consume_back("-bf16");
  llvm::SmallVector<llvm::StringRef> features;
  if (llvm::X86::parseArchX86(cpu) != llvm::X86::CK_None)
    llvm::X86::getFeaturesForCPU(cpu, features);
  return llvm::is_contained(features, "avx512f") ? VectorUnit{32, 16} : VectorUnit{16, 8};
}

/// Registers that a tile occupies: its accumulators, one panel's weights of a
/// pair of k, the raw pair and a broadcast.
static int64_t registersOf(Tile tile, VectorUnit unit) {
  int64_t perPanel = panelLanes / unit.lanes;
  return tile.rows * tile.panels * perPanel + 2 * perPanel;
}

std::vector<Tile> ingot::cpu::chooseTiles(VectorUnit unit) {
  auto fits = [&](Tile tile) { return registersOf(tile, unit) <= unit.registers; };
  Tile best = {1, 1};
  double bestRatio = 0;
  for (int64_t panels : {1, 2})
    for (int64_t rows = 2; fits({rows, panels}); rows += 2) {
      // Loads for a step of K: one of each panel's registers, one broadcast for
      // each row.
      double products = rows * panels * (panelLanes / unit.lanes);
      double ratio = products / (rows + panels * (panelLanes / unit.lanes));
      if (products >= 8 && ratio > bestRatio) {
        best = {rows, panels};
        bestRatio = ratio;
      }
    }
  std::vector<Tile> tiles = {best};
  for (int64_t rows : {4, 2, 1}) {
    if (rows >= best.rows)
      continue;
    Tile tile = {rows, 1};
    while (tile.panels < 8 && fits({rows, tile.panels * 2}))
      tile.panels *= 2;
    tiles.push_back(tile);
  }
  return tiles;
}
