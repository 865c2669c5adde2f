// SPDX-License-Identifier: Apache-2.0
// Stores past the caches, of nests whose stores say that nothing in the kernel reads what they write (cache = cs).
// Whether the launch writes more than caches keep is known when a nest begins:
//
//   written = programs * turns of the loops around * elements of the nest * bytes of one
//
// and only then its stores go past them: of fewer bytes, whoever reads them next would have found them there.
//
// Such a store takes whole vectors at multiples of their size, and a line takes stores of one kind: a line that others
// put into a cache has to leave it first, and is read again. So the nest's whole steps are whole lines, and begin where
// its first store is at one; what is in front of that is masked vectors, as the rest is:
//
//   begin = written >= frame->uncached_bytes ? elements up to a line : 0
//   for i = begin - vectors, begin, lanes   lanes from -i on
//   for i = begin, stop, step               stores past the caches, or with begin = 0 perhaps others
//   for i = stop, end, line                 the same
//   for i = end, extent, lanes              lanes below extent - i
//
// The front comes first: it is in the line that the row before, which is often stored just before, has ended in, and the
// two stores to that line then wait for it once. Its vectors end at a line, too: one that begins with the row reaches into the first
// whole line, and though masked off there brings it into the cache that its own store goes past.
//
// Other programs and threads learn of these stores by the end of the call, in front of which they are done (entry.cpp):
// a function in which programs speak with each other before makes none. Nor does code that checks its accesses: it tells
// of the first element that is out of bounds.
#include "codegen/cpu/streams.h"

#include "codegen/cpu/cache_line.h"
#include "codegen/cpu/emitter.h"
#include "codegen/cpu/frame.h"
#include "ir/ops.h"

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/TargetParser/Triple.h>

#include <cstddef>

namespace libtile::codegen::cpu {

using ir::Attr;
using ir::Effects;
using ir::Opcode;
using ir::ValueId;
using llvm::Value;

namespace {

bool goesPastCaches(const ir::Function &fn, ir::OpId op) {
  return fn.opcode(op) == Opcode::Store && fn.getEnum<ir::CacheHint>(op, Attr::cache) == ir::CacheHint::cs &&
         !fn.hasAttr(op, Attr::sem) && !fn.getBool(op, Attr::is_volatile);
}

bool mayTellOthers(const ir::Function &fn) {
  for (ir::OpId op : fn.walk()) {
    const Effects effects = fn.ownEffects(op);
    if (effects.has(Effects::Synchronises) ||
        (effects.has(Effects::Ordered) && (effects.has(Effects::ReadsGlobal) || effects.has(Effects::WritesGlobal)))) {
      return true;
    }
  }
  return false;
}

// Each lane's number with the count.
Value *compareLanes(llvm::IRBuilderBase &builder, llvm::CmpInst::Predicate predicate, Value *count, unsigned lanes) {
  llvm::Type *int32 = builder.getInt32Ty();
  Value *numbers = builder.CreateStepVector(llvm::FixedVectorType::get(int32, lanes));
  return builder.CreateICmp(predicate, numbers, builder.CreateVectorSplat(lanes, builder.CreateTrunc(count, int32)));
}

} // namespace

bool mayStream(const ir::Function &fn, ir::OpId nest, const ir::Target &target) {
  if (!llvm::Triple(target.triple).isX86() || target.vectorBytes < 32) {
    return false;
  }
  bool any = false;
  for (ir::OpId op = fn.first(fn.region(nest)); op.valid(); op = fn.next(op)) {
    if (!fn.regions(op).empty() || fn.effects(op).has(Effects::Ordered) || fn.hasAttr(op, Attr::within)) {
      return false;
    }
    any |= goesPastCaches(fn, op);
  }
  return any && !mayTellOthers(fn);
}

Value *lanesBelow(llvm::IRBuilderBase &builder, Value *count, unsigned lanes) {
  return compareLanes(builder, llvm::CmpInst::ICMP_ULT, count, lanes);
}

Value *lanesFrom(llvm::IRBuilderBase &builder, Value *count, unsigned lanes) {
  return compareLanes(builder, llvm::CmpInst::ICMP_SGE, count, lanes);
}

void writePastCaches(llvm::IRBuilderBase &builder, Value *value, Value *pointer) {
  const uint64_t bits = value->getType()->getPrimitiveSizeInBits().getFixedValue();
  auto *words = llvm::FixedVectorType::get(builder.getInt32Ty(), bits / 32);
  llvm::StoreInst *store = builder.CreateAlignedStore(builder.CreateBitCast(value, words), pointer, llvm::Align(bits / 8));
  auto *one = llvm::ConstantAsMetadata::get(builder.getInt32(1));
  store->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(builder.getContext(), {one}));
}

void finishStreams(llvm::IRBuilderBase &builder) {
  builder.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, llvm::ArrayRef<llvm::Type *>(), {});
}

