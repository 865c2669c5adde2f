// SPDX-License-Identifier: Apache-2.0
// The built-in functions of Python that kernels may call.
#include "frontend/specialise/walker.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace libtile::frontend {

namespace {

const Operation kLen{"len",   Operation::Construct,           "object", {},
                     nullptr, "Number of a tuple's elements."};
const Operation kFloat{"float", Operation::Construct, "x", {}, nullptr, "A constant as a float."};
const Operation kInt{"int", Operation::Construct, "x", {}, nullptr, "A constant as an int."};
const Operation kList{"list", Operation::Construct, "x", {}, nullptr, "A tuple."};
const Operation kIsInstance{"isinstance", Operation::Construct, "object, class", {}, nullptr, ""};
const Operation kGetAttr{"getattr", Operation::Construct, "object, name, default", {}, nullptr, ""};
const Operation kHasAttr{"hasattr", Operation::Construct, "object, name", {}, nullptr, ""};
const Operation kPrint{"print", Operation::Construct, "*values", {}, nullptr, "device_print."};
const Operation kMin{"min",   Operation::Construct,          "*values", {},
                     nullptr, "Folds constants, or minimum."};
const Operation kMax{"max",   Operation::Construct,          "*values", {},
                     nullptr, "Folds constants, or maximum."};
constexpr std::array kBuiltins = {&kLen,     &kFloat,   &kInt,   &kList, &kIsInstance,
                                  &kGetAttr, &kHasAttr, &kPrint, &kMin,  &kMax};

// The name of an attribute.
std::string attributeText(const Semantics &s, const Value &value, const std::string &function) {
  const Constant *constant = value.constant();
  const std::string *text = constant != nullptr ? std::get_if<std::string>(constant) : nullptr;
  if (text == nullptr) {
    s.fail("`" + function + "` needs a text as the attribute's name, not " + value.describe());
  }
  return *text;
}

} // namespace

const Operation *findBuiltin(std::string_view name) {
  if (name == "range") {
    return Semantics::find("range");
  }
  if (name == Semantics::notImplemented()->name) {
    return Semantics::notImplemented();
  }
  for (const Operation *builtin : kBuiltins) {
    if (builtin->name == name) {
      return builtin;
    }
  }
  return nullptr;
}

std::vector<std::string> builtinNames() {
  std::vector<std::string> names = {"range"};
  for (const Operation *builtin : kBuiltins) {
    names.emplace_back(builtin->name);
  }
  return names;
}

Value Walker::builtin(const Operation &operation, const Arguments &arguments) {
  const std::vector<Value> &given = arguments.positional;
  const std::string name = operation.name;
  if (&operation == &kPrint) {
    const Value print = Semantics::languageName("device_print");
    if (!print.bound()) {
      sem_.unknownName("device_print");
    }
    return callValue(print, arguments);
  }
  if (!arguments.keyword.empty()) {
    sem_.fail("`" + name + "` takes no keyword arguments in a kernel");
  }
  const auto expect = [&](size_t least, size_t most) {
    if (given.size() < least || given.size() > most) {
      sem_.fail("`" + name + "` takes " + countText(least, "argument") + ", not " +
                std::to_string(given.size()));
    }
  };
  const auto attributeName = [&] { return attributeText(sem_, given[1], name); };
  const SourceRange range = here();
  if (&operation == &kMin || &operation == &kMax) {
    return minMax(&operation == &kMin, given);
  }
  if (&operation == &kIsInstance) {
    expect(2, 2);
    return Value::boolean(isInstance(given[0], given[1]));
  }
  if (&operation == &kGetAttr) {
    expect(2, 3);
    const Value found = given.size() == 3 ? findAttribute(given[0], attributeName(), range)
                                          : attribute(given[0], attributeName(), range);
    return found.bound() ? found : given[2];
  }
  if (&operation == &kHasAttr) {
    expect(2, 2);
    return Value::boolean(findAttribute(given[0], attributeName(), range).bound());
  }
  expect(1, 1);
  if (&operation == &kLen && given[0].object() != nullptr) {
    if (Value length = callMember(given[0], "__len__", {}); length.bound()) {
      return length;
    }
  }
  if (&operation == &kLen || &operation == &kList) {
    if (given[0].tuple() == nullptr) {
      sem_.fail("`" + name + "` needs a tuple, not " + given[0].describe());
    }
    return &operation == &kList
               ? given[0]
               : Value::integer(static_cast<BigInt>(given[0].tuple()->fields.size()));
  }
  return toNumber(given[0], &operation == &kFloat);
}

