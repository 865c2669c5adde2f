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
// Where the result holds a small part of a row, least_of_rows takes about as many keys out of each, and rows are
// filled up to a multiple of that.
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
    const auto wanted = int32_t(std::bit_ceil(uint32_t(result.dim(axis_))));
    const int32_t kept = std::max(wanted, lanesOf(row_));
    const bool keepsFew = kept <= row_ / 4;
    row_ = keepsFew ? (extent_ + kept - 1) / kept * kept : row_;
    buffer_ = makeBuffer(row_);
    writeKeys();
    pad();
    if (keepsFew) {
      keepLeast(kept, result.dim(axis_));
    } else {
      sortRows();
    }
    const bool asItIs = isLast() && result.dim(axis_) == (keepsFew ? kept : row_);
    state_.buffer.set(fn_.result(op_), asItIs ? buffer_ : taken(result));
  }

private:
  bool isLast() const { return axis_ + 1 == type_.rank(); }

  // Of all rows.
  ValueId makeBuffer(int32_t row) {
    Builder before(fn_, op_);
    llvm::SmallVector<int32_t, 4> shape = rows();
    shape.push_back(row);
    return allocBuffer(before, shape, type_.element());
  }

  void sortRows() {
    Builder before(fn_, op_);
    const OpId sorted = before.op(Opcode::SortRows, {&buffer_, 1});
    fn_.setAttr(sorted, Attr::lanes, AttrValue(int64_t{lanesOf(row_)}));
  }

  void keepLeast(int32_t kept, int32_t wanted) {
    const ValueId least = makeBuffer(kept);
    Builder before(fn_, op_);
    const ValueId room = allocBuffer(before, std::array{kept}, type_.element());
    const OpId taking = before.op(Opcode::LeastOfRows, std::array{buffer_, least, room});
    fn_.setAttr(taking, Attr::lanes, AttrValue(int64_t{lanesOf(kept)}));
    fn_.setAttr(taking, Attr::count, AttrValue(int64_t{wanted}));
    buffer_ = least;
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
  const int32_t extent_;
  int32_t row_; // in the buffer
  ValueId buffer_;
};

} // namespace

void lowerSort(NestState &state, OpId op) { SortLowering(state, op).run(); }

} // namespace libtile::passes
