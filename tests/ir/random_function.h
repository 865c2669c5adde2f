// SPDX-License-Identifier: Apache-2.0
// Valid functions of the tile stage, made at random: scalars and tiles of all kinds, loops,
// branches, reductions, memory accesses, locations with callers.
#pragma once

#include "ir/builder.h"

#include <cstring>
#include <random>

namespace libtile::test {

[[nodiscard]] ir::Function randomFunction(uint64_t seed);
// One to three random edits of bytes, words or numbers; the text stays text-like, so that it gets
// deep into what reads it.
[[nodiscard]] std::string mutateText(std::string text, std::mt19937_64 &random);

} // namespace libtile::test
