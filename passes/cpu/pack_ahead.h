// SPDX-License-Identifier: Apache-2.0
// Where a dot in a loop packs its operands. What is the same in each iteration is packed in front of the loop: attention's
// queries, and on its way back the keys and values, which are packed turned and not.
//
// The same are tiles from in front of the loop, and what is computed from them and from numbers known there. A load
// in front of it that is executed where its users are may be so there: nothing up to these writes what it reads (memory_order.h).
// One in the loop may not. Of loops that do nothing but accumulate dots others take care (chunk_dot_loops.h).
#pragma once

#include "passes/cpu/lower_dot.h"

namespace libtile::passes {

[[nodiscard]] PackingPlaces packingPlaces(const NestView &nests, const CpuPlan &plan, ir::OpId dot);

} // namespace libtile::passes
