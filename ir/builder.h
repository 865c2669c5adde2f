// SPDX-License-Identifier: Apache-2.0
// Makes ops at an insertion point. Results are inferred where the row's type rule says how;
// explicit ones are given. The builder checks nothing: the verifier does.
#pragma once

#include "ir/function.h"

namespace libtile::ir {

class Builder {
public:
  explicit Builder(Function &fn) : fn_(fn), block_(fn.body()) {}
  // Continue at the end of the block / before the op.
  Builder(Function &fn, BlockId block) : fn_(fn), block_(block) {}
  Builder(Function &fn, OpId before) : fn_(fn) { setBefore(before); }

  void setEnd(BlockId block) { block_ = block, before_ = {}; }
  void setBefore(OpId op) { block_ = fn_.block(op), before_ = op, loc = fn_.loc(op); }
  [[nodiscard]] BlockId block() const { return block_; }
  // To come back to a place.
  struct Point {
    BlockId block;
    OpId before;
  };
  [[nodiscard]] Point point() const { return {block_, before_}; }
  void setPoint(Point point) { block_ = point.block, before_ = point.before; }
  [[nodiscard]] Function &function() { return fn_; }

  // Given to every op made.
  LocationId loc;

  // The general form. Regions: as many empty ones as the row names are added.
  OpId op(Opcode opcode, std::span<const ValueId> operands, std::span<const Type> results = {});
  // An op that stands nowhere yet.
  void insert(OpId op);
  // An op with one result that the row's type rule infers (Same.., Compare, Select, PtrAdd, Load,
  // Dot).
  ValueId make(Opcode opcode, std::span<const ValueId> operands);
  ValueId make(Opcode opcode, std::initializer_list<ValueId> operands) {
    return make(opcode, std::span<const ValueId>(operands.begin(), operands.size()));
  }
  // An op with one result of the given type (Explicit and Cast rules).
  ValueId make(Opcode opcode, std::initializer_list<ValueId> operands, Type result);

  // ---- short forms for what passes make often
  ValueId constInt(Type type, int64_t value);  // scalar or tile of integers
  ValueId constFloat(Type type, double value); // scalar or tile of floats
  ValueId zero(Type type);                     // 0, 0.0 or the null pointer
  ValueId i32(int32_t value) { return constInt(Type::scalar(Elem::I32), value); }
  ValueId cmp(CmpPred predicate, ValueId a, ValueId b);
  // Scalar -> tile of `shape`, no layout.
  ValueId splat(ValueId scalar, std::span<const int32_t> shape);
  // Yields the values at the end of the current block.
  void yield(std::span<const ValueId> values);

private:
  Function &fn_;
  BlockId block_;
  OpId before_;
};

// The result type of an op whose rule infers it; None if the operands do not fit.
[[nodiscard]] Type inferType(const Function &fn, Opcode opcode, std::span<const ValueId> operands);

// A constant's value as the `value` attribute holds it: the number that the element type has for it
// (floats rounded to nearest even; integers sign-extended from the width, i1 0 or 1).
[[nodiscard]] double canonicalFloat(Elem elem, double value);
[[nodiscard]] int64_t canonicalInt(Elem elem, int64_t value);

} // namespace libtile::ir
