// SPDX-License-Identifier: Apache-2.0
// Operations that put elements elsewhere or look at all of them: parts and joins of tiles, gather,
// histogram, functions of the user on single elements.
#include "frontend/semantics/operations.h"
#include "ir/ops.h"

#include <algorithm>
#include <array>

namespace libtile::frontend {

using ir::Attr;
using ir::Opcode;

Tensor sliceTile(Semantics &s, const Tensor &x, unsigned axis, int64_t start, int64_t step,
                 int32_t count) {
  if (count == x.shape[axis] && step == 1) {
    return x;
  }
  std::vector<int32_t> shape = x.shape;
  shape[axis] = count;
  const Tensor result = emitShaped(s, Opcode::Slice, x.id, x.dtype, shape);
  ir::Function &fn = s.builder.function();
  const ir::OpId op = fn.def(result.id);
  fn.setAttr(op, Attr::axis, ir::AttrValue(int64_t{axis}));
  fn.setAttr(op, Attr::start, ir::AttrValue(start));
  fn.setAttr(op, Attr::step, ir::AttrValue(count == 1 ? 1 : step));
  return result;
}

std::vector<Tensor> broadcastAll(Semantics &s, std::vector<Tensor> tensors) {
  std::vector<int32_t> shape;
  for (const Tensor &tensor : tensors) {
    shape = commonShape(s, shape, tensor.shape);
  }
  for (Tensor &tensor : tensors) {
    tensor = shape.empty() ? tensor : stretch(s, tensor, shape);
  }
  return tensors;
}

namespace operations {

namespace {

constexpr DType kInt32{ir::Elem::I32, true};
constexpr DType kInt64{ir::Elem::I64, true};

// a where the index along the last axis is 0, else b.
Tensor joined(Semantics &s, const Value &left, const Value &right, const std::string &what) {
  auto [a, b] = s.broadcastBoth(s.toTensor(left), s.toTensor(right));
  if (a.dtype != b.dtype) {
    s.fail(right, what + " takes tiles of one type, got " + a.dtype.name() + " and " +
                      b.dtype.name());
  }
  std::vector<int32_t> shape = a.shape;
  shape.push_back(2);
  checkShape(s, shape, "the result of " + what);
  const std::array<Value, 2> bounds = {Value::integer(0), Value::integer(2)};
  Tensor last = *arange(s, bounds).tensor();
  const Tensor zero = constantTensor(s, kInt32, last.shape, Constant(BigInt(0)));
  last = stretch(s, emitCompare(s, CompareOp::Eq, last, zero), shape);
  const auto along = [&](const Tensor &x) {
    return stretch(s, x.isScalar() ? x : frontend::expandDims(s, x, x.shape.size()), shape);
  };
  return emitSelect(s, last, along(a), along(b));
}

int64_t extentAlong(const Tensor &x, unsigned axis) { return x.shape[axis]; }

// The index as an int32 in [0, extent); what lies outside becomes the last.
Tensor clampedIndex(Semantics &s, const Tensor &index, int64_t extent) {
  const bool wide = ir::bitWidth(index.dtype.elem) == 64;
  const Tensor number = s.cast(index, wide ? kInt64 : kInt32);
  const ir::ValueId last =
      s.builder.constInt(irType(number.dtype, number.shape), extent - 1);
  const ir::ValueId least = s.builder.make(Opcode::UMin, {number.id, last});
  return s.cast({least, number.dtype, number.shape}, kInt32);
}

std::span<const Value> itemsOf(const Value &value) {
  return value.tuple() != nullptr ? std::span(value.tuple()->fields) : std::span(&value, 1);
}

// What the user's function gives for one element: of each result the first of `pack`.
struct Mapped {
  std::vector<Tensor> results;
  bool single = false;
};

Mapped callOnElement(Semantics &s, const Value &function, std::span<const Tensor> elements,
                     int64_t pack) {
  Arguments arguments;
  for (const Tensor &element : elements) {
    arguments.positional.insert(arguments.positional.end(), static_cast<size_t>(pack),
                                Value(element));
  }
  const Value given = s.callFunction(function, arguments);
  const std::span<const Value> items = itemsOf(given);
  if (items.empty() || static_cast<int64_t>(items.size()) % pack != 0) {
    s.fail(function, "the function of map_elementwise gives " + std::to_string(items.size()) +
                         " values; with pack=" + std::to_string(pack) + " it gives a multiple of it");
  }
  Mapped mapped{{}, given.tuple() == nullptr};
  for (size_t i = 0; i < items.size(); i += static_cast<size_t>(pack)) {
    const bool number = items[i].tensor() != nullptr || items[i].constant() != nullptr;
    if (!number || !s.toTensor(items[i]).isScalar()) {
      s.fail(function, "the function of map_elementwise gives " + items[i].describe() +
                           " where a scalar is expected");
    }
    mapped.results.push_back(s.toTensor(items[i]));
  }
  return mapped;
}

// The region holds scalar code that nobody sees run.
void requireScalarCode(const Semantics &s, ir::BlockId region, const Value &function) {
  const ir::Function &fn = s.builder.function();
  for (const ir::OpId op : fn.walk(region)) {
    const ir::Effects effects = fn.ownEffects(op);
    const bool scalars = std::ranges::all_of(
        fn.results(op), [&](ir::ValueId value) { return fn.type(value).isScalar(); });
    if (!scalars || effects.reads() || (!effects.removable() && !fn.opInfo(op).isTerminator())) {
      s.fail(function, std::string("the function of map_elementwise computes with scalars and "
                                   "touches no memory, but it has a ") +
                           fn.opInfo(op).mnemonic);
    }
  }
}

Value asGiven(std::vector<Tensor> results, bool single) {
  return single ? Value(results[0]) : Value::tuple({results.begin(), results.end()});
}

} // namespace

Value join(Semantics &s, Args args) { return Value(joined(s, args[0], args[1], "join")); }

Value split(Semantics &s, Args args) {
  const Tensor a = requireTensor(s, args[0], "the argument of split");
  if (a.isScalar() || a.shape.back() != 2) {
    s.fail(args[0], "split takes a tile whose last axis has extent 2, got shape " +
                        shapeText(a.shape));
  }
  const auto axis = static_cast<unsigned>(a.shape.size() - 1);
  const std::vector<int32_t> shape(a.shape.begin(), a.shape.end() - 1);
  std::vector<Value> halves;
  for (const int64_t which : {0, 1}) {
    halves.emplace_back(reshapeTo(s, sliceTile(s, a, axis, which, 1, 1), shape));
  }
  return Value::tuple(std::move(halves));
}

Value interleave(Semantics &s, Args args) {
  const Tensor pairs = joined(s, args[0], args[1], "interleave");
  std::vector<int32_t> shape(pairs.shape.begin(), pairs.shape.end() - 1);
  if (shape.empty()) {
    return Value(pairs);
  }
  shape.back() *= 2;
  return Value(reshapeTo(s, pairs, shape));
}

// The new axis of a join, moved in front of the axis that it is to become one with.
Value cat(Semantics &s, Args args) {
  const Tensor input = requireTensor(s, args[0], "the first argument of cat");
  const Tensor other = requireTensor(s, args[1], "the second argument of cat");
  constantBool(s, args[2], "can_reorder");
  if (input.isScalar() || input.shape != other.shape) {
    s.fail(args[1], "cat takes two tiles of one shape, got " + shapeText(input.shape) + " and " +
                        shapeText(other.shape));
  }
  const unsigned dim =
      wrapAxis(s, s.constantInt(args[3], "the dim of cat"), input.shape.size(), args[3]);
  std::vector<int64_t> order;
  for (size_t axis = 0; axis < input.shape.size(); ++axis) {
    if (axis == dim) {
      order.push_back(static_cast<int64_t>(input.shape.size()));
    }
    order.push_back(static_cast<int64_t>(axis));
  }
  std::vector<int32_t> shape = input.shape;
  shape[dim] *= 2;
  return Value(reshapeTo(s, permuteTo(s, joined(s, args[0], args[1], "cat"), order), shape));
}

Value flip(Semantics &s, Args args) {
  const Tensor x = requireTensor(s, args[0], "the argument of flip");
  if (x.isScalar()) {
    s.fail(args[0], "flip takes a tile, got a scalar");
  }
  const int64_t dim = args[1].isNone() ? -1 : s.constantInt(args[1], "the dim of flip");
  const unsigned axis = wrapAxis(s, dim, x.shape.size(), args[1]);
  return Value(sliceTile(s, x, axis, x.shape[axis] - 1, -1, x.shape[axis]));
}

Value gather(Semantics &s, Args args) {
  const Tensor src = requireTensor(s, args[0], "the source of gather");
  const Tensor index = requireTensor(s, args[1], "the index of gather");
  if (!index.dtype.isInt()) {
    s.fail(args[1], "gather takes integers as indices, got " + args[1].describe());
  }
  if (src.isScalar() || src.shape.size() != index.shape.size()) {
    s.fail(args[1], "gather takes source and index with as many axes, got shapes " +
                        shapeText(src.shape) + " and " + shapeText(index.shape));
  }
  const unsigned axis =
      wrapAxis(s, s.constantInt(args[2], "the axis of gather"), src.shape.size(), args[2]);
  for (unsigned i = 0; i < src.shape.size(); ++i) {
    if (i != axis && src.shape[i] != index.shape[i]) {
      s.fail(args[1], "source and index of gather differ outside of axis " + std::to_string(axis) +
                          ": shapes " + shapeText(src.shape) + " and " + shapeText(index.shape));
    }
  }
  const Tensor place = clampedIndex(s, index, extentAlong(src, axis));
  const ir::ValueId id =
      s.builder.make(Opcode::Gather, {src.id, place.id}, irType(src.dtype, index.shape));
  ir::Function &fn = s.builder.function();
  fn.setAttr(fn.def(id), Attr::axis, ir::AttrValue(int64_t{axis}));
  return Value(s.makeTensor(id, src.dtype));
}

Value histogram(Semantics &s, Args args) {
  const Tensor input = requireTensor(s, args[0], "the input of histogram");
  if (input.shape.size() != 1 || !input.dtype.isInt()) {
    s.fail(args[0], "histogram takes a one-dimensional tile of integers, got " + args[0].describe());
  }
  const int64_t bins = s.constantInt(args[1], "the number of bins");
  if (bins < 1 || bins > ir::Type::kMaxElements) {
    s.fail(args[1], "a histogram has 1 to " + std::to_string(ir::Type::kMaxElements) + " bins, got " +
                        std::to_string(bins));
  }
  // Numbers of 32 or 64 bits, none of which is below 0 as an unsigned one.
  const bool wide = ir::bitWidth(input.dtype.elem) == 64;
  const Tensor number = s.cast(input, wide ? kInt64 : kInt32);
  const ir::ValueId end = s.builder.constInt(irType(number.dtype, number.shape), bins);
  const ir::ValueId inside = s.builder.cmp(ir::CmpPred::ult, number.id, end);
  Tensor mask = s.makeTensor(inside, {ir::Elem::I1, false});
  if (!args[2].isNone()) {
    const Tensor given = s.broadcastTo(toBool(s, s.toTensor(args[2])), input.shape);
    mask = emitBinary(s, BinaryOp::BitAnd, mask, given);
  }
  const std::array<int32_t, 1> shape = {static_cast<int32_t>(bins)};
  const ir::ValueId id = s.builder.make(Opcode::Histogram, {s.cast(number, kInt32).id, mask.id},
                                        irType(kInt32, shape));
  return Value(s.makeTensor(id, kInt32));
}

Value mapElementwise(Semantics &s, Args args) {
  const int64_t pack = s.constantInt(args[2], "pack");
  if (pack < 1 || pack > 64) {
    s.fail(args[2], "pack lies between 1 and 64, got " + std::to_string(pack));
  }
  if (!s.callFunction) {
    s.fail(args[0], "map_elementwise cannot call " + args[0].describe() + " here");
  }
  std::vector<Tensor> inputs;
  for (const Value &item : itemsOf(args[1])) {
    inputs.push_back(s.toTensor(item));
  }
  if (inputs.empty()) {
    s.fail("map_elementwise takes a function and at least one tile");
  }
  inputs = broadcastAll(s, std::move(inputs));
  if (inputs[0].isScalar()) {
    Mapped mapped = callOnElement(s, args[0], inputs, pack);
    return asGiven(std::move(mapped.results), mapped.single);
  }
  // The region first, whose results say the types of the op's.
  ir::Builder &builder = s.builder;
  ir::Function &fn = builder.function();
  std::vector<ir::ValueId> operands;
  for (const Tensor &input : inputs) {
    operands.push_back(input.id);
  }
  const ir::OpId op = builder.op(Opcode::Map, operands);
  const ir::BlockId outside = builder.block();
  std::vector<Tensor> elements;
  for (const Tensor &input : inputs) {
    elements.push_back({fn.addArg(fn.region(op), input.dtype.irType()), input.dtype, {}});
  }
  builder.setEnd(fn.region(op));
  const Semantics::Wrapping wrapping(s);
  const Mapped mapped = callOnElement(s, args[0], elements, pack);
  std::vector<ir::ValueId> yielded;
  std::vector<Tensor> results;
  for (const Tensor &result : mapped.results) {
    yielded.push_back(result.id);
    const ir::ValueId id = fn.addResult(op, irType(result.dtype, inputs[0].shape));
    results.push_back({id, result.dtype, inputs[0].shape});
  }
  builder.yield(yielded);
  builder.setEnd(outside);
  requireScalarCode(s, fn.region(op), args[0]);
  return asGiven(std::move(results), mapped.single);
}

} // namespace operations

} // namespace libtile::frontend
