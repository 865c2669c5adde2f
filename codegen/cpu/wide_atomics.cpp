// SPDX-License-Identifier: Apache-2.0
// One loop for each piece that the instruction takes:
//
//   old = what is there             (by words: where it is torn, the first swap fails)
//   loop: new = update(old, value); (swapped, old) = compare and swap; if not: again
#include "codegen/cpu/wide_atomics.h"

#include <numeric>

namespace libtile::codegen::cpu {

using ir::AtomicKind;
using llvm::Value;

namespace {

// What each element becomes.
Value *updated(llvm::IRBuilder<> &builder, CpuElementwise &elementwise, const WideUpdate &update, Value *old,
               Value *value) {
  namespace I = llvm::Intrinsic;
  const auto extremum = [&](I::ID which) { return builder.CreateBinaryIntrinsic(which, old, value); };
  switch (update.kind) {
  case AtomicKind::add:
    return builder.CreateAdd(old, value);
  case AtomicKind::fadd:
    return ir::byteSize(update.elem) > 2
               ? builder.CreateFAdd(old, value)
               : elementwise.fromFloat(update.elem, builder.CreateFAdd(elementwise.toFloat(update.elem, old),
                                                                       elementwise.toFloat(update.elem, value)));
  case AtomicKind::smax:
    return extremum(I::smax);
  case AtomicKind::umax:
    return extremum(I::umax);
  case AtomicKind::smin:
    return extremum(I::smin);
  case AtomicKind::umin:
    return extremum(I::umin);
  case AtomicKind::and_:
    return builder.CreateAnd(old, value);
  case AtomicKind::or_:
    return builder.CreateOr(old, value);
  case AtomicKind::xor_:
    return builder.CreateXor(old, value);
  case AtomicKind::xchg:
    return value;
  }
  throw ir::InternalError("unknown atomic kind");
}

// The integer of `type` at the pointer, read word by word.
Value *readWords(llvm::IRBuilder<> &builder, llvm::IntegerType *type, Value *pointer) {
  llvm::Type *word = builder.getInt64Ty();
  const unsigned words = type->getBitWidth() / 64;
  Value *all = llvm::PoisonValue::get(llvm::FixedVectorType::get(word, words));
  for (unsigned i = 0; i < words; ++i) {
    llvm::LoadInst *read =
        builder.CreateAlignedLoad(word, builder.CreateConstGEP1_64(word, pointer, i), llvm::Align(8));
    read->setAtomic(llvm::AtomicOrdering::Monotonic);
    all = builder.CreateInsertElement(all, read, uint64_t{i});
  }
  return builder.CreateBitCast(all, type);
}

Value *updatePiece(llvm::IRBuilder<> &builder, CpuElementwise &elementwise, const WideUpdate &update,
                   Value *pointer, Value *value) {
  llvm::IntegerType *integer = builder.getIntNTy(update.bytes * 8);
  Value *first = readWords(builder, integer, pointer);
  llvm::BasicBlock *entry = builder.GetInsertBlock();
  llvm::BasicBlock *loop = llvm::BasicBlock::Create(builder.getContext(), "retry", entry->getParent());
  llvm::BasicBlock *exit = llvm::BasicBlock::Create(builder.getContext(), "updated", entry->getParent());
  builder.CreateBr(loop);
  builder.SetInsertPoint(loop);
  llvm::PHINode *old = builder.CreatePHI(integer, 2);
  old->addIncoming(first, entry);
  Value *elements = builder.CreateBitCast(old, value->getType());
  Value *wanted = builder.CreateBitCast(updated(builder, elementwise, update, elements, value), integer);
  Value *pair = builder.CreateAtomicCmpXchg(
      pointer, old, wanted, llvm::Align(update.bytes), update.order,
      llvm::AtomicCmpXchgInst::getStrongestFailureOrdering(update.order));
  old->addIncoming(builder.CreateExtractValue(pair, 0), loop);
  builder.CreateCondBr(builder.CreateExtractValue(pair, 1), exit, loop);
  builder.SetInsertPoint(exit);
  return elements;
}

Value *lanesFrom(llvm::IRBuilder<> &builder, Value *value, unsigned first, unsigned count) {
  llvm::SmallVector<int, 64> lanes(count);
  std::iota(lanes.begin(), lanes.end(), static_cast<int>(first));
  return builder.CreateShuffleVector(value, lanes);
}

} // namespace

Value *wideAtomicRmw(llvm::IRBuilder<> &builder, CpuElementwise &elementwise, const WideUpdate &update,
                     Value *pointer, Value *value) {
  const auto *type = llvm::cast<llvm::FixedVectorType>(value->getType());
  const unsigned lanes = type->getNumElements();
  const unsigned each = update.bytes / ir::byteSize(update.elem);
  Value *old = llvm::PoisonValue::get(value->getType());
  for (unsigned first = 0; first < lanes; first += each) {
    Value *place = builder.CreateConstGEP1_64(type->getElementType(), pointer, first);
    Value *piece = updatePiece(builder, elementwise, update, place, lanesFrom(builder, value, first, each));
    for (unsigned lane = 0; lane < each; ++lane) {
      old = builder.CreateInsertElement(old, builder.CreateExtractElement(piece, uint64_t{lane}), uint64_t{first} + lane);
    }
  }
  return old;
}

} // namespace libtile::codegen::cpu
