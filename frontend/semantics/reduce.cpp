// SPDX-License-Identifier: Apache-2.0
// Operations across elements: reductions, and what scans (scan.cpp) share with them.
//
// A reduction is one `reduce` op over a tuple of tiles whose combine region gets the scalars of two
// groups. The functions of the language (sum, max, ...) fill the region with ops directly; `reduce`
// calls the user's function there.
#include "frontend/semantics/operations.h"
#include "ir/ops.h"

#include <algorithm>
#include <array>

namespace libtile::frontend {

using ir::Opcode;

// How often a combine is run, and on which elements together, is open.
static void requireNoEffects(const ir::Function &fn, ir::BlockId region) {
  for (const ir::OpId op : fn.walk(region)) {
    const ir::Effects effects = fn.ownEffects(op);
    if (effects.writes() || effects.has(ir::Effects::Ordered)) {
      throw ir::UserError(std::string("a function that combines elements computes and does nothing else, "
                                      "but it has a ") +
                              fn.opInfo(op).mnemonic,
                          fn.locationOf(op));
    }
  }
}

void fillCombine(Semantics &s, ir::OpId op, std::span<const Tensor> inputs,
                 const Combine &combine) {
  ir::Builder &builder = s.builder;
  ir::Function &fn = builder.function();
  const ir::BlockId region = fn.region(op);
  const ir::BlockId outside = builder.block();
  std::vector<Tensor> arguments; // lefts, then rights
  for (size_t i = 0; i < 2 * inputs.size(); ++i) {
    const DType dtype = inputs[i % inputs.size()].dtype;
    arguments.push_back({fn.addArg(region, dtype.irType()), dtype, {}});
  }
  builder.setEnd(region);
  const Semantics::Wrapping wrapping(s);
  const std::span<const Tensor> all(arguments);
  const std::vector<Tensor> combined =
      combine(all.first(inputs.size()), all.subspan(inputs.size()));
  std::vector<ir::ValueId> yielded;
  for (const Tensor &value : combined) {
    yielded.push_back(value.id);
  }
  builder.yield(yielded);
  requireNoEffects(fn, region);
  builder.setEnd(outside);
}

std::vector<Tensor> reduceTiles(Semantics &s, std::vector<Tensor> inputs,
                                std::optional<unsigned> axis, bool keepDims,
                                const Combine &combine, bool commutative) {
  const std::vector<int32_t> whole = inputs[0].shape;
  if (!axis) {
    const std::array<int32_t, 1> flat = {
        static_cast<int32_t>(irType(inputs[0].dtype, whole).numElements())};
    for (Tensor &input : inputs) {
      input = reshapeTo(s, input, flat);
    }
  }
  const unsigned along = axis.value_or(0);
  std::vector<int32_t> shape = inputs[0].shape;
  shape.erase(shape.begin() + along);
  ir::Builder &builder = s.builder;
  ir::Function &fn = builder.function();
  std::vector<ir::ValueId> operands;
  std::vector<ir::Type> types;
  for (const Tensor &input : inputs) {
    operands.push_back(input.id);
    types.push_back(irType(input.dtype, shape));
  }
  const ir::OpId op = builder.op(Opcode::Reduce, operands, types);
  fn.setAttr(op, ir::Attr::axis, ir::AttrValue(int64_t{along}));
  if (commutative) {
    fn.setAttr(op, ir::Attr::commutative, ir::AttrValue(int64_t{1}));
  }
  fillCombine(s, op, inputs, combine);
  std::vector<Tensor> results;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensor result{fn.result(op, static_cast<unsigned>(i)), inputs[i].dtype, shape};
    if (keepDims && axis) {
      result = expandDims(s, result, along);
    } else if (keepDims) {
      result = s.broadcastTo(result, std::vector<int32_t>(whole.size(), 1));
    }
    results.push_back(std::move(result));
  }
  return results;
}

