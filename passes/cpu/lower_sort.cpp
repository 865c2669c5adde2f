// SPDX-License-Identifier: Apache-2.0
// Sorting. The keys go to scratch with the sorted axis last, each row filled up to a power of two by
// the largest integer; sort_rows sorts them where they lie; a nest takes what the result holds, unless
// that is the buffer as it is.
//
//   %s = sort %x {axis=0} : tile<3x5xi32>     nest { element_write %rows<5x4xi32>, %x[i, j], j, i }
//                                             nest { element_write %rows, 2147483647, j, 3 + i }
//                                        ->   sort_rows %rows
//                                             nest { element_write %s<3x5xi32>, %rows[j, i], i, j }
//
// Where the result holds a small part of a row, along the last axis, runs of about that length are
// sorted instead, and made half as many until one is left: the least of two sorted runs are the lesser
// ones of elements that meet when one run counts down; they are sorted again.
#include "ir/ops.h"
#include "passes/cpu/lower_roots.h"
#include "passes/cpu/nest_emitter.h"

#include <array>
#include <bit>

namespace libtile::passes {

using namespace ir;

namespace {

class SortLowering {
public:
  using Indices = ElementBuilder::Indices;

  SortLowering(NestState &state, OpId op)
      : state_(state), fn_(state.fn), op_(op), type_(fn_.type(fn_.operand(op, 0))),
        axis_(unsigned(fn_.getInt(op, Attr::axis))), extent_(type_.dim(axis_)),
        row_(int32_t(std::bit_ceil(uint32_t(extent_)))) {}

  void run() {
    const Type result = fn_.type(fn_.result(op_));
    const auto kept = int32_t(std::bit_ceil(uint32_t(result.dim(axis_))));
    if (const int32_t run = std::max(kept, lanesOf(row_));
        isLast() && type_.rank() < Type::kMaxRank && run <= row_ / 4) {
      return runInRuns(run);
    }
    buffer_ = makeBuffer({row_});
    writeKeys();
    pad();
    sortRows(row_);
    const bool asItIs = isLast() && result.dim(axis_) == row_;
    state_.buffer.set(fn_.result(op_), asItIs ? buffer_ : taken(result));
  }

private:
  bool isLast() const { return axis_ + 1 == type_.rank(); }

  // Of all rows, each under this shape.
  ValueId makeBuffer(std::initializer_list<int32_t> row) {
    Builder before(fn_, op_);
    llvm::SmallVector<int32_t, 5> shape = rows();
    shape.append(row);
    return allocBuffer(before, shape, type_.element());
  }

  void sortRows(int32_t extent) {
    Builder before(fn_, op_);
    const OpId sorted = before.op(Opcode::SortRows, {&buffer_, 1});
    fn_.setAttr(sorted, Attr::lanes, AttrValue(int64_t{lanesOf(extent)}));
  }

  llvm::SmallVector<int32_t, 4> rows() const {
    llvm::SmallVector<int32_t, 4> shape(type_.shape().begin(), type_.shape().end());
    shape.erase(shape.begin() + axis_);
    return shape;
  }
  int32_t lanesOf(int32_t extent) const {
    const int32_t fitting = std::max(state_.target.vectorBytes, 16) / int32_t(type_.elementBytes());
    return int32_t(std::min<uint32_t>(uint32_t(fitting), std::bit_floor(uint32_t(extent))));
  }
  // Of a tile's element in the buffer.
  Indices inRow(Indices indices) const {
    const ValueId along = indices[axis_];
    indices.erase(indices.begin() + axis_);
    indices.push_back(along);
    return indices;
  }

  void writeKeys() {
    NestWork work{type_.shape(), {fn_.operand(op_, 0)}};
    work.bufferWrites = isLast() ? 1 : 0;
    emitNest(state_, op_, work, [&](ElementBuilder &elements, const Indices &indices) {
      elements.write(buffer_, inRow(indices), elements.element(fn_.operand(op_, 0), indices));
    });
  }

  void pad() {
    if (row_ == extent_) {
      return;
    }
    llvm::SmallVector<int32_t, 4> shape = rows();
    shape.push_back(row_ - extent_);
    const LaneChoice choice{unsigned(shape.size()) - 1, lanesOf(shape.back())};
    emitNest(state_, op_, shape, choice, [&](ElementBuilder &elements, Indices indices) {
      indices.back() = elements.shiftIndex(indices.back(), extent_);
      elements.write(buffer_, indices, greatest(elements));
    });
  }

