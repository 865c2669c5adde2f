// SPDX-License-Identifier: Apache-2.0
// Dots by fused multiply-adds, for every shape and type: operands lie in shared memory, a loop goes
// over k, each thread keeps the accumulators of its registers. Rows and columns in the padding read
// the last ones.
#include "codegen/gpu/emitter.h"

#include "codegen/llvm_compat.h"

#include <map>

namespace libtile::codegen::gpu {

using ir::HwDim;

class MultiplyAddDot {
public:
  MultiplyAddDot(Emitter &emitter, ir::OpId op)
      : e_(emitter), fn_(emitter.fn_), op_(op), acc_(fn_.type(fn_.result(op))),
        layout_(fn_.layout(acc_.layout())), rank_(acc_.rank()) {}

  void run() {
    llvm::IRBuilder<> &builder = e_.builder_;
    const ir::ValueId a = fn_.operand(op_, 0);
    const int32_t depth = fn_.type(a).dim(rank_ - 1);
    for (const unsigned operand : {0U, 1U}) {
      inverse_.emplace_back(e_.layoutOf(fn_.operand(op_, operand)));
      collectFixed(operand);
    }
    llvm::BasicBlock *before = builder.GetInsertBlock();
    llvm::BasicBlock *body = e_.newBlock("dot");
    llvm::BasicBlock *after = e_.newBlock("dot.end");
    const Regs initial = e_.regs(fn_.operand(op_, 2));
    builder.CreateBr(body);
    builder.SetInsertPoint(body);
    const ir::ValueId result = fn_.result(op_);
    llvm::PHINode *k = builder.CreatePHI(builder.getInt32Ty(), 2);
    k->addIncoming(e_.i32(0), before);
    const Regs sums = e_.phis(initial, before);
    const Regs next = step(k, sums);
    llvm::Value *following = builder.CreateAdd(k, e_.i32(1));
    k->addIncoming(following, body);
    e_.addIncoming(sums, next, body);
    builder.CreateCondBr(builder.CreateICmpSLT(following, e_.i32(depth)), body, after);
    builder.SetInsertPoint(after);
    e_.set(result, next);
  }

private:
  // Coordinates of a register in the operand without k: leading axes, then the row (a) or column
  // (b).
  ir::Coords keyOf(unsigned operand, int32_t reg) const {
    ir::Coords key = layout_.applyOne(HwDim::Reg, reg);
    key.erase(key.begin() + (operand == 0 ? rank_ - 1 : rank_ - 2));
    return key;
  }

  // The part of an element's offset that comes from its coordinate along the axis: XORed, added.
  std::pair<llvm::Value *, llvm::Value *> offsetPart(unsigned operand, unsigned axis,
                                                     llvm::Value *coord) {
    const ir::Layout &buffer = e_.layoutOf(fn_.operand(op_, operand));
    const int32_t subtile = buffer.subtile()[axis];
    std::vector<int32_t> columns;
    for (int32_t step = 1; step < subtile; step *= 2) {
      ir::Coords basis(rank_, 0);
      basis[axis] = step;
      columns.push_back(inverse_[operand].offsetOf(basis));
    }
    llvm::Value *inner = e_.linear(coord, columns);
    llvm::Value *outer = e_.i32(0);
    if (buffer.repeats()[axis] > 1) {
      int32_t stride = buffer.subtileSize(HwDim::Offset);
      for (unsigned d = axis + 1; d < rank_; ++d) {
        stride *= buffer.repeats()[d];
      }
      outer = e_.builder_.CreateMul(e_.builder_.CreateUDiv(coord, e_.i32(subtile)), e_.i32(stride));
    }
    return {inner, outer};
  }

  // What does not depend on k, once for each row or column.
  void collectFixed(unsigned operand) {
    llvm::IRBuilder<> &builder = e_.builder_;
    const unsigned ownAxis = operand == 0 ? rank_ - 2 : rank_ - 1;
    for (int32_t reg = 0; reg < layout_.size(HwDim::Reg); ++reg) {
      auto [place, fresh] = fixed_[operand].try_emplace(keyOf(operand, reg));
      if (!fresh) {
        continue;
      }
      llvm::Value *inner = e_.i32(0), *outer = e_.i32(0);
      for (unsigned axis = 0; axis < rank_; ++axis) {
        if (axis + 2 < rank_ || axis == ownAxis) {
          llvm::Value *coord = e_.coord(layout_, reg, axis);
          llvm::Value *last = e_.i32(acc_.dim(axis) - 1);
          coord = builder.CreateSelect(builder.CreateICmpULT(coord, last), coord, last);
          const auto [x, y] = offsetPart(operand, axis, coord);
          inner = builder.CreateXor(inner, x);
          outer = builder.CreateAdd(outer, y);
        }
      }
      place->second = {inner, outer};
    }
  }

  Regs step(llvm::Value *k, const Regs &sums) {
    llvm::IRBuilder<> &builder = e_.builder_;
    std::map<ir::Coords, llvm::Value *> loaded[2];
    for (const unsigned operand : {0U, 1U}) {
      const auto [inner, outer] = offsetPart(operand, operand == 0 ? rank_ - 1 : rank_ - 2, k);
      const ir::Type element = fn_.type(fn_.operand(op_, operand)).element();
      for (const auto &[key, part] : fixed_[operand]) {
        llvm::Value *offset = builder.CreateAdd(builder.CreateXor(part.first, inner),
                                                builder.CreateAdd(part.second, outer));
        offset = builder.CreateMul(offset, e_.i32(element.elementBytes()));
        llvm::Value *pointer =
            builder.CreateGEP(builder.getInt8Ty(), e_.scalar(fn_.operand(op_, operand)), offset);
        loaded[operand][key] = widened(element, e_.loadShared(element, pointer));
      }
    }
    Regs next;
    for (size_t reg = 0; reg < sums.size(); ++reg) {
      const auto index = static_cast<int32_t>(reg);
      next.push_back(
          multiplyAdd(loaded[0].at(keyOf(0, index)), loaded[1].at(keyOf(1, index)), sums[reg]));
    }
    return next;
  }

  // In the accumulator's type; integers are signed.
  llvm::Value *widened(const ir::Type &element, llvm::Value *value) {
    llvm::IRBuilder<> &builder = e_.builder_;
    llvm::Type *wanted = e_.elementwise_.registerType(acc_.element());
    if (element.isInteger()) {
      return builder.CreateSExt(value, wanted);
    }
    if (element.elementBits() == 16) {
      value = e_.elementwise_.toFloat(element.elem(), value);
    }
    return value->getType() == wanted ? value : builder.CreateFPExt(value, wanted);
  }

  llvm::Value *multiplyAdd(llvm::Value *a, llvm::Value *b, llvm::Value *sum) {
    llvm::IRBuilder<> &builder = e_.builder_;
    if (sum->getType()->isIntegerTy()) {
      return builder.CreateAdd(builder.CreateMul(a, b), sum);
    }
    llvm::Function *fma =
        codegen::compat::intrinsic(e_.module_, llvm::Intrinsic::fma, {sum->getType()});
    return builder.CreateCall(fma, {a, b, sum});
  }

  Emitter &e_;
  const ir::Function &fn_;
  const ir::OpId op_;
  const ir::Type acc_;
  const ir::Layout &layout_;
  const unsigned rank_;
  std::vector<ir::LayoutInverse> inverse_;
  std::map<ir::Coords, std::pair<llvm::Value *, llvm::Value *>> fixed_[2];
};

void Emitter::multiplyAddDot(ir::OpId op) { MultiplyAddDot(*this, op).run(); }

} // namespace libtile::codegen::gpu
