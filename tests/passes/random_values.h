// SPDX-License-Identifier: Apache-2.0
// What a generator of random programs picks from: numbers, values made so far, constants.
#pragma once

#include "ir/ops.h"
#include "tests/passes/random_program.h"

#include <algorithm>

namespace libtile::test {

class RandomValues {
public:
  RandomValues(uint64_t seed, RandomOptions options)
      : random_(seed), options_(options), b_(out_.fn) {}

protected:
  using Attr = ir::Attr;
  using AttrValue = ir::AttrValue;
  using Elem = ir::Elem;
  using Opcode = ir::Opcode;
  using Type = ir::Type;
  using ValueId = ir::ValueId;

  uint32_t pick(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  bool chance(uint32_t percent) { return pick(100) < percent; }

  template <class T> T oneOf(std::initializer_list<T> list) {
    return list.begin()[pick(list.size())];
  }

  ValueId arange(int32_t extent, int64_t start) {
    const Type type = Type::tile({extent}, Type::scalar(Elem::I32));
    const ValueId value = b_.make(Opcode::Arange, {}, type);
    out_.fn.setAttr(out_.fn.def(value), Attr::start, AttrValue(start));
    return value;
  }

  ValueId any(const auto &fits) {
    std::vector<ValueId> found;
    std::ranges::copy_if(pool_, std::back_inserter(found),
                         [&](ValueId value) { return fits(type(value)); });
    if (found.empty()) {
      return {};
    }
    // Newer ones more often, so that chains grow.
    const size_t n = found.size();
    return found[std::max<size_t>(pick(n), pick(n))];
  }
  Type type(ValueId value) const { return out_.fn.type(value); }

  ValueId constantOf(Type type) {
    if (type.isFloating()) {
      return b_.constFloat(type, oneOf<double>({0.0, -0.0, 1.0, 2.0, -1.5, 0.25, 3.0}));
    }
    const int64_t least = INT64_MIN >> (64 - type.elementBits());
    const int64_t value = options_.indexLike
                              ? oneOf<int64_t>({0, 1, 2, 3, 4, 8, 16, 7, 12, -1, -8})
                              : oneOf<int64_t>({0, 1, 2, -1, 3, 8, 31, 127, INT32_MAX, least, ~least,
                                                static_cast<int64_t>(random_())});
    return b_.constInt(type, value);
  }

  // A value of the type: from the pool, a splat, or a constant.
  ValueId operandOf(Type wanted) {
    const ValueId found = any([&](Type t) { return t == wanted; });
    if (found.valid() && chance(60)) {
      return found;
    }
    const ValueId scalar =
        wanted.isTile() ? any([&](Type t) { return t == wanted.element(); }) : ValueId{};
    return scalar.valid() && chance(60) ? b_.splat(scalar, wanted.shape()) : constantOf(wanted);
  }

  // Backwards, or every second element.
  ValueId slice(ValueId a) {
    const Type t = type(a);
    const unsigned axis = pick(t.rank());
    const int32_t extent = t.dim(axis);
    const bool half = extent % 8 == 0 && chance(60);
    std::vector<int32_t> shape(t.shape().begin(), t.shape().end());
    shape[axis] = half ? extent / 2 : extent;
    const ValueId made = b_.make(Opcode::Slice, {a}, t.withShape(shape));
    const ir::OpId op = out_.fn.def(made);
    out_.fn.setAttr(op, Attr::axis, AttrValue(int64_t{axis}));
    out_.fn.setAttr(op, Attr::start, AttrValue(half ? int64_t{pick(2)} : int64_t{extent} - 1));
    out_.fn.setAttr(op, Attr::step, AttrValue(int64_t{half ? 2 : -1}));
    return made;
  }

  // At any indices of the same shape, kept inside.
  ValueId gather(ValueId a) {
    const Type t = type(a), i32 = Type::tile(t.shape(), Type::scalar(Elem::I32));
    const unsigned axis = pick(t.rank());
    const ValueId last = b_.constInt(i32, t.dim(axis) - 1);
    const ValueId made =
        b_.make(Opcode::Gather, {a, b_.make(Opcode::UMin, {operandOf(i32), last})}, t);
    out_.fn.setAttr(out_.fn.def(made), Attr::axis, AttrValue(int64_t{axis}));
    return made;
  }

  std::mt19937_64 random_;
  RandomOptions options_;
  RandomProgram out_;
  ir::Builder b_;
  std::vector<ValueId> pool_; // what later ops may use
};

} // namespace libtile::test
