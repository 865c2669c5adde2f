// SPDX-License-Identifier: Apache-2.0
// Roots that take elements one by one: histograms, and maps whose body has loops. The body of another map
// runs in lanes, as all element-by-element code does (branches.h).
#include "ir/ops.h"
#include "passes/cpu/branches.h"
#include "passes/cpu/lower_roots.h"
#include "passes/cpu/nest_emitter.h"

#include <llvm/Support/MathExtras.h>

#include <algorithm>

namespace libtile::passes {

using namespace ir;

namespace {

const Type kI32 = Type::scalar(Elem::I32);

LaneChoice oneByOne(std::span<const int32_t> shape) { return {unsigned(shape.size()) - 1, 1}; }

void zeroCounts(NestState &state, OpId position, ValueId buffer) {
  const std::array<int32_t, 1> extents{state.fn.type(buffer).dim(0)};
  const uint64_t fitting = std::max(state.target.vectorBytes, 16) / kI32.elementBytes();
  const LaneChoice choice{
      0, int32_t(std::min(fitting, uint64_t{llvm::PowerOf2Ceil(uint64_t(extents[0]))}))};
  emitNest(state, position, extents, choice,
           [&](ElementBuilder &elements, const ElementBuilder::Indices &indices) {
             elements.write(buffer, indices, elements.builder().zero(kI32));
           });
}

using Copies = IndexMap<ValueId, ValueId>;

ValueId copyOf(const Copies &copies, ValueId value) {
  return copies[value].valid() ? copies[value] : value;
}

// The map's body on the elements; gives what it yields.
Values mapElement(Function &fn, OpId map, ElementBuilder &elements,
                  const ElementBuilder::Indices &indices) {
  const BlockId body = fn.region(map);
  Copies copies;
  for (unsigned i = 0; i < fn.numOperands(map); ++i) {
    copies.set(fn.arg(body, i), elements.element(fn.operand(map, i), indices));
  }
  const OpId last = fn.last(body);
  for (OpId op = fn.first(body); op != last; op = fn.next(op)) {
    elements.builder().insert(fn.copyOp(op, copies));
    elements.countOps(1);
  }
  Values yielded;
  for (ValueId value : fn.operands(last)) {
    yielded.push_back(copyOf(copies, value));
  }
  return yielded;
}

} // namespace

// Elements that do not count are counted behind the last bin. By four a turn they take .8 of the time of one a turn, on a
// Zen 5, and half where equal ones come in runs of 16.
void lowerHistogram(NestState &state, OpId op) {
  Function &fn = state.fn;
  const ValueId result = fn.result(op);
  const int32_t bins = fn.type(result).dim(0);
  NestWork work{fn.type(fn.operand(op, 0)).shape(), {}};
  work.values.append(fn.operands(op).begin(), fn.operands(op).end());
  prepareExpression(state, op, work);
  Builder before(fn, op);
  const ValueId buffer = allocBuffer(before, std::array{bins + 1}, kI32);
  zeroCounts(state, op, buffer);
  LaneChoice choice = oneByOne(work.shape);
  choice.unrolls = true;
  emitNest(state, op, work.shape, choice,
           [&](ElementBuilder &elements, const ElementBuilder::Indices &indices) {
             Builder &builder = elements.builder();
             ValueId bin = elements.element(fn.operand(op, 0), indices);
             if (fn.numOperands(op) > 1) {
               const ValueId counts = elements.element(fn.operand(op, 1), indices);
               bin = builder.make(Opcode::Select, {counts, bin, builder.i32(bins)});
             }
             const ValueId count = elements.read(buffer, {bin}, kI32);
             elements.write(buffer, {bin}, builder.make(Opcode::Add, {count, builder.i32(1)}));
           });
  state.buffer.set(result, buffer);
}

void lowerMap(NestState &state, OpId op) {
  Function &fn = state.fn;
  NestWork work{fn.type(fn.result(op)).shape(), {}};
  work.values.append(fn.operands(op).begin(), fn.operands(op).end());
  work.bufferWrites = int32_t(fn.results(op).size());
  Builder before(fn, op);
  Values buffers;
  for (ValueId result : fn.results(op)) {
    buffers.push_back(allocBuffer(before, work.shape, fn.type(result).element()));
  }
  const bool inLanes = flattenBranches(fn, fn.region(op));
  const auto body = [&](ElementBuilder &elements, const ElementBuilder::Indices &indices) {
    const Values yielded = mapElement(fn, op, elements, indices);
    for (unsigned i = 0; i < buffers.size(); ++i) {
      elements.write(buffers[i], indices, yielded[i]);
    }
  };
  if (inLanes) {
    emitNest(state, op, work, body);
  } else {
    prepareExpression(state, op, work);
    emitNest(state, op, work.shape, oneByOne(work.shape), body);
  }
  for (unsigned i = 0; i < buffers.size(); ++i) {
    state.buffer.set(fn.result(op, i), buffers[i]);
  }
}

} // namespace libtile::passes
