// SPDX-License-Identifier: Apache-2.0
#include "ir/builder.h"

#include "ir/ops.h"

#include <llvm/ADT/APFloat.h>

namespace libtile::ir {

double canonicalFloat(Elem elem, double value) {
  const llvm::fltSemantics *semantics = nullptr;
  switch (elem) {
  case Elem::F16:
    semantics = &llvm::APFloat::IEEEhalf();
    break;
  case Elem::BF16:
    semantics = &llvm::APFloat::BFloat();
    break;
  case Elem::F32:
    return static_cast<double>(static_cast<float>(value));
  case Elem::Void:
  case Elem::I1:
  case Elem::I8:
  case Elem::I16:
  case Elem::I32:
  case Elem::I64:
  case Elem::F64:
    return value;
  }
  llvm::APFloat number(value);
  bool exact = false;
  number.convert(*semantics, llvm::APFloat::rmNearestTiesToEven, &exact);
  number.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &exact);
  return number.convertToDouble();
}

int64_t canonicalInt(Elem elem, int64_t value) {
  const unsigned width = bitWidth(elem);
  if (width == 1) {
    return value & 1;
  }
  const unsigned unused = 64 - width;
  return width >= 64 ? value
                     : static_cast<int64_t>(static_cast<uint64_t>(value) << unused) >> unused;
}

namespace {

// All operands have one type.
bool uniform(const Function &fn, std::span<const ValueId> operands) {
  for (ValueId value : operands) {
    if (fn.type(value) != fn.type(operands[0])) {
      return false;
    }
  }
  return !operands.empty();
}

} // namespace

Type inferType(const Function &fn, Opcode opcode, std::span<const ValueId> operands) {
  if (operands.empty()) {
    return {};
  }
  const Type first = fn.type(operands[0]);
  if (!first.isScalar() && !first.isTile()) {
    return {};
  }
  const bool same = uniform(fn, operands);
  const auto keepIf = [](bool ok, Type type) { return ok ? type : Type(); };
  switch (info(opcode).rule) {
  case TypeRule::Same:
    return keepIf(same, first);
  case TypeRule::SameInt:
    return keepIf(same && first.isInteger(), first);
  case TypeRule::SameFloat:
    return keepIf(same && first.isFloating(), first);
  case TypeRule::Compare:
    return keepIf(same, first.withElement(Elem::I1));
  case TypeRule::Select: {
    if (operands.size() != 3 || !uniform(fn, operands.subspan(1))) {
      return {};
    }
    const Type value = fn.type(operands[1]);
    return keepIf(first == value.withElement(Elem::I1), value);
  }
  case TypeRule::PtrAdd: {
    if (operands.size() != 2 || !first.isPointer()) {
      return {};
    }
    const Type offset = fn.type(operands[1]);
    return keepIf(offset.isInteger() && offset == first.withElement(offset.element()), first);
  }
  case TypeRule::Load:
    return keepIf(first.isPointer(), first.isPointer() ? first.pointee() : Type());
  case TypeRule::Dot:
    return operands.size() == 3 ? fn.type(operands[2]) : Type();
  case TypeRule::None:
  case TypeRule::Explicit:
  case TypeRule::Cast:
  case TypeRule::Reduce:
  case TypeRule::Map:
  case TypeRule::Scan:
  case TypeRule::Region:
  case TypeRule::Nest:
  case TypeRule::Fold:
    return {};
  }
  return {};
}

void Builder::insert(OpId op) {
  if (before_.valid()) {
    fn_.insertBefore(before_, op);
  } else {
    fn_.append(block_, op);
  }
}

OpId Builder::op(Opcode opcode, std::span<const ValueId> operands, std::span<const Type> results) {
  const OpId made = fn_.createOp(opcode, operands, results, loc);
  insert(made);
  for (size_t i = 0; i < info(opcode).regions.size(); ++i) {
    fn_.addRegion(made);
  }
  return made;
}

ValueId Builder::make(Opcode opcode, std::span<const ValueId> operands) {
  const Type result = inferType(fn_, opcode, operands);
  if (result.isNone()) {
    throw InternalError(std::string("operands do not fit ") + info(opcode).mnemonic,
                        fn_.location(loc));
  }
  return fn_.result(op(opcode, operands, {&result, 1}));
}

ValueId Builder::make(Opcode opcode, std::initializer_list<ValueId> operands, Type result) {
  return fn_.result(op(opcode, {operands.begin(), operands.size()}, {&result, 1}));
}

ValueId Builder::constInt(Type type, int64_t value) {
  const OpId made = op(Opcode::Constant, {}, {&type, 1});
  fn_.setAttr(made, Attr::value,
              AttrValue(type.isPointer() ? value : canonicalInt(type.elem(), value)));
  return fn_.result(made);
}

ValueId Builder::constFloat(Type type, double value) {
  const OpId made = op(Opcode::Constant, {}, {&type, 1});
  fn_.setAttr(made, Attr::value, AttrValue(canonicalFloat(type.elem(), value)));
  return fn_.result(made);
}

ValueId Builder::zero(Type type) {
  return type.isFloating() ? constFloat(type, 0.0) : constInt(type, 0);
}

ValueId Builder::cmp(CmpPred predicate, ValueId a, ValueId b) {
  const ValueId result = make(Opcode::Cmp, {a, b});
  fn_.setAttr(fn_.def(result), Attr::predicate, predicate);
  return result;
}

ValueId Builder::splat(ValueId scalar, std::span<const int32_t> shape) {
  if (shape.empty()) {
    return scalar;
  }
  return make(Opcode::Splat, {scalar}, Type::tile(shape, fn_.type(scalar)));
}

void Builder::yield(std::span<const ValueId> values) { op(Opcode::Yield, values); }

} // namespace libtile::ir
