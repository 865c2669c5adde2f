// SPDX-License-Identifier: Apache-2.0
// What the emitters of reductions and scans share: tuples of registers, the region that combines two of
// them, and the shared memory through which warps meet.
#pragma once

#include "codegen/gpu/emitter.h"
#include "passes/gpu/along_axis.h"

#include <functional>

namespace libtile::codegen::gpu {

class CombineEmitter {
protected:
  CombineEmitter(Emitter &emitter, ir::OpId op)
      : e_(emitter), fn_(emitter.fn_), op_(op), type_(fn_.type(fn_.operand(op, 0))),
        layout_(fn_.layout(type_.layout())) {}

  llvm::IRBuilder<> &builder() { return e_.builder_; }
  [[nodiscard]] ir::Type elementOf(size_t i) const {
    return fn_.type(fn_.operand(op_, static_cast<unsigned>(i))).element();
  }

  // Each register of the tile that holds an element of its own, with the op's operands there. Those wholly in
  // the padding are left out.
  void forEachRegister(const std::function<void(int32_t reg, ir::Coords coords, Regs tuple)> &take);
  // The region's results for two tuples.
  Regs combine(const Regs &left, const Regs &right);
  Regs select(llvm::Value *condition, const Regs &a, const Regs &b);
  // Of all of the tuple: the value of another lane (Emitter::shuffle).
  Regs shuffle(const Regs &tuple, const LaneExchange &exchange);

  // ---- scratch of the op
  // Slot of an entry of a warp's thread that stands in this one's lane.
  llvm::Value *slot(const passes::WarpScratch &scratch, llvm::Value *warp, size_t entry);
  void store(const passes::WarpScratch &scratch, const Regs &tuple, llvm::Value *slot);
  Regs load(const passes::WarpScratch &scratch, llvm::Value *slot);

  Emitter &e_;
  const ir::Function &fn_;
  const ir::OpId op_;
  const ir::Type type_;
  const ir::Layout &layout_;

private:
  llvm::Value *address(const passes::WarpScratch &scratch, size_t i, llvm::Value *slot);
};

} // namespace libtile::codegen::gpu
