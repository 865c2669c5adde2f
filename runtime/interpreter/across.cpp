// SPDX-License-Identifier: Apache-2.0
// Reductions, scans, maps and dots. A region without control flow runs once for many elements: those side by side
// are the elements of its scalars.
#include "runtime/interpreter/evaluator.h"

#include <cmath>

namespace libtile::runtime::interpreter {

using ir::Attr;
using ir::BlockId;
using ir::Elem;
using ir::OpId;
using ir::Type;

namespace {

// The elements of a tile as rows along an axis: element k of row r.
struct Rows {
  size_t inner = 1, extent = 1, count = 1;
  Rows(const Type &type, unsigned axis) : extent(static_cast<size_t>(type.dim(axis))) {
    for (unsigned i = axis + 1; i < type.rank(); ++i) {
      inner *= static_cast<size_t>(type.dim(i));
    }
    count = static_cast<size_t>(type.numElements()) / extent;
  }
  [[nodiscard]] size_t position(size_t row, size_t k) const {
    return (row / inner * extent + k) * inner + row % inner;
  }
  // Element k of all rows.
  [[nodiscard]] Value slice(const Value &value, size_t k) const {
    std::vector<size_t> positions(count);
    for (size_t row = 0; row < count; ++row) {
      positions[row] = position(row, k);
    }
    return value.picked(positions);
  }
};

// Writes one element over another.
void put(Value &to, size_t at, const Value &from, size_t i) {
  to.bits[at] = from[i];
  if (!from.origins.empty()) {
    to.origins.resize(to.size());
    to.origins[at] = from.origin(i);
  }
  to.setMark(at, from.mark(i));
}

} // namespace

bool Evaluator::isStraight(BlockId block) const {
  for (const OpId op : fn_.walk(block)) {
    if (!fn_.regions(op).empty()) {
      return false;
    }
  }
  return true;
}

// Of all elements at once, or one by one.
Evaluator::Values Evaluator::combine(BlockId region, const Values &left, const Values &right) {
  const auto run = [&](auto &&element) {
    for (unsigned j = 0; j < left.size(); ++j) {
      values_.set(fn_.arg(region, j), element(left[j]));
    }
    for (unsigned j = 0; j < right.size(); ++j) {
      values_.set(fn_.arg(region, static_cast<unsigned>(left.size()) + j), element(right[j]));
    }
    return runBlock(region);
  };
  size_t elements = 1;
  for (const Value &value : left) {
    elements = std::max(elements, value.size());
  }
  attend(elements);
  if (elements == 1 || isStraight(region)) {
    return run([](const Value &value) { return value; });
  }
  Values made;
  for (size_t i = 0; i < elements; ++i) {
    const Values one = run([&](const Value &value) { return value.one(i); });
    made.resize(one.size(), Value{std::vector<uint64_t>(elements)});
    for (size_t j = 0; j < one.size(); ++j) {
      put(made[j], i, one[j], 0);
    }
  }
  return made;
}

void Evaluator::runReduce(OpId op) {
  const Rows rows(fn_.type(fn_.operand(op, 0)), static_cast<unsigned>(fn_.getInt(op, Attr::axis)));
  Values left;
  for (const ir::ValueId input : fn_.operands(op)) {
    left.push_back(rows.slice(of(input), 0));
  }
  for (size_t k = 1; k < rows.extent; ++k) {
    Values right;
    for (const ir::ValueId input : fn_.operands(op)) {
      right.push_back(rows.slice(of(input), k));
    }
    left = combine(fn_.region(op), left, right);
  }
  defineAll(op, std::move(left));
}

void Evaluator::runScan(OpId op) {
  const Type type = fn_.type(fn_.operand(op, 0));
  const Rows rows(type, static_cast<unsigned>(fn_.getInt(op, Attr::axis)));
  const bool reverse = fn_.getBool(op, Attr::reverse);
  Values left, made(fn_.numOperands(op), Value{std::vector<uint64_t>(static_cast<size_t>(type.numElements()))});
  for (size_t step = 0; step < rows.extent; ++step) {
    const size_t k = reverse ? rows.extent - 1 - step : step;
    Values right;
    for (const ir::ValueId input : fn_.operands(op)) {
      right.push_back(rows.slice(of(input), k));
    }
    left = step == 0 ? std::move(right) : combine(fn_.region(op), left, right);
    for (unsigned j = 0; j < made.size(); ++j) {
      for (size_t row = 0; row < rows.count; ++row) {
        put(made[j], rows.position(row, k), left[j], row);
      }
    }
  }
  defineAll(op, std::move(made));
}

void Evaluator::runMap(OpId op) {
  Values inputs;
  for (const ir::ValueId input : fn_.operands(op)) {
    inputs.push_back(of(input));
  }
  defineAll(op, combine(fn_.region(op), inputs, {}));
}

Value Evaluator::dot(OpId op) const {
  const Type a = fn_.type(fn_.operand(op, 0)), b = fn_.type(fn_.operand(op, 1)), type = fn_.type(fn_.result(op));
  const Value &left = operand(op, 0), &right = operand(op, 1), &acc = operand(op, 2);
  const auto n = static_cast<size_t>(type.dim(type.rank() - 1)), m = static_cast<size_t>(type.dim(type.rank() - 2));
  const auto depth = static_cast<size_t>(a.dim(a.rank() - 1));
  const bool isFloat = type.isFloating();
  const auto numbers = [&](const Value &value, const Type &of) {
    std::vector<double> made(isFloat ? value.size() : 0);
    for (size_t i = 0; i < made.size(); ++i) {
      made[i] = numberOf(of.elem(), value.bits[i]);
    }
    return made;
  };
  const std::vector<double> lefts = numbers(left, a), rights = numbers(right, b);
  const bool marked = !left.marks.empty() || !right.marks.empty() || !acc.marks.empty();
  Value made{std::vector<uint64_t>(static_cast<size_t>(type.numElements()))};
  for (size_t i = 0; i < made.size(); ++i) {
    const size_t slice = i / (m * n), row = i / n, column = i % n;
    double sum = isFloat ? numberOf(type.elem(), acc[i]) : 0;
    uint64_t whole = acc[i];
    Mark mark = acc.mark(i);
    for (size_t k = 0; k < depth; ++k) {
      const size_t p = left.at(row * depth + k), q = right.at((slice * depth + k) * n + column);
      if (isFloat) {
        sum = std::fma(lefts[p], rights[q], sum);
      } else {
        whole += left.bits[p] * right.bits[q];
      }
      if (marked) {
        mark = mark != 0 ? mark : left.mark(p) != 0 ? left.mark(p) : right.mark(q);
      }
    }
    made.bits[i] = isFloat ? bitsOf(type.elem(), sum) : wrapped(type.elementBits(), whole);
    made.setMark(i, mark != 0 && !isIndexMark(mark) ? mark : 0);
  }
  return made;
}

} // namespace libtile::runtime::interpreter
