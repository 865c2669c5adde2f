// SPDX-License-Identifier: Apache-2.0
// The sums that a thread keeps for the programs of one call (mark_sums.h), in its arena:
//
//   for each word: sums = 0
//   ... programs ...
//   for each piece that a compare and swap takes: if one of its sums is not 0:
//     where none is 0, and the piece is aligned: atomic add of all
//     else for each i of it: if sums[i] != 0: atomic add of sums[i] to array[start + i]
//
// An element that no program added to is not touched: it may lie outside of the array.
#include "codegen/cpu/emitter.h"
#include "codegen/cpu/wide_atomics.h"
#include "codegen/require_pass.h"
#include "ir/ops.h"

namespace libtile::codegen::cpu {

using ir::Attr;
using ir::Opcode;
using llvm::Value;

namespace {

std::vector<ir::OpId> sumsOf(const ir::Function &fn) {
  std::vector<ir::OpId> ops;
  for (ir::OpId op : fn.walk()) {
    if (fn.opcode(op) == Opcode::CallSums) {
      requirePass(fn.hasAttr(op, Attr::offset), "allocate_scratch");
      ops.push_back(op);
    }
  }
  return ops;
}

} // namespace

// Each has its lines of the arena for itself.
void Emitter::openSums() {
  for (ir::OpId op : sumsOf(fn_)) {
    const ir::Type type = fn_.type(fn_.result(op));
    clearLines(fn_.getInt(op, Attr::offset), type.numElements() * int64_t{type.elementBytes()});
  }
}

void Emitter::addSums() {
  std::vector<Value *> none;
  for (ir::OpId op : sumsOf(fn_)) {
    const ir::Type type = fn_.type(fn_.result(op));
    const auto lanes = std::max<unsigned>(1, unsigned(target_.widestAtomic / type.elementBytes()));
    const int64_t whole = type.numElements() / lanes * lanes;
    const auto pieces = [&](int64_t first, int64_t end, unsigned together) {
      if (first < end) {
        countedLoop({first, end, together}, ir::Effects::WritesGlobal, none, [&](Value *index) { addPiece(op, index, together); });
      }
    };
    pieces(0, whole, lanes);
    pieces(whole, type.numElements(), 1);
  }
}

// The sums from `index` on.
void Emitter::addPiece(ir::OpId op, Value *index, unsigned lanes) {
  constexpr auto kOrder = llvm::AtomicOrdering::Release;
  const ir::Type type = fn_.type(fn_.result(op));
  llvm::Type *element = builder_.getIntNTy(type.elementBits());
  const auto offset = static_cast<uint64_t>(fn_.getInt(op, Attr::offset)), start = static_cast<uint64_t>(fn_.getInt(op, Attr::start));
  Value *from = builder_.CreateGEP(element, builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), arena_, offset), index);
  Value *to = builder_.CreateGEP(element, builder_.CreateConstGEP1_64(element, scalar(fn_.operand(op, 0)), start), index);
  Value *sums = builder_.CreateLoad(Elementwise::widen(element, lanes), from);
  Value *some = builder_.CreateICmpNE(sums, llvm::Constant::getNullValue(sums->getType()));
  const auto byLane = [&] {
    for (unsigned lane = 0; lane < lanes; ++lane) {
      const auto of = [&](Value *all) { return lanes == 1 ? all : builder_.CreateExtractElement(all, uint64_t{lane}); };
      branch(of(some), [&] {
        builder_.CreateAtomicRMW(llvm::AtomicRMWInst::Add, builder_.CreateConstGEP1_64(element, to, lane), of(sums), llvm::Align(type.elementBytes()), kOrder);
      }, [] {});
    }
  };
  if (lanes == 1) {
    return byLane();
  }
  branch(builder_.CreateOrReduce(some), [&] {
    Value *misplaced = builder_.CreateAnd(builder_.CreatePtrToInt(to, builder_.getInt64Ty()), builder_.getInt64(target_.widestAtomic - 1));
    Value *isWhole = builder_.CreateAnd(builder_.CreateAndReduce(some), builder_.CreateICmpEQ(misplaced, builder_.getInt64(0)));
    const WideUpdate update{ir::AtomicKind::add, type.elem(), kOrder, target_.widestAtomic};
    branch(isWhole, [&] { (void)wideAtomicRmw(builder_, elementwise_, update, to, sums); }, byLane);
  }, [] {});
}

} // namespace libtile::codegen::cpu
