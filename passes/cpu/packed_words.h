// SPDX-License-Identifier: Apache-2.0
// What the packed copies of a dot's operands are made of: numbers in the unit's type, and groups of them as words.
#pragma once

#include "ir/builder.h"

#include <span>

namespace libtile::passes {

// `value` as `elem`, exactly: to a wider number of the same sort.
[[nodiscard]] ir::ValueId widen(ir::Builder &builder, ir::ValueId value, ir::Elem elem);
// A group of numbers as one word, the first in its low bits.
[[nodiscard]] ir::ValueId groupWord(ir::Builder &builder, std::span<const ir::ValueId> group);

} // namespace libtile::passes
