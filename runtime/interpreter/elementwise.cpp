// SPDX-License-Identifier: Apache-2.0
// Which family an elementwise op is of; comparisons, selects, pointers; and how marks go along (interpreter.h).
#include "runtime/interpreter/evaluator.h"

#include "runtime/interpreter/each.h"

namespace libtile::runtime::interpreter {

using ir::Attr;
using ir::CmpPred;
using ir::Opcode;
using ir::OpId;

namespace {

// Sums and products of indices, and what makes them wider.
bool keepsIndexMarks(Opcode opcode) {
  return opcode == Opcode::Add || opcode == Opcode::Sub || opcode == Opcode::Mul || opcode == Opcode::SExt ||
         opcode == Opcode::PtrAdd || opcode == Opcode::Bitcast;
}

// Whether that operand alone says what the result is: x & 0, x * 0 and x | -1.
bool decidesAlone(Opcode opcode, const ir::Type &type, uint64_t bits) {
  const uint64_t ones = wrapped(type.elementBits(), ~uint64_t{0});
  return type.isInteger() && (opcode == Opcode::And || opcode == Opcode::Mul ? bits == 0
                              : opcode == Opcode::Or                         ? bits == ones
                                                                             : false);
}

bool holds(CmpPred predicate, int64_t a, int64_t b, uint64_t ua, uint64_t ub) {
  switch (predicate) {
  case CmpPred::eq: return a == b;
  case CmpPred::ne: return a != b;
  case CmpPred::slt: return a < b;
  case CmpPred::sle: return a <= b;
  case CmpPred::sgt: return a > b;
  case CmpPred::sge: return a >= b;
  case CmpPred::ult: return ua < ub;
  case CmpPred::ule: return ua <= ub;
  case CmpPred::ugt: return ua > ub;
  case CmpPred::uge: return ua >= ub;
  case CmpPred::oeq: case CmpPred::one: case CmpPred::olt: case CmpPred::ole: case CmpPred::ogt:
  case CmpPred::oge: case CmpPred::une:
    break;
  }
  throw ir::InternalError("a comparison of floats on integers");
}

bool holds(CmpPred predicate, double a, double b) {
  switch (predicate) {
  case CmpPred::oeq: case CmpPred::eq: return a == b;
  case CmpPred::one: return a < b || a > b;
  case CmpPred::olt: return a < b;
  case CmpPred::ole: return a <= b;
  case CmpPred::ogt: return a > b;
  case CmpPred::oge: return a >= b;
  case CmpPred::une: case CmpPred::ne: return !(a == b);
  case CmpPred::slt: case CmpPred::sle: case CmpPred::sgt: case CmpPred::sge: case CmpPred::ult:
  case CmpPred::ule: case CmpPred::ugt: case CmpPred::uge:
    break;
  }
  throw ir::InternalError("a comparison of integers on floats");
}

} // namespace

bool Evaluator::isIndexMark(Mark mark) const {
  const Opcode opcode = fn_.opcode(OpId{mark - 1});
  return opcode == Opcode::Add || opcode == Opcode::Sub || opcode == Opcode::Mul;
}

// An undefined element counts more than one that wrapped.
void Evaluator::inheritMarks(OpId op, Value &result) const {
  const Opcode opcode = fn_.opcode(op);
  const bool keepsAll = keepsIndexMarks(opcode);
  for (unsigned k = 0; k < fn_.numOperands(op); ++k) {
    const Value &from = operand(op, k);
    for (size_t i = 0; !from.marks.empty() && i < result.size(); ++i) {
      const Mark mark = from.mark(i);
      if (mark == 0 || (isIndexMark(mark) && (!keepsAll || result.mark(i) != 0))) {
        continue;
      }
      bool isDecided = false;
      for (unsigned other = 0; other < fn_.numOperands(op); ++other) {
        const Value &value = operand(op, other);
        isDecided = isDecided || (other != k && value.mark(i) == 0 &&
                                  decidesAlone(opcode, fn_.type(fn_.operand(op, other)), value[i]));
      }
      if (!isDecided) {
        result.setMark(i, mark);
      }
    }
  }
}

Value Evaluator::elementwise(OpId op) {
  const Opcode opcode = fn_.opcode(op);
  if (opcode == Opcode::Select) {
    return select(op);
  }
  Value result = opcode == Opcode::PtrAdd ? addToPointer(op) : opcode == Opcode::Cmp ? compare(op) : arithmetic(op);
  inheritMarks(op, result);
  return result;
}

Value Evaluator::arithmetic(OpId op) {
  switch (fn_.opcode(op)) {
#define OP(...)
#define ELEMENTWISE(...)
#define CAST(Name, ...) case Opcode::Name:
#include "ir/ops.def"
    return cast(op);
#define OP(...)
#define ELEMENTWISE(...)
#define CAST(...)
#define ARITHMETIC(Name, ...) case Opcode::Name:
#include "ir/ops.def"
    if (work_ != nullptr) {
      countArithmetic(op, count(op));
    }
    return fn_.type(fn_.operand(op, 0)).isFloating() ? floats(op) : integers(op);
#define ELEMENTWISE(Name, ...) case Opcode::Name:
#define ARITHMETIC(...)
#define CAST(...)
#define OP(Name, ...) case Opcode::Name:
#include "ir/ops.def"
    break;
  }
  throw ir::InternalError("no arithmetic op", fn_.locationOf(op));
}

Value Evaluator::compare(OpId op) {
  const ir::Type type = fn_.type(fn_.operand(op, 0));
  const auto predicate = fn_.getEnum<CmpPred>(op, Attr::predicate);
  const unsigned width = type.elementBits();
  if (type.isFloating()) {
    return each(operand(op, 0), operand(op, 1), [&](uint64_t a, uint64_t b) -> uint64_t {
      return holds(predicate, numberOf(type.elem(), a), numberOf(type.elem(), b)) ? 1 : 0;
    });
  }
  return each(operand(op, 0), operand(op, 1), [&](uint64_t a, uint64_t b) -> uint64_t {
    return holds(predicate, signedOf(width, a), signedOf(width, b), lowBits(width, a), lowBits(width, b)) ? 1 : 0;
  });
}

// The mark of the condition, else that of the operand that is taken.
Value Evaluator::select(OpId op) {
  const Value &cond = operand(op, 0), &yes = operand(op, 1), &no = operand(op, 2);
  Value made{std::vector<uint64_t>(count(op))};
  if (!yes.origins.empty() || !no.origins.empty()) {
    made.origins.resize(made.size());
  }
  for (size_t i = 0; i < made.size(); ++i) {
    const Value &taken = cond[i] != 0 ? yes : no;
    made.bits[i] = taken[i];
    if (!made.origins.empty()) {
      made.origins[i] = taken.origin(i);
    }
    made.setMark(i, cond.mark(i) != 0 ? cond.mark(i) : taken.mark(i));
  }
  return made;
}

Value Evaluator::addToPointer(OpId op) {
  const Value &pointer = operand(op, 0);
  const ir::Type offset = fn_.type(fn_.operand(op, 1));
  const uint64_t bytes = fn_.type(fn_.operand(op, 0)).pointee().elementBytes();
  Value made = each(pointer, operand(op, 1), [&](uint64_t address, uint64_t elements) {
    return address + static_cast<uint64_t>(signedOf(offset.elementBits(), elements)) * bytes;
  });
  if (!pointer.origins.empty()) {
    for (size_t i = 0; i < made.size(); ++i) {
      made.origins.push_back(pointer.origin(i));
    }
  }
  return made;
}

} // namespace libtile::runtime::interpreter
