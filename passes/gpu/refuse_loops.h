// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "passes/analysis/facts.h"

namespace libtile::passes {

// How many iterations ahead anything may be copied, at most.
constexpr int32_t kMostStages = 256;

// Why nothing of the `for` may be copied ahead, in words. nullptr: it may.
[[nodiscard]] const char *loopRefusal(const ir::Function &fn, const Facts &facts, ir::OpId loop);
// Why this load of the loop's body may not. nullptr: it may.
[[nodiscard]] const char *loadRefusal(const ir::Function &fn, const Facts &facts, ir::OpId load);

} // namespace libtile::passes
