// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/pack_operands.h"

#include "ir/ops.h"
#include "passes/cpu/expression.h"
#include "passes/cpu/nest_emitter.h"
#include "passes/cpu/packed_words.h"
#include "passes/cpu/remainder_checks.h"
#include "passes/cpu/rows_in_place.h"

namespace libtile::passes {

using namespace ir;

void storeKept(NestState &state, ValueId root, OpId position) {
  ValueId kept;
  do {
    kept = {};
    walkExpression(state, root, [&](const ExpressionNode &node) {
      if (!kept.valid() && !state.stored(node.value) && state.keep(node.value) != Keep::inline_) {
        kept = node.value;
      }
      return !kept.valid();
    });
    if (kept.valid()) {
      storeTile(state, kept, position);
    }
  } while (kept.valid());
  prepareExpression(state, position, {state.fn.type(root).shape(), {root}});
}

ElementBuilder::Indices sliceIndices(ElementBuilder::Indices slice, ValueId row, ValueId column) {
  slice.push_back(row);
  slice.push_back(column);
  return slice;
}

namespace {

const Type kI32 = Type::scalar(Elem::I32);
constexpr int32_t kChunkBytes = 16; // of transpose_words

class OperandPacker {
public:
  OperandPacker(NestState &state, const Packing &packing)
      : state_(state), fn_(state.fn), dot_(packing.dot), places_(packing.places), position_(places_.a), shape_(packing.shape),
        packed_(packing.packed), column_(packing.column), slice_(packing.slice), group_(shape_.unit.group),
        k_(fn_.type(fn_.operand(dot_, 0)).shape().back()) {}

  void run(ValueId inPlace, ValueId isKept) {
    inPlace.valid() ? packAElsewhere(inPlace) : packA();
    position_ = places_.b;
    if (isKept.valid()) { // what is stored on the way would be so only where it is not
      storeKept(state_, fn_.operand(dot_, 1), position_);
      position_ = openBranches(fn_, position_, isKept)[1];
    }
    const ValueId b = fn_.operand(dot_, 1);
    group_ > 1 ? storeKept(state_, b, position_) : prepareExpression(state_, position_, {fn_.type(b).shape(), {b}});
    if (transposes(b, group_ * packedBytes(), &ContractShape::transposesB)) {
      packTransposedB();
    } else if (group_ > 1) {
      packGroups();
      packLastGroup();
    } else {
      packB();
    }
    if (group_ > 1) {
      zeroWords();
    }
  }

private:
  using Indices = ElementBuilder::Indices;

  // Where the packed columns of a begin, and the packed rows of b.
  ValueId columnOfA(ElementBuilder &elements, ValueId index) {
    return column_.valid() ? elements.addIndex(column_, index) : index;
  }
  ValueId rowOfB(ElementBuilder &elements, ValueId index) {
    if (!column_.valid() || group_ == 1) {
      return columnOfA(elements, index);
    }
    const ValueId base = elements.builder().make(Opcode::UDiv, {column_, elements.index(group_)});
    return elements.addIndex(base, index);
  }

  ValueId packedA(Builder &builder, ValueId element) const {
    const ValueId wide = widen(builder, element, shape_.unit.packed);
    const int32_t bias = shape_.unit.packedBias();
    return bias == 0 ? wide : builder.make(Opcode::Add, {wide, builder.constInt(Type::scalar(shape_.unit.packed), bias)});
  }

  Indices inSlice(ValueId row, ValueId column) const { return sliceIndices(slice_, row, column); }

  // A nest over the rows and columns of the operand, or of its slice, with so many writes along its rows.
  void overMatrix(ValueId operand, int32_t writes, const NestBody &body) {
    NestWork work{fn_.type(operand).shape(), {operand}};
    work.bufferWrites = writes;
    if (slice_.empty()) {
      return emitNest(state_, position_, work, body);
    }
    const auto leading = unsigned(slice_.size());
    const auto matrix = work.shape.subspan(leading);
    NestShape &shape = chosenShape(state_, matrix, [&](std::optional<unsigned> axis) {
      const LaneChoice choice = chooseLanes(state_, work, axis ? std::optional(leading + *axis) : std::nullopt);
      return choice.axis < leading ? LaneChoice{1, lanesFor(state_, work.values, matrix.back())}
                                   : LaneChoice{choice.axis - leading, choice.lanes};
    });
    emitNest(state_, position_, shape, body);
  }

