// SPDX-License-Identifier: Apache-2.0
// Calls: operations, jit functions (inlined), objects of the Host, Python's built-in functions.
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

std::string count(size_t number, const std::string &what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

} // namespace

const Operation *findBuiltin(std::string_view name) {
  if (name == "range") {
    return Semantics::find("range");
  }
  for (const Operation *builtin : kBuiltins) {
    if (builtin->name == name) {
      return builtin;
    }
  }
  return nullptr;
}

Value Walker::call(const Expr &expr) {
  const Value callee = eval(expr.a);
  const Arguments given = arguments(expr);
  at(expr.range);
  Value result = callValue(callee, given);
  at(expr.range);
  checkSize(result, expr.range);
  return result;
}

Arguments Walker::arguments(const Expr &expr) {
  Arguments given;
  given.positional = items(expr.list);
  for (uint32_t i = 0; i < expr.list2.count; i += 2) {
    given.keyword.emplace_back(ast()[ast().name(expr.list2, i)],
                               eval(ast().expr(expr.list2, i + 1)));
  }
  return given;
}

Value Walker::callValue(const Value &callee, const Arguments &arguments) {
  if (const auto *operation = callee.as<const Operation *>()) {
    return callOperation(**operation, arguments);
  }
  if (const auto *function = callee.as<std::shared_ptr<const FunctionSource>>()) {
    return callFunction(*function, arguments);
  }
  if (const auto *method = callee.as<std::shared_ptr<const BoundMethod>>()) {
    Arguments withSelf = arguments;
    withSelf.positional.insert(withSelf.positional.begin(), (*method)->self);
    return callOperation(*(*method)->operation, withSelf);
  }
  if (const auto *object = callee.as<std::shared_ptr<HostObject>>()) {
    return ask([&] { return host_.call(*object, arguments, sem_); });
  }
  sem_.fail(callee.describe() + " cannot be called");
}

Value Walker::callOperation(const Operation &operation, const Arguments &arguments) {
  if (std::find(kBuiltins.begin(), kBuiltins.end(), &operation) != kBuiltins.end()) {
    return builtin(operation, arguments);
  }
  const std::string_view name = operation.name;
  if (operation.kind == Operation::Construct && (name == "range" || name == "static_range")) {
    sem_.fail("`" + std::string(name) + "` is allowed as the iterable of a `for` only");
  }
  if (operation.kind == Operation::Construct && name == "condition") {
    return sem_.bind(operation, arguments)[0];
  }
  return sem_.call(operation, arguments);
}

// ---- jit functions

Value Walker::callFunction(const std::shared_ptr<const FunctionSource> &callee,
                           const Arguments &arguments) {
  const AstFunction *fn = callee->ast->find(callee->name);
  ir::check(fn != nullptr, "a function is in its tree");
  if (fn->error) {
    throw ir::UserError(*fn->error);
  }
  if (inlined_ > kMostInlined) {
    sem_.fail("calls nested more than " + std::to_string(kMostInlined) +
              " deep; a recursion must end on a constant");
  }
  called_.try_emplace(callee.get(), callee);
  const ir::Location site = sem_.location();
  Frame frame;
  frame.source = callee.get();
  frame.ast = callee->ast.get();
  frame.caller = std::make_shared<const ir::Location>(site);
  bindArguments(callee, *fn, arguments, frame.path.scope);
  sem_.setLocation(site);
  Value result;
  {
    const FrameGuard guard(*this, frame);
    statements(fn->body);
    result = functionResult(*fn);
  }
  sem_.setLocation(site);
  return result;
}

