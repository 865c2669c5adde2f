// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/element_builder.h"

#include "ir/ops.h"
#include "passes/cpu/expression.h"
#include "passes/cpu/sink_loops.h"

#include <llvm/ADT/STLExtras.h>

#include <utility>

namespace libtile::passes {

using namespace ir;

ElementBuilder::ElementBuilder(NestState &state, BlockId body, OpId position)
    : state_(state), fn_(state.fn), builder_(state.fn, body), position_(position) {
  builder_.loc = fn_.loc(position);
  scopes_.emplace_back();
}

ElementBuilder::ElementBuilder(NestState &state, OpId position)
    : state_(state), fn_(state.fn), builder_(state.fn, position), position_(position) {
  scopes_.emplace_back();
}

void ElementBuilder::setSpace(std::span<const int32_t> shape, Indices indices) {
  spaceShape_.assign(shape.begin(), shape.end());
  space_ = std::move(indices);
}

void ElementBuilder::enter(BlockId body) {
  builder_.setEnd(body);
  scopes_.push_back({{}, made_.carried});
}

void ElementBuilder::leave(BlockId body) {
  for (const Key &made : scopes_.back().keys) {
    elements_.erase(made);
  }
  made_.carried = scopes_.back().carriedOutside;
  scopes_.pop_back();
  builder_.setEnd(body);
}

ElementBuilder::Key ElementBuilder::key(ValueId tile, const Indices &indices) {
  Key result{tile.index};
  for (ValueId index : indices) {
    result.push_back(index.index);
  }
  return result;
}

ValueId ElementBuilder::element(ValueId tile, const Indices &indices) {
  if (state_.instead[tile].valid()) {
    tile = state_.instead[tile];
  }
  const Key made = key(tile, indices);
  if (const auto found = elements_.find(made); found != elements_.end()) {
    return found->second;
  }
  if (state_.copies[tile].valid()) {
    return state_.copies[tile];
  }
  if (open_.made.valid() && fn_.defBlock(tile) != open_.source) {
    return elementOutside(tile, indices);
  }
  ValueId result;
  if (state_.stored(tile)) {
    result = read(state_.buffer[tile], indices, fn_.type(tile).element());
  } else {
    result = compute(tile, indices);
    if (storesHere(tile, indices)) {
      Builder before(fn_, position_);
      const ValueId buffer =
          allocBuffer(before, fn_.type(tile).shape(), fn_.type(tile).element());
      write(buffer, indices, result);
      storing_.emplace_back(tile, buffer);
    }
  }
  remember(tile, indices, result);
  return result;
}

void ElementBuilder::remember(ValueId tile, const Indices &indices, ValueId element) {
  const Key made = key(tile, indices);
  elements_[made] = element;
  scopes_.back().keys.push_back(made);
}

bool ElementBuilder::storesHere(ValueId tile, const Indices &indices) const {
  return state_.keep(tile) == Keep::first_use && indices == space_ &&
         llvm::equal(fn_.type(tile).shape(), spaceShape_) &&
         fn_.defBlock(tile) == fn_.block(position_);
}

void ElementBuilder::finish() {
  for (const auto &[tile, buffer] : storing_) {
    state_.buffer.set(tile, buffer);
  }
  storing_.clear();
}

ValueId ElementBuilder::compute(ValueId tile, const Indices &indices) {
  const OpId op = fn_.def(tile);
  if (op.valid() && state_.plan.sunk[op]) {
    const Key made = key(tile, indices);
    if (!elements_.contains(made)) {
      sinkLoop(op, indices);
    }
    return elements_[made];
  }
  check(op.valid() && isInlinable(fn_, op), "a tile is computed element by element or stored");
  return inlineOp(op, indices);
}

// ---- sunk loops

ValueId ElementBuilder::scalarOf(ValueId value) const {
  return state_.copies[value].valid() ? state_.copies[value] : value;
}

// In front of the open loop, as part of the body around it.
ValueId ElementBuilder::elementOutside(ValueId tile, const Indices &indices) {
  const OpenLoop open = std::exchange(open_, OpenLoop());
  const Builder::Point inside = builder_.point();
  const LocationId outer = builder_.loc;
  Scope scope = std::move(scopes_.back());
  scopes_.pop_back();
  builder_.setBefore(open.made);
  const ValueId result = element(tile, indices);
  scopes_.push_back(std::move(scope));
  builder_.setPoint(inside);
  builder_.loc = outer;
  open_ = open;
  return result;
}

// All results at once, since they are carried together.
void ElementBuilder::sinkLoop(OpId loop, const Indices &indices) {
  check(!open_.made.valid(), "a sunk loop stands in no other");
  Values operands(fn_.operands(loop).begin(), fn_.operands(loop).begin() + 3);
  std::vector<Type> types;
  const unsigned slots = fn_.results(loop).size();
  for (unsigned i = 0; i < slots; ++i) {
    const ValueId init = slotOf(fn_, loop, i).init;
    operands.push_back(fn_.type(init).isTile() ? element(init, indices) : init);
    types.push_back(fn_.type(init).element());
  }
  const LocationId outer = builder_.loc;
  builder_.loc = fn_.loc(loop);
  const BlockId around = builder_.block();
  const OpId made = builder_.op(Opcode::For, operands, types);
  fn_.copyAttrs(loop, made);
  const Builder::Point after = builder_.point();
  enter(fn_.region(made));
  fillSunkBody(loop, made, indices);
  leave(around);
  builder_.setPoint(after);
  builder_.loc = outer;
  for (unsigned i = 0; i < slots; ++i) {
    if (fn_.type(fn_.result(loop, i)).isTile()) {
      remember(fn_.result(loop, i), indices, fn_.result(made, i));
      ++made_.carried;
    }
  }
}

void ElementBuilder::fillSunkBody(OpId loop, OpId made, const Indices &indices) {
  const BlockId source = fn_.region(loop);
  const BlockId body = fn_.region(made);
  open_ = {source, made};
  for (unsigned i = 0; i < fn_.args(source).size(); ++i) {
    const ValueId arg = fn_.arg(source, i);
    state_.copies.set(arg, fn_.addArg(body, fn_.type(arg).element()));
  }
  copyScalarOps(source);
  Values yielded;
  for (unsigned i = 0; i < fn_.numOperands(fn_.last(source)); ++i) {
    const ValueId next = fn_.operand(fn_.last(source), i);
    yielded.push_back(fn_.type(next).isTile() ? element(next, indices) : scalarOf(next));
  }
  builder_.yield(yielded);
  open_ = {};
  forgetCopies(source);
}

// One by one: a kernel may have thousands of loops.
void ElementBuilder::forgetCopies(BlockId source) {
  const auto forget = [&](ValueId value) {
    if (state_.copies[value].valid()) {
      state_.copies.set(value, {});
    }
  };
  llvm::for_each(fn_.args(source), forget);
  for (OpId op : fn_.opsIn(source)) {
    llvm::for_each(fn_.results(op), forget);
  }
}

void ElementBuilder::copyScalarOps(BlockId source) {
  for (OpId op : fn_.opsIn(source)) {
    const Opcode opcode = fn_.opcode(op);
    if (opcode == Opcode::Hint && !fn_.type(fn_.result(op)).isTile()) {
      state_.copies.set(fn_.result(op), scalarOf(fn_.operand(op, 0)));
    }
    if (fn_.results(op).empty() || fn_.type(fn_.result(op)).isTile() || opcode == Opcode::Hint) {
      continue;
    }
    builder_.insert(fn_.copyOp(op, state_.copies));
  }
}

// ---- inline ops

ValueId ElementBuilder::inlineOp(OpId op, const Indices &indices) {
  const Opcode opcode = fn_.opcode(op);
  const LocationId outer = builder_.loc;
  builder_.loc = fn_.loc(op);
  ValueId result;
  if (opcode == Opcode::Constant) {
    const OpId constant =
        builder_.op(opcode, {}, std::array{fn_.type(fn_.result(op)).element()});
    fn_.copyAttrs(op, constant);
    result = fn_.result(constant);
  } else if (opcode == Opcode::Arange) {
    result = shiftIndex(indices[0], int32_t(fn_.getInt(op, Attr::start)));
  } else if (opcode == Opcode::Splat) {
    result = scalarOf(fn_.operand(op, 0));
  } else if (opcode == Opcode::Hint) {
    result = element(fn_.operand(op, 0), indices);
  } else if (opcode == Opcode::Trans) {
    Indices below(indices.size());
    const auto order = fn_.getInts(op, Attr::order);
    for (unsigned axis = 0; axis < order.size(); ++axis) {
      below[order[axis]] = indices[axis];
    }
    result = element(fn_.operand(op, 0), below);
  } else if (opcode == Opcode::ExpandDims) {
    Indices below = indices;
    below.erase(below.begin() + fn_.getInt(op, Attr::axis));
    result = element(fn_.operand(op, 0), below);
  } else if (opcode == Opcode::Broadcast) {
    Indices below = indices;
    const Type &type = fn_.type(fn_.operand(op, 0));
    for (unsigned axis = 0; axis < below.size(); ++axis) {
      if (type.dim(axis) == 1) {
        below[axis] = index(0);
      }
    }
    result = element(fn_.operand(op, 0), below);
  } else if (opcode == Opcode::Slice || opcode == Opcode::Gather) {
    const auto axis = fn_.getInt(op, Attr::axis);
    Indices below = indices;
    below[axis] = opcode == Opcode::Gather
                      ? element(fn_.operand(op, 1), indices)
                      : shiftIndex(scaleIndex(indices[axis], int32_t(fn_.getInt(op, Attr::step))),
                                   int32_t(fn_.getInt(op, Attr::start)));
    result = element(fn_.operand(op, 0), below);
  } else if (opcode == Opcode::Reshape) {
    result = element(fn_.operand(op, 0), reshapeIndices(op, indices));
  } else {
    result = elementwise(op, indices);
  }
  builder_.loc = outer;
  return result;
}

ValueId ElementBuilder::elementwise(OpId op, const Indices &indices) {
  Values operands;
  const bool isAddress = fn_.opcode(op) == Opcode::PtrAdd;
  for (ValueId operand : std::vector<ValueId>(fn_.operands(op).begin(), fn_.operands(op).end())) {
    const ValueId value = isAddress ? beforeExactCuts(operand) : operand;
    operands.push_back(fn_.type(value).isTile() ? element(value, indices) : scalarOf(value));
  }
  builder_.loc = fn_.loc(op);
  const Opcode opcode = extendsNoSign(op) ? Opcode::SExt : fn_.opcode(op);
  const OpId scalar = builder_.op(opcode, operands, std::array{fn_.type(fn_.result(op)).element()});
  fn_.copyAttrs(op, scalar);
  ++made_.ops;
  return fn_.result(scalar);
}

// Of the casts only an extension by the sign goes on from lane to lane by a constant (Emitter::deriveAnchor).
// Where ranges prove that another one changes no number, addresses do without it.
//
//   zext x                     ->  sext x            x >= 0
//   ptr_add p, (trunc x)       ->  ptr_add p, x      x fits
bool ElementBuilder::extendsNoSign(OpId op) const {
  return fn_.opcode(op) == Opcode::ZExt && !fn_.type(fn_.operand(op, 0)).isBool() &&
         state_.facts.range(fn_.operand(op, 0)).lo >= 0;
}

ValueId ElementBuilder::beforeExactCuts(ValueId offset) const {
  for (;;) {
    const OpId cut = fn_.def(offset);
    if (!cut.valid() || fn_.opcode(cut) != Opcode::Trunc || fn_.type(offset).isBool() ||
        state_.stored(offset) || state_.keep(offset) != Keep::inline_) {
      return offset;
    }
    const int64_t greatest = (int64_t{1} << (fn_.type(offset).elementBits() - 1)) - 1;
    if (!state_.facts.range(fn_.operand(cut, 0)).within(-greatest - 1, greatest)) {
      return offset;
    }
    offset = fn_.operand(cut, 0);
  }
}

// Each group of the reshape by itself: joins the result's indices to a position in the group and cuts
// that into the operand's.
ElementBuilder::Indices ElementBuilder::reshapeIndices(OpId op, const Indices &indices) {
  const Type from = fn_.type(fn_.operand(op, 0));
  const Type to = fn_.type(fn_.result(op));
  Indices below(from.rank());
  for (const ReshapeGroup &group : reshapeGroups(from.shape(), to.shape())) {
    if (group.from == group.fromEnd) {
      continue;
    }
    if (group.to == group.toEnd) {
      below[group.from] = index(0);
      continue;
    }
    ValueId position = indices[group.to];
    for (unsigned axis = group.to + 1; axis < group.toEnd; ++axis) {
      position = addIndex(scaleIndex(position, to.dim(axis)), indices[axis]);
    }
    for (unsigned axis = group.fromEnd; axis-- > group.from;) {
      const bool last = axis == group.from;
      below[axis] = last ? position : indexOp(Opcode::URem, position, from.dim(axis));
      position = last ? position : indexOp(Opcode::UDiv, position, from.dim(axis));
    }
  }
  return below;
}

ValueId ElementBuilder::read(ValueId buffer, const Indices &indices, Type element) {
  Values operands{buffer};
  operands.append(indices.begin(), indices.end());
  const Type held = Type::scalar(fn_.type(buffer).elem());
  const OpId op = builder_.op(Opcode::ElementRead, operands, std::array{held});
  ++made_.ops;
  return element.isPointer() ? builder_.make(Opcode::IntToPtr, {fn_.result(op)}, element)
                             : fn_.result(op);
}

void ElementBuilder::write(ValueId buffer, const Indices &indices, ValueId element) {
  if (fn_.type(element).isPointer()) {
    element = builder_.make(Opcode::PtrToInt, {element}, Type::scalar(Elem::I64));
  }
  Values operands{buffer, element};
  operands.append(indices.begin(), indices.end());
  builder_.op(Opcode::ElementWrite, operands);
  ++made_.ops;
}

// Indices are those of the elements, not of the loop's iterations.
Builder ElementBuilder::indexBuilder() {
  return open_.made.valid() ? Builder(fn_, open_.made) : builder_;
}

// Index constants are made once for each body.
ValueId ElementBuilder::index(int32_t constant) {
  Builder builder = indexBuilder();
  const auto key = std::pair(builder.block().index, constant);
  if (const auto found = constants_.find(key); found != constants_.end()) {
    return found->second;
  }
  return constants_[key] = builder.i32(constant);
}

ValueId ElementBuilder::indexOp(Opcode opcode, ValueId a, int32_t b) {
  const auto known = fn_.constantInt(a);
  if (opcode == Opcode::UDiv) {
    return b == 1 ? a : known ? index(int32_t(*known / b)) : indexBuilder().make(opcode, {a, index(b)});
  }
  if (opcode == Opcode::URem) {
    return b == 1 ? index(0) : known ? index(int32_t(*known % b))
                                     : indexBuilder().make(opcode, {a, index(b)});
  }
  return indexBuilder().make(opcode, {a, index(b)});
}

ValueId ElementBuilder::addIndex(ValueId a, ValueId b) {
  const auto knownA = fn_.constantInt(a);
  const auto knownB = fn_.constantInt(b);
  if (knownA && knownB) {
    return index(int32_t(*knownA + *knownB));
  }
  if (knownA == 0) {
    return b;
  }
  return knownB == 0 ? a : indexBuilder().make(Opcode::Add, {a, b});
}

ValueId ElementBuilder::scaleIndex(ValueId a, int32_t factor) {
  const auto known = fn_.constantInt(a);
  if (known) {
    return index(int32_t(*known * factor));
  }
  return factor == 1 ? a : indexBuilder().make(Opcode::Mul, {a, index(factor)});
}

} // namespace libtile::passes
