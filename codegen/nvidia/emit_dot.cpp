// SPDX-License-Identifier: Apache-2.0
// Dots by mma.sync. Operands and accumulator are fragments (passes/gpu/fragments.h), so every
// instruction takes registers of this thread: the accumulator's registers are cut into 16 x 8
// tiles, and each tile meets the fragments of its rows and columns, k by k.
#include "codegen/nvidia/emitter.h"

#include "codegen/llvm_compat.h"
#include "passes/gpu/fragments.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <map>

namespace libtile::codegen::nvidia {

using ir::Elem;
using ir::HwDim;

class MatrixDot {
public:
  MatrixDot(Emitter &emitter, ir::OpId op, const ir::MmaShape &shape)
      : e_(emitter), fn_(emitter.fn_), op_(op), shape_(shape),
        unit_(32 / static_cast<int32_t>(ir::bitWidth(shape.operand))),
        instruction_(compat::intrinsic(emitter.module_, instructionFor(shape.operand))) {}

  void run() {
    const ir::ValueId acc = fn_.operand(op_, 2);
    const ir::Layout &layout = e_.layoutOf(fn_.result(op_));
    registers_[0] = registersOf(fn_.operand(op_, 0));
    registers_[1] = registersOf(fn_.operand(op_, 1));
    Regs out = e_.regs(acc);
    const auto accRegisters = registersOf(acc);
    // Corners of the tiles: registers that are first in their row and column pairs.
    std::vector<ir::Coords> corners;
    for (int32_t reg = 0; reg < layout.size(HwDim::Reg); ++reg) {
      const ir::Coords coords = layout.applyOne(HwDim::Reg, reg);
      if ((coords[0] & 8) == 0 && (coords[1] & 1) == 0) {
        corners.push_back(coords);
      }
    }
    const int32_t depth = fn_.type(fn_.operand(op_, 0)).dim(1);
    for (int32_t k = 0; k < depth; k += shape_.k) {
      for (const ir::Coords &corner : corners) {
        int32_t tile[4];
        for (int32_t i = 0; i < 4; ++i) {
          tile[i] = accRegisters.at({corner[0] + (i >> 1) * 8, corner[1] + (i & 1)});
        }
        multiply(out, tile, corner, k);
      }
    }
    e_.set(fn_.result(op_), std::move(out));
  }

private:
  using Registers = std::map<std::pair<int32_t, int32_t>, int32_t>;

  // The register of thread 0's element.
  Registers registersOf(ir::ValueId value) {
    const ir::Layout &layout = e_.layoutOf(value);
    Registers result;
    for (int32_t reg = 0; reg < layout.size(HwDim::Reg); ++reg) {
      const ir::Coords coords = layout.applyOne(HwDim::Reg, reg);
      result.try_emplace({coords[0], coords[1]}, reg);
    }
    return result;
  }

  void multiply(Regs &out, const int32_t (&tile)[4], const ir::Coords &corner, int32_t k) {
    const int32_t half = 4 * unit_;
    const int32_t m = corner[0], n = corner[1];
    llvm::SmallVector<llvm::Value *, 10> operands = {unit(0, m, k),        unit(0, m + 8, k),
                                                     unit(0, m, k + half), unit(0, m + 8, k + half),
                                                     unit(1, k, n),        unit(1, k + half, n)};
    for (const int32_t reg : tile) {
      operands.push_back(out[static_cast<size_t>(reg)]);
    }
    llvm::Value *sums = e_.builder_.CreateCall(instruction_, operands);
    for (unsigned i = 0; i < 4; ++i) {
      out[static_cast<size_t>(tile[i])] = e_.builder_.CreateExtractValue(sums, i);
    }
  }

  [[nodiscard]] static llvm::Intrinsic::ID instructionFor(Elem operand) {
    if (operand == Elem::F16) {
      return llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32;
    }
    if (operand == Elem::BF16) {
      return llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_bf16;
    }
    return operand == Elem::I8 ? llvm::Intrinsic::nvvm_mma_m16n8k32_row_col_s8
                               : llvm::Intrinsic::nvvm_mma_m16n8k8_row_col_tf32;
  }

  // The 32-bit unit of operand 0 or 1 whose first element is (row, col), neighbours along k.
  llvm::Value *unit(unsigned operand, int32_t row, int32_t col) {
    const Registers &registers = registers_[operand];
    const int32_t first = registers.at({row, col});
    llvm::Value *&known = units_[operand][first];
    if (known != nullptr) {
      return known;
    }
    const ir::ValueId value = fn_.operand(op_, operand);
    if (const auto read = e_.units_.find(value.index); read != e_.units_.end()) {
      known = read->second.at(first);
    } else {
      llvm::SmallVector<llvm::Value *, 4> elements;
      for (int32_t i = 0; i < unit_; ++i) {
        const int32_t reg =
            operand == 0 ? registers.at({row, col + i}) : registers.at({row + i, col});
        elements.push_back(e_.regs(value)[static_cast<size_t>(reg)]);
      }
      known = e_.packWords(fn_.type(value).element(), elements, 4)[0];
    }
    if (shape_.operand == Elem::F32) {
      llvm::Value *number = e_.builder_.CreateBitCast(known, e_.builder_.getFloatTy());
      known = e_.assembly("cvt.rna.tf32.f32 $0, $1;", "=r,f", e_.builder_.getInt32Ty(), {number},
                          false);
    }
    known = e_.builder_.CreateBitCast(known, instruction_->getArg(0)->getType());
    return known;
  }

  Emitter &e_;
  const ir::Function &fn_;
  const ir::OpId op_;
  const ir::MmaShape shape_;
  const int32_t unit_; // elements in 32 bits
  llvm::Function *const instruction_;
  Registers registers_[2];
  std::map<int32_t, llvm::Value *> units_[2]; // by first register
};

void Emitter::lowerDot(ir::OpId op) {
  if (fn_.type(fn_.operand(op, 0)).isBuffer()) {
    return multiplyAddDot(op);
  }
  const ir::MmaShape *shape = passes::findMma(fn_, op, target_);
  ir::check(shape != nullptr, "a dot of tiles has a matrix instruction");
  MatrixDot(*this, op, *shape).run();
}

} // namespace libtile::codegen::nvidia
