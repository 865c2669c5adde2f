// SPDX-License-Identifier: Apache-2.0
// Mark and sweep. Roots are the ops that may not be removed (Effects::removable); a live op makes
// its operands live, and the ops around it. What a loop carries is one *slot*: its initial value,
// the region arguments, the yielded value and the result; the slot is live when an argument or the
// result is, so a pointer that is only advanced goes, though it is used by its own next value.
#include "passes/eliminate_dead_code.h"

#include "ir/ops.h"
#include "passes/op_properties.h"

namespace libtile::passes {

using ir::BlockId;
using ir::Function;
using ir::Opcode;
using ir::OpId;
using ir::ValueId;

namespace {

bool hasSlots(Opcode opcode) { return isLoop(opcode) || opcode == Opcode::If; }

class DeadCode {
public:
  explicit DeadCode(Function &fn) : fn_(fn), ops_(fn.walk()) {}

  bool run() {
    live_.resize(fn_.numOps());
    liveValues_.resize(fn_.numValues());
    for (OpId op : ops_) {
      const ir::Effects own = fn_.ownEffects(op);
      if (!own.removable() && !own.has(ir::Effects::Terminator)) {
        markOp(op);
      }
    }
    markOp(fn_.last(fn_.body()));
    while (!work_.empty()) {
      const ValueId value = work_.back();
      work_.pop_back();
      visit(value);
    }
    return sweep();
  }

private:
  void markOp(OpId op) {
    while (op.valid() && !live_[op.index]) {
      live_[op.index] = true;
      const Opcode opcode = fn_.opcode(op);
      if (!isLoop(opcode)) {
        markAll(fn_.operands(op), 0);
      } else {
        // Bounds and step, or nothing; the rest are slots.
        const auto operands = fn_.operands(op);
        markAll(operands.first(firstSlot(opcode)), 0);
      }
      for (BlockId region : fn_.regions(op)) {
        markTerminator(op, region);
      }
      op = fn_.parentOp(fn_.block(op));
    }
  }

  // What a live op's region yields, apart from slots.
  void markTerminator(OpId op, BlockId region) {
    const OpId last = fn_.last(region);
    const Opcode opcode = fn_.opcode(op);
    live_[last.index] = true;
    if (!hasSlots(opcode) || (opcode == Opcode::While && region == fn_.region(op))) {
      markAll(fn_.operands(last), 0);
    } else if (stops(op) && fn_.numOperands(last) != 0) {
      mark(fn_.operand(last, 0));
    }
  }

  void mark(ValueId value) {
    if (!liveValues_[value.index]) {
      liveValues_[value.index] = true;
      work_.push_back(value);
    }
  }

  void markAll(std::span<const ValueId> values, size_t from) {
    for (size_t i = from; i < values.size(); ++i) {
      mark(values[i]);
    }
  }

  void visit(ValueId value) {
    const OpId def = fn_.def(value);
    const OpId owner = def.valid() ? def : fn_.parentOp(fn_.defBlock(value));
    if (!owner.valid()) {
      return; // a parameter
    }
    markOp(owner);
    const Opcode opcode = fn_.opcode(owner);
    if (!hasSlots(opcode)) {
      return;
    }
    const unsigned shift = !def.valid() && opcode == Opcode::For ? 1 : 0;
    if (fn_.defIndex(value) >= shift) {
      markSlot(owner, fn_.defIndex(value) - shift);
    }
  }

  void markSlot(OpId op, unsigned slot) {
    const Opcode opcode = fn_.opcode(op);
    mark(fn_.result(op, slot));
    if (isLoop(opcode)) {
      mark(fn_.operand(op, firstSlot(opcode) + slot));
    }
    for (BlockId region : yieldingRegions(op)) {
      mark(fn_.operand(fn_.last(region), slot + (stops(op) ? 1 : 0)));
    }
  }

  bool sweep() {
    bool changed = false;
    for (OpId op : ops_) {
      if (live_[op.index] && hasSlots(fn_.opcode(op))) {
        for (unsigned slot = fn_.results(op).size(); slot-- > 0;) {
          if (!liveValues_[fn_.result(op, slot).index]) {
            detachSlot(op, slot);
            changed = true;
          }
        }
      }
    }
    for (size_t i = ops_.size(); i-- > 0;) {
      if (!live_[ops_[i].index] && !fn_.isErased(ops_[i])) {
        fn_.erase(ops_[i]);
        changed = true;
      }
    }
    for (OpId op : ops_) {
      if (!fn_.isErased(op) && hasSlots(fn_.opcode(op))) {
        dropSlots(op);
      }
    }
    return changed;
  }

  // Initial and yielded values go first, results and arguments once their users are gone.
  void detachSlot(OpId op, unsigned slot) {
    if (isLoop(fn_.opcode(op))) {
      fn_.eraseOperand(op, firstSlot(fn_.opcode(op)) + slot);
    }
    for (BlockId region : yieldingRegions(op)) {
      fn_.eraseOperand(fn_.last(region), slot + (stops(op) ? 1 : 0));
    }
  }

  void dropSlots(OpId op) {
    const unsigned shift = fn_.opcode(op) == Opcode::For ? 1 : 0;
    for (unsigned slot = fn_.results(op).size(); slot-- > 0;) {
      if (liveValues_[fn_.result(op, slot).index]) {
        continue;
      }
      fn_.eraseResult(op, slot);
      for (BlockId region : fn_.regions(op)) {
        if (isLoop(fn_.opcode(op))) {
          fn_.eraseArg(region, slot + shift);
        }
      }
    }
  }

  static unsigned firstSlot(Opcode opcode) { return opcode == Opcode::For ? 3 : 0; }
  [[nodiscard]] bool stops(OpId op) const { return fn_.getBool(op, ir::Attr::stop); }
  // The regions whose yield gives the slots: both of an if, the last of a loop.
  [[nodiscard]] std::span<const BlockId> yieldingRegions(OpId op) const {
    const auto regions = fn_.regions(op);
    return fn_.opcode(op) == Opcode::If ? regions : regions.last(1);
  }

  Function &fn_;
  std::vector<OpId> ops_;
  std::vector<bool> live_, liveValues_;
  std::vector<ValueId> work_;
};

} // namespace

bool eliminateDeadCode(Function &fn, const PassContext &) { return DeadCode(fn).run(); }

} // namespace libtile::passes
