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
// other share blocks. Where their loops are of unequal length the device's own order serves better, and they do not either.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: laid-out, the loops as the user wrote them.
[[nodiscard]] bool mayShareBlocks(const ir::Function &fn, const PassContext &context);
// The kernel's body becomes a loop's; gives the loop.
ir::OpId loopOverPrograms(ir::Function &fn);
// Takes it back, but for what the bounds are made of. Requires: nothing was changed since.
void leaveLoopOverPrograms(ir::Function &fn, ir::OpId loop);

} // namespace libtile::passes
