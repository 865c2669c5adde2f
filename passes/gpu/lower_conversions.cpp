// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/lower_conversions.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/gpu/conversion.h"
#include "passes/gpu/flat_buffers.h"
#include "passes/gpu/layout_maps.h"
#include "passes/gpu/lower_across.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/plan_dots.h"

#include <numeric>

namespace libtile::passes {
namespace {

using ir::Layout;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

// The op's result becomes its operand written into such a buffer and read back.
void moveThrough(ir::Function &fn, OpId op, std::span<const int32_t> shape, const Layout &layout) {
  const ValueId value = fn.operand(op, 0);
  const Type to = fn.type(fn.result(op));
  ir::Builder builder(fn, op);
  const ValueId buffer = makeBuffer(builder, shape, storedType(to).elem(), layout);
  writeBuffer(builder, buffer, asStored(builder, value));
  const ValueId read = builder.make(Opcode::BufferRead, {buffer}, storedType(to));
  fn.replaceAllUses(fn.result(op), fromStored(builder, read, to));
  fn.erase(op);
}

bool lowerConversion(ir::Function &fn, OpId op) {
  const ValueId value = fn.operand(op, 0);
  const Type from = fn.type(value), to = fn.type(fn.result(op));
  const auto bytes = static_cast<int32_t>(from.elementBytes());
  const Conversion plan =
      planConversion(fn.layout(from.layout()), fn.layout(to.layout()), from.shape(), bytes);
  if (plan.kind != Conversion::Kind::Shared) {
    return false;
  }
  moveThrough(fn, op, from.shape(), plan.buffer);
  return true;
}

bool lowerReshape(ir::Function &fn, OpId op) {
  if (shapeRegisterMap(fn, op)) {
    return false;
  }
  const Type from = fn.type(fn.operand(op, 0)), to = fn.type(fn.result(op));
  const int32_t elements[] = {static_cast<int32_t>(to.numElements())};
  const Layout buffer = chooseFlatBuffer({fn.layout(from.layout()), from.shape()},
                                         {fn.layout(to.layout()), to.shape()},
                                         static_cast<int32_t>(to.elementBytes()));
  moveThrough(fn, op, elements, buffer);
  return true;
}

// Where the threads read it, rows of `a` and of `b` lie side by side along n and k: a multiply-add reads one
// a for many lanes and neighbours of b.
ValueId operandBuffer(ir::Function &fn, ir::Builder &builder, ValueId value, const ir::DotUnit &unit) {
  const OpId def = fn.def(value);
  if (def.valid() && fn.opcode(def) == Opcode::BufferRead &&
      fn.type(value).sameShape(fn.type(fn.operand(def, 0)))) {
    return fn.operand(def, 0);
  }
  const Type type = fn.type(value);
  const Layout registers = fn.layout(type.layout());
  const unsigned fast = type.rank() - 1;
  const auto bytes = static_cast<int32_t>(type.elementBytes());
  const Layout layout = readsByItself(unit)
                            ? matrixLayout(type.shape(), fast, bytes, registers)
                            : chooseBuffer(type.shape(), {.writers = {&registers, 1},
                                                          .readers = {},
                                                          .elementBytes = bytes,
                                                          .fastAxis = static_cast<int32_t>(fast)});
  const ValueId buffer = makeBuffer(builder, type.shape(), storedType(type).elem(), layout);
  if (readsByItself(unit)) {
    fn.setAttr(fn.def(buffer), ir::Attr::align, ir::AttrValue(int64_t{kMatrixAlignment}));
  }
  writeBuffer(builder, buffer, asStored(builder, value));
  return buffer;
}

bool lowerOperands(ir::Function &fn, OpId op, const ir::Target &target) {
  const ir::DotUnit &unit = unitOf(fn, op, target);
  if (!unit.a.inShared || fn.type(fn.operand(op, 0)).isBuffer()) {
    return false;
  }
  ir::Builder builder(fn, op);
  for (const unsigned operand : {0U, 1U}) {
    fn.setOperand(op, operand, operandBuffer(fn, builder, fn.operand(op, operand), unit));
  }
  return true;
}

bool holdsReplicas(const Layout &layout) {
  const auto all = [&](ir::HwDim dim) { return layout.subtileSize(dim) - 1; };
  return (all(ir::HwDim::Lane) & ~layout.canonicalBits(ir::HwDim::Lane)) != 0 ||
         (all(ir::HwDim::Warp) & ~layout.canonicalBits(ir::HwDim::Warp)) != 0;
}

// The elements that each thread was given for itself, from the one that has the first replica.
bool spreadElements(ir::Function &fn, OpId op) {
  const ir::Effects effects = fn.ownEffects(op);
  if (!effects.has(ir::Effects::Ordered) || !effects.has(ir::Effects::ReadsGlobal) ||
      fn.results(op).size() != 1) {
    return false;
  }
  const ValueId result = fn.result(op);
  const Type type = fn.type(result);
  if (!type.isTile() || fn.unused(result) || !holdsReplicas(fn.layout(type.layout()))) {
    return false;
  }
  const Layout registers = fn.layout(type.layout());
  const Layout layout = chooseBuffer(type.shape(), {.writers = {&registers, 1},
                                                    .readers = {&registers, 1},
                                                    .elementBytes = static_cast<int32_t>(type.elementBytes())});
  ir::Builder builder(fn, fn.next(op));
  const ValueId buffer = makeBuffer(builder, type.shape(), storedType(type).elem(), layout);
  const ValueId read = builder.make(Opcode::BufferRead, {buffer}, storedType(type));
  fn.replaceAllUses(result, fromStored(builder, read, type));
  builder.setBefore(fn.def(read));
  writeBuffer(builder, buffer, asStored(builder, result));
  return true;
}

} // namespace

bool lowerConversions(ir::Function &fn, const PassContext &context) {
  bool changed = false;
  for (const OpId op : fn.walk()) {
    if (fn.opcode(op) == Opcode::ConvertLayout) {
      changed |= lowerConversion(fn, op);
    } else if (fn.opcode(op) == Opcode::Reshape) {
      changed |= lowerReshape(fn, op);
    } else if (fn.opcode(op) == Opcode::Dot) {
      changed |= lowerOperands(fn, op, context.target);
    } else {
      changed |= lowerAcross(fn, op) || spreadElements(fn, op);
    }
  }
  return changed;
}

} // namespace libtile::passes
