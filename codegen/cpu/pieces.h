// SPDX-License-Identifier: Apache-2.0
// Long code as several functions.
//
// LLVM's time for a function grows faster than its length: the register allocator looks at each value in each
// block that it lives through, and in front of thousands of loops values live through thousands of blocks. So
// long runs of statements become functions, called where they stood: *pieces*. What a piece needs of the code
// around it comes as arguments; what it computes for others goes through memory of the caller. A call every
// thousand operations costs nothing that can be measured, and a program that is no longer than one piece stays
// as it is.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/DenseSet.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/ValueHandle.h>

#include <vector>

namespace libtile::codegen::cpu {

// A run of statements that is being emitted: begins behind that instruction of the block, or at the head of
// its code if there is none.
struct OpenPiece {
  llvm::BasicBlock *block;
  llvm::WeakVH behind;
  unsigned length; // of the code in front of it
};

// Entered at `head`, left to `end`, or to a block by which programs end early.
struct Piece {
  llvm::BasicBlock *head, *end;
};

// What a region that is entered at its first block needs of the code around it, at its head. Places in scratch, comparisons
// with constants and the like are made anew there: handed over, they would be hundreds of arguments of each piece, and
// thousands of values that live in front of all pieces. Of each other value there is one copy, by an instruction that
// stands for it and is dropped later: extraction looks at all uses of what a region needs, and those of a value that
// every piece needs would be looked at for every piece.
class Inputs {
public:
  explicit Inputs(llvm::ArrayRef<llvm::BasicBlock *> region);
  std::vector<llvm::Instruction *> handedOver; // these copies
  std::vector<llvm::Instruction *> left;       // what was made anew; nobody may need it now

private:
  [[nodiscard]] bool isInput(const llvm::Value *value) const;
  llvm::Value *ownOf(llvm::Value *value, int depth);

  llvm::DenseSet<const llvm::BasicBlock *> inside_;
  llvm::DenseMap<llvm::Value *, llvm::Value *> ownOf_;
  llvm::IRBuilder<> builder_;
};

class Pieces {
public:
  explicit Pieces(llvm::IRBuilder<> &builder) : builder_(builder) {}

  // Counts code: about one unit an instruction.
  void add(unsigned length) { length_ += length; }
  // At the builder's place, as are the next two.
  [[nodiscard]] OpenPiece begin() const;
  // Ends the run where it is long enough, and begins the next.
  void endIfLong(OpenPiece &piece);
  // Makes functions of the pieces, inner ones first. `exits`: blocks that belong to no piece.
  void extract(llvm::ArrayRef<llvm::BasicBlock *> exits);

private:
  llvm::IRBuilder<> &builder_;
  unsigned length_ = 0;
  std::vector<Piece> pieces_;
};

} // namespace libtile::codegen::cpu
