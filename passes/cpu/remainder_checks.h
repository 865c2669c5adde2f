// SPDX-License-Identifier: Apache-2.0
// Consecutive indices modulo something: `(start + arange) % n`, with which kernels keep their last
// block inside of the array. The remainder hides that the addresses are consecutive, though in every
// block but the last it changes nothing. So a nest whose lanes run along such an index is made twice
// under an `if`: without the remainder where all of start .. start + extent - 1 lie in [0, n), and as it
// is elsewhere.
#pragma once

#include "passes/cpu/nest_emitter.h"

namespace libtile::passes {

// Calls `emit` once for `position`, or twice, for places in the branches of an `if` before it.
void emitWithRemainderChecks(NestState &state, ir::OpId position, const NestWork &work,
                             unsigned laneAxis, const std::function<void(ir::OpId)> &emit);

} // namespace libtile::passes
