// SPDX-License-Identifier: Apache-2.0
// The body of a map, once for each register; in it threads may part.
#include "codegen/nvidia/emitter.h"
#include "ir/ops.h"

#include <algorithm>

namespace libtile::codegen::nvidia {

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
  Regs merged = phis(fn_.operands(fn_.last(body)), zeros, before);
  addIncoming(merged, yielded, end);
  return merged;
}

void Emitter::lowerMap(ir::OpId op) {
  const ir::BlockId body = fn_.region(op);
  const bool parts = std::ranges::any_of(
      fn_.opsIn(body), [&](ir::OpId inner) { return !fn_.regions(inner).empty(); });
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
  for (unsigned i = 0; i < results.size(); ++i) {
    set(fn_.result(op, i), std::move(results[i]));
  }
  // What follows may need all threads of the warp at once.
  if (parts) {
    assembly("bar.warp.sync 0xffffffff;", "", builder_.getVoidTy(), {}, true, true);
  }
}

} // namespace libtile::codegen::nvidia
