// SPDX-License-Identifier: Apache-2.0
// Stores and loads that have a layout of their own: where the one that they share would serve them badly, and what they store, or
// what is loaded, is converted in any case.
//
//   across    their addresses run along another axis than those of the loads that the values come from, as in a transpose by
//             pointers. In one layout one of the two sides would access its elements one by one; the conversion goes through
//             shared memory
//   of sums   in no loop: a dot decides how the values are held, and stores can have vectors of what a warp holds (access_layouts.h)
//
//   turning   loads of what turns in registers (operand_runs.h), if their mask also selects numbers that are computed, or atomics go
//             to the same offsets: these have the layout of a dot's sums, in which a lane has few neighbours
//
//   %p = ptradd %out, ...            %p = ptradd %out, ...    // for loads, if one has it, too
//   store %p, %v, %mask       ->     %q = ptradd %out, ...
//                                    store %q, %v, %mask2
#pragma once

#include "passes/analysis/facts.h"
#include "passes/pass.h"

namespace libtile::passes {

// The value is made of indices and constants by at most `budget` ops, which is counted down.
[[nodiscard]] bool isCheap(const ir::Function &fn, ir::ValueId value, int32_t &budget);

// The store goes across: runs of 32 bytes (what memory moves at once) and more along one axis, those of all loads that
// its value is computed from element by element along others; and its pointers and mask are cheap to compute again.
[[nodiscard]] bool goesAcross(const ir::Function &fn, const Facts &facts, ir::OpId store);

// Requires: tile stage. Ensures: pointers and masks of such accesses are theirs alone. Returns whether there are some.
bool separateAccesses(ir::Function &fn, const Facts &facts, const PassContext &context, int32_t warps);

} // namespace libtile::passes
