// SPDX-License-Identifier: Apache-2.0
// plan_dots: which unit of the target executes each dot, and how the warps share its accumulator.
//
//   %d = dot %a, %b, %c  ->  %d = dot %a, %b, %c {unit="mma_m16n8k16_f16", warps=[2, 2]}
//
// Tile stage to tile stage. Afterwards every dot has both attributes: `unit` names the first row of
// Target::units that fits it, `warps` has one power of two an axis of the accumulator, whose product
// is at most the program's warps. What a dot has already stays, so a text can pin either; one that
// does not fit is a located error. A dot left to the last unit is a fallback of the function, with the
// reason. Accumulators of f16 and bf16 are summed in f32 and rounded once. Units that sum in less take dots that
// allow it; codes of 8-bit floats that no unit takes are decoded (multiply_codes.h). A dot whose precision allows it
// becomes several on a faster unit (split_dots.h).
// PassContext::unitRows and unitGroups leave other units out; where none is left they are heeded one by one or not at all, which is a
// fallback, too.
// Later passes and code generation read the attributes and ask nothing of the kind again.
#pragma once

#include "ir/target.h"
#include "passes/gpu/fragments.h"
#include "passes/pass.h"

namespace libtile::passes {

bool planDots(ir::Function &fn, const PassContext &context);

// What plan_dots wrote. UserError: it has been left out, or the text names what does not fit.
[[nodiscard]] const ir::DotUnit &unitOf(const ir::Function &fn, ir::OpId dot,
                                        const ir::Target &target);
[[nodiscard]] WarpGrid warpGridOf(const ir::Function &fn, ir::OpId dot, int32_t warps);

} // namespace libtile::passes
