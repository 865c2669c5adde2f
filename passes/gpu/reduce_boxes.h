// SPDX-License-Identifier: Apache-2.0
// Sums of dots that a loop adds to memory, as boxes that the machine adds by itself.
//
//                                              %b = alloc
//   for:                                       for:
//     ...                                        store_wait %b               the box of the iteration before has been read
//     buffer_write %ds, ...                      buffer_write %ds, ...
//     %q = dot trans %ds, %k                ->   %q = dot trans %ds, %k
//     atomic_rmw %p, %q {kind=fadd}              buffer_write %b, %q
//                                                store_box %b, coordinates {map}
//                                              store_wait %b
//
// Threads then do not wait for their additions: they run under the next iteration's dots. The warps meet between the write and
// the reduction; that barrier also stands in front of the next iteration's write of what the dot reads, and the wait stands in
// front of the barrier that this dot needs in any case.
//
// Only additions of f32, relaxed and for the gpu, whose old values nobody asks for: what the machine adds has that order and
// rounding. A row's bound is a multiple of 16 bytes: the machine leaves out whole units. Nothing else of the kernel touches the array,
// nor acquires or releases, since what order reductions have with accesses of threads is not proved. Where there is no room for the
// buffer, or it would push the last other program off the multiprocessor, atomics stay.
#pragma once

#include "passes/analysis/facts.h"
#include "passes/pass.h"

namespace libtile::passes {

// Bytes of the buffers that this would take, of a function whose loops are yet to be planned: a plan leaves room for them.
[[nodiscard]] int64_t bytesToReduce(const ir::Function &fn, const Facts &facts, const PassContext &context);

// Requires, ensures: laid-out, conversions lowered, dots as they run.
bool reduceBoxes(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
