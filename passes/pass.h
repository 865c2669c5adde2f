// SPDX-License-Identifier: Apache-2.0
// What a pass is: a free function over a Function, declared in a header of its own that states its
// contract (requires / ensures / stage). The table in pipeline.cpp is the only place that calls
// one.
#pragma once

#include "ir/function_library.h"
#include "ir/target.h"

namespace libtile::passes {

struct PassContext {
  const ir::Target &target;
  // The user's overrides; 0: the compiler decides.
  int32_t numWarps = 0;
  int32_t numStages = 0;
  // Passes may ask for launch-time predicates (request_guards.h). The runtime compiles with it
  // first, and once more without it when a launch fails a guard of Function::guards: the general
  // variant.
  bool allowGuards = true;
  // Bodies of functions that the target has no instruction for; null: there are none.
  ir::FunctionLibrary *library = nullptr;
  // CPU: code is to compare its accesses with the extents of the arrays (cpu/mark_accesses.h).
  bool checksAccesses = false;
  // GPU: loops copy ahead by boxes where they can (gpu/plan_boxes.h).
  bool copiesBoxes = false;
};

// Returns whether it changed anything.
using PassFn = bool (*)(ir::Function &, const PassContext &);

} // namespace libtile::passes
