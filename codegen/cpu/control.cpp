// SPDX-License-Identifier: Apache-2.0
// for, while and if. Loops of the kernel's own ask at each turn whether the launch is to end, but for a
// `for` inside of lanes. Their conditions are scalars of the kernel, hence uniform; inside of lanes the
// values that while and if carry are vectors throughout.
//
// A `for` inside of lanes (sink_loops.h) is made once for all vectors of the group: what it carries is
// a scalar where it is the same in all lanes, else one vector for each of the group. Masks that depend
// on the iteration are tested once an iteration, for all lanes of the group at once (one vector alone is
// the rest of some loop, and not worth a second body):
//
//   if index + lanes of the group <= n - iv    the body without masks
//   else                                       the body
#include "codegen/cpu/emitter.h"
#include "ir/ops.h"

#include <llvm/ADT/DenseSet.h>

#include <algorithm>

namespace libtile::codegen::cpu {

using ir::Attr;
using ir::ValueId;
using llvm::Value;

Value *Emitter::uniformCondition(ValueId value) {
  if (lanes_.count > 1 && isVarying(value)) {
    throw ir::InternalError("a loop or branch inside of lanes depends on the lane");
  }
  return scalar(value);
}

Value *Emitter::carriedIn(ValueId value) { return inForm(value, carriesVarying()); }

llvm::Type *Emitter::carriedType(ValueId value) {
  return Elementwise::widen(elementwise_.registerType(fn_.type(value)),
                            carriesVarying() ? lanes_.count : 1);
}

std::vector<Value *> Emitter::yielded(ir::BlockId block, unsigned skip) {
  std::vector<Value *> values;
  for (ValueId value : fn_.operands(fn_.last(block)).subspan(skip)) {
    values.push_back(carriedIn(value));
  }
  return values;
}

// Assumes that a carried value is the same in all lanes until something that it depends on is not.
std::vector<bool> Emitter::carriedVarying(ir::OpId loop) {
  const ir::BlockId body = fn_.region(loop);
  const std::span<const ValueId> inits = fn_.operands(loop).subspan(3);
  if (lanes_.count == 1) {
    return std::vector<bool>(inits.size(), carriesVarying());
  }
  std::vector<bool> varying;
  for (ValueId init : inits) {
    varying.push_back(isVarying(init));
  }
  const std::span<const ValueId> next =
      fn_.operands(fn_.last(body)).subspan(fn_.getBool(loop, Attr::stop) ? 1 : 0);
  for (bool changed = true; changed;) {
    changed = false;
    llvm::DenseSet<unsigned> differ;
    for (size_t i = 0; i < varying.size(); ++i) {
      if (varying[i]) {
        differ.insert(fn_.arg(body, i + 1).index);
      }
    }
    const auto differs = [&](ValueId value) {
      return differ.contains(value.index) ||
             (fn_.isDefinedOutside(value, body) && isVarying(value));
    };
    for (ir::OpId op : fn_.opsIn(body)) {
      if (!fn_.regions(op).empty() || std::ranges::any_of(fn_.operands(op), differs)) {
        for (ValueId result : fn_.results(op)) {
          differ.insert(result.index);
        }
      }
    }
    for (size_t i = 0; i < varying.size(); ++i) {
      changed |= !varying[i] && differs(next[i]);
      varying[i] = varying[i] || differs(next[i]);
    }
  }
  return varying;
}

std::vector<Value *> Emitter::slotValues(std::span<const ValueId> values,
                                         const std::vector<bool> &varying) {
  std::vector<Value *> made;
  for (size_t i = 0; i < values.size(); ++i) {
    if (varying[i]) {
      eachVector([&](unsigned) { made.push_back(vector(values[i])); });
    } else {
      made.push_back(scalar(values[i]));
    }
  }
  return made;
}

void Emitter::defineSlots(std::span<const ValueId> values, const std::vector<bool> &varying,
                          llvm::ArrayRef<Value *> made) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (varying[i]) {
      eachVector([&](unsigned copy) { define(values[i], made[copy], depth(), true); });
    } else {
      define(values[i], made[0], depth(), false);
    }
    made = made.drop_front(varying[i] ? group_.size() : 1);
  }
}

