// SPDX-License-Identifier: Apache-2.0
// Prints and asserts, through two functions that the driver has on every device: vprintf(format, arguments) and
// __assertfail(message, file, line, function, bytes of a character), which ends the kernel and every launch
// after it.
#include "codegen/nvidia/nvidia_emitter.h"
#include "ir/ops.h"
#include "ir/source_text.h"

namespace libtile::codegen::nvidia {

using ir::Attr;

namespace {

constexpr unsigned kGeneric = 0, kGlobal = 1; // address spaces

} // namespace

llvm::Value *NvidiaEmitter::constantText(const std::string &text) {
  llvm::Constant *bytes = llvm::ConstantDataArray::getString(context_, text);
  auto *made = new llvm::GlobalVariable(module_, bytes->getType(), true, llvm::GlobalValue::InternalLinkage,
                                        bytes, "text", nullptr, llvm::GlobalValue::NotThreadLocal, kGlobal);
  made->setAlignment(llvm::Align(1));
  return builder_.CreateAddrSpaceCast(made, llvm::PointerType::get(context_, kGeneric));
}

// Arguments lie as in a struct, floats as doubles; all lines with arguments of these types take one memory.
void NvidiaEmitter::printLine(llvm::Value *format, Regs arguments, llvm::Value *predicate) {
  llvm::BasicBlock *printing = newBlock("print"), *after = newBlock("print.end");
  if (predicate != nullptr) {
    builder_.CreateCondBr(predicate, printing, after);
  } else {
    builder_.CreateBr(printing);
  }
  llvm::Type *pointer = llvm::PointerType::get(context_, kGeneric);
  builder_.SetInsertPoint(printing);
  llvm::SmallVector<llvm::Type *, 8> types;
  std::string key = "arguments";
  for (llvm::Value *&argument : arguments) {
    if (argument->getType()->isFloatTy()) {
      argument = builder_.CreateFPExt(argument, builder_.getDoubleTy());
    }
    types.push_back(argument->getType());
    key += (argument->getType()->isDoubleTy() ? " f" : " i") +
           std::to_string(argument->getType()->getPrimitiveSizeInBits().getFixedValue());
  }
  auto *packed = llvm::StructType::get(context_, types);
  llvm::Value *memory = inPrologue(key, [&] { return builder_.CreateAddrSpaceCast(builder_.CreateAlloca(packed), pointer); });
  for (unsigned i = 0; i < arguments.size(); ++i) {
    builder_.CreateStore(arguments[i], builder_.CreateStructGEP(packed, memory, i));
  }
  auto *type = llvm::FunctionType::get(builder_.getInt32Ty(), {pointer, pointer}, false);
  builder_.CreateCall(module_.getOrInsertFunction("vprintf", type), {format, memory});
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
}

//   if (!cond) { if (thread == 0) __assertfail(...); exit }
void NvidiaEmitter::lowerAssert(ir::OpId op) {
  llvm::BasicBlock *fails = newBlock("assert"), *telling = newBlock("assert.tell"),
                   *ends = newBlock("assert.exit"), *holds = newBlock("assert.end");
  builder_.CreateCondBr(scalar(fn_.operand(op, 0)), holds, fails);
  builder_.SetInsertPoint(fails);
  builder_.CreateCondBr(isFirstThread(), telling, ends);

  builder_.SetInsertPoint(telling);
  const ir::Location &place = fn_.locationOf(op).place();
  const std::string_view text = fn_.getText(op, Attr::text);
  llvm::Type *pointer = llvm::PointerType::get(context_, kGeneric), *int32 = builder_.getInt32Ty();
  auto *type = llvm::FunctionType::get(builder_.getVoidTy(),
                                       {pointer, pointer, int32, pointer, builder_.getInt64Ty()}, false);
  const int64_t line = place.known() ? place.file->firstLine + place.line - 1 : 0;
  builder_.CreateCall(module_.getOrInsertFunction("__assertfail", type),
                      {constantText(std::string(text.empty() ? ir::textAt(place) : text)),
                       constantText(place.known() ? place.file->name : "<unknown>"), i32(line),
                       constantText(fn_.name), builder_.getInt64(1)});
  builder_.CreateBr(ends);

  builder_.SetInsertPoint(ends);
  assembly("exit;", "", builder_.getVoidTy(), {}, true, true);
  builder_.CreateBr(holds);
  builder_.SetInsertPoint(holds);
}

} // namespace libtile::codegen::nvidia
