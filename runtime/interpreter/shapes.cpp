// SPDX-License-Identifier: Apache-2.0
// Constants and indices, and what moves elements or counts them.
#include "runtime/interpreter/evaluator.h"

#include <algorithm>

namespace libtile::runtime::interpreter {

using ir::Attr;
using ir::Opcode;
using ir::OpId;
using ir::Type;

namespace {

// Calls f(position, index along each axis) for each element, in row-major order.
template <class F> void forEachIndex(const Type &type, F &&f) {
  std::vector<int64_t> index(type.rank());
  const auto count = static_cast<size_t>(type.numElements());
  for (size_t position = 0; position < count; ++position) {
    f(position, index);
    for (unsigned axis = type.rank(); axis-- > 0;) {
      if (++index[axis] < type.dim(axis)) {
        break;
      }
      index[axis] = 0;
    }
  }
}

size_t positionOf(const Type &type, const std::vector<int64_t> &index) {
  size_t position = 0;
  for (unsigned axis = 0; axis < type.rank(); ++axis) {
    position = position * static_cast<size_t>(type.dim(axis)) + static_cast<size_t>(index[axis]);
  }
  return position;
}

// Where in the operand each element of the result lies.
std::vector<size_t> sourcesOf(const ir::Function &fn, OpId op) {
  const Type from = fn.type(fn.operand(op, 0)), to = fn.type(fn.result(op));
  std::vector<size_t> steps(from.rank()); // from one element to the next along each axis
  size_t step = 1, start = 0;
  for (unsigned axis = from.rank(); axis-- > 0; step *= static_cast<size_t>(from.dim(axis))) {
    steps[axis] = step;
  }
  const auto own = static_cast<size_t>(fn.getInt(op, Attr::axis));
  const Opcode opcode = fn.opcode(op);
  if (opcode == Opcode::ExpandDims) {
    steps.insert(steps.begin() + static_cast<ptrdiff_t>(own), 0);
  } else if (opcode == Opcode::Slice) {
    start = static_cast<size_t>(fn.getInt(op, Attr::start)) * steps[own];
    steps[own] *= static_cast<size_t>(fn.getInt(op, Attr::step));
  } else if (opcode == Opcode::Trans) {
    const std::vector<size_t> before = steps;
    std::ranges::transform(fn.getInts(op, Attr::order), steps.begin(),
                           [&](int64_t axis) { return before[static_cast<size_t>(axis)]; });
  } else {
    ir::check(opcode == Opcode::Broadcast, "an op that moves elements");
    for (unsigned axis = 0; axis < from.rank(); ++axis) {
      steps[axis] *= from.dim(axis) == 1 ? 0 : 1;
    }
  }
  std::vector<size_t> positions = {start};
  for (unsigned axis = 0; axis < to.rank(); ++axis) {
    const auto extent = static_cast<size_t>(to.dim(axis));
    std::vector<size_t> longer;
    longer.reserve(positions.size() * extent);
    for (const size_t position : positions) {
      for (size_t k = 0; k < extent; ++k) {
        longer.push_back(position + k * steps[axis]);
      }
    }
    positions = std::move(longer);
  }
  return positions;
}

} // namespace

Value Evaluator::constant(OpId op) const {
  const Type type = fn_.type(fn_.result(op));
  const ir::AttrValue *value = fn_.findAttr(op, Attr::value);
  if (!type.isFloating()) {
    return {{type.isInteger() ? wrapped(type.elementBits(), static_cast<uint64_t>(fn_.getInt(op, Attr::value))) : 0}};
  }
  const auto *number = value != nullptr ? std::get_if<double>(value) : nullptr;
  return {{bitsOf(type.elem(), number != nullptr ? *number : static_cast<double>(fn_.getInt(op, Attr::value)))}};
}

Value Evaluator::arange(OpId op) const {
  Value made;
  const int64_t start = fn_.getInt(op, Attr::start);
  for (int64_t i = 0; i < fn_.type(fn_.result(op)).numElements(); ++i) {
    made.bits.push_back(wrapped(32, static_cast<uint64_t>(start + i)));
  }
  return made;
}

Value Evaluator::moved(OpId op) const {
  const Value &from = operand(op, 0);
  if (from.size() == 1 || fn_.opcode(op) == Opcode::Reshape) {
    return from;
  }
  return from.picked(sourcesOf(fn_, op));
}

// An index out of the axis gives element 0.
Value Evaluator::gather(OpId op) const {
  const Value &from = operand(op, 0), &where = operand(op, 1);
  const Type type = fn_.type(fn_.operand(op, 0));
  const auto axis = static_cast<size_t>(fn_.getInt(op, Attr::axis));
  std::vector<size_t> positions;
  forEachIndex(fn_.type(fn_.result(op)), [&](size_t position, std::vector<int64_t> index) {
    const int64_t at = where.integer(position);
    index[axis] = at >= 0 && at < type.dim(axis) ? at : 0;
    positions.push_back(positionOf(type, index));
  });
  Value made = from.picked(positions);
  for (size_t i = 0; i < made.size(); ++i) {
    made.setMark(i, where.mark(i));
  }
  return made;
}

Value Evaluator::histogram(OpId op) const {
  const Value &where = operand(op, 0);
  const Value *mask = fn_.numOperands(op) > 1 ? &operand(op, 1) : nullptr;
  Value made{std::vector<uint64_t>(static_cast<size_t>(fn_.type(fn_.result(op)).numElements()))};
  const auto count = static_cast<size_t>(fn_.type(fn_.operand(op, 0)).numElements());
  for (size_t i = 0; i < count; ++i) {
    const bool isOn = mask == nullptr || (*mask)[i] != 0;
    const auto bin = static_cast<uint64_t>(where.integer(i));
    if (isOn && bin < made.size()) {
      ++made.bits[bin];
      made.setMark(bin, where.mark(i));
    }
  }
  return made;
}

// A mark anywhere in a row is one of all its elements.
Value Evaluator::sort(OpId op) const {
  const Value &from = operand(op, 0);
  const Type in = fn_.type(fn_.operand(op, 0)), out = fn_.type(fn_.result(op));
  const auto axis = static_cast<unsigned>(fn_.getInt(op, Attr::axis));
  const unsigned width = in.elementBits();
  Value made{std::vector<uint64_t>(static_cast<size_t>(out.numElements()))};
  forEachIndex(out, [&](size_t position, std::vector<int64_t> index) {
    if (index[axis] != 0) {
      return;
    }
    std::vector<uint64_t> row;
    Mark mark = 0;
    for (index[axis] = 0; index[axis] < in.dim(axis); ++index[axis]) {
      const size_t at = positionOf(in, index);
      row.push_back(from[at]);
      mark = mark != 0 ? mark : from.mark(at);
    }
    std::ranges::sort(row, {}, [&](uint64_t bits) { return signedOf(width, bits); });
    for (index[axis] = 0; index[axis] < out.dim(axis); ++index[axis]) {
      const size_t at = positionOf(out, index);
      made.bits[at] = row[static_cast<size_t>(index[axis])];
      made.setMark(at, mark);
    }
    static_cast<void>(position);
  });
  return made;
}

} // namespace libtile::runtime::interpreter
