// SPDX-License-Identifier: Apache-2.0
// Dots of a loop's iteration start as soon as what they read is there, and are waited for where somebody looks at their sums.
//
//   s = dot(k, q)                          start s, start dp
//   p = exp2(s)                            wait for s;   p = exp2(s)
//   dv = dot(p, do, dv)                    start dv
//   dp = dot(v, do)                   ->   wait for dp;  ds = p * dp
//   ds = p * dp;  write ds                 write ds
//   dk = dot(ds, q, dk)                    start dq, start dk
//   dq = dot(trans ds, k);  add dq         wait for dq;  add dq
//                                          wait for all
//
// The unit then works while threads do. Three steps, on the list of a body's ops:
//   - a dot that needs nothing of the threads' work between it and an earlier dot starts right behind that one
//   - a dot whose sums the loop only hands on starts behind the next one, if that stands close by: its sums are not waited for
//   - each dot ends in front of the first op that looks at its sums, or writes what it reads; an `arrive` of a slot that it
//     reads goes behind that. All end within the iteration.
// Sums that the loop carries from a dot to the same dot are one place all along (carry_place.h).
// A loop in which nothing would stand between a dot's start and its end stays as it is. So does one in which a dot adds to sums
// that threads make in the iteration: the machine's assembler lets no dot be under way while they are written. `behind` 0 of a
// dot forbids it.
//
// It takes registers for sums that are under way at once, and shared memory for what is read longer, which have to be there.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Loops with two dots or more that read slots by themselves. Requires, ensures: laid-out, conversions lowered.
bool overlapDots(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
