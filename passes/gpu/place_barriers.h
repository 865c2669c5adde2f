// SPDX-License-Identifier: Apache-2.0
// Puts a barrier wherever threads of the program must see each other's work.
//
// One walk in program order keeps the accesses since the last barrier; an op that conflicts with
// one of them gets a barrier in front. Loops are walked until what flows back over their end adds
// no barrier; the branches of an `if` start from the same state, and both flow out.
//
//   Shared memory  bytes, not buffers, conflict: two buffers may share them. An asynchronous copy is
//                  a write when it is waited for, to the readers; when it starts, it must not
//                  overtake readers of its bytes. A thread needs no barrier for what only it has copied, written and read. A box is seen by each thread that has waited for it. A dot into a
//                  place reads until it is waited for: a wait ends all but the last ones, in the order in which they have
//                  started. So does a reduction of a box, for which one thread waits. What a producer copies is its plan's
//                  care: its boxes wait for the readers' arrivals.
//   Global memory  all elements of an access happen before any of a later conflicting one
//                  (docs/semantics.md). No barrier where the addresses are proved apart, or where each thread only meets
//                  its own elements again: the same addresses element by element under one layout
//                  without replicas, nor between programs of one block. A release orders everything before it, an acquire everything
//                  after.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: laid-out, shared memory allocated. Ensures: staged.
bool placeBarriers(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
