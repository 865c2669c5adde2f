// SPDX-License-Identifier: Apache-2.0
// Expressions of the walker.
#include "frontend/specialise/walker.h"

#include <algorithm>

namespace libtile::frontend {

Value Walker::eval(ExprId id) {
  const Expr &expr = ast()[id];
  step(expr.range);
  switch (expr.kind) {
  case ExprKind::Name:
    return name(expr.name, expr.range);
  case ExprKind::Constant:
    return Value(ast().constants[expr.index]);
  case ExprKind::Ellipsis:
    fail(expr.range, "`...` has no value in a kernel");
  case ExprKind::Tuple:
    return tuple(expr);
  case ExprKind::Binary:
    return binary(id);
  case ExprKind::Unary: {
    const Value operand = eval(expr.a);
    at(expr.range);
    return applyUnary(static_cast<UnaryOp>(expr.op), operand);
  }
  case ExprKind::BoolOp:
    return boolean(expr);
  case ExprKind::Compare:
    return compare(expr);
  case ExprKind::Conditional:
    return conditional(expr);
  case ExprKind::Call:
    return call(expr);
  case ExprKind::Attribute:
    return attribute(eval(expr.a), ast()[expr.name], expr.range);
  case ExprKind::Subscript:
    return subscript(expr);
  case ExprKind::Slice:
    return slice(expr);
  case ExprKind::Keyword:
    break; // stands in the arguments of a call, which look into it
  case ExprKind::Starred:
    fail(expr.range, "`*` is allowed in the arguments of a call only");
  case ExprKind::Walrus: {
    bind(expr.name, eval(expr.b), expr.range);
    return name(expr.name, expr.range);
  }
  case ExprKind::Comprehension:
    return comprehension(expr);
  case ExprKind::Formatted:
    return formatted(expr);
  case ExprKind::Replacement:
    break; // stands in an f-string, which looks into it
  case ExprKind::Refused:
    refused(expr.range, expr.index);
  }
  return {};
}

// A chain to the left of any length: walked from its start, without recursion.
Value Walker::binary(ExprId id) {
  std::vector<ExprId> chain;
  while (ast()[id].kind == ExprKind::Binary) {
    chain.push_back(id);
    id = ast()[id].a;
  }
  Value value = eval(id);
  for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
    const Expr &expr = ast()[*it];
    step(expr.range);
    const Value right = eval(expr.b);
    at(expr.range);
    value = applyBinary(static_cast<BinaryOp>(expr.op), value, right);
    checkSize(value, expr.range);
  }
  return value;
}

// Its truth is not a constant's.
static bool isDynamic(const Value &value) {
  return value.tensor() != nullptr || value.object() != nullptr;
}

bool Walker::isTrue(const Value &value) const {
  return value.tuple() != nullptr ? !value.tuple()->fields.empty() : sem_.constantTruth(value).value_or(false);
}

// Constants decide as in Python, at compile time; from the first tensor on all operands count.
Value Walker::boolean(const Expr &expr) {
  const bool isAnd = expr.op != 0;
  Value value = eval(ast().expr(expr.list, 0));
  for (uint32_t i = 1; i < expr.list.count; ++i) {
    at(expr.range);
    if (isDynamic(value)) {
      const Value right = eval(ast().expr(expr.list, i));
      at(expr.range);
      value = applyLogical(isAnd, value, right);
    } else if (isTrue(value) == isAnd) {
      value = eval(ast().expr(expr.list, i));
    } else {
      return value;
    }
  }
  return value;
}

// a < b < c is (a < b) and (b < c), with b evaluated once.
Value Walker::compare(const Expr &expr) {
  Value left = eval(ast().expr(expr.list, 0));
  Value result;
  for (uint32_t i = 0; i < expr.list2.count; ++i) {
    const Value right = eval(ast().expr(expr.list, i + 1));
    at(expr.range);
    const auto op = static_cast<CompareOp>(ast().lists[expr.list2.first + i]);
    const Value link = applyCompare(op, left, right);
    const bool both = i != 0 && (isDynamic(result) || isDynamic(link));
    result = both ? applyLogical(true, result, link) : link;
    if (!isDynamic(result) && !*sem_.constantTruth(result)) {
      return result;
    }
    left = right;
  }
  return result;
}

