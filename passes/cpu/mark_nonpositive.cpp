// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/mark_nonpositive.h"

#include "ir/ops.h"
#include "passes/op_properties.h"

namespace libtile::passes {

using ir::Attr;
using ir::Function;
using ir::OpId;
using ir::Opcode;
using ir::ValueId;

namespace {

OpId definedBy(const Function &fn, ValueId value, Opcode opcode) {
  const OpId op = fn.def(value);
  return op.valid() && fn.opcode(op) == opcode ? op : OpId();
}

// Maxima of maxima, at most.
constexpr unsigned kMostDepth = 8;

// Each element of `value` is no less than `least`'s at the same place, or one of them is NaN. With an axis, `value` is
// without it, and no less than each element along it.
bool isNoLess(const Function &fn, ValueId value, ValueId least, int64_t axis = -1, unsigned depth = 0) {
  if (depth == kMostDepth || (axis < 0 && value == least)) {
    return depth < kMostDepth;
  }
  if (const OpId larger = definedBy(fn, value, Opcode::FMax); larger.valid()) {
    return isNoLess(fn, fn.operand(larger, 0), least, axis, depth + 1) ||
           isNoLess(fn, fn.operand(larger, 1), least, axis, depth + 1);
  }
  if (const OpId reduce = definedBy(fn, value, Opcode::Reduce); reduce.valid() && axis >= 0) {
    return fn.getInt(reduce, Attr::axis) == axis && onlyCombination(fn, reduce) == Opcode::FMax && fn.operand(reduce, 0) == least;
  }
  if (const OpId splat = definedBy(fn, value, Opcode::Splat); splat.valid() && axis < 0) {
    return fn.type(least).rank() == 1 && isNoLess(fn, fn.operand(splat, 0), least, 0, depth + 1);
  }
  const OpId broadcast = definedBy(fn, value, Opcode::Broadcast);
  const OpId expanded = broadcast.valid() ? definedBy(fn, fn.operand(broadcast, 0), Opcode::ExpandDims) : OpId();
  return expanded.valid() && axis < 0 &&
         isNoLess(fn, fn.operand(expanded, 0), least, fn.getInt(expanded, Attr::axis), depth + 1);
}

bool isNonpositive(const Function &fn, ValueId value) {
  const OpId difference = definedBy(fn, value, Opcode::Sub);
  return difference.valid() && isNoLess(fn, fn.operand(difference, 1), fn.operand(difference, 0));
}

} // namespace

// NaNs: fmax leaves them out, so the difference is NaN where the number is one, or all are; inf - inf is NaN, too.
bool markNonpositive(Function &fn, const PassContext &) {
  bool changed = false;
  for (OpId op : fn.walk()) {
    const bool isPower = fn.opcode(op) == Opcode::Exp || fn.opcode(op) == Opcode::Exp2;
    if (isPower && !fn.getBool(op, Attr::nonpositive) && isNonpositive(fn, fn.operand(op, 0))) {
      fn.setAttr(op, Attr::nonpositive, ir::AttrValue(int64_t{1}));
      changed = true;
    }
  }
  return changed;
}

} // namespace libtile::passes
