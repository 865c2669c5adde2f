// SPDX-License-Identifier: Apache-2.0
// What is decided of a GPU's program when its tiles have layouts, as text: the laid-out program with comments below the ops
// that they are of, and of the program as a whole behind it.
//
//   %9 = for %lo, %k, %one, %zero : tile<64x64xf32, #4> {
//   // 3 stages in 3 slots, 5 ops and 1 carried value ahead
//   ^(%10: i32, %11: tile<64x64xf32, #4>):
//     %12 = load %p : tile<64x32xf16, #0>
//     // copied ahead in copies of 16 bytes, slots of 4096 bytes
//     ...
//     %20 = dot %a, %b, %11 {unit="mma_m16n8k16_f16", warps=[1, 2]} : tile<64x64xf32, #4>
//     // mma_m16n8k16_f16, warps in a grid of 1x2
//   }
//   // 4 warps
//
// Units and grids are the dots' attributes, layouts the tiles' types (ir/layout.h); rings and roles are what pipeline_loops is
// going to do (plan_pipeline.h). Where dots that have ended are waited for, barriers, and what else is done to the
// staged program is not decided yet: the staged text shows it.
#pragma once

#include "ir/printer.h"
#include "passes/pass.h"

namespace libtile::passes {

// Requires: laid-out, as it is in front of pipeline_loops.
[[nodiscard]] std::string gpuPlanText(const ir::Function &fn, const PassContext &context, const ir::PrintOptions &options);

} // namespace libtile::passes
