// SPDX-License-Identifier: Apache-2.0
// multiply_codes: dots of 8-bit floats become dots of their codes, for units that multiply these.
//
//   dot(float8_decode(a), float8_decode(b), c) {imprecise=i}
//     ->  dot(a, b, c) {imprecise=i, format_a=e4nv, format_b=e4nv}
//
// Tile stage to tile stage, where the target has a unit of both formats and the dot allows as imprecise sums as it makes:
// such units keep fewer bits of a running sum than fp32 has. A dot that allows k products or less (`max_num_imprecise_acc`)
// has sums of its own, which are added in acc's type; below k it stays as it is, since a unit would have to stop within.
//
// Whether the unit fits the tile is known when dots are planned; plan_dots brings back what no unit takes.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: decodes are ops (expand_functions has not run).
bool multiplyCodes(ir::Function &fn, const PassContext &context);

// The dot of decoded operands in the place of a dot of codes.
ir::OpId decodeOperands(ir::Function &fn, ir::OpId dot);

// A dot of imprecise sums of its own: dot(a, b, c) -> c + dot(a, b, 0), if it allows k products or less. Returns the dot.
ir::OpId separateSums(ir::Function &fn, ir::OpId dot);

} // namespace libtile::passes
