// SPDX-License-Identifier: Apache-2.0
// Prints and asserts: records for the frame's message() (frame.h). They stand in the kernel's own control
// flow, never in a nest, so that a program gives each record once.
#include "codegen/cpu/emitter.h"
#include "codegen/cpu/frame.h"
#include "ir/ops.h"

#include <cstddef>

namespace libtile::codegen::cpu {

using ir::Attr;
using ir::ValueId;
using llvm::Value;

// Memory of the function, for one message after the other: what is told is read at once.
Value *Emitter::messageMemory(llvm::Type *type, size_t number) {
  Value *&memory = messageMemory_[{type, number}];
  if (memory == nullptr) {
    const llvm::IRBuilder<>::InsertPointGuard guard(builder_);
    llvm::BasicBlock &entry = function_->getEntryBlock();
    builder_.SetInsertPoint(&entry, entry.begin());
    memory = builder_.CreateAlloca(type);
  }
  return memory;
}

//   if (frame->message) { record = {kind, number, program, operands}; frame->message(context, &record, bytes) }
void Emitter::tell(uint32_t kind, Message message, llvm::ArrayRef<Value *> operands) {
  const auto number = static_cast<uint32_t>(messages_.size());
  messages_.push_back(std::move(message));
  llvm::Type *int64 = builder_.getInt64Ty(), *pointer = builder_.getPtrTy();
  Value *callee = frameField(pointer, offsetof(libtile_frame, message));
  const auto call = [&] {
    const uint64_t bytes = sizeof(libtile_record) + operands.size() * sizeof(void *);
    Value *record = messageMemory(llvm::ArrayType::get(int64, bytes / sizeof(uint64_t)), 0);
    const auto put = [&](Value *value, uint64_t offset) {
      builder_.CreateStore(value,
                           builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), record, offset));
    };
    put(builder_.getInt32(kind), offsetof(libtile_record, kind));
    put(builder_.getInt32(number), offsetof(libtile_record, message));
    put(programNumber(), offsetof(libtile_record, program));
    for (size_t i = 0; i < operands.size(); ++i) {
      put(operands[i], sizeof(libtile_record) + i * sizeof(void *));
    }
    auto *type = llvm::FunctionType::get(builder_.getVoidTy(), {pointer, pointer, int64}, false);
    Value *context = frameField(pointer, offsetof(libtile_frame, message_context));
    llvm::CallInst *told =
        builder_.CreateCall(type, callee, {context, record, builder_.getInt64(bytes)});
    told->setDoesNotThrow();
    told->addFnAttr(llvm::Attribute::Cold);
  };
  branch(builder_.CreateIsNotNull(callee), call, [] {});
}

void Emitter::emitPrint(ir::OpId op) {
  Message message{false, fn_.locationOf(op), std::string(fn_.getText(op, Attr::text)), {}};
  const auto formats = ir::readPrintFormats(fn_.getText(op, Attr::formats));
  llvm::SmallVector<Value *, 4> operands;
  for (unsigned i = 0; i < fn_.numOperands(op); ++i) {
    const ValueId value = fn_.operand(op, i);
    const ir::Type &type = fn_.type(value);
    message.operands.push_back(
        {{type.shape().begin(), type.shape().end()}, type.element(), (*formats)[i]});
    Value *address = scalar(value);
    if (!type.isBuffer()) {
      address = messageMemory(elementwise_.memoryType(type), i);
      builder_.CreateStore(scalar(value), address);
    }
    operands.push_back(address);
  }
  tell(LIBTILE_PRINT, std::move(message), operands);
}

void Emitter::emitAssert(ir::OpId op) {
  Value *isFalse = builder_.CreateNot(scalar(fn_.operand(op, 0)));
  llvm::BasicBlock *holds = splitHere();
  llvm::BasicBlock *fails = newBlock("assertion");
  builder_.CreateCondBr(isFalse, fails, holds, unlikely());
  builder_.SetInsertPoint(fails);
  tell(LIBTILE_ASSERT, {true, fn_.locationOf(op), std::string(fn_.getText(op, Attr::text)), {}}, {});
  stopLaunch();
  // Before what was split off, if anything was.
  builder_.SetInsertPoint(holds, holds->begin());
}

} // namespace libtile::codegen::cpu
