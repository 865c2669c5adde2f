// SPDX-License-Identifier: Apache-2.0
// Scratch: buffers, and what of them is kept from one program of a thread to the next.
//
// A kept buffer is nothing special here: its place in the arena is its own (allocate_scratch.h). What it holds the keys say
// that were given for a slot, in the arena too: for each slot a word that is 1 if there are any, then for each slot the first key, and so on.
// Only the first words have to be right at the first program. So code that has some begins each call with
//
//   if (!frame->keeps_arenas || arena->is_open == 0) { forget all keys; arena->is_open = 1; }
#include "codegen/cpu/cache_line.h"
#include "codegen/cpu/emitter.h"
#include "codegen/cpu/frame.h"
#include "codegen/require_pass.h"
#include "ir/ops.h"
#include "passes/cpu/allocate_scratch.h"

#include <cstddef>

namespace libtile::codegen::cpu {

using ir::Attr;
using ir::Opcode;
using ir::ValueId;
using llvm::Value;

void Emitter::emitAlloc(ir::OpId op) {
  requirePass(fn_.hasAttr(op, Attr::offset), "allocate_scratch");
  Value *pointer = nullptr;
  atDepth(0, [&] {
    pointer = builder_.CreateConstInBoundsGEP1_64(
        builder_.getInt8Ty(), arena_, static_cast<uint64_t>(fn_.getInt(op, Attr::offset)));
  });
  define(fn_.result(op), pointer, 0, false);
}

void Emitter::emitBufferSlot(ir::OpId op) {
  const ir::Type slot = fn_.type(fn_.result(op));
  const int64_t bytes = slot.numElements() * slot.elementBytes();
  Value *index = builder_.CreateSExt(scalar(fn_.operand(op, 1)), builder_.getInt64Ty());
  Value *offset = builder_.CreateMul(index, builder_.getInt64(bytes));
  define(fn_.result(op), builder_.CreateGEP(builder_.getInt8Ty(), scalar(fn_.operand(op, 0)), offset), depth(), false);
}

void Emitter::emitRecall(ir::OpId op) {
  requirePass(fn_.hasAttr(op, Attr::offset), "allocate_scratch");
  llvm::Type *word = builder_.getInt64Ty();
  Value *slot = builder_.CreateSExt(scalar(fn_.operand(op, 0)), word);
  Value *keys = builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), arena_, static_cast<uint64_t>(fn_.getInt(op, Attr::offset)));
  keys = builder_.CreateGEP(word, keys, slot);
  Value *isSame = nullptr;
  for (unsigned i = 0; i < fn_.numOperands(op); ++i) {
    Value *key = builder_.getInt64(1);
    if (i != 0) {
      const ValueId value = fn_.operand(op, i);
      key = fn_.type(value).isPointer() ? builder_.CreatePtrToInt(scalar(value), word)
                                        : builder_.CreateZExt(scalar(value), word);
    }
    Value *place = builder_.CreateConstGEP1_64(word, keys, i * uint64_t(fn_.getInt(op, Attr::slots)));
    Value *equal = builder_.CreateICmpEQ(builder_.CreateLoad(word, place), key);
    isSame = isSame == nullptr ? equal : builder_.CreateAnd(isSame, equal);
    builder_.CreateStore(key, place);
  }
  define(fn_.result(op), isSame, depth(), false);
}

// Of the arena, by whole lines: what is placed there has its own.
void Emitter::clearLines(int64_t begin, int64_t bytes) {
  std::vector<Value *> none;
  countedLoop({begin, begin + (bytes + kCacheLine - 1) / kCacheLine * kCacheLine, kCacheLine}, ir::Effects::WritesBuffer, none, [&](Value *at) {
    Value *zeros = llvm::Constant::getNullValue(llvm::FixedVectorType::get(builder_.getInt64Ty(), kCacheLine / 8));
    builder_.CreateAlignedStore(zeros, builder_.CreateGEP(builder_.getInt8Ty(), arena_, at), llvm::Align(kCacheLine));
  });
}

void Emitter::openArena() {
  std::vector<ir::OpId> recalls;
  for (ir::OpId op : fn_.walk()) {
    if (fn_.opcode(op) == Opcode::Recall) {
      requirePass(fn_.hasAttr(op, Attr::offset), "allocate_scratch");
      recalls.push_back(op);
    }
  }
  if (recalls.empty()) {
    return;
  }
  llvm::Type *word = builder_.getInt64Ty();
  Value *zero = builder_.getInt64(0);
  Value *keeps = builder_.CreateICmpNE(frameField(word, offsetof(libtile_frame, keeps_arenas)), zero);
  Value *isOpen = builder_.CreateICmpNE(builder_.CreateLoad(word, arena_), zero);
  branch(builder_.CreateAnd(keeps, isOpen), [] {}, [&] {
    for (ir::OpId op : recalls) {
      clearLines(fn_.getInt(op, Attr::offset), fn_.getInt(op, Attr::slots) * passes::kKeyBytes);
    }
    builder_.CreateStore(builder_.getInt64(1), arena_);
  });
}

} // namespace libtile::codegen::cpu
