// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/split_flat_reduces.h"

#include "ir/builder.h"
#include "ir/ops.h"

#include <algorithm>
#include <bit>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::BlockId;
using ir::Builder;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

// The shape that the flat inputs have before their reshape; empty: not this pattern.
std::vector<int32_t> shapeBefore(const ir::Function &fn, OpId reduce) {
  std::vector<int32_t> shape;
  for (const ValueId input : fn.operands(reduce)) {
    const auto opcode = fn.defOpcode(input);
    if (opcode == Opcode::Arange && fn.getInt(fn.def(input), Attr::start) == 0) {
      continue;
    }
    if (opcode != Opcode::Reshape) {
      return {};
    }
    const Type type = fn.type(fn.operand(fn.def(input), 0));
    if (!shape.empty() && !std::ranges::equal(shape, type.shape())) {
      return {};
    }
    shape.assign(type.shape().begin(), type.shape().end());
  }
  const bool easy = std::ranges::all_of(
      shape, [](int32_t extent) { return std::has_single_bit(static_cast<uint32_t>(extent)); });
  return easy ? std::vector<int32_t>() : shape;
}

// Row-major index of each element.
ValueId flatIndex(Builder &builder, const std::vector<int32_t> &shape) {
  const Type number = Type::scalar(ir::Elem::I32);
  const Type whole = Type::tile(shape, number);
  ValueId sum = builder.constInt(whole, 0);
  int64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    const OpId arange = builder.op(Opcode::Arange, {}, {{Type::tile({shape[axis]}, number)}});
    builder.function().setAttr(arange, Attr::start, ir::AttrValue(int64_t{0}));
    // One axis grows extents of 1 around it, innermost last.
    ValueId value = builder.function().result(arange);
    std::vector<int32_t> now = {shape[axis]};
    for (size_t d = 0; d < shape.size(); ++d) {
      if (d != axis) {
        now.insert(now.begin() + static_cast<int64_t>(d), 1);
        const OpId expand =
            builder.op(Opcode::ExpandDims, {&value, 1}, {{Type::tile(now, number)}});
        builder.function().setAttr(expand, Attr::axis, ir::AttrValue(static_cast<int64_t>(d)));
        value = builder.function().result(expand);
      }
    }
    value = builder.make(Opcode::Broadcast, {value}, whole);
    value = builder.make(Opcode::Mul, {value, builder.constInt(whole, stride)});
    sum = builder.make(Opcode::Add, {sum, value});
    stride *= shape[axis];
  }
  return sum;
}

void split(ir::Function &fn, OpId reduce, const std::vector<int32_t> &shape) {
  Builder builder(fn, reduce);
  ir::Values values;
  for (const ValueId input : fn.operands(reduce)) {
    const OpId def = fn.def(input);
    values.push_back(fn.opcode(def) == Opcode::Reshape ? fn.operand(def, 0)
                                                       : flatIndex(builder, shape));
  }
  for (size_t axis = shape.size(); axis-- > 0;) {
    std::vector<Type> types;
    for (const ValueId value : values) {
      types.push_back(fn.type(value).withShape(std::span(shape).first(axis)));
    }
    const OpId step = builder.op(Opcode::Reduce, values, types);
    fn.setAttr(step, Attr::axis, ir::AttrValue(static_cast<int64_t>(axis)));
    ir::IndexMap<ValueId, ValueId> map;
    const BlockId from = fn.region(reduce), to = fn.region(step);
    for (unsigned i = 0; i < fn.args(from).size(); ++i) {
      const ValueId value = fn.arg(from, i);
      map.set(value, fn.addArg(to, fn.type(value)));
    }
    fn.copyOps(from, to, map);
    values.assign(fn.results(step).begin(), fn.results(step).end());
  }
  for (size_t i = 0; i < values.size(); ++i) {
    fn.replaceAllUses(fn.result(reduce, static_cast<unsigned>(i)), values[i]);
  }
  fn.erase(reduce);
}

} // namespace

void splitFlatReduces(ir::Function &fn) {
  for (const OpId op : fn.walk()) {
    if (fn.opcode(op) != Opcode::Reduce || !fn.type(fn.operand(op, 0)).isTile() ||
        fn.type(fn.operand(op, 0)).rank() != 1) {
      continue;
    }
    const bool flatBody = std::ranges::all_of(
        fn.opsIn(fn.region(op)), [&](OpId inner) { return fn.regions(inner).empty(); });
    if (const std::vector<int32_t> shape = shapeBefore(fn, op); !shape.empty() && flatBody) {
      std::vector<ValueId> inputs(fn.operands(op).begin(), fn.operands(op).end());
      split(fn, op, shape);
      // A reshape that nobody needs must not ask for a layout.
      for (const ValueId input : inputs) {
        if (fn.unused(input) && !fn.isErased(fn.def(input))) {
          fn.erase(fn.def(input));
        }
      }
    }
  }
}

} // namespace libtile::passes
