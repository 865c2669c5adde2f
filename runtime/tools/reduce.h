// SPDX-License-Identifier: Apache-2.0
// Shrinks a function by itself, while something still goes wrong with it.
#pragma once

#include "ir/function.h"

#include <functional>

namespace libtile {

// Whether it still does. It may throw nothing, and may be asked thousands of times.
using StillFails = std::function<bool(const ir::Function &fn)>;

// Requires: `fn` is valid, and fails. Gives a valid function that fails and from which no single step leads to a
// smaller one that does. A step takes an op away, with all in its regions: uses of its results get an operand of
// the op that has their type, or zeros. Parameters and shapes stay, so that whoever launches the function can go on doing so.
[[nodiscard]] ir::Function reduced(ir::Function fn, const StillFails &fails);

} // namespace libtile
