// SPDX-License-Identifier: Apache-2.0
// Compare-exchange steps: between registers of a thread, or lanes of a warp.
#include "codegen/gpu/emitter.h"
#include "ir/ops.h"

namespace libtile::codegen::gpu {

using ir::Attr;
using ir::HwDim;

namespace {

// For each bit of a coordinate along the axis the bits of the hardware coordinate that move it.
std::vector<int32_t> bitsOf(const ir::Layout &layout, HwDim dim, unsigned axis) {
  std::vector<int32_t> out(31, 0);
  const ir::Layout::Bases &bases = layout.bases(dim);
  for (size_t bit = 0; bit < bases.size(); ++bit) {
    for (int32_t place = 0; place < 31; ++place) {
      out[static_cast<size_t>(place)] |= (bases[bit][axis] >> place & 1) << bit;
    }
  }
  return out;
}

} // namespace

void Emitter::lowerResize(ir::OpId op) { set(fn_.result(op), regs(fn_.operand(op, 0))); }

void Emitter::lowerCompareExchange(ir::OpId op) {
  const ir::ValueId value = fn_.operand(op, 0);
  const ir::Layout &layout = layoutOf(value);
  const auto axis = static_cast<unsigned>(fn_.getInt(op, Attr::axis));
  const std::vector<int32_t> registers = bitsOf(layout, HwDim::Reg, axis);
  const std::vector<int32_t> lanes = bitsOf(layout, HwDim::Lane, axis);
  const bool mirrored = fn_.getBool(op, Attr::mirrored);
  const std::optional<int64_t> known = fn_.constantInt(fn_.operand(op, 1));
  llvm::Value *distance = scalar(fn_.operand(op, 1));
  // All distances of lanes lie above those of registers.
  const int64_t reach = !known ? (mirrored ? INT32_MAX : 0) : mirrored ? 2 * *known - 1 : *known;
  int32_t registerMask = 0, topRegister = 0;
  for (size_t bit = 0; bit < registers.size(); ++bit) {
    registerMask |= (reach >> bit & 1) != 0 ? registers[bit] : 0;
    topRegister |= known && (*known >> bit & 1) != 0 ? registers[bit] : 0;
  }
  llvm::Value *places = distance;
  if (mirrored) {
    places = builder_.CreateSub(builder_.CreateShl(distance, 1), i32(1));
  }
  llvm::Value *laneMask = linear(places, lanes);
  LaneExchange exchange{LaneExchange::Mode::Xor, laneMask, {}};
  if (const auto *constant = llvm::dyn_cast<llvm::ConstantInt>(laneMask)) {
    const auto mask = static_cast<int32_t>(constant->getZExtValue());
    exchange.sources = laneSources(target_.warpSize, [&](int32_t lane) { return onlyLane(lane ^ mask); });
  }
  llvm::Value *isLow = builder_.CreateICmpEQ(
      builder_.CreateAnd(lane_, linear(distance, lanes)), i32(0));
  const ir::Type element = fn_.type(value).element();
  const Regs from = regs(value);
  Regs out;
  for (int32_t reg = 0; reg < static_cast<int32_t>(from.size()); ++reg) {
    llvm::Value *own = from[static_cast<size_t>(reg)];
    llvm::Value *other = from[static_cast<size_t>(reg ^ registerMask)];
    const auto pick = [&](bool low) {
      const auto which = low ? llvm::Intrinsic::smin : llvm::Intrinsic::smax;
      return elementwise_.integerMinMax(which, own, other);
    };
    if (topRegister != 0) {
      out.push_back(pick((reg & topRegister) == 0));
      continue;
    }
    other = shuffle(element, other, exchange);
    llvm::Value *low = pick(true);
    out.push_back(builder_.CreateSelect(isLow, low, pick(false)));
  }
  set(fn_.result(op), std::move(out));
}

} // namespace libtile::codegen::gpu
