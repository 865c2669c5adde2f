// SPDX-License-Identifier: Apache-2.0
// Accesses to global and shared memory, and atomics, as LLVM has them.
#include "codegen/amd/amd_emitter.h"

#include "codegen/atomic_kinds.h"
#include "codegen/llvm_compat.h"
#include "codegen/gpu/memory_order.h"
#include "ir/ops.h"
#include "passes/gpu/shared_layouts.h"

#include <llvm/IR/IntrinsicsAMDGPU.h>

#include <algorithm>

namespace libtile::codegen::amd {

using ir::AtomicKind;
using ir::Attr;
using ir::MemOrder;

namespace {

bool isTrue(llvm::Value *predicate) {
  const auto *constant = llvm::dyn_cast_or_null<llvm::ConstantInt>(predicate);
  return predicate == nullptr || (constant != nullptr && constant->isOne());
}

// Words of an access of these elements: of 4 bytes, or smaller ones that are all of it.
unsigned wordBytes(unsigned elementBytes, size_t elements) {
  const auto total = static_cast<unsigned>(elementBytes * elements);
  return elementBytes == 8 ? 8 : std::min(4U, total);
}

} // namespace

Regs AmdEmitter::where(llvm::Value *predicate, const Regs &otherwise, const std::function<Regs()> &then) {
  if (isTrue(predicate)) {
    return then();
  }
  llvm::BasicBlock *on = newBlock("on"), *after = newBlock("on.end"), *before = builder_.GetInsertBlock();
  builder_.CreateCondBr(predicate, on, after);
  builder_.SetInsertPoint(on);
  const Regs results = then();
  llvm::BasicBlock *end = builder_.GetInsertBlock();
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
  Regs merged;
  for (size_t i = 0; i < results.size(); ++i) {
    llvm::PHINode *phi = builder_.CreatePHI(results[i]->getType(), 2);
    phi->addIncoming(results[i], end);
    phi->addIncoming(otherwise[i], before);
    merged.push_back(phi);
  }
  return merged;
}

llvm::Value *AmdEmitter::pointerOf(const AccessAddress &address) {
  llvm::Value *pointer = address.pointer;
  if (address.index != nullptr) {
    llvm::Value *index = builder_.CreateSExt(address.index, builder_.getInt64Ty());
    pointer = builder_.CreateGEP(builder_.getInt8Ty(), pointer,
                                 builder_.CreateMul(index, builder_.getInt64(static_cast<uint64_t>(address.scale))));
  }
  return address.bytes == 0 ? pointer
                            : builder_.CreateConstGEP1_64(builder_.getInt8Ty(), pointer, static_cast<uint64_t>(address.bytes));
}

llvm::SyncScope::ID AmdEmitter::scopeOf(ir::OpId op) const {
  switch (fn_.getEnum<ir::MemScope>(op, Attr::scope)) {
  case ir::MemScope::cta:
    return context_.getOrInsertSyncScopeID("workgroup");
  case ir::MemScope::gpu:
    return context_.getOrInsertSyncScopeID("agent");
  case ir::MemScope::sys:
    return llvm::SyncScope::System;
  }
  throw ir::InternalError("unknown memory scope");
}

namespace {

bool isNearlyUnused(const ir::Function &fn, ir::OpId op) {
  return fn.getEnum<ir::EvictHint>(op, Attr::evict) == ir::EvictHint::first || fn.getEnum<ir::CacheHint>(op, Attr::cache) == ir::CacheHint::cs;
}

} // namespace

bool AmdEmitter::isMarked(ir::OpId op) const {
  return fn_.getBool(op, Attr::is_volatile) || fn_.hasAttr(op, Attr::sem) || isNearlyUnused(fn_, op);
}

template <class Access> Access *AmdEmitter::marked(ir::OpId op, Access *access) const {
  access->setVolatile(fn_.getBool(op, Attr::is_volatile) && !fn_.hasAttr(op, Attr::sem));
  if (fn_.hasAttr(op, Attr::sem)) {
    access->setAtomic(llvm::AtomicOrdering::Monotonic, scopeOf(op));
  }
  if (isNearlyUnused(fn_, op)) {
    access->setMetadata(llvm::LLVMContext::MD_nontemporal,
                        llvm::MDNode::get(context_, llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(llvm::Type::getInt32Ty(context_), 1))));
  }
  return access;
}

// What a lane reads where its mask is off, as words.
Regs AmdEmitter::otherWords(ir::OpId op, const RegGroup &group, unsigned bytes) {
  const ir::Type element = fn_.type(fn_.result(op)).element();
  if (fn_.numOperands(op) <= 2) {
    return Regs(element.elementBytes() * group.size() / bytes, llvm::Constant::getNullValue(builder_.getIntNTy(8 * bytes)));
  }
  llvm::SmallVector<llvm::Value *, 16> elements;
  for (const int32_t reg : group) {
    elements.push_back(regs(fn_.operand(op, 2))[static_cast<size_t>(reg)]);
  }
  return packWords(element, elements, bytes);
}

