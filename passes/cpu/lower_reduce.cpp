// SPDX-License-Identifier: Apache-2.0
// Reductions: folds (along_axis.h). Of a 1-D tile the results are the fold's scalars, else they lie in
// buffers. A combination that does not commute has no lanes along its own axis: they would take elements
// out of order. Elements that other nests need too are stored on the way.
#include "ir/ops.h"
#include "passes/cpu/along_axis.h"
#include "passes/cpu/lower_roots.h"
#include "passes/op_properties.h"

namespace libtile::passes {

using namespace ir;

namespace {

class ReduceLowering : AlongAxis {
public:
  ReduceLowering(NestState &state, OpId op) : AlongAxis(state, op) {}

  void run() {
    NestShape &shape =
        choose({.shape = shape_, .inOrder = !combinesInAnyOrder(fn_, op_)});
    std::vector<Type> types;
    Values buffers;
    Builder before(fn_, op_);
    for (ValueId result : fn_.results(op_)) {
      types.push_back(fn_.type(result).element());
      if (shape_.size() > 1) {
        buffers.push_back(allocBuffer(before, outerShape(), types.back()));
      }
    }
    const OpId fold = emit(
        Opcode::Fold, types, shape,
        [&](OpId inner, ElementBuilder &, const Indices &, BodySize size) {
          if (int(shape.laneAxis) == axis_) {
            unroll(inner, shape, size);
          }
        },
        [&](OpId inner, ElementBuilder &elements, const Indices &indices) {
          for (unsigned i = 0; i < buffers.size(); ++i) {
            elements.write(buffers[i], indices, fn_.result(inner, i));
          }
        });
    for (unsigned i = 0; i < types.size(); ++i) {
      if (shape_.size() > 1) {
        state_.buffer.set(fn_.result(op_, i), buffers[i]);
      } else {
        fn_.replaceAllUses(fn_.result(op_, i), fn_.result(fold, i));
      }
    }
  }

private:
  void unroll(OpId fold, NestShape &shape, BodySize size) {
    unrollNest(state_, shape, fold, size);
    // The registers are the sunk loop's.
    if (shape.unroll > 1 && size.carried > 0) {
      fn_.setAttr(fold, Attr::sets, AttrValue(int64_t{1}));
    }
  }
};

} // namespace

void lowerReduce(NestState &state, OpId op) { ReduceLowering(state, op).run(); }

} // namespace libtile::passes
