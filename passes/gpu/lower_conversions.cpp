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
#include "passes/op_properties.h"

#include <map>
#include <numeric>
#include <tuple>

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

// Buffers of dots' operands.
class OperandBuffers {
public:
  OperandBuffers(ir::Function &fn, const ir::Target &target) : fn_(fn), target_(target) {}

  bool lower(OpId dot) {
    const ir::DotUnit &unit = unitOf(fn_, dot, target_);
    if (fn_.type(fn_.operand(dot, 1)).isBuffer()) {
      return false;
    }
    for (const unsigned operand : {0U, 1U}) {
      if ((operand == 0 ? unit.a : unit.b).inShared) {
        const ValueId tile = fn_.operand(dot, operand);
        fn_.setOperand(dot, operand, readsByItself(unit) ? viewOf(tile, dot, fastAxisOf(unit, operand))
                                                         : bufferOf(tile, dot, false, {}));
      }
    }
    return unit.b.inShared;
  }

private:
  // For a unit that reads it by itself, maybe along one axis alone: a transposed tile is another view of the same bytes.
  ValueId viewOf(ValueId tile, OpId dot, std::optional<unsigned> fast) {
    const OpId def = fn_.def(tile);
    if (!def.valid() || fn_.opcode(def) != Opcode::Trans) {
      return bufferOf(tile, dot, true, fast);
    }
    const ValueId buffer = viewOf(fn_.operand(def, 0), dot, throughTrans(fn_, def, fast));
    const Layout &own = fn_.layout(fn_.type(buffer).layout());
    if (std::ranges::count_if(own.repeats(), [](int32_t times) { return times > 1; }) > 1) {
      return bufferOf(tile, dot, true, fast); // no layout says where it lies then
    }
    const Type type = fn_.type(tile);
    const ir::LayoutId layout = fn_.internLayout(own.trans(fn_.getInts(def, ir::Attr::order)));
    ir::Builder builder(fn_, dot);
    const ValueId view = builder.make(Opcode::Trans, {buffer}, Type::buffer(type.shape(), type.elem(), layout));
    fn_.copyAttrs(def, fn_.def(view));
    return view;
  }

  // What is read from a buffer is there already.
  ValueId bufferOf(ValueId tile, OpId dot, bool byUnit, std::optional<unsigned> fast) {
    const OpId def = fn_.def(tile);
    if (def.valid() && fn_.opcode(def) == Opcode::BufferRead &&
        fn_.type(tile).sameShape(fn_.type(fn_.operand(def, 0))) && (!fast || liesAlong(fn_.operand(def, 0), *fast))) {
      return fn_.operand(def, 0);
    }
    const OpId place = byUnit ? inFrontOfLoops(tile, dot) : dot;
    const unsigned axis = fast.value_or(fn_.type(tile).rank() - 1);
    ValueId &known = written_[{tile, fn_.block(place), byUnit, axis}];
    if (!known.valid() || !byUnit) {
      known = write(tile, place, byUnit, axis);
    }
    return known;
  }

  [[nodiscard]] bool liesAlong(ValueId buffer, unsigned axis) const {
    ir::Coords next(2, 0);
    next[axis] = 1;
    return ir::LayoutInverse(fn_.layout(fn_.type(buffer).layout())).offsetOf(next) == 1;
  }

  // Where the threads read it, rows of `a` and of `b` lie side by side along n and k: a multiply-add reads one
  // a for many lanes and neighbours of b.
  ValueId write(ValueId tile, OpId place, bool byUnit, unsigned fast) {
    const Type type = fn_.type(tile);
    const Layout registers = fn_.layout(type.layout());
    const auto bytes = static_cast<int32_t>(type.elementBytes());
    const Layout layout = byUnit ? matrixLayout(type.shape(), fast, bytes, {&registers, 1})
                                 : chooseBuffer(type.shape(), {.writers = {&registers, 1},
                                                               .readers = {},
                                                               .elementBytes = bytes,
                                                               .fastAxis = static_cast<int32_t>(fast)});
    ir::Builder builder(fn_, place);
    const ValueId buffer = makeBuffer(builder, type.shape(), storedType(type).elem(), layout);
    if (byUnit) {
      fn_.setAttr(fn_.def(buffer), ir::Attr::align, ir::AttrValue(int64_t{kMatrixAlignment}));
    }
    writeBuffer(builder, buffer, asStored(builder, tile));
    return buffer;
  }

  // The outermost loop around the dot that does not make the tile: it is written once.
  [[nodiscard]] OpId inFrontOfLoops(ValueId tile, OpId dot) const {
    OpId place = dot;
    for (ir::BlockId block = fn_.block(dot); block != fn_.body() && fn_.isDefinedOutside(tile, block);) {
      const OpId owner = fn_.parentOp(block);
      place = isLoop(fn_.opcode(owner)) ? owner : place;
      block = fn_.block(owner);
    }
    return place;
  }

  ir::Function &fn_;
  const ir::Target &target_;
  std::map<std::tuple<ValueId, ir::BlockId, bool, unsigned>, ValueId> written_; // by the axis that is fast, too
};

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
  OperandBuffers operands(fn, context.target);
  for (const OpId op : fn.walk()) {
    if (fn.opcode(op) == Opcode::ConvertLayout) {
      changed |= lowerConversion(fn, op);
    } else if (fn.opcode(op) == Opcode::Reshape) {
      changed |= lowerReshape(fn, op);
    } else if (fn.opcode(op) == Opcode::Dot) {
      changed |= operands.lower(op);
    } else {
      changed |= lowerAcross(fn, op) || spreadElements(fn, op);
    }
  }
  return changed;
}

} // namespace libtile::passes
