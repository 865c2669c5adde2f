// SPDX-License-Identifier: Apache-2.0
// Asking for memory before it is needed, in runs of a page and longer. Three things may be ahead of an access:
//
//   half a page further on     for processors whose own prefetching begins anew at each page (Target::askAhead)
//   the next iteration's run   of a loop around whose iterations each go through a short run somewhere else
//   what lies behind the run   mostly the next program's
//
// The first nest or fold that goes through a run asks for what is further on in it. It is the one that waits for memory; a
// later one finds the run in the caches and leaves memory idle, so the last of these asks for the next iteration's, or what
// lies behind if there is none. What stores to memory waits for that, and asks for neither; without a later one that
// stores nothing the first asks for the next iteration's, too.
#include "codegen/cpu/cache_line.h"
#include "codegen/cpu/emitter.h"
#include "ir/ops.h"

#include <llvm/IR/PatternMatch.h>

namespace libtile::codegen::cpu {

using ir::Attr;
using ir::Opcode;
using ir::ValueId;
using llvm::Value;

namespace {

constexpr int64_t kShortestRun = 4096;
constexpr int64_t kLongestRunAhead = 16384;
constexpr int64_t kPartOfL2 = 8; // for what lies behind a run, which stays until the run is done

// The outermost nest or fold around an op.
ir::OpId statementOf(const ir::Function &fn, ir::OpId op) {
  ir::OpId statement;
  for (ir::OpId around = op; around.valid(); around = fn.parentOp(fn.block(around))) {
    statement = fn.opcode(around) == Opcode::Nest || fn.opcode(around) == Opcode::Fold ? around : statement;
  }
  return statement;
}

// What the pointer begins at, in front of the statement.
ValueId rootOf(const ir::Function &fn, ValueId pointer, ir::OpId statement) {
  const ir::BlockId body = fn.region(statement);
  while (!fn.isDefinedOutside(pointer, body) && !fn.isArg(pointer) && fn.defOpcode(pointer) == Opcode::PtrAdd) {
    pointer = fn.operand(fn.def(pointer), 0);
  }
  return pointer;
}

bool goesThroughOneRow(const ir::Function &fn, ir::OpId statement) {
  if (fn.opcode(statement) == Opcode::Fold) {
    return true;
  }
  const std::span<const int64_t> extents = fn.getInts(statement, Attr::extents);
  return std::ranges::all_of(extents.first(extents.size() - 1), [](int64_t n) { return n == 1; });
}

} // namespace

void Emitter::findAskers() {
  for (ir::OpId op : fn_.walk()) {
    const ir::OpId statement = fn_.opcode(op) == Opcode::Load || fn_.opcode(op) == Opcode::Store ? statementOf(fn_, op) : ir::OpId();
    if (!statement.valid()) {
      continue;
    }
    Askers &askers = askers_.at(rootOf(fn_, fn_.operand(op, 0), statement));
    if (!askers.first.valid()) {
      askers.first = statement;
    } else if (askers.first != statement && !fn_.effects(statement).has(ir::Effects::WritesGlobal) && goesThroughOneRow(fn_, statement)) {
      askers.last = statement;
    }
  }
}

Value *Emitter::advanceOf(ValueId value, ir::OpId loop) {
  using ir::Opcode;
  const ir::BlockId body = loop.valid() ? fn_.region(loop) : fn_.body();
  llvm::Type *wide = builder_.getInt64Ty();
  const auto known = [&](ValueId outside) { return builder_.CreateSExt(scalar(outside), wide); };
  if (fn_.isDefinedOutside(value, body) || value == lanes_.index) {
    return builder_.getInt64(0);
  }
  if (fn_.isArg(value) && loop.valid()) {
    return value == fn_.arg(body, 0) ? known(fn_.operand(loop, 2)) : nullptr;
  }
  if (fn_.isArg(value)) { // a parameter, or the number of an iteration
    return fn_.defBlock(value) == body || fn_.defIndex(value) == 0 ? builder_.getInt64(0) : nullptr;
  }
  const ir::OpId op = fn_.def(value);
  const Opcode opcode = fn_.opcode(op);
  if (opcode == Opcode::ProgramId || opcode == Opcode::Constant) {
    const bool moves = !loop.valid() && opcode == Opcode::ProgramId && fn_.getInt(op, Attr::axis) == 0;
    return builder_.getInt64(moves ? 1 : 0);
  }
  const bool isSum = opcode == Opcode::Add || opcode == Opcode::PtrAdd;
  if (!isSum && opcode != Opcode::Mul && opcode != Opcode::SExt) {
    return nullptr;
  }
  Value *first = advanceOf(fn_.operand(op, 0), loop);
  if (first == nullptr || opcode == Opcode::SExt) {
    return first;
  }
  Value *second = advanceOf(fn_.operand(op, 1), loop);
  if (second == nullptr || isSum) {
    const int64_t unit = opcode == Opcode::PtrAdd ? fn_.type(value).pointee().elementBytes() : 1;
    return second == nullptr ? nullptr : builder_.CreateAdd(first, builder_.CreateMul(second, builder_.getInt64(unit)));
  }
  const auto isSame = [](Value *advance) { return llvm::PatternMatch::match(advance, llvm::PatternMatch::m_Zero()); };
  if (isSame(first) && isSame(second)) {
    return first;
  }
  const unsigned factor = isSame(second) ? 1 : 0;
  const ValueId other = fn_.operand(op, factor);
  const bool isInFront = loop.valid() ? fn_.isDefinedOutside(other, body) : fn_.defBlock(other) == body;
  return isSame(factor == 1 ? second : first) && isInFront ? builder_.CreateMul(factor == 1 ? first : second, known(other)) : nullptr;
}

// For a loop that counts up.
Value *Emitter::runsAgain(ir::OpId loop) {
  llvm::Type *wide = builder_.getInt64Ty();
  Value *index = builder_.CreateSExt(scalar(fn_.arg(fn_.region(loop), 0)), wide);
  Value *next = builder_.CreateAdd(index, builder_.CreateSExt(scalar(fn_.operand(loop, 2)), wide));
  return builder_.CreateICmpSLT(next, builder_.CreateSExt(scalar(fn_.operand(loop, 1)), wide));
}

// By how many bytes what the access asks for is ahead of it, in the scope around the lanes; null: it asks for nothing.
Value *Emitter::distanceAhead(ValueId pointer, int64_t bytes) {
  const int64_t run = lanes_.run * bytes;
  const ir::OpId nest = fn_.parentOp(fn_.defBlock(lanes_.index)), statement = statementOf(fn_, nest);
  const Askers askers = askers_[rootOf(fn_, pointer, statement)];
  const bool lastAsks = askers.last.valid() && run <= target_.l2Bytes / kPartOfL2;
  const bool isLast = lastAsks && statement == askers.last;
  if (!isLast && statement != askers.first) {
    return nullptr;
  }
  Value *distance = !isLast && target_.askAhead > 0 && !lanes_.isRest ? builder_.getInt64(target_.askAhead) : nullptr;
  atDepth(lanes_.depth - 1, [&] {
    if (isLast) {
      Value *end = endOf(nest);
      distance = end != nullptr ? builder_.CreateMul(end, builder_.getInt64(bytes)) : builder_.getInt64(run);
    }
    const ir::OpId loop = fn_.parentOp(fn_.block(nest));
    const bool mayJump = loop.valid() && fn_.opcode(loop) == Opcode::For && run <= kLongestRunAhead;
    Value *advance = mayJump ? advanceOf(pointer, loop) : nullptr;
    if (advance != nullptr && !llvm::isa<llvm::ConstantInt>(advance)) {
      Value *here = builder_.getInt64(0);
      distance = builder_.CreateSelect(runsAgain(loop), isLast == lastAsks ? advance : here, distance != nullptr ? distance : here);
    }
  });
  return distance;
}

void Emitter::fetchAhead(ValueId pointer, const ir::Type &type, const Address &address, bool forWriting) {
  const int64_t bytes = type.elementBytes();
  const bool streams = address.contiguous && depth() >= lanes_.depth && lanes_.run * bytes >= kShortestRun;
  Value *distance = streams ? distanceAhead(pointer, bytes) : nullptr;
  if (distance == nullptr) {
    return;
  }
  const bool isNear = forWriting || distance == builder_.getInt64(target_.askAhead);
  const int64_t vector = lanes_.count * bytes, first = lanes_.copy * vector;
  Value *there = builder_.CreateGEP(builder_.getInt8Ty(), address.pointer, distance);
  for (int64_t at = (kCacheLine - first % kCacheLine) % kCacheLine; at < vector; at += kCacheLine) {
    askFor(builder_.CreateConstGEP1_64(builder_.getInt8Ty(), there, at), forWriting, isNear);
  }
  if (lanes_.isRest) { // its last element may lie in another line
    askFor(builder_.CreateConstGEP1_64(builder_.getInt8Ty(), there, vector - bytes), forWriting, isNear);
  }
}

// What is not needed soon goes to the second cache, which has room for it and waits for more lines at once.
void Emitter::askFor(Value *address, bool forWriting, bool isNear) {
  constexpr int kAllCaches = 3, kSecondCache = 2, kData = 1;
  builder_.CreateIntrinsic(llvm::Intrinsic::prefetch, {address->getType()},
                           {address, builder_.getInt32(forWriting ? 1 : 0), builder_.getInt32(isNear ? kAllCaches : kSecondCache), builder_.getInt32(kData)});
}

// The line that a row which begins or ends here shares with the one beside it.
void Emitter::askForSharedLine(Value *place) {
  Value *within = builder_.CreateAnd(builder_.CreatePtrToInt(place, builder_.getInt64Ty()), builder_.getInt64(kCacheLine - 1));
  askFor(builder_.CreateSelect(builder_.CreateICmpNE(within, builder_.getInt64(0)), place, harmlessPointer()), true);
}

} // namespace libtile::codegen::cpu
