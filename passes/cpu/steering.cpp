// SPDX-License-Identifier: Apache-2.0
// A walk from the number to its users. What is not known to be harmless steers.
#include "passes/cpu/steering.h"

#include "ir/ops.h"

#include <algorithm>

namespace libtile::passes {

using namespace ir;

namespace {

class Steering {
public:
  Steering(const Function &fn, OpId around, const std::function<bool(ValueId)> &isOff)
      : fn_(fn), around_(around), isOff_(isOff) {}

  bool by(ValueId value) {
    if (seen_[value]) {
      return false;
    }
    seen_.set(value, true);
    return std::ranges::any_of(fn_.uses(value), [&](const Use &use) { return by(use); });
  }

private:
  bool by(const Use &use) {
    const Opcode opcode = fn_.opcode(use.op);
    if (opcode == Opcode::Load || opcode == Opcode::Store) {
      return byAccess(use, opcode == Opcode::Load ? 1 : 2);
    }
    if (opcode == Opcode::ElementWrite) {
      return use.operand != 1; // the value is as little needed as this one
    }
    if (opcode == Opcode::Yield) {
      return byYield(use);
    }
    if (opcode == Opcode::For) {
      return use.operand < 3 || by(fn_.arg(fn_.region(use.op), use.operand - 2)) ||
             by(fn_.result(use.op, use.operand - 3));
    }
    return !isElementwise(opcode) || by(fn_.result(use.op));
  }

  bool byAccess(const Use &use, unsigned mask) {
    if (fn_.numOperands(use.op) > mask && isOff_(fn_.operand(use.op, mask))) {
      return false;
    }
    const bool isValue = use.operand == (mask == 1 ? 2U : 1U); // the store's, or the load's other
    return !isValue || (mask == 1 && by(fn_.result(use.op)));
  }

  bool byYield(const Use &use) {
    const OpId parent = fn_.parentOp(fn_.block(use.op));
    const Opcode opcode = fn_.opcode(parent);
    const unsigned stop = opcode == Opcode::For && fn_.getBool(parent, Attr::stop) ? 1 : 0;
    if (parent == around_) {
      return false; // of an element that changes nothing
    }
    if (opcode == Opcode::Fold && fn_.block(use.op) == fn_.region(parent, 0)) {
      const BlockId combine = fn_.region(parent, 1);
      return by(fn_.result(parent, use.operand)) || by(fn_.arg(combine, use.operand)) ||
             by(fn_.arg(combine, use.operand + fn_.results(parent).size()));
    }
    if (opcode == Opcode::For && use.operand >= stop) {
      return by(fn_.arg(fn_.region(parent), use.operand - stop + 1)) ||
             by(fn_.result(parent, use.operand - stop));
    }
    return (opcode != Opcode::If && opcode != Opcode::Fold) || by(fn_.result(parent, use.operand));
  }

  const Function &fn_;
  OpId around_;
  const std::function<bool(ValueId)> &isOff_;
  IndexMap<ValueId, bool> seen_{false};
};

} // namespace

bool steers(const Function &fn, ValueId read, OpId around, const std::function<bool(ValueId)> &isOff) {
  return Steering(fn, around, isOff).by(read);
}

} // namespace libtile::passes
