// SPDX-License-Identifier: Apache-2.0
// Operations on the grid and on shapes, and those that make tiles.
#include "frontend/semantics/operations.h"
#include "ir/ops.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>

namespace libtile::frontend::operations {

namespace {

constexpr DType kInt32{ir::Elem::I32, true};

Value gridIndex(Semantics &s, ir::Opcode opcode, const Value &axis, const char *what) {
  const int64_t number = s.constantInt(axis, std::string("the axis of ") + what);
  if (number < 0 || number > 2) {
    s.fail(axis, std::string("the axis of ") + what + " must be 0, 1 or 2, got " +
                     std::to_string(number));
  }
  const ir::ValueId id = s.builder.make(opcode, {}, kInt32.irType());
  ir::Function &fn = s.builder.function();
  fn.setAttr(fn.def(id), ir::Attr::axis, ir::AttrValue(number));
  return Value(Tensor{id, kInt32, {}});
}

// A tile of that shape and type with the value in every element.
Value filled(Semantics &s, const Value &shapeArgument, const Value &value, const Value &type,
             const std::string &what) {
  const std::vector<int32_t> shape = constantShape(s, shapeArgument, "the shape of " + what);
  const DType dtype = scalarType(s, type, "the dtype of " + what);
  if (value.constant() != nullptr && !dtype.isPointer()) {
    if (dtype.isBool()) {
      return Value(constantTensor(
          s, dtype, shape,
          constantCompare(s, CompareOp::Ne, *value.constant(), Constant(BigInt(0))).constant()[0]));
    }
    // An integer is taken by its low bits.
    const bool wraps = dtype.isInt() && operandType(s, value).dtype.isInt();
    return Value(wraps ? constantTensor(s, dtype, shape, *value.constant())
                       : s.toComputation(value, dtype, shape));
  }
  const Tensor element = onlyElement(s, s.cast(s.toTensor(value), dtype));
  return Value(shape.empty() ? element : s.broadcastTo(element, shape));
}

} // namespace

Value programId(Semantics &s, Args args) {
  return gridIndex(s, ir::Opcode::ProgramId, args[0], "program_id");
}

Value numPrograms(Semantics &s, Args args) {
  return gridIndex(s, ir::Opcode::NumPrograms, args[0], "num_programs");
}

Value clock(Semantics &s, Args) {
  constexpr DType kInt64{ir::Elem::I64, true};
  return Value(Tensor{s.builder.make(ir::Opcode::Clock, {}, kInt64.irType()), kInt64, {}});
}

Value arange(Semantics &s, Args args) {
  const int64_t start = s.constantInt(args[0], "the start of arange");
  const int64_t end = s.constantInt(args[1], "the end of arange");
  constexpr int64_t kLeast = std::numeric_limits<int32_t>::min();
  constexpr int64_t kGreatest = std::numeric_limits<int32_t>::max();
  if (start < kLeast || end > kGreatest + 1) {
    s.fail("arange(" + std::to_string(start) + ", " + std::to_string(end) +
           ") does not fit in int32");
  }
  if (end <= start) {
    s.fail("the end of arange must be greater than its start, got arange(" + std::to_string(start) +
           ", " + std::to_string(end) + ")");
  }
  if (end - start > ir::Type::kMaxElements) {
    s.fail("arange has more than " + std::to_string(ir::Type::kMaxElements) + " elements");
  }
  const std::array<int32_t, 1> shape = {static_cast<int32_t>(end - start)};
  const ir::ValueId id = s.builder.make(ir::Opcode::Arange, {}, irType(kInt32, shape));
  ir::Function &fn = s.builder.function();
  fn.setAttr(fn.def(id), ir::Attr::start, ir::AttrValue(start));
  return Value(Tensor{id, kInt32, {shape[0]}});
}

Value full(Semantics &s, Args args) { return filled(s, args[0], args[1], args[2], "full"); }

Value zeros(Semantics &s, Args args) {
  return filled(s, args[0], Value::integer(0), args[1], "zeros");
}

Value zerosLike(Semantics &s, Args args) {
  const Tensor input = s.toTensor(args[0]);
  return Value(s.makeTensor(s.builder.zero(irType(input.dtype, input.shape)), input.dtype));
}

Value toTensor(Semantics &s, Args args) { return Value(s.toTensor(args[0])); }

Value constexprOf(Semantics &s, Args args) {
  if (args[0].tensor() != nullptr) {
    s.fail(args[0], "constexpr() takes a constant, got " + args[0].describe());
  }
  return args[0];
}

Value broadcast(Semantics &s, Args args) {
  const auto [input, other] = s.broadcastBoth(s.toTensor(args[0]), s.toTensor(args[1]));
  return Value::tuple({Value(input), Value(other)});
}

Value broadcastTo(Semantics &s, Args args) {
  const std::vector<int32_t> shape = constantShape(s, args[1], "the shape of broadcast_to");
  return Value(s.broadcastTo(s.toTensor(args[0]), shape));
}

Value expandDims(Semantics &s, Args args) {
  Tensor result = s.toTensor(args[0]);
  const std::vector<int64_t> axes = constantInts(s, args[1], "the axis of expand_dims");
  std::set<unsigned> wrapped;
  for (const int64_t axis : axes) {
    const unsigned found = wrapAxis(s, axis, result.shape.size() + axes.size(), args[1]);
    if (!wrapped.insert(found).second) {
      s.fail(args[1], "expand_dims got axis " + std::to_string(found) + " twice");
    }
  }
  for (const unsigned axis : wrapped) {
    result = frontend::expandDims(s, result, axis);
  }
  return Value(std::move(result));
}

Value unsqueeze(Semantics &s, Args args) { return expandDims(s, args); }

Value squeeze(Semantics &s, Args args) {
  const Tensor x = requireTensor(s, args[0], "the argument of squeeze");
  const unsigned axis =
      wrapAxis(s, s.constantInt(args[1], "the axis of squeeze"), x.shape.size(), args[1]);
  if (x.shape[axis] != 1) {
    s.fail(args[1], "squeeze takes an axis of extent 1, got " + std::to_string(x.shape[axis]));
  }
  std::vector<int32_t> shape = x.shape;
  shape.erase(shape.begin() + axis);
  return Value(reshapeTo(s, x, shape));
}

Value reshape(Semantics &s, Args args) {
  const std::vector<int32_t> shape = constantShape(s, args[1], "the shape of reshape");
  return Value(reshapeTo(s, s.toTensor(args[0]), shape));
}

Value ravel(Semantics &s, Args args) {
  const Tensor x = s.toTensor(args[0]);
  const std::array<int32_t, 1> shape = {
      static_cast<int32_t>(irType(x.dtype, x.shape).numElements())};
  return Value(reshapeTo(s, x, shape));
}

Value permute(Semantics &s, Args args) {
  const Tensor x = requireTensor(s, args[0], "the argument of permute");
  return Value(permuteTo(s, x, constantInts(s, args[1], "an axis of permute"), args[1]));
}

Value trans(Semantics &s, Args args) {
  const Tensor x = requireTensor(s, args[0], "the argument of trans");
  std::vector<int64_t> order = constantInts(s, args[1], "an axis of trans");
  if (order.empty()) {
    if (x.shape.size() < 2) {
      s.fail(args[0], "trans takes a tile with two axes or more, got shape " + shapeText(x.shape));
    }
    for (size_t axis = 0; axis < x.shape.size(); ++axis) {
      order.push_back(static_cast<int64_t>(axis));
    }
    std::swap(order[order.size() - 1], order[order.size() - 2]);
  }
  return Value(permuteTo(s, x, order, args[1]));
}

Value item(Semantics &s, Args args) {
  return Value(onlyElement(s, requireTensor(s, args[0], "the argument of item")));
}

} // namespace libtile::frontend::operations
