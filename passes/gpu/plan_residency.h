// SPDX-License-Identifier: Apache-2.0
// How deep a loop may copy ahead before its rings push other programs off the multiprocessor. Programs that share one hide
// each other's waits (of the first copies, for barriers, of softmax between two dots), which is worth more than one slot.
#pragma once

#include "passes/gpu/plan_pipeline.h"

#include <optional>
#include <span>

namespace libtile::passes {

// Teams of warps may have roles and turns, and there are two at least: of one nobody drifts apart.
[[nodiscard]] bool hasTeams(const ir::Function &fn, const PassContext &context);

// The team of a producer for these loops. nullopt: the target has none for so many warps, or its registers would push the last
// neighbour off or leave the others too few.
[[nodiscard]] std::optional<ProducerTeam> producerTeam(const ir::Function &fn, std::span<const LoopPlan> loops,
                                                       const PassContext &context);

// Where the rings would leave one program alone and fewer slots leave two: first no dot ends one iteration later (unless a
// text pins it), then there are fewer stages (unless the user gave their number), two at least.
void keepNeighbours(const ir::Function &fn, LoopPlan &plan, const PassContext &context);

// Takes stages (of those that the user has not given, two stay) where that leaves room for what reduce_boxes would make, beside the
// last neighbour if there is one; else the plan stays.
void leaveRoomToReduce(const ir::Function &fn, Plan &plan, const Facts &facts, const PassContext &context);

// The function has room for so many bytes of shared memory in place of `before`, and does not lose its last neighbour to them.
[[nodiscard]] bool keepsNeighbour(const ir::Function &fn, int64_t before, int64_t bytes, const ir::Target &target);

} // namespace libtile::passes
