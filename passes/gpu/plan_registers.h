// SPDX-License-Identifier: Apache-2.0
// Whether threads have registers for what loops load ahead, where registers hold it (LoopPlan::byRegisters).
//
// A thread holds tiles (live_tiles.h), what is loaded ahead, and addresses and numbers beside them, which only the assembler knows.
// So tiles with what is loaded ahead may take a part of the registers that instructions name, a smaller one where a loop computes
// with the sums of its dots: exponentials and their like take more of them for a while. And the rings must not take a neighbour from
// the program, neither by their registers nor by their bytes.
//
// Which parts these are was read off the lessons' kernels: docs/decisions.md, 88.
#pragma once

#include "passes/gpu/plan_pipeline.h"

namespace libtile::passes {

// Takes loops off the plan, those that load most first, until threads have registers for the others.
void keepRegisters(const ir::Function &fn, Plan &plan, const PassContext &context);

} // namespace libtile::passes
