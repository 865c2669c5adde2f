// SPDX-License-Identifier: Apache-2.0
#include "codegen/cpu/pieces.h"

#include "ir/function.h"

#include <llvm/ADT/SetVector.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/Transforms/Utils/CodeExtractor.h>
#include <llvm/Transforms/Utils/Local.h>

namespace libtile::codegen::cpu {

namespace {

// Compile times of long kernels are the same within a tenth from 256 to 2048.
constexpr unsigned kLongest = 1024;

// What can be reached from its head.
llvm::SetVector<llvm::BasicBlock *> blocksOf(const Piece &piece,
                                             llvm::ArrayRef<llvm::BasicBlock *> exits) {
  llvm::SetVector<llvm::BasicBlock *> blocks;
  blocks.insert(piece.head);
  for (size_t i = 0; i < blocks.size(); ++i) {
    for (llvm::BasicBlock *next : llvm::successors(blocks[i])) {
      if (next != piece.end && !llvm::is_contained(exits, next)) {
        blocks.insert(next);
      }
    }
  }
  return blocks;
}

constexpr int kDeepest = 8; // instructions that lead to an input and are made anew

// Takes no longer than to read what is handed over.
bool isCheap(const llvm::Instruction &instruction) {
  const auto constants = llvm::count_if(instruction.operands(), [](const llvm::Use &use) { return llvm::isa<llvm::Constant>(use); });
  const bool oneInput = constants + 1 >= static_cast<int64_t>(instruction.getNumOperands());
  const auto *binary = llvm::dyn_cast<llvm::BinaryOperator>(&instruction);
  const bool kind = llvm::isa<llvm::GetElementPtrInst, llvm::CastInst, llvm::ICmpInst>(instruction) ||
                    (binary != nullptr && binary->getType()->isIntegerTy() && !binary->isIntDivRem());
  return oneInput && kind && !instruction.getType()->isVectorTy();
}

} // namespace

Inputs::Inputs(llvm::ArrayRef<llvm::BasicBlock *> region)
    : inside_(region.begin(), region.end()), builder_(region.front(), region.front()->getFirstInsertionPt()) {
  for (llvm::BasicBlock *block : region) {
    for (llvm::Instruction &instruction : *block) {
      for (llvm::Use &use : instruction.operands()) {
        if (isInput(use)) {
          use = ownOf(use, kDeepest);
        }
      }
    }
  }
}

bool Inputs::isInput(const llvm::Value *value) const {
  const auto *made = llvm::dyn_cast<llvm::Instruction>(value);
  return llvm::isa<llvm::Argument>(value) || (made != nullptr && !inside_.contains(made->getParent()));
}

// Made anew of what it is made of, if that is cheap, down to `depth` instructions; else handed over.
llvm::Value *Inputs::ownOf(llvm::Value *value, int depth) {
  if (llvm::Value *known = ownOf_.lookup(value)) {
    return known;
  }
  auto *made = llvm::dyn_cast<llvm::Instruction>(value);
  llvm::Value *own = nullptr;
  if (made != nullptr && depth > 0 && isCheap(*made)) {
    llvm::SmallVector<llvm::Value *, 4> operands;
    for (llvm::Value *operand : made->operands()) {
      operands.push_back(isInput(operand) ? ownOf(operand, depth - 1) : operand);
    }
    llvm::Instruction *again = builder_.Insert(made->clone());
    for (unsigned i = 0; i < operands.size(); ++i) {
      again->setOperand(i, operands[i]);
    }
    left.push_back(made);
    own = again;
  } else {
    own = builder_.CreateFreeze(value);
    handedOver.push_back(llvm::cast<llvm::Instruction>(own));
  }
  ownOf_[value] = own;
  return own;
}

OpenPiece Pieces::begin() const {
  llvm::BasicBlock *block = builder_.GetInsertBlock();
  return {block, block->empty() ? nullptr : &block->back(), length_};
}

void Pieces::endIfLong(OpenPiece &piece) {
  if (length_ - piece.length < kLongest) {
    return;
  }
  llvm::BasicBlock *end =
      llvm::BasicBlock::Create(builder_.getContext(), "piece.end", piece.block->getParent());
  builder_.CreateBr(end);
  builder_.SetInsertPoint(end);
  llvm::Value *behind = piece.behind;
  const auto first = behind == nullptr ? piece.block->getFirstInsertionPt()
                                       : std::next(llvm::cast<llvm::Instruction>(behind)->getIterator());
  pieces_.push_back({piece.block->splitBasicBlock(first, "piece"), end});
  length_ = piece.length + 1; // for the code around, a call
  piece = begin();
}

void Pieces::extract(llvm::ArrayRef<llvm::BasicBlock *> exits) {
  if (pieces_.empty()) {
    return;
  }
  std::vector<llvm::Instruction *> copies;
  llvm::SmallVector<llvm::WeakTrackingVH, 32> left;
  for (const Piece &piece : pieces_) {
    const Inputs inputs(blocksOf(piece, exits).getArrayRef());
    llvm::append_range(copies, inputs.handedOver);
    left.append(inputs.left.begin(), inputs.left.end());
  }
  llvm::RecursivelyDeleteTriviallyDeadInstructionsPermissive(left);
  const llvm::CodeExtractorAnalysisCache cache(*pieces_.front().head->getParent());
  for (const Piece &piece : pieces_) {
    llvm::CodeExtractor extractor(blocksOf(piece, exits).getArrayRef(), nullptr, false, nullptr, nullptr,
                                  nullptr, false, false, nullptr, "piece");
    ir::check(extractor.isEligible(), "a piece is entered at its head");
    llvm::Function *made = extractor.extractCodeRegion(cache);
    ir::check(made != nullptr, "a piece becomes a function");
  }
  for (llvm::Instruction *copy : copies) {
    copy->replaceAllUsesWith(copy->getOperand(0));
    copy->eraseFromParent();
  }
}

} // namespace libtile::codegen::cpu
