// SPDX-License-Identifier: Apache-2.0
// Tensors: how types meet, how values are cast and brought to one shape, and the typed emission
// that all operations use. docs/semantics.md has the table of types in words.
#include "frontend/semantics/operations.h"
#include "ir/float8.h"
#include "ir/ops.h"

#include <algorithm>
#include <array>

namespace libtile::frontend {

using ir::Opcode;

namespace {

// bool < int < float.
int kindOf(DType dtype) { return dtype.isFloat() ? 2 : dtype.isBool() ? 0 : 1; }

DType floatType(ir::Elem elem) { return {elem, true}; }
constexpr DType kInt1{ir::Elem::I1, false};

// C's usual arithmetic conversions, without its promotion to int.
DType promoteInts(DType a, DType b) {
  const unsigned widthA = ir::bitWidth(a.elem);
  const unsigned widthB = ir::bitWidth(b.elem);
  if (a.isSigned == b.isSigned) {
    return widthA > widthB ? a : b;
  }
  const DType unsignedType = a.isSigned ? b : a;
  const DType signedType = a.isSigned ? a : b;
  return std::max(widthA, widthB) == ir::bitWidth(unsignedType.elem) ? unsignedType : signedType;
}

// The integers that a type holds.
std::pair<BigInt, BigInt> rangeOf(DType dtype) {
  const unsigned width = ir::bitWidth(dtype.elem);
  const BigInt one = 1;
  if (!dtype.isSigned || dtype.isBool()) {
    return {0, (one << width) - 1};
  }
  return {-(one << (width - 1)), (one << (width - 1)) - 1};
}

Tensor castInts(Semantics &s, const Tensor &x, DType to) {
  const unsigned from = ir::bitWidth(x.dtype.elem);
  const unsigned width = ir::bitWidth(to.elem);
  if (from == width) {
    return {x.id, to, x.shape}; // the sign belongs to the front end alone
  }
  if (width < from) {
    return emitShaped(s, Opcode::Trunc, x.id, to, x.shape);
  }
  const bool extendsSign = x.dtype.isSigned && !x.dtype.isBool();
  return emitShaped(s, extendsSign ? Opcode::SExt : Opcode::ZExt, x.id, to, x.shape);
}

Tensor castFloat8(Semantics &s, Opcode opcode, const Tensor &x, DType to) {
  const ir::Float8 format = x.dtype.isFloat8() ? *x.dtype.float8 : *to.float8;
  const Tensor result = emitShaped(s, opcode, x.id, to, x.shape);
  s.builder.function().setAttr(s.builder.function().def(result.id), ir::Attr::format, format);
  return result;
}

Tensor castFloats(Semantics &s, const Tensor &x, DType to) {
  if (x.dtype.isFloat8() && (to.isFloat8() || ir::bitWidth(to.elem) > 32)) {
    return s.cast(single(s, x), to);
  }
  if (x.dtype.isFloat8() || to.isFloat8()) {
    return castFloat8(s, to.isFloat8() ? Opcode::Float8Encode : Opcode::Float8Decode, x, to);
  }
  const bool widens = ir::bitWidth(to.elem) > ir::bitWidth(x.dtype.elem);
  return emitShaped(s, widens ? Opcode::FpExt : Opcode::FpTrunc, x.id, to, x.shape);
}

Tensor castFloatToInt(Semantics &s, const Tensor &x, DType to) {
  return emitShaped(s, to.isSigned ? Opcode::FpToSI : Opcode::FpToUI, single(s, x).id, to, x.shape);
}

// Triton has no casts between these.
void refuseFloat8(const Semantics &s, DType from, DType to) {
  if ((from.isFloat8() && !to.isFloat()) || (to.isFloat8() && !from.isFloat())) {
    s.fail("cannot cast " + from.name() + " to " + to.name() + "; cast to fp32 first");
  }
}

Tensor castPointer(Semantics &s, const Tensor &x, DType to) {
  const DType int64{ir::Elem::I64, true};
  if (x.dtype.isPointer() && to.isPointer()) {
    const bool sameInIr = x.dtype.irType() == to.irType();
    return sameInIr ? Tensor{x.id, to, x.shape} : emitShaped(s, Opcode::Bitcast, x.id, to, x.shape);
  }
  if (x.dtype.isPointer() && to.isInt() && ir::bitWidth(to.elem) == 64) {
    return emitShaped(s, Opcode::PtrToInt, x.id, to, x.shape);
  }
  if (to.isPointer() && x.dtype.isInt()) {
    return emitShaped(s, Opcode::IntToPtr, castInts(s, x, int64).id, to, x.shape);
  }
  s.fail("cannot cast " + x.dtype.name() + " to " + to.name());
}

} // namespace

Tensor single(Semantics &s, const Tensor &x) {
  const bool isNarrow = x.dtype.isFloat() && ir::bitWidth(x.dtype.elem) < 32;
  return isNarrow ? s.cast(x, floatType(ir::Elem::F32)) : x;
}

Tensor computed(Semantics &s, const Tensor &x) { return x.dtype.isFloat8() ? single(s, x) : x; }

std::string shapeText(std::span<const int32_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

void checkShape(const Semantics &s, std::span<const int32_t> shape, const std::string &what,
                const Value &argument) {
  if (shape.size() > ir::Type::kMaxRank) {
    s.fail(argument, what + " has " + std::to_string(shape.size()) + " axes; a tile has at most " +
           std::to_string(ir::Type::kMaxRank));
  }
  int64_t elements = 1;
  for (const int32_t extent : shape) {
    elements *= extent;
    if (elements > ir::Type::kMaxElements) {
      s.fail(argument,
             what + " has more than " + std::to_string(ir::Type::kMaxElements) + " elements");
    }
  }
}

ir::Type irType(DType dtype, std::span<const int32_t> shape) {
  return shape.empty() ? dtype.irType() : ir::Type::tile(shape, dtype.irType());
}

Tensor Semantics::makeTensor(ir::ValueId id, DType dtype) {
  const auto shape = builder.function().type(id).shape();
  return {id, dtype, {shape.begin(), shape.end()}};
}

Tensor emit(Semantics &s, Opcode opcode, std::initializer_list<ir::ValueId> operands, DType dtype) {
  return s.makeTensor(s.builder.make(opcode, operands), dtype);
}

Tensor emitShaped(Semantics &s, Opcode opcode, ir::ValueId operand, DType dtype,
                  std::span<const int32_t> shape) {
  const ir::ValueId id = s.builder.make(opcode, {operand}, irType(dtype, shape));
  return {id, dtype, {shape.begin(), shape.end()}};
}

Tensor constantTensor(Semantics &s, DType dtype, std::span<const int32_t> shape,
                      const Constant &value) {
  const ir::Type type = irType(dtype, shape);
  ir::ValueId id;
  if (dtype.isFloat8()) {
    const uint8_t code = ir::encodeFloat8(*dtype.float8, constantDouble(s, value));
    id = s.builder.constInt(type, static_cast<int8_t>(code));
  } else if (dtype.isFloat()) {
    id = s.builder.constFloat(type, constantDouble(s, value));
  } else {
    const double *real = std::get_if<double>(&value);
    const BigInt number =
        real != nullptr ? static_cast<BigInt>(*real) : constantBigInt(value).value_or(0);
    id = s.builder.constInt(type, static_cast<int64_t>(number));
  }
  return {id, dtype, {shape.begin(), shape.end()}};
}

bool holds(DType dtype, const Constant &value) {
  const std::optional<BigInt> number = constantBigInt(value);
  if (!dtype.isInt() || !number) {
    return false;
  }
  const auto [least, greatest] = rangeOf(dtype);
  return *number >= least && *number <= greatest;
}

OperandType operandType(const Semantics &s, const Value &value) {
  if (const Tensor *tensor = value.tensor()) {
    return {tensor->dtype, false};
  }
  const Constant *constant = value.constant();
  if (constant != nullptr && !value.isNone() && !std::holds_alternative<std::string>(*constant)) {
    return {constantType(s, *constant), true};
  }
  s.fail(value, "expected a number or a tensor, got " + value.describe());
}

DType Semantics::computationType(DType a, bool aIsConstant, DType b, bool bIsConstant,
                                 bool isDivOrMod) const {
  if (aIsConstant != bIsConstant) {
    const DType constant = aIsConstant ? a : b;
    const DType tensor = aIsConstant ? b : a;
    if (kindOf(constant) <= kindOf(tensor)) {
      a = b = tensor;
    }
  }
  const auto either = [&](ir::Elem elem) { return a.elem == elem || b.elem == elem; };
  if (either(ir::Elem::F64)) {
    return floatType(ir::Elem::F64);
  }
  if ((isDivOrMod && (a.isFloat() || b.isFloat())) || either(ir::Elem::F32)) {
    return floatType(ir::Elem::F32);
  }
  if (either(ir::Elem::F16)) {
    return floatType(ir::Elem::F16);
  }
  if (either(ir::Elem::BF16)) {
    return floatType(a.elem == b.elem ? ir::Elem::BF16 : ir::Elem::F32);
  }
  if (a.isFloat8() && b.isFloat8()) {
    return a == b ? a : floatType(ir::Elem::F16);
  }
  if (!a.isInt() || !b.isInt()) {
    fail("operands of type " + a.name() + " and " + b.name() + " have no common type");
  }
  if (isDivOrMod && a.isSigned != b.isSigned) {
    fail("/, // and % do not take " + a.name() + " and " + b.name() +
         ", one signed and one unsigned; cast one of them");
  }
  return promoteInts(a, b);
}

Tensor Semantics::toComputation(const Value &value, DType dtype, std::span<const int32_t> shape) {
  if (const Tensor *tensor = value.tensor()) {
    return cast(*tensor, dtype);
  }
  const Constant *constant = value.constant();
  const bool isText = constant == nullptr || std::holds_alternative<std::string>(*constant) ||
                      std::holds_alternative<None>(*constant);
  if (isText || dtype.isPointer()) {
    fail(value, "cannot convert " + value.describe() + " to " + dtype.name());
  }
  if (dtype.isFloat()) {
    return constantTensor(*this, dtype, shape, *constant);
  }
  const double *real = std::get_if<double>(constant);
  if (real != nullptr && *real != 0) {
    fail(value, "cannot convert the float " + value.text() + " to " + dtype.name());
  }
  const BigInt number = real != nullptr ? 0 : *constantBigInt(*constant);
  if (!holds(dtype, Constant(number))) {
    fail(value, "integer " + bigIntText(number) + " is out of range for " + dtype.name() +
         (number < 0 && !dtype.isSigned ? "; cast one of the operands" : ""));
  }
  return constantTensor(*this, dtype, shape, *constant);
}

std::pair<Tensor, Tensor> Semantics::promoteBoth(const Value &a, const Value &b, bool isDivOrMod) {
  const OperandType typeA = operandType(*this, a);
  const OperandType typeB = operandType(*this, b);
  if (typeA.dtype.isPointer() || typeB.dtype.isPointer()) {
    if (typeA.dtype != typeB.dtype) {
      fail("operands of type " + typeA.dtype.name() + " and " + typeB.dtype.name() +
           " have no common type");
    }
    return broadcastBoth(*a.tensor(), *b.tensor());
  }
  const DType dtype =
      computationType(typeA.dtype, typeA.isConstant, typeB.dtype, typeB.isConstant, isDivOrMod);
  // A constant is made in the shape of the tensor beside it.
  const auto shapeBeside = [](const Value &other) {
    return other.tensor() != nullptr ? std::span<const int32_t>(other.tensor()->shape)
                                     : std::span<const int32_t>();
  };
  const Tensor left = toComputation(a, dtype, shapeBeside(b));
  const Tensor right = toComputation(b, dtype, shapeBeside(a));
  return broadcastBoth(left, right);
}

Tensor Semantics::cast(const Tensor &x, DType to, bool bitcast) {
  if (x.dtype == to) {
    return x;
  }
  if (to.elem == ir::Elem::Void && !to.isPointer()) {
    fail("cannot cast " + x.dtype.name() + " to void");
  }
  if (to.isBool() && !bitcast) {
    return toBool(*this, x);
  }
  if (x.dtype.isPointer() || to.isPointer()) {
    return castPointer(*this, x, to);
  }
  if (bitcast) {
    if (ir::bitWidth(x.dtype.elem) != ir::bitWidth(to.elem)) {
      fail("cannot bitcast " + x.dtype.name() + " to " + to.name() + ": their widths differ");
    }
    const bool sameBits = x.dtype.elem == to.elem;
    return sameBits ? Tensor{x.id, to, x.shape}
                    : emitShaped(*this, Opcode::Bitcast, x.id, to, x.shape);
  }
  refuseFloat8(*this, x.dtype, to);
  if (x.dtype.isFloat()) {
    return to.isFloat() ? castFloats(*this, x, to) : castFloatToInt(*this, x, to);
  }
  if (to.isFloat()) {
    const bool isSigned = x.dtype.isSigned && !x.dtype.isBool();
    return emitShaped(*this, isSigned ? Opcode::SIToFp : Opcode::UIToFp, x.id, to, x.shape);
  }
  return castInts(*this, x, to);
}

Tensor toBool(Semantics &s, const Tensor &x) {
  if (x.dtype.isBool()) {
    return x;
  }
  refuseFloat8(s, x.dtype, kInt1);
  const ir::ValueId zero = s.builder.zero(irType(x.dtype, x.shape));
  const auto predicate = x.dtype.isFloat() ? ir::CmpPred::une : ir::CmpPred::ne;
  return {s.builder.cmp(predicate, x.id, zero), kInt1, x.shape};
}

std::vector<int32_t> commonShape(const Semantics &s, std::vector<int32_t> a, std::vector<int32_t> b,
                                 const Value &argument, const std::string &whose) {
  const std::string texts = shapeText(a) + " and " + shapeText(b);
  a.insert(a.begin(), std::max(a.size(), b.size()) - a.size(), 1);
  b.insert(b.begin(), a.size() - b.size(), 1);
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && a[i] != 1 && b[i] != 1) {
      s.fail(argument, whose + "shapes " + texts + " do not broadcast: axis " + std::to_string(i) +
                           " has " + std::to_string(a[i]) + " and " + std::to_string(b[i]));
    }
    a[i] = a[i] == 1 ? b[i] : a[i];
  }
  checkShape(s, a, "the broadcast of " + texts);
  return a;
}

