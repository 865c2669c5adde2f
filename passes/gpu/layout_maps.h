// SPDX-License-Identifier: Apache-2.0
// What follows from layouts for code: which register of one tile is which register of another, and
// how ops on shapes act on layouts.
//
// All maps between coordinates here are linear over F2 on the threads' part and exact on the
// registers' part: the element of (reg, lane, warp) is coords(reg) XOR coords(lane) XOR
// coords(warp) as plain integers, since the parts of lanes and warps lie below the bits of the
// repeats.
#pragma once

#include "ir/function.h"

#include <llvm/ADT/STLFunctionalExtras.h>

#include <optional>
#include <vector>

namespace libtile::passes {

using CoordMap = llvm::function_ref<ir::Coords(const ir::Coords &)>;

// An op that takes the elements of its one operand as they are, to other coordinates.
[[nodiscard]] bool isShapeOp(ir::Opcode opcode);

// For each register of `to` the register of `from` that holds map(its element) on every thread;
// registers whose element `from` does not reach (padding) get 0. nullopt: data would have to move.
[[nodiscard]] std::optional<std::vector<int32_t>> registerMap(const ir::Layout &to,
                                                              const ir::Layout &from, CoordMap map);
[[nodiscard]] std::optional<std::vector<int32_t>> registerMap(const ir::Layout &to,
                                                              const ir::Layout &from);
// The same for the operand of a shape op (expand_dims, broadcast, trans, reshape, slice), whose result and
// operand have layouts. A reshape moves data unless it divides: the axes fall into groups of equal
// products, and within a group all extents but the first are powers of two. So does a slice unless the
// axis lies in registers alone, or the slice is one block at a multiple of what threads reach of it.
[[nodiscard]] std::optional<std::vector<int32_t>> shapeRegisterMap(const ir::Function &fn,
                                                                   ir::OpId op);

// The layout that the shape op's operand needs so that no data moves, given the result's;
// nullopt: there is none (a reshape that does not divide, a slice of an axis that threads share).
[[nodiscard]] std::optional<ir::Layout> operandLayout(const ir::Function &fn, ir::OpId op,
                                                      const ir::Layout &result);
// The layout that the shape op's result has when no data moves, given the operand's.
[[nodiscard]] std::optional<ir::Layout> resultLayout(const ir::Function &fn, ir::OpId op,
                                                     const ir::Layout &operand);

// Some element is in several lanes or warps.
[[nodiscard]] bool holdsReplicas(const ir::Layout &layout);

// The register lies in the tile on some thread, and on every thread.
struct InTile {
  bool somewhere = false, everywhere = false;
};
[[nodiscard]] InTile inTile(const ir::Layout &layout, int32_t reg, std::span<const int32_t> shape);

} // namespace libtile::passes
