// SPDX-License-Identifier: Apache-2.0
// Places: accumulators of units that go on by themselves, which no load and no other op reaches.
//
//   %p = place_write %zero : place<128x256xf32, #5>
//   %q = for ..., %p {
//   ^(..., %r: place<128x256xf32, #5>):
//     %d = dot %a, %b, %r : place<128x256xf32, #5>     starts
//     dot_wait {count=1}                               the one before it has ended
//     yield %d
//   }
//   dot_wait {count=0}
//   %sum = place_read %q : tile<128x256xf32, #5>
//
// A place is written like a value that is handed on, and each is used once, so all of its names are
// one place: registers that a target names itself, or a memory of the unit. Until a dot has ended,
// its buffers and its place belong to the unit. The verifier's invariants 38 and 39 say the rest.
#pragma once

#include "ir/function.h"

namespace libtile::ir {

// The place_write that made the place; invalid if `place` is none that is handed on.
[[nodiscard]] OpId placeOf(const Function &fn, ValueId place);

} // namespace libtile::ir
