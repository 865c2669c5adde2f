// SPDX-License-Identifier: Apache-2.0
#include "codegen/gpu/fragment_dot.h"

#include "ir/ops.h"

namespace libtile::codegen::gpu {

using ir::HwDim;

FragmentDot::FragmentDot(Emitter &emitter, ir::OpId op, const ir::DotUnit &unit)
    : emitter_(emitter), op_(op), unit_(unit), row_(emitter.fn_.type(emitter.fn_.result(op)).rank() - 2) {
  for (unsigned i = 0; i < 3; ++i) {
    registers_[i] = registersOf(i < 2 ? fn().operand(op, i) : fn().result(op));
  }
}

void FragmentDot::addProducts(Regs &sums, int32_t depth) {
  const std::vector<ir::Coords> corners = cornersOf(emitter_.layoutOf(fn().result(op_)));
  const int32_t end = fn().type(fn().operand(op_, 0)).dim(row_ + 1);
  for (int32_t k = 0; k < end; k += depth) {
    for (const ir::Coords &corner : corners) {
      multiply(sums, corner, k, std::min(end, k + depth));
    }
  }
}

ir::Coords FragmentDot::at(const ir::Coords &from, int32_t row, int32_t col) const {
  ir::Coords coords = from;
  coords[row_] = row;
  coords[row_ + 1] = col;
  return coords;
}

int32_t FragmentDot::registerAt(unsigned part, const ir::Coords &coords) const {
  const auto found = registers_[part].find(coords);
  if (found == registers_[part].end()) {
    throw ir::UserError("the layouts of a dot are not those of its unit", fn().locationOf(op_));
  }
  return found->second;
}

std::vector<ir::Coords> FragmentDot::offsetsOf(const ir::Layout::Bases &regs, int32_t perWord) {
  std::vector<ir::Coords> offsets = {{0, 0}};
  for (const ir::Coords &basis : regs) {
    if (perWord > 1) {
      perWord /= 2;
      continue;
    }
    for (size_t i = 0, count = offsets.size(); i < count; ++i) {
      offsets.push_back({offsets[i][0] + basis[0], offsets[i][1] + basis[1]});
    }
  }
  return offsets;
}

FragmentDot::Registers FragmentDot::registersOf(ir::ValueId value) const {
  const ir::Layout &layout = emitter_.layoutOf(value);
  Registers result;
  for (int32_t reg = 0; reg < layout.size(HwDim::Reg); ++reg) {
    result.try_emplace(layout.applyOne(HwDim::Reg, reg), reg);
  }
  return result;
}

// First elements of the accumulator's tiles: the others are at an offset from one.
std::vector<ir::Coords> FragmentDot::cornersOf(const ir::Layout &layout) const {
  ir::Coords within = {0, 0};
  for (const ir::Coords &basis : unit_.acc.regs) {
    within[0] |= basis[0];
    within[1] |= basis[1];
  }
  std::vector<ir::Coords> corners;
  for (int32_t reg = 0; reg < layout.size(HwDim::Reg); ++reg) {
    const ir::Coords coords = layout.applyOne(HwDim::Reg, reg);
    if ((coords[row_] & within[0]) == 0 && (coords[row_ + 1] & within[1]) == 0) {
      corners.push_back(coords);
    }
  }
  return corners;
}

} // namespace libtile::codegen::gpu
