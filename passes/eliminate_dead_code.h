// SPDX-License-Identifier: Apache-2.0
// Removes what nobody needs: ops without uses or effects, results of if, and values that a loop
// carries only around itself.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: any stage. Ensures: every op has an effect, or a result that such an op needs.
bool eliminateDeadCode(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
