// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/unwrap_indices.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/analysis/facts.h"

#include <algorithm>
#include <optional>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::Guard;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

// The parts of (splat first + arange) % splat extent.
struct Wrapped {
  OpId remainder;
  ValueId first, arange;
  uint32_t extent = 0; // a parameter
  int64_t tile = 0;    // n
};

class Unwrapper {
public:
  explicit Unwrapper(ir::Function &fn) : fn_(fn) {}

  bool run() {
    std::vector<Wrapped> found;
    for (const OpId op : fn_.walk()) {
      if (const auto wrapped = match(op)) {
        found.push_back(*wrapped);
      }
    }
    std::ranges::for_each(found, [&](const Wrapped &wrapped) { unwrap(wrapped); });
    return !found.empty();
  }

private:
  // Most kernels have no index that wraps, and ask for none.
  [[nodiscard]] const Facts &facts() const {
    if (!facts_) {
      facts_.emplace(computeFacts(fn_));
    }
    return *facts_;
  }

  [[nodiscard]] std::optional<Wrapped> match(OpId op) const {
    const Opcode opcode = fn_.opcode(op);
    if ((opcode != Opcode::SRem && opcode != Opcode::URem) || fn_.type(fn_.result(op)).rank() != 1) {
      return std::nullopt;
    }
    Wrapped wrapped{op, {}, {}, 0, fn_.type(fn_.result(op)).dim(0)};
    const ValueId extent = splatted(fn_.operand(op, 1));
    const OpId sum = fn_.def(fn_.operand(op, 0));
    if (!extent.valid() || !fn_.isArg(extent) || fn_.defBlock(extent) != fn_.body() || !sum.valid() ||
        fn_.opcode(sum) != Opcode::Add) {
      return std::nullopt;
    }
    wrapped.extent = fn_.defIndex(extent);
    for (const unsigned i : {0U, 1U}) {
      const ValueId first = splatted(fn_.operand(sum, i)), arange = fn_.operand(sum, 1 - i);
      if (first.valid() && isFromZero(arange)) {
        wrapped.first = first;
        wrapped.arange = arange;
      }
    }
    const Type type = fn_.type(fn_.result(op));
    const bool ok = wrapped.first.valid() && dividesFirst(wrapped) && type.elementBits() >= 32 &&
                    isPromisedNatural(facts().range(fn_.operand(op, 0)), type) && feedsAddresses(fn_.result(op));
    return ok ? std::optional(wrapped) : std::nullopt;
  }

  // The scalar; invalid: it is no splat.
  [[nodiscard]] ValueId splatted(ValueId tile) const {
    const OpId op = fn_.def(tile);
    return op.valid() && fn_.opcode(op) == Opcode::Splat ? fn_.operand(op, 0) : ValueId{};
  }

  [[nodiscard]] bool isFromZero(ValueId tile) const {
    const OpId op = fn_.def(tile);
    return op.valid() && fn_.opcode(op) == Opcode::Arange && fn_.getInt(op, Attr::start) == 0;
  }

  // A number among its factors, since no index wraps.
  [[nodiscard]] bool dividesFirst(const Wrapped &wrapped) const {
    const AffineForm *form = facts().access().affine(wrapped.first);
    return form != nullptr && !form->base.valid() && form->offset.constant() % wrapped.tile == 0 &&
           std::ranges::all_of(form->offset.monomials(),
                               [&](const Monomial &monomial) { return monomial.coefficient % wrapped.tile == 0; });
  }

  [[nodiscard]] bool feedsAddresses(ValueId index) const {
    const auto uses = fn_.uses(index);
    return !uses.empty() && std::ranges::all_of(uses, [&](ir::Use use) {
      const Opcode opcode = fn_.opcode(use.op);
      const bool isIndex = opcode == Opcode::Add || opcode == Opcode::Sub || opcode == Opcode::Mul || opcode == Opcode::SExt ||
                           opcode == Opcode::ExpandDims || opcode == Opcode::Broadcast;
      return (opcode == Opcode::PtrAdd && use.operand == 1) || (isIndex && feedsAddresses(fn_.result(use.op)));
    });
  }

  void unwrap(const Wrapped &wrapped) {
    ir::Builder builder(fn_, wrapped.remainder);
    const Type scalar = fn_.type(wrapped.first);
    const ValueId tile = builder.constInt(scalar, wrapped.tile);
    const ValueId turn = builder.make(Opcode::UDiv, {wrapped.first, tile});
    const ValueId turns = builder.make(Opcode::UDiv, {fn_.arg(fn_.body(), wrapped.extent), tile});
    const ValueId first = builder.make(Opcode::Mul, {builder.make(Opcode::URem, {turn, turns}), tile});
    const ValueId index = builder.make(Opcode::Add, {builder.splat(first, fn_.type(wrapped.arange).shape()), wrapped.arange});
    fn_.replaceAllUses(fn_.result(wrapped.remainder), index);
    fn_.erase(wrapped.remainder);
    fn_.guards.push_back({Guard::Kind::Divisible, wrapped.extent, wrapped.tile});
    fn_.guards.push_back({Guard::Kind::Above, wrapped.extent, wrapped.tile - 1});
  }

  ir::Function &fn_;
  mutable std::optional<Facts> facts_;
};

bool hasDotInLoop(const ir::Function &fn) {
  return std::ranges::any_of(fn.walk(), [&](OpId op) {
    const OpId around = fn.opcode(op) == Opcode::Dot ? fn.parentOp(fn.block(op)) : OpId{};
    return around.valid() && fn.opcode(around) == Opcode::For;
  });
}

} // namespace

bool unwrapIndices(ir::Function &fn, const PassContext &context) {
  const bool isWanted = context.copiesBoxes && context.target.boxCopy && context.relies == Reliance::Numbers;
  return isWanted && hasDotInLoop(fn) && Unwrapper(fn).run();
}

} // namespace libtile::passes
