// SPDX-License-Identifier: Apache-2.0
// Elements of a buffer with one axis that an index tile names: gathers, slices that move data, counts.
#include "codegen/gpu/emitter.h"
#include "ir/ops.h"

#include "passes/gpu/layout_maps.h"

namespace libtile::codegen::gpu {

using ir::Attr;

// The row-major index in the buffer of what the register's element is; 0 in the padding.
llvm::Value *Emitter::gatheredIndex(ir::OpId op, int32_t reg) {
  const ir::Type &tile = fn_.type(fn_.result(op));
  const ir::Layout &layout = layoutOf(fn_.result(op));
  const auto extents = fn_.getInts(op, Attr::extents);
  const auto axis = static_cast<size_t>(fn_.getInt(op, Attr::axis));
  const auto along = [&] {
    if (fn_.numOperands(op) > 1) {
      return regs(fn_.operand(op, 1))[static_cast<size_t>(reg)];
    }
    llvm::Value *steps = builder_.CreateMul(coord(layout, reg, static_cast<unsigned>(axis)),
                                            i32(fn_.getInt(op, Attr::step)));
    return builder_.CreateAdd(steps, i32(fn_.getInt(op, Attr::start)));
  };
  llvm::Value *index = i32(0);
  for (size_t d = 0; d < extents.size(); ++d) {
    index = builder_.CreateMul(index, i32(extents[d]));
    index = builder_.CreateAdd(index,
                               d == axis ? along() : coord(layout, reg, static_cast<unsigned>(d)));
  }
  llvm::Value *inside = inTile(tile, reg);
  return inside == nullptr ? index : builder_.CreateSelect(inside, index, i32(0));
}

void Emitter::lowerBufferGather(ir::OpId op) {
  const ir::ValueId result = fn_.result(op), buffer = fn_.operand(op, 0);
  const ir::Type element = fn_.type(result).element();
  Regs out;
  for (int32_t reg = 0; reg < layoutOf(result).size(ir::HwDim::Reg); ++reg) {
    out.push_back(loadShared(element, flatAddress(buffer, gatheredIndex(op, reg))));
  }
  set(result, std::move(out));
}

// Each element once: by one thread, of its first register.
void Emitter::lowerBufferCount(ir::OpId op) {
  const ir::ValueId buffer = fn_.operand(op, 0), index = fn_.operand(op, 1);
  const ir::Type &tile = fn_.type(index);
  const ir::Layout &layout = layoutOf(index);
  llvm::Value *canonical = isCanonicalThread(layout);
  for (int32_t reg = 0; reg < layout.size(ir::HwDim::Reg); ++reg) {
    if (firstReplica(layout, reg) != reg || !passes::inTile(layout, reg, tile.shape()).somewhere) {
      continue;
    }
    llvm::Value *counts = both(canonical, inTile(tile, reg));
    if (fn_.numOperands(op) > 2) {
      counts = both(counts, regs(fn_.operand(op, 2))[static_cast<size_t>(reg)]);
    }
    countShared(flatAddress(buffer, regs(index)[static_cast<size_t>(reg)]), counts);
  }
}

} // namespace libtile::codegen::gpu