  ValueId greatest(ElementBuilder &elements) const {
    return elements.builder().constInt(type_.element(),
                                       int64_t(~uint64_t{0} >> (65 - type_.elementBits())));
  }

  // ---- runs

  void runInRuns(int32_t run) {
    int32_t runs = row_ / run;
    const int32_t whole = extent_ / run, rest = extent_ % run;
    buffer_ = makeBuffer({runs, run});
    writeRuns(run, {0, whole}, {0, run}, true);
    if (rest > 0) {
      writeRuns(run, {whole, whole + 1}, {0, rest}, true);
      writeRuns(run, {whole, whole + 1}, {rest, run}, false);
    }
    writeRuns(run, {whole + (rest > 0 ? 1 : 0), runs}, {0, run}, false);
    for (sortRows(run); runs > 1; sortRows(run)) {
      runs /= 2;
      halve(runs, run);
    }
    const Type result = fn_.type(fn_.result(op_));
    Builder before(fn_, op_);
    const ValueId taken = allocBuffer(before, result.shape(), result.element());
    emitNest(state_, op_, result.shape(), {result.rank() - 1, lanesOf(result.dim(axis_))},
             [&](ElementBuilder &elements, const Indices &indices) {
               Indices first = indices;
               first.insert(first.end() - 1, elements.index(0));
               elements.write(taken, indices, elements.read(buffer_, first, result.element()));
             });
    state_.buffer.set(fn_.result(op_), taken);
  }

  // Keys, or the largest integer, in those places of those runs.
  struct Range {
    int32_t begin, end;
  };
  void writeRuns(int32_t run, Range runs, Range places, bool keys) {
    if (runs.begin == runs.end) {
      return;
    }
    const ValueId input = fn_.operand(op_, 0);
    prepareExpression(state_, op_, NestWork{type_.shape(), {input}});
    llvm::SmallVector<int32_t, 5> shape = rows();
    shape.append({runs.end - runs.begin, places.end - places.begin});
    const int32_t lanes =
        std::min(lanesFor(state_, std::array{input}, shape.back()), lanesOf(shape.back()));
    emitNest(state_, op_, shape, {unsigned(shape.size()) - 1, lanes},
             [&](ElementBuilder &elements, Indices indices) {
               ValueId &place = indices.back(), &number = indices[indices.size() - 2];
               place = elements.shiftIndex(place, places.begin);
               number = elements.shiftIndex(number, runs.begin);
               Indices at(indices.begin(), indices.end() - 2);
               at.push_back(elements.addIndex(elements.scaleIndex(number, run), place));
               elements.write(buffer_, indices,
                              keys ? elements.element(input, at) : greatest(elements));
             });
  }

  // The least of runs r and runs + r.
  void halve(int32_t runs, int32_t run) {
    const ValueId from = buffer_;
    buffer_ = makeBuffer({runs, run});
    llvm::SmallVector<int32_t, 5> shape = rows();
    shape.append({runs, run});
    emitNest(state_, op_, shape, {unsigned(shape.size()) - 1, lanesOf(run)},
             [&](ElementBuilder &elements, const Indices &indices) {
               Indices other = indices;
               other.back() = elements.builder().make(
                   Opcode::Sub, {elements.index(run - 1), indices.back()});
               other[other.size() - 2] = elements.shiftIndex(other[other.size() - 2], runs);
               const Type key = type_.element();
               const ValueId least = elements.builder().make(
                   Opcode::SMin,
                   {elements.read(from, indices, key), elements.read(from, other, key)});
               elements.write(buffer_, indices, least);
             });
  }

  // A buffer of the result's own shape.
  ValueId taken(const Type &result) {
    Builder before(fn_, op_);
    const ValueId buffer = allocBuffer(before, result.shape(), result.element());
    const unsigned last = result.rank() - 1;
    emitNest(state_, op_, result.shape(), {last, lanesOf(result.dim(last))},
             [&](ElementBuilder &elements, const Indices &indices) {
               elements.write(buffer, indices,
                              elements.read(buffer_, inRow(indices), result.element()));
             });
    return buffer;
  }

  NestState &state_;
  Function &fn_;
  OpId op_;
  const Type type_;
  const unsigned axis_;
  const int32_t extent_, row_;
  ValueId buffer_;
};

} // namespace

void lowerSort(NestState &state, OpId op) { SortLowering(state, op).run(); }

} // namespace libtile::passes
