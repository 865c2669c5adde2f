// SPDX-License-Identifier: Apache-2.0
// PTX that LLVM has no instruction for, and shared memory as a whole.
#include "codegen/nvidia/emitter.h"

#include "codegen/llvm_compat.h"

#include <llvm/IR/InlineAsm.h>

namespace libtile::codegen::nvidia {

llvm::Value *Emitter::assembly(const std::string &text, const std::string &constraints,
                               llvm::Type *result, llvm::ArrayRef<llvm::Value *> operands,
                               bool effects, bool convergent) {
  llvm::SmallVector<llvm::Type *, 16> types;
  for (llvm::Value *operand : operands) {
    types.push_back(operand->getType());
  }
  auto *type = llvm::FunctionType::get(result, types, false);
  const std::string all =
      effects ? constraints + (constraints.empty() ? "~{memory}" : ",~{memory}") : constraints;
  llvm::CallInst *call =
      builder_.CreateCall(type, llvm::InlineAsm::get(type, text, all, effects), operands);
  call->addFnAttr(llvm::Attribute::NoUnwind);
  if (convergent) {
    call->addFnAttr(llvm::Attribute::Convergent);
    call->addFnAttr(llvm::Attribute::NoDuplicate);
  }
  return call;
}

void Emitter::barrier() {
  if (fn_.numWarps == 1) {
    assembly("bar.warp.sync 0xffffffff;", "", builder_.getVoidTy(), {}, true, true);
  } else {
    assembly("bar.sync 0;", "", builder_.getVoidTy(), {}, true, true);
  }
}

llvm::Value *Emitter::sharedBase() {
  constexpr const char *kName = "libtile_shared";
  llvm::GlobalVariable *base = module_.getGlobalVariable(kName, true);
  if (base == nullptr) {
    llvm::Type *type = llvm::ArrayType::get(builder_.getInt8Ty(), 0);
    base = new llvm::GlobalVariable(module_, type, false, llvm::GlobalValue::ExternalLinkage,
                                    nullptr, kName, nullptr, llvm::GlobalValue::NotThreadLocal, 3);
    base->setAlignment(llvm::Align(128));
  }
  return base;
}

// Both go through the memory form, whose elements lie side by side in a vector.
Regs Emitter::packWords(const ir::Type &type, llvm::ArrayRef<llvm::Value *> elements,
                        unsigned wordBytes) {
  const unsigned bytes = type.elementBytes();
  llvm::Type *whole = builder_.getIntNTy(8 * bytes);
  const unsigned perWord = std::max(1u, wordBytes / bytes);
  ir::check(bytes <= wordBytes && elements.size() % perWord == 0, "elements fill whole words");
  Regs words;
  for (size_t first = 0; first < elements.size(); first += perWord) {
    llvm::SmallVector<llvm::Value *, 8> parts;
    for (unsigned i = 0; i < perWord; ++i) {
      llvm::Value *part = elementwise_.toMemory(type, elements[first + i]);
      parts.push_back(part->getType()->isPointerTy() ? builder_.CreatePtrToInt(part, whole)
                                                     : builder_.CreateBitCast(part, whole));
    }
    if (perWord == 1) {
      words.push_back(parts[0]);
      continue;
    }
    llvm::Value *vector = llvm::PoisonValue::get(llvm::FixedVectorType::get(whole, perWord));
    for (unsigned i = 0; i < perWord; ++i) {
      vector = builder_.CreateInsertElement(vector, parts[i], uint64_t{i});
    }
    words.push_back(builder_.CreateBitCast(vector, builder_.getIntNTy(8 * wordBytes)));
  }
  return words;
}

Regs Emitter::unpackWords(const ir::Type &type, llvm::ArrayRef<llvm::Value *> words,
                          unsigned wordBytes, unsigned count) {
  const unsigned bytes = type.elementBytes();
  llvm::Type *whole = builder_.getIntNTy(8 * bytes);
  llvm::Type *memory = elementwise_.memoryType(type);
  const unsigned perWord = std::max(1u, wordBytes / bytes);
  Regs out;
  for (unsigned i = 0; i < count; ++i) {
    llvm::Value *word = words[i / perWord];
    if (perWord > 1) {
      word = builder_.CreateBitCast(word, llvm::FixedVectorType::get(whole, perWord));
      word = builder_.CreateExtractElement(word, uint64_t{i % perWord});
    }
    word = memory->isPointerTy() ? builder_.CreateIntToPtr(word, memory)
                                 : builder_.CreateBitCast(word, memory);
    out.push_back(elementwise_.fromMemory(type, word));
  }
  return out;
}

} // namespace libtile::codegen::nvidia
