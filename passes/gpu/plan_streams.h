// SPDX-License-Identifier: Apache-2.0
// Loops without dots whose stages the user gives (`tl.range(.., num_stages=3)`), as a softmax that few programs go over many rows for:
// they wait for a row, compute, and memory has nothing to do meanwhile. Their tiles run ahead as operands of dots do
// (plan_pipeline.h), by copies into slots that each thread reads as it has written them: no barrier is needed for that. Numbers run
// ahead in registers.
//
//   copy 0, copy 1, load the numbers of 0 and 1        %row = load ..     ; a tile
//   for i:  copy i+2, load a number of i+2             %mean = load ..    ; a number, which the loop carries
//           read slot i, compute
//
// Without the user's word such loops are left alone: with as many programs as rows a loop over rows has one iteration, and neighbours have
// more use for the shared memory of a ring.
#pragma once

#include "passes/gpu/plan_pipeline.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace libtile::passes {

// The user gives stages, and the loop has no dots.
[[nodiscard]] bool isStream(const ir::Function &fn, ir::OpId loop);

// Of a stream. Loads that have to stay at their place are added to `refusals` with the reason, in words. nullopt: all of them have to, or
// the target has no asynchronous copies, for which the hint is.
[[nodiscard]] std::optional<LoopPlan> planStream(const ir::Function &fn, const Facts &facts, ir::OpId loop, const PassContext &context,
                                                 std::vector<std::pair<ir::OpId, std::string>> &refusals);

} // namespace libtile::passes
