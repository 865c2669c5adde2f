// SPDX-License-Identifier: Apache-2.0
// How many operands and results an op may have, by its row: asked by parser and verifier.
#pragma once

#include "ir/opcode.h"

namespace libtile::ir {

[[nodiscard]] bool operandCountFits(const OpInfo &row, size_t count);
[[nodiscard]] bool resultCountFits(const OpInfo &row, size_t count);

} // namespace libtile::ir
