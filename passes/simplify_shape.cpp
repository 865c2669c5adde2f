// SPDX-License-Identifier: Apache-2.0
// Splats, shapes, hints and pointer sums. Canonical: what is the same for all elements is computed
// once, as a scalar, and splat last; shape ops do not follow a splat or each other where one does.
#include "ir/ops.h"
#include "passes/simplify_rules.h"

#include <algorithm>
#include <numeric>

namespace libtile::passes {

using ir::Attr;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

// op(splat x, splat y, constant) -> splat(op(x, y, constant))
ValueId simplifySplats(Rewriter &rw, OpId op) {
  const auto results = rw.fn.results(op);
  if (!ir::isElementwise(rw.fn.opcode(op)) || rw.fn.opcode(op) == Opcode::Hint ||
      !rw.fn.type(results[0]).isTile() || rw.fn.type(results[0]).layout().valid()) {
    return {};
  }
  const ir::Values operands(rw.fn.operands(op).begin(), rw.fn.operands(op).end());
  if (!std::ranges::all_of(operands, [&](ValueId value) { return rw.isSplat(value); })) {
    return {};
  }
  ir::Values scalars;
  for (ValueId operand : operands) {
    scalars.push_back(rw.scalarOf(operand));
  }
  const Type type = rw.fn.type(results[0]);
  return rw.builder.splat(rw.sameOp(op, scalars, type.element()), type.shape());
}

namespace {

bool isIdentity(std::span<const int64_t> order) {
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<int64_t>(i)) {
      return false;
    }
  }
  return true;
}

// The same scalar, or number, in another shape.
ValueId reshapeSplat(Rewriter &rw, ValueId splat, Type to) {
  const OpId op = rw.def(splat);
  if (rw.isConstant(splat)) {
    return rw.constant(to, *rw.fn.findAttr(op, Attr::value));
  }
  return rw.builder.splat(rw.fn.operand(op, 0), to.shape());
}

ValueId trans(Rewriter &rw, OpId op, ValueId a, Type to) {
  const auto order = rw.fn.getInts(op, Attr::order);
  if (isIdentity(order)) {
    return a;
  }
  const ValueId inner = rw.through(a, Opcode::Trans);
  if (!inner.valid()) {
    return {};
  }
  const auto first = rw.fn.getInts(rw.def(a), Attr::order);
  std::vector<int64_t> composed;
  for (int64_t axis : order) {
    composed.push_back(first[static_cast<size_t>(axis)]);
  }
  if (isIdentity(composed)) {
    return inner;
  }
  const ValueId result = rw.builder.make(Opcode::Trans, {inner}, to);
  rw.fn.setAttr(rw.def(result), Attr::order, ir::AttrValue(composed));
  return result;
}

// All of the axis; or a part of a part along one axis.
ValueId slice(Rewriter &rw, OpId op, ValueId a, Type to) {
  const int64_t axis = rw.fn.getInt(op, Attr::axis), start = rw.fn.getInt(op, Attr::start);
  const int64_t step = rw.fn.getInt(op, Attr::step);
  if (rw.fn.type(a) == to && start == 0) {
    return a; // of more than one element every one, or the one that there is
  }
  const ValueId inner = rw.through(a, Opcode::Slice);
  if (!inner.valid() || rw.fn.getInt(rw.def(a), Attr::axis) != axis) {
    return {};
  }
  const int64_t innerStep = rw.fn.getInt(rw.def(a), Attr::step);
  const int64_t first = rw.fn.getInt(rw.def(a), Attr::start) + start * innerStep;
  const ValueId result = rw.builder.make(Opcode::Slice, {inner}, to);
  const bool one = to.dim(static_cast<unsigned>(axis)) == 1;
  rw.fn.setAttr(rw.def(result), Attr::axis, ir::AttrValue(axis));
  rw.fn.setAttr(rw.def(result), Attr::start, ir::AttrValue(first));
  rw.fn.setAttr(rw.def(result), Attr::step, ir::AttrValue(one ? 1 : step * innerStep));
  return result;
}

