// SPDX-License-Identifier: Apache-2.0
// Arithmetic at compile time, exactly as ops.def defines it: integers wrap at their width, floats
// are rounded once, to nearest even, in their own format.
#pragma once

#include "ir/function.h"

#include <optional>

namespace libtile::passes {

// The number that the elementwise op gives, if all operands are constants (or what is known of them
// suffices). Not folded: exp, log and the like, whose last bit is the target's.
[[nodiscard]] std::optional<ir::AttrValue> foldConstants(const ir::Function &fn, ir::OpId op);

} // namespace libtile::passes
