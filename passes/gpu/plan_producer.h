// SPDX-License-Identifier: Apache-2.0
// Loops whose boxes a warp of its own copies: a producer (op `producer`), which runs beside the others, the consumers.
//
//   producer                            consumers
//   for i: wait until slot i is free    for i: wait until slot i has arrived
//          copy into slot i                    read slot i, dots
//                                              arrive: slot i is free
//
// No barrier is left in the loop, so consumers drift apart, and what one of them computes hides what another one waits for. The
// producer runs as far ahead as there are slots: over the end of a loop into the next run of it, too.
//
// Loads that are read by the same ops share their counters; others have their own, so that a slot of keys is free before that of
// values has been read.
//
// The producer's code is a slice of the kernel: the loops around the copies and what bounds and coordinates are computed from. Its
// rings are filled from the kernel's start on, so they share their bytes with nothing that stands in front of the loop.
#pragma once

#include "passes/gpu/plan_pipeline.h"

#include <string>

namespace libtile::passes {

// Who reads a load's slot in an iteration.
struct SlotReaders {
  ir::OpId first, last; // in the order of the loop's body
  bool delayed = false; // one is a dot that ends one iteration later
};
// nullopt: some of them may stand elsewhere.
[[nodiscard]] std::optional<SlotReaders> slotReaders(const ir::Function &fn, const LoopPlan &plan, const PlannedLoad &load);

// Requires: the plan's loads are decided. Marks the loops that a producer copies for (LoopPlan::noProducer says why not), and
// adds what it runs.
void planProducer(const ir::Function &fn, const Facts &facts, const PassContext &context, Plan &plan);

// Rewrites the marked loops. Requires: no other loop of the plan is rewritten yet.
void applyProducer(ir::Function &fn, const Plan &plan);

} // namespace libtile::passes
