// SPDX-License-Identifier: Apache-2.0
// Checked accesses. An op that says in which arrays it lies (Attr::within) is compared with their extents, which
// the frame has, before it touches memory:
//
//   room = size - bytes + 1, or 0 if the array is smaller       once a call
//   address - begin < room: it lies inside                      unsigned: what lies in front is far behind
//
// A vector of consecutive elements is compared as a whole. Only where it does not lie inside, at the ends of
// an array and for most masked tails, are its lanes looked at, those that the mask has on; and so are the
// lanes of a gather. What is out of bounds leaves the program there and then (frame.h), by a block of its own
// behind everything else, so that code that is right runs through two instructions and a branch.
#include "codegen/cpu/emitter.h"
#include "codegen/cpu/frame.h"
#include "ir/ops.h"

#include <cstddef>

namespace libtile::codegen::cpu {

using ir::Attr;
using llvm::Value;

// ---- arrays

// The extent of an array that nothing is known of.
Value *Emitter::unknownExtent() {
  constexpr const char *kName = "unknown";
  llvm::GlobalVariable *found = module_.getNamedGlobal(kName);
  if (found == nullptr) {
    auto *type = llvm::ArrayType::get(builder_.getInt64Ty(), 2);
    found = new llvm::GlobalVariable(module_, type, true, llvm::GlobalValue::InternalLinkage,
                                     llvm::ConstantAggregateZero::get(type), kName);
  }
  return found;
}

// An array that is not known is all of memory.
Emitter::KnownArray &Emitter::arrayOf(int64_t parameter) {
  const auto [known, isNew] = arrays_.try_emplace(parameter);
  KnownArray &array = known->second;
  if (isNew) {
    atDepth(0, [&] {
      llvm::Type *int64 = builder_.getInt64Ty();
      Value *table = frameField(builder_.getPtrTy(), offsetof(libtile_frame, extents));
      Value *row = builder_.CreateConstGEP1_64(int64, table, 2 * uint64_t(parameter));
      row = builder_.CreateSelect(builder_.CreateIsNull(table), unknownExtent(), row);
      array.begin = builder_.CreateLoad(int64, row);
      Value *end = builder_.CreateLoad(int64, builder_.CreateConstGEP1_64(int64, row, 1));
      Value *isKnown = builder_.CreateIsNotNull(end);
      // One less than there are addresses, so that size + 1 is a number.
      array.size = builder_.CreateSelect(isKnown, builder_.CreateSub(end, array.begin),
                                         llvm::ConstantInt::get(int64, UINT64_MAX - 1));
    });
  }
  return array;
}

Value *Emitter::roomOf(KnownArray &array, int64_t bytes) {
  Value *&room = array.rooms[bytes];
  if (room == nullptr) {
    atDepth(0, [&] {
      Value *first = builder_.CreateAdd(array.size, builder_.getInt64(1));
      room = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::usub_sat, first,
                                            builder_.getInt64(bytes));
    });
  }
  return room;
}

Value *Emitter::isOutside(ir::OpId op, Value *address, int64_t bytes) {
  const auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(address->getType());
  const unsigned lanes = vector != nullptr ? vector->getNumElements() : 1;
  Value *outside = nullptr;
  for (const int64_t parameter : fn_.getInts(op, Attr::within)) {
    KnownArray &array = arrayOf(parameter);
    Value *offset = builder_.CreateSub(address, splat(array.begin, lanes));
    Value *here = builder_.CreateICmpUGE(offset, splat(roomOf(array, bytes), lanes));
    outside = outside != nullptr ? builder_.CreateAnd(outside, here) : here;
  }
  return outside;
}

// ---- accesses

uint32_t Emitter::numberOf(ir::OpId op) {
  const auto [known, isNew] = accessOf_.try_emplace(op.index, accesses_.size());
  if (isNew) {
    const std::span<const int64_t> arrays = fn_.getInts(op, Attr::within);
    accesses_.push_back({fn_.locationOf(op), fn_.ownEffects(op),
                         fn_.type(fn_.operand(op, 0)).pointee().elementBytes(),
                         {arrays.begin(), arrays.end()}});
  }
  return known->second;
}