// The last iteration is found from the distance to `hi`, so the index never overflows.
void Emitter::emitFor(ir::OpId op) {
  Value *lo = uniformCondition(fn_.operand(op, 0));
  Value *hi = uniformCondition(fn_.operand(op, 1));
  Value *step = uniformCondition(fn_.operand(op, 2));
  const bool isUnsigned = fn_.getBool(op, Attr::is_unsigned);
  Value *isDown = isUnsigned ? builder_.getFalse()
                             : builder_.CreateICmpSLT(step, elementwise_.intLike(step, 0));
  Value *below = isUnsigned ? builder_.CreateICmpULT(lo, hi) : builder_.CreateICmpSLT(lo, hi);
  Value *above = builder_.CreateICmpSGT(lo, hi);
  Value *enters = builder_.CreateSelect(isDown, above, below);
  Value *stride = builder_.CreateSelect(isDown, builder_.CreateNeg(step), step);
  const ir::BlockId body = fn_.region(op);
  const std::vector<bool> varying = carriedVarying(op);
  const std::vector<Value *> inits = slotValues(fn_.operands(op).subspan(3), varying);
  llvm::BasicBlock *entry = builder_.GetInsertBlock();
  llvm::BasicBlock *head = newBlock("for");
  llvm::BasicBlock *exit = newBlock("for.end");
  openScope(builder_.CreateCondBr(enters, head, exit), false, fn_.effects(op));
  builder_.SetInsertPoint(head);
  llvm::PHINode *index = builder_.CreatePHI(lo->getType(), 2);
  index->addIncoming(lo, entry);
  define(fn_.arg(body, 0), index, depth(), false);
  std::vector<llvm::PHINode *> phis;
  for (Value *init : inits) {
    phis.push_back(builder_.CreatePHI(init->getType(), 2));
    phis.back()->addIncoming(init, entry);
  }
  defineSlots(fn_.args(body).subspan(1), varying, std::vector<Value *>(phis.begin(), phis.end()));
  std::vector<Value *> next = emitForBody(op, varying);
  if (lanes_.id < 0) {
    emitPoll();
  }
  Value *left =
      builder_.CreateSelect(isDown, builder_.CreateSub(index, hi), builder_.CreateSub(hi, index));
  Value *again = builder_.CreateICmpUGT(left, stride);
  if (fn_.getBool(op, Attr::stop)) {
    again = builder_.CreateAnd(again, builder_.CreateNot(next.front()));
    next.erase(next.begin());
  }
  index->addIncoming(builder_.CreateAdd(index, step), builder_.GetInsertBlock());
  llvm::BasicBlock *latch = builder_.GetInsertBlock();
  builder_.CreateCondBr(again, head, exit);
  closeScope();
  builder_.SetInsertPoint(exit);
  std::vector<Value *> results;
  for (unsigned i = 0; i < phis.size(); ++i) {
    phis[i]->addIncoming(next[i], latch);
    llvm::PHINode *result = builder_.CreatePHI(next[i]->getType(), 2);
    result->addIncoming(inits[i], entry);
    result->addIncoming(next[i], latch);
    results.push_back(result);
  }
  defineSlots(fn_.results(op), varying, results);
}

// What the body yields, `stop` first. Outside of lanes the body stands in the scope of the loop.
std::vector<Value *> Emitter::emitForBody(ir::OpId op, const std::vector<bool> &varying) {
  const ir::BlockId body = fn_.region(op);
  const auto yieldedHere = [&] {
    std::vector<bool> slots = varying;
    slots.insert(slots.begin(), fn_.numOperands(fn_.last(body)) - varying.size(), false);
    return slotValues(fn_.operands(fn_.last(body)), slots);
  };
  if (group_.size() == 1) {
    emitBlock(body);
    return yieldedHere();
  }
  Limits limits{depth(), lanes_.limits};
  const auto limitBy = [&](Limits *innermost) {
    for (Lanes &lanes : group_) {
      lanes.limits = innermost;
    }
    lanes_.limits = innermost;
  };
  const size_t known = scopes_.back().values.size();
  llvm::BasicBlock *full = newBlock("full");
  llvm::Instruction *jump = builder_.CreateBr(full);
  openScope(jump, false, fn_.effects(op));
  builder_.SetInsertPoint(full);
  limitBy(&limits);
  emitBlock(body);
  std::vector<Value *> next = yieldedHere();
  limitBy(limits.outer);
  closeScope();
  if (limits.below.empty()) {
    return next;
  }
  forgetValues(known);
  const auto masked = [&] {
    emitBlock(body);
    return yieldedHere();
  };
  return emitMaskedBody(limits, jump, std::move(next), fn_.effects(op), masked);
}

