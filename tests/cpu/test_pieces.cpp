// SPDX-License-Identifier: Apache-2.0
// What cutting long code into functions costs: uses that extraction looks at, and what is left of it in the code.
#include "codegen/cpu/pieces.h"

#include <gtest/gtest.h>

#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>

namespace libtile::test {
namespace {

using codegen::cpu::Inputs;
using codegen::cpu::Pieces;
using llvm::BasicBlock;

// void f(ptr %p, i32 %n) with an empty entry block.
class PiecesTest : public testing::Test {
protected:
  PiecesTest() {
    llvm::Type *types[] = {builder.getPtrTy(), builder.getInt32Ty()};
    auto *type = llvm::FunctionType::get(builder.getVoidTy(), types, false);
    function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "f", module);
    builder.SetInsertPoint(newBlock());
  }
  BasicBlock *newBlock() { return BasicBlock::Create(context, "", function); }
  // 50 stores that need all of these.
  void emitStores(llvm::ArrayRef<llvm::Value *> values) {
    for (int i = 0; i < 50; ++i) {
      for (llvm::Value *value : values) {
        builder.CreateStore(value, function->getArg(0));
      }
    }
  }

  llvm::LLVMContext context;
  llvm::Module module{"m", context};
  llvm::IRBuilder<> builder{context};
  llvm::Function *function = nullptr;
};

TEST_F(PiecesTest, ARegionUsesWhatIsAroundItOnce) {
  llvm::Value *p = function->getArg(0), *n = function->getArg(1);
  llvm::Value *before = builder.CreateLoad(builder.getInt32Ty(), p);
  BasicBlock *head = newBlock(), *loop = newBlock(), *end = newBlock();
  builder.CreateBr(head);
  builder.SetInsertPoint(head);
  emitStores({n, before});
  builder.CreateBr(loop);
  builder.SetInsertPoint(loop);
  llvm::PHINode *count = builder.CreatePHI(builder.getInt32Ty(), 2);
  count->addIncoming(before, head);
  llvm::Value *next = builder.CreateAdd(count, n);
  count->addIncoming(next, loop);
  emitStores({n, before, next});
  builder.CreateCondBr(builder.CreateICmpEQ(next, n), end, loop);
  builder.SetInsertPoint(end);
  builder.CreateRetVoid();

  EXPECT_EQ(Inputs({head, loop}).handedOver.size(), 3U); // n, before, p
  EXPECT_EQ(n->getNumUses(), 1U);
  EXPECT_EQ(before->getNumUses(), 1U);
  EXPECT_EQ(p->getNumUses(), 2U);
  EXPECT_FALSE(llvm::verifyFunction(*function, &llvm::errs()));
}

TEST_F(PiecesTest, WhatIsCheapIsMadeAnew) {
  llvm::Value *p = function->getArg(0), *n = function->getArg(1);
  // Places and a comparison that all pieces need; a sum of two values, which is handed over.
  llvm::Value *place = builder.CreateConstGEP1_32(builder.getInt8Ty(), p, 64);
  llvm::Value *further = builder.CreateConstGEP1_32(builder.getFloatTy(), place, 3);
  llvm::Value *isLarge = builder.CreateICmpSGT(builder.CreateAdd(n, builder.getInt32(1)), builder.getInt32(7));
  llvm::Value *loaded = builder.CreateLoad(builder.getInt32Ty(), p);
  llvm::Value *sum = builder.CreateAdd(loaded, n);
  Pieces pieces(builder);
  for (int i = 0; i < 3; ++i) {
    codegen::cpu::OpenPiece piece = pieces.begin();
    builder.CreateStore(sum, further);
    builder.CreateStore(isLarge, place);
    pieces.add(2000);
    pieces.endIfLong(piece);
  }
  builder.CreateRetVoid();
  pieces.extract({});

  ASSERT_EQ(module.size(), 4U);
  for (const llvm::Function &made : module) {
    EXPECT_FALSE(llvm::verifyFunction(made, &llvm::errs()));
    EXPECT_LE(made.arg_size(), 3U); // sum, p, n
  }
  // What is left in front of the pieces: the load and the sum.
  EXPECT_EQ(function->getEntryBlock().size(), 3U);
}

TEST_F(PiecesTest, NothingIsLeftOfTheCopies) {
  llvm::Value *n = function->getArg(1);
  Pieces pieces(builder);
  codegen::cpu::OpenPiece outer = pieces.begin();
  for (int i = 0; i < 3; ++i) {
    codegen::cpu::OpenPiece inner = pieces.begin();
    emitStores({n});
    pieces.add(2000);
    pieces.endIfLong(inner);
  }
  pieces.add(2000);
  pieces.endIfLong(outer);
  builder.CreateRetVoid();
  pieces.extract({});

  EXPECT_EQ(module.size(), 5U); // f, three pieces, and the one around them
  unsigned stores = 0;
  for (const llvm::Function &made : module) {
    EXPECT_FALSE(llvm::verifyFunction(made, &llvm::errs()));
    for (const llvm::Instruction &instruction : llvm::instructions(made)) {
      EXPECT_FALSE(llvm::isa<llvm::FreezeInst>(instruction));
      stores += llvm::isa<llvm::StoreInst>(instruction) ? 1 : 0;
    }
  }
  EXPECT_EQ(stores, 150U);
}

} // namespace
} // namespace libtile::test
