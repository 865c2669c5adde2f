// SPDX-License-Identifier: Apache-2.0
// Quotients by numbers, as products with the upper half of a reciprocal (Warren, "Hacker's Delight", chapter 10).
#include "codegen/nvidia/ptx/function.h"

#include <llvm/Support/DivisionByConstantInfo.h>

namespace libtile::codegen::nvidia::ptx {

namespace {

using Op = llvm::Instruction;

llvm::APInt numberOf(unsigned bits, uint64_t value) { return llvm::APInt(64, value).trunc(bits); }

} // namespace

Operand FunctionWriter::quotient(unsigned bits, Operand a, uint64_t by) {
  const Size size = a.size;
  const auto shifted = [&](Operand value, unsigned distance) {
    return simple(Op::LShr, bits, value, Operand::integer(Size::B32, distance));
  };
  if (llvm::isPowerOf2_64(by)) {
    return shifted(a, llvm::Log2_64(by));
  }
  const auto known = llvm::UnsignedDivisionByConstantInfo::get(numberOf(bits, by));
  const Operand magic = Operand::integer(size, known.Magic.getSExtValue());
  const Operand high = made(size, "mul.hi.u" + llvm::Twine(bits), {shifted(a, known.PreShift), magic});
  if (!known.IsAdd) {
    return shifted(high, known.PostShift);
  }
  const Operand half = shifted(simple(Op::Sub, bits, a, high), 1);
  return shifted(simple(Op::Add, bits, half, high), known.PostShift);
}

Operand FunctionWriter::signedQuotient(unsigned bits, Operand a, int64_t by) {
  const auto negated = [&](Operand value) { return simple(Op::Sub, bits, Operand::integer(a.size, 0), value); };
  const auto shifted = [&](Op::BinaryOps how, Operand value, unsigned distance) {
    return simple(how, bits, value, Operand::integer(Size::B32, distance));
  };
  const llvm::APInt number = numberOf(bits, static_cast<uint64_t>(by));
  if (number.abs().isPowerOf2()) {
    const unsigned distance = number.abs().logBase2();
    // Towards zero: of what is negative one less than the divisor more.
    const Operand sign = distance == 0 ? a : shifted(Op::AShr, a, bits - 1);
    const Operand whole = distance == 0 ? a : simple(Op::Add, bits, a, shifted(Op::LShr, sign, bits - distance));
    const Operand out = distance == 0 ? a : shifted(Op::AShr, whole, distance);
    return number.isNegative() ? negated(out) : out;
  }
  const auto known = llvm::SignedDivisionByConstantInfo::get(number);
  Operand out = made(a.size, "mul.hi.s" + llvm::Twine(bits), {a, Operand::integer(a.size, known.Magic.getSExtValue())});
  if (number.isNegative() != known.Magic.isNegative()) {
    out = simple(number.isNegative() ? Op::Sub : Op::Add, bits, out, a);
  }
  out = shifted(Op::AShr, out, known.ShiftAmount);
  return simple(Op::Add, bits, out, shifted(Op::LShr, out, bits - 1));
}

Operand FunctionWriter::divided(bool isSigned, bool isRemainder, unsigned bits, Operand a, int64_t by) {
  if (bits < 32) { // in a word
    const Operand out = divided(isSigned, isRemainder, 32, word(a, 16, isSigned),
                                isSigned ? by : static_cast<int64_t>(static_cast<uint64_t>(by) & ((uint64_t{1} << bits) - 1)));
    return truncated(out, 32, 16);
  }
  const uint64_t number = bits == 64 ? static_cast<uint64_t>(by) : static_cast<uint32_t>(by);
  if (!isSigned && isRemainder && llvm::isPowerOf2_64(number)) {
    return simple(Op::And, bits, a, Operand::integer(a.size, static_cast<int64_t>(number - 1)));
  }
  const Operand whole = isSigned ? signedQuotient(bits, a, by) : quotient(bits, a, number);
  if (!isRemainder) {
    return whole;
  }
  return simple(Op::Sub, bits, a, simple(Op::Mul, bits, whole, Operand::integer(a.size, by)));
}

} // namespace libtile::codegen::nvidia::ptx
