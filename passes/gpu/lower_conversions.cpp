// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/lower_conversions.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/gpu/conversion.h"
#include "passes/gpu/flat_buffers.h"
#include "passes/gpu/layout_maps.h"
#include "passes/gpu/live_tiles.h"
#include "passes/gpu/lower_across.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/plan_dots.h"
#include "passes/op_properties.h"

#include <llvm/ADT/STLFunctionalExtras.h>

#include <map>
#include <numeric>
#include <tuple>

namespace libtile::passes {
namespace {

using ir::Elem;
using ir::Layout;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

Elem integerOf(int32_t bytes) { return bytes == 1 ? Elem::I8 : bytes == 2 ? Elem::I16 : bytes == 4 ? Elem::I32 : Elem::I64; }

// A tile's way through a buffer, and what lies there has the layout that `bufferFor` gives for elements of so many bytes.
class WayThrough {
public:
  using BufferFor = llvm::function_ref<Layout(int32_t)>;
  WayThrough(ir::Function &fn, std::span<const int32_t> shape, const ir::Target &target, BufferFor bufferFor)
      : fn_(fn), shape_(shape), target_(target), bufferFor_(bufferFor) {}

  // The op's result becomes its operand written and read back.
  void move(OpId op) {
    const Type to = fn_.type(fn_.result(op));
    ir::Builder builder(fn_, op);
    const ValueId value = asStored(builder, fn_.operand(op, 0));
    const auto bytes = static_cast<int32_t>(storedType(to).elementBytes());
    // Threads hold the tile twice meanwhile.
    const bool mayPart = 2 * registersOfThread(fn_, fn_.result(op)) <= target_.registersPerThread;
    int32_t each = bytes;
    Layout buffer = bufferFor_(each);
    for (; mayPart && each > 1 && int64_t{buffer.size(ir::HwDim::Offset)} * each > target_.sharedMemory; buffer = bufferFor_(each)) {
      each /= 2;
    }
    const ValueId moved = each == bytes ? through(builder, value, storedType(to), buffer) : inParts(builder, value, storedType(to), each, buffer);
    fn_.replaceAllUses(fn_.result(op), fromStored(builder, moved, to));
    fn_.erase(op);
  }

private:
  ValueId through(ir::Builder &builder, ValueId value, const Type &to, const Layout &layout) {
    const ValueId buffer = makeBuffer(builder, shape_, to.elem(), layout);
    writeBuffer(builder, buffer, value);
    return builder.make(Opcode::BufferRead, {buffer}, to);
  }

  // Parts of `each` bytes of the elements, one behind the other.
  ValueId inParts(ir::Builder &builder, ValueId value, const Type &to, int32_t each, const Layout &layout) {
    const auto bytes = static_cast<int32_t>(to.elementBytes());
    const Type from = fn_.type(value), whole = to.withElement(integerOf(bytes)), part = to.withElement(integerOf(each));
    const auto cast = [&](Opcode opcode, ValueId tile, Type type) { return fn_.type(tile) == type ? tile : builder.make(opcode, {tile}, type); };
    const ValueId bits = cast(Opcode::Bitcast, value, from.withElement(whole.elem()));
    ValueId result;
    for (int32_t first = 0; first < bytes; first += each) {
      const auto shifted = [&](Opcode opcode, ValueId tile) {
        return first == 0 ? tile : builder.make(opcode, {tile, builder.constInt(fn_.type(tile), int64_t{8} * first)});
      };
      const ValueId there = through(builder, builder.make(Opcode::Trunc, {shifted(Opcode::LShr, bits)}, from.withElement(part.elem())), part, layout);
      const ValueId placed = shifted(Opcode::Shl, builder.make(Opcode::ZExt, {there}, whole));
      result = result.valid() ? builder.make(Opcode::Or, {result, placed}) : placed;
    }
    return cast(Opcode::Bitcast, result, to);
  }

  ir::Function &fn_;
  std::span<const int32_t> shape_;
  const ir::Target &target_;
  BufferFor bufferFor_;
};

bool lowerConversion(ir::Function &fn, OpId op, const ir::Target &target) {
  const Type from = fn.type(fn.operand(op, 0)), to = fn.type(fn.result(op));
  const Layout held = fn.layout(from.layout()), wanted = fn.layout(to.layout());
  const auto whole = static_cast<int32_t>(from.elementBytes());
  const Conversion plan = planConversion(held, wanted, from.shape(), whole, target.sharedReads);
  if (plan.kind != Conversion::Kind::Shared) {
    return false;
  }
  const auto bufferFor = [&](int32_t bytes) {
    return bytes == whole
               ? plan.buffer
               : chooseBuffer(from.shape(), {.writers = {&held, 1}, .readers = {&wanted, 1}, .elementBytes = bytes, .reads = target.sharedReads});
  };
  WayThrough(fn, from.shape(), target, bufferFor).move(op);
  return true;
}

bool lowerReshape(ir::Function &fn, OpId op, const ir::Target &target) {
  if (shapeRegisterMap(fn, op)) {
    return false;
  }
  const Type from = fn.type(fn.operand(op, 0)), to = fn.type(fn.result(op));
  const Layout held = fn.layout(from.layout()), wanted = fn.layout(to.layout());
  const int32_t elements[] = {static_cast<int32_t>(to.numElements())};
  const auto bufferFor = [&](int32_t bytes) { return chooseFlatBuffer({held, from.shape()}, {wanted, to.shape()}, bytes); };
  WayThrough(fn, elements, target, bufferFor).move(op);
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
      changed |= lowerConversion(fn, op, context.target);
    } else if (fn.opcode(op) == Opcode::Reshape) {
      changed |= lowerReshape(fn, op, context.target);
    } else if (fn.opcode(op) == Opcode::Dot) {
      changed |= operands.lower(op);
    } else {
      changed |= lowerAcross(fn, op) || spreadElements(fn, op);
    }
  }
  return changed;
}

} // namespace libtile::passes
