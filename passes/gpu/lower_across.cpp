// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/lower_across.h"

#include "ir/ops.h"
#include "passes/gpu/flat_buffers.h"
#include "passes/gpu/layout_maps.h"

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::AttrValue;
using ir::Elem;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

// A buffer of the tile's elements in row-major order.
ValueId flatBufferFor(ir::Builder &builder, const Type &tile) {
  const ir::Function &fn = builder.function();
  const FlatTile flat{fn.layout(tile.layout()), tile.shape()};
  const std::array elements = {static_cast<int32_t>(tile.numElements())};
  const auto bytes = static_cast<int32_t>(tile.elementBytes());
  return makeBuffer(builder, elements, tile.elem(), chooseFlatBuffer(flat, flat, bytes));
}

// `index` is missing for a slice.
void gatherThrough(ir::Function &fn, OpId op, std::span<const ValueId> index) {
  ir::Builder builder(fn, op);
  const ValueId src = asStored(builder, fn.operand(op, 0));
  const Type from = fn.type(src), to = fn.type(fn.result(op));
  const ValueId buffer = flatBufferFor(builder, from);
  writeBuffer(builder, buffer, src);
  ir::Values operands{buffer};
  operands.append(index.begin(), index.end());
  const Type read = storedType(to);
  const OpId gather = builder.op(Opcode::BufferGather, operands, {&read, 1});
  fn.copyAttrs(op, gather);
  fn.setAttr(gather, Attr::extents,
             AttrValue(std::vector<int64_t>(from.shape().begin(), from.shape().end())));
  fn.replaceAllUses(fn.result(op), fromStored(builder, fn.result(gather), to));
  fn.erase(op);
}

void countThrough(ir::Function &fn, OpId op) {
  ir::Builder builder(fn, op);
  const Type to = fn.type(fn.result(op));
  const ValueId buffer = flatBufferFor(builder, to);
  writeBuffer(builder, buffer, builder.zero(to));
  ir::Values operands{buffer};
  operands.append(fn.operands(op).begin(), fn.operands(op).end());
  builder.op(Opcode::BufferCount, operands);
  fn.replaceAllUses(fn.result(op), builder.make(Opcode::BufferRead, {buffer}, to));
  fn.erase(op);
}

} // namespace

Type storedType(const Type &tile) {
  return tile.withElement(tile.isPointer() ? Elem::I64 : tile.isBool() ? Elem::I8 : tile.elem());
}

ValueId asStored(ir::Builder &builder, ValueId value) {
  const Type type = builder.function().type(value);
  if (type.isPointer()) {
    return builder.make(Opcode::PtrToInt, {value}, storedType(type));
  }
  return type.isBool() ? builder.make(Opcode::ZExt, {value}, storedType(type)) : value;
}

ValueId fromStored(ir::Builder &builder, ValueId value, const Type &type) {
  if (type.isPointer()) {
    return builder.make(Opcode::IntToPtr, {value}, type);
  }
  return type.isBool() ? builder.make(Opcode::Trunc, {value}, type) : value;
}

ValueId makeBuffer(ir::Builder &builder, std::span<const int32_t> shape, Elem elem,
                   const ir::Layout &layout) {
  const Type type = Type::buffer(shape, elem, builder.function().internLayout(layout));
  return builder.make(Opcode::Alloc, {}, type);
}

void writeBuffer(ir::Builder &builder, ValueId buffer, ValueId value) {
  const ValueId operands[] = {buffer, value};
  builder.op(Opcode::BufferWrite, operands);
}

bool lowerAcross(ir::Function &fn, OpId op) {
  const Opcode opcode = fn.opcode(op);
  const bool moves = opcode == Opcode::Slice && !shapeRegisterMap(fn, op);
  if (opcode == Opcode::Gather) {
    gatherThrough(fn, op, std::array{fn.operand(op, 1)});
  } else if (moves) {
    gatherThrough(fn, op, {});
  } else if (opcode == Opcode::Histogram) {
    countThrough(fn, op);
  }
  return opcode == Opcode::Gather || opcode == Opcode::Histogram || moves;
}

} // namespace libtile::passes
