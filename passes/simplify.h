// SPDX-License-Identifier: Apache-2.0
// Local rewrites to canonical forms, until none applies: constant folding, algebra, shape ops,
// masks that are known, control that is decided. The laws that its rules obey are in simplify.md.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: tile or nested stage. Ensures: the same results bit for bit (dot: order of sums), no op
// to which a rule applies, unless the budget of steps, a multiple of the number of ops, ran out.
bool simplify(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