Value Walker::conditional(const Expr &expr) {
  const Value test = eval(expr.a);
  at(ast()[expr.a].range);
  if (const auto truth = sem_.constantTruth(test)) {
    return eval(*truth ? expr.b : expr.c);
  }
  const Tensor condition = sem_.condition(test);
  // The result travels through the merge under a name that no source text has.
  constexpr NameId kResult{NameId::kNone - 1};
  at(expr.range);
  branch(
      condition, [&] { scope().set(kResult, eval(expr.b), ast()[expr.b].range); },
      [&] { scope().set(kResult, eval(expr.c), ast()[expr.c].range); });
  const Value result = scope().find(kResult)->value;
  std::erase_if(scope().bindings, [&](const Binding &binding) { return binding.name == kResult; });
  return result;
}

Value Walker::slice(const Expr &expr) {
  std::vector<Value> parts;
  for (const ExprId part : {expr.a, expr.b, expr.c}) {
    parts.push_back(part.valid() ? eval(part) : Value::none());
  }
  return Value::aggregate(Class::slice(), std::move(parts));
}

Value Walker::subscript(const Expr &expr) {
  const Value object = eval(expr.a);
  if (ast()[expr.b].kind == ExprKind::Ellipsis) {
    fail(ast()[expr.b].range, "`...` is not allowed in a subscript");
  }
  const Value index = eval(expr.b);
  at(expr.range);
  const Value found = object.object() != nullptr ? callMember(object, "__getitem__", {index}) : Value();
  return found.bound() ? found : sem_.subscript(object, index);
}

Value Walker::tuple(const Expr &expr) {
  for (uint32_t i = 0; i < expr.list.count; ++i) {
    const Expr &item = ast()[ast().expr(expr.list, i)];
    if (item.kind == ExprKind::Starred) {
      fail(item.range, "`*` is allowed in the arguments of a call only");
    }
  }
  std::vector<Value> items;
  for (uint32_t i = 0; i < expr.list.count; ++i) {
    items.push_back(eval(ast().expr(expr.list, i)));
  }
  Value made = Value::tuple(std::move(items));
  checkSize(made, expr.range);
  return made;
}

Value Walker::comprehension(const Expr &expr) {
  const Expr &target = ast()[expr.c];
  std::vector<NameId> names;
  for (uint32_t i = 0; i < target.list.count; ++i) {
    names.push_back(ast()[ast().expr(target.list, i)].name);
  }
  const bool isOne = target.kind == ExprKind::Name;
  if (isOne) {
    names.push_back(target.name);
  }
  // Its names are its own: what they mean outside comes back.
  std::vector<Binding> outside;
  for (const NameId name : names) {
    const Binding *before = scope().find(name);
    outside.push_back(before != nullptr ? *before : Binding{name, Value(), target.range});
  }
  std::vector<Value> made;
  for (const Value &item : items(expr.b)) {
    step(expr.range);
    if (!isOne && (item.tuple() == nullptr || item.tuple()->fields.size() != names.size())) {
      fail(target.range, std::to_string(names.size()) + " names cannot take " + item.describe());
    }
    for (size_t i = 0; i < names.size(); ++i) {
      scope().set(names[i], isOne ? item : item.tuple()->fields[i], target.range);
    }
    bool isTaken = true;
    for (uint32_t i = 0; i < expr.list.count && isTaken; ++i) {
      const ExprId condition = ast().expr(expr.list, i);
      const Value truth = eval(condition);
      at(ast()[condition].range);
      if (truth.tensor() != nullptr) {
        sem_.fail("the condition of a comprehension must be a constant, got " + truth.describe());
      }
      isTaken = *sem_.constantTruth(truth);
    }
    if (isTaken) {
      made.push_back(eval(expr.a));
    }
  }
  for (Binding &before : outside) {
    if (Binding *own = scope().find(before.name)) {
      *own = std::move(before);
    }
  }
  Value result = Value::tuple(std::move(made));
  checkSize(result, expr.range);
  return result;
}

