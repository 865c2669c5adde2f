// SPDX-License-Identifier: Apache-2.0
// Reductions, scans, maps and dots. A region without control flow runs once for many elements: those side by side
// are the elements of its scalars.
#include "runtime/interpreter/evaluator.h"

#include <algorithm>
#include <cmath>

namespace libtile::runtime::interpreter {

using ir::Attr;
using ir::BlockId;
using ir::Elem;
using ir::OpId;
using ir::Type;

namespace {

// The elements of a tile as rows along an axis.
struct Rows {
  size_t inner = 1, extent = 1, count = 1;
  Rows(const Type &type, unsigned axis) : extent(static_cast<size_t>(type.dim(axis))) {
    for (unsigned i = axis + 1; i < type.rank(); ++i) {
      inner *= static_cast<size_t>(type.dim(i));
    }
    count = static_cast<size_t>(type.numElements()) / extent;
  }
  // Element k of all rows, for each k.
  [[nodiscard]] std::vector<size_t> columns() const {
    std::vector<size_t> positions;
    positions.reserve(extent * count);
    for (size_t k = 0; k < extent; ++k) {
      for (size_t row = 0; row < count; ++row) {
        positions.push_back((row / inner * extent + k) * inner + row % inner);
      }
    }
    return positions;
  }
};

// Columns of so many elements, `count` of them from column `first` on, each `step` behind the one before.
std::vector<Value> columnsOf(const std::vector<Value> &values, size_t height, size_t first, size_t step, size_t count) {
  std::vector<size_t> positions;
  positions.reserve(count * height);
  for (size_t k = 0; k < count; ++k) {
    for (size_t row = 0; row < height; ++row) {
      positions.push_back((first + k * step) * height + row);
    }
  }
  std::vector<Value> made;
  for (const Value &value : values) {
    made.push_back(value.picked(positions));
  }
  return made;
}

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

// Neighbours are combined, all pairs at once: few steps, each of many elements.
void Evaluator::runReduce(OpId op) {
  const Rows rows(fn_.type(fn_.operand(op, 0)), static_cast<unsigned>(fn_.getInt(op, Attr::axis)));
  const std::vector<size_t> positions = rows.columns();
  Values all;
  for (const ir::ValueId input : fn_.operands(op)) {
    all.push_back(of(input).picked(positions));
  }
  for (size_t extent = rows.extent; extent > 1; extent = (extent + 1) / 2) {
    const size_t pairs = extent / 2;
    const Values last = columnsOf(all, rows.count, extent - 1, 1, extent % 2);
    all = combine(fn_.region(op), columnsOf(all, rows.count, 0, 2, pairs), columnsOf(all, rows.count, 1, 2, pairs));
    for (size_t j = 0; extent % 2 != 0 && j < all.size(); ++j) {
      all[j] = all[j].expanded(pairs * rows.count);
      all[j].append(last[j]);
    }
  }
  defineAll(op, std::move(all));
}

// A column is combined with that `distance` before it, which then stands for as many columns.
void Evaluator::runScan(OpId op) {
  const Type type = fn_.type(fn_.operand(op, 0));
  const Rows rows(type, static_cast<unsigned>(fn_.getInt(op, Attr::axis)));
  std::vector<size_t> positions = rows.columns();
  if (fn_.getBool(op, Attr::reverse)) {
    std::ranges::reverse(positions);
  }
  Values all;
  for (const ir::ValueId input : fn_.operands(op)) {
    all.push_back(of(input).picked(positions));
  }
  for (size_t distance = 1; distance < rows.extent; distance *= 2) {
    const size_t rest = rows.extent - distance;
    Values first = columnsOf(all, rows.count, 0, 1, distance);
    const Values later = combine(fn_.region(op), columnsOf(all, rows.count, 0, 1, rest),
                                 columnsOf(all, rows.count, distance, 1, rest));
    for (size_t j = 0; j < all.size(); ++j) {
      first[j].append(later[j].expanded(rest * rows.count));
    }
    all = std::move(first);
  }
  std::vector<size_t> back(positions.size());
  for (size_t i = 0; i < positions.size(); ++i) {
    back[positions[i]] = i;
  }
  for (Value &value : all) {
    value = value.picked(back);
  }
  defineAll(op, std::move(all));
}

void Evaluator::runMap(OpId op) {
  Values inputs;
  for (const ir::ValueId input : fn_.operands(op)) {
    inputs.push_back(of(input));
  }
  defineAll(op, combine(fn_.region(op), inputs, {}));
}

Value Evaluator::dot(OpId op) const {
  if (fn_.hasAttr(op, ir::Attr::format_a)) {
    throw ir::Unsupported("the interpreter does not multiply codes of 8-bit floats", fn_.locationOf(op));
  }
  const Type a = fn_.type(fn_.operand(op, 0)), b = fn_.type(fn_.operand(op, 1)), type = fn_.type(fn_.result(op));
  if (work_ != nullptr) {
    countDot(op);
  }
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
  Value made{std::vector<uint64_t>(static_cast<size_t>(type.numElements()))};
  // Of one row of the result. Products of formats below f64 are exact.
  std::vector<double> sums(isFloat ? n : 0);
  for (size_t row = 0; row < made.size() / n; ++row) {
    const size_t slice = row / m;
    for (size_t j = 0; j < sums.size(); ++j) {
      sums[j] = numberOf(type.elem(), acc[row * n + j]);
    }
    for (size_t j = 0; j < n && !isFloat; ++j) {
      made.bits[row * n + j] = acc[row * n + j];
    }
    for (size_t k = 0; k < depth; ++k) {
      const size_t p = left.at(row * depth + k), q = (slice * depth + k) * n, step = right.size() == 1 ? 0 : 1;
      for (size_t j = 0; j < n && !isFloat; ++j) {
        made.bits[row * n + j] += left.bits[p] * right.bits[(q + j) * step];
      }
      for (size_t j = 0; j < sums.size(); ++j) {
        const double y = rights[(q + j) * step];
        sums[j] = a.elem() == Elem::F64 ? std::fma(lefts[p], y, sums[j]) : sums[j] + lefts[p] * y;
      }
    }
    for (size_t j = 0; j < n; ++j) {
      uint64_t &bits = made.bits[row * n + j];
      bits = isFloat ? bitsOf(type.elem(), sums[j]) : wrapped(type.elementBits(), bits);
    }
  }
  markDot(op, made);
  return made;
}

// An undefined element of either operand is one of all that it goes into.
void Evaluator::markDot(OpId op, Value &result) const {
  const Value &left = operand(op, 0), &right = operand(op, 1), &acc = operand(op, 2);
  if (left.marks.empty() && right.marks.empty() && acc.marks.empty()) {
    return;
  }
  const Type a = fn_.type(fn_.operand(op, 0)), type = fn_.type(fn_.result(op));
  const auto n = static_cast<size_t>(type.dim(type.rank() - 1)), m = static_cast<size_t>(type.dim(type.rank() - 2));
  const auto depth = static_cast<size_t>(a.dim(a.rank() - 1));
  for (size_t i = 0; i < result.size(); ++i) {
    Mark mark = acc.mark(i);
    for (size_t k = 0; k < depth && mark == 0; ++k) {
      const Mark own = left.mark(i / n * depth + k);
      mark = own != 0 ? own : right.mark((i / (m * n) * depth + k) * n + i % n);
    }
    result.setMark(i, mark != 0 && !isIndexMark(mark) ? mark : 0);
  }
}

} // namespace libtile::runtime::interpreter
