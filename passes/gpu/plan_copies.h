// SPDX-License-Identifier: Apache-2.0
// How threads copy what a load of a planned loop gives (plan_pipeline.h), and what has to run ahead of the loop for that.
#pragma once

#include "passes/gpu/plan_pipeline.h"

#include <optional>
#include <vector>

namespace libtile::passes {

// A unit reads the operand from shared memory by itself, maybe transposed.
[[nodiscard]] bool isReadInPlace(const ir::Function &fn, ir::Use use, const ir::Target &target);
// The operand of a dot that its unit reads by itself.
[[nodiscard]] bool isInShared(const ir::Function &fn, ir::Use use, const ir::Target &target);

// Vectors and slot of a load of tiles. nullopt: its unit reads it along an axis that memory has far apart. byRows: as a copy of rows
// (row_copies.h), if it can be one.
[[nodiscard]] std::optional<PlannedLoad> planCopy(const ir::Function &fn, const Facts &facts, ir::OpId load, const ir::Target &target, bool byRows);

// Adds what these values need to the plan; false if that is more than pure scalar and index code. The plan stays then.
[[nodiscard]] bool addAhead(const ir::Function &fn, LoopPlan &plan, std::vector<ir::ValueId> values);

} // namespace libtile::passes
