// SPDX-License-Identifier: Apache-2.0
// Keeps one of several equal pure ops, where the one kept is visible. Reads of memory are left
// alone.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: any stage. Ensures: no pure op without regions equals an earlier one of its block or of
// a block around it (opcode, operands up to order where the op commutes, attributes, result types).
bool eliminateCommonSubexpressions(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
