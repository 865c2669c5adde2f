// SPDX-License-Identifier: Apache-2.0
// Sorting. The op `sort` takes signed integers in rising order; numbers of other types are mapped to
// integers that are in the same order, and back, so equal keys are equal bits and no target has
// anything to decide:
//
//   float      sign and magnitude become two's complement; a NaN loses its sign, so it is the largest
//   unsigned   the highest bit is flipped
//   int1       as int8
//   descending all bits are flipped
#include "frontend/semantics/operations.h"
#include "ir/float8.h"
#include "ir/ops.h"

namespace libtile::frontend {

using ir::Elem;
using ir::Opcode;

namespace {

DType integerLike(DType dtype) {
  switch (ir::bitWidth(dtype.elem)) {
  case 1:
  case 8:
    return {Elem::I8, true};
  case 16:
    return {Elem::I16, true};
  case 32:
    return {Elem::I32, true};
  default:
    return {Elem::I64, true};
  }
}

class Keys {
public:
  Keys(Semantics &s, DType dtype, bool descending)
      : s_(s), dtype_(dtype), key_(integerLike(dtype)), descending_(descending) {}

  Tensor of(const Tensor &x) {
    if (dtype_.isBool()) {
      return flipped(s_.cast(x, key_));
    }
    const Tensor bits = s_.cast(x, key_, true);
    if (!dtype_.isFloat()) {
      return flipped(signFlipped(bits));
    }
    const Tensor isNan = emitCompare(s_, CompareOp::Ne, x, x);
    const Tensor magnitude = emitBinary(s_, BinaryOp::BitAnd, bits, number(x, greatest()));
    return flipped(folded(emitSelect(s_, isNan, magnitude, bits)));
  }

  Tensor numbersOf(const Tensor &keys) {
    const Tensor straight = flipped(keys);
    if (dtype_.isBool()) {
      return toBool(s_, straight);
    }
    return s_.cast(dtype_.isFloat() ? folded(straight) : signFlipped(straight), dtype_, true);
  }

private:
  [[nodiscard]] BigInt greatest() const {
    return (BigInt{1} << (ir::bitWidth(key_.elem) - 1)) - 1;
  }
  Tensor number(const Tensor &like, BigInt value) {
    return constantTensor(s_, key_, like.shape, Constant(value));
  }
  Tensor flipped(const Tensor &x) {
    return descending_ ? emitBinary(s_, BinaryOp::BitXor, x, number(x, -1)) : x;
  }
  Tensor signFlipped(const Tensor &x) {
    return dtype_.isSigned ? x : emitBinary(s_, BinaryOp::BitXor, x, number(x, -1 - greatest()));
  }
  // Magnitudes of negative numbers flipped: its own inverse.
  Tensor folded(const Tensor &bits) {
    const Tensor sign = emitBinary(s_, BinaryOp::RShift, bits,
                                   number(bits, BigInt{ir::bitWidth(key_.elem)} - 1));
    const Tensor mask = emitBinary(s_, BinaryOp::BitAnd, sign, number(bits, greatest()));
    return emitBinary(s_, BinaryOp::BitXor, bits, mask);
  }

  Semantics &s_;
  const DType dtype_, key_;
  const bool descending_;
};

unsigned axisOf(const Semantics &s, const Value &dim, const Tensor &x, const std::string &what) {
  const size_t rank = x.shape.size();
  return dim.isNone() ? static_cast<unsigned>(rank) - 1
                      : wrapAxis(s, s.constantInt(dim, "the dim of " + what), rank, dim);
}

Value least(Semantics &s, const Tensor &x, unsigned axis, int32_t count, bool descending) {
  if (x.dtype.isFloat8() && ir::float8Format(*x.dtype.float8).oneZero) {
    // Every other code is a number: there is no place for NaN behind them.
    const Tensor wide = s.cast(x, {Elem::F16, true});
    return Value(s.cast(*least(s, wide, axis, count, descending).tensor(), x.dtype));
  }
  Keys keys(s, x.dtype, descending);
  const Tensor sorted = keys.of(x);
  std::vector<int32_t> shape = x.shape;
  shape[axis] = count;
  const Tensor result = emitShaped(s, Opcode::Sort, sorted.id, sorted.dtype, shape);
  ir::Function &fn = s.builder.function();
  fn.setAttr(fn.def(result.id), ir::Attr::axis, ir::AttrValue(int64_t{axis}));
  return Value(keys.numbersOf(result));
}

Value sorted(Semantics &s, std::span<const Value> args, const std::string &what) {
  const Tensor x = requireNumbers(s, args[0], what);
  const unsigned axis = axisOf(s, args[1], x, what);
  return least(s, x, axis, x.shape[axis], constantBool(s, args[2], "descending"));
}

} // namespace

namespace operations {

Value sort(Semantics &s, Args args) { return sorted(s, args, "sort"); }
// The whole sort: what is no bitonic sequence is put in order all the same.
Value bitonicMerge(Semantics &s, Args args) { return sorted(s, args, "bitonic_merge"); }

Value topk(Semantics &s, Args args) {
  const Tensor x = requireNumbers(s, args[0], "topk");
  const unsigned axis = axisOf(s, args[2], x, "topk");
  const int64_t k = s.constantInt(args[1], "the k of topk");
  if (k < 1 || k > x.shape[axis]) {
    s.fail(args[1], "k lies between 1 and " + std::to_string(x.shape[axis]) + ", got " +
                        std::to_string(k));
  }
  return least(s, x, axis, static_cast<int32_t>(k), constantBool(s, args[3], "descending"));
}

} // namespace operations

} // namespace libtile::frontend
