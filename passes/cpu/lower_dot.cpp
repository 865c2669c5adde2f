// SPDX-License-Identifier: Apache-2.0
// Dots. With a unit for the types (Target::contractUnits): operands are packed into scratch by nests, which
// convert them on the way, the accumulator lies in a buffer, and one `contract` does the rest. Packing
// comes first: the operands may read the old accumulator. A batch goes through the same scratch slice by
// slice, in loops over its leading axes. Without a unit: operands in scratch, and a nest over the result
// around a sequential fold over k.
//
//
//   %d = dot %a, %b, %c     ->   nest (m,k): packedA[m,k] = ext(a[m,k])
//                                nest (k,n): packedB[k,n] = ext(b[k,n])
//                                nest (m,n): acc[m,n] = c[m,n]           unless it lies there already
//                                contract packedA, packedB, acc, k
#include "passes/cpu/lower_dot.h"

#include "ir/ops.h"
#include "passes/cpu/expression.h"
#include "passes/cpu/lower_roots.h"
#include "passes/cpu/nest_emitter.h"
#include "passes/cpu/pack_ahead.h"
#include "passes/cpu/pack_operands.h"
#include "passes/cpu/packed_words.h"
#include "passes/cpu/rows_in_place.h"

#include <llvm/ADT/STLExtras.h>

