// SPDX-License-Identifier: Apache-2.0
// Elementary functions that the target has no instruction for become code.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: the tile or nested stage. Ensures: every FUNCTION of ops.def is one that the target has
// for its operands (Target::functions). The others are replaced by their bodies of
// PassContext::library, scalar code that becomes tiles where the op is one; ops keep the location of
// the function that they come from. f16 and bf16 go through f32 and are rounded once, but for what
// staysNarrow says. Exponentials of operands that are at most 0 have a shorter body where scaling by a power of two is
// code, too. Throws Unsupported at the op where the library has no body either.
//
// Leaves repeated constants to eliminate_common_subexpressions.
bool expandFunctions(ir::Function &fn, const PassContext &context);

// Casts between 8-bit floats and bf16 have bodies that compute in 16 bits, for targets whose vectors then have
// twice as many lanes.
[[nodiscard]] bool staysNarrow(const ir::Function &fn, ir::OpId op, const ir::Target &target);

} // namespace libtile::passes
