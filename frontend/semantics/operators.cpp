// SPDX-License-Identifier: Apache-2.0
// Operators, subscripts aside: constants go to Python's arithmetic, tuples and types to equality
// and concatenation, and whatever has a tensor to Triton's promotion.
#include "frontend/semantics/blocks.h"
#include "ir/ops.h"

#include <algorithm>

namespace libtile::frontend {

using ir::CmpPred;
using ir::Opcode;

namespace {

// What to write where a value of that type is no condition.
std::string insteadOfTruth(const DType &dtype) {
  return dtype.isPointer() ? "; compare it with None" : "; compare it with 0";
}

bool isPointer(const Value &value) {
  return value.tensor() != nullptr && value.tensor()->dtype.isPointer();
}

// What to write in place of an operator that does not take the two.
std::string insteadOf(const Value &a, const Value &b) {
  const auto isReal = [](const Value &value) {
    return value.tensor() != nullptr ? value.tensor()->dtype.isFloat()
                                     : value.constant() != nullptr &&
                                           std::holds_alternative<double>(*value.constant());
  };
  return isBlockPointer(a)                                       ? "; tl.advance moves a block pointer"
         : isDescriptor(a)                                       ? "; a descriptor takes offsets where it loads and stores"
         : (isPointer(a) && isReal(b)) || (isPointer(b) && isReal(a)) ? "; an offset is an integer, as // gives it"
                                                                 : "";
}

[[noreturn]] void refuse(const Semantics &s, const std::string &op, const Value &a, const Value &b) {
  s.fail("operator " + op + " does not take " + a.describe() + " and " + b.describe() + insteadOf(a, b));
}

// pointer + integer, integer + pointer, pointer - integer.
Tensor pointerArithmetic(Semantics &s, BinaryOp op, const Value &a, const Value &b) {
  const bool left = isPointer(a);
  const Value &other = left ? b : a;
  if ((isPointer(a) && isPointer(b)) || (op != BinaryOp::Add && (op != BinaryOp::Sub || !left)) ||
      !operandType(s, other).dtype.isInt()) {
    refuse(s, operatorSymbol(op), a, b);
  }
  const Tensor &pointer = *(left ? a : b).tensor();
  Tensor offset = s.toComputation(other, operandType(s, other).dtype, pointer.shape);
  if (!offset.dtype.isSigned && ir::bitWidth(offset.dtype.elem) < 64) {
    // Offsets are signed, so an unsigned one needs a bit more.
    offset = s.cast(offset, {ir::Elem::I64, true});
  }
  if (op == BinaryOp::Sub) {
    if (ir::bitWidth(offset.dtype.elem) < 32) {
      // The least number has no negative in its own type.
      offset = s.cast(offset, {ir::Elem::I32, true});
    }
    offset = *tensorUnary(s, UnaryOp::Neg, offset).tensor();
  }
  const auto [base, index] = s.broadcastBoth(pointer, offset);
  return emit(s, Opcode::PtrAdd, {base.id, index.id}, pointer.dtype);
}

Opcode opcodeOf(const Semantics &s, BinaryOp op, DType dtype) {
  const bool isFloat = dtype.isFloat();
  const bool isSigned = dtype.isSigned && !dtype.isBool();
  switch (op) {
  case BinaryOp::Add:
    return Opcode::Add;
  case BinaryOp::Sub:
    return Opcode::Sub;
  case BinaryOp::Mul:
    return Opcode::Mul;
  case BinaryOp::TrueDiv:
    return Opcode::FDiv;
  case BinaryOp::FloorDiv:
    return isSigned ? Opcode::SDiv : Opcode::UDiv;
  case BinaryOp::Mod:
    return isFloat ? Opcode::FRem : isSigned ? Opcode::SRem : Opcode::URem;
  case BinaryOp::BitAnd:
    return Opcode::And;
  case BinaryOp::BitOr:
    return Opcode::Or;
  case BinaryOp::BitXor:
    return Opcode::Xor;
  case BinaryOp::LShift:
    return Opcode::Shl;
  case BinaryOp::RShift:
    return isSigned ? Opcode::AShr : Opcode::LShr;
  case BinaryOp::Pow:
  case BinaryOp::MatMul:
    break;
  }
  s.fail(std::string("operator ") + operatorSymbol(op) + " does not take tensors" +
         (op == BinaryOp::MatMul ? "; use tl.dot" : ""));
}

bool isDivision(BinaryOp op) {
  return op == BinaryOp::TrueDiv || op == BinaryOp::FloorDiv || op == BinaryOp::Mod;
}

// Operators of integers alone.
bool needsIntegers(BinaryOp op) {
  return op == BinaryOp::FloorDiv || op == BinaryOp::BitAnd || op == BinaryOp::BitOr ||
         op == BinaryOp::BitXor || op == BinaryOp::LShift || op == BinaryOp::RShift;
}

CmpPred predicateOf(const Semantics &s, CompareOp op, DType dtype) {
  const bool isFloat = dtype.isFloat();
  const bool isSigned = dtype.isSigned && !dtype.isBool();
  switch (op) {
  case CompareOp::Eq:
    return isFloat ? CmpPred::oeq : CmpPred::eq;
  case CompareOp::Ne:
    return isFloat ? CmpPred::une : CmpPred::ne;
  case CompareOp::Lt:
    return isFloat ? CmpPred::olt : isSigned ? CmpPred::slt : CmpPred::ult;
  case CompareOp::Le:
    return isFloat ? CmpPred::ole : isSigned ? CmpPred::sle : CmpPred::ule;
  case CompareOp::Gt:
    return isFloat ? CmpPred::ogt : isSigned ? CmpPred::sgt : CmpPred::ugt;
  case CompareOp::Ge:
    return isFloat ? CmpPred::oge : isSigned ? CmpPred::sge : CmpPred::uge;
  case CompareOp::Is:
  case CompareOp::IsNot:
  case CompareOp::In:
  case CompareOp::NotIn:
    break;
  }
  s.fail(std::string("operator ") + operatorSymbol(op) + " does not take tensors");
}

Value tupleBinary(const Semantics &s, BinaryOp op, const Value &a, const Value &b) {
  const Aggregate *left = a.tuple();
  const Aggregate *right = b.tuple();
  if (op == BinaryOp::Add && left != nullptr && right != nullptr) {
    std::vector<Value> items = left->fields;
    items.insert(items.end(), right->fields.begin(), right->fields.end());
    return Value::tuple(std::move(items));
  }
  const Constant *count = left != nullptr ? b.constant() : a.constant();
  if (op != BinaryOp::Mul || count == nullptr || !constantBigInt(*count)) {
    refuse(s, operatorSymbol(op), a, b);
  }
  const std::vector<Value> &once = (left != nullptr ? left : right)->fields;
  constexpr size_t kMaxItems = 1 << 16;
  std::vector<Value> items;
  for (BigInt i = 0; i < *constantBigInt(*count) && !once.empty(); ++i) {
    if (items.size() + once.size() > kMaxItems) {
      s.fail("a tuple grows beyond " + std::to_string(kMaxItems) + " items");
    }
    items.insert(items.end(), once.begin(), once.end());
  }
  return Value::tuple(std::move(items));
}

bool isType(const Aggregate &aggregate) {
  return aggregate.cls == Class::constexprType() || aggregate.cls == Class::tupleType() ||
         aggregate.cls == Class::tensorDescriptorType();
}

// Equality of values that are not both constants; nullopt where they have none (tensors inside).
std::optional<bool> equalValues(const Semantics &s, const Value &a, const Value &b) {
  if (a.constant() != nullptr && b.constant() != nullptr) {
    return std::get<bool>(
        *constantCompare(s, CompareOp::Eq, *a.constant(), *b.constant()).constant());
  }
  if (a.tuple() != nullptr && b.tuple() != nullptr) {
    const auto &left = a.tuple()->fields;
    const auto &right = b.tuple()->fields;
    bool equal = left.size() == right.size();
    for (size_t i = 0; equal && i < left.size(); ++i) {
      const std::optional<bool> item = equalValues(s, left[i], right[i]);
      if (!item) {
        return std::nullopt;
      }
      equal = *item;
    }
    return equal;
  }
  const auto isNumber = [](const Value &value) {
    return value.tensor() != nullptr ||
           (value.constant() != nullptr && !value.isNone() &&
            !std::holds_alternative<std::string>(*value.constant()));
  };
  if (a.aggregate() != nullptr && b.aggregate() != nullptr && isType(*a.aggregate()) && isType(*b.aggregate())) {
    return sameValue(a, b);
  }
  // Two aggregates that are no tuples may say themselves what equal is.
  const bool isKnown = !(isNumber(a) && isNumber(b)) &&
                       (a.aggregate() == nullptr || b.aggregate() == nullptr);
  return isKnown ? std::optional(sameValue(a, b)) : std::nullopt;
}

// `a in b` and `a not in b`: a constant where constants say which, else a scalar of the running program.
Value isAmong(Semantics &s, CompareOp op, const Value &a, const Value &b) {
  if (b.tuple() == nullptr) {
    refuse(s, operatorSymbol(op), a, b);
  }
  Value found = Value::boolean(false);
  for (const Value &item : b.tuple()->fields) {
    const std::optional<bool> known = equalValues(s, a, item);
    const Value equal = known ? Value::boolean(*known) : s.compare(CompareOp::Eq, a, item);
    if (equal.tensor() != nullptr && !equal.tensor()->isScalar()) {
      s.fail(std::string("operator ") + operatorSymbol(op) + " compares scalars, got " + a.describe() + " and " +
             item.describe() + "; write (x == a) | (x == b)");
    }
    if (s.constantTruth(equal) == true) {
      return Value::boolean(op == CompareOp::In);
    }
    if (equal.tensor() != nullptr) {
      found = found.tensor() != nullptr ? s.logical(false, found, equal) : equal;
    }
  }
  const bool isIn = op == CompareOp::In;
  return found.tensor() == nullptr ? Value::boolean(!isIn) : isIn ? found : s.unary(UnaryOp::Not, found);
}

// Comparisons without a tensor, apart from two constants.
Value compareOthers(const Semantics &s, CompareOp op, const Value &a, const Value &b) {
  if (op == CompareOp::Is || op == CompareOp::IsNot) {
    return Value::boolean(sameValue(a, b) == (op == CompareOp::Is));
  }
  const bool hasEquality = op == CompareOp::Eq || op == CompareOp::Ne;
  const std::optional<bool> equal = hasEquality ? equalValues(s, a, b) : std::nullopt;
  if (!equal) {
    refuse(s, operatorSymbol(op), a, b);
  }
  return Value::boolean(*equal == (op == CompareOp::Eq));
}

// Asserts that a sum, difference or product is the one that a wider type gives.
void requireFit(Semantics &s, BinaryOp op, const Tensor &a, const Tensor &b, const Tensor &result) {
  const bool wraps = op == BinaryOp::Add || op == BinaryOp::Sub || op == BinaryOp::Mul;
  const unsigned bits = ir::bitWidth(result.dtype.elem);
  if (!s.sanitizesOverflow || !wraps || !result.dtype.isInt() || bits == 1 || bits == 64) {
    return;
  }
  const DType wide{bits == 32 ? ir::Elem::I64 : ir::Elem::I32, true};
  const Tensor exact = emitBinary(s, op, s.cast(a, wide), s.cast(b, wide));
  assertHolds(s, emitCompare(s, CompareOp::Eq, s.cast(result, wide), exact),
              std::string("the result of ") + operatorSymbol(op) + " does not fit " + result.dtype.name());
}

Tensor negated(Semantics &s, const Tensor &a) {
  const Tensor x = computed(s, a);
  return s.cast(emit(s, Opcode::Neg, {x.id}, x.dtype), a.dtype);
}

} // namespace

Tensor emitBinary(Semantics &s, BinaryOp op, const Tensor &a, const Tensor &b) {
  const Tensor left = computed(s, a), right = computed(s, b);
  return s.cast(emit(s, opcodeOf(s, op, left.dtype), {left.id, right.id}, left.dtype), a.dtype);
}

Tensor emitCompare(Semantics &s, CompareOp op, const Tensor &a, const Tensor &b) {
  const Tensor left = computed(s, a), right = computed(s, b);
  const ir::ValueId id = s.builder.cmp(predicateOf(s, op, left.dtype), left.id, right.id);
  return {id, {ir::Elem::I1, false}, a.shape};
}

Tensor emitSelect(Semantics &s, const Tensor &condition, const Tensor &a, const Tensor &b) {
  return emit(s, Opcode::Select, {condition.id, a.id, b.id}, a.dtype);
}

Tensor emitMinMax(Semantics &s, bool isMax, const Tensor &a, const Tensor &b, bool propagateNan) {
  if (a.dtype.isFloat()) {
    const Tensor left = computed(s, a);
    const Tensor result =
        emit(s, isMax ? Opcode::FMax : Opcode::FMin, {left.id, computed(s, b).id}, left.dtype);
    if (propagateNan) {
      ir::Function &fn = s.builder.function();
      fn.setAttr(fn.def(result.id), ir::Attr::nan, ir::AttrValue(int64_t{1}));
    }
    return s.cast(result, a.dtype);
  }
  const bool isSigned = a.dtype.isSigned && !a.dtype.isBool();
  const Opcode opcode =
      isMax ? (isSigned ? Opcode::SMax : Opcode::UMax) : (isSigned ? Opcode::SMin : Opcode::UMin);
  return emit(s, opcode, {a.id, b.id}, a.dtype);
}

Value tensorBinary(Semantics &s, BinaryOp op, const Value &a, const Value &b) {
  const auto isNumberOrTensor = [](const Value &value) {
    return value.tensor() != nullptr || (value.constant() != nullptr && !value.isNone() &&
                                         !std::holds_alternative<std::string>(*value.constant()));
  };
  if (!isNumberOrTensor(a) || !isNumberOrTensor(b)) {
    refuse(s, operatorSymbol(op), a, b);
  }
  if (isPointer(a) || isPointer(b)) {
    return Value(pointerArithmetic(s, op, a, b));
  }
  if (op == BinaryOp::Pow || op == BinaryOp::MatMul) {
    opcodeOf(s, op, {});
  }
  auto [left, right] = s.promoteBoth(a, b, isDivision(op));
  if (needsIntegers(op) && !left.dtype.isInt()) {
    refuse(s, operatorSymbol(op), a, b);
  }
  if (op == BinaryOp::TrueDiv && left.dtype.isInt()) {
    const DType single{ir::Elem::F32, true};
    left = s.cast(left, single);
    right = s.cast(right, single);
  }
  if (op == BinaryOp::RShift) {
    // The sign of the shifted tensor, or of the other operand where a constant is shifted, decides.
    const DType decides = (a.tensor() != nullptr ? a : b).tensor()->dtype;
    const bool arithmetic = decides.isSigned && !decides.isBool();
    return Value(
        emit(s, arithmetic ? Opcode::AShr : Opcode::LShr, {left.id, right.id}, left.dtype));
  }
  const Tensor result = emitBinary(s, op, left, right);
  requireFit(s, op, left, right, result);
  return Value(result);
}

Value tensorCompare(Semantics &s, CompareOp op, const Value &a, const Value &b) {
  const auto identity = [](CompareOp c) { return c == CompareOp::Is || c == CompareOp::IsNot; };
  if (a.isNone() || b.isNone()) {
    if (identity(op) || op == CompareOp::Eq || op == CompareOp::Ne) {
      return Value::boolean(op == CompareOp::IsNot || op == CompareOp::Ne);
    }
    refuse(s, operatorSymbol(op), a, b);
  }
  if (identity(op)) {
    const bool same =
        a.tensor() != nullptr && b.tensor() != nullptr && a.tensor()->id == b.tensor()->id;
    return Value::boolean(same == (op == CompareOp::Is));
  }
  const bool pointers = isPointer(a) || isPointer(b);
  if (pointers &&
      (!isPointer(a) || !isPointer(b) || (op != CompareOp::Eq && op != CompareOp::Ne))) {
    refuse(s, operatorSymbol(op), a, b);
  }
  const auto [left, right] = s.promoteBoth(a, b, false);
  return Value(emitCompare(s, op, left, right));
}

Value tensorUnary(Semantics &s, UnaryOp op, const Tensor &a) {
  const DType dtype = a.dtype;
  switch (op) {
  case UnaryOp::Pos:
    s.fail("unary + does not take " + Value(a).describe());
  case UnaryOp::Neg:
    if (dtype.isPointer()) {
      s.fail("unary - does not take " + Value(a).describe());
    }
    return Value(negated(s, a));
  case UnaryOp::Not:
    if (!dtype.isBool()) {
      s.fail("not does not take " + Value(a).describe() + insteadOfTruth(dtype));
    }
    break;
  case UnaryOp::Invert:
    if (!dtype.isInt()) {
      s.fail("unary ~ does not take " + Value(a).describe());
    }
    break;
  }
  const Tensor ones = constantTensor(s, dtype, a.shape, Constant(BigInt(dtype.isBool() ? 1 : -1)));
  return Value(emitBinary(s, BinaryOp::BitXor, a, ones));
}

Value Semantics::binary(BinaryOp op, const Value &a, const Value &b) {
  if (a.tuple() != nullptr || b.tuple() != nullptr) {
    return tupleBinary(*this, op, a, b);
  }
  if (a.tensor() != nullptr || b.tensor() != nullptr) {
    return tensorBinary(*this, op, a, b);
  }
  if (a.constant() == nullptr || b.constant() == nullptr) {
    refuse(*this, operatorSymbol(op), a, b);
  }
  return constantBinary(*this, op, *a.constant(), *b.constant());
}

Value Semantics::compare(CompareOp op, const Value &a, const Value &b) {
  const bool membership = op == CompareOp::In || op == CompareOp::NotIn;
  if (!membership && (a.tensor() != nullptr || b.tensor() != nullptr)) {
    return tensorCompare(*this, op, a, b);
  }
  if (a.constant() != nullptr && b.constant() != nullptr) {
    return constantCompare(*this, op, *a.constant(), *b.constant());
  }
  if (membership) {
    return isAmong(*this, op, a, b);
  }
  return compareOthers(*this, op, a, b);
}

Value Semantics::unary(UnaryOp op, const Value &a) {
  if (const Tensor *tensor = a.tensor()) {
    return tensorUnary(*this, op, *tensor);
  }
  if (const Constant *constant = a.constant()) {
    return constantUnary(*this, op, *constant);
  }
  fail("unary operators do not take " + a.describe());
}

Value Semantics::logical(bool isAnd, const Value &a, const Value &b) {
  for (const Value *side : {&a, &b}) {
    if (side->tensor() != nullptr && !side->tensor()->dtype.isBool()) {
      fail(std::string(isAnd ? "and" : "or") + " does not take " + side->describe() +
           insteadOfTruth(side->tensor()->dtype));
    }
  }
  const auto [left, right] =
      broadcastBoth(toTensor(a, {ir::Elem::I1, false}), toTensor(b, {ir::Elem::I1, false}));
  return Value(emitBinary(*this, isAnd ? BinaryOp::BitAnd : BinaryOp::BitOr, left, right));
}

} // namespace libtile::frontend
