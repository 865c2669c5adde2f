// SPDX-License-Identifier: Apache-2.0
// Scans. A 1-D tile becomes a prefix with lanes. With more axes the lanes go where they cost least
// (chooseLanes): along the scanned axis, as a nest of single rows around a prefix with lanes; or along
// another axis, as a nest with lanes around a prefix that runs sequentially, all lanes at once. Results
// lie in buffers.
#include "ir/ops.h"
#include "passes/cpu/branches.h"
#include "passes/cpu/lower_roots.h"
#include "passes/cpu/nest_emitter.h"

namespace libtile::passes {

using namespace ir;

namespace {

class ScanLowering {
public:
  ScanLowering(NestState &state, OpId op)
      : state_(state), fn_(state.fn), op_(op), axis_(int(fn_.getInt(op, Attr::axis))),
        shape_(fn_.type(fn_.operand(op, 0)).shape().begin(),
               fn_.type(fn_.operand(op, 0)).shape().end()) {}

  void run() {
    NestWork work{shape_, {}};
    work.values.append(fn_.operands(op_).begin(), fn_.operands(op_).end());
    work.bufferWrites = int32_t(work.values.size());
    work.reducedAxis = axis_;
    prepareExpression(state_, op_, work);
    const bool inLanes = flattenBranches(fn_, fn_.region(op_));
    const LaneChoice choice = inLanes ? chooseLanes(state_, work) : LaneChoice{unsigned(axis_), 1};
    Builder before(fn_, op_);
    for (ValueId result : fn_.results(op_)) {
      buffers_.push_back(allocBuffer(before, shape_, fn_.type(result).element()));
    }
    if (shape_.size() == 1) {
      const OpId prefix = before.op(Opcode::Prefix, {});
      ElementBuilder elements(state_, fn_.region(prefix, 0), prefix);
      fill(prefix, elements, {}, choice.lanes);
      elements.finish();
    } else {
      inNest(choice);
    }
    for (unsigned i = 0; i < buffers_.size(); ++i) {
      state_.buffer.set(fn_.result(op_, i), buffers_[i]);
    }
  }

private:
  void inNest(LaneChoice choice) {
    llvm::SmallVector<int32_t, 4> outer = shape_;
    outer.erase(outer.begin() + axis_);
    const bool ownLanes = int(choice.axis) == axis_;
    LaneChoice nestChoice{unsigned(outer.size()) - 1, 1};
    if (!ownLanes) {
      nestChoice = {choice.axis - (int(choice.axis) > axis_ ? 1 : 0), choice.lanes};
    }
    emitNest(state_, op_, outer, nestChoice,
             [&](ElementBuilder &elements, const ElementBuilder::Indices &indices) {
               const BlockId body = elements.builder().block();
               const OpId prefix = elements.builder().op(Opcode::Prefix, {});
               elements.enter(fn_.region(prefix, 0));
               fill(prefix, elements, indices, ownLanes ? choice.lanes : 1);
               elements.leave(body);
             });
  }

  // The regions and attributes of a prefix in whose element region `elements` stands, at the end of
  // which it comes back there; `outer` are the indices of the other axes.
  void fill(OpId prefix, ElementBuilder &elements, const ElementBuilder::Indices &outer,
            int32_t lanes) {
    const ElementBuilder::Indices indices = withIndex(outer, fn_.region(prefix, 0));
    elements.setSpace(shape_, indices);
    Values yielded;
    for (ValueId input : std::vector<ValueId>(fn_.operands(op_).begin(), fn_.operands(op_).end())) {
      yielded.push_back(elements.element(input, indices));
    }
    elements.builder().yield(yielded);
    copyCombine(fn_.region(prefix, 1));
    fillWrite(fn_.region(prefix, 2), elements, outer);
    fn_.setAttr(prefix, Attr::extent, AttrValue(int64_t{shape_[axis_]}));
    fn_.setAttr(prefix, Attr::lanes, AttrValue(int64_t{lanes}));
    if (fn_.getBool(op_, Attr::reverse)) {
      fn_.setAttr(prefix, Attr::reverse, AttrValue(int64_t{1}));
    }
  }

  void copyCombine(BlockId to) {
    const BlockId combine = fn_.region(op_);
    IndexMap<ValueId, ValueId> map;
    for (ValueId arg : std::vector<ValueId>(fn_.args(combine).begin(), fn_.args(combine).end())) {
      map.set(arg, fn_.addArg(to, fn_.type(arg)));
    }
    fn_.copyOps(combine, to, map);
  }

  void fillWrite(BlockId write, ElementBuilder &elements, const ElementBuilder::Indices &outer) {
    const BlockId element = elements.builder().block();
    elements.enter(write);
    const ElementBuilder::Indices indices = withIndex(outer, write);
    for (unsigned i = 0; i < buffers_.size(); ++i) {
      const ValueId value = fn_.addArg(write, fn_.type(fn_.result(op_, i)).element());
      elements.write(buffers_[i], indices, value);
    }
    elements.builder().yield({});
    elements.leave(element);
  }

  ElementBuilder::Indices withIndex(ElementBuilder::Indices outer, BlockId region) {
    outer.insert(outer.begin() + axis_, fn_.addArg(region, Type::scalar(Elem::I32)));
    return outer;
  }

  NestState &state_;
  Function &fn_;
  OpId op_;
  int axis_;
  llvm::SmallVector<int32_t, 4> shape_;
  Values buffers_;
};

} // namespace

void lowerScan(NestState &state, OpId op) { ScanLowering(state, op).run(); }

} // namespace libtile::passes
