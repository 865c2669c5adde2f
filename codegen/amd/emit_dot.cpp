// SPDX-License-Identifier: Apache-2.0
// Dots by MFMA and WMMA.
#include "codegen/amd/amd_emitter.h"
#include "codegen/amd/matrix_units.h"
#include "codegen/gpu/fragment_dot.h"
#include "codegen/require_pass.h"
#include "ir/ops.h"
#include "passes/gpu/plan_dots.h"

#include <span>

namespace libtile::codegen::amd {

// All elements of an operand that a lane has for one instruction are one vector to the intrinsic.
class MatrixDot : gpu::FragmentDot {
public:
  MatrixDot(AmdEmitter &emitter, ir::OpId op, const ir::DotUnit &unit)
      : FragmentDot(emitter, op, unit), e_(emitter), matrix_(matrixUnit(unit.name)),
        offsets_{offsetsOf(unit.a.regs, 1), offsetsOf(unit.b.regs, 1), offsetsOf(unit.acc.regs, 1)} {}

  void run() {
    Regs out = e_.regs(fn().operand(op_, 2));
    addProducts(out, unit_.k);
    e_.set(fn().result(op_), std::move(out));
  }

private:
  void multiply(Regs &sums, const ir::Coords &corner, int32_t k, int32_t) override {
    llvm::IRBuilder<> &b = builder();
    std::vector<int32_t> places;
    for (const ir::Coords &offset : offsets_[2]) {
      places.push_back(registerAt(2, at(corner, corner[row_] + offset[0], corner[row_ + 1] + offset[1])));
    }
    Regs parts;
    for (const int32_t place : places) {
      parts.push_back(sums[static_cast<size_t>(place)]);
    }
    llvm::Value *acc = e_.vectorOf(parts);
    for (int32_t group = 0; group < unit_.groups; ++group) {
      acc = call(operandAt(0, corner, k, group), operandAt(1, corner, k, group), acc);
    }
    for (unsigned i = 0; i < places.size(); ++i) {
      sums[static_cast<size_t>(places[i])] = b.CreateExtractElement(acc, i);
    }
  }

  llvm::Value *call(llvm::Value *left, llvm::Value *right, llvm::Value *acc) {
    llvm::IRBuilder<> &b = builder();
    if (matrix_.turned) {
      std::swap(left, right);
    }
    llvm::SmallVector<llvm::Value *, 9> arguments = {left, right, acc};
    if (matrix_.extra == MatrixUnit::Modes) {
      arguments.append(3, b.getInt32(0));
    } else if (matrix_.extra == MatrixUnit::Signs) {
      arguments = {b.getTrue(), left, b.getTrue(), right, acc, b.getFalse()};
    } else if (matrix_.extra == MatrixUnit::Formats) {
      arguments.append({b.getInt32(matrix_.formatA), b.getInt32(matrix_.formatB)});
      arguments.append(4, b.getInt32(0));
    }
    llvm::SmallVector<llvm::Type *, 9> types;
    for (llvm::Value *argument : arguments) {
      types.push_back(argument->getType());
    }
    auto *type = llvm::FunctionType::get(acc->getType(), types, false);
    return b.CreateCall(e_.module_.getOrInsertFunction(matrix_.intrinsic, type), arguments);
  }

  // The elements of one instruction, neighbours along k.
  llvm::Value *operandAt(unsigned operand, const ir::Coords &corner, int32_t k, int32_t group) {
    std::vector<int32_t> registers;
    const size_t count = offsets_[operand].size() / static_cast<size_t>(unit_.groups);
    for (const ir::Coords &offset : std::span(offsets_[operand]).subspan(static_cast<size_t>(group) * count, count)) {
      registers.push_back(registerAt(operand, operand == 0 ? leftAt(corner, k, offset) : rightAt(corner, k, offset)));
    }
    llvm::Value *&known = known_[operand][registers[0]];
    if (known == nullptr) {
      known = packed(fn().operand(op_, operand), registers);
    }
    return known;
  }

  llvm::Value *packed(ir::ValueId value, const std::vector<int32_t> &registers) {
    llvm::IRBuilder<> &b = builder();
    const ir::Type element = fn().type(value).element();
    llvm::SmallVector<llvm::Value *, 16> elements;
    for (const int32_t reg : registers) {
      elements.push_back(e_.regs(value)[static_cast<size_t>(reg)]);
    }
    const unsigned wordBytes = std::max(4U, static_cast<unsigned>(element.elementBytes()));
    const Regs words = e_.packWords(element, elements, wordBytes);
    llvm::Value *all = words.size() > 1 ? e_.vectorOf(words) : words[0];
    return b.CreateBitCast(all, operandType(words.size() * wordBytes * 8));
  }

  llvm::Type *operandType(uint64_t bits) {
    llvm::IRBuilder<> &b = builder();
    llvm::Type *const kTypes[] = {b.getHalfTy(),  b.getInt16Ty(), b.getBFloatTy(), b.getInt32Ty(),
                                  b.getInt64Ty(), b.getFloatTy(), b.getDoubleTy()};
    llvm::Type *word = kTypes[matrix_.word];
    const uint64_t count = bits / word->getPrimitiveSizeInBits().getFixedValue();
    return count == 1 ? word : llvm::FixedVectorType::get(word, static_cast<unsigned>(count));
  }

  AmdEmitter &e_;
  const MatrixUnit &matrix_;
  const std::array<std::vector<ir::Coords>, 3> offsets_;
  std::map<int32_t, llvm::Value *> known_[2]; // by first register
};

void AmdEmitter::lowerDot(ir::OpId op) {
  const ir::DotUnit &unit = passes::unitOf(fn_, op, target_);
  requirePass(fn_.type(fn_.operand(op, 0)).isBuffer() == unit.a.inShared, "lower_conversions");
  if (unit.a.inShared) {
    return multiplyAddDot(op);
  }
  MatrixDot(*this, op, unit).run();
}

} // namespace libtile::codegen::amd
