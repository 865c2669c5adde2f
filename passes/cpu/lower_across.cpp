// SPDX-License-Identifier: Apache-2.0
// Histograms; and maps, which take elements one by one where their body has loops. The body of another map
// runs in lanes, as all element-by-element code does (branches.h).
#include "ir/ops.h"
#include "passes/cpu/branches.h"
#include "passes/cpu/lower_roots.h"
#include "passes/cpu/nest_costs.h"
#include "passes/cpu/nest_emitter.h"

#include <llvm/Support/MathExtras.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

namespace libtile::passes {

using namespace ir;

namespace {

const Type kI32 = Type::scalar(Elem::I32);

LaneChoice oneByOne(std::span<const int32_t> shape) { return {unsigned(shape.size()) - 1, 1}; }

// A nest of vectors along the last axis.
void emitAlongLast(NestState &state, OpId position, std::span<const int32_t> extents, const NestBody &body) {
  const uint64_t fitting = std::max(state.target.vectorBytes, 16) / kI32.elementBytes();
  const auto lanes = int32_t(std::min(fitting, uint64_t{llvm::PowerOf2Ceil(uint64_t(extents.back()))}));
  emitNest(state, position, extents, {unsigned(extents.size()) - 1, lanes}, body);
}

int32_t rowsOfCounts(int32_t length, int32_t bins) {
  const int32_t affordable = std::max(length / bins / kNestCosts.countsPerBin, 1);
  return int32_t(llvm::bit_floor(uint32_t(std::min(kNestCosts.histogramRows, affordable))));
}

ValueId allocI32(NestState &state, OpId position, std::initializer_list<int32_t> shape) {
  Builder before(state.fn, position);
  return allocBuffer(before, std::vector<int32_t>(shape), kI32);
}

// Where each element is counted.
ValueId storeBins(NestState &state, OpId op, int32_t bins) {
  Function &fn = state.fn;
  NestWork work{fn.type(fn.operand(op, 0)).shape(), {}};
  work.values.append(fn.operands(op).begin(), fn.operands(op).end());
  work.bufferWrites = 1;
  prepareExpression(state, op, work);
  const ValueId places = allocI32(state, op, {work.shape[0]});
  emitNest(state, op, work, [&](ElementBuilder &elements, const ElementBuilder::Indices &indices) {
    ValueId bin = elements.element(fn.operand(op, 0), indices);
    if (fn.numOperands(op) > 1) {
      const ValueId counts = elements.element(fn.operand(op, 1), indices);
      bin = elements.builder().make(Opcode::Select, {counts, bin, elements.builder().i32(bins)});
    }
    elements.write(places, indices, bin);
  });
  return places;
}

// The places from `start` on, in turns of `rows`.
void countInTurn(NestState &state, OpId position, ValueId places, ValueId counts, int32_t start, int32_t turns, int32_t rows) {
  LaneChoice choice{0, 1};
  choice.unrolls = true;
  emitNest(state, position, std::array{turns}, choice, [&](ElementBuilder &elements, const ElementBuilder::Indices &indices) {
    Builder &builder = elements.builder();
    const ValueId first = elements.shiftIndex(elements.scaleIndex(indices[0], rows), start);
    for (int32_t row = 0; row < rows; ++row) {
      const ValueId bin = elements.read(places, {elements.shiftIndex(first, row)}, kI32);
      const ElementBuilder::Indices place{builder.i32(row), bin};
      elements.write(counts, place, builder.make(Opcode::Add, {elements.read(counts, place, kI32), builder.i32(1)}));
    }
  });
}

ValueId sumOfRows(NestState &state, OpId position, ValueId counts) {
  const int32_t rows = state.fn.type(counts).dim(0), bins = state.fn.type(counts).dim(1) - 1;
  const ValueId sums = allocI32(state, position, {bins});
  emitAlongLast(state, position, std::array{bins}, [&](ElementBuilder &elements, const ElementBuilder::Indices &indices) {
    Builder &builder = elements.builder();
    ValueId sum = elements.read(counts, {builder.i32(0), indices[0]}, kI32);
    for (int32_t row = 1; row < rows; ++row) {
      sum = builder.make(Opcode::Add, {sum, elements.read(counts, {builder.i32(row), indices[0]}, kI32)});
    }
    elements.write(sums, indices, sum);
  });
  return sums;
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

// Elements that do not count are counted behind the last bin. Bins are computed in lanes, and lie in scratch for the counts,
// one by one. A count waits for the last one of the same bin, so neighbours count in rows of their own, as many as
// cost little to fill with zeros and to add up.
//
//   bins = ...                            rows of counts, here four
//   ++counts[0][bins[4 i]]; ++counts[1][bins[4 i + 1]]; ++counts[2][bins[4 i + 2]]; ++counts[3][bins[4 i + 3]]
void lowerHistogram(NestState &state, OpId op) {
  Function &fn = state.fn;
  const ValueId result = fn.result(op);
  const int32_t bins = fn.type(result).dim(0), length = fn.type(fn.operand(op, 0)).dim(0);
  const int32_t rows = rowsOfCounts(length, bins);
  const ValueId places = storeBins(state, op, bins);
  const ValueId counts = allocI32(state, op, {rows, bins + 1});
  emitAlongLast(state, op, std::array{rows, bins + 1}, [&](ElementBuilder &elements, const ElementBuilder::Indices &indices) {
    elements.write(counts, indices, elements.builder().zero(kI32));
  });
  countInTurn(state, op, places, counts, 0, length / rows, rows);
  if (length % rows != 0) {
    countInTurn(state, op, places, counts, length / rows * rows, length % rows, 1);
  }
  state.buffer.set(result, sumOfRows(state, op, counts));
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