namespace {

constexpr DType kInt32{ir::Elem::I32, true};
constexpr DType kUint32{ir::Elem::I32, false};
constexpr DType kFloat32{ir::Elem::F32, true};

std::optional<unsigned> axisOf(const Semantics &s, const Value &axis, const Tensor &input,
                               const std::string &what) {
  if (axis.isNone()) {
    return std::nullopt;
  }
  return wrapAxis(s, s.constantInt(axis, "the axis of " + what), input.shape.size(), axis);
}

bool isNarrow(DType dtype) { return ir::bitWidth(dtype.elem) < 32; }

bool isNarrowFloat(DType dtype) { return dtype.isFloat() && isNarrow(dtype); }

// Of a tuple; another value counts as the only one. It looks into `value`.
std::span<const Value> itemsOf(const Value &value) {
  return value.tuple() != nullptr ? std::span(value.tuple()->fields) : std::span(&value, 1);
}

// What the user's function gave, which must be scalars of the inputs' types.
std::vector<Tensor> checkCombined(Semantics &s, const Value &result, std::span<const Tensor> left,
                                  const std::string &what) {
  const std::span<const Value> items = itemsOf(result);
  if (items.size() != left.size()) {
    s.fail("the function of " + what + " over " + std::to_string(left.size()) + " tiles gives " +
           std::to_string(items.size()) + " values");
  }
  std::vector<Tensor> combined;
  for (size_t i = 0; i < items.size(); ++i) {
    const Tensor value =
        items[i].tensor() != nullptr ? *items[i].tensor() : s.toTensor(items[i], left[i].dtype);
    if (value.dtype != left[i].dtype || !value.isScalar()) {
      s.fail("the function of " + what + " gives " + items[i].describe() + " where a scalar of " +
             left[i].dtype.name() + " is expected");
    }
    combined.push_back(value);
  }
  return combined;
}

} // namespace

Tensor requireNumbers(const Semantics &s, const Value &value, const std::string &what) {
  const Tensor input = requireTensor(s, value, "the input of " + what);
  if (input.dtype.isPointer()) {
    s.fail(value, what + " does not take " + value.describe());
  }
  if (input.isScalar()) {
    const bool ofTwo = what == "max" || what == "min";
    s.fail(value, what + " takes tiles of numbers, got " + value.describe() +
                      (ofTwo ? "; tl." + what + "imum is that of two values" : ""));
  }
  return input;
}

std::vector<Tensor> requireTiles(Semantics &s, const Value &value, const std::string &what) {
  std::vector<Tensor> inputs;
  for (const Value &item : itemsOf(value)) {
    inputs.push_back(requireTensor(s, item, "an input of " + what));
    if (inputs.back().isScalar() || inputs.back().dtype.isPointer()) {
      s.fail(item, what + " takes tiles of numbers, got " + item.describe());
    }
    if (inputs.back().shape != inputs[0].shape) {
      s.fail(value, "the inputs of " + what + " have shapes " + shapeText(inputs[0].shape) +
                        " and " + shapeText(inputs.back().shape));
    }
  }
  if (inputs.empty()) {
    s.fail(value, what + " takes a tile or a tuple of tiles, got an empty tuple");
  }
  return inputs;
}

Combine callingUser(Semantics &s, const Value &function, const std::string &what) {
  if (!s.callFunction) {
    s.fail(function, what + " cannot call " + function.describe() + " here");
  }
  return [&s, &function, what](std::span<const Tensor> left, std::span<const Tensor> right) {
    Arguments arguments;
    for (const auto side : {left, right}) {
      for (const Tensor &value : side) {
        arguments.positional.emplace_back(value);
      }
    }
    return checkCombined(s, s.callFunction(function, arguments), left, what);
  };
}

DType sumType(Semantics &s, DType input, const Value &dtype, const std::string &what) {
  if (!dtype.isNone()) {
    return scalarType(s, dtype, "the dtype of " + what);
  }
  if (input.isInt() && isNarrow(input)) {
    return input.isSigned && !input.isBool() ? kInt32 : kUint32;
  }
  return input;
}