// The body again, for iterations in which some lane of the group is past a limit; `full` are the values
// of the one that has just been made. The lane indices are made anew, in a scope of their own, so that
// the other body has nothing to do with them.
std::vector<Value *>
Emitter::emitMaskedBody(const Limits &limits, llvm::Instruction *jump, std::vector<Value *> full,
                        ir::Effects effects, llvm::function_ref<std::vector<Value *>()> body) {
  llvm::BasicBlock *fullBlock = llvm::cast<llvm::BranchInst>(jump)->getSuccessor(0);
  llvm::BasicBlock *fullEnd = builder_.GetInsertBlock();
  llvm::BasicBlock *masked = newBlock("masked");
  llvm::BasicBlock *join = newBlock("join");
  builder_.CreateBr(join);
  builder_.SetInsertPoint(jump);
  const unsigned valid = (group_.size() - 1) * lanes_.count + lanes_.valid;
  Value *end = builder_.CreateAdd(lanes_.base, builder_.getInt64(valid), "", true, true);
  Value *inside = builder_.getTrue();
  for (Value *below : limits.below) {
    inside = builder_.CreateAnd(builder_.CreateICmpSLE(end, below), inside);
  }
  llvm::Instruction *choice = builder_.CreateCondBr(inside, fullBlock, masked);
  jump->eraseFromParent();
  std::vector<Form> outside;
  eachVector([&](unsigned) { outside.push_back(form(lanes_.index)); });
  openScope(choice, false, effects);
  builder_.SetInsertPoint(masked);
  Group around = group_;
  for (Lanes &lanes : group_) {
    lanes.depth = depth();
    lanes.base = builder_.CreateAdd(lanes_.base, builder_.getInt64(lanes.copy * lanes.count), "", true, true);
  }
  bindLaneIndex(lanes_.index);
  const std::vector<Value *> rest = body();
  llvm::BasicBlock *maskedEnd = builder_.GetInsertBlock();
  builder_.CreateBr(join);
  closeScope();
  leaveLanes(std::move(around));
  eachVector([&](unsigned copy) { forms_[1 + lanes_.copy][lanes_.index.index] = outside[copy]; });
  builder_.SetInsertPoint(join);
  for (size_t i = 0; i < full.size(); ++i) {
    llvm::PHINode *phi = builder_.CreatePHI(full[i]->getType(), 2);
    phi->addIncoming(full[i], fullEnd);
    phi->addIncoming(rest[i], maskedEnd);
    full[i] = phi;
  }
  return full;
}

void Emitter::emitWhile(ir::OpId op) {
  const ir::BlockId cond = fn_.region(op, 0);
  const ir::BlockId body = fn_.region(op, 1);
  const bool stops = fn_.getBool(op, Attr::stop);
  std::vector<Value *> carried;
  for (ValueId init : fn_.operands(op)) {
    carried.push_back(carriedIn(init));
  }
  llvm::BasicBlock *entry = builder_.GetInsertBlock();
  llvm::BasicBlock *head = newBlock("while");
  llvm::BasicBlock *inside = newBlock("while.body");
  llvm::BasicBlock *exit = newBlock("while.end");
  openScope(builder_.CreateBr(head), false, fn_.effects(op));
  builder_.SetInsertPoint(head);
  std::vector<llvm::PHINode *> phis;
  for (unsigned i = 0; i < carried.size(); ++i) {
    phis.push_back(builder_.CreatePHI(carried[i]->getType(), 2));
    phis[i]->addIncoming(carried[i], entry);
    define(fn_.arg(cond, i), phis[i], depth(), carriesVarying());
    define(fn_.arg(body, i), phis[i], depth(), carriesVarying());
  }
  emitBlock(cond);
  Value *goesOn = uniformCondition(fn_.operand(fn_.last(cond), 0));
  llvm::BasicBlock *tested = builder_.GetInsertBlock();
  builder_.CreateCondBr(goesOn, inside, exit);
  builder_.SetInsertPoint(inside);
  emitBlock(body);
  const std::vector<Value *> next = yielded(body, stops ? 1 : 0);
  Value *stop = stops ? uniformCondition(fn_.operand(fn_.last(body), 0)) : nullptr;
  emitPoll();
  llvm::BasicBlock *latch = builder_.GetInsertBlock();
  if (stops) {
    builder_.CreateCondBr(stop, exit, head);
  } else {
    builder_.CreateBr(head);
  }
  closeScope();
  builder_.SetInsertPoint(exit);
  for (unsigned i = 0; i < carried.size(); ++i) {
    phis[i]->addIncoming(next[i], latch);
    llvm::PHINode *result = builder_.CreatePHI(carried[i]->getType(), 2);
    result->addIncoming(phis[i], tested);
    if (stops) {
      result->addIncoming(next[i], latch);
    }
    define(fn_.result(op, i), result, depth(), carriesVarying());
  }
}

void Emitter::emitIf(ir::OpId op) {
  Value *cond = uniformCondition(fn_.operand(op, 0));
  llvm::BasicBlock *blocks[2] = {newBlock("if"), newBlock("if.else")};
  llvm::BasicBlock *merge = newBlock("if.end");
  llvm::Instruction *jump = builder_.CreateCondBr(cond, blocks[0], blocks[1]);
  std::vector<llvm::PHINode *> phis;
  for (ValueId result : fn_.results(op)) {
    phis.push_back(llvm::PHINode::Create(carriedType(result), 2, "", merge));
  }
  for (unsigned side = 0; side < 2; ++side) {
    const ir::BlockId region = fn_.region(op, side);
    openScope(jump, false, fn_.effects(op));
    builder_.SetInsertPoint(blocks[side]);
    emitBlock(region);
    const std::vector<Value *> values = yielded(region, 0);
    for (unsigned i = 0; i < phis.size(); ++i) {
      phis[i]->addIncoming(values[i], builder_.GetInsertBlock());
    }
    builder_.CreateBr(merge);
    closeScope();
  }
  builder_.SetInsertPoint(merge);
  for (unsigned i = 0; i < phis.size(); ++i) {
    define(fn_.result(op, i), phis[i], depth(), carriesVarying());
  }
}

} // namespace libtile::codegen::cpu
