// SPDX-License-Identifier: Apache-2.0
// Integer ranges (family 2 of facts.h). Bounds are computed in 64 bits; what leaves the type's
// range may have wrapped and gives the whole range, or, if indices are promised not to wrap, the part
// inside it.
#include "ir/ops.h"
#include "passes/analysis/facts_builder.h"

#include <algorithm>
#include <bit>

namespace libtile::passes {

using ir::Attr;
using ir::CmpPred;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

IntRange typeRange(Type type) {
  if (type.isBool()) {
    return {0, 1};
  }
  if (!type.isInteger() || type.elementBits() >= 64) {
    return {};
  }
  const int64_t half = int64_t{1} << (type.elementBits() - 1);
  return {-half, half - 1};
}

IntRange hull(IntRange a, IntRange b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }

IntRange intersect(IntRange a, IntRange b) {
  const IntRange both{std::max(a.lo, b.lo), std::min(a.hi, b.hi)};
  return both.lo <= both.hi ? both : a; // contradictory promises: keep one
}

namespace {

constexpr int32_t kMaxGrid = std::numeric_limits<int32_t>::max();

using Wide = __int128;

// i1 and narrow integers are not index arithmetic: there the promise does not hold.
bool assumesNoWrap(Type type, Trust trust) {
  return trust == Trust::Promised && type.elementBits() >= 32;
}

// The range [lo, hi] computed exactly, as a value of the type.
IntRange fit(Wide lo, Wide hi, Type type, bool noWrap) {
  const IntRange whole = typeRange(type);
  if (lo >= whole.lo && hi <= whole.hi) {
    return {static_cast<int64_t>(lo), static_cast<int64_t>(hi)};
  }
  if (!noWrap || lo > whole.hi || hi < whole.lo) {
    return whole;
  }
  return {static_cast<int64_t>(std::max<Wide>(lo, whole.lo)),
          static_cast<int64_t>(std::min<Wide>(hi, whole.hi))};
}

IntRange productRange(IntRange a, IntRange b, Type type, bool noWrap) {
  const Wide corners[] = {Wide{a.lo} * b.lo, Wide{a.lo} * b.hi, Wide{a.hi} * b.lo,
                          Wide{a.hi} * b.hi};
  return fit(*std::ranges::min_element(corners), *std::ranges::max_element(corners), type,
             noWrap);
}

IntRange quotientRange(IntRange a, IntRange b, Type type) {
  if (b.lo > 0) {
    return {std::min(a.lo / b.lo, a.lo / b.hi), std::max(a.hi / b.lo, a.hi / b.hi)};
  }
  // Any divisor, 0 too: the magnitude does not grow.
  const Wide most = std::max(Wide{a.hi}, -Wide{a.lo});
  return a.lo >= 0 && b.lo >= 0 ? IntRange{0, a.hi} : fit(-most, most, type, false);
}

IntRange remainderRange(IntRange a, IntRange b) {
  IntRange result{std::min<int64_t>(a.lo, 0), std::max<int64_t>(a.hi, 0)};
  if (b.lo > 0) { // by 0 the dividend stays
    result.lo = std::max(result.lo, 1 - b.hi);
    result.hi = std::min(result.hi, b.hi - 1);
  }
  return result;
}

int64_t onesBelow(int64_t value) {
  return static_cast<int64_t>((uint64_t{1} << std::bit_width(static_cast<uint64_t>(value))) - 1);
}

IntRange bitRange(Opcode op, IntRange a, IntRange b, Type type) {
  const bool both = a.lo >= 0 && b.lo >= 0;
  if (op == Opcode::And) {
    if (both) {
      return {0, std::min(a.hi, b.hi)};
    }
    return a.lo >= 0 ? IntRange{0, a.hi} : b.lo >= 0 ? IntRange{0, b.hi} : typeRange(type);
  }
  if (!both) {
    return typeRange(type);
  }
  return {op == Opcode::Or ? std::max(a.lo, b.lo) : 0, onesBelow(std::max(a.hi, b.hi))};
}

IntRange shiftRange(Opcode op, IntRange a, IntRange b, Type type, bool noWrap) {
  const unsigned width = type.elementBits();
  const bool known = b.lo == b.hi && b.lo >= 0 && b.lo < width;
  if (op == Opcode::Shl) {
    const Wide power = Wide{1} << (known ? b.lo : 0);
    return known ? fit(a.lo * power, a.hi * power, type, noWrap) : typeRange(type);
  }
  if (op == Opcode::AShr) {
    return known ? IntRange{a.lo >> b.lo, a.hi >> b.lo}
                 : IntRange{std::min<int64_t>(a.lo, 0), std::max<int64_t>(a.hi, 0)};
  }
  if (a.lo >= 0) {
    return known ? IntRange{a.lo >> b.lo, a.hi >> b.lo} : IntRange{0, a.hi};
  }
  if (known && b.lo > 0) {
    return {0, static_cast<int64_t>((~uint64_t{0} >> (64 - width)) >> b.lo)};
  }
  return typeRange(type);
}

} // namespace

IntRange FactsBuilder::rangeOf(OpId op, Trust trust) const {
  const ValueId result = fn_.result(op);
  const Type type = fn_.type(result);
  const IntRange whole = typeRange(type);
  if (!type.isInteger()) {
    return {};
  }
  const auto in = [&](unsigned i) { return claims(fn_.operand(op, i), trust).range; };
  const Opcode opcode = fn_.opcode(op);
  if (opcode == Opcode::Constant) {
    const int64_t value = fn_.constantInt(result).value_or(0);
    return type.isBool() ? IntRange{value & 1, value & 1} : IntRange{value, value};
  }
  if (opcode == Opcode::ProgramId || opcode == Opcode::Worker) {
    return {0, kMaxGrid - 1};
  }
  if (opcode == Opcode::NumPrograms || opcode == Opcode::NumWorkers) {
    return {1, kMaxGrid};
  }
  if (opcode == Opcode::Arange) {
    const int64_t start = fn_.getInt(op, Attr::start);
    return fit(start, Wide{start} + type.dim(0) - 1, type, assumesNoWrap(type, trust));
  }
  if (opcode == Opcode::Splat || opcode == Opcode::Broadcast || opcode == Opcode::ExpandDims ||
      opcode == Opcode::Reshape || opcode == Opcode::Trans || opcode == Opcode::Slice ||
      opcode == Opcode::Gather || opcode == Opcode::Hint ||
      opcode == Opcode::ConvertLayout || opcode == Opcode::SExt) {
    return fn_.type(fn_.operand(op, 0)).isBool() && opcode == Opcode::SExt ? IntRange{-1, 0}
                                                                           : in(0);
  }
  if (opcode == Opcode::ZExt) {
    const unsigned bits = fn_.type(fn_.operand(op, 0)).elementBits();
    return in(0).lo >= 0 ? in(0) : IntRange{0, static_cast<int64_t>((uint64_t{1} << bits) - 1)};
  }
  if (opcode == Opcode::Trunc) {
    return in(0).within(whole.lo, whole.hi) && !type.isBool() ? in(0) : whole;
  }
  if (opcode == Opcode::Select) {
    const IntRange condition = in(0);
    return condition.lo == 1 ? in(1) : condition.hi == 0 ? in(2) : hull(in(1), in(2));
  }
  if (opcode == Opcode::Cmp) {
    return compareRange(op, trust);
  }
  const bool arithmetic = ir::isElementwise(opcode) && fn_.opInfo(op).rule != ir::TypeRule::Cast;
  return arithmetic ? arithmeticRange(op, trust) : whole;
}

IntRange FactsBuilder::arithmeticRange(OpId op, Trust trust) const {
  const Opcode opcode = fn_.opcode(op);
  const Type type = fn_.type(fn_.result(op));
  const auto in = [&](unsigned i) { return claims(fn_.operand(op, i), trust).range; };
  const IntRange a = in(0), whole = typeRange(type);
  const IntRange b = fn_.numOperands(op) > 1 ? in(1) : a;
  const bool noWrap = assumesNoWrap(type, trust);
  const bool bothNonNegative = a.lo >= 0 && b.lo >= 0;
  const auto when = [&](bool known, IntRange range) { return known ? range : whole; };
  if (type.isBool()) {
    const bool bits = opcode == Opcode::And || opcode == Opcode::Or || opcode == Opcode::Xor;
    const bool flip = opcode == Opcode::Xor && a.lo == a.hi && b.lo == b.hi;
    return flip ? IntRange{a.lo ^ b.lo, a.lo ^ b.lo} : when(bits, bitRange(opcode, a, b, type));
  }
  if (opcode == Opcode::Add) {
    return fit(Wide{a.lo} + b.lo, Wide{a.hi} + b.hi, type, noWrap);
  }
  if (opcode == Opcode::Sub) {
    return fit(Wide{a.lo} - b.hi, Wide{a.hi} - b.lo, type, noWrap);
  }
  if (opcode == Opcode::Mul) {
    return productRange(a, b, type, noWrap);
  }
  if (opcode == Opcode::SDiv || opcode == Opcode::UDiv) {
    return when(opcode == Opcode::SDiv || bothNonNegative, quotientRange(a, b, type));
  }
  if (opcode == Opcode::SRem || opcode == Opcode::URem) {
    // An unsigned remainder is below its divisor, whatever is divided.
    const bool isBelow = opcode == Opcode::URem && b.lo > 0;
    return isBelow && !bothNonNegative ? IntRange{0, b.hi - 1} : when(opcode == Opcode::SRem || bothNonNegative, remainderRange(a, b));
  }
  if (opcode == Opcode::And || opcode == Opcode::Or || opcode == Opcode::Xor) {
    return bitRange(opcode, a, b, type);
  }
  if (opcode == Opcode::Shl || opcode == Opcode::LShr || opcode == Opcode::AShr) {
    return shiftRange(opcode, a, b, type, noWrap);
  }
  if (opcode == Opcode::SMin || opcode == Opcode::UMin) {
    return when(opcode == Opcode::SMin || bothNonNegative,
                {std::min(a.lo, b.lo), std::min(a.hi, b.hi)});
  }
  if (opcode == Opcode::SMax || opcode == Opcode::UMax) {
    return when(opcode == Opcode::SMax || bothNonNegative,
                {std::max(a.lo, b.lo), std::max(a.hi, b.hi)});
  }
  if (opcode == Opcode::Neg) {
    return fit(-Wide{a.hi}, -Wide{a.lo}, type, noWrap);
  }
  if (opcode == Opcode::Abs) { // the least integer stays
    const Wide least = a.lo >= 0 ? Wide{a.lo} : a.hi <= 0 ? -Wide{a.hi} : Wide{0};
    return fit(least, std::max(Wide{a.hi}, -Wide{a.lo}), type, noWrap);
  }
  return whole;
}

IntRange FactsBuilder::compareRange(OpId op, Trust trust) const {
  if (!fn_.type(fn_.operand(op, 0)).isInteger()) {
    return {0, 1};
  }
  const auto in = [&](unsigned i) { return claims(fn_.operand(op, i), trust).range; };
  const IntRange a = in(0), b = in(1);
  const auto predicate = fn_.getEnum<CmpPred>(op, Attr::predicate);
  const bool isUnsigned = predicate >= CmpPred::ult && predicate <= CmpPred::uge;
  if (isUnsigned && (a.lo < 0 || b.lo < 0)) {
    return {0, 1};
  }
  const auto decide = [](bool always, bool never) -> IntRange {
    return always ? IntRange{1, 1} : never ? IntRange{0, 0} : IntRange{0, 1};
  };
  const bool apart = a.hi < b.lo || b.hi < a.lo;
  const bool one = a.lo == a.hi && a == b;
  if (predicate == CmpPred::eq) {
    return decide(one, apart);
  }
  if (predicate == CmpPred::ne) {
    return decide(apart, one);
  }
  if (predicate == CmpPred::slt || predicate == CmpPred::ult) {
    return decide(a.hi < b.lo, a.lo >= b.hi);
  }
  if (predicate == CmpPred::sle || predicate == CmpPred::ule) {
    return decide(a.hi <= b.lo, a.lo > b.hi);
  }
  if (predicate == CmpPred::sgt || predicate == CmpPred::ugt) {
    return decide(a.lo > b.hi, a.hi <= b.lo);
  }
  if (predicate == CmpPred::sge || predicate == CmpPred::uge) {
    return decide(a.lo >= b.hi, a.hi < b.lo);
  }
  return {0, 1};
}

} // namespace libtile::passes
