// SPDX-License-Identifier: Apache-2.0
// Checks a function against the invariants of its stage; verifier.cpp opens with their numbered
// list.
#pragma once

#include "ir/function.h"

#include <string>
#include <vector>

namespace libtile::ir {

struct Violation {
  int invariant; // its number in verifier.cpp
  OpId op;       // may be invalid: the function as a whole
  std::string message;
};

// All violations, in text order. `threads` per warp is 32 or 64 for laid-out and staged functions.
[[nodiscard]] std::vector<Violation> verify(const Function &fn);
// Throws InternalError with the violations and the text of the function, each shown under its op.
void verifyOrThrow(const Function &fn, const std::string &after);

} // namespace libtile::ir
