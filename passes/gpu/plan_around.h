// SPDX-License-Identifier: Apache-2.0
// Loads around a producer's loop: tiles that the loop's dots read in each iteration, as attention's queries, and that an outer loop
// brings once for each run of it. A producer copies them, too, into rings of one slot; it does so ahead of the inner loop's.
#pragma once

#include "passes/gpu/plan_pipeline.h"

namespace libtile::passes {

// What the loop would bring: loads of its body that dots of inner loops read by themselves, and that are boxes. No loads: nothing.
// `loop` carries the plan's inner loops.
[[nodiscard]] LoopPlan planAround(const ir::Function &fn, ir::OpId loop, const Facts &facts, const PassContext &context);

} // namespace libtile::passes
