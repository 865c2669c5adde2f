// SPDX-License-Identifier: Apache-2.0
// Scans: prefixes (along_axis.h), whose results lie in buffers.
#include "ir/ops.h"
#include "passes/cpu/along_axis.h"
#include "passes/cpu/lower_roots.h"

namespace libtile::passes {

using namespace ir;

namespace {

class ScanLowering : AlongAxis {
public:
  ScanLowering(NestState &state, OpId op) : AlongAxis(state, op) {}

  void run() {
    NestShape &shape =
        choose({.shape = shape_, .bufferWrites = int32_t(fn_.operands(op_).size())});
    Builder before(fn_, op_);
    for (ValueId result : fn_.results(op_)) {
      buffers_.push_back(allocBuffer(before, shape_, fn_.type(result).element()));
    }
    emit(Opcode::Prefix, {}, shape,
         [&](OpId prefix, ElementBuilder &elements, const Indices &outer, BodySize) {
           fillWrite(fn_.region(prefix, 2), elements, outer);
           if (fn_.getBool(op_, Attr::reverse)) {
             fn_.setAttr(prefix, Attr::reverse, AttrValue(int64_t{1}));
           }
         },
         [](OpId, ElementBuilder &, const Indices &) {});
    for (unsigned i = 0; i < buffers_.size(); ++i) {
      state_.buffer.set(fn_.result(op_, i), buffers_[i]);
    }
  }

private:
  void fillWrite(BlockId write, ElementBuilder &elements, const Indices &outer) {
    const BlockId element = elements.builder().block();
    elements.enter(write);
    const Indices indices = withIndex(outer, write);
    for (unsigned i = 0; i < buffers_.size(); ++i) {
      const ValueId value = fn_.addArg(write, fn_.type(fn_.result(op_, i)).element());
      elements.write(buffers_[i], indices, value);
    }
    elements.builder().yield({});
    elements.leave(element);
  }

  Values buffers_;
};

} // namespace

void lowerScan(NestState &state, OpId op) { ScanLowering(state, op).run(); }

} // namespace libtile::passes
