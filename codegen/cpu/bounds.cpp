// SPDX-License-Identifier: Apache-2.0
// Checked accesses. An op that says in which arrays it lies (Attr::within) is compared with their extents, which
// the frame has, before it touches memory:
//
//   room = size - bytes + 1, or 0 if the array is smaller       once a call
//   address - begin < room: it lies inside                      unsigned: what lies in front is far behind
//
// A vector of consecutive elements is compared as a whole. Only where it does not lie inside and has a mask, at
// the ends of an array, are its lanes looked at, those that the mask has on; and so are the lanes of a gather.
// What is out of bounds leaves the program there and then (frame.h), through one block behind everything else:
// code that is right runs through two instructions and a branch.
#include "codegen/cpu/emitter.h"
#include "codegen/cpu/frame.h"
#include "codegen/cpu/known_lanes.h"
#include "ir/ops.h"

#include <cstddef>
#include <optional>

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
KnownArray &Emitter::arrayOf(int64_t parameter) {
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

namespace {

// How many lanes are on, if it is known that these are the first ones.
std::optional<unsigned> leadingLanes(const Value *mask, unsigned lanes) {
  if (mask == nullptr) {
    return lanes;
  }
  const KnownLanes known = knownLanes(mask);
  const unsigned leading = known.on.countr_one();
  const bool isKnown = (known.on | known.off).isAllOnes() && known.on.popcount() == leading;
  return isKnown ? std::optional(leading) : std::nullopt;
}

} // namespace

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

// All accesses of the function share what follows.
void Emitter::emitOutOfBounds() {
  if (llvm::pred_empty(outOfBounds_)) {
    outOfBounds_->eraseFromParent();
    outOfBounds_ = nullptr;
    return;
  }
  builder_.SetInsertPoint(outOfBounds_);
  llvm::Type *int64 = builder_.getInt64Ty();
  const auto join = [&](llvm::Type *type, Value *Violation::*part) {
    llvm::PHINode *phi = builder_.CreatePHI(type, violations_.size());
    for (const Violation &violation : violations_) {
      phi->addIncoming(violation.*part, violation.from);
    }
    return phi;
  };
  Value *access = join(builder_.getInt32Ty(), &Violation::access);
  Value *elements = join(builder_.getInt32Ty(), &Violation::elements);
  Value *address = join(int64, &Violation::address);
  Value *program = programNumber();
  llvm::Type *pointer = builder_.getPtrTy();
  auto *type = llvm::FunctionType::get(
      builder_.getVoidTy(), {pointer, access->getType(), elements->getType(), int64, int64}, false);
  Value *callee = frameField(pointer, offsetof(libtile_frame, out_of_bounds));
  Value *context = frameField(pointer, offsetof(libtile_frame, out_of_bounds_context));
  llvm::CallInst *told =
      builder_.CreateCall(type, callee, {context, access, elements, address, program});
  told->setDoesNotThrow();
  told->addFnAttr(llvm::Attribute::Cold);
  stopLaunch();
}

void Emitter::leaveIf(Value *cond, ir::OpId op, unsigned elements,
                      llvm::function_ref<Value *()> address) {
  llvm::BasicBlock *inside = splitHere();
  llvm::BasicBlock *outside = newBlock("outside");
  builder_.CreateCondBr(cond, outside, inside, unlikely());
  builder_.SetInsertPoint(outside);
  violations_.push_back({outside, builder_.getInt32(numberOf(op)), builder_.getInt32(elements), address()});
  builder_.CreateBr(outOfBounds_);
  // Before what was split off, if anything was.
  builder_.SetInsertPoint(inside, inside->begin());
}

void Emitter::checkScalar(ir::OpId op, Value *pointer, Value *mask) {
  if (!fn_.hasAttr(op, Attr::within)) {
    return;
  }
  Value *address = builder_.CreatePtrToInt(pointer, builder_.getInt64Ty());
  Value *outside = isOutside(op, address, fn_.type(fn_.operand(op, 0)).pointee().elementBytes());
  leaveIf(mask != nullptr ? builder_.CreateAnd(outside, mask) : outside, op, 1, [&] { return address; });
}

void Emitter::checkLanes(ir::OpId op, Value *addresses, Value *mask) {
  Value *outside = isOutside(op, addresses, fn_.type(fn_.operand(op, 0)).pointee().elementBytes());
  outside = mask != nullptr ? builder_.CreateAnd(outside, mask) : outside;
  Value *any = builder_.CreateOrReduce(outside);
  leaveIf(any, op, 1, [&] {
    Value *bits = builder_.CreateBitCast(outside, builder_.getIntNTy(lanes_.count));
    Value *first = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, bits, builder_.getTrue());
    return builder_.CreateExtractElement(addresses, first);
  });
}

void Emitter::checkRow(ir::OpId op, Value *first, Value *mask) {
  const int64_t bytes = fn_.type(fn_.operand(op, 0)).pointee().elementBytes();
  const std::optional<unsigned> known = leadingLanes(mask, lanes_.count);
  if (known == 0U) {
    return;
  }
  const unsigned elements = known.value_or(lanes_.count);
  Value *outside = isOutside(op, first, bytes * elements);
  // Of several arrays, each may hold some of the elements.
  if (known && fn_.getInts(op, Attr::within).size() == 1) {
    leaveIf(outside, op, elements, [&] { return first; });
    return;
  }
  const auto each = [&] {
    llvm::Constant *numbers = iota(first->getType());
    Value *distances = builder_.CreateMul(numbers, elementwise_.intLike(numbers, bytes));
    checkLanes(op, builder_.CreateAdd(splat(first, lanes_.count), distances), mask);
  };
  branch(outside, each, [] {}, unlikely());
}

void Emitter::checkAccess(ir::OpId op, const Address &address, Value *mask, bool asVector) {
  if (!fn_.hasAttr(op, Attr::within)) {
    return;
  }
  llvm::Type *int64 = builder_.getInt64Ty();
  if (asVector && address.perLane) {
    llvm::Type *vector = Elementwise::widen(int64, lanes_.count);
    checkLanes(op, builder_.CreatePtrToInt(address.pointer, vector), mask);
  } else if (asVector && address.contiguous) {
    checkRow(op, builder_.CreatePtrToInt(address.pointer, int64), mask);
  } else {
    checkScalar(op, address.pointer, asVector && mask != nullptr ? builder_.CreateOrReduce(mask) : mask);
  }
}

} // namespace libtile::codegen::cpu
