// SPDX-License-Identifier: Apache-2.0
// The sums that a thread keeps for the programs of one call (mark_sums.h), in its arena:
//
//   for each word: sums = 0
//   ... programs ...
//   for each i: if sums[i] != 0: atomic add of sums[i] to array[start + i]
//
// An element that no program added to is not touched: it may lie outside of the array.
#include "codegen/cpu/emitter.h"
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
  constexpr int64_t kBytes = 64;
  std::vector<Value *> none;
  for (ir::OpId op : sumsOf(fn_)) {
    const ir::Type type = fn_.type(fn_.result(op));
    const int64_t begin = fn_.getInt(op, Attr::offset), bytes = type.numElements() * int64_t{type.elementBytes()};
    countedLoop({begin, begin + (bytes + kBytes - 1) / kBytes * kBytes, kBytes}, ir::Effects::WritesBuffer, none, [&](Value *at) {
      Value *zeros = llvm::Constant::getNullValue(llvm::FixedVectorType::get(builder_.getInt64Ty(), kBytes / 8));
      builder_.CreateAlignedStore(zeros, builder_.CreateGEP(builder_.getInt8Ty(), arena_, at), llvm::Align(kBytes));
    });
  }
}

void Emitter::addSums() {
  std::vector<Value *> none;
  for (ir::OpId op : sumsOf(fn_)) {
    const ir::Type type = fn_.type(fn_.result(op));
    llvm::Type *element = builder_.getIntNTy(type.elementBits());
    const auto offset = static_cast<uint64_t>(fn_.getInt(op, Attr::offset)), start = static_cast<uint64_t>(fn_.getInt(op, Attr::start));
    Value *sums = builder_.CreateConstInBoundsGEP1_64(builder_.getInt8Ty(), arena_, offset);
    Value *array = builder_.CreateConstGEP1_64(element, scalar(fn_.operand(op, 0)), start);
    countedLoop({0, type.numElements(), 1}, ir::Effects::WritesGlobal, none, [&](Value *index) {
      Value *sum = builder_.CreateLoad(element, builder_.CreateGEP(element, sums, index));
      const auto add = [&] {
        builder_.CreateAtomicRMW(llvm::AtomicRMWInst::Add, builder_.CreateGEP(element, array, index), sum,
                                 llvm::Align(type.elementBytes()), llvm::AtomicOrdering::Release);
      };
      branch(builder_.CreateICmpNE(sum, builder_.getIntN(type.elementBits(), 0)), add, [] {});
    });
  }
}

} // namespace libtile::codegen::cpu