namespace operations {

namespace {

// max and min work on these types at least as wide.
Tensor widened(Semantics &s, const Tensor &input) {
  return isNarrow(input.dtype) ? s.cast(input, input.dtype.isFloat() ? kFloat32 : kInt32) : input;
}

// The index along `axis` in every element of a tile like `input`.
Tensor indexAlong(Semantics &s, const Tensor &input, unsigned axis) {
  const std::array<Value, 2> bounds = {Value::integer(0), Value::integer(input.shape[axis])};
  Tensor index = *arange(s, bounds).tensor();
  std::vector<int32_t> shape(input.shape.size(), 1);
  shape[axis] = input.shape[axis];
  for (unsigned i = 0; i < shape.size(); ++i) {
    if (i != axis) {
      index = frontend::expandDims(s, index, i);
    }
  }
  return s.broadcastTo(index, input.shape);
}

// Values and indices of the extreme elements.
std::vector<Tensor> extremeWithIndex(Semantics &s, const Tensor &input, const Value &axis,
                                     bool isMax, bool tieLeft, bool keepDims) {
  const int64_t number = s.constantInt(axis, "the axis of a reduction with indices");
  const unsigned along = wrapAxis(s, number, input.shape.size(), axis);
  const auto combine = [&](std::span<const Tensor> left, std::span<const Tensor> right) {
    Tensor wins = emitCompare(s, isMax ? CompareOp::Gt : CompareOp::Lt, left[0], right[0]);
    if (tieLeft) {
      const Tensor same = emitCompare(s, CompareOp::Eq, left[0], right[0]);
      const Tensor first = emitCompare(s, CompareOp::Lt, left[1], right[1]);
      const Tensor tie = emitBinary(s, BinaryOp::BitAnd, same, first);
      wins = emitBinary(s, BinaryOp::BitOr, wins, tie);
    }
    return std::vector<Tensor>{emitSelect(s, wins, left[0], right[0]),
                               emitSelect(s, wins, left[1], right[1])};
  };
  // Indices differ, so the tie is broken the same way whichever comes first.
  return reduceTiles(s, {input, indexAlong(s, input, along)}, along, keepDims, combine, true);
}

Value extreme(Semantics &s, Args args, bool isMax) {
  const std::string what = isMax ? "max" : "min";
  const Tensor input = requireNumbers(s, args[0], what);
  const bool keepDims = constantBool(s, args[4], "keep_dims");
  if (constantBool(s, args[2], "return_indices")) {
    const bool tieLeft = constantBool(s, args[3], "return_indices_tie_break_left");
    const auto results = extremeWithIndex(s, input, args[1], isMax, tieLeft, keepDims);
    return Value::tuple({Value(results[0]), Value(results[1])});
  }
  const auto combine = [&](std::span<const Tensor> left, std::span<const Tensor> right) {
    return std::vector<Tensor>{emitMinMax(s, isMax, left[0], right[0], false)};
  };
  const std::optional<unsigned> axis = axisOf(s, args[1], input, what);
  return Value(reduceTiles(s, {widened(s, input)}, axis, keepDims, combine)[0]);
}

Value argExtreme(Semantics &s, Args args, bool isMax) {
  const Tensor input = requireNumbers(s, args[0], isMax ? "argmax" : "argmin");
  const bool tieLeft = constantBool(s, args[2], "tie_break_left");
  const bool keepDims = constantBool(s, args[3], "keep_dims");
  return Value(extremeWithIndex(s, input, args[1], isMax, tieLeft, keepDims)[1]);
}

Value bitwise(Semantics &s, Args args, BinaryOp op, const std::string &what) {
  const Tensor input = requireNumbers(s, args[0], what);
  if (!input.dtype.isInt()) {
    s.fail(args[0], what + " takes integers, got " + args[0].describe());
  }
  const auto combine = [&](std::span<const Tensor> left, std::span<const Tensor> right) {
    return std::vector<Tensor>{emitBinary(s, op, left[0], right[0])};
  };
  const bool keepDims = constantBool(s, args[2], "keep_dims");
  return Value(reduceTiles(s, {input}, axisOf(s, args[1], input, what), keepDims, combine)[0]);
}

} // namespace

Value reduce(Semantics &s, Args args) {
  const std::vector<Tensor> inputs = requireTiles(s, args[0], "reduce");
  const Combine combine = callingUser(s, args[2], "a reduce");
  const bool keepDims = constantBool(s, args[3], "keep_dims");
  const std::optional<unsigned> axis = axisOf(s, args[1], inputs[0], "reduce");
  const auto results = reduceTiles(s, inputs, axis, keepDims, combine);
  if (args[0].tuple() == nullptr) {
    return Value(results[0]);
  }
  return Value::tuple({results.begin(), results.end()});
}

Value sum(Semantics &s, Args args) {
  const Tensor input = requireNumbers(s, args[0], "sum");
  const DType result = sumType(s, input.dtype, args[3], "sum");
  // 16-bit floats are summed in fp32 and rounded once.
  const Tensor addends = s.cast(s.cast(input, result), isNarrowFloat(result) ? kFloat32 : result);
  const auto combine = [&](std::span<const Tensor> left, std::span<const Tensor> right) {
    return std::vector<Tensor>{emitBinary(s, BinaryOp::Add, left[0], right[0])};
  };
  const bool keepDims = constantBool(s, args[2], "keep_dims");
  const std::optional<unsigned> axis = axisOf(s, args[1], input, "sum");
  const Tensor total = reduceTiles(s, {addends}, axis, keepDims, combine)[0];
  return Value(s.cast(total, result));
}

Value max(Semantics &s, Args args) { return extreme(s, args, true); }
Value min(Semantics &s, Args args) { return extreme(s, args, false); }
Value argmax(Semantics &s, Args args) { return argExtreme(s, args, true); }
Value argmin(Semantics &s, Args args) { return argExtreme(s, args, false); }
Value xorSum(Semantics &s, Args args) { return bitwise(s, args, BinaryOp::BitXor, "xor_sum"); }
Value reduceOr(Semantics &s, Args args) { return bitwise(s, args, BinaryOp::BitOr, "reduce_or"); }

} // namespace operations

} // namespace libtile::frontend
