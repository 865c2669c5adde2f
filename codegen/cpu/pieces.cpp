// SPDX-License-Identifier: Apache-2.0
#include "codegen/cpu/pieces.h"

#include "ir/function.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/DenseSet.h>
#include <llvm/ADT/SetVector.h>
#include <llvm/Transforms/Utils/CodeExtractor.h>

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

} // namespace

std::vector<llvm::Instruction *> copyInputs(llvm::ArrayRef<llvm::BasicBlock *> region) {
  const llvm::DenseSet<const llvm::BasicBlock *> inside(region.begin(), region.end());
  const auto isInput = [&](const llvm::Value *value) {
    const auto *made = llvm::dyn_cast<llvm::Instruction>(value);
    return llvm::isa<llvm::Argument>(value) || (made != nullptr && !inside.contains(made->getParent()));
  };
  llvm::BasicBlock *head = region.front();
  llvm::IRBuilder<> builder(head, head->getFirstInsertionPt());
  llvm::DenseMap<llvm::Value *, llvm::Value *> copyOf;
  std::vector<llvm::Instruction *> copies;
  for (llvm::BasicBlock *block : region) {
    for (llvm::Instruction &instruction : *block) {
      for (llvm::Use &use : instruction.operands()) {
        if (!isInput(use)) {
          continue;
        }
        llvm::Value *&copy = copyOf[use];
        if (copy == nullptr) {
          copy = builder.CreateFreeze(use);
          copies.push_back(llvm::cast<llvm::Instruction>(copy));
        }
        use = copy;
      }
    }
  }
  return copies;
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
  for (const Piece &piece : pieces_) {
    llvm::append_range(copies, copyInputs(blocksOf(piece, exits).getArrayRef()));
  }
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