// Without bounds of the hardware's, all of one mask are behind one branch.
Regs AmdEmitter::loadGroups(ir::OpId op, llvm::ArrayRef<RegGroup> groups, llvm::ArrayRef<AccessAddress> from, llvm::Value *on) {
  const ir::Type element = fn_.type(fn_.result(op)).element();
  const size_t size = groups.front().size();
  const unsigned bytes = wordBytes(element.elementBytes(), size);
  const auto total = static_cast<unsigned>(element.elementBytes() * size);
  llvm::Type *word = builder_.getIntNTy(8 * bytes);
  const unsigned count = total / bytes;
  llvm::Type *type = count > 1 ? static_cast<llvm::Type *>(llvm::FixedVectorType::get(word, count)) : word;
  const auto addParts = [&](Regs &parts, llvm::Value *loaded) {
    for (unsigned i = 0; i < count; ++i) {
      parts.push_back(count > 1 ? builder_.CreateExtractElement(loaded, uint64_t{i}) : loaded);
    }
  };
  Regs otherwise, words;
  if (!isTrue(on)) {
    for (const RegGroup &group : groups) {
      llvm::append_range(otherwise, otherWords(op, group, bytes));
    }
  }
  std::vector<BufferPlace> places;
  for (const RegGroup &group : groups) {
    if (const auto place = bufferPlace(op, group[0], isTrue(on) ? nullptr : on)) {
      places.push_back(*place);
    }
  }
  if (places.size() == groups.size()) {
    for (const BufferPlace &place : places) {
      addParts(words, loadBuffer(place, type));
    }
    for (size_t i = 0; i < words.size(); ++i) {
      const auto *constant = llvm::dyn_cast<llvm::Constant>(otherwise[i]);
      words[i] = constant != nullptr && constant->isNullValue() ? words[i] : builder_.CreateSelect(on, words[i], otherwise[i]);
    }
  } else {
    words = where(on, otherwise, [&] {
      Regs parts;
      for (const AccessAddress &address : from) {
        addParts(parts, marked(op, builder_.CreateAlignedLoad(type, pointerOf(address), llvm::Align(total))));
      }
      return parts;
    });
  }
  return unpackWords(element, words, bytes, static_cast<unsigned>(size * groups.size()));
}

void AmdEmitter::storeGroup(ir::OpId op, const RegGroup &group, const AccessAddress &to, llvm::Value *on) {
  const ir::ValueId value = fn_.operand(op, 1);
  const ir::Type element = fn_.type(value).element();
  llvm::SmallVector<llvm::Value *, 16> elements;
  for (const int32_t reg : group) {
    elements.push_back(regs(value)[static_cast<size_t>(reg)]);
  }
  const Regs words = packWords(element, elements, wordBytes(element.elementBytes(), group.size()));
  llvm::Value *stored = words.size() > 1 ? vectorOf(words) : words[0];
  if (const auto place = bufferPlace(op, group[0], isTrue(on) ? nullptr : on)) {
    return storeBuffer(*place, stored);
  }
  static_cast<void>(where(on, {}, [&]() -> Regs {
    marked(op, builder_.CreateAlignedStore(stored, pointerOf(to), llvm::Align(element.elementBytes() * group.size())));
    return {};
  }));
}

void AmdEmitter::storeWords(llvm::Value *pointer, const Regs &words, unsigned bytes, llvm::Value *predicate) {
  static_cast<void>(where(predicate, {}, [&]() -> Regs {
    builder_.CreateAlignedStore(vectorOf(words), pointer, llvm::Align(bytes * words.size()));
    return {};
  }));
}

void AmdEmitter::countShared(llvm::Value *pointer, llvm::Value *predicate) {
  static_cast<void>(where(predicate, {}, [&]() -> Regs {
    builder_.CreateAtomicRMW(llvm::AtomicRMWInst::Add, pointer, i32(1), llvm::Align(4), llvm::AtomicOrdering::Monotonic,
                             context_.getOrInsertSyncScopeID("workgroup"));
    return {};
  }));
}