// x under leading axes of extent 1, then repeated.
Tensor stretch(Semantics &s, Tensor x, std::span<const int32_t> shape) {
  if (std::ranges::equal(x.shape, shape)) {
    return x;
  }
  if (x.isScalar()) {
    return emitShaped(s, Opcode::Splat, x.id, x.dtype, shape);
  }
  while (x.shape.size() < shape.size()) {
    x = expandDims(s, x, 0);
  }
  return std::ranges::equal(x.shape, shape)
             ? x
             : emitShaped(s, Opcode::Broadcast, x.id, x.dtype, shape);
}

Tensor Semantics::broadcastTo(const Tensor &x, std::span<const int32_t> shape) {
  if (!x.isScalar()) {
    bool fits = x.shape.size() == shape.size();
    for (size_t i = 0; fits && i < shape.size(); ++i) {
      fits = x.shape[i] == shape[i] || x.shape[i] == 1;
    }
    if (!fits) {
      fail("cannot broadcast shape " + shapeText(x.shape) + " to " + shapeText(shape));
    }
  }
  return stretch(*this, x, shape);
}

std::pair<Tensor, Tensor> Semantics::broadcastBoth(const Tensor &a, const Tensor &b) {
  if (a.shape == b.shape) {
    return {a, b};
  }
  const std::vector<int32_t> shape = commonShape(*this, a.shape, b.shape);
  const Tensor left = stretch(*this, a, shape);
  return {left, stretch(*this, b, shape)};
}

