// SPDX-License-Identifier: Apache-2.0
// Affine forms (family 3 of facts.h). What is not affine in known terms is a symbol if it is a
// scalar, and has no form if it is a tile.
#include "ir/ops.h"
#include "passes/analysis/facts_builder.h"

namespace libtile::passes {

using ir::Attr;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

namespace {

using Form = std::optional<AffineForm>;

bool isUniformForm(const AffineForm &form) {
  for (const Polynomial &stride : form.strides) {
    if (!stride.isZero()) {
      return false;
    }
  }
  return true;
}

bool assign(Polynomial &to, std::optional<Polynomial> from) {
  if (from) {
    to = std::move(*from);
  }
  return from.has_value();
}

// a + factor * b; at most a has a base.
Form combine(const AffineForm &a, const AffineForm &b, const Polynomial &factor) {
  AffineForm result = a;
  const auto addTo = [&](Polynomial &to, const Polynomial &from) {
    const auto scaled = from.times(factor);
    return scaled && assign(to, to.plus(*scaled));
  };
  if (b.base.valid() || b.strides.size() != a.strides.size() || !addTo(result.offset, b.offset)) {
    return std::nullopt;
  }
  for (size_t i = 0; i < b.strides.size(); ++i) {
    if (!addTo(result.strides[i], b.strides[i])) {
      return std::nullopt;
    }
  }
  result.promised = a.promised || b.promised;
  return result;
}

Form scaled(const AffineForm &a, const Polynomial &factor, bool promised) {
  AffineForm zero;
  zero.strides.resize(a.strides.size());
  Form result = combine(zero, a, factor);
  if (result) {
    result->promised = result->promised || promised;
  }
  return result;
}

// The strides of a reshape in which axes of extent 1 come and go, and the others keep their order.
bool keepAxes(Type from, Type to, const AffineForm &form, AffineForm &result) {
  unsigned axis = 0;
  for (unsigned i = 0; i < from.rank(); ++i) {
    if (from.dim(i) == 1) {
      continue;
    }
    while (axis < to.rank() && to.dim(axis) == 1) {
      ++axis;
    }
    if (axis == to.rank() || to.dim(axis) != from.dim(i)) {
      return false;
    }
    result.strides[axis++] = form.strides[i];
  }
  return true;
}

} // namespace

int32_t FactsBuilder::addForm(AffineForm form) {
  facts_.forms_.push_back(std::move(form));
  return static_cast<int32_t>(facts_.forms_.size()) - 1;
}

// A scalar as its own symbol or base.
int32_t FactsBuilder::ownForm(ValueId value) {
  const Type type = fn_.type(value);
  if (!type.isScalar() || (!type.isInteger() && !type.isPointer())) {
    return -1;
  }
  AffineForm form;
  if (type.isPointer()) {
    form.base = value;
  } else {
    form.offset = Polynomial::symbol(value);
  }
  return addForm(std::move(form));
}

int32_t FactsBuilder::affineOf(OpId op) {
  const ValueId result = fn_.result(op);
  const Type type = fn_.type(result);
  if (!type.isInteger() && !type.isPointer()) {
    return -1;
  }
  Form form;
  switch (fn_.opInfo(op).rule) {
  case ir::TypeRule::Same:
  case ir::TypeRule::SameInt:
  case ir::TypeRule::PtrAdd:
    form = fn_.opcode(op) == Opcode::Hint ? shapeForm(op) : arithmeticForm(op);
    break;
  case ir::TypeRule::Cast:
    form = castForm(op);
    break;
  case ir::TypeRule::Explicit:
    form = shapeForm(op);
    break;
  case ir::TypeRule::None:
  case ir::TypeRule::SameFloat:
  case ir::TypeRule::Compare:
  case ir::TypeRule::Select:
  case ir::TypeRule::Load:
  case ir::TypeRule::Dot:
  case ir::TypeRule::Reduce:
  case ir::TypeRule::Map:
  case ir::TypeRule::Scan:
  case ir::TypeRule::Region:
  case ir::TypeRule::Nest:
  case ir::TypeRule::Fold:
    break;
  }
  return form ? addForm(std::move(*form)) : -1;
}

std::optional<AffineForm> FactsBuilder::arithmeticForm(OpId op) const {
  const Opcode opcode = fn_.opcode(op);
  const auto form = [&](unsigned i) { return facts_.form(fn_.operand(op, i)); };
  const AffineForm *a = form(0);
  if (a == nullptr || (a->base.valid() && opcode != Opcode::PtrAdd)) {
    return std::nullopt;
  }
  if (opcode == Opcode::Neg) {
    return scaled(*a, -1, false);
  }
  if (opcode == Opcode::PtrAdd) {
    const Form offset = extendedForm(fn_.operand(op, 1), true);
    const auto bytes = static_cast<int64_t>(fn_.type(fn_.operand(op, 0)).pointee().elementBytes());
    return offset ? combine(*a, *offset, bytes) : std::nullopt;
  }
  const AffineForm *b = fn_.numOperands(op) == 2 ? form(1) : nullptr;
  if (b == nullptr) {
    return std::nullopt;
  }
  if (opcode == Opcode::Add) {
    return combine(*a, *b, 1);
  }
  if (opcode == Opcode::Sub) {
    return combine(*a, *b, -1);
  }
  if (opcode == Opcode::Mul && isUniformForm(*b)) {
    return scaled(*a, b->offset, b->promised);
  }
  if (opcode == Opcode::Mul && isUniformForm(*a)) {
    return scaled(*b, a->offset, a->promised);
  }
  const auto shift = fn_.constantInt(fn_.operand(op, 1));
  if (opcode == Opcode::Shl && shift && *shift >= 0 && *shift < 31) {
    return scaled(*a, int64_t{1} << *shift, false);
  }
  return std::nullopt;
}

std::optional<AffineForm> FactsBuilder::castForm(OpId op) const {
  const ValueId operand = fn_.operand(op, 0);
  const Opcode opcode = fn_.opcode(op);
  const AffineForm *a = facts_.form(operand);
  const Type from = fn_.type(operand), to = fn_.type(fn_.result(op));
  if (opcode == Opcode::SExt || opcode == Opcode::ZExt) {
    return extendedForm(operand, opcode == Opcode::SExt);
  }
  if (a == nullptr) {
    return std::nullopt;
  }
  if (opcode == Opcode::Bitcast) {
    return from.isPointer() && to.isPointer() ? Form(*a) : std::nullopt;
  }
  // A cast is the low bits: what does not fit wraps where the program says so, and is no promise.
  const IntRange whole = typeRange(to);
  return opcode == Opcode::Trunc && !to.isBool() &&
                 facts_.offsetRange(operand).within(whole.lo, whole.hi)
             ? Form(*a)
             : std::nullopt;
}

// The integer as one of 64 bits.
std::optional<AffineForm> FactsBuilder::extendedForm(ValueId value, bool isSigned) const {
  const AffineForm *form = facts_.form(value);
  const Type type = fn_.type(value);
  if (form == nullptr || type.elementBits() == 64) {
    return form == nullptr ? std::nullopt : Form(*form);
  }
  const IntRange values = facts_.offsetRange(value), whole = typeRange(type);
  const bool exact = values.within(whole.lo, whole.hi) && !type.isBool();
  if (!exact && type.elementBits() < 32) {
    return std::nullopt; // narrow integers may wrap
  }
  if (!isSigned && of(value).promised.range.lo < 0) {
    return std::nullopt;
  }
  AffineForm result = *form;
  result.promised =
      result.promised || !exact || (!isSigned && facts_.range(value).lo < 0);
  return result;
}

std::optional<AffineForm> FactsBuilder::shapeForm(OpId op) const {
  const Opcode opcode = fn_.opcode(op);
  const ValueId value = fn_.result(op);
  const Type type = fn_.type(value);
  AffineForm result;
  result.strides.resize(type.rank());
  if (opcode == Opcode::Constant) {
    const auto number = fn_.constantInt(value);
    result.offset = number.value_or(0);
    return number && !type.isPointer() ? Form(result) : std::nullopt;
  }
  if (opcode == Opcode::Arange) {
    result.offset = fn_.getInt(op, Attr::start);
    result.strides[0] = type.dim(0) > 1 ? 1 : 0;
    return result;
  }
  const AffineForm *a = fn_.numOperands(op) == 1 ? facts_.form(fn_.operand(op, 0)) : nullptr;
  if (a == nullptr) {
    return std::nullopt;
  }
  result.base = a->base;
  result.offset = a->offset;
  result.promised = a->promised;
  const Type from = fn_.type(fn_.operand(op, 0));
  if (opcode == Opcode::Splat) {
    return result;
  }
  if (opcode == Opcode::Broadcast || opcode == Opcode::Hint || opcode == Opcode::ConvertLayout) {
    result.strides = a->strides; // of an axis of extent 1: 0
    return result;
  }
  if (opcode == Opcode::ExpandDims) {
    const auto inserted = static_cast<unsigned>(fn_.getInt(op, Attr::axis));
    for (unsigned i = 0; i < from.rank(); ++i) {
      result.strides[i < inserted ? i : i + 1] = a->strides[i];
    }
    return result;
  }
  if (opcode == Opcode::Trans) {
    const auto order = fn_.getInts(op, Attr::order);
    for (unsigned i = 0; i < type.rank(); ++i) {
      result.strides[i] = a->strides[static_cast<size_t>(order[i])];
    }
    return result;
  }
  if (opcode == Opcode::Slice) {
    const auto axis = static_cast<unsigned>(fn_.getInt(op, Attr::axis));
    result.strides = a->strides;
    const Polynomial stride = result.strides[axis];
    const auto first = stride.times(fn_.getInt(op, Attr::start));
    const auto step = stride.times(type.dim(axis) > 1 ? fn_.getInt(op, Attr::step) : 0);
    const bool fits = first && step && assign(result.offset, result.offset.plus(*first)) &&
                      assign(result.strides[axis], step);
    return fits ? Form(result) : std::nullopt;
  }
  if (opcode != Opcode::Reshape) {
    return std::nullopt;
  }
  return isUniformForm(*a) || keepAxes(from, type, *a, result) ? Form(result) : std::nullopt;
}

} // namespace libtile::passes