void Walker::bindArguments(const std::shared_ptr<const FunctionSource> &callee,
                           const AstFunction &fn, const Arguments &arguments, Scope &into) {
  const Ast &tree = *callee->ast;
  for (const auto &[keyword, value] : arguments.keyword) {
    if (std::ranges::none_of(fn.params, [&](const AstParam &param) {
          return param.kind != AstParam::VarArgs && tree[param.name] == keyword;
        })) {
      sem_.fail("`" + callee->name + "` has no parameter `" + keyword + "`");
    }
  }
  size_t position = 0;
  // A tensor for a constexpr parameter is no error, as in Triton: programs rely on it.
  for (const AstParam &param : fn.params) {
    const std::string &name = tree[param.name];
    if (param.kind == AstParam::KeywordArgs) {
      sem_.fail("`**" + name + "` among the parameters of `" + callee->name + "` is not allowed");
    }
    if (param.kind == AstParam::VarArgs) {
      const size_t rest = std::min(position, arguments.positional.size());
      into.set(param.name,
               Value::tuple({arguments.positional.begin() + static_cast<std::ptrdiff_t>(rest),
                             arguments.positional.end()}),
               param.range);
      position = arguments.positional.size();
      continue;
    }
    Value value;
    if (param.kind == AstParam::Normal && position < arguments.positional.size()) {
      value = arguments.positional[position++];
    }
    for (const auto &[keyword, given] : arguments.keyword) {
      if (keyword != name) {
        continue;
      }
      if (value.bound()) {
        sem_.fail("`" + callee->name + "` is given two values for `" + name + "`");
      }
      value = given;
    }
    if (!value.bound() && param.deflt.valid()) {
      value = defaultOf(callee, param);
    }
    if (!value.bound()) {
      sem_.fail("`" + callee->name + "` needs a value for `" + name + "`");
    }
    into.set(param.name, std::move(value), param.range);
  }
  if (position < arguments.positional.size()) {
    sem_.fail("`" + callee->name + "` takes " + count(position, "positional argument") + ", not " +
              std::to_string(arguments.positional.size()));
  }
}

// ---- built-in functions of Python

Value Walker::builtin(const Operation &operation, const Arguments &arguments) {
  const std::vector<Value> &given = arguments.positional;
  const std::string name = operation.name;
  if (&operation == &kPrint) {
    const Value print = sem_.languageName("device_print");
    return print.bound() ? callValue(print, arguments) : print;
  }
  if (!arguments.keyword.empty()) {
    sem_.fail("`" + name + "` takes no keyword arguments in a kernel");
  }
  const auto expect = [&](size_t least, size_t most) {
    if (given.size() < least || given.size() > most) {
      sem_.fail("`" + name + "` takes " + count(least, "argument") + ", not " +
                std::to_string(given.size()));
    }
  };
  const auto attributeName = [&]() -> const std::string & {
    const Constant *constant = given[1].constant();
    const std::string *text = constant != nullptr ? std::get_if<std::string>(constant) : nullptr;
    if (text == nullptr) {
      sem_.fail("`" + name + "` needs a text as the attribute's name, not " + given[1].describe());
    }
    return *text;
  };
  const ir::Location &here = sem_.location();
  const SourceRange range{here.line, here.column, here.endColumn};
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
    try {
      return Value::boolean(findAttribute(given[0], attributeName(), range).bound());
    } catch (const ir::Unsupported &) {
      return Value::boolean(false);
    }
  }
  expect(1, 1);
  if (&operation == &kLen || &operation == &kList) {
    if (given[0].tuple() == nullptr) {
      sem_.fail("`" + name + "` needs a tuple, not " + given[0].describe());
    }
    return &operation == &kList
               ? given[0]
               : Value::integer(static_cast<BigInt>(given[0].tuple()->items.size()));
  }
  return toNumber(given[0], &operation == &kFloat);
}

bool Walker::isInstance(const Value &value, const Value &cls) {
  if (const Tuple *any = cls.tuple()) {
    return std::any_of(any->items.begin(), any->items.end(),
                       [&](const Value &one) { return isInstance(value, one); });
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
  if (name == "dtype") {
    return value.as<TypeValue>() != nullptr;
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
