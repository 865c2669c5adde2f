// SPDX-License-Identifier: Apache-2.0
// Loops that run inside the nests that use what they carry. A `for` whose carried tiles are updated
// element by element is, for one element, a loop over scalars: so the nest of whoever uses its results
// goes over the elements, the loop runs inside, and what it carries is in registers.
//
//   %t = for lo, hi, step, %t0 {                     fold {extent=N} {
//   ^(%iv, %a: tile<N>):                             ^(%i):
//     %x = load f(%iv)                                 %t = for lo, hi, step, 0.0 {
//     %b = add %a, %x                    ->            ^(%iv, %a: f32):
//     yield %b                                           %x = load f(%iv)[%i]
//   }                                                    yield (add %a, %x)
//   %s = reduce %t                                     }
//                                                      yield %t } ...
//
// Such a loop is then one more op that is computed where it is needed (nest_state.h): its results are
// inline, or stored by one nest if several nests need them. Each element sees the loop's operations in
// the loop's order. The additions of a reduction around it are the only ones that change places.
#pragma once

#include "passes/cpu/nest_state.h"

namespace libtile::passes {

// Marks the loops that are to be sunk (plan.sunk): the tiles that they carry have one shape, each new
// element depends on the same elements of the carried tiles only, and the body consists of ops that are
// computed element by element, loads that are not volatile, and scalar ops without effect. A remainder
// in an address keeps its loop where it is: its check (remainder_checks.h) is made once an iteration. A pin leaves one out.
//
// Requires: the tile stage.
void planSunkLoops(const ir::Function &fn, CpuPlan &plan);

// One value that a `for` carries.
struct Slot {
  ir::ValueId init, arg, next, result;
};
[[nodiscard]] Slot slotOf(const ir::Function &fn, ir::OpId loop, unsigned index);

// The slot of a sunk loop to which the value belongs as result or as argument of the body.
[[nodiscard]] std::optional<Slot> sunkSlot(const NestView &nests, ir::ValueId value);
// The sunk loop that `op` is or in whose body it stands; invalid if there is none.
[[nodiscard]] ir::OpId sunkLoopAround(const NestView &nests, ir::OpId op);
// The tiles among its results that something uses.
[[nodiscard]] std::vector<ir::ValueId> usedTiles(const ir::Function &fn, ir::OpId loop);

} // namespace libtile::passes
