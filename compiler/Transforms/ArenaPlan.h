//===- ArenaPlan.h - Where activations lie in the arena of a step -------------------------------------------------===//
//
// A step has T tokens and R rows whose output is wanted. An activation of N features takes, for each of its rows,
// `roundUp(N, 16) * 4` bytes. One with a row per token (token space) lies at
//
//   arena + base + T * offset,
//
// one with a row per wanted row (row space: select_rows and what is computed from it) at
//
//   arena + base + T * per_token + R * offset.
//
// Because every offset in a space scales with the same factor, two activations overlap for some T (or R) exactly if
// their ranges [offset, offset + bytes) overlap: the plan is one-dimensional and holds for every size of a step.
//
// Attributes:
//   on an op with activations as results: `ingot.arena = array<i64: offset, ...>`, one for each result; the parts of a
//     split are views and have the offset of the split's input; the linear whose result @forward returns has none
//   on a function with activations as arguments (a kind): `ingot.arena_args = array<i64: offset, ...>`, one for each
//   on the module: `ingot.arena = {base, per_token, per_row}` and
//     `ingot.arena_plan = [{name, unit, bytes, offset, first_op, last_op}, ...]`
//
// The frame of a layer is used by all layers in turn. A layer's hidden state comes and goes in one buffer, at offset 0
// of token space, which is the buffer of input and result of `layers`.
//
// When memory is reused. An activation is written where another one lay only behind the last op that reads the other
// one. The one exception is exact: an elementwise op (add, mul, silu, gated_act) may write over an operand, and a
// linear over its residual, of the same size. Generated code must therefore compute each element of these ops in one
// worker only, which reads it before it writes it.
//
// All workers run the same ops and meet at barriers. A worker may still read what op i reads when another one has begun
// with op j > i, so generated code needs a barrier wherever an op writes what was read or written since the last one.
// To make these barriers rare the plan prefers memory that the barriers which are needed anyway have freed:
//   B1: between an op whose result is computed by several workers in shares that its readers do not know (linear,
//       attention, layers) and the first op that reads it;
//   B2: between an append to the cache and the first attention after it;
//   B3: before and after `layers`, and between two layers.
// A layer's hidden state alone is written to its buffer without regard to them.
//
//===--------------------------------------------------------------------------------------------------------------===//

#ifndef INGOT_COMPILER_TRANSFORMS_ARENAPLAN_H
#define INGOT_COMPILER_TRANSFORMS_ARENAPLAN_H

#include "dialects/ingot/Ingot.h"
#include "mlir/IR/BuiltinOps.h"

namespace ingot {

/// Attribute of ops and of the module; see the top of this file.
inline constexpr llvm::StringLiteral arenaAttrName = "ingot.arena";
/// Attribute of functions of a kind.
inline constexpr llvm::StringLiteral arenaArgsAttrName = "ingot.arena_args";
/// Attribute of the module: the list of buffers, for people.
inline constexpr llvm::StringLiteral arenaPlanAttrName = "ingot.arena_plan";

/// Bytes of one row of an activation.
int64_t getRowBytes(mlir::RankedTensorType type);

/// The activation whose memory `value` lies in: itself, or for a part of a split the split's input (again and again).
mlir::Value getArenaRoot(mlir::Value value);

/// Whether `value` has a row for each wanted row instead of each token.
bool isInRowSpace(mlir::Value value);

/// Whether `value` is what @forward returns, computed by a linear that nothing else reads: it goes to the caller's
/// memory (ingot_rt_step_args.logits, or only its largest elements to argmax), so that a row of the vocabulary takes no
/// arena.
bool isStepResult(mlir::Value value);

/// Plans the arena of `module` and writes the attributes. Fails, with an error,
/// where a layer's hidden state would have to be copied: the dialect has no
/// such op.
mlir::LogicalResult planArena(mlir::ModuleOp module);

/// Checks the attributes of a planned module by going through the ops as a
/// worker does, with a map of what lies where: every operand must still be
/// there when it is read, and nothing may be written over what another worker
/// may still read. Shares no code with `planArena`. Emits errors.
mlir::LogicalResult verifyArenaPlan(mlir::ModuleOp module);

} // namespace ingot

#endif // INGOT_COMPILER_TRANSFORMS_ARENAPLAN_H