void Emitter::leaveIf(Value *cond, ir::OpId op, llvm::function_ref<Value *()> address) {
  llvm::Type *int32 = builder_.getInt32Ty();
  llvm::Type *int64 = builder_.getInt64Ty();
  llvm::Type *pointer = builder_.getPtrTy();
  llvm::BasicBlock *inside = splitHere();
  llvm::BasicBlock *outside = newBlock("out_of_bounds");
  builder_.CreateCondBr(cond, outside, inside, unlikely());
  builder_.SetInsertPoint(outside);
  Value *program = builder_.CreateZExt(program_[2], int64);
  for (unsigned axis = 2; axis-- > 0;) {
    program = builder_.CreateMul(program, builder_.CreateZExt(grid_[axis], int64));
    program = builder_.CreateAdd(program, builder_.CreateZExt(program_[axis], int64));
  }
  auto *type = llvm::FunctionType::get(builder_.getVoidTy(), {pointer, int32, int64, int64}, false);
  Value *callee = frameField(pointer, offsetof(libtile_frame, out_of_bounds));
  Value *context = frameField(pointer, offsetof(libtile_frame, out_of_bounds_context));
  llvm::CallInst *told = builder_.CreateCall(
      type, callee, {context, builder_.getInt32(numberOf(op)), address(), program});
  told->setDoesNotThrow();
  told->addFnAttr(llvm::Attribute::Cold);
  builder_.CreateAtomicRMW(llvm::AtomicRMWInst::UMax, status_, builder_.getInt32(LIBTILE_STOP),
                           llvm::Align(4), llvm::AtomicOrdering::Monotonic);
  builder_.CreateBr(leave_);
  // Before what was split off, if anything was.
  builder_.SetInsertPoint(inside, inside->begin());
}

void Emitter::checkScalar(ir::OpId op, Value *pointer, Value *mask) {
  if (!fn_.hasAttr(op, Attr::within)) {
    return;
  }
  Value *address = builder_.CreatePtrToInt(pointer, builder_.getInt64Ty());
  Value *outside = isOutside(op, address, fn_.type(fn_.operand(op, 0)).pointee().elementBytes());
  leaveIf(mask != nullptr ? builder_.CreateAnd(outside, mask) : outside, op, [&] { return address; });
}

void Emitter::checkLanes(ir::OpId op, Value *addresses, Value *mask) {
  Value *outside = isOutside(op, addresses, fn_.type(fn_.operand(op, 0)).pointee().elementBytes());
  outside = mask != nullptr ? builder_.CreateAnd(outside, mask) : outside;
  Value *any = builder_.CreateOrReduce(outside);
  leaveIf(any, op, [&] {
    Value *bits = builder_.CreateBitCast(outside, builder_.getIntNTy(lanes_.count));
    Value *first = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, bits, builder_.getTrue());
    return builder_.CreateExtractElement(addresses, first);
  });
}

void Emitter::checkAccess(ir::OpId op, const Address &address, Value *mask, bool asVector) {
  if (!fn_.hasAttr(op, Attr::within)) {
    return;
  }
  const int64_t bytes = fn_.type(fn_.operand(op, 0)).pointee().elementBytes();
  llvm::Type *int64 = builder_.getInt64Ty();
  if (asVector && address.perLane) {
    checkLanes(op, builder_.CreatePtrToInt(address.pointer, Elementwise::widen(int64, lanes_.count)),
               mask);
  } else if (asVector && address.contiguous) {
    Value *first = builder_.CreatePtrToInt(address.pointer, int64);
    const auto each = [&] {
      Value *distances = builder_.CreateMul(iota(int64), splat(builder_.getInt64(bytes), lanes_.count));
      checkLanes(op, builder_.CreateAdd(splat(first, lanes_.count), distances), mask);
    };
    branch(isOutside(op, first, bytes * lanes_.count), each, [] {}, unlikely());
  } else {
    checkScalar(op, address.pointer, asVector && mask != nullptr ? builder_.CreateOrReduce(mask) : mask);
  }
}

} // namespace libtile::codegen::cpu
