// SPDX-License-Identifier: Apache-2.0
// Whether threads have registers for what loops load ahead, where registers hold it (PlannedLoad::byRegisters).
//
// A thread holds tiles (live_tiles.h), what is loaded ahead, and addresses and numbers beside them, which only the assembler knows.
// So tiles with what is loaded ahead may take a part of the registers that instructions name, a smaller one where a loop computes
// with the sums of its dots: exponentials and their like take more of them for a while. Where everything is loaded
// so, the rings must not take a neighbour from the program, neither by their registers nor by their bytes. What goes so because a
// target with asynchronous copies cannot copy it may: waiting for such loads in each iteration costs more than the neighbour hides.
//
// Where few warps share a multiprocessor, a loop that computes with its sums still loads ahead what its first dot alone reads, if the registers
// that instructions name hold that, too: the dot would wait for it in each iteration. What later dots read is under way meanwhile.
//
// Which parts these are was read off the lessons' kernels: docs/decisions.md, 88, 97 and 116.
#pragma once

#include "passes/gpu/plan_pipeline.h"

#include <span>

namespace libtile::passes {

// The loop loads ahead to registers, some of its tiles or all.
[[nodiscard]] bool goesByRegisters(const LoopPlan &plan);

// The loop does more with the result of a dot than to hand it on to the next.
[[nodiscard]] bool computesWithSums(const ir::Function &fn, ir::OpId loop);

// Registers of a thread for what the loops load ahead, where that is most.
[[nodiscard]] int64_t registersAhead(const ir::Function &fn, std::span<const LoopPlan> loops);

// Takes loads by registers off the plan, first of the loop that has most in its slots, until threads have registers for the others.
// Gives those loads. Loops are left that have others.
std::vector<ir::OpId> keepRegisters(const ir::Function &fn, Plan &plan, const PassContext &context);

} // namespace libtile::passes
