// SPDX-License-Identifier: Apache-2.0
// Properties of ops that several passes ask for.
#pragma once

#include "ir/function.h"

#include <optional>

namespace libtile::passes {

// For or While.
[[nodiscard]] bool isLoop(ir::Opcode opcode);
// A loop stands around the op.
[[nodiscard]] bool isInLoop(const ir::Function &fn, ir::OpId op);
// a op b == b op a, bit for bit (which NaN a float op gives is not defined).
[[nodiscard]] bool commutes(ir::Opcode opcode);
// (a op b) op c == a op (b op c) exactly; of Add and Mul for integers only.
[[nodiscard]] bool associatesOnIntegers(ir::Opcode opcode);
// The one commutative op of its own left and right that result i of a reduce's combination is.
[[nodiscard]] std::optional<ir::Opcode> commutativeCombination(const ir::Function &fn, ir::OpId reduce,
                                                               unsigned i);
// The same, where the reduction is of one tile and nothing else stands in its combination.
[[nodiscard]] std::optional<ir::Opcode> onlyCombination(const ir::Function &fn, ir::OpId reduce);
// The combination of a reduce gives the same with lefts and rights exchanged: the front end says so, or
// each result is such an op.
[[nodiscard]] bool combinesInAnyOrder(const ir::Function &fn, ir::OpId reduce);
// What an atomic access orders for its program (attribute sem): a release what is before it, an acquire
// what is behind it. An acquire whose value nobody reads orders nothing (docs/semantics.md).
[[nodiscard]] bool releases(const ir::Function &fn, ir::OpId op);
[[nodiscard]] bool acquires(const ir::Function &fn, ir::OpId op);
// a p b == b swapped(p) a.
[[nodiscard]] ir::CmpPred swapped(ir::CmpPred predicate);
// not (a p b), for integers; of floats only oeq and une have one.
[[nodiscard]] ir::CmpPred inverted(ir::CmpPred predicate);

} // namespace libtile::passes
