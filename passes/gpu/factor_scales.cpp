// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/factor_scales.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/gpu/propose_layouts.h"
#include "passes/op_properties.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace libtile::passes {
namespace {

using ir::Builder;
using ir::Guard;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

// A positive number lies in [2^least, 2^most].
struct Exponents {
  int32_t least, most;
};
// Of the factor: a product with it is 0 or infinite only where one with any such factor may be.
constexpr int32_t kFar = 120;
// Elements of a thread. Of more, sums of a dot and what is made of them need all registers, and products of sums, which are other
// registers, leave the assembler more freedom than sums that stay.
constexpr int64_t kMostElements = 64;

// What is folded: `elements`, of which all or those that the mask shows are scaled by `factor`.
struct Scaled {
  OpId product, select; // select: invalid if there is none
  ValueId elements, factor;
};

class Factorer {
public:
  Factorer(ir::Function &fn, const PassContext &context) : fn_(fn), context_(context) {}

  bool run() {
    bool changed = false;
    for (const OpId op : fn_.walk()) {
      if (!foldsByOrder(op)) {
        continue;
      }
      parameters_.clear();
      const auto scaled = scaledIn(fn_.operand(op, 0));
      if (scaled && feedsSumsAlone(fn_.operand(op, 0), op)) {
        factor(op, *scaled);
        changed = true;
      }
    }
    return changed;
  }

private:
  [[nodiscard]] bool foldsByOrder(OpId op) const {
    if (fn_.opcode(op) != Opcode::Reduce || fn_.numOperands(op) != 1 || !fn_.type(fn_.operand(op, 0)).isFloating()) {
      return false;
    }
    const auto combination = commutativeCombination(fn_, op, 0);
    return (combination == Opcode::FMax || combination == Opcode::FMin) && fitsThreads(fn_.type(fn_.operand(op, 0)));
  }

  [[nodiscard]] bool fitsThreads(const Type &type) const {
    return type.numElements() <= kMostElements * chooseWarps(fn_, context_) * context_.target.warpSize;
  }

  [[nodiscard]] bool feedsSumsAlone(ValueId value, OpId fold) const {
    return std::ranges::all_of(fn_.uses(value), [&](ir::Use use) {
      const Opcode opcode = fn_.opcode(use.op);
      return use.op == fold || opcode == Opcode::Add || opcode == Opcode::Sub;
    });
  }

  std::optional<Scaled> scaledIn(ValueId value) {
    const OpId def = fn_.def(value);
    if (!def.valid()) {
      return std::nullopt;
    }
    if (fn_.opcode(def) != Opcode::Select) {
      return productOf(def);
    }
    for (const unsigned arm : {1U, 2U}) {
      const ValueId shown = fn_.operand(def, arm);
      const auto other = fn_.constantFloat(fn_.operand(def, 3 - arm));
      if (other && std::isinf(*other) && fn_.def(shown).valid() && fn_.uses(shown).size() == 1) {
        auto product = productOf(fn_.def(shown));
        if (product) {
          product->select = def;
        }
        return product;
      }
    }
    return std::nullopt;
  }

  std::optional<Scaled> productOf(OpId op) {
    if (fn_.opcode(op) != Opcode::Mul) {
      return std::nullopt;
    }
    for (const unsigned side : {0U, 1U}) {
      const ValueId factor = fn_.operand(op, side);
      const auto exponents = isSame(factor) ? exponentsOf(factor) : std::nullopt;
      if (exponents && exponents->least >= -kFar && exponents->most <= kFar) {
        return Scaled{op, {}, fn_.operand(op, 1 - side), factor};
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] bool isSame(ValueId tile) const {
    const auto opcode = fn_.defOpcode(tile);
    return opcode == Opcode::Splat || opcode == Opcode::Constant;
  }

  // Of parameters by guards, which are noted.
  std::optional<Exponents> exponentsOf(ValueId value) {
    if (const auto constant = fn_.constantFloat(value)) {
      return *constant > 0 && std::isfinite(*constant) ? std::optional(Exponents{std::ilogb(*constant), std::ilogb(*constant) + 1})
                                                       : std::nullopt;
    }
    if (fn_.isArg(value)) {
      if (context_.relies != Reliance::Numbers || fn_.defBlock(value) != fn_.body() || fn_.type(value) != Type::scalar(ir::Elem::F32)) {
        return std::nullopt;
      }
      parameters_.push_back(fn_.defIndex(value));
      return Exponents{-ir::kGuardedExponent, ir::kGuardedExponent};
    }
    const OpId op = fn_.def(value);
    if (fn_.opcode(op) == Opcode::Splat) {
      return exponentsOf(fn_.operand(op, 0));
    }
    if (fn_.opcode(op) != Opcode::Mul) {
      return std::nullopt;
    }
    const auto a = exponentsOf(fn_.operand(op, 0)), b = exponentsOf(fn_.operand(op, 1));
    return a && b ? std::optional(Exponents{a->least + b->least, a->most + b->most}) : std::nullopt;
  }

  void factor(OpId fold, const Scaled &scaled) {
    Builder builder(fn_, fold);
    ValueId elements = scaled.elements;
    if (scaled.select.valid()) {
      const bool first = fn_.operand(scaled.select, 1) == fn_.result(scaled.product);
      const ValueId other = fn_.operand(scaled.select, first ? 2 : 1);
      builder.setBefore(scaled.select);
      elements = builder.make(Opcode::Select, {fn_.operand(scaled.select, 0), first ? elements : other, first ? other : elements});
      fn_.replaceAllUses(fn_.result(scaled.select), builder.make(Opcode::Mul, {elements, scaled.factor}));
    }
    fn_.setOperand(fold, 0, elements);
    const ValueId result = fn_.result(fold);
    const Type type = fn_.type(result);
    builder.setBefore(fn_.next(fold));
    ValueId factor = scaled.factor;
    if (fn_.defOpcode(factor) == Opcode::Constant) {
      factor = builder.constFloat(type, *fn_.constantFloat(factor));
    } else {
      const ValueId scalar = fn_.operand(fn_.def(factor), 0);
      factor = type.isTile() ? builder.splat(scalar, type.shape()) : scalar;
    }
    const OpId product = fn_.createOp(Opcode::Mul, {}, {&type, 1}, fn_.loc(fold));
    builder.insert(product);
    fn_.replaceAllUses(result, fn_.result(product));
    fn_.addOperand(product, result);
    fn_.addOperand(product, factor);
    for (const uint32_t parameter : parameters_) {
      fn_.guards.push_back({Guard::Kind::Positive, parameter, 0});
    }
  }

  ir::Function &fn_;
  const PassContext &context_;
  std::vector<uint32_t> parameters_;
};

} // namespace

bool factorScales(ir::Function &fn, const PassContext &context) { return Factorer(fn, context).run(); }

} // namespace libtile::passes
