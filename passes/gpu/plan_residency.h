// SPDX-License-Identifier: Apache-2.0
// How deep a loop may copy ahead before its rings push other programs off the multiprocessor. Programs that share one hide
// each other's waits (of the first copies, for barriers, of softmax between two dots), which is worth more than one slot.
#pragma once

#include "passes/gpu/plan_pipeline.h"

namespace libtile::passes {

// Where the rings would leave one program alone and fewer slots leave two: first no dot ends one iteration later (unless a
// text pins it), then there are fewer stages (unless the user gave their number), two at least.
void keepNeighbours(const ir::Function &fn, LoopPlan &plan, const PassContext &context);

} // namespace libtile::passes
