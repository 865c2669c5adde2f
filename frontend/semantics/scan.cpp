// SPDX-License-Identifier: Apache-2.0
// Scans: one `scan` op over a tuple of tiles whose combine region is filled as that of a reduction
// (reduce.cpp).
#include "frontend/semantics/operations.h"
#include "ir/ops.h"

namespace libtile::frontend {

using ir::Opcode;

std::vector<Tensor> scanTiles(Semantics &s, std::span<const Tensor> inputs, unsigned axis,
                              bool reverse, const Combine &combine) {
  ir::Function &fn = s.builder.function();
  std::vector<ir::ValueId> operands;
  std::vector<ir::Type> types;
  for (const Tensor &input : inputs) {
    operands.push_back(input.id);
    types.push_back(irType(input.dtype, input.shape));
  }
  const ir::OpId op = s.builder.op(Opcode::Scan, operands, types);
  fn.setAttr(op, ir::Attr::axis, ir::AttrValue(int64_t{axis}));
  if (reverse) {
    fn.setAttr(op, ir::Attr::reverse, ir::AttrValue(int64_t{1}));
  }
  fillCombine(s, op, inputs, combine);
  std::vector<Tensor> results;
  for (size_t i = 0; i < inputs.size(); ++i) {
    results.push_back({fn.result(op, static_cast<unsigned>(i)), inputs[i].dtype, inputs[i].shape});
  }
  return results;
}

namespace {

unsigned axisOf(const Semantics &s, const Value &axis, const Tensor &input,
                const std::string &what) {
  return wrapAxis(s, s.constantInt(axis, "the axis of " + what), input.shape.size(), axis);
}

// cumsum and cumprod. 16-bit floats are combined in fp32, each result is rounded once.
Value cumulative(Semantics &s, std::span<const Value> args, BinaryOp op, const std::string &what) {
  constexpr DType kFloat32{ir::Elem::F32, true};
  const Tensor input = requireNumbers(s, args[0], what);
  const unsigned axis = axisOf(s, args[1], input, what);
  const bool reverse = constantBool(s, args[2], "reverse");
  const DType result = sumType(s, input.dtype, args[3], what);
  const bool narrow = result.isFloat() && ir::bitWidth(result.elem) < 32;
  const Tensor items = s.cast(s.cast(input, result), narrow ? kFloat32 : result);
  const auto combine = [&](std::span<const Tensor> left, std::span<const Tensor> right) {
    return std::vector<Tensor>{emitBinary(s, op, left[0], right[0])};
  };
  return Value(s.cast(scanTiles(s, {&items, 1}, axis, reverse, combine)[0], result));
}

} // namespace

namespace operations {

Value associativeScan(Semantics &s, Args args) {
  const std::vector<Tensor> inputs = requireTiles(s, args[0], "associative_scan");
  const Combine combine = callingUser(s, args[2], "an associative_scan");
  const unsigned axis = axisOf(s, args[1], inputs[0], "associative_scan");
  const bool reverse = constantBool(s, args[3], "reverse");
  const auto results = scanTiles(s, inputs, axis, reverse, combine);
  if (args[0].tuple() == nullptr) {
    return Value(results[0]);
  }
  return Value::tuple({results.begin(), results.end()});
}

Value cumsum(Semantics &s, Args args) { return cumulative(s, args, BinaryOp::Add, "cumsum"); }
Value cumprod(Semantics &s, Args args) { return cumulative(s, args, BinaryOp::Mul, "cumprod"); }

} // namespace operations

} // namespace libtile::frontend
