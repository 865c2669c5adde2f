// SPDX-License-Identifier: Apache-2.0
// The kernel's function: reads the launch's frame (frame.h), runs a range of programs, and comes back
// early where the status word says so.
#include "codegen/cpu/emitter.h"
#include "codegen/cpu/frame.h"
#include "codegen/cpu/streams.h"

#include <llvm/IR/MDBuilder.h>
#include <llvm/Transforms/Utils/Local.h>

#include <cstddef>

namespace libtile::codegen::cpu {

using ir::ValueId;
using llvm::Value;

std::string symbolOf(const ir::Function &fn) { return "kernel." + fn.name; }

Emitter::Emitter(const ir::Function &fn, const ir::Target &target, llvm::Module &module)
    : fn_(fn), target_(target), module_(module), builder_(module.getContext()),
      elementwise_(builder_, target.roundsToBf16), forms_(1, std::vector<Form>(fn.numValues())), pieces_(builder_) {}

void Emitter::run() {
  ir::check(fn_.stage == ir::Stage::Nested, "the CPU's generator takes the nested stage");
  llvm::Type *pointer = builder_.getPtrTy();
  llvm::Type *int64 = builder_.getInt64Ty();
  auto *type = llvm::FunctionType::get(int64, {pointer, int64, int64, pointer}, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, symbolOf(fn_), module_);
  function_->setDoesNotThrow();
  for (unsigned i : {0u, 3u}) {
    function_->addParamAttr(i, llvm::Attribute::NoAlias);
  }
  frame_ = function_->getArg(0);
  arena_ = function_->getArg(3);
  builder_.SetInsertPoint(newBlock("entry"));
  scopes_.emplace_back();
  loadFrame();
  findAskers();
  openArena();
  openSums();
  emitPrograms(function_->getArg(1), function_->getArg(2));
  scopes_.pop_back();
  sweep();
  pieces_.extract({leave_, outOfBounds_});
}

Value *Emitter::frameField(llvm::Type *type, size_t offset) {
  Value *address = builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), frame_, offset);
  return builder_.CreateLoad(type, address);
}

void Emitter::loadFrame() {
  Value *slots = frameField(builder_.getPtrTy(), offsetof(libtile_frame, arguments));
  for (unsigned i = 0; i < fn_.args(fn_.body()).size(); ++i) {
    const ValueId argument = fn_.arg(fn_.body(), i);
    const ir::Type type = fn_.type(argument);
    Value *slot = builder_.CreateConstInBoundsGEP1_64(builder_.getInt64Ty(), slots, i);
    Value *value = builder_.CreateLoad(elementwise_.memoryType(type), slot);
    define(argument, elementwise_.fromMemory(type, value), 0, false);
  }
  for (unsigned axis = 0; axis < 3; ++axis) {
    grid_[axis] = frameField(builder_.getInt32Ty(),
                             offsetof(libtile_frame, grid) + axis * sizeof(int32_t));
  }
  status_ = frameField(builder_.getPtrTy(), offsetof(libtile_frame, status));
}

// Program indices count up with carries; one division at the start finds the first.
std::array<Value *, 3> Emitter::firstProgram(Value *first) {
  llvm::Type *int32 = builder_.getInt32Ty();
  llvm::Type *int64 = builder_.getInt64Ty();
  Value *x64 = builder_.CreateZExt(grid_[0], int64);
  Value *y64 = builder_.CreateZExt(grid_[1], int64);
  Value *rows = builder_.CreateUDiv(first, x64);
  return {builder_.CreateTrunc(builder_.CreateURem(first, x64), int32),
          builder_.CreateTrunc(builder_.CreateURem(rows, y64), int32),
          builder_.CreateTrunc(builder_.CreateUDiv(rows, y64), int32)};
}

std::array<Value *, 3> Emitter::nextProgram() {
  llvm::Type *int32 = builder_.getInt32Ty();
  Value *zero = builder_.getInt32(0);
  Value *x = builder_.CreateAdd(program_[0], builder_.getInt32(1));
  Value *wrapsX = builder_.CreateICmpEQ(x, grid_[0]);
  Value *y = builder_.CreateAdd(program_[1], builder_.CreateZExt(wrapsX, int32));
  Value *wrapsY = builder_.CreateICmpEQ(y, grid_[1]);
  Value *z = builder_.CreateAdd(program_[2], builder_.CreateZExt(wrapsY, int32));
  return {builder_.CreateSelect(wrapsX, zero, x), builder_.CreateSelect(wrapsY, zero, y), z};
}