bool Walker::isInstance(const Value &value, const Value &cls) {
  if (const Aggregate *any = cls.tuple()) {
    return std::ranges::any_of(any->fields,
                               [&](const Value &one) { return isInstance(value, one); });
  }
  if (const auto *known = cls.as<std::shared_ptr<const Class>>()) {
    return value.aggregate() != nullptr && value.aggregate()->cls->is(**known);
  }
  if (cls.as<std::shared_ptr<HostObject>>() != nullptr) {
    return false;
  }
  const auto *operation = cls.as<const Operation *>();
  const std::string_view name = operation != nullptr ? (*operation)->name : "";
  const Constant *constant = value.constant();
  if (name == "tensor") {
    return value.tensor() != nullptr;
  }
  if (name == "constexpr") {
    return constant != nullptr;
  }
  if (name == "tuple" || name == "list") {
    return value.tuple() != nullptr && name == "tuple";
  }
  if (name == "constexpr_type" || name == "tuple_type") {
    const auto &described = name == "tuple_type" ? Class::tupleType() : Class::constexprType();
    return value.aggregate() != nullptr && value.aggregate()->cls == described;
  }
  if (name.starts_with("tensor_descriptor")) {
    const auto &described = name.ends_with("type") ? Class::tensorDescriptorType() : Class::tensorDescriptor();
    return value.aggregate() != nullptr && value.aggregate()->cls == described;
  }
  if (name == "dtype") {
    return value.as<TypeValue>() != nullptr;
  }
  if (name == "pointer_type" || name == "block_type") {
    const auto *type = value.as<TypeValue>();
    return type != nullptr && (name == "block_type" ? !type->shape.empty()
                                                    : type->shape.empty() && type->dtype.isPointer());
  }
  if (name == "int") {
    return constant != nullptr &&
           (std::holds_alternative<BigInt>(*constant) || std::holds_alternative<bool>(*constant));
  }
  if (name == "float") {
    return constant != nullptr && std::holds_alternative<double>(*constant);
  }
  sem_.fail(
      "isinstance needs a class (tl.tensor, tl.constexpr, tl.tuple, tl.dtype, int, float), not " +
      cls.describe());
}

bool Walker::fitsField(const Value &value, const Value &type) {
  if (const Aggregate *any = type.tuple()) {
    return std::ranges::any_of(any->fields,
                               [&](const Value &one) { return fitsField(value, one); });
  }
  const auto *operation = type.as<const Operation *>();
  const bool isConstexpr = operation != nullptr && (*operation)->name == std::string_view("constexpr");
  return isConstexpr ? !hasTensors(value) : isInstance(value, type);
}

Value Walker::toNumber(const Value &value, bool isFloat) {
  const Constant *constant = value.constant();
  double number = 0;
  if (constant != nullptr && std::holds_alternative<BigInt>(*constant)) {
    if (!isFloat) {
      return value;
    }
    number = static_cast<double>(std::get<BigInt>(*constant));
  } else if (constant != nullptr && std::holds_alternative<bool>(*constant)) {
    number = std::get<bool>(*constant) ? 1 : 0;
  } else if (constant != nullptr && std::holds_alternative<double>(*constant)) {
    number = std::get<double>(*constant);
  } else if (constant != nullptr && std::holds_alternative<std::string>(*constant) && isFloat) {
    std::string_view text = std::get<std::string>(*constant);
    const bool plus = text.starts_with('+');
    text.remove_prefix(plus ? 1 : 0);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() ||
        (plus && text.starts_with('-'))) {
      sem_.fail("not a number: " + value.describe());
    }
  } else {
    sem_.fail(std::string(isFloat ? "`float`" : "`int`") + " needs a constant number, not " +
              value.describe());
  }
  if (isFloat) {
    return Value(Constant(number));
  }
  constexpr double kMost = 0x1p126;
  if (!(std::fabs(number) <= kMost)) {
    sem_.fail("no integer of at most 127 bits: " + value.describe());
  }
  return Value::integer(static_cast<BigInt>(number));
}

Value Walker::minMax(bool isMin, const std::vector<Value> &values) {
  if (values.empty()) {
    sem_.fail(std::string(isMin ? "`min`" : "`max`") + " needs an argument");
  }
  Value best = values[0];
  for (size_t i = 1; i < values.size(); ++i) {
    if (best.constant() != nullptr && values[i].constant() != nullptr) {
      const Value closer = sem_.compare(isMin ? CompareOp::Lt : CompareOp::Gt, values[i], best);
      best = sem_.constantTruth(closer).value_or(false) ? values[i] : best;
    } else {
      best = sem_.call(*Semantics::find(isMin ? "minimum" : "maximum"), {{best, values[i]}, {}});
    }
  }
  return best;
}

} // namespace libtile::frontend