Tensor expandDims(Semantics &s, const Tensor &x, unsigned axis) {
  std::vector<int32_t> shape = x.shape;
  shape.insert(shape.begin() + axis, 1);
  checkShape(s, shape, "the tile with a new axis");
  if (x.isScalar()) {
    return emitShaped(s, Opcode::Splat, x.id, x.dtype, shape);
  }
  const Tensor result = emitShaped(s, Opcode::ExpandDims, x.id, x.dtype, shape);
  ir::Function &fn = s.builder.function();
  fn.setAttr(fn.def(result.id), ir::Attr::axis, ir::AttrValue(int64_t{axis}));
  return result;
}

Tensor reshapeTo(Semantics &s, const Tensor &x, std::span<const int32_t> shape) {
  const int64_t from = irType(x.dtype, x.shape).numElements();
  const int64_t to = irType(x.dtype, shape).numElements();
  if (from != to) {
    s.fail("cannot reshape " + shapeText(x.shape) + " to " + shapeText(shape) + ": " +
           std::to_string(from) + " elements are not " + std::to_string(to));
  }
  if (std::ranges::equal(x.shape, shape)) {
    return x;
  }
  if (shape.empty()) {
    return onlyElement(s, x);
  }
  return emitShaped(s, x.isScalar() ? Opcode::Splat : Opcode::Reshape, x.id, x.dtype, shape);
}

