// SPDX-License-Identifier: Apache-2.0
// Gives every tile a layout: propose (propose_layouts.h), choose, and rewrite.
//
// choose goes through the components from the one with most at stake to the one with least. Each
// takes the layout of least cost among what its own anchors propose and what the shape ops around
// it make of layouts that were chosen before: costs are weights of proposals not taken. What has no
// proposal takes a plain row-major layout.
//
// rewrite sets the types. Where an op needs an operand under another layout, the operand's values
// are computed again under that layout if they are cheap (indices, masks and constants made by
// shape ops and arithmetic), else converted, once, right behind their definition.
#pragma once

#include "passes/gpu/propose_layouts.h"

namespace libtile::passes {

// One layout for each component.
[[nodiscard]] std::vector<ir::Layout> chooseLayouts(const ir::Function &fn,
                                                    const LayoutProblem &problem, int32_t warps, int32_t warpSize);

// Requires: tile stage. Ensures: laid-out; numWarps is decided; f16 and bf16 accumulators of dots
// have become f32; the operands of a dot by matrix instructions have fragment layouts; other dots
// are recorded as fallbacks.
bool assignLayouts(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
