// SPDX-License-Identifier: Apache-2.0
// Prints and assertions: records.h.
#include "codegen/amd/amd_emitter.h"
#include "codegen/amd/records.h"
#include "codegen/llvm_compat.h"
#include "ir/ops.h"
#include "ir/source_text.h"

#include <llvm/IR/IntrinsicsAMDGPU.h>

namespace libtile::codegen::amd {

namespace {

constexpr unsigned kGlobal = 1; // address space

} // namespace

llvm::Value *AmdEmitter::constantText(const std::string &text) {
  records_.push_back({.isAssert = false, .format = text});
  return i32(static_cast<int64_t>(records_.size()) - 1);
}

llvm::GlobalVariable *AmdEmitter::recordsVariable() {
  if (llvm::GlobalVariable *known = module_.getGlobalVariable(kRecordsVariable)) {
    return known;
  }
  auto *type = llvm::StructType::get(context_, {builder_.getInt64Ty(), builder_.getInt32Ty(), builder_.getInt32Ty()});
  auto *made = new llvm::GlobalVariable(module_, type, false, llvm::GlobalValue::ExternalLinkage, llvm::ConstantAggregateZero::get(type),
                                        kRecordsVariable, nullptr, llvm::GlobalValue::NotThreadLocal, kGlobal, true);
  made->setVisibility(llvm::GlobalValue::ProtectedVisibility);
  made->setAlignment(llvm::Align(8));
  return made;
}

void AmdEmitter::appendRecord(llvm::Value *line, llvm::ArrayRef<llvm::Value *> arguments) {
  llvm::IRBuilder<> &b = builder_;
  llvm::GlobalVariable *variable = recordsVariable();
  auto *pointer = llvm::PointerType::get(context_, kGlobal);
  llvm::Value *buffer = b.CreateIntToPtr(b.CreateLoad(b.getInt64Ty(), variable), pointer);
  llvm::Value *first = b.CreateLoad(b.getInt32Ty(), b.CreateConstGEP1_64(b.getInt8Ty(), variable, offsetof(RecordsVariable, firstLine)));
  llvm::Value *capacity = b.CreateLoad(b.getInt32Ty(), b.CreateConstGEP1_64(b.getInt8Ty(), buffer, offsetof(RecordBuffer, capacity)));
  const auto bytes = static_cast<int64_t>(8 + 8 * arguments.size());
  llvm::Value *at = b.CreateAtomicRMW(llvm::AtomicRMWInst::Add, buffer, i32(bytes), llvm::MaybeAlign(4), llvm::AtomicOrdering::Monotonic,
                                      context_.getOrInsertSyncScopeID("agent"));
  llvm::BasicBlock *writing = newBlock("record"), *after = newBlock("record.end");
  b.CreateCondBr(b.CreateAnd(b.CreateICmpULT(at, capacity), b.CreateICmpULE(b.CreateAdd(at, i32(bytes)), capacity)), writing, after);
  b.SetInsertPoint(writing);
  llvm::Value *record = b.CreateGEP(b.getInt8Ty(), buffer, b.CreateAdd(b.CreateZExt(at, b.getInt64Ty()), b.getInt64(sizeof(RecordBuffer))));
  b.CreateStore(b.CreateAdd(first, line), record);
  b.CreateStore(i32(static_cast<int64_t>(arguments.size())), b.CreateConstGEP1_64(b.getInt8Ty(), record, 4));
  for (unsigned i = 0; i < arguments.size(); ++i) {
    b.CreateStore(arguments[i], b.CreateConstGEP1_64(b.getInt8Ty(), record, 8 + 8 * i));
  }
  b.CreateBr(after);
  b.SetInsertPoint(after);
}

void AmdEmitter::printLine(llvm::Value *line, Regs arguments, llvm::Value *predicate) {
  for (llvm::Value *&argument : arguments) {
    llvm::Type *type = argument->getType();
    if (type->isFloatingPointTy()) {
      argument = builder_.CreateBitCast(builder_.CreateFPExt(argument, builder_.getDoubleTy()), builder_.getInt64Ty());
    } else if (type->isPointerTy()) {
      argument = builder_.CreatePtrToInt(argument, builder_.getInt64Ty());
    } else {
      argument = builder_.CreateZExt(argument, builder_.getInt64Ty());
    }
  }
  where(predicate, {}, [&] {
    appendRecord(line, arguments);
    return Regs();
  });
}

// All threads of the program see the same; one says so, and they end.
void AmdEmitter::lowerAssert(ir::OpId op) {
  const ir::Location &place = fn_.locationOf(op).place();
  const std::string_view said = fn_.getText(op, ir::Attr::text);
  const std::string text(said.empty() ? ir::textAt(place) : said);
  const std::string where = place.known() ? place.file->name + ":" + std::to_string(place.file->firstLine + place.line - 1) : "<unknown>";
  records_.push_back({.isAssert = true, .format = where + ": " + fn_.name + ": assertion failed: " + text});
  llvm::Value *line = i32(static_cast<int64_t>(records_.size()) - 1);
  llvm::BasicBlock *fails = newBlock("assert"), *holds = newBlock("assert.end");
  builder_.CreateCondBr(scalar(fn_.operand(op, 0)), holds, fails);
  builder_.SetInsertPoint(fails);
  this->where(isFirstThread(), {}, [&] {
    appendRecord(line, {});
    return Regs();
  });
  builder_.CreateCall(compat::intrinsic(module_, llvm::Intrinsic::amdgcn_endpgm));
  builder_.CreateUnreachable();
  builder_.SetInsertPoint(holds);
}

} // namespace libtile::codegen::amd
