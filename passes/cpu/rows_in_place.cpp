// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/rows_in_place.h"

#include "ir/ops.h"
#include "passes/cpu/mask_ends.h"
#include "passes/cpu/nest_costs.h"
#include "passes/cpu/nest_emitter.h"

#include <algorithm>

namespace libtile::passes {

using namespace ir;

namespace {

// By what a part of an address grows from each iteration to the next: integers in units, pointers in elements. What feeds
// an address does not wrap (ptr_add). nullopt: it is not known to be the same each time.
std::optional<int64_t> growthOf(const Function &fn, OpId loop, ValueId value) {
  const BlockId body = fn.region(loop);
  if (fn.isDefinedOutside(value, body)) {
    return 0;
  }
  if (fn.isArg(value)) {
    if (fn.defBlock(value) != body) {
      return std::nullopt;
    }
    const unsigned slot = fn.defIndex(value);
    if (slot == 0) {
      return fn.constantInt(fn.operand(loop, 2));
    }
    const ValueId next = fn.operand(fn.last(body), slot - 1);
    const bool adds = fn.defOpcode(next) == Opcode::Add && fn.operand(fn.def(next), 0) == value;
    return adds ? fn.constantInt(fn.operand(fn.def(next), 1)) : std::nullopt;
  }
  const OpId op = fn.def(value);
  const Opcode opcode = fn.opcode(op);
  if (opcode == Opcode::Constant || opcode == Opcode::Arange) {
    return 0;
  }
  if (opcode == Opcode::Splat || opcode == Opcode::Broadcast || opcode == Opcode::ExpandDims || opcode == Opcode::SExt) {
    return growthOf(fn, loop, fn.operand(op, 0));
  }
  if (opcode != Opcode::Add && opcode != Opcode::PtrAdd) {
    return std::nullopt;
  }
  const auto left = growthOf(fn, loop, fn.operand(op, 0)), right = growthOf(fn, loop, fn.operand(op, 1));
  return left && right ? std::optional(*left + *right) : std::nullopt;
}

bool readsPlainly(const Function &fn, OpId load) {
  return fn.opcode(load) == Opcode::Load && !fn.getBool(load, Attr::is_volatile) && !fn.hasAttr(load, Attr::sem) &&
         !fn.hasAttr(load, Attr::within) && (fn.numOperands(load) < 2 || endsOfMask(fn, fn.operand(load, 1)));
}

} // namespace

bool haveRowsInPlace(const Function &fn, const Facts &facts, const Target &target, OpId loop, OpId dot,
                     const ContractShape &shape) {
  const ValueId a = fn.operand(dot, 0);
  const OpId load = fn.def(a);
  const ContractUnit &unit = shape.unit;
  const Type type = fn.type(a);
  const int32_t k = type.dim(1), bytes = int32_t(type.elementBytes());
  // Whole vectors, by which a's numbers are looked at.
  const bool fits = type.elem() == unit.packed && unit.packedBias() == 0 &&
                    (unit.ofTiles() || shape.blockM <= kNestCosts.rowsInPlace) && k == shape.packedK(k) &&
                    k * bytes % std::max(target.vectorBytes, 16) == 0;
  const BlockId block = loop.valid() ? fn.region(loop) : fn.block(dot);
  if (!fits || !load.valid() || fn.block(load) != block || !readsPlainly(fn, load)) {
    return false;
  }
  const ValueId pointers = fn.operand(load, 0);
  return facts.access().constantStride(pointers, 1) == bytes && (!loop.valid() || growthOf(fn, loop, pointers) == k);
}

ValueId areWholeRows(Function &fn, OpId dot) {
  const OpId load = fn.def(fn.operand(dot, 0));
  Builder before(fn, dot);
  const Type wide = Type::scalar(Elem::I64);
  ValueId all = before.constInt(Type::scalar(Elem::I1), 1);
  if (fn.numOperands(load) < 2) {
    return all;
  }
  const auto ends = endsOfMask(fn, fn.operand(load, 1));
  check(ends.has_value(), "rows in place have a mask of ends");
  for (const AxisEnd &one : *ends) {
    ValueId left = before.make(Opcode::SExt, {one.end.limit}, wide);
    if (const ValueId base = baseOf(before, one.end); base.valid()) {
      left = before.make(Opcode::Sub, {left, before.make(Opcode::SExt, {base}, wide)});
    }
    const ValueId extent = before.constInt(wide, fn.type(fn.operand(dot, 0)).dim(one.axis));
    all = before.make(Opcode::And, {all, before.cmp(CmpPred::sge, left, extent)});
  }
  return all;
}

void tabulateRows(NestState &state, OpId dot, OpId position, const ContractShape &shape,
                  const PackedOperands &packed, ValueId column) {
  const ValueId pointers = state.fn.operand(state.fn.def(state.fn.operand(dot, 0)), 0);
  Builder before(state.fn, position);
  const OpId place = column.valid() ? openBranches(state.fn, position, before.cmp(CmpPred::eq, column, before.i32(0)))[0] : position;
  // Rows of padding are read like the last one, and what they sum up to by nobody.
  const auto tabulate = [&](int32_t first, int32_t rows, bool same) {
    emitNest(state, place, std::array{rows}, {0, lanesFor(state, std::array{pointers}, rows)},
             [&](ElementBuilder &elements, const ElementBuilder::Indices &indices) {
               const ValueId row = elements.shiftIndex(indices[0], first);
               const ValueId from = same ? elements.index(shape.m - 1) : row;
               elements.write(packed.rows, {row}, elements.element(pointers, {from, elements.index(0)}));
             });
  };
  tabulate(0, shape.m, false);
  if (shape.paddedM > shape.m) {
    tabulate(shape.m, shape.paddedM - shape.m, true);
  }
}

std::array<OpId, 2> openBranches(Function &fn, OpId position, ValueId condition) {
  Builder before(fn, position);
  const OpId branch = before.op(Opcode::If, std::array{condition});
  for (const unsigned i : {0U, 1U}) {
    Builder inside(fn, fn.region(branch, i));
    inside.loc = fn.loc(position);
    inside.yield({});
  }
  return {fn.last(fn.region(branch, 0)), fn.last(fn.region(branch, 1))};
}

} // namespace libtile::passes
