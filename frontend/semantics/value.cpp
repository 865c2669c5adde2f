// SPDX-License-Identifier: Apache-2.0
#include "frontend/semantics/value.h"

#include "frontend/semantics/blocks.h"
#include "frontend/specialise/host.h"
#include "frontend/semantics/semantics.h"
#include "frontend/syntax/source.h"
#include "ir/ops.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>

namespace libtile::frontend {

namespace {

struct NamedType {
  std::string_view name; // Triton's, and the one that name() gives
  std::string_view shortName;
  std::string_view longName; // as in tl.float32
  ir::Elem elem;
  bool isSigned;
  std::optional<ir::Float8> float8 = {};
};

constexpr std::array kTypes = {
    NamedType{"int1", "i1", "bool", ir::Elem::I1, false},
    NamedType{"int8", "i8", "int8", ir::Elem::I8, true},
    NamedType{"int16", "i16", "int16", ir::Elem::I16, true},
    NamedType{"int32", "i32", "int32", ir::Elem::I32, true},
    NamedType{"int64", "i64", "int64", ir::Elem::I64, true},
    NamedType{"uint8", "u8", "uint8", ir::Elem::I8, false},
    NamedType{"uint16", "u16", "uint16", ir::Elem::I16, false},
    NamedType{"uint32", "u32", "uint32", ir::Elem::I32, false},
    NamedType{"uint64", "u64", "uint64", ir::Elem::I64, false},
    NamedType{"fp16", "f16", "float16", ir::Elem::F16, true},
    NamedType{"bf16", "bf16", "bfloat16", ir::Elem::BF16, true},
    NamedType{"fp32", "f32", "float32", ir::Elem::F32, true},
    NamedType{"fp64", "f64", "float64", ir::Elem::F64, true},
    NamedType{"fp8e5", "fp8e5", "float8e5", ir::Elem::I8, true, ir::Float8::e5},
    NamedType{"fp8e4nv", "fp8e4nv", "float8e4nv", ir::Elem::I8, true, ir::Float8::e4nv},
    NamedType{"fp8e4b15", "fp8e4b15", "float8e4b15", ir::Elem::I8, true, ir::Float8::e4b15},
    NamedType{"fp8e4b8", "fp8e4b8", "float8e4b8", ir::Elem::I8, true, ir::Float8::e4b8},
    NamedType{"fp8e5b16", "fp8e5b16", "float8e5b16", ir::Elem::I8, true, ir::Float8::e5b16},
    NamedType{"void", "void", "void", ir::Elem::Void, true},
    NamedType{"int1", "u1", "B", ir::Elem::I1, false},
};

std::string floatText(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  if (std::isinf(value)) {
    return value < 0 ? "-inf" : "inf";
  }
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string text(buffer.data(), end);
  // As Python does, a float is recognisable as one.
  if (text.find_first_of(".e") == std::string::npos) {
    text += ".0";
  }
  return text;
}

std::string shapeText(const std::vector<int32_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

std::string typeText(const TypeValue &type) {
  return type.dtype.name() + (type.shape.empty() ? "" : shapeText(type.shape));
}

struct ConstantText {
  std::string operator()(None) const { return "None"; }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(BigInt value) const { return bigIntText(value); }
  std::string operator()(double value) const { return floatText(value); }
  std::string operator()(const std::string &value) const { return value; }
};

struct Describe {
  std::string operator()(std::monostate) const { return "an unbound name"; }
  std::string operator()(const Constant &value) const {
    if (std::holds_alternative<std::string>(value)) {
      return "constexpr '" + std::get<std::string>(value) + "'";
    }
    return std::holds_alternative<None>(value) ? "None" : "constexpr " + constantText(value);
  }
  std::string operator()(const Tensor &value) const {
    return "tensor of " + typeText(value.type());
  }
  std::string operator()(const std::shared_ptr<const Aggregate> &value) const {
    if (value->cls->is(*Class::tuple())) {
      return "tuple of " + std::to_string(value->fields.size());
    }
    if (const std::string block = describeBlock(*value); !block.empty()) {
      return block;
    }
    return value->cls->name;
  }
  std::string operator()(const std::shared_ptr<const Class> &value) const {
    return "class " + value->name;
  }
  std::string operator()(const TypeValue &value) const { return "type " + typeText(value); }
  std::string operator()(const std::shared_ptr<const FunctionSource> &value) const {
    return "function " + value->name;
  }
  std::string operator()(const Operation *value) const {
    return std::string("operation ") + value->name;
  }
  std::string operator()(const std::shared_ptr<const BoundMethod> &value) const {
    const auto *operation = value->callee.as<const Operation *>();
    return operation != nullptr
               ? std::string("method ") + (*operation)->name
               : "method of " + value->self.describe() + ", " + value->callee.describe();
  }
  std::string operator()(const std::shared_ptr<HostObject> &value) const {
    return value->describe();
  }
  std::string operator()(const LanguagePart *value) const {
    return std::string("module ") + value->name;
  }
};

bool sameConstant(const Constant &a, const Constant &b) {
  const double *x = std::get_if<double>(&a);
  const double *y = std::get_if<double>(&b);
  return x != nullptr && y != nullptr ? std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y)
                                      : a == b;
}

// Of two values of one alternative.
struct Same {
  const Value &other;
  bool operator()(std::monostate) const { return true; }
  bool operator()(const Constant &x) const { return sameConstant(x, *other.constant()); }
  bool operator()(const Tensor &x) const { return x.id == other.tensor()->id; }
  bool operator()(const std::shared_ptr<const Aggregate> &x) const {
    const Aggregate &y = *other.aggregate();
    return x.get() == &y ||
           (x->cls->is(*y.cls) && std::ranges::equal(x->fields, y.fields, sameValue));
  }
  bool operator()(const std::shared_ptr<const Class> &x) const {
    return x->is(**other.as<std::shared_ptr<const Class>>());
  }
  bool operator()(const std::shared_ptr<const BoundMethod> &x) const {
    const BoundMethod &y = **other.as<std::shared_ptr<const BoundMethod>>();
    return sameValue(x->self, y.self) && sameValue(x->callee, y.callee);
  }
  // Types by what they say; functions, operations, objects by identity.
  template <class T> bool operator()(const T &x) const { return x == *other.as<T>(); }
};

} // namespace

bool sameValue(const Value &a, const Value &b) {
  return a.data().index() == b.data().index() && std::visit(Same{b}, a.data());
}

bool isPartOf(const Value &part, const Value &whole) {
  const Aggregate *aggregate = whole.aggregate();
  return &part == &whole ||
         (aggregate != nullptr &&
          std::ranges::any_of(aggregate->fields,
                              [&](const Value &field) { return isPartOf(part, field); }));
}

const std::shared_ptr<const Class> &Class::tuple() {
  // Never destroyed: values may outlive the statics.
  static const auto &made =
      *new std::shared_ptr<const Class>(new Class{"tuple", {}, true, nullptr});
  return made;
}

const std::shared_ptr<const Class> &Class::slice() {
  static const auto &made = *new std::shared_ptr<const Class>(
      new Class{"slice", {"start", "stop", "step"}, false, nullptr});
  return made;
}

const std::shared_ptr<const Class> &Class::blockPointer() {
  static const auto &made = *new std::shared_ptr<const Class>(new Class{
      "block_pointer", {"base", "shape", "strides", "offsets", "block_shape", "order"}, false, nullptr});
  return made;
}

const std::shared_ptr<const Class> &Class::tensorDescriptor() {
  static const auto &made = *new std::shared_ptr<const Class>(
      new Class{"tensor_descriptor",
                {"base", "shape", "strides", "block_shape", "padding", "round_f32_to_tf32"},
                false,
                nullptr});
  return made;
}

const std::shared_ptr<const Class> &Class::tensorDescriptorType() {
  static const auto &made = *new std::shared_ptr<const Class>(new Class{
      "tensor_descriptor_type", {"block_type", "shape_type", "strides_type"}, false, nullptr});
  return made;
}

const std::shared_ptr<const Class> &Class::constexprType() {
  static const auto &made =
      *new std::shared_ptr<const Class>(new Class{"constexpr_type", {"value"}, false, nullptr});
  return made;
}

const std::shared_ptr<const Class> &Class::tupleType() {
  static const auto &made =
      *new std::shared_ptr<const Class>(new Class{"tuple_type", {"types", "fields"}, false, nullptr});
  return made;
}

void Arguments::prepend(Value first) {
  positional.insert(positional.begin(), std::move(first));
  if (!places.empty()) {
    places.insert(places.begin(), SourceRange{});
  }
}

DType DType::pointee() const {
  DType result = *this;
  result.pointerDepth = static_cast<uint8_t>(pointerDepth - 1);
  result.isConst = false;
  return result;
}

DType DType::pointerTo() const {
  DType result = *this;
  result.pointerDepth = static_cast<uint8_t>(pointerDepth + 1);
  result.isConst = false;
  return result;
}

std::string DType::name() const {
  if (isPointer()) {
    return "pointer<" + pointee().name() + ">";
  }
  for (const NamedType &type : kTypes) {
    if (type.elem == elem && type.float8 == float8 &&
        (!ir::isInt(elem) || type.isSigned == isSigned || elem == ir::Elem::I1)) {
      return std::string(type.name);
    }
  }
  return "void";
}

std::optional<DType> DType::byName(std::string_view name) {
  constexpr std::string_view pointerPrefix = "pointer<";
  if (name.starts_with("*")) {
    const bool isConst = name.starts_with("*k");
    std::optional<DType> inner = byName(name.substr(isConst ? 2 : 1));
    if (!inner || inner->pointerDepth >= 4) {
      return std::nullopt;
    }
    DType result = inner->pointerTo();
    result.isConst = isConst;
    return result;
  }
  if (name.starts_with(pointerPrefix) && name.ends_with(">")) {
    name.remove_prefix(pointerPrefix.size());
    name.remove_suffix(1);
    return byName("*" + std::string(name));
  }
  for (const NamedType &type : kTypes) {
    if (name == type.name || name == type.shortName || name == type.longName) {
      return DType{.elem = type.elem, .isSigned = type.isSigned, .float8 = type.float8};
    }
  }
  return std::nullopt;
}

std::string bigIntText(BigInt value) {
  if (value == 0) {
    return "0";
  }
  const bool negative = value < 0;
  auto rest = static_cast<unsigned __int128>(value);
  if (negative) {
    rest = -rest;
  }
  std::string digits;
  for (; rest != 0; rest /= 10) {
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(rest % 10)));
  }
  return (negative ? "-" : "") + digits;
}