Tensor permuteTo(Semantics &s, const Tensor &x, std::span<const int64_t> order,
                 const Value &argument) {
  std::vector<int32_t> shape;
  std::vector<bool> seen(x.shape.size());
  bool identity = true;
  for (size_t i = 0; i < order.size() && order.size() == x.shape.size(); ++i) {
    const unsigned axis = wrapAxis(s, order[i], x.shape.size(), argument);
    identity = identity && axis == i;
    seen[axis] = true;
    shape.push_back(x.shape[axis]);
  }
  if (order.size() != x.shape.size() || std::ranges::find(seen, false) != seen.end()) {
    s.fail(argument, "the axes of a permutation of " + shapeText(x.shape) + " must be 0 to " +
           std::to_string(x.shape.size() - 1) + ", each once");
  }
  if (identity) {
    return x;
  }
  const Tensor result = emitShaped(s, Opcode::Trans, x.id, x.dtype, shape);
  std::vector<int64_t> axes;
  for (const int64_t axis : order) {
    axes.push_back(wrapAxis(s, axis, x.shape.size()));
  }
  ir::Function &fn = s.builder.function();
  fn.setAttr(fn.def(result.id), ir::Attr::order, ir::AttrValue(axes));
  return result;
}

Tensor onlyElement(Semantics &s, const Tensor &x) {
  if (x.isScalar()) {
    return x;
  }
  if (irType(x.dtype, x.shape).numElements() != 1) {
    s.fail("expected one element, got shape " + shapeText(x.shape));
  }
  if (x.dtype.isPointer()) {
    const DType address{ir::Elem::I64, true};
    return s.cast(onlyElement(s, s.cast(x, address)), x.dtype);
  }
  // A fold over one element is that element, whatever the function.
  constexpr std::array<int32_t, 1> kOne = {1};
  const Tensor flat = x.shape.size() == 1 ? x : emitShaped(s, Opcode::Reshape, x.id, x.dtype, kOne);
  return reduceTiles(s, {flat}, 0, false, [](auto left, auto) {
    return std::vector<Tensor>(left.begin(), left.end());
  })[0];
}

} // namespace libtile::frontend