// hint(hint(x)): both promises on one op, the stronger one of each axis.
ValueId hint(Rewriter &rw, OpId op, ValueId a, Type to) {
  if (rw.isConstant(a)) {
    return a;
  }
  const bool onHint = rw.is(a, Opcode::Hint), onSplat = rw.is(a, Opcode::Splat);
  if (!onHint && !onSplat) {
    return {};
  }
  if (onSplat) { // only divisibility says something of a scalar
    const auto entries = rw.fn.getInts(op, Attr::divisible);
    const ValueId scalar = rw.fn.operand(rw.def(a), 0);
    if (entries.empty()) {
      return a;
    }
    const ValueId hinted = rw.builder.make(Opcode::Hint, {scalar}, rw.fn.type(scalar));
    rw.fn.setAttr(rw.def(hinted), Attr::divisible,
                  ir::AttrValue(std::vector<int64_t>{*std::ranges::max_element(entries)}));
    return rw.builder.splat(hinted, to.shape());
  }
  const ValueId merged = rw.builder.make(Opcode::Hint, {rw.fn.operand(rw.def(a), 0)}, to);
  for (Attr attr : {Attr::divisible, Attr::contiguous, Attr::constant}) {
    const auto x = rw.fn.getInts(rw.def(a), attr), y = rw.fn.getInts(op, attr);
    std::vector<int64_t> both(x.begin(), x.end());
    both.resize(std::max(x.size(), y.size()), 1);
    for (size_t i = 0; i < y.size(); ++i) {
      both[i] = std::max(both[i], y[i]);
    }
    if (!both.empty()) {
      rw.fn.setAttr(rw.def(merged), attr, ir::AttrValue(both));
    }
  }
  return merged;
}

ValueId pointerSum(Rewriter &rw, OpId op) {
  const ValueId pointer = rw.fn.operand(op, 0), offset = rw.fn.operand(op, 1);
  if (rw.isInt(offset, 0)) {
    return pointer;
  }
  const ValueId narrow = rw.through(offset, Opcode::SExt); // the offset is signed at any width
  if (narrow.valid() && !rw.fn.type(narrow).isBool()) {
    return rw.make(Opcode::PtrAdd, {pointer, narrow});
  }
  if (!rw.is(pointer, Opcode::PtrAdd)) {
    return {};
  }
  const OpId inner = rw.def(pointer);
  const ValueId base = rw.fn.operand(inner, 0), first = rw.fn.operand(inner, 1);
  const auto x = rw.intOf(first), y = rw.intOf(offset);
  int64_t sum = 0;
  if (x && y && !__builtin_add_overflow(*x, *y, &sum)) { // (p + c) + d -> p + (c + d)
    const Type wide = rw.fn.type(offset).withElement(ir::Elem::I64);
    return rw.make(Opcode::PtrAdd, {base, rw.constant(wide, sum)});
  }
  // (splat p + t) + splat s -> splat(p + s) + t
  const bool loose = rw.fn.type(pointer).isTile() && rw.isSplat(offset) && rw.isSplat(base);
  return loose && !rw.isSplat(first)
             ? rw.make(Opcode::PtrAdd, {rw.make(Opcode::PtrAdd, {base, offset}), first})
             : ValueId{};
}

} // namespace

ValueId simplifyShape(Rewriter &rw, OpId op) {
  const Opcode opcode = rw.fn.opcode(op);
  if (opcode == Opcode::PtrAdd) {
    return pointerSum(rw, op);
  }
  const bool shape = opcode == Opcode::Splat || opcode == Opcode::Broadcast ||
                     opcode == Opcode::ExpandDims || opcode == Opcode::Reshape ||
                     opcode == Opcode::Trans || opcode == Opcode::Slice;
  if (!shape && opcode != Opcode::Hint) {
    return {};
  }
  const ValueId a = rw.fn.operand(op, 0);
  const Type to = rw.fn.type(rw.fn.result(op));
  if (opcode == Opcode::Hint) {
    return hint(rw, op, a, to);
  }
  if (to.layout().valid()) {
    return {};
  }
  if (opcode == Opcode::Splat) {
    return rw.isConstant(a) ? reshapeSplat(rw, a, to) : ValueId{};
  }
  if (rw.isSplat(a)) {
    return reshapeSplat(rw, a, to);
  }
  if (opcode == Opcode::Trans) {
    return trans(rw, op, a, to);
  }
  if (opcode == Opcode::Slice) {
    return slice(rw, op, a, to);
  }
  if (opcode == Opcode::ExpandDims) {
    return {};
  }
  if (rw.fn.type(a) == to) {
    return a;
  }
  if (opcode == Opcode::Reshape && rw.is(a, Opcode::ExpandDims)) {
    return rw.builder.make(Opcode::Reshape, {rw.fn.operand(rw.def(a), 0)}, to);
  }
  const ValueId inner = rw.through(a, opcode); // broadcast or reshape of its own kind
  return inner.valid() ? rw.builder.make(opcode, {inner}, to) : ValueId{};
}

} // namespace libtile::passes
