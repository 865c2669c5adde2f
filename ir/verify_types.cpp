// SPDX-License-Identifier: Apache-2.0
// Invariants 10 to 12, what the type rules of ops.def say, and 25 of call_sums (the list is in verifier.cpp).
#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/verifier_impl.h"

namespace libtile::ir {

namespace {

// The rest of the operands of a load, store or atomic: values like the pointee, masks of i1.
void verifyAccess(Checker &checker, OpId op) {
  const OpInfo &row = checker.fn.opInfo(op);
  const Type pointer = checker.operandType(op, 0);
  if (!checker.require((pointer.isScalar() || pointer.isTile()) && pointer.isPointer() &&
                           !(pointer.pointerDepth() == 1 && pointer.elem() == Elem::Void),
                       11, op, "the address is no pointer to a value")) {
    return;
  }
  const Type value = pointer.pointee();
  for (unsigned i = 1; i < checker.fn.numOperands(op); ++i) {
    const std::string_view name = row.operands[i].name;
    const bool isMask = name == "mask";
    if (name == "buffer") {
      continue;
    }
    const Type wanted = isMask ? value.withElement(Elem::I1) : value;
    if (checker.operandType(op, i) != wanted) {
      checker.fail(11, op,
                   "operand " + std::string(name) + " is " + checker.operandType(op, i).str() +
                       ", not " + wanted.str());
    }
  }
  if (!checker.fn.results(op).empty()) {
    checker.require(checker.resultType(op) == value, 11, op, "the result is not the pointee");
  }
}

struct CastRow {
  Opcode opcode;
  bool (*fits)(const Type &from, const Type &to);
};

bool wider(const Type &a, const Type &b) { return a.elementBits() > b.elementBits(); }
bool integers(const Type &a, const Type &b) { return a.isInteger() && b.isInteger(); }
bool widens(const Type &from, const Type &to) { return integers(from, to) && wider(to, from); }
bool toFloat(const Type &from, const Type &to) { return from.isInteger() && to.isFloating(); }
bool toInteger(const Type &from, const Type &to) { return from.isFloating() && to.isInteger(); }
bool isAddress(const Type &type) { return type.isInteger() && type.elem() == Elem::I64; }
bool isCode(const Type &type) { return type.isInteger() && type.elem() == Elem::I8; }
bool isUpToSingle(const Type &type) { return type.isFloating() && type.elementBits() <= 32; }

constexpr CastRow kCasts[] = {
    {Opcode::SExt, widens},
    {Opcode::ZExt, widens},
    {Opcode::Trunc, [](const Type &a, const Type &b) { return integers(a, b) && wider(a, b); }},
    {Opcode::FpExt,
     [](const Type &a, const Type &b) { return a.isFloating() && b.isFloating() && wider(b, a); }},
    {Opcode::FpTrunc,
     [](const Type &a, const Type &b) {
       return a.isFloating() && b.isFloating() && a.elem() != b.elem() && !wider(b, a);
     }},
    {Opcode::SIToFp, toFloat},
    {Opcode::UIToFp, toFloat},
    {Opcode::FpToSI, toInteger},
    {Opcode::FpToUI, toInteger},
    {Opcode::Bitcast,
     [](const Type &a, const Type &b) {
       return a.isPointer() == b.isPointer() && a.elementBits() == b.elementBits();
     }},
    {Opcode::PtrToInt, [](const Type &a, const Type &b) { return a.isPointer() && isAddress(b); }},
    {Opcode::IntToPtr, [](const Type &a, const Type &b) { return isAddress(a) && b.isPointer(); }},
    {Opcode::Float8Decode,
     [](const Type &a, const Type &b) { return isCode(a) && isUpToSingle(b); }},
    {Opcode::Float8Encode, [](const Type &a, const Type &b) { return a.isFloating() && isCode(b); }},
};

bool castFits(Opcode opcode, const Type &from, const Type &to) {
  for (const CastRow &row : kCasts) {
    if (row.opcode == opcode) {
      return row.fits(from, to);
    }
  }
  return false;
}

void verifyInferred(Checker &checker, OpId op) {
  const Type wanted = inferType(checker.fn, checker.fn.opcode(op), checker.fn.operands(op));
  if (wanted.isNone()) {
    checker.fail(10, op, "operand types do not fit the op");
  } else if (checker.resultType(op) != wanted) {
    checker.fail(10, op, "the result is " + checker.resultType(op).str() + ", not " + wanted.str());
  }
}

// eq and ne: integers and pointers; the other s and u forms: integers; o forms and une: floats.
void verifyPredicate(Checker &checker, OpId op) {
  const auto predicate = checker.fn.getEnum<CmpPred>(op, Attr::predicate);
  const Type type = checker.operandType(op, 0);
  const bool floats = predicate >= CmpPred::oeq;
  const bool pointers = predicate == CmpPred::eq || predicate == CmpPred::ne;
  checker.require(floats ? type.isFloating() : type.isInteger() || (pointers && type.isPointer()),
                  10, op, "the predicate does not fit the operands");
}

} // namespace

void verifyTypeRule(Checker &checker, OpId op) {
  const Opcode opcode = checker.fn.opcode(op);
  const bool buffersToo = opcode == Opcode::Store || opcode == Opcode::AsyncCopy;
  switch (info(opcode).rule) {
  case TypeRule::Same:
    // Hints may stand on pointers, arithmetic may not.
    checker.require(opcode == Opcode::Hint || !checker.resultType(op).isPointer(), 10, op,
                    "arithmetic on pointers");
    [[fallthrough]];
  case TypeRule::SameInt:
  case TypeRule::SameFloat:
  case TypeRule::Select:
  case TypeRule::PtrAdd:
    return verifyInferred(checker, op);
  case TypeRule::Compare:
    verifyPredicate(checker, op);
    return verifyInferred(checker, op);
  case TypeRule::Load:
    return verifyAccess(checker, op);
  case TypeRule::Cast: {
    const Type from = checker.operandType(op, 0);
    const Type to = checker.resultType(op);
    const bool valued = (from.isScalar() || from.isTile()) && to == from.withElement(to.element());
    if (!valued || !castFits(opcode, from, to)) {
      checker.fail(12, op, "cannot cast " + from.str() + " to " + to.str());
    }
    return;
  }
  case TypeRule::None:
    if (buffersToo) {
      verifyAccess(checker, op);
    }
    return;
  case TypeRule::Explicit:
  case TypeRule::Dot:
  case TypeRule::Reduce:
  case TypeRule::Map:
  case TypeRule::Scan:
  case TypeRule::Region:
  case TypeRule::Nest:
  case TypeRule::Fold:
    return;
  }
}

void verifyCallSums(Checker &c, OpId op) {
  const Function &fn = c.fn;
  const Type sums = c.resultType(op), array = c.operandType(op, 0);
  const bool isIntegers = sums.isBuffer() && sums.rank() == 1 && sums.element().isInteger() && sums.elementBytes() >= 4;
  c.require(isIntegers, 25, op, "sums are a buffer of i32 or i64 with one axis");
  c.require(fn.isArg(fn.operand(op, 0)) && array.isPointer() && array.isScalar() && (!isIntegers || array.pointee() == sums.element()), 25, op,
            "the array is no parameter, or of another type");
  c.require(fn.getInt(op, Attr::start) >= 0 && fn.getInt(op, Attr::offset) >= 0, 25, op, "a negative start or offset");
}

} // namespace libtile::ir
