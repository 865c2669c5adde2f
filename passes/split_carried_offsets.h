// SPDX-License-Identifier: Apache-2.0
// A tile of pointers or integers that a loop advances by the same amount everywhere is split into
// what stays and a scalar that moves:
//
//   for ... (p = p0) {                        for ... (off = 0) {
//     load p                                    p = ptr_add p0, splat off
//     yield ptr_add p, splat s        ->        load p
//   }                                           yield add off, s
//                                             }
//
// So pointer tiles stay affine (facts.h), and a loop carries one scalar for each instead of a tile.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: tile stage, simplified (amounts are splats or constants). Ensures: no for or while
// carries a tile whose next value is itself plus such amounts; the amount may differ from iteration
// to iteration. Offsets of pointers are i64, of integers of their own type. Dead slots and ops
// remain for eliminate_dead_code.
bool splitCarriedOffsets(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
