// SPDX-License-Identifier: Apache-2.0
#include "codegen/gpu/combine.h"

#include "ir/ops.h"
#include "passes/gpu/layout_maps.h"

namespace libtile::codegen::gpu {

using ir::HwDim;
using passes::WarpScratch;

void CombineEmitter::forEachRegister(
    const std::function<void(int32_t reg, ir::Coords coords, Regs tuple)> &take) {
  const int32_t canonical = layout_.canonicalBits(HwDim::Reg);
  const int32_t inner = layout_.subtileSize(HwDim::Reg) - 1;
  for (int32_t reg = 0; reg < layout_.size(HwDim::Reg); ++reg) {
    if ((reg & inner & ~canonical) != 0 ||
        !passes::inTile(layout_, reg, type_.shape()).somewhere) {
      continue;
    }
    Regs tuple;
    for (const ir::ValueId input : fn_.operands(op_)) {
      tuple.push_back(e_.regs(input)[static_cast<size_t>(reg)]);
    }
    take(reg, layout_.applyOne(HwDim::Reg, reg), std::move(tuple));
  }
}

Regs CombineEmitter::combine(const Regs &left, const Regs &right) {
  const ir::BlockId block = fn_.region(op_);
  for (size_t i = 0; i < left.size(); ++i) {
    e_.set(fn_.arg(block, static_cast<unsigned>(i)), left[i]);
    e_.set(fn_.arg(block, static_cast<unsigned>(i + left.size())), right[i]);
  }
  e_.emitBlock(block);
  return e_.carried(fn_.operands(fn_.last(block)));
}

Regs CombineEmitter::select(llvm::Value *condition, const Regs &a, const Regs &b) {
  Regs out;
  for (size_t i = 0; i < a.size(); ++i) {
    out.push_back(builder().CreateSelect(condition, a[i], b[i]));
  }
  return out;
}

Regs CombineEmitter::shuffle(const Regs &tuple, const LaneExchange &exchange) {
  Regs out;
  for (size_t i = 0; i < tuple.size(); ++i) {
    out.push_back(e_.shuffle(elementOf(i), tuple[i], exchange));
  }
  return out;
}

llvm::Value *CombineEmitter::slot(const WarpScratch &scratch, llvm::Value *warp, size_t entry) {
  std::vector<int32_t> columns(layout_.bases(HwDim::Lane).size(), 0);
  for (size_t i = 0; i < scratch.laneBits.size(); ++i) {
    columns[static_cast<size_t>(scratch.laneBits[i])] = 1 << i;
  }
  const auto lanes = static_cast<int64_t>(scratch.laneBits.size());
  llvm::Value *index = builder().CreateMul(warp, e_.i32(scratch.entries));
  index = builder().CreateAdd(index, e_.i32(static_cast<int64_t>(entry)));
  return builder().CreateAdd(builder().CreateShl(index, e_.i32(lanes)),
                             e_.linear(e_.lane_, columns));
}

llvm::Value *CombineEmitter::address(const WarpScratch &scratch, size_t i, llvm::Value *slot) {
  const int64_t base = fn_.getInt(op_, ir::Attr::offset) + scratch.starts[i];
  llvm::Value *offset = builder().CreateMul(slot, e_.i32(elementOf(i).elementBytes()));
  llvm::Value *start = builder().CreateConstGEP1_64(builder().getInt8Ty(), e_.sharedBase(),
                                                    static_cast<uint64_t>(base));
  return builder().CreateGEP(builder().getInt8Ty(), start, offset);
}

void CombineEmitter::store(const WarpScratch &scratch, const Regs &tuple, llvm::Value *slot) {
  for (size_t i = 0; i < tuple.size(); ++i) {
    e_.storeShared(elementOf(i), tuple[i], address(scratch, i, slot));
  }
}

Regs CombineEmitter::load(const WarpScratch &scratch, llvm::Value *slot) {
  Regs tuple;
  for (size_t i = 0; i < scratch.starts.size(); ++i) {
    tuple.push_back(e_.loadShared(elementOf(i), address(scratch, i, slot)));
  }
  return tuple;
}

} // namespace libtile::codegen::gpu
