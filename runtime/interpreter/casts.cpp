// SPDX-License-Identifier: Apache-2.0
// Conversions from one element type to another.
#include "runtime/interpreter/evaluator.h"

#include "ir/float8.h"
#include "runtime/interpreter/each.h"

#include <cmath>

namespace libtile::runtime::interpreter {

using ir::Attr;
using ir::Elem;
using ir::Opcode;
using ir::OpId;
using ir::Type;

namespace {

// Towards zero; NaN gives 0, what is beyond the type its least or greatest integer.
uint64_t saturated(bool isUnsigned, unsigned width, double number) {
  const double least = isUnsigned ? 0 : -std::ldexp(1.0, static_cast<int>(width) - 1);
  const double most = std::ldexp(1.0, static_cast<int>(width) - (isUnsigned ? 0 : 1));
  if (std::isnan(number)) {
    return 0;
  }
  if (number >= most) {
    return lowBits(width, ~uint64_t{0}) >> (isUnsigned ? 0 : 1);
  }
  if (number <= least) {
    return isUnsigned ? 0 : uint64_t{1} << (width - 1);
  }
  return isUnsigned ? static_cast<uint64_t>(number) : static_cast<uint64_t>(static_cast<int64_t>(number));
}

uint64_t toFloat(bool isSigned, Elem elem, uint64_t integer) {
  if (elem == Elem::F64 || elem == Elem::F32) {
    const auto number = static_cast<int64_t>(integer);
    if (elem == Elem::F32) {
      return std::bit_cast<uint32_t>(isSigned ? static_cast<float>(number) : static_cast<float>(integer));
    }
    return std::bit_cast<uint64_t>(isSigned ? static_cast<double>(number) : static_cast<double>(integer));
  }
  return bitsOf(elem, toOdd(isSigned, integer));
}

// The same bits, as they are held for the type.
uint64_t reinterpreted(const Type &to, uint64_t bits) {
  return to.isInteger() ? wrapped(to.elementBits(), bits) : lowBits(to.elementBits(), bits);
}

// One element. Of pointers: the address.
uint64_t converted(const ir::Function &fn, OpId op, const Type &from, const Type &to, uint64_t x) {
  const unsigned width = from.elementBits();
  const auto format = [&] { return fn.getEnum<ir::Float8>(op, Attr::format); };
  switch (fn.opcode(op)) {
  case Opcode::SExt: return wrapped(to.elementBits(), static_cast<uint64_t>(signedOf(width, x)));
  case Opcode::ZExt: return wrapped(to.elementBits(), lowBits(width, x));
  case Opcode::Trunc: return wrapped(to.elementBits(), x);
  case Opcode::FpExt: case Opcode::FpTrunc: return bitsOf(to.elem(), numberOf(from.elem(), x));
  case Opcode::SIToFp: return toFloat(true, to.elem(), static_cast<uint64_t>(signedOf(width, x)));
  case Opcode::UIToFp: return toFloat(false, to.elem(), lowBits(width, x));
  case Opcode::FpToSI: case Opcode::FpToUI: {
    const bool isUnsigned = fn.opcode(op) == Opcode::FpToUI;
    return wrapped(to.elementBits(), saturated(isUnsigned, to.elementBits(), numberOf(from.elem(), x)));
  }
  case Opcode::Bitcast: case Opcode::PtrToInt: case Opcode::IntToPtr: return reinterpreted(to, x);
  case Opcode::Float8Decode:
    return bitsOf(to.elem(), ir::decodeFloat8(format(), static_cast<uint8_t>(x)));
  case Opcode::Float8Encode:
    return wrapped(8, ir::encodeFloat8(format(), numberOf(from.elem(), x)));
#define CAST(...)
#define OP(Name, ...) case Opcode::Name:
#include "ir/ops.def"
    break;
  }
  throw ir::InternalError("no cast");
}

} // namespace

Value Evaluator::cast(OpId op) {
  const Type from = fn_.type(fn_.operand(op, 0)), to = fn_.type(fn_.result(op));
  Value made = each(operand(op, 0), [&](uint64_t x) { return converted(fn_, op, from, to, x); });
  const Opcode opcode = fn_.opcode(op);
  if (opcode == Opcode::Bitcast || opcode == Opcode::PtrToInt || opcode == Opcode::IntToPtr) {
    made.origins = operand(op, 0).origins;
  }
  return made;
}

} // namespace libtile::runtime::interpreter