// Whether all that the launch stores through the pointer in this nest is as much as the frame says: an i1 in the scope
// around the lanes; null where a loop around may store to the same place again.
Value *Emitter::writesMuch(ValueId pointer, int64_t bytes) {
  llvm::Type *wide = builder_.getInt64Ty();
  const ir::OpId nest = fn_.parentOp(fn_.defBlock(lanes_.index));
  const std::span<const int64_t> extents = fn_.getInts(nest, Attr::extents);
  Value *elements = builder_.getInt64(extents.back());
  for (Value *below : lanes_.limits->below) {
    elements = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, elements, below);
  }
  for (const int64_t extent : extents.first(extents.size() - 1)) {
    bytes *= extent;
  }
  Value *written = builder_.CreateMul(elements, builder_.getInt64(bytes));
  Value *least = frameField(wide, offsetof(libtile_frame, uncached_bytes));
  Value *isKnown = builder_.CreateICmpNE(least, builder_.getInt64(0));
  for (Value *extent : grid_) {
    written = builder_.CreateMul(written, builder_.CreateZExt(extent, wide));
  }
  for (ir::OpId loop = fn_.parentOp(fn_.block(nest)); loop.valid(); loop = fn_.parentOp(fn_.block(loop))) {
    if (fn_.opcode(loop) == Opcode::If) {
      continue;
    }
    Value *advance = fn_.opcode(loop) == Opcode::For ? advanceOf(pointer, loop) : nullptr;
    if (advance == nullptr || llvm::PatternMatch::match(advance, llvm::PatternMatch::m_Zero())) {
      return nullptr;
    }
    // turns = span / step, at least 1, without a division
    const auto operand = [&](unsigned i) { return builder_.CreateSExt(scalar(fn_.operand(loop, i)), wide); };
    Value *step = operand(2);
    Value *span = builder_.CreateSub(operand(1), operand(0));
    written = builder_.CreateMul(written, builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, span, step));
    least = builder_.CreateMul(least, step);
  }
  return builder_.CreateAnd(isKnown, builder_.CreateICmpSGE(written, least));
}

// How many bytes further on the pointer's row begins in the next turn of the loop around, or in the next program: an i64; null: not known.
Value *Emitter::nextRow(ValueId pointer, ir::OpId nest) {
  Value *inProgram = advanceOf(pointer, {});
  const ir::OpId loop = fn_.parentOp(fn_.block(nest));
  Value *inLoop = loop.valid() && fn_.opcode(loop) == Opcode::For ? advanceOf(pointer, loop) : nullptr;
  if (inLoop == nullptr) {
    return inProgram;
  }
  return builder_.CreateSelect(runsAgain(loop), inLoop, inProgram != nullptr ? inProgram : builder_.getInt64(0));
}

// Whole vectors from where whole steps stop, up to the nest's end, which is null if it has none. The lines that the row
// shares with those beside it are asked for now, and those of the next row, too: until such a line is there, no store behind one to it
// is made, and a row's own stores take less time than memory does.
Value *Emitter::streamEnd(ir::OpId nest, const Limits &limits, Value *stop, Value *end) {
  namespace I = llvm::Intrinsic;
  const int64_t lanes = fn_.getInt(nest, Attr::lanes);
  const auto at = [&](Value *row, Value *element) {
    return builder_.CreateGEP(builder_.getInt8Ty(), row, builder_.CreateMul(element, builder_.getInt64(limits.rowBytes)));
  };
  Value *last = builder_.getInt64(fn_.getInts(nest, Attr::extents).back());
  last = end != nullptr ? builder_.CreateBinaryIntrinsic(I::umin, end, last) : last;
  Value *left = builder_.CreateBinaryIntrinsic(I::smax, builder_.CreateSub(last, stop), builder_.getInt64(0));
  askForSharedLine(limits.row);
  askForSharedLine(at(limits.row, last));
  if (limits.nextRow != nullptr) {
    Value *next = builder_.CreateGEP(builder_.getInt8Ty(), limits.row, limits.nextRow);
    askForSharedLine(next);
    askForSharedLine(at(next, last));
  }
  Value *vectors = builder_.CreateUDiv(builder_.CreateAdd(left, builder_.getInt64(lanes - 1)), builder_.getInt64(lanes));
  return builder_.CreateAdd(stop, builder_.CreateMul(vectors, builder_.getInt64(lanes)));
}

// An i1, the same for all vectors of a step; null: not past the caches.
Value *Emitter::storesPastCaches(ir::OpId op, const ir::Type &type) {
  const ValueId pointer = fn_.operand(op, 0);
  const Form &known = form(pointer);
  Limits *limits = lanes_.limits;
  const int64_t bytes = type.elementBytes(), vector = lanes_.count * bytes;
  const bool isVector = vector >= 16 && vector <= target_.vectorBytes;
  const ir::OpId nest = fn_.parentOp(fn_.defBlock(lanes_.index));
  const bool fillsLines = vector * std::max<int64_t>(fn_.getInt(nest, Attr::unroll), 1) % kCacheLine == 0;
  if (limits == nullptr || !limits->mayStream || !goesPastCaches(fn_, op) || !isVector || !fillsLines || known.anchorDepth > limits->depth) {
    return nullptr;
  }
  const auto [found, isNew] = limits->past.try_emplace(op.index, nullptr);
  if (isNew) {
    atDepth(limits->depth, [&] {
      Value *isMuch = writesMuch(pointer, bytes);
      if (isMuch == nullptr) {
        return;
      }
      Value *address = builder_.CreatePtrToInt(known.anchor, builder_.getInt64Ty());
      if (limits->begin == nullptr) {
        Value *missing = builder_.CreateAnd(builder_.CreateNeg(address), builder_.getInt64(kCacheLine - 1));
        Value *elements = builder_.CreateUDiv(missing, builder_.getInt64(bytes));
        limits->begin = builder_.CreateSelect(isMuch, elements, builder_.getInt64(0));
        limits->row = known.anchor;
        limits->rowBytes = bytes;
        limits->nextRow = nextRow(pointer, nest);
      }
      limits->perLine = std::max({limits->perLine, kCacheLine / bytes, int64_t{lanes_.count}});
      Value *first = builder_.CreateAdd(address, builder_.CreateMul(limits->begin, builder_.getInt64(bytes)));
      Value *isAligned = builder_.CreateICmpEQ(builder_.CreateAnd(first, builder_.getInt64(kCacheLine - 1)), builder_.getInt64(0));
      found->second = builder_.CreateAnd(isMuch, isAligned);
    });
  }
  return found->second;
}

} // namespace libtile::codegen::cpu
