// SPDX-License-Identifier: Apache-2.0
// The driver: a work list of ops, first in text order. When an op is replaced, its users and what
// was made for it are looked at again; when it dies, so are the ops of its operands, which may now
// have one use fewer. Every op is looked at a bounded number of times (kStepsPerOp), whatever the
// rules do.
#include "passes/simplify.h"

#include "ir/ops.h"
#include "passes/fold_constants.h"
#include "passes/op_properties.h"
#include "passes/simplify_rules.h"

#include <algorithm>
#include <bit>
#include <deque>

namespace libtile::passes {

using ir::AttrValue;
using ir::Function;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

bool Rewriter::isInt(ValueId value, int64_t n) const {
  const auto number = intOf(value);
  return number && fn.type(value).isInteger() &&
         *number == ir::canonicalInt(fn.type(value).elem(), n);
}

bool Rewriter::isFloat(ValueId value, double x) const {
  const auto number = floatOf(value);
  return number && std::bit_cast<uint64_t>(*number) == std::bit_cast<uint64_t>(x);
}

ValueId Rewriter::constant(Type type, AttrValue value) {
  if (const auto *number = std::get_if<double>(&value)) {
    return builder.constFloat(type, *number);
  }
  return builder.constInt(type, std::get<int64_t>(value));
}

ValueId Rewriter::scalarOf(ValueId splat) {
  const OpId op = def(splat);
  if (fn.opcode(op) == Opcode::Splat) {
    return fn.operand(op, 0);
  }
  return constant(fn.type(splat).element(), *fn.findAttr(op, ir::Attr::value));
}

ValueId Rewriter::sameOp(OpId op, std::span<const ValueId> operands, Type result) {
  const OpId made = builder.op(fn.opcode(op), operands, {&result, 1});
  fn.copyAttrs(op, made);
  return fn.result(made);
}

// op(constants) -> constant
ValueId simplifyConstants(Rewriter &rw, OpId op) {
  const auto number = foldConstants(rw.fn, op);
  return number ? rw.constant(rw.fn.type(rw.fn.result(op)), *number) : ValueId{};
}

namespace {

constexpr size_t kStepsPerOp = 32;

// Cheapest questions first; the first rule that fires wins, the result is looked at again.
constexpr Rule kRules[] = {simplifyConstants, simplifySplats, simplifyInteger, simplifyFloat,
                           simplifyCompare,   simplifySelect, simplifyCast,    simplifyShape,
                           simplifyMemory,    simplifyControl};

class Simplifier {
public:
  explicit Simplifier(Function &fn) : fn_(fn), rewriter_(fn) {}

  bool run() {
    for (OpId op : fn_.walk()) {
      push(op);
    }
    for (size_t steps = kStepsPerOp * work_.size() + 64; !work_.empty() && steps > 0; --steps) {
      const OpId op = work_.front();
      work_.pop_front();
      waiting_.set(op, false);
      if (!fn_.isErased(op) && !eraseIfDead(op)) {
        visit(op);
      }
    }
    return changed_;
  }

private:
  // A yield stands for the op that it yields to: what is carried may have become simpler.
  void push(OpId op) {
    if (op.valid() && fn_.opcode(op) == Opcode::Yield) {
      op = fn_.parentOp(fn_.block(op));
    }
    if (op.valid() && !waiting_[op]) {
      waiting_.set(op, true);
      work_.push_back(op);
    }
  }

  bool eraseIfDead(OpId op) {
    const auto results = fn_.results(op);
    const bool dead = std::ranges::all_of(results, [&](ValueId v) { return fn_.unused(v); }) &&
                      fn_.regions(op).empty() && fn_.ownEffects(op).removable();
    if (dead) {
      const ir::Values operands(fn_.operands(op).begin(), fn_.operands(op).end());
      fn_.erase(op);
      released(operands);
      changed_ = true;
    }
    return dead;
  }

  // Values that have lost a use: they may be dead, or their last user may now take them apart.
  void released(const ir::Values &values) {
    for (ValueId value : values) {
      push(fn_.def(value));
      if (fn_.uses(value).size() == 1) {
        push(fn_.uses(value)[0].op);
      }
    }
  }

  void visit(OpId op) {
    if (canonicalOrder(op)) {
      changed_ = true;
    }
    const uint32_t firstNew = fn_.numOps();
    const ir::Values operands(fn_.operands(op).begin(), fn_.operands(op).end());
    rewriter_.builder.setBefore(op);
    for (Rule rule : kRules) {
      rewriter_.edited = false;
      const ValueId replacement = rule(rewriter_, op);
      if (!replacement.valid() && !rewriter_.edited) {
        continue;
      }
      changed_ = true;
      if (replacement.valid()) {
        const ValueId old = fn_.result(op);
        pushUsers(old);
        fn_.replaceAllUses(old, replacement);
      } else if (!fn_.isErased(op)) {
        std::ranges::for_each(fn_.results(op), [&](ValueId value) { pushUsers(value); });
      }
      for (uint32_t made = firstNew; made < fn_.numOps(); ++made) {
        pushIfPlaced(OpId{made});
      }
      pushIfPlaced(op);
      std::ranges::for_each(rewriter_.touched, [&](OpId touched) { pushIfPlaced(touched); });
      rewriter_.touched.clear();
      released(operands);
      return;
    }
  }

  void pushIfPlaced(OpId op) {
    if (!fn_.isErased(op)) {
      push(op);
    }
  }

  void pushUsers(ValueId value) {
    for (const ir::Use &use : fn_.uses(value)) {
      push(use.op);
    }
  }

  // Of a commutative pair the constant goes right, else the splat.
  bool canonicalOrder(OpId op) {
    if (!commutes(fn_.opcode(op))) {
      return false;
    }
    const ValueId a = fn_.operand(op, 0), b = fn_.operand(op, 1);
    const auto rank = [&](ValueId value) {
      return rewriter_.isConstant(value) ? 2 : rewriter_.is(value, Opcode::Splat) ? 1 : 0;
    };
    if (rank(a) <= rank(b)) {
      return false;
    }
    fn_.setOperand(op, 0, b);
    fn_.setOperand(op, 1, a);
    return true;
  }

  Function &fn_;
  Rewriter rewriter_;
  std::deque<OpId> work_;
  ir::IndexMap<OpId, bool> waiting_;
  bool changed_ = false;
};

} // namespace

bool simplify(Function &fn, const PassContext &) { return Simplifier(fn).run(); }

} // namespace libtile::passes