llvm::Value *AmdEmitter::atomic(ir::OpId op, MemOrder sem, const ir::Type &type, llvm::ArrayRef<llvm::Value *> operands,
                                llvm::Value *predicate, bool wantsOld) {
  const llvm::Align align(type.elementBytes());
  const bool isCas = fn_.opcode(op) == ir::Opcode::AtomicCas;
  const bool isFloat = type.isFloating() && !isCas && fn_.getEnum<AtomicKind>(op, Attr::kind) == AtomicKind::fadd;
  llvm::Type *bits = builder_.getIntNTy(static_cast<unsigned>(8 * type.elementBytes()));
  llvm::Type *number = !isFloat ? bits : type.elem() == ir::Elem::BF16 ? builder_.getBFloatTy()
                       : type.elem() == ir::Elem::F16                    ? builder_.getHalfTy()
                                                                         : elements_.memoryType(type);
  const auto memory = [&](llvm::Value *value) {
    llvm::Value *stored = elements_.toMemory(type, value);
    return stored->getType()->isPointerTy() ? builder_.CreatePtrToInt(stored, bits) : builder_.CreateBitCast(stored, number);
  };
  const Regs old = where(predicate, {llvm::Constant::getNullValue(bits)}, [&]() -> Regs {
    llvm::Value *found = nullptr;
    if (isCas) {
      found = builder_.CreateAtomicCmpXchg(operands[0], memory(operands[1]), memory(operands[2]), align, orderOf(sem),
                                           llvm::AtomicCmpXchgInst::getStrongestFailureOrdering(orderOf(sem)), scopeOf(op));
      found = builder_.CreateExtractValue(found, 0);
    } else {
      found = builder_.CreateAtomicRMW(kindOf(fn_.getEnum<AtomicKind>(op, Attr::kind)), operands[0], memory(operands[1]),
                                       align, orderOf(sem), scopeOf(op));
    }
    return {builder_.CreateBitCast(found, bits)};
  });
  if (!wantsOld) {
    return nullptr;
  }
  llvm::Type *stored = elements_.memoryType(type);
  return elements_.fromMemory(type, stored->isPointerTy() ? builder_.CreateIntToPtr(old[0], stored)
                                                          : builder_.CreateBitCast(old[0], stored));
}

bool AmdEmitter::addsNeighbours(ir::OpId) const { return false; }

void AmdEmitter::addNeighbours(ir::OpId op, MemOrder, const RegGroup &, llvm::Value *) { unsupported(op); }

void AmdEmitter::fence(ir::OpId op, llvm::Value *predicate) {
  static_cast<void>(where(predicate, {}, [&]() -> Regs {
    builder_.CreateFence(llvm::AtomicOrdering::AcquireRelease, scopeOf(op));
    return {};
  }));
}

// By v_perm_b32, in pairs first: four bytes of one number of four words and four of the next share their pairs, so that four
// words are turned by eight instructions.
llvm::Value *AmdEmitter::joinBytes(const std::array<gpu::WordByte, 4> &bytes) {
  const auto isOf = [&](unsigned i) { return bytes[i].word == bytes[0].word && bytes[i].byte == i; };
  if (isOf(0) && isOf(1) && isOf(2) && isOf(3)) {
    return bytes[0].word;
  }
  llvm::Function *permute = compat::intrinsic(module_, llvm::Intrinsic::amdgcn_perm);
  struct Pair {
    llvm::Value *word;
    unsigned first; // byte
  };
  const auto pairOf = [&](const gpu::WordByte &low, const gpu::WordByte &high) -> Pair {
    const bool isShared = low.byte == high.byte;
    const unsigned even = low.byte / 2 * 2;
    const unsigned selector = isShared ? 0x05010400 + even * 0x01010101 : 0x0c0c0400 + low.byte + high.byte * 0x100;
    return {builder_.CreateCall(permute, {high.word, low.word, i32(selector)}), isShared ? low.byte % 2 * 2 : 0};
  };
  const Pair low = pairOf(bytes[0], bytes[1]), high = pairOf(bytes[2], bytes[3]);
  const unsigned selector = 0x05040100 + low.first * 0x0101 + high.first * 0x01010000;
  return builder_.CreateCall(permute, {high.word, low.word, i32(selector)});
}

// Lanes of sixteen get what others have read (AccessKind::Turned).
void AmdEmitter::readMatrices(ir::OpId op, const passes::BufferAccess &access) {
  const ir::ValueId result = fn_.result(op), buffer = fn_.operand(op, 0);
  const ir::Type element = fn_.type(result).element();
  const ir::Layout &layout = layoutOf(result), &bufferLayout = layoutOf(buffer);
  BufferOffsets offsets = bufferOffsets(layout, bufferLayout, element.elementBytes(), passes::namedOffsets(layout, bufferLayout, access));
  const bool isByte = element.elementBytes() == 1;
  llvm::Type *words = llvm::FixedVectorType::get(builder_.getInt32Ty(), 2);
  llvm::Type *read = isByte ? words : llvm::FixedVectorType::get(builder_.getInt16Ty(), 4);
  auto *type = llvm::FunctionType::get(read, {scalar(buffer)->getType()}, false);
  const llvm::FunctionCallee instruction =
      module_.getOrInsertFunction(isByte ? "llvm.amdgcn.ds.read.tr8.b64.v2i32" : "llvm.amdgcn.ds.read.tr16.b64.v4i16", type);
  Regs out(numRegs(result));
  for (const RegGroup &group : groupsOf(layout.size(ir::HwDim::Reg), access.registerBits)) {
    llvm::Value *pair = builder_.CreateBitCast(builder_.CreateCall(instruction, {bufferPointer(scalar(buffer), offsets, group[0])}), words);
    const Regs elements = unpackWords(element, {builder_.CreateExtractElement(pair, uint64_t{0}), builder_.CreateExtractElement(pair, uint64_t{1})}, 4,
                                      static_cast<unsigned>(group.size()));
    for (size_t i = 0; i < group.size(); ++i) {
      out[static_cast<size_t>(group[i])] = elements[i];
    }
  }
  set(result, std::move(out));
}

} // namespace libtile::codegen::amd