void Emitter::emitPrograms(Value *first, Value *count) {
  llvm::BasicBlock *begin = newBlock("begin");
  llvm::BasicBlock *exit = newBlock("exit");
  leave_ = newBlock("leave");
  outOfBounds_ = newBlock("out_of_bounds");
  llvm::BasicBlock *entry = builder_.GetInsertBlock();
  builder_.CreateCondBr(builder_.CreateICmpNE(count, builder_.getInt64(0)), begin, exit);
  builder_.SetInsertPoint(begin);
  const std::array<Value *, 3> start = firstProgram(first);
  llvm::BasicBlock *head = newBlock("program");
  openScope(builder_.CreateBr(head), false, fn_.ownEffects(fn_.last(fn_.body())));
  builder_.SetInsertPoint(head);
  llvm::PHINode *done = builder_.CreatePHI(builder_.getInt64Ty(), 2);
  done->addIncoming(builder_.getInt64(0), begin);
  llvm::PHINode *index[3];
  for (unsigned axis = 0; axis < 3; ++axis) {
    index[axis] = builder_.CreatePHI(builder_.getInt32Ty(), 2);
    index[axis]->addIncoming(start[axis], begin);
    program_[axis] = index[axis];
  }
  emitBlock(fn_.body());
  const std::array<Value *, 3> next = nextProgram();
  Value *after = builder_.CreateAdd(done, builder_.getInt64(1));
  Value *isLast = builder_.CreateICmpEQ(after, count);
  Value *ends = builder_.CreateOr(isLast, statusIsFrom(LIBTILE_RETURN));
  llvm::BasicBlock *latch = builder_.GetInsertBlock();
  for (unsigned axis = 0; axis < 3; ++axis) {
    index[axis]->addIncoming(next[axis], latch);
  }
  done->addIncoming(after, latch);
  builder_.CreateCondBr(ends, exit, head);
  closeScope();
  emitOutOfBounds();
  builder_.SetInsertPoint(leave_);
  builder_.CreateBr(exit);
  builder_.SetInsertPoint(exit);
  llvm::PHINode *ran = builder_.CreatePHI(builder_.getInt64Ty(), 3);
  ran->addIncoming(builder_.getInt64(0), entry);
  ran->addIncoming(after, latch);
  if (llvm::pred_empty(leave_)) {
    leave_->eraseFromParent();
    leave_ = nullptr;
  } else {
    ran->addIncoming(done, leave_);
  }
  if (streams_) {
    finishStreams(builder_);
  }
  addSums();
  builder_.CreateRet(ran);
}

Value *Emitter::statusIsFrom(uint32_t status) {
  llvm::LoadInst *word = builder_.CreateLoad(builder_.getInt32Ty(), status_);
  word->setAtomic(llvm::AtomicOrdering::Monotonic);
  return builder_.CreateICmpUGE(word, builder_.getInt32(status));
}

Value *Emitter::programNumber() {
  llvm::Type *int64 = builder_.getInt64Ty();
  Value *program = builder_.CreateZExt(program_[2], int64);
  for (unsigned axis = 2; axis-- > 0;) {
    program = builder_.CreateMul(program, builder_.CreateZExt(grid_[axis], int64));
    program = builder_.CreateAdd(program, builder_.CreateZExt(program_[axis], int64));
  }
  return program;
}

void Emitter::stopLaunch() {
  builder_.CreateAtomicRMW(llvm::AtomicRMWInst::UMax, status_, builder_.getInt32(LIBTILE_STOP),
                           llvm::Align(4), llvm::AtomicOrdering::Monotonic);
  builder_.CreateBr(leave_);
}

llvm::MDNode *Emitter::unlikely() {
  return llvm::MDBuilder(module_.getContext()).createUnlikelyBranchWeights();
}

// if *status >= ATTEND and frame->poll(frame) != 0: leave
void Emitter::emitPoll() {
  llvm::BasicBlock *called = newBlock("called");
  llvm::BasicBlock *again = newBlock("again");
  builder_.CreateCondBr(statusIsFrom(LIBTILE_ATTEND), called, again, unlikely());
  builder_.SetInsertPoint(called);
  llvm::Type *pointer = builder_.getPtrTy();
  auto *type = llvm::FunctionType::get(builder_.getInt32Ty(), {pointer}, false);
  Value *poll = frameField(pointer, offsetof(libtile_frame, poll));
  llvm::CallInst *answer = builder_.CreateCall(type, poll, {frame_});
  answer->setDoesNotThrow();
  answer->addFnAttr(llvm::Attribute::Cold);
  builder_.CreateCondBr(builder_.CreateICmpNE(answer, builder_.getInt32(0)), leave_, again);
  builder_.SetInsertPoint(again);
}

// Drops what nothing uses: vectors of addresses above all.
void Emitter::sweep() {
  llvm::SmallVector<llvm::WeakTrackingVH, 64> dead;
  for (llvm::BasicBlock &block : *function_) {
    for (llvm::Instruction &instruction : block) {
      if (llvm::isInstructionTriviallyDead(&instruction)) {
        dead.emplace_back(&instruction);
      }
    }
  }
  llvm::RecursivelyDeleteTriviallyDeadInstructionsPermissive(dead);
}

} // namespace libtile::codegen::cpu
