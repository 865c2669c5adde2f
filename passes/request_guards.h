// SPDX-License-Identifier: Apache-2.0
// Asks for the launch-time predicates that later passes profit from, by putting Guards on the
// function. Code made afterwards may rely on them; the launcher checks them and otherwise runs the
// variant that was compiled without (PassContext::relies), which this pass leaves
// alone.
//
//   Disjoint  a pointer parameter that the kernel writes through, against each other pointer
//             parameter that it accesses: loads may then move across the stores. With Reliance::Inputs not
//             of two that it only writes
//   Below     an i64 integer parameter used in address arithmetic is below 2^31: ranges of offsets
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: tile stage. Ensures: guards are only added, each once, sorted; the body is unchanged.
bool requestGuards(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
