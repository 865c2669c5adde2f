// SPDX-License-Identifier: Apache-2.0
#include "runtime/interpreter/value.h"

#include "runtime/launch.h"

#include <cmath>
#include <cstring>

namespace libtile::runtime::interpreter {

namespace {

double halfNumber(uint64_t bits) {
  // As bits of an fp32, whose exponents begin 112 lower.
  const double finite = double{std::bit_cast<float>(static_cast<uint32_t>((bits & 0x7FFF) << 13))} * 0x1p112;
  const double size = (bits & 0x7C00) != 0x7C00 ? finite : (bits & 0x3FF) != 0 ? NAN : INFINITY;
  return (bits & 0x8000) != 0 ? -size : size;
}

} // namespace

Value Value::picked(const std::vector<size_t> &positions) const {
  Value made;
  const auto pick = [&](const auto &from, auto &to) {
    to.reserve(positions.size());
    for (const size_t position : positions) {
      to.push_back(from[at(position)]);
    }
  };
  pick(bits, made.bits);
  if (!origins.empty()) {
    pick(origins, made.origins);
  }
  if (!marks.empty()) {
    pick(marks, made.marks);
  }
  return made;
}

Value Value::expanded(size_t count) const { return size() == count ? *this : picked(std::vector<size_t>(count)); }

void Value::append(const Value &other) {
  const size_t own = size();
  bits.insert(bits.end(), other.bits.begin(), other.bits.end());
  const auto join = [&](auto &to, const auto &from) {
    if (!to.empty() || !from.empty()) {
      to.resize(own);
      to.insert(to.end(), from.begin(), from.end());
      to.resize(size());
    }
  };
  join(origins, other.origins);
  join(marks, other.marks);
}

double numberOf(ir::Elem elem, uint64_t bits) {
  return elem == ir::Elem::F16    ? halfNumber(bits)
         : elem == ir::Elem::BF16 ? double{std::bit_cast<float>(static_cast<uint32_t>(bits << 16))}
         : elem == ir::Elem::F32  ? double{std::bit_cast<float>(static_cast<uint32_t>(bits))}
                                  : std::bit_cast<double>(bits);
}

uint64_t bitsOf(ir::Elem elem, double number) {
  return elem == ir::Elem::F16    ? roundToHalf(number)
         : elem == ir::Elem::BF16 ? roundToBfloat(number)
         : elem == ir::Elem::F32  ? std::bit_cast<uint32_t>(static_cast<float>(number))
                                  : std::bit_cast<uint64_t>(number);
}

double addToOdd(double a, double b) {
  const double sum = a + b;
  const double fromB = sum - a;
  const double error = (a - (sum - fromB)) + (b - fromB);
  if (!std::isfinite(sum) || error == 0 || (std::bit_cast<uint64_t>(sum) & 1) != 0) {
    return sum;
  }
  return std::nextafter(sum, error > 0 ? INFINITY : -INFINITY);
}

double toOdd(bool isSigned, uint64_t integer) {
  const bool isNegative = isSigned && static_cast<int64_t>(integer) < 0;
  const uint64_t size = isNegative ? 0 - integer : integer;
  const int dropped = 11 - std::countl_zero(size);
  const uint64_t rest = dropped > 0 ? size & ((uint64_t{1} << dropped) - 1) : 0;
  const double number = static_cast<double>(rest != 0 ? ((size - rest) | (uint64_t{1} << dropped)) : size);
  return isNegative ? -number : number;
}

uint64_t readElement(const ir::Type &element, const void *from) {
  uint64_t bits = 0;
  std::memcpy(&bits, from, element.elementBytes());
  if (element.isBool()) {
    return bits != 0 ? 1 : 0;
  }
  return element.isInteger() ? wrapped(element.elementBits(), bits) : bits;
}

void writeElement(const ir::Type &element, uint64_t bits, void *to) {
  std::memcpy(to, &bits, element.elementBytes());
}

} // namespace libtile::runtime::interpreter
