// SPDX-License-Identifier: Apache-2.0
// Checks a function against the invariants of its stage; verifier.cpp opens with their numbered
// list.
#pragma once

#include "ir/names.h"

#include <string>
#include <vector>

namespace libtile::ir {

struct Violation {
  int invariant; // its number in verifier.cpp
  OpId op;       // may be invalid: the function as a whole
  std::string message;
};

// All violations, in text order. `lanes`: of a warp of the target (Target::warpSize); 0: 32 or 64.
[[nodiscard]] std::vector<Violation> verify(const Function &fn, int32_t lanes = 0);
// In one line: its number, the message, the op with the types of its operands and results, and the
// place in the kernel's source, if known:
//   [16] an extent that is neither 1 nor the result's: %1 = broadcast (tile<4xi32>) ->
//   (tile<8xi32>), from add.py:5:9
[[nodiscard]] std::string describe(const Function &fn, const Violation &violation, Names &names);
// Throws InternalError with the violations and the text of the function, each shown under its op.
void verifyOrThrow(const Function &fn, const std::string &after, int32_t lanes = 0);

} // namespace libtile::ir
