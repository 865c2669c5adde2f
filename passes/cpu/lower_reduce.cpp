// SPDX-License-Identifier: Apache-2.0
// Reductions. A 1-D tile becomes a fold with lanes and the results are its scalars. With more axes the
// lanes go where they cost least (chooseLanes): along the reduced axis, as a nest of single rows
// around a fold with lanes; or along another axis, as a nest with lanes around a fold that runs
// sequentially, all lanes at once. A combination that does not commute has no lanes along its own axis: they
// would take elements out of order; one whose control flow depends on elements has none at all. Elements
// that other nests need too are stored on the way.
#include "ir/ops.h"
#include "passes/cpu/branches.h"
#include "passes/cpu/lower_roots.h"
#include "passes/cpu/nest_emitter.h"
#include "passes/op_properties.h"

#include <llvm/ADT/STLExtras.h>

namespace libtile::passes {

using namespace ir;

namespace {

class ReduceLowering {
public:
  ReduceLowering(NestState &state, OpId op)
      : state_(state), fn_(state.fn), op_(op), axis_(int(fn_.getInt(op, Attr::axis))),
        shape_(fn_.type(fn_.operand(op, 0)).shape().begin(),
               fn_.type(fn_.operand(op, 0)).shape().end()) {}

  void run() {
    NestWork work{shape_, {}};
    work.values.append(fn_.operands(op_).begin(), fn_.operands(op_).end());
    work.reducedAxis = axis_;
    work.inOrder = !combinesInAnyOrder(fn_, op_);
    prepareExpression(state_, op_, work);
    const bool inLanes = flattenBranches(fn_, fn_.region(op_));
    const LaneChoice choice = inLanes ? chooseLanes(state_, work) : LaneChoice{unsigned(axis_), 1};
    if (shape_.size() == 1) {
      lowerToScalars(choice);
    } else {
      lowerToBuffers(choice);
    }
  }

private:
  void lowerToScalars(LaneChoice choice) {
    Builder before(fn_, op_);
    const OpId fold = before.op(Opcode::Fold, {}, resultTypes());
    ElementBuilder elements(state_, fn_.region(fold, 0), fold);
    fillFold(fold, elements, {}, choice.lanes);
    elements.finish();
    for (unsigned i = 0; i < fn_.results(op_).size(); ++i) {
      fn_.replaceAllUses(fn_.result(op_, i), fn_.result(fold, i));
    }
  }

  void lowerToBuffers(LaneChoice choice) {
    llvm::SmallVector<int32_t, 4> outer = shape_;
    outer.erase(outer.begin() + axis_);
    const bool foldLanes = int(choice.axis) == axis_;
    LaneChoice nestChoice{unsigned(outer.size()) - 1, 1};
    if (!foldLanes) {
      nestChoice = {choice.axis - (int(choice.axis) > axis_ ? 1 : 0), choice.lanes};
    }
    Builder before(fn_, op_);
    Values buffers;
    for (ValueId result : fn_.results(op_)) {
      buffers.push_back(allocBuffer(before, outer, fn_.type(result).element()));
    }
    emitNest(state_, op_, outer, nestChoice,
             [&](ElementBuilder &elements, const ElementBuilder::Indices &indices) {
               const BlockId body = elements.builder().block();
               const OpId fold = elements.builder().op(Opcode::Fold, {}, resultTypes());
               elements.enter(fn_.region(fold, 0));
               fillFold(fold, elements, indices, foldLanes ? choice.lanes : 1);
               elements.leave(body);
               for (unsigned i = 0; i < buffers.size(); ++i) {
                 elements.write(buffers[i], indices, fn_.result(fold, i));
               }
             });
    for (unsigned i = 0; i < buffers.size(); ++i) {
      state_.buffer.set(fn_.result(op_, i), buffers[i]);
    }
  }

  // The regions and attributes of a fold whose element region `elements` stands in; `outer` are the
  // indices of the other axes.
  void fillFold(OpId fold, ElementBuilder &elements, ElementBuilder::Indices indices,
                int32_t lanes) {
    indices.insert(indices.begin() + axis_,
                   fn_.addArg(fn_.region(fold, 0), Type::scalar(Elem::I32)));
    elements.setSpace(shape_, indices);
    const uint32_t before = elements.made().ops;
    Values yielded;
    for (ValueId input : operandList()) {
      yielded.push_back(elements.element(input, indices));
    }
    elements.builder().yield(yielded);
    const BlockId combine = fn_.region(op_);
    const BlockId copy = fn_.region(fold, 1);
    IndexMap<ValueId, ValueId> map;
    for (ValueId arg : std::vector<ValueId>(fn_.args(combine).begin(), fn_.args(combine).end())) {
      map.set(arg, fn_.addArg(copy, fn_.type(arg)));
    }
    fn_.copyOps(combine, copy, map);
    fn_.setAttr(fold, Attr::extent, AttrValue(int64_t{shape_[axis_]}));
    fn_.setAttr(fold, Attr::lanes, AttrValue(int64_t{lanes}));
    const BodySize size{elements.made().ops - before, elements.made().carried};
    const int32_t unroll = unrollFor(state_, size, shape_[axis_], lanes);
    if (unroll > 1 && lanes > 1) {
      fn_.setAttr(fold, Attr::unroll, AttrValue(int64_t{unroll}));
      // The registers are the sunk loop's.
      if (size.carried > 0) {
        fn_.setAttr(fold, Attr::sets, AttrValue(int64_t{1}));
      }
    }
  }

  std::vector<Type> resultTypes() const {
    std::vector<Type> types;
    for (ValueId result : fn_.results(op_)) {
      types.push_back(fn_.type(result).element());
    }
    return types;
  }
  std::vector<ValueId> operandList() const {
    return {fn_.operands(op_).begin(), fn_.operands(op_).end()};
  }

  NestState &state_;
  Function &fn_;
  OpId op_;
  int axis_;
  llvm::SmallVector<int32_t, 4> shape_;
};

} // namespace

void lowerReduce(NestState &state, OpId op) { ReduceLowering(state, op).run(); }

} // namespace libtile::passes
