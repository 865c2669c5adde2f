// SPDX-License-Identifier: Apache-2.0
// Dots. With a rule for the types (Target::contract): operands are packed into scratch by nests, which
// convert them on the way, the accumulator lies in a buffer, and one `contract` does the rest. Packing
// comes first: the operands may read the old accumulator. Without a rule: operands in scratch, and a nest
// over the result around a sequential fold over k. Leading axes are axes of all of it.
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
#include "passes/cpu/remainder_checks.h"

#include <llvm/ADT/STLExtras.h>

namespace libtile::passes {

using namespace ir;

namespace {

const Type kI32 = Type::scalar(Elem::I32);

// `value` as `elem`, exactly: to a wider number of the same sort.
ValueId widen(Builder &builder, ValueId value, Elem elem) {
  const Type type = builder.function().type(value);
  if (type.elem() == elem) {
    return value;
  }
  return builder.make(isFloat(elem) ? Opcode::FpExt : Opcode::SExt, {value}, Type::scalar(elem));
}

// Two 16-bit numbers as one word, the first in its low half.
ValueId pairWord(Builder &builder, ValueId low, ValueId high) {
  const auto word = [&](ValueId half) {
    const Type bits = Type::scalar(Elem::I16);
    if (builder.function().type(half) != bits) {
      half = builder.make(Opcode::Bitcast, {half}, bits);
    }
    return builder.make(Opcode::ZExt, {half}, kI32);
  };
  const ValueId upper = builder.make(Opcode::Shl, {word(high), builder.i32(16)});
  return builder.make(Opcode::Or, {word(low), upper});
}

class OperandPacker {
public:
  OperandPacker(NestState &state, OpId dot, OpId position, const ContractShape &shape,
                const PackedOperands &packed, ValueId column)
      : state_(state), fn_(state.fn), dot_(dot), position_(position), shape_(shape),
        packed_(packed), column_(column), row_(unsigned(shape.leading.size())),
        k_(fn_.type(fn_.operand(dot, 0)).shape().back()) {}

  void run() {
    packA();
    if (shape_.rule.pairs) {
      packPairs();
      packLastPair();
    } else {
      packB();
    }
  }

private:
  using Indices = ElementBuilder::Indices;

  ValueId shifted(ElementBuilder &elements, ValueId index, bool pairs) {
    if (!column_.valid()) {
      return index;
    }
    const ValueId base =
        pairs ? elements.builder().make(Opcode::UDiv, {column_, elements.index(2)}) : column_;
    return elements.addIndex(base, index);
  }

  void packA() {
    const ValueId a = fn_.operand(dot_, 0);
    NestWork work{fn_.type(a).shape(), {a}};
    work.bufferWrites = 1;
    emitNest(state_, position_, work, [&](ElementBuilder &elements, const Indices &indices) {
      const ValueId element =
          widen(elements.builder(), elements.element(a, indices), shape_.rule.packed);
      Indices place = indices;
      place[row_ + 1] = shifted(elements, indices[row_ + 1], false);
      elements.write(packed_.a, place, element);
    });
    if (k_ < shape_.packedK(k_)) {
      zeroColumn();
    }
  }

  // The missing second half of an odd reduction's last pair.
  void zeroColumn() {
    emitNest(state_, position_, shape_.withLeading(shape_.m, 1), {row_, lanesFor(state_, {}, 1)},
             [&](ElementBuilder &elements, const Indices &indices) {
               const Type element = Type::scalar(shape_.rule.packed);
               Indices place = indices;
               place[row_ + 1] = shifted(elements, elements.index(k_), false);
               elements.write(packed_.a, place, elements.builder().zero(element));
             });
  }

  void packB() {
    const ValueId b = fn_.operand(dot_, 1);
    NestWork work{fn_.type(b).shape(), {b}};
    work.bufferWrites = 1;
    emitNest(state_, position_, work, [&](ElementBuilder &elements, const Indices &indices) {
      const ValueId element =
          widen(elements.builder(), elements.element(b, indices), shape_.rule.packed);
      Indices place = indices;
      place[row_] = shifted(elements, indices[row_], false);
      elements.write(packed_.b, place, element);
    });
  }

  // The nest runs over pairs of rows, so b's own rows are no space of it: nothing is stored on the
  // way, and what would be is stored before.
  void packPairs() {
    const ValueId b = fn_.operand(dot_, 1);
    storeKept(b);
    if (k_ < 2) {
      return;
    }
    const int32_t n = shape_.n;
    const LaneChoice choice{row_ + 1, lanesFor(state_, std::array{b}, n)};
    emitWithRemainderChecks(
        state_, position_, {fn_.type(b).shape(), {b}}, row_ + 1, [&](OpId place) {
          emitNest(state_, place, shape_.withLeading(k_ / 2, n), choice,
                   [&](ElementBuilder &elements, const Indices &indices) {
                     Indices even = indices;
                     even[row_] = elements.scaleIndex(indices[row_], 2);
                     Indices odd = indices;
                     odd[row_] = elements.shiftIndex(even[row_], 1);
                     const ValueId low = elements.element(b, even);
                     writePair(elements, indices, low, elements.element(b, odd));
                   });
        });
  }

  void packLastPair() {
    if (k_ % 2 == 0) {
      return;
    }
    const ValueId b = fn_.operand(dot_, 1);
    const int32_t n = shape_.n;
    const LaneChoice choice{row_ + 1, lanesFor(state_, std::array{b}, n)};
    emitNest(state_, position_, shape_.withLeading(1, n), choice,
             [&](ElementBuilder &elements, const Indices &indices) {
               const Type element = fn_.type(b).element();
               Indices last = indices;
               last[row_] = elements.index(k_ - 1);
               const ValueId low = elements.element(b, last);
               const ValueId zero = elements.builder().zero(element);
               last[row_] = elements.index(k_ / 2);
               writePair(elements, last, low, zero);
             });
  }