  void packA() {
    const ValueId a = fn_.operand(dot_, 0);
    prepareExpression(state_, position_, {fn_.type(a).shape(), {a}});
    if (!column_.valid() && transposes(a, packedBytes(), &ContractShape::transposesA)) {
      packTransposed(a, packed_.a, {}, packedBytes(), [&](Builder &builder, ValueId element) { return packedA(builder, element); });
    } else {
      overMatrix(a, 1, [&](ElementBuilder &elements, const Indices &indices) {
        const ValueId element = packedA(elements.builder(), elements.element(a, inSlice(indices[0], indices[1])));
        elements.write(packed_.a, {indices[0], columnOfA(elements, indices[1])}, element);
      });
    }
    if (k_ < shape_.packedK(k_)) {
      zeroColumns();
    }
  }

  // Where rows are not read in place. What is stored on the way would be so only there.
  void packAElsewhere(ValueId inPlace) {
    storeKept(state_, fn_.operand(dot_, 0), position_);
    tabulateRows(state_, dot_, position_, shape_, packed_, column_);
    const OpId position = position_;
    position_ = openBranches(fn_, position, inPlace)[1];
    packA();
    position_ = position;
  }

  // What a lacks along k. The rest of a group is written row by row, that of a tile along the row.
  void zeroColumns() {
    const Type element = Type::scalar(shape_.unit.packed);
    const int32_t lacking = shape_.packedK(k_) - k_;
    if (lacking >= group_) {
      return emitNest(state_, position_, std::array{shape_.m, lacking}, {1, lanesFor(state_, {}, lacking)},
                      [&](ElementBuilder &elements, const Indices &indices) {
                        const ValueId place = columnOfA(elements, elements.shiftIndex(indices[1], k_));
                        elements.write(packed_.a, {indices[0], place}, elements.builder().zero(element));
                      });
    }
    emitNest(state_, position_, std::array{shape_.m, 1}, {0, lanesFor(state_, {}, 1)},
             [&](ElementBuilder &elements, const Indices &indices) {
               for (int32_t column = k_; column < shape_.packedK(k_); ++column) {
                 const ValueId place = columnOfA(elements, elements.index(column));
                 elements.write(packed_.a, {indices[0], place}, elements.builder().zero(element));
               }
             });
  }

  int32_t packedBytes() const { return int32_t(byteSize(shape_.unit.packed)); }
  std::array<int32_t, 2> matrixOf(ValueId operand) const {
    const auto shape = fn_.type(operand).shape();
    return {shape[slice_.size()], shape[slice_.size() + 1]};
  }
  // The columns of the operand that go at once: as many as a vector has words, or fewer that divide them.
  int32_t columnsAtOnce(ValueId operand, int32_t wordBytes) const {
    const int32_t columns = matrixOf(operand)[1];
    return std::min(std::max(state_.target.vectorBytes, kChunkBytes) / wordBytes, columns & -columns);
  }

  // Whether the columns of an operand that is packed in rows lie one by one in memory. Decided while the plan is made.
  bool transposes(ValueId operand, int32_t wordBytes, bool ContractShape::*decided) {
    bool &transposed = state_.plan.contracts.at(dot_).*decided;
    if (!state_.follows) {
      const NestWork work{fn_.type(operand).shape(), {operand}};
      const auto row = unsigned(slice_.size());
      const std::optional<unsigned> pinned = pinnedLaneAxis(state_);
      const LaneChoice lanes = chooseLanes(state_, work, pinned ? std::optional(row + *pinned) : std::nullopt);
      transposed = gathersAlong(state_, work, row + 1) && !gathersAlong(state_, work, row) && lanes.axis == row && lanes.lanes > 1 &&
                   matrixOf(operand)[0] * packedBytes() % kChunkBytes == 0 &&
                   columnsAtOnce(operand, wordBytes) * wordBytes >= kChunkBytes;
    }
    return transposed;
  }

  // Columns are copied along themselves, and words of the copies become rows from `first` on.
  void packTransposed(ValueId operand, ValueId packed, ValueId first, int32_t wordBytes,
                      llvm::function_ref<ValueId(Builder &, ValueId element)> pack) {
    Builder before(fn_, position_);
    const auto [rows, columns] = matrixOf(operand);
    const ValueId copy = allocBuffer(before, std::array{columns, rows}, Type::scalar(shape_.unit.packed));
    overMatrix(operand, 0, [&](ElementBuilder &elements, const Indices &indices) {
      const ValueId element = elements.element(operand, inSlice(indices[0], indices[1]));
      elements.write(copy, {indices[1], indices[0]}, pack(elements.builder(), element));
    });
    Builder behind(fn_, position_);
    const OpId transpose = behind.op(Opcode::TransposeWords, std::array{copy, packed, first.valid() ? first : behind.i32(0)});
    fn_.setAttr(transpose, Attr::lanes, AttrValue(int64_t{columnsAtOnce(operand, wordBytes)}));
  }

