// SPDX-License-Identifier: Apache-2.0
// Programs in turn: a launch has as many blocks as the device runs at once, and each runs one program after the other.
//
//   f(program_id)        ->    for number = worker; number < programs; number += num_workers:
//                                f(program_id number)
//
// By itself that saves the start of a block. With a producer (plan_producer.h) it hides both ends of a program: what the next one
// reads is copied while the last one is still computing and storing, and teams of warps that meet at no barrier start it one by one.
//
// A program that waits for another one must not hold the block that this one needs: only programs that know nothing of each
// other share blocks. Nor do those that read from memory how long their loops are: the device's own order serves them better.
//
// Where lengths follow from a program's number, as in causal attention, where they grow along a head's blocks of queries, blocks change
// places from turn to turn: each would otherwise get the same few lengths again and again, if the number of blocks has a factor
// in common with that of a head's programs. What runs at one time is the same.
//
//   turn 0: 0 1 2 3        turn 1: 5 6 7 4        turn 2: 10 11 8 9
#pragma once

#include "passes/pass.h"

#include <vector>

namespace libtile::passes {

// Requires: laid-out, the loops as the user wrote them.
[[nodiscard]] bool mayShareBlocks(const ir::Function &fn, const PassContext &context);
// The kernel's body becomes a loop's. Requires: mayShareBlocks.
struct ProgramLoop {
  ir::OpId loop;
  std::vector<ir::OpId> counting = {}; // ops of its body, in order, that the kernel did not have
};
ProgramLoop loopOverPrograms(ir::Function &fn, const PassContext &context);
// Takes it back, but for what the bounds are made of. Requires: nothing was changed since.
void leaveLoopOverPrograms(ir::Function &fn, const ProgramLoop &programs);

} // namespace libtile::passes
