// SPDX-License-Identifier: Apache-2.0
// Operators where an operand may be an object of a class of the host: its members carry them out, as in
// Python; tensors, constants and tuples go to the semantics.
#include "frontend/specialise/walker.h"

#include <array>

namespace libtile::frontend {

namespace {

struct Names {
  const char *forward;
  const char *reflected;
};

Names namesOf(BinaryOp op) {
  switch (op) {
  case BinaryOp::Add:
    return {"__add__", "__radd__"};
  case BinaryOp::Sub:
    return {"__sub__", "__rsub__"};
  case BinaryOp::Mul:
    return {"__mul__", "__rmul__"};
  case BinaryOp::TrueDiv:
    return {"__truediv__", "__rtruediv__"};
  case BinaryOp::FloorDiv:
    return {"__floordiv__", "__rfloordiv__"};
  case BinaryOp::Mod:
    return {"__mod__", "__rmod__"};
  case BinaryOp::Pow:
    return {"__pow__", "__rpow__"};
  case BinaryOp::MatMul:
    return {"__matmul__", "__rmatmul__"};
  case BinaryOp::BitAnd:
    return {"__and__", "__rand__"};
  case BinaryOp::BitOr:
    return {"__or__", "__ror__"};
  case BinaryOp::BitXor:
    return {"__xor__", "__rxor__"};
  case BinaryOp::LShift:
    return {"__lshift__", "__rlshift__"};
  case BinaryOp::RShift:
    return {"__rshift__", "__rrshift__"};
  }
  return {};
}

// None for `is` and `in`, which no member decides.
Names namesOf(CompareOp op) {
  switch (op) {
  case CompareOp::Eq:
    return {"__eq__", "__eq__"};
  case CompareOp::Ne:
    return {"__ne__", "__ne__"};
  case CompareOp::Lt:
    return {"__lt__", "__gt__"};
  case CompareOp::Le:
    return {"__le__", "__ge__"};
  case CompareOp::Gt:
    return {"__gt__", "__lt__"};
  case CompareOp::Ge:
    return {"__ge__", "__le__"};
  case CompareOp::Is:
  case CompareOp::IsNot:
  case CompareOp::In:
  case CompareOp::NotIn:
    break;
  }
  return {};
}

const char *nameOf(UnaryOp op) {
  switch (op) {
  case UnaryOp::Not:
    return "__not__"; // Triton's
  case UnaryOp::Invert:
    return "__invert__";
  case UnaryOp::Neg:
    return "__neg__";
  case UnaryOp::Pos:
    return "__pos__";
  }
  return "";
}

bool isNotImplemented(const Value &value) {
  const auto *operation = value.as<const Operation *>();
  return operation != nullptr && *operation == Semantics::notImplemented();
}

} // namespace

SourceRange Walker::here() const {
  const ir::Location &place = sem_.location();
  return {place.line, place.column, place.endColumn};
}

Value Walker::callMember(const Value &object, const char *member, std::vector<Value> arguments) {
  const ir::Location place = sem_.location();
  const Value method = findAttribute(object, member, here());
  if (!method.bound()) {
    return {};
  }
  Value result = callValue(method, {std::move(arguments), {}});
  sem_.setLocation(place);
  return result;
}

Value Walker::objectOperator(const char *forward, const char *reflected, const Value &a,
                             const Value &b) {
  const std::array<std::tuple<const Value *, const char *, const Value *>, 2> ways = {
      {{&a, forward, &b}, {&b, reflected, &a}}};
  for (const auto &[owner, member, other] : ways) {
    if (member == nullptr || owner->object() == nullptr) {
      continue;
    }
    Value result = callMember(*owner, member, {*other});
    if (result.bound() && !isNotImplemented(result)) {
      return result;
    }
  }
  return {};
}

Value Walker::applyBinary(BinaryOp op, const Value &a, const Value &b) {
  const auto [forward, reflected] = namesOf(op);
  Value made = objectOperator(forward, reflected, a, b);
  return made.bound() ? made : sem_.binary(op, a, b);
}

Value Walker::applyCompare(CompareOp op, const Value &a, const Value &b) {
  const auto [forward, reflected] = namesOf(op);
  Value made = objectOperator(forward, reflected, a, b);
  return made.bound() ? made : sem_.compare(op, a, b);
}

Value Walker::applyUnary(UnaryOp op, const Value &a) {
  Value made = a.object() != nullptr ? callMember(a, nameOf(op), {}) : Value();
  return made.bound() && !isNotImplemented(made) ? made : sem_.unary(op, a);
}

Value Walker::applyLogical(bool isAnd, const Value &a, const Value &b) {
  const char *member = isAnd ? "logical_and" : "logical_or";
  Value made = objectOperator(member, member, a, b);
  return made.bound() ? made : sem_.logical(isAnd, a, b);
}

} // namespace libtile::frontend