  void packTransposedB() {
    Builder before(fn_, position_);
    const ValueId first = column_.valid() && group_ > 1 ? before.make(Opcode::UDiv, {column_, before.i32(group_)}) : column_;
    packTransposed(fn_.operand(dot_, 1), packed_.b, first, group_ * packedBytes(),
                   [&](Builder &builder, ValueId element) { return widen(builder, element, shape_.unit.packed); });
  }

  void packB() {
    const ValueId b = fn_.operand(dot_, 1);
    overMatrix(b, 1, [&](ElementBuilder &elements, const Indices &indices) {
      const ValueId element = widen(elements.builder(),
                                    elements.element(b, inSlice(indices[0], indices[1])),
                                    shape_.unit.packed);
      elements.write(packed_.b, {rowOfB(elements, indices[0]), indices[1]}, element);
    });
  }

  // The nest runs over groups of rows, so b's own rows are no space of it: nothing is stored on the
  // way, and what would be was stored before.
  void packGroups() {
    const ValueId b = fn_.operand(dot_, 1);
    if (k_ < group_) {
      return;
    }
    const int32_t n = shape_.n;
    NestShape &shape = fixedShape(state_, std::array{k_ / group_, n}, {1, lanesFor(state_, std::array{b}, n)});
    const auto pack = [&](OpId place) {
      emitNest(state_, place, shape,
               [&](ElementBuilder &elements, const Indices &indices) {
                 Indices rows{elements.scaleIndex(indices[0], group_)};
                 for (int32_t i = 1; i < group_; ++i) {
                   rows.push_back(elements.shiftIndex(rows[0], i));
                 }
                 Values group;
                 for (const ValueId row : rows) {
                   group.push_back(elements.element(b, inSlice(row, indices[1])));
                 }
                 writeGroup(elements, indices[0], indices[1], group);
               });
    };
    const auto lane = unsigned(slice_.size()) + 1;
    emitWithRemainderChecks(state_, position_, {fn_.type(b).shape(), {b}}, lane, pack);
  }

  void packLastGroup() {
    if (k_ % group_ == 0) {
      return;
    }
    const ValueId b = fn_.operand(dot_, 1);
    const int32_t n = shape_.n;
    emitNest(state_, position_, std::array{1, n}, {1, lanesFor(state_, std::array{b}, n)},
             [&](ElementBuilder &elements, const Indices &indices) {
               Values group;
               for (int32_t row = k_ / group_ * group_; row < k_; ++row) {
                 group.push_back(elements.element(b, inSlice(elements.index(row), indices[1])));
               }
               group.resize(group_, elements.builder().zero(fn_.type(b).element()));
               writeGroup(elements, elements.index(k_ / group_), indices[1], group);
             });
  }

  // What b lacks to whole tiles.
  void zeroWords() {
    const int32_t first = (k_ + group_ - 1) / group_;
    const int32_t lacking = shape_.packedK(k_) / group_ - first;
    if (lacking == 0) {
      return;
    }
    emitNest(state_, position_, std::array{lacking, shape_.n}, {1, lanesFor(state_, {}, shape_.n)},
             [&](ElementBuilder &elements, const Indices &indices) {
               const ValueId row = rowOfB(elements, elements.shiftIndex(indices[0], first));
               elements.write(packed_.b, {row, indices[1]}, elements.builder().zero(kI32));
             });
  }

  void writeGroup(ElementBuilder &elements, ValueId row, ValueId column, const Values &numbers) {
    Builder &builder = elements.builder();
    Values group;
    for (const ValueId number : numbers) {
      group.push_back(widen(builder, number, shape_.unit.packed));
    }
    elements.write(packed_.b, {rowOfB(elements, row), column}, groupWord(builder, group));
  }

  NestState &state_;
  Function &fn_;
  OpId dot_;
  PackingPlaces places_;
  OpId position_;
  const ContractShape &shape_;
  const PackedOperands &packed_;
  ValueId column_;
  Indices slice_; // along the leading axes
  int32_t group_;
  int32_t k_;
};

} // namespace

void packOperands(NestState &state, const Packing &packing) {
  OperandPacker(state, packing).run(packing.inPlace, packing.isKept);
}

} // namespace libtile::passes
