// SPDX-License-Identifier: Apache-2.0
// Follows the logic that a mask is made of down to constants.
#include "codegen/cpu/known_lanes.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Instruction.h>

namespace libtile::codegen::cpu {

using llvm::Value;

namespace {

KnownLanes knownLanesFrom(const Value *mask, unsigned depth) {
  using llvm::Instruction;
  const unsigned count = llvm::cast<llvm::FixedVectorType>(mask->getType())->getNumElements();
  KnownLanes known{llvm::APInt(count, 0), llvm::APInt(count, 0)};
  if (const auto *constant = llvm::dyn_cast<llvm::Constant>(mask)) {
    for (unsigned lane = 0; lane < count; ++lane) {
      const llvm::Constant *element = constant->getAggregateElement(lane);
      known.on.setBitVal(lane, element != nullptr && element->isOneValue());
      known.off.setBitVal(lane, element != nullptr && element->isNullValue());
    }
    return known;
  }
  const auto *instruction = llvm::dyn_cast<Instruction>(mask);
  constexpr unsigned kDeepest = 8;
  const bool isSelect = instruction != nullptr && instruction->getOpcode() == Instruction::Select;
  if (depth == kDeepest || instruction == nullptr || !(isSelect || instruction->isBitwiseLogicOp())) {
    return known;
  }
  const KnownLanes a = knownLanesFrom(instruction->getOperand(isSelect ? 1 : 0), depth + 1);
  const KnownLanes b = knownLanesFrom(instruction->getOperand(isSelect ? 2 : 1), depth + 1);
  if (instruction->getOpcode() == Instruction::And) {
    return {a.on & b.on, a.off | b.off};
  }
  if (instruction->getOpcode() == Instruction::Or) {
    return {a.on | b.on, a.off & b.off};
  }
  return isSelect ? KnownLanes{a.on & b.on, a.off & b.off}
                  : KnownLanes{(a.on & b.off) | (a.off & b.on), (a.on & b.on) | (a.off & b.off)};
}

} // namespace

KnownLanes knownLanes(const Value *mask) { return knownLanesFrom(mask, 0); }

} // namespace libtile::codegen::cpu