namespace libtile::passes {

using namespace ir;

namespace {

const Type kI32 = Type::scalar(Elem::I32);
const Type kI1 = Type::scalar(Elem::I1);

// acc[..., m, n] = c[..., m, n] + sum of a[..., m, k] * b[..., k, n], by a fold over k.
void lowerByFolds(NestState &state, OpId dot, ValueId home) {
  Function &fn = state.fn;
  const ValueId a = fn.operand(dot, 0);
  const ValueId b = fn.operand(dot, 1);
  const ValueId c = fn.operand(dot, 2);
  storeTile(state, a, dot);
  storeTile(state, b, dot);
  const Type type = fn.type(fn.result(dot));
  if (!home.valid() || state.buffer[a] == home || state.buffer[b] == home) {
    Builder before(fn, dot);
    home = allocBuffer(before, type.shape(), type.element());
  }
  const auto shape = type.shape();
  const unsigned rank = type.rank();
  prepareExpression(state, dot, {shape, {c}});
  const LaneChoice choice{rank - 1, lanesFor(state, std::array{a, b, c}, shape.back())};
  emitNest(state, dot, shape, choice,
           [&](ElementBuilder &elements, const ElementBuilder::Indices &indices) {
             Builder &builder = elements.builder();
             const BlockId body = builder.block();
             const ValueId start = elements.element(c, indices);
             const OpId fold = builder.op(Opcode::Fold, {}, std::array{type.element()});
             fn.setAttr(fold, Attr::extent, AttrValue(int64_t{fn.type(a).dim(rank - 1)}));
             fn.setAttr(fold, Attr::lanes, AttrValue(int64_t{1}));
             elements.enter(fn.region(fold, 0));
             ElementBuilder::Indices left = indices;
             ElementBuilder::Indices right = indices;
             left[rank - 1] = right[rank - 2] = fn.addArg(fn.region(fold, 0), kI32);
             const ValueId product = builder.make(
                 Opcode::Mul, {widen(builder, elements.element(a, left), type.elem()),
                               widen(builder, elements.element(b, right), type.elem())});
             builder.yield(std::array{product});
             elements.enter(fn.region(fold, 1));
             const ValueId first = fn.addArg(fn.region(fold, 1), type.element());
             const ValueId second = fn.addArg(fn.region(fold, 1), type.element());
             builder.yield(std::array{builder.make(Opcode::Add, {first, second})});
             elements.leave(fn.region(fold, 0));
             elements.leave(body);
             elements.write(home, indices, builder.make(Opcode::Add, {start, fn.result(fold)}));
           });
  state.buffer.set(fn.result(dot), home);
  fn.fallbacks.push_back(fn.locationOf(dot).place().str() + ": dot by plain multiply-adds: no contraction of " +
                         elemName(fn.type(a).elem()) + " into " + elemName(type.elem()));
}

// The planned contraction of a slice of this dot.
const ContractShape *sliceContractOf(const NestState &state, OpId dot) {
  const auto found = state.plan.contracts.find(dot);
  return found == state.plan.contracts.end() ? nullptr : &found->second;
}

bool readsBuffer(const NestState &state, ValueId value, ValueId buffer) {
  bool found = false;
  walkExpression(state, value, [&](const ExpressionNode &node) {
    found = found || state.buffer[node.value] == buffer;
    return !found;
  });
  return found;
}

// Loops over the leading axes before `position`; the place in the innermost, with its indices.
std::pair<OpId, ElementBuilder::Indices> openSlices(NestState &state, OpId position, std::span<const int32_t> leading) {
  Function &fn = state.fn;
  ElementBuilder::Indices slice;
  for (const int32_t extent : leading) {
    Builder before(fn, position);
    const OpId loop = before.op(Opcode::For, std::array{before.i32(0), before.i32(extent), before.i32(1)});
    const BlockId block = fn.region(loop);
    slice.push_back(fn.addArg(block, kI32));
    Builder inside(fn, block);
    inside.loc = fn.loc(position);
    inside.yield({});
    position = fn.last(block);
  }
  return {position, slice};
}

// Slice by slice. An operand that reads the accumulator reads it as it was before the first slice.
void lowerSlices(NestState &state, OpId dot, const ContractShape &shape, ValueId home) {
  Function &fn = state.fn;
  const Type type = fn.type(fn.result(dot));
  const ValueId start = fn.operand(dot, 2);
  for (const ValueId operand : {fn.operand(dot, 0), fn.operand(dot, 1)}) {
    if (home.valid() && state.buffer[operand] == home) {
      home = {};
    } else if (home.valid() && readsBuffer(state, operand, home)) {
      storeTile(state, operand, dot);
    }
    storeKept(state, operand, dot);
  }
  storeKept(state, start, dot);
  const auto leading = type.shape().first(type.rank() - 2);
  const Type matrix = Type::tile({shape.m, shape.n}, type.element());
  const int32_t k = fn.type(fn.operand(dot, 0)).shape().back();
  const PackedOperands packed = allocPacked(state, {dot, dot}, shape, k);
  Builder before(fn, dot);
  const ValueId acc = allocBuffer(before, std::array{shape.paddedM, shape.paddedN}, type.element());
  const bool isFresh = fn.isZero(start);
  if (!isFresh) {
    zeroPadding(state, dot, acc, matrix);
  }
  home = home.valid() ? home : allocBuffer(before, type.shape(), type.element());
  const auto [position, slice] = openSlices(state, dot, leading);
  packOperands(state, {dot, {position, position}, shape, packed, {}, slice});
  const LaneChoice choice{1, lanesFor(state, std::array{start}, shape.n)};
  using Indices = ElementBuilder::Indices;
  if (!isFresh) {
    emitNest(state, position, matrix.shape(), choice,
             [&](ElementBuilder &elements, const Indices &indices) {
               elements.write(acc, indices,
                              elements.element(start, sliceIndices(slice, indices[0], indices[1])));
             });
  }
  Builder inside(fn, position);
  emitContract(state, position, shape, packed, acc, {inside.i32(shape.packedK(k)), inside.constInt(kI1, isFresh ? 1 : 0)});
  emitNest(state, position, matrix.shape(), choice,
           [&](ElementBuilder &elements, const Indices &indices) {
             elements.write(home, sliceIndices(slice, indices[0], indices[1]),
                            elements.read(acc, indices, type.element()));
           });
  state.buffer.set(fn.result(dot), home);
}

// A table of a's rows, if they may be read in place; whether they are, an i1, or invalid.
ValueId openRows(NestState &state, OpId dot, const ContractShape &shape, PackedOperands &packed) {
  Function &fn = state.fn;
  if (!state.plan.inPlace[dot] || state.stored(fn.operand(dot, 0))) {
    return {};
  }
  Builder before(fn, dot);
  packed.rows = allocBuffer(before, std::array{shape.paddedM}, Type::scalar(Elem::I64));
  return areWholeRows(fn, dot);
}

} // namespace

const ContractShape *contractOf(const NestState &state, OpId dot) {
  const bool isMatrix = state.fn.type(state.fn.result(dot)).rank() == 2;
  return isMatrix ? sliceContractOf(state, dot) : nullptr;
}

llvm::SmallVector<int32_t, 4> accumulatorShape(const NestState &state, OpId dot) {
  if (const ContractShape *shape = contractOf(state, dot)) {
    return {shape->paddedM, shape->paddedN};
  }
  const auto shape = state.fn.type(state.fn.result(dot)).shape();
  return {shape.begin(), shape.end()};
}

void zeroPadding(NestState &state, OpId position, ValueId buffer, Type tile) {
  const Type &type = state.fn.type(buffer);
  if (type.rank() == 2 && tile.rank() == 2) {
    const std::array<int32_t, 2> extents{type.dim(0), type.dim(1)};
    zeroFill(state, position, buffer, {tile.dim(0), extents[0]}, {0, extents[1]});
    zeroFill(state, position, buffer, {0, tile.dim(0)}, {tile.dim(1), extents[1]});
  }
}

PackedOperands allocPacked(NestState &state, PackingPlaces places, const ContractShape &shape, int32_t k, bool keepsB) {
  Builder before(state.fn, places.a), beforeB(state.fn, places.b);
  const int32_t columns = shape.packedK(k);
  const PackedShapes shapes = packedShapes(shape, columns);
  PackedOperands operands;
  operands.a = allocBuffer(before, shapes.a, Type::scalar(shape.unit.packed));
  zeroFill(state, places.a, operands.a, {shape.m, shape.paddedM}, {0, columns});
  if (keepsB) {
    return operands;
  }
  operands.b = allocBuffer(beforeB, shapes.b, Type::scalar(shapes.elemB));
  zeroFill(state, places.b, operands.b, {0, shapes.b[0]}, {shape.n, shape.paddedN});
  return operands;
}

void emitContract(NestState &state, OpId position, const ContractShape &shape, const PackedOperands &packed, ValueId acc,
                  const ContractInputs &inputs) {
  Builder before(state.fn, position);
  if (!shape.fallback.empty()) {
    state.fn.fallbacks.push_back(state.fn.locationOf(position).place().str() + ": " + shape.fallback);
  }
  Values operands{packed.a, packed.b, acc, inputs.k, inputs.empty};
  if (packed.rows.valid()) {
    operands.append({packed.rows, inputs.direct});
  }
  const OpId contract = before.op(Opcode::Contract, operands);
  state.fn.setAttr(contract, Attr::unit, AttrValue(shape.unit.name));
  state.fn.setAttr(contract, Attr::block_m, AttrValue(int64_t{shape.blockM}));
  state.fn.setAttr(contract, Attr::block_n, AttrValue(int64_t{shape.blockN}));
  if (packed.ahead.valid()) {
    state.fn.addOperand(contract, packed.ahead);
    state.fn.addOperand(contract, inputs.soon);
    state.fn.setAttr(contract, Attr::ahead_bytes, AttrValue(packed.aheadBytes));
  }
  if (const Findings &found = inputs.findings; found.a.valid()) {
    for (ValueId each : {found.a, found.knowsA, found.b, found.knowsB, found.sums, found.follows}) {
      state.fn.addOperand(contract, each);
    }
  }
}

void lowerDot(NestState &state, OpId dot, ValueId home) {
  Function &fn = state.fn;
  const ContractShape *shape = sliceContractOf(state, dot);
  if (!shape) {
    return lowerByFolds(state, dot, home);
  }
  if (fn.type(fn.result(dot)).rank() > 2) {
    return lowerSlices(state, dot, *shape, home);
  }
  const int32_t k = fn.type(fn.operand(dot, 0)).dim(1);
  const PackingPlaces places = packingPlaces(state, state.plan, dot);
  PackedOperands packed = allocPacked(state, places, *shape, k);
  const ValueId inPlace = openRows(state, dot, *shape, packed);
  packOperands(state, {.dot = dot, .places = places, .shape = *shape, .packed = packed, .column = {}, .slice = {}, .inPlace = inPlace, .isKept = {}});
  const Type type = fn.type(fn.result(dot));
  const ValueId start = fn.operand(dot, 2);
  const bool isThere = home.valid() && state.buffer[start] == home;
  const bool isFresh = !isThere && fn.isZero(start);
  if (!home.valid()) {
    Builder before(fn, dot);
    home = allocBuffer(before, accumulatorShape(state, dot), type.element());
    if (!isFresh) {
      zeroPadding(state, dot, home, type);
    }
  }
  if (!isThere && !isFresh) {
    NestWork work{type.shape(), {start}};
    work.bufferWrites = 1;
    emitNest(state, dot, work, [&](ElementBuilder &elements, const ElementBuilder::Indices &indices) {
      elements.write(home, indices, elements.element(start, indices));
    });
  }
  Builder before(fn, dot);
  const ValueId all = before.i32(shape->packedK(k));
  const ValueId direct = inPlace.valid() ? before.make(Opcode::Select, {inPlace, all, before.i32(0)}) : ValueId{};
  emitContract(state, dot, *shape, packed, home, {all, before.constInt(kI1, isFresh ? 1 : 0), direct});
  state.buffer.set(fn.result(dot), home);
}

} // namespace libtile::passes
