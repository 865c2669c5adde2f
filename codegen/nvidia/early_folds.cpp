// SPDX-License-Identifier: Apache-2.0
#include "codegen/nvidia/early_folds.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/BasicBlock.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace libtile::codegen::nvidia {

namespace {

class BlockOrder {
public:
  explicit BlockOrder(llvm::BasicBlock &block) : block_(block) {}

  void run() {
    for (llvm::Instruction &it : block_) {
      const auto here = static_cast<unsigned>(followers_.size());
      followers_.emplace_back(&it);
      const bool isPhi = llvm::isa<llvm::PHINode>(it);
      firstPlace_ = isPhi ? here : firstPlace_;
      const auto [place, frees] = isPhi ? std::pair(here, 0U) : operands(it);
      const bool isEarly = frees >= leastToMove(it) && place + 1 < here;
      placeOf_[&it] = isEarly ? place : here;
      if (isEarly) {
        followers_[place].moved.push_back(&it);
      }
    }
    for (const Followers &each : followers_) {
      llvm::Instruction *last = each.first;
      for (llvm::Instruction *it : each.moved) {
        it->moveAfter(last);
        last = it;
      }
    }
  }

private:
  struct Followers {
    explicit Followers(llvm::Instruction *it) : first(it) {}
    llvm::Instruction *first;
    llvm::SmallVector<llvm::Instruction *, 2> moved; // behind it, in this order
  };

  // Values of the block that nobody else reads, so that their registers are free behind it.
  static unsigned leastToMove(const llvm::Instruction &it) {
    if (llvm::isa<llvm::InsertElementInst>(it)) {
      return 1; // the vector's register has room for it
    }
    const auto *call = llvm::dyn_cast<llvm::IntrinsicInst>(&it);
    const bool isPure = llvm::isa<llvm::BinaryOperator>(it) || (call != nullptr && call->doesNotAccessMemory() && !call->mayHaveSideEffects());
    return isPure ? 2 : ~0U;
  }

  // The place of the last one that the block makes, and how many of them have no other reader.
  [[nodiscard]] std::pair<unsigned, unsigned> operands(const llvm::Instruction &it) const {
    unsigned place = firstPlace_, frees = 0;
    for (const llvm::Value *operand : it.operands()) {
      if (const auto found = placeOf_.find(operand); found != placeOf_.end()) {
        place = std::max(place, found->second);
        frees += operand->hasOneUse() ? 1 : 0;
      }
    }
    return {place, frees};
  }

  llvm::BasicBlock &block_;
  unsigned firstPlace_ = 0; // phis stay together, at the head
  std::vector<Followers> followers_; // of each instruction of the block
  llvm::DenseMap<const llvm::Value *, unsigned> placeOf_;
};

} // namespace

void foldEarly(llvm::Function &kernel) {
  for (llvm::BasicBlock &block : kernel) {
    BlockOrder(block).run();
  }
}

} // namespace libtile::codegen::nvidia
