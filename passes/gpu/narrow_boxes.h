// SPDX-License-Identifier: Apache-2.0
// Whether a loop waits for the machine that copies its boxes. That takes as long for a short row of a box as for one of 128 bytes;
// threads copy as many bytes a cycle, however rows lie (measured: docs/decisions.md). A loop that computes with what it multiplies
// has time for both, and in a multiprocessor's only program threads are the ones that start its dots.
#pragma once

#include "passes/gpu/plan_pipeline.h"

namespace libtile::passes {

// All that the loop copies are boxes, of rows that threads would copy faster, and nobody asked for such. Requires: dots are planned.
[[nodiscard]] bool areNarrow(const ir::Function &fn, const LoopPlan &plan, const PassContext &context);

// The loop has so many loads, and threads copy each asynchronously.
[[nodiscard]] bool areCopied(const LoopPlan &plan, size_t loads);

} // namespace libtile::passes
