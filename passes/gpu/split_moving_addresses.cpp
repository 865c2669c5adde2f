// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/split_moving_addresses.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/gpu/layout_maps.h"

#include <optional>

namespace libtile::passes {
namespace {

using ir::Builder;
using ir::Elem;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

// Each thread has the elements that it needs.
bool onlyRenames(const ir::Function &fn, OpId op) { return isShapeOp(fn.opcode(op)) && shapeRegisterMap(fn, op); }

// A tile of integers or pointers as a sum.
struct Sum {
  ValueId stays; // a tile, of i64 or of pointers; invalid: 0
  ValueId moves; // a scalar i64, in elements; invalid: 0
};
using MaybeSum = std::optional<Sum>; // nullopt: it is no such sum

class AddressSplitter {
public:
  // Makes ops in front of `before`, which stands in the body of the loop.
  AddressSplitter(ir::Function &fn, OpId before) : fn_(fn), builder_(fn, before), body_(fn.block(before)) {}

  // The same pointers, or invalid: there is nothing to gain.
  ValueId run(ValueId pointers) {
    if (stays(pointers) || isSplit(pointers)) {
      return {};
    }
    const MaybeSum sum = ofPointers(pointers);
    if (!sum || !sum->moves.valid()) {
      return {};
    }
    const ValueId moves = builder_.make(Opcode::Splat, {sum->moves}, fn_.type(pointers).withElement(Elem::I64));
    return builder_.make(Opcode::PtrAdd, {sum->stays, moves});
  }

private:
  [[nodiscard]] bool stays(ValueId value) const { return fn_.isDefinedOutside(value, body_); }
  [[nodiscard]] bool isSplit(ValueId pointers) const {
    const OpId op = fn_.def(pointers);
    return op.valid() && fn_.opcode(op) == Opcode::PtrAdd && stays(fn_.operand(op, 0)) &&
           fn_.defOpcode(fn_.operand(op, 1)) == Opcode::Splat;
  }

  MaybeSum ofPointers(ValueId value) {
    if (stays(value)) {
      return Sum{value, {}};
    }
    const OpId op = fn_.def(value);
    if (!op.valid()) {
      return std::nullopt;
    }
    if (onlyRenames(fn_, op)) {
      return shaped(op, ofPointers(fn_.operand(op, 0)));
    }
    if (fn_.opcode(op) != Opcode::PtrAdd || !fn_.type(value).isTile()) {
      return std::nullopt;
    }
    const MaybeSum base = ofPointers(fn_.operand(op, 0));
    const MaybeSum offset = base ? ofIntegers(fn_.operand(op, 1)) : std::nullopt;
    if (!offset) {
      return std::nullopt;
    }
    return Sum{offset->stays.valid() ? builder_.make(Opcode::PtrAdd, {base->stays, offset->stays}) : base->stays,
               combined(Opcode::Add, base->moves, offset->moves)};
  }

  MaybeSum ofIntegers(ValueId value) {
    if (fn_.type(value).elementBits() < 32) {
      return std::nullopt; // it wraps where the program says so
    }
    if (stays(value)) {
      return Sum{wide(value), {}};
    }
    const OpId op = fn_.def(value);
    if (!op.valid()) {
      return std::nullopt;
    }
    const Opcode opcode = fn_.opcode(op);
    if (onlyRenames(fn_, op)) {
      return shaped(op, ofIntegers(fn_.operand(op, 0)));
    }
    if (opcode == Opcode::Splat) {
      return Sum{{}, wide(fn_.operand(op, 0))};
    }
    if (opcode == Opcode::SExt) {
      return ofIntegers(fn_.operand(op, 0));
    }
    if (opcode == Opcode::Add || opcode == Opcode::Sub) {
      const MaybeSum a = ofIntegers(fn_.operand(op, 0));
      const MaybeSum b = a ? ofIntegers(fn_.operand(op, 1)) : std::nullopt;
      return b ? MaybeSum({combined(opcode, a->stays, b->stays), combined(opcode, a->moves, b->moves)}) : std::nullopt;
    }
    return opcode == Opcode::Mul ? ofProduct(op) : std::nullopt;
  }

  // Of a sum and a number that is the same for all elements.
  MaybeSum ofProduct(OpId op) {
    for (const unsigned i : {0U, 1U}) {
      const ValueId factor = fn_.operand(op, 1 - i);
      const ValueId number = stays(factor) ? equalElements(factor) : ValueId{};
      if (!number.valid()) {
        continue;
      }
      const MaybeSum sum = ofIntegers(fn_.operand(op, i));
      if (!sum) {
        return std::nullopt;
      }
      return Sum{sum->stays.valid() ? builder_.make(Opcode::Mul, {sum->stays, wide(factor)}) : ValueId{},
                 sum->moves.valid() ? builder_.make(Opcode::Mul, {sum->moves, wide(number)}) : ValueId{}};
    }
    return std::nullopt;
  }

  // The scalar that all elements of the tile are, or invalid.
  ValueId equalElements(ValueId tile) {
    if (const auto number = fn_.constantInt(tile)) {
      return builder_.constInt(fn_.type(tile).element(), *number);
    }
    const OpId op = fn_.def(tile);
    if (!op.valid() || (!onlyRenames(fn_, op) && fn_.opcode(op) != Opcode::Splat)) {
      return {};
    }
    return fn_.opcode(op) == Opcode::Splat ? fn_.operand(op, 0) : equalElements(fn_.operand(op, 0));
  }

  MaybeSum shaped(OpId op, MaybeSum sum) {
    if (sum && sum->stays.valid()) {
      const Type type = fn_.type(fn_.result(op)).withElement(fn_.type(sum->stays).element());
      sum->stays = builder_.make(fn_.opcode(op), {sum->stays}, type);
      fn_.copyAttrs(op, fn_.def(sum->stays));
    }
    return sum;
  }

  // a + b or a - b, where invalid is 0.
  ValueId combined(Opcode opcode, ValueId a, ValueId b) {
    if (!b.valid()) {
      return a;
    }
    if (!a.valid() && opcode == Opcode::Sub) {
      a = builder_.zero(fn_.type(b));
    }
    return a.valid() ? builder_.make(opcode, {a, b}) : b;
  }

  ValueId wide(ValueId value) {
    const Type type = fn_.type(value);
    return type.elementBits() == 64 ? value : builder_.make(Opcode::SExt, {value}, type.withElement(Elem::I64));
  }

  ir::Function &fn_;
  Builder builder_;
  const ir::BlockId body_;
};

} // namespace

bool splitMovingAddresses(ir::Function &fn, const PassContext &) {
  bool changed = false;
  for (const OpId op : fn.walk()) {
    const OpId loop = fn.parentOp(fn.block(op));
    if (fn.opcode(op) != Opcode::AsyncCopy || !loop.valid() || fn.opcode(loop) != Opcode::For) {
      continue;
    }
    const ValueId pointers = fn.operand(op, 0);
    const OpId made = fn.def(pointers);
    if (!made.valid() || fn.block(made) != fn.block(op)) {
      continue;
    }
    const ValueId split = AddressSplitter(fn, made).run(pointers);
    if (split.valid()) {
      fn.setOperand(op, 0, split);
      changed = true;
    }
  }
  return changed;
}

} // namespace libtile::passes
