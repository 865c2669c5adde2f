// SPDX-License-Identifier: Apache-2.0
// row_copies: copies straight to shared memory whose pieces land side by side (ir::Target::rowCopy).
//
// Such an instruction takes each lane's own address of global memory, but writes a warp's pieces one behind the other. So it is the threads
// that are swizzled: who copies what follows from where it shall lie. A load that feeds dots is given the layout of the slot that suits its
// readers, its offset's bits in this order: elements of a piece, lanes, warps, pieces of a thread. Its slot is found from that layout again.
#pragma once

#include "passes/analysis/facts.h"
#include "passes/pass.h"

#include <optional>

namespace libtile::passes {

// The layout for a load of a loop whose dots only sum up what is loaded there, so that rows may be copied. nullopt: it is not such a
// load, or no swizzle of threads suits the readers.
[[nodiscard]] std::optional<ir::Layout> rowCopyLayout(const ir::Function &fn, ir::OpId load, const Facts &facts, const PassContext &context,
                                                      const ir::Layout &plain, int32_t warps);

// For what a loop copies so, with two slots, beside the same of a second program: one waits alone at its barriers.
[[nodiscard]] bool rowsHaveRoom(int64_t slotBytes, const ir::Target &target);

// The slot that threads of this layout copy to in their order; nullopt: none without gaps.
[[nodiscard]] std::optional<ir::Layout> slotOfRows(const ir::Layout &threads, int32_t elements);

} // namespace libtile::passes