std::string constantText(const Constant &value) { return std::visit(ConstantText{}, value); }

Value Value::tuple(std::vector<Value> items) { return aggregate(Class::tuple(), std::move(items)); }

Value Value::aggregate(std::shared_ptr<const Class> cls, std::vector<Value> fields) {
  return Value(std::make_shared<const Aggregate>(Aggregate{std::move(cls), std::move(fields)}));
}

const Aggregate *Value::tuple() const {
  const Aggregate *all = aggregate();
  return all != nullptr && all->cls->isSequence ? all : nullptr;
}

const Aggregate *Value::object() const {
  const Aggregate *all = aggregate();
  return all != nullptr && all->cls->host != nullptr && !all->cls->isSequence ? all : nullptr;
}

std::string Value::describe() const { return std::visit(Describe{}, data_); }

std::string Value::text() const {
  if (const Constant *value = constant()) {
    return constantText(*value);
  }
  if (const TypeValue *type = as<TypeValue>()) {
    return typeText(*type);
  }
  if (const Tensor *value = tensor()) {
    return value->dtype.name() + shapeText(value->shape);
  }
  if (const Aggregate *all = aggregate()) {
    const std::vector<std::string> &names = all->cls->fields;
    std::string result = (all->cls->is(*Class::tuple()) ? "" : all->cls->name) + "(";
    for (size_t i = 0; i < all->fields.size(); ++i) {
      const std::string name = i < names.size() ? names[i] + "=" : "";
      result += (i == 0 ? "" : ", ") + name + all->fields[i].quoted();
    }
    return result + (all->fields.size() == 1 && names.empty() ? ",)" : ")");
  }
  return describe();
}

std::string Value::quoted() const {
  const Constant *value = constant();
  const bool isString = value != nullptr && std::holds_alternative<std::string>(*value);
  return isString ? "'" + text() + "'" : text();
}

} // namespace libtile::frontend
