// SPDX-License-Identifier: Apache-2.0
// What the interpreter holds of a value.
#pragma once

#include "ir/type.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace libtile::runtime::interpreter {

// The op whose result an element comes from that is not what it seems: 1 + its index; 0: none.
using Mark = uint32_t;
// The parameter that a pointer was made from: 1 + its index; 0: not known.
using Origin = uint32_t;

// The elements in row-major order. A scalar has one, and one element stands for as many as are asked for.
struct Value {
  // Integers sign-extended (i1: 0 or 1), floats as the bits of their format, pointers as addresses.
  std::vector<uint64_t> bits;
  std::vector<Origin> origins = {}; // empty: all 0
  std::vector<Mark> marks = {};     // empty: all 0

  [[nodiscard]] size_t size() const { return bits.size(); }
  [[nodiscard]] size_t at(size_t i) const { return bits.size() == 1 ? 0 : i; }
  [[nodiscard]] uint64_t operator[](size_t i) const { return bits[at(i)]; }
  [[nodiscard]] int64_t integer(size_t i) const { return static_cast<int64_t>(bits[at(i)]); }
  [[nodiscard]] Origin origin(size_t i) const { return origins.empty() ? 0 : origins[at(i)]; }
  [[nodiscard]] Mark mark(size_t i) const { return marks.empty() ? 0 : marks[at(i)]; }
  void setMark(size_t i, Mark mark) {
    if (mark != 0) {
      marks.resize(bits.size());
      marks[i] = mark;
    }
  }
  // Element i as a value of its own.
  [[nodiscard]] Value one(size_t i) const { return picked({i}); }
  // The elements at these positions.
  [[nodiscard]] Value picked(const std::vector<size_t> &positions) const;
  // With so many elements of its own.
  [[nodiscard]] Value expanded(size_t count) const;
  // The elements of another value behind these.
  void append(const Value &other);
};

// ---- numbers

// Sign-extended from the width; i1: 0 or 1.
[[nodiscard]] inline uint64_t wrapped(unsigned width, uint64_t value) {
  if (width == 1) {
    return value & 1;
  }
  const unsigned shift = 64 - width;
  return static_cast<uint64_t>(static_cast<int64_t>(value << shift) >> shift);
}
[[nodiscard]] inline uint64_t lowBits(unsigned width, uint64_t value) {
  return width >= 64 ? value : value & ((uint64_t{1} << width) - 1);
}
// As ops that take signed integers see it: i1 true is -1.
[[nodiscard]] inline int64_t signedOf(unsigned width, uint64_t value) {
  return width == 1 ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
}

// The number that the bits of a float of this format are, exactly.
[[nodiscard]] double numberOf(ir::Elem elem, uint64_t bits);
// The bits of the nearest float, ties to even.
[[nodiscard]] uint64_t bitsOf(ir::Elem elem, double number);
// For a second rounding: a + b, and a number that is not exact is the neighbour whose last bit is odd, so that
// the second rounding sees that something was dropped.
[[nodiscard]] double addToOdd(double a, double b);
[[nodiscard]] double toOdd(bool isSigned, uint64_t integer);

// An element of memory, of so many bytes (i1: one), and back.
[[nodiscard]] uint64_t readElement(const ir::Type &element, const void *from);
void writeElement(const ir::Type &element, uint64_t bits, void *to);

} // namespace libtile::runtime::interpreter
