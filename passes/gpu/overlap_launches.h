// SPDX-License-Identifier: Apache-2.0
// Launches that start before the one that they follow has ended (Target::gridDependencies).
//
// A launch with the attribute starts when all programs of the one before have ended or executed launch_dependents. Its programs
// may then compute indices and make barriers ready, but wait in front of the first access to memory: what they read may not be
// written yet, and what they write may still be read.
//
//   index arithmetic            index arithmetic
//   x = load                    launch_dependents
//   store              ->       grid_wait
//                               x = load
//                               store
//
// A program that never waited would be in no order to the launch before, and neither would the launches behind it, which wait for
// this one alone: so each thread waits, also of a kernel without accesses. Where the next launch may start costs nothing: no program
// of this one has yet to start then, and the next one's wait for its end.
//
// Who waits by himself (tl.extra.cuda.gdc_wait) says which accesses need it, and whether the next launch may start early. Only he
// may let it start and not wait: the wait is placed then.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: staged. Ensures, where overlapsLaunches is set and the target has such launches: the function waits, in its body, where
// all threads are one behind the other, in front of a producer, too.
bool overlapLaunches(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
