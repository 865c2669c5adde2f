// SPDX-License-Identifier: Apache-2.0
// The yielded value is followed back through sums with splats to the loop's own argument. Integer
// sums wrap, so (p0 + off) + s = p0 + (off + s) exactly; pointers that leave the 64-bit range are
// wild. Inner loops go first: what they return is then p0 + splat(off), which the loop around may
// split in turn.
#include "passes/split_carried_offsets.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/op_properties.h"

#include <algorithm>
#include <optional>

namespace libtile::passes {

using ir::BlockId;
using ir::Builder;
using ir::Elem;
using ir::Function;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

namespace {

// One summand of the step: a splat or constant tile, added or subtracted.
struct Amount {
  ValueId tile;
  bool negative;
};

class CarriedOffsets {
public:
  explicit CarriedOffsets(Function &fn) : fn_(fn) {}

  bool run() {
    bool changed = false;
    std::vector<OpId> ops = fn_.walk();
    std::ranges::reverse(ops);
    for (OpId op : ops) {
      if (isLoop(fn_.opcode(op))) {
        changed = visit(op) || changed;
      }
    }
    return changed;
  }

private:
  bool visit(OpId loop) {
    const unsigned slots = fn_.results(loop).size();
    bool changed = false;
    for (unsigned slot = 0; slot < slots; ++slot) {
      const Type type = fn_.type(fn_.result(loop, slot));
      if (!type.isTile() || (!type.isPointer() && !type.isInteger())) {
        continue;
      }
      if (const auto step = stepOf(loop, slot)) {
        split(loop, slot, *step);
        changed = true;
      }
    }
    return changed;
  }

  [[nodiscard]] bool isUniform(ValueId value) const {
    const auto opcode = fn_.defOpcode(value);
    return opcode == Opcode::Splat || opcode == Opcode::Constant;
  }

  // The summands, if the slot's next value is its argument plus uniform amounts.
  [[nodiscard]] std::optional<std::vector<Amount>> stepOf(OpId loop, unsigned slot) const {
    const BlockId body = fn_.regions(loop).back();
    const ValueId arg = fn_.arg(body, slot + shift(loop));
    ValueId value = fn_.operand(fn_.last(body), slot + stop(loop));
    std::vector<Amount> amounts;
    while (value != arg) {
      const auto opcode = fn_.defOpcode(value);
      if (opcode != Opcode::PtrAdd && opcode != Opcode::Add && opcode != Opcode::Sub) {
        return std::nullopt;
      }
      const ValueId a = fn_.operand(fn_.def(value), 0), b = fn_.operand(fn_.def(value), 1);
      if (isUniform(b)) {
        amounts.push_back({b, opcode == Opcode::Sub});
        value = a;
      } else if (opcode == Opcode::Add && isUniform(a)) {
        amounts.push_back({a, false});
        value = b;
      } else {
        return std::nullopt;
      }
    }
    return amounts.empty() ? std::nullopt : std::optional(std::move(amounts));
  }

  void split(OpId loop, unsigned slot, const std::vector<Amount> &step) {
    const BlockId body = fn_.regions(loop).back();
    const Type tile = fn_.type(fn_.result(loop, slot));
    const Type offset = Type::scalar(tile.isPointer() ? Elem::I64 : tile.elem());
    const ValueId start = fn_.operand(loop, firstSlot(loop) + slot);
    fn_.addOperand(loop, Builder(fn_, loop).constInt(offset, 0));
    const ValueId result = fn_.addResult(loop, offset);
    for (BlockId region : fn_.regions(loop)) {
      const ValueId current = fn_.addArg(region, offset);
      Builder front(fn_, fn_.first(region));
      fn_.replaceAllUses(fn_.arg(region, slot + shift(loop)), moved(front, start, current, tile));
    }
    // The last argument, after the loop above: the body is the last region.
    const OpId yield = fn_.last(body);
    Builder end(fn_, yield);
    ValueId next = fn_.args(body).back();
    for (const Amount &amount : step) {
      const ValueId scalar = widened(end, scalarOf(end, amount.tile), offset);
      next = end.make(amount.negative ? Opcode::Sub : Opcode::Add, {next, scalar});
    }
    fn_.addOperand(yield, next);
    // The old slot goes around unchanged and unread.
    fn_.setOperand(yield, slot + stop(loop), fn_.arg(body, slot + shift(loop)));
    const OpId after = fn_.next(loop);
    Builder behind(fn_, after);
    behind.loc = fn_.loc(loop);
    fn_.replaceAllUses(fn_.result(loop, slot), moved(behind, start, result, tile));
  }

  // start + splat(offset)
  ValueId moved(Builder &builder, ValueId start, ValueId offset, Type tile) {
    const ValueId splat = builder.splat(offset, tile.shape());
    return builder.make(tile.isPointer() ? Opcode::PtrAdd : Opcode::Add, {start, splat});
  }

  ValueId scalarOf(Builder &builder, ValueId tile) {
    const OpId op = fn_.def(tile);
    return fn_.opcode(op) == Opcode::Splat
               ? fn_.operand(op, 0)
               : builder.constInt(fn_.type(tile).element(), fn_.constantInt(tile).value_or(0));
  }

  ValueId widened(Builder &builder, ValueId scalar, Type to) {
    return fn_.type(scalar) == to ? scalar : builder.make(Opcode::SExt, {scalar}, to);
  }

  [[nodiscard]] unsigned shift(OpId loop) const { return fn_.opcode(loop) == Opcode::For ? 1 : 0; }
  [[nodiscard]] unsigned firstSlot(OpId loop) const {
    return fn_.opcode(loop) == Opcode::For ? 3 : 0;
  }
  [[nodiscard]] unsigned stop(OpId loop) const { return fn_.getBool(loop, ir::Attr::stop) ? 1 : 0; }

  Function &fn_;
};

} // namespace

bool splitCarriedOffsets(Function &fn, const PassContext &) { return CarriedOffsets(fn).run(); }

} // namespace libtile::passes
