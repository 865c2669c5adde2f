// SPDX-License-Identifier: Apache-2.0
// Which dots of a planned loop end one iteration later (plan_pipeline.h).
#pragma once

#include "passes/gpu/plan_pipeline.h"

namespace libtile::passes {

// All dots that go on by themselves, or none. Requires: the plan's loads are decided.
void planUnderWay(const ir::Function &fn, LoopPlan &plan, const ir::Target &target);
// None do. UserError: a text pins one.
void endAtOnce(const ir::Function &fn, LoopPlan &plan);

} // namespace libtile::passes