  // `place`: pairs along the axis before the last.
  void writePair(ElementBuilder &elements, Indices place, ValueId low, ValueId high) {
    Builder &builder = elements.builder();
    const Elem packed = shape_.rule.packed;
    const ValueId word = pairWord(builder, widen(builder, low, packed), widen(builder, high, packed));
    place[row_] = shifted(elements, place[row_], true);
    elements.write(packed_.b, place, word);
  }

  // Stores every value to be kept below `root` by a nest of its own.
  void storeKept(ValueId root) {
    ValueId kept;
    do {
      kept = {};
      walkExpression(state_, root, [&](const ExpressionNode &node) {
        if (!kept.valid() && !state_.stored(node.value) &&
            state_.keep[node.value] != Keep::Inline) {
          kept = node.value;
        }
        return !kept.valid();
      });
      if (kept.valid()) {
        storeTile(state_, kept, position_);
      }
    } while (kept.valid());
    NestWork work{fn_.type(root).shape(), {root}};
    prepareExpression(state_, position_, work);
  }

  NestState &state_;
  Function &fn_;
  OpId dot_;
  OpId position_;
  const ContractShape &shape_;
  const PackedOperands &packed_;
  ValueId column_;
  unsigned row_; // the axis before the last
  int32_t k_;
};

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

} // namespace

std::optional<ContractShape> contractOf(const NestState &state, OpId dot) {
  const Function &fn = state.fn;
  return contractShape(state.target, fn.type(fn.operand(dot, 0)).elem(), fn.type(fn.result(dot)));
}

llvm::SmallVector<int32_t, 4> accumulatorShape(const NestState &state, OpId dot) {
  if (const auto contract = contractOf(state, dot)) {
    const std::vector<int32_t> padded = contract->withLeading(contract->paddedM, contract->paddedN);
    return {padded.begin(), padded.end()};
  }
  const auto shape = state.fn.type(state.fn.result(dot)).shape();
  return {shape.begin(), shape.end()};
}

void zeroPadding(NestState &state, OpId position, ValueId buffer, Type tile) {
  const Type type = state.fn.type(buffer);
  if (type.rank() < 2 || type.rank() != tile.rank()) {
    return;
  }
  const unsigned row = type.rank() - 2, column = type.rank() - 1;
  zeroFill(state, position, buffer, {tile.dim(row), type.dim(row)}, {0, type.dim(column)});
  zeroFill(state, position, buffer, {0, tile.dim(row)}, {tile.dim(column), type.dim(column)});
}

PackedOperands allocPacked(NestState &state, OpId position, const ContractShape &shape, int32_t k) {
  Builder before(state.fn, position);
  const bool pairs = shape.rule.pairs;
  const int32_t columns = shape.packedK(k);
  const int32_t rows = pairs ? columns / 2 : columns;
  const Type packed = Type::scalar(shape.rule.packed);
  PackedOperands operands;
  operands.a = allocBuffer(before, shape.withLeading(shape.paddedM, shape.rowA(k)), packed);
  operands.b = allocBuffer(before, shape.withLeading(rows, shape.rowB()), pairs ? kI32 : packed);
  zeroFill(state, position, operands.a, {shape.m, shape.paddedM}, {0, columns});
  zeroFill(state, position, operands.b, {0, rows}, {shape.n, shape.paddedN});
  return operands;
}

void packOperands(NestState &state, OpId dot, OpId position, const ContractShape &shape,
                  const PackedOperands &packed, ValueId column) {
  OperandPacker(state, dot, position, shape, packed, column).run();
}

void emitContract(NestState &state, OpId position, const ContractShape &shape,
                  const PackedOperands &packed, ValueId acc, ValueId k) {
  Builder before(state.fn, position);
  const OpId contract =
      before.op(Opcode::Contract, std::array{packed.a, packed.b, acc, k});
  state.fn.setAttr(contract, Attr::block_m, AttrValue(int64_t{shape.blockM}));
  state.fn.setAttr(contract, Attr::block_n, AttrValue(int64_t{shape.blockN}));
}

void lowerDot(NestState &state, OpId dot, ValueId home) {
  Function &fn = state.fn;
  const auto shape = contractOf(state, dot);
  if (!shape) {
    lowerByFolds(state, dot, home);
    return;
  }
  const int32_t k = fn.type(fn.operand(dot, 0)).shape().back();
  const PackedOperands packed = allocPacked(state, dot, *shape, k);
  packOperands(state, dot, dot, *shape, packed, {});
  const Type type = fn.type(fn.result(dot));
  const ValueId start = fn.operand(dot, 2);
  if (!home.valid()) {
    Builder before(fn, dot);
    home = allocBuffer(before, accumulatorShape(state, dot), type.element());
    zeroPadding(state, dot, home, type);
  }
  if (state.buffer[start] != home) {
    NestWork work{type.shape(), {start}};
    work.bufferWrites = 1;
    emitNest(state, dot, work, [&](ElementBuilder &elements, const ElementBuilder::Indices &indices) {
      elements.write(home, indices, elements.element(start, indices));
    });
  }
  Builder before(fn, dot);
  emitContract(state, dot, *shape, packed, home, before.i32(shape->packedK(k)));
  state.buffer.set(fn.result(dot), home);
}

} // namespace libtile::passes
