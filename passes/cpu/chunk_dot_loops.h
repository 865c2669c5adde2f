// SPDX-License-Identifier: Apache-2.0
// The sunk k loop: a `for` that only loads, converts and accumulates dots is run in chunks. The
// iterations of a chunk pack their operands side by side into wide scratch, and one contract takes
// the whole chunk, so accumulators stay in registers over all of its iterations.
//
//   for iv = lo, hi, step, (s, acc) {            for c = 0, trips, C, (s) {
//     a = load f(iv, s)                            for iv = chunk's lo, chunk's hi, step, (s, column) {
//     b = load g(iv, s)                              nests: wideA[:, column + k] = f; wideB = g
//     yield s', dot(a, b, acc)            ->         yield s', column + depth
//   }                                              }
//                                                  contract wideA, wideB, acc, column
//                                                }
//
// The depth of an iteration is that of its tiles. Where masks of both operands compare the index along it with a number, both are
// 0 from there on, and it ends there, in whole steps of the unit: the contract has nothing to do with what was masked off.
// (An operand alone is not enough: 0 meets a NaN.)
//
// Rows of a that lie in memory as the unit takes them are not packed (rows_in_place.h), up to the first iteration of a chunk in which
// something is masked off: the inner loop carries `direct` as well, the columns up to there, and whether it
// is still in front of it.
//
// Packed chunks of b may stay for the next program (kept_panels.h), and so does what is known of them and of a (kept_findings.h).
//
// Sums that begin with zeros are not written in front of the loop: the first contract with a depth overwrites them (`empty`), and where there
// was none they are filled behind the loop.
//
// Any number of dots and of carried scalars; the body may have no effect, no region op and no other
// carried tile, and nothing may read an accumulator but its dot. The step is a positive constant.
#pragma once

#include "passes/cpu/carried_tiles.h"
#include "passes/cpu/lower_dot.h"

namespace libtile::passes {

struct ChunkedDot {
  ir::OpId dot;
  ContractShape shape;
  PackedOperands packed;
  ir::ValueId column; // i32 in the inner body: where this iteration packs
  ir::ValueId inPlace; // i1 there: whether its rows of a, and all before, are read in place; invalid: never
  ir::ValueId isKept; // i1 in front of it: whether the chunk's panel of b lies packed already; invalid: never
  Findings findings;
};
using ChunkedLoop = std::vector<ChunkedDot>;

// Rewrites the loop as planned; the caller then lowers the body of `loop`, now the inner one, where each dot
// only packs its operands.
[[nodiscard]] ChunkedLoop chunkDotLoop(NestState &state, ir::OpId loop, const PlannedChunks &planned);

} // namespace libtile::passes
