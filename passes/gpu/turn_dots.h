// SPDX-License-Identifier: Apache-2.0
// turn_dots: which dots of a loop are computed transposed, with what is made of their sums element by element.
//
//   %s = dot %q, %kt, %zero                 %t = dot %k, %qt, %zero'
//   %p = exp2 (%s - broadcast %rows)   ->   %u = exp2 (%t - broadcast %columns)
//   %d = dot (trans %p), %o, %acc           %d = dot %u, %o, %acc
//
// Units that read their operands by themselves (wgmma) take a left operand from registers where these hold sums of another
// dot as they are. Transposed, threads write it into shared memory and meet before the unit reads it. In attention backward
// that is two of the three operands that are made of sums; with the scores transposed it is one.
//
// A chain is what ops tie element by element in a loop's body, with the sums of dots among it. What comes from outside is
// made anew where it is numbers along an axis, else transposed; what goes outside is transposed back.
// Units of operands that have no 16 bits read them along k alone, but for one in registers, which threads read as it lies. So
// (a b)^T = b^T a^T has such a unit where a row of b lies side by side: sums that the loop carries for dots alone are turned,
// and transposed back behind it, if each of these dots has a unit that reads by itself then, and none did before.
//
// A chain with rows that are reduced stays: sums lie so that a row is within one warp. So does one that has, or feeds, a dot
// whose unit or grid is pinned.
#pragma once

#include "passes/pass.h"

#include <vector>

namespace libtile::passes {

// Requires, ensures: tile stage, before plan_dots, which is asked what it would make of either form: a chain is turned if the
// unit of each dot in the loop reads by itself in both, and threads then transpose, or write for units, fewer tiles. Or as
// above.
bool turnDots(ir::Function &fn, const PassContext &context);

// The chains of a block, each with its dots and elementwise ops in order.
[[nodiscard]] std::vector<std::vector<ir::OpId>> dotChains(const ir::Function &fn, ir::BlockId block);
// Puts the chain's transpose in its place.
void turnChain(ir::Function &fn, const std::vector<ir::OpId> &chain);

} // namespace libtile::passes
