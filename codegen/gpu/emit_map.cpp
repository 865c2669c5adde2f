// SPDX-License-Identifier: Apache-2.0
// The body of a map, once for each register, or in a loop over them; in it threads may part.
#include "codegen/gpu/emitter.h"
#include "ir/ops.h"

#include <algorithm>

namespace libtile::codegen::gpu {

// Ops. A longer body is not repeated for each register: NVIDIA's assembler takes seconds for eight of some thousands of
// instructions, which run for so long that a loop around them costs nothing.
constexpr size_t kLongBody = 128;

// What the body yields; zeros where the predicate does not hold, for a loop over what lies in the padding
// need not end.
Regs Emitter::mapElement(ir::OpId op, llvm::Value *predicate) {
  const ir::BlockId body = fn_.region(op);
  if (predicate == nullptr) {
    emitBlock(body);
    return carried(fn_.operands(fn_.last(body)));
  }
  llvm::BasicBlock *before = builder_.GetInsertBlock();
  llvm::BasicBlock *inside = newBlock("map"), *after = newBlock("map.end");
  builder_.CreateCondBr(predicate, inside, after);
  builder_.SetInsertPoint(inside);
  emitBlock(body);
  const Regs yielded = carried(fn_.operands(fn_.last(body)));
  llvm::BasicBlock *end = builder_.GetInsertBlock();
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
  Regs zeros;
  for (const llvm::Value *value : yielded) {
    zeros.push_back(llvm::Constant::getNullValue(value->getType()));
  }
  Regs merged = phis(zeros, before);
  addIncoming(merged, yielded, end);
  return merged;
}

// The body once for each register.
std::vector<Regs> Emitter::mapEach(ir::OpId op, bool parts) {
  const ir::BlockId body = fn_.region(op);
  std::vector<Regs> inputs, results(fn_.results(op).size());
  for (const ir::ValueId operand : fn_.operands(op)) {
    inputs.push_back(regs(operand));
  }
  for (unsigned reg = 0; reg < numRegs(fn_.result(op)); ++reg) {
    for (unsigned i = 0; i < inputs.size(); ++i) {
      set(fn_.arg(body, i), inputs[i][reg]);
    }
    const Regs yielded = mapElement(op, parts ? inTile(fn_.type(fn_.result(op)), reg) : nullptr);
    for (size_t i = 0; i < yielded.size(); ++i) {
      results[i].push_back(yielded[i]);
    }
  }
  return results;
}

// The body once, in a loop that takes the first register of each tile. The others move up by one each time, and
// results come in at the end:
//   do { r = body(a[0]); a = a[1:], a[-1]; results = results[1:], r } while (--left != 0)
std::vector<Regs> Emitter::mapInLoop(ir::OpId op, bool parts) {
  const ir::BlockId body = fn_.region(op);
  const unsigned count = numRegs(fn_.result(op)), inputs = fn_.numOperands(op);
  Regs initial = carried(fn_.operands(op)); // behind them where the tile is, then results
  for (unsigned reg = 0; parts && reg < count; ++reg) {
    llvm::Value *inside = inTile(fn_.type(fn_.result(op)), static_cast<int32_t>(reg));
    initial.push_back(inside != nullptr ? inside : builder_.getTrue());
  }
  const size_t firstResult = initial.size();
  for (const ir::ValueId result : fn_.results(op)) {
    initial.resize(initial.size() + count, llvm::Constant::getNullValue(registerType(result)));
  }

  llvm::BasicBlock *before = builder_.GetInsertBlock();
  llvm::BasicBlock *loop = newBlock("map.loop"), *after = newBlock("map.done");
  builder_.CreateBr(loop);
  builder_.SetInsertPoint(loop);
  llvm::PHINode *left = builder_.CreatePHI(builder_.getInt32Ty(), 2);
  left->addIncoming(builder_.getInt32(count), before);
  Regs state;
  for (llvm::Value *value : initial) {
    llvm::PHINode *phi = builder_.CreatePHI(value->getType(), 2);
    phi->addIncoming(value, before);
    state.push_back(phi);
  }
  for (unsigned i = 0; i < inputs; ++i) {
    set(fn_.arg(body, i), state[i * count]);
  }
  const Regs yielded = mapElement(op, parts ? state[inputs * count] : nullptr);

  Regs next;
  for (size_t i = 0; i < state.size(); ++i) {
    const bool isLast = (i + 1) % count == 0;
    next.push_back(!isLast ? state[i + 1] : i < firstResult ? state[i] : yielded[(i - firstResult) / count]);
  }
  llvm::Value *rest = builder_.CreateSub(left, builder_.getInt32(1));
  addIncoming(state, next, builder_.GetInsertBlock());
  left->addIncoming(rest, builder_.GetInsertBlock());
  builder_.CreateCondBr(builder_.CreateICmpNE(rest, builder_.getInt32(0)), loop, after);
  builder_.SetInsertPoint(after);
  std::vector<Regs> results;
  for (auto from = next.begin() + firstResult; from != next.end(); from += count) {
    results.emplace_back(from, from + count);
  }
  return results;
}

void Emitter::lowerMap(ir::OpId op) {
  const ir::BlockId body = fn_.region(op);
  const bool parts = std::ranges::any_of(
      fn_.opsIn(body), [&](ir::OpId inner) { return !fn_.regions(inner).empty(); });
  const bool isLong = numRegs(fn_.result(op)) > 1 && fn_.walk(body).size() > kLongBody;
  std::vector<Regs> results = isLong ? mapInLoop(op, parts) : mapEach(op, parts);
  for (unsigned i = 0; i < results.size(); ++i) {
    set(fn_.result(op, i), std::move(results[i]));
  }
  // What follows may need all threads of the warp at once.
  if (parts) {
    warpBarrier();
  }
}

} // namespace libtile::codegen::gpu