std::vector<Value> Walker::items(ExprId iterable) {
  const Value value = eval(iterable);
  if (value.tuple() == nullptr) {
    fail(ast()[iterable].range, "a comprehension runs over a tuple, not " + value.describe());
  }
  return value.tuple()->fields;
}

// The text of an f-string.
Value Walker::formatted(const Expr &expr) {
  std::string text;
  for (uint32_t i = 0; i < expr.list.count; ++i) {
    const ExprId id = ast().expr(expr.list, i);
    const Expr &piece = ast()[id];
    if (piece.kind != ExprKind::Replacement) {
      text += eval(id).text();
      continue;
    }
    const Value value = eval(piece.a);
    if (hasTensors(value)) {
      fail(ast()[piece.a].range,
           "an f-string is made while compiling and cannot show " + value.describe());
    }
    const std::string spec = piece.b.valid() ? eval(piece.b).text() : "";
    at(ast()[piece.a].range);
    const bool isQuoted = piece.op == 'r' || piece.op == 'a';
    text += sem_.format(isQuoted          ? Value::string(value.quoted())
                        : piece.op == 's' ? Value::string(value.text())
                                          : value,
                        spec);
  }
  Value result = Value::string(std::move(text));
  checkSize(result, expr.range);
  return result;
}

void Walker::addItem(ExprId id, std::vector<Value> &values) {
  if (ast()[id].kind != ExprKind::Starred) {
    values.push_back(eval(id));
    return;
  }
  const Value spread = eval(ast()[id].a);
  if (spread.tuple() == nullptr) {
    fail(ast()[id].range, "`*` needs a tuple, not " + spread.describe());
  }
  std::ranges::copy(spread.tuple()->fields, std::back_inserter(values));
}

// The host's object that answers for what the value does not have itself; null: none.
static std::shared_ptr<HostObject> ownerOf(const Value &value) {
  if (const auto *held = value.as<std::shared_ptr<HostObject>>()) {
    return *held;
  }
  if (const auto *cls = value.as<std::shared_ptr<const Class>>()) {
    return (*cls)->host;
  }
  return value.aggregate() != nullptr ? value.aggregate()->cls->host : nullptr;
}

Value Walker::attribute(const Value &object, const std::string &name, SourceRange range) {
  Value found = findAttribute(object, name, range);
  if (found.bound()) {
    return found;
  }
  const std::shared_ptr<HostObject> owner = ownerOf(object);
  if (owner == nullptr) {
    sem_.noAttribute(object, name);
  }
  std::vector<std::string> known = host_.names(owner);
  if (const Aggregate *aggregate = object.aggregate()) {
    std::ranges::copy(aggregate->cls->fields, std::back_inserter(known));
  }
  fail(range, object.describe() + " has no attribute `" + name + "`" + didYouMean(name, known));
}

Value Walker::findAttribute(const Value &object, const std::string &name, SourceRange range) {
  at(range);
  if (object.as<const LanguagePart *>() != nullptr && ast().isPrelude()) {
    if (const Operation *internal = Semantics::findInternal(name)) {
      return Value(internal);
    }
  }
  const std::shared_ptr<HostObject> owner = ownerOf(object);
  Value found = sem_.attribute(object, name);
  if (found.bound() || owner == nullptr) {
    return found;
  }
  found = hostAttribute(owner, name);
  return object.aggregate() != nullptr ? bindMethod(object, found) : found;
}

// A member of the class of an aggregate: functions take the aggregate along.
Value Walker::bindMethod(const Value &self, const Value &member) {
  const auto *held = member.as<std::shared_ptr<HostObject>>();
  const bool isMethod = member.as<std::shared_ptr<const FunctionSource>>() != nullptr ||
                        member.as<const Operation *>() != nullptr ||
                        (held != nullptr && (*held)->isFunction());
  return isMethod ? Value(std::make_shared<const BoundMethod>(BoundMethod{self, member})) : member;
}

} // namespace libtile::frontend
