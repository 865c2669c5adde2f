// SPDX-License-Identifier: Apache-2.0
// Says of atomic additions that what they add may wait: each thread sums up for itself, and adds its sums when a call ends.
// Programs that add to the same elements one after the other wait for each other's line of the cache otherwise, and for
// memory's order, at each element.
//
//   %i = arange {start=0}
//   %p = ptr_add splat %out, %i
//   atomic_rmw %p, %x, %m {kind=add, ...}    ->    atomic_rmw %p, %x, %m {kind=add, ..., deferred=true}
//
// Nobody can tell. In the launch: integers have the same sum in any order, no one reads the old value, nothing else in the
// kernel touches the array, and a program that neither waits nor tells has no other way to learn what another one did. Outside
// of it (another launch, the host): no kernel that may wait for them has such additions; one that is relaxed orders nothing;
// and one that is not, alone in the kernel and done once, has nothing in front of it that it could order: what the program
// writes is the addition itself, whose elements have no order among each other. (Sums of floats depend on their order, and stay.)
#pragma once

#include "passes/pass.h"

#include <optional>

namespace libtile::passes {

// Where such additions go: elements [start, start + count) of a parameter's array, of 4 or 8 bytes each.
struct SumsPlace {
  ir::ValueId array;
  int64_t start;
};
[[nodiscard]] std::optional<SumsPlace> placeOfSums(const ir::Function &fn, ir::OpId addition);

// Requires: tile stage. Ensures: either all ops of the function whose place in the program's order counts are additions that
// have the attribute, or none has it. The array of one that has it is touched by no op that has not. All their sums together
// are a few KB.
bool markSums(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
