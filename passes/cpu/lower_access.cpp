// SPDX-License-Identifier: Apache-2.0
// Stores, accesses whose place and number count (atomics and volatile loads on tiles), and prints.
#include "ir/ops.h"
#include "passes/cpu/lower_roots.h"
#include "passes/cpu/mark_sums.h"
#include "passes/cpu/nest_emitter.h"

namespace libtile::passes {

using namespace ir;

namespace {

// The scalar access of one element; its operands' elements in place of the tiles.
ValueId accessElement(NestState &state, OpId op, ElementBuilder &elements,
                      const ElementBuilder::Indices &indices) {
  Function &fn = state.fn;
  Values operands;
  for (ValueId operand : std::vector<ValueId>(fn.operands(op).begin(), fn.operands(op).end())) {
    operands.push_back(elements.element(operand, indices));
  }
  std::vector<Type> results;
  for (ValueId result : fn.results(op)) {
    results.push_back(fn.type(result).element());
  }
  const OpId access = elements.builder().op(fn.opcode(op), operands, results);
  fn.copyAttrs(op, access);
  return results.empty() ? ValueId{} : fn.result(access);
}

// One element after the other, or of an update as many as a compare and swap takes, where they lie side by side.
// Of integers that pays from four on: for one alone there are instructions.
LaneChoice orderedLanes(const NestState &state, OpId op, std::span<const int32_t> shape) {
  const Function &fn = state.fn;
  const unsigned last = shape.size() - 1;
  const LaneChoice one{last, 1};
  if (fn.opcode(op) != Opcode::AtomicRmw) {
    return one;
  }
  const Type &type = fn.type(fn.operand(op, 1));
  const int32_t bytes = int32_t(type.elementBytes());
  const int32_t together = state.target.widestAtomic / bytes;
  const bool sideBySide = state.facts.access().constantStride(fn.operand(op, 0), last) == bytes;
  const int32_t least = type.isFloating() ? 2 : 4;
  return sideBySide && !type.isBool() && together >= least && shape[last] >= together ? LaneChoice{last, together} : one;
}

// To the thread's sums, in any order (mark_sums.h).
void lowerDeferred(NestState &state, OpId op) {
  Function &fn = state.fn;
  const SumsPlace place = placeOfSums(fn, op).value();
  const ValueId value = fn.operand(op, 1), mask = fn.numOperands(op) > 2 ? fn.operand(op, 2) : ValueId();
  const Type type = fn.type(value), element = type.element();
  Builder first(fn, fn.first(fn.body()));
  const ValueId sums = first.make(Opcode::CallSums, {place.array}, Type::buffer(type.shape(), element.elem()));
  fn.setAttr(fn.def(sums), Attr::start, place.start);
  NestWork work{type.shape(), {}};
  work.values.append(fn.operands(op).begin() + 1, fn.operands(op).end());
  work.bufferWrites = 1;
  emitNest(state, op, work, [&](ElementBuilder &elements, const ElementBuilder::Indices &indices) {
    Builder &builder = elements.builder();
    ValueId added = elements.element(value, indices);
    if (mask.valid()) {
      added = builder.make(Opcode::Select, {elements.element(mask, indices), added, builder.constInt(element, 0)});
    }
    elements.write(sums, indices, builder.make(Opcode::Add, {elements.read(sums, indices, element), added}));
    elements.countOps(mask.valid() ? 2 : 1);
  });
}

} // namespace

void lowerStore(NestState &state, OpId op) {
  Function &fn = state.fn;
  NestWork work{fn.type(fn.operand(op, 0)).shape(), {}};
  work.values.append(fn.operands(op).begin() + 1, fn.operands(op).end());
  work.pointers.push_back(fn.operand(op, 0));
  const auto access = [&](ElementBuilder &elements, const ElementBuilder::Indices &indices) {
    accessElement(state, op, elements, indices);
  };
  if (fn.getBool(op, Attr::is_volatile)) {
    prepareExpression(state, op, work);
    emitNest(state, op, work.shape, {unsigned(work.shape.size()) - 1, 1}, access);
  } else {
    emitNest(state, op, work, access);
  }
}

void lowerOrderedAccess(NestState &state, OpId op) {
  Function &fn = state.fn;
  if (fn.getBool(op, Attr::deferred)) {
    return lowerDeferred(state, op);
  }
  const ValueId result = fn.result(op);
  const auto shape = fn.type(fn.operand(op, 0)).shape();
  NestWork work{shape, {}};
  work.values.append(fn.operands(op).begin(), fn.operands(op).end());
  prepareExpression(state, op, work);
  ValueId buffer;
  if (!fn.unused(result)) {
    Builder before(fn, op);
    buffer = allocBuffer(before, shape, fn.type(result).element());
  }
  emitNest(state, op, shape, orderedLanes(state, op, shape),
           [&](ElementBuilder &elements, const ElementBuilder::Indices &indices) {
             const ValueId old = accessElement(state, op, elements, indices);
             if (buffer.valid()) {
               elements.write(buffer, indices, old);
             }
           });
  if (buffer.valid()) {
    state.buffer.set(result, buffer);
  }
}

void lowerPrint(NestState &state, OpId op) {
  Function &fn = state.fn;
  Values values;
  for (const ValueId value : std::vector<ValueId>(fn.operands(op).begin(), fn.operands(op).end())) {
    if (!fn.type(value).isTile()) {
      values.push_back(value);
      continue;
    }
    NestWork work{fn.type(value).shape(), {value}};
    work.bufferWrites = 1;
    Builder before(fn, op);
    const ValueId buffer = values.emplace_back(allocBuffer(before, work.shape, fn.type(value).element()));
    emitNest(state, op, work, [&](ElementBuilder &elements, const ElementBuilder::Indices &indices) {
      elements.write(buffer, indices, elements.element(value, indices));
    });
  }
  fn.copyAttrs(op, Builder(fn, op).op(Opcode::Print, values));
}

} // namespace libtile::passes
