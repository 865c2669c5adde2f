// SPDX-License-Identifier: Apache-2.0
// What the user hears of a running program: device_print and device_assert.
//
// The op `print` takes few types (ir/print_text.h): values are brought to these without loss, and of what
// they were a format is left.
#include "frontend/semantics/operations.h"
#include "ir/ops.h"

#include <algorithm>

namespace libtile::frontend {

using ir::Attr;
using ir::Opcode;

void assertHolds(Semantics &s, Tensor holds, std::string message) {
  if (!holds.isScalar()) {
    const auto both = [&](std::span<const Tensor> left, std::span<const Tensor> right) {
      return std::vector<Tensor>{emitBinary(s, BinaryOp::BitAnd, left[0], right[0])};
    };
    holds = reduceTiles(s, {holds}, std::nullopt, false, both, true)[0];
  }
  const ir::OpId op = s.builder.op(Opcode::Assert, {&holds.id, 1});
  s.builder.function().setAttr(op, Attr::text, ir::AttrValue(std::move(message)));
}

namespace operations {

namespace {

constexpr DType integerOf(unsigned bits, bool isSigned) {
  const ir::Elem elem = bits == 1    ? ir::Elem::I1
                        : bits == 8  ? ir::Elem::I8
                        : bits == 16 ? ir::Elem::I16
                        : bits == 32 ? ir::Elem::I32
                                     : ir::Elem::I64;
  return {elem, isSigned};
}

// The value as an i32 or i64, of that sign.
Tensor wholeNumber(Semantics &s, const Tensor &x, bool isSigned) {
  return s.cast(x, integerOf(ir::bitWidth(x.dtype.elem) <= 32 ? 32 : 64, isSigned));
}

struct Printed {
  Tensor value;
  std::string format;
};

Printed printed(Semantics &s, const Tensor &x, bool hex) {
  if (x.dtype.isPointer()) {
    return {s.cast(x, integerOf(64, false)), "x16"};
  }
  const unsigned bits = ir::bitWidth(x.dtype.elem);
  if (hex) {
    const Tensor whole = s.cast(x, integerOf(bits, false), true);
    return {wholeNumber(s, whole, false), "x" + std::to_string((bits + 3) / 4)};
  }
  if (x.dtype.isFloat()) {
    return {single(s, x), "f"};
  }
  const bool isSigned = x.dtype.isSigned && !x.dtype.isBool();
  return {wholeNumber(s, x, isSigned), isSigned ? "d" : "u"};
}

// Python's string.printable.
bool isPrintable(char c) { return (c >= ' ' && c <= '~') || (c >= '\t' && c <= '\r'); }

// " x: " of "x": apart from what stands in front of it and from the value behind it.
std::string textAround(std::string prefix, bool hasValues) {
  if (hasValues) {
    prefix += prefix.ends_with(' ') ? "" : " ";
    if (!prefix.ends_with(": ")) {
      prefix.replace(prefix.size() - 1, 1, ": ");
    }
  }
  const bool isApart = prefix.empty() || prefix == ": " || prefix.starts_with(' ');
  return (isApart ? "" : " ") + prefix;
}

} // namespace

Value devicePrint(Semantics &s, Args args) {
  const std::string prefix = constantString(s, args[0], "the prefix of device_print");
  if (!std::ranges::all_of(prefix, isPrintable)) {
    s.fail(args[0], "the prefix of device_print has a character that is no printable ASCII");
  }
  const bool hex = constantBool(s, args[2], "hex of device_print");
  std::vector<ir::ValueId> values;
  std::string formats;
  for (const Value &item : args[1].tuple()->fields) {
    const Constant *constant = item.constant();
    const bool isNumber = constant != nullptr && !item.isNone() && !std::holds_alternative<std::string>(*constant);
    if (item.tensor() == nullptr && !isNumber) {
      s.fail(item, "device_print shows tiles and numbers behind its prefix, got " + item.describe());
    }
    const auto [value, format] = printed(s, s.toTensor(item), hex);
    values.push_back(value.id);
    formats += (formats.empty() ? "" : " ") + format;
  }
  const ir::OpId op = s.builder.op(Opcode::Print, values);
  ir::Function &fn = s.builder.function();
  fn.setAttr(op, Attr::text, ir::AttrValue(textAround(prefix, !values.empty())));
  fn.setAttr(op, Attr::formats, ir::AttrValue(std::move(formats)));
  return Value::none();
}

Value deviceAssert(Semantics &s, Args args) {
  Tensor holds = toBool(s, s.toTensor(args[0]));
  std::string message = constantString(s, args[1], "the message of device_assert");
  if (!args[2].isNone()) {
    const auto [condition, mask] = s.broadcastBoth(holds, toBool(s, s.toTensor(args[2])));
    const Tensor isOff = *s.unary(UnaryOp::Not, Value(mask)).tensor();
    holds = emitBinary(s, BinaryOp::BitOr, condition, isOff);
  }
  if (s.debug) {
    assertHolds(s, std::move(holds), std::move(message));
  }
  return Value::none();
}

} // namespace operations

} // namespace libtile::frontend
