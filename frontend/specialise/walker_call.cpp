// SPDX-License-Identifier: Apache-2.0
// Calls: operations, jit functions (inlined), methods, classes, objects of the Host.
#include "frontend/specialise/walker.h"

#include <algorithm>

namespace libtile::frontend {

Value Walker::call(const Expr &expr, bool isUsed) {
  const Value callee = eval(expr.a);
  const Arguments given = arguments(expr);
  at(expr.range);
  Value result = callValue(callee, given);
  at(expr.range);
  if (!isUsed) {
    checkUnused(expr.a, callee);
  }
  checkSize(result, expr.range);
  return result;
}

// The call of a function stands alone whose result may have to be used.
void Walker::checkUnused(ExprId called, const Value &callee) {
  if (const auto *method = callee.as<std::shared_ptr<const BoundMethod>>()) {
    return checkUnused(called, (*method)->callee);
  }
  const auto *function = callee.as<std::shared_ptr<const FunctionSource>>();
  const auto *object = callee.as<std::shared_ptr<HostObject>>();
  const std::shared_ptr<HostObject> owner = function != nullptr ? (*function)->host
                                            : object != nullptr ? *object
                                                                : nullptr;
  const Value must = owner != nullptr ? hostAttribute(owner, "_must_use_result") : Value();
  const Constant *constant = must.constant();
  const std::string *text = constant != nullptr ? std::get_if<std::string>(constant) : nullptr;
  if (text != nullptr || (constant != nullptr && *constant == Constant(true))) {
    const std::string path = dottedPath(called);
    sem_.fail("the result of " + (path.empty() ? callee.describe() : path) + " is not used" +
              (text != nullptr ? ": " + *text : ""));
  }
}

// `a.b.c` as written; "" of other expressions.
std::string Walker::dottedPath(ExprId id) const {
  const Expr &expr = ast()[id];
  if (expr.kind == ExprKind::Name) {
    return ast()[expr.name];
  }
  const std::string owner = expr.kind == ExprKind::Attribute ? dottedPath(expr.a) : "";
  return owner.empty() ? "" : owner + "." + ast()[expr.name];
}

Arguments Walker::arguments(const Expr &expr) {
  Arguments given;
  std::vector<SourceRange> keywordPlaces;
  for (uint32_t i = 0; i < expr.list.count; ++i) {
    const ExprId id = ast().expr(expr.list, i);
    const Expr &argument = ast()[id];
    if (argument.kind == ExprKind::Keyword) {
      given.keyword.emplace_back(ast()[argument.name], eval(argument.a));
      keywordPlaces.push_back(argument.range);
    } else {
      addItem(id, given.positional);
      given.places.resize(given.positional.size(), argument.range);
    }
  }
  given.places.insert(given.places.end(), keywordPlaces.begin(), keywordPlaces.end());
  return given;
}

void Walker::failAt(const Arguments &arguments, size_t index, const std::string &message) const {
  const SourceRange place = arguments.place(index);
  if (place.line == 0) {
    sem_.fail(message);
  }
  fail(place, message);
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
    withSelf.prepend((*method)->self);
    return callValue((*method)->callee, withSelf);
  }
  if (const auto *cls = callee.as<std::shared_ptr<const Class>>()) {
    return callClass(*cls, arguments);
  }
  if (const auto *object = callee.as<std::shared_ptr<HostObject>>()) {
    return ask([&] { return host_.call(*object, arguments, sem_); });
  }
  if (callee.object() != nullptr) {
    if (const Value member = findAttribute(callee, "__call__", here()); member.bound()) {
      return callValue(member, arguments);
    }
  }
  const bool isType = callee.as<TypeValue>() != nullptr;
  sem_.fail(callee.describe() + " cannot be called" + (isType ? "; x.to(it) casts" : ""));
}

Value Walker::callOperation(const Operation &operation, const Arguments &arguments) {
  if (&operation == Semantics::notImplemented()) {
    sem_.fail("NotImplemented cannot be called");
  }
  if (findBuiltin(operation.name) == &operation && operation.fn == nullptr) {
    return builtin(operation, arguments);
  }
  const std::string_view name = operation.name;
  if (operation.kind == Operation::Construct && (name == "range" || name == "static_range")) {
    sem_.fail("`" + std::string(name) + "` is allowed as the iterable of a `for` only");
  }
  if (operation.kind == Operation::Construct && name == "condition") {
    return BoundArguments(sem_, operation, arguments)[0];
  }
  if (operation.kind == Operation::Construct && name == "aggregate_replace") {
    return replaceFields(arguments);
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
  const size_t numPositional = arguments.positional.size();
  std::vector<std::string> names;
  for (const AstParam &param : fn.params) {
    if (param.kind == AstParam::Normal || param.kind == AstParam::KeywordOnly) {
      names.push_back(tree[param.name]);
    }
  }
  for (size_t k = 0; k < arguments.keyword.size(); ++k) {
    const std::string &keyword = arguments.keyword[k].first;
    if (std::ranges::find(names, keyword) == names.end()) {
      failAt(arguments, numPositional + k, "`" + callee->name + "` has no parameter `" + keyword +
                                               "`" + didYouMean(keyword, names));
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
      const size_t rest = std::min(position, numPositional);
      into.set(param.name,
               Value::tuple({arguments.positional.begin() + static_cast<std::ptrdiff_t>(rest),
                             arguments.positional.end()}),
               param.range);
      position = numPositional;
      continue;
    }
    Value value;
    if (param.kind == AstParam::Normal && position < numPositional) {
      value = arguments.positional[position++];
    }
    for (size_t k = 0; k < arguments.keyword.size(); ++k) {
      if (arguments.keyword[k].first != name) {
        continue;
      }
      if (value.bound()) {
        failAt(arguments, numPositional + k,
               "`" + callee->name + "` is given two values for `" + name + "`");
      }
      value = arguments.keyword[k].second;
    }
    if (!value.bound() && param.deflt.valid()) {
      value = defaultOf(callee, param);
    }
    if (!value.bound()) {
      sem_.fail("`" + callee->name + "` needs a value for `" + name + "`");
    }
    into.set(param.name, std::move(value), param.range);
  }
  if (position < numPositional) {
    failAt(arguments, position, "`" + callee->name + "` takes " +
                                    countText(position, "positional argument") + ", not " +
                                    std::to_string(numPositional));
  }
}

// ---- classes

// An aggregate with the arguments as its fields.
Value Walker::callClass(const std::shared_ptr<const Class> &cls, const Arguments &arguments) {
  if (cls->isMadeByHost) {
    return ask([&] { return host_.call(cls->host, arguments, sem_); });
  }
  const std::vector<std::string> &names = cls->fields;
  const size_t numPositional = arguments.positional.size();
  if (numPositional > names.size()) {
    failAt(arguments, names.size(), "`" + cls->name + "` has " + countText(names.size(), "field") +
                                        ", not " + std::to_string(numPositional));
  }
  std::vector<Value> fields = arguments.positional;
  fields.resize(names.size());
  for (size_t k = 0; k < arguments.keyword.size(); ++k) {
    const auto &[keyword, value] = arguments.keyword[k];
    const auto found = std::ranges::find(names, keyword);
    if (found == names.end()) {
      failAt(arguments, numPositional + k,
             "`" + cls->name + "` has no field `" + keyword + "`" + didYouMean(keyword, names));
    }
    Value &field = fields[static_cast<size_t>(found - names.begin())];
    if (field.bound()) {
      failAt(arguments, numPositional + k,
             "`" + cls->name + "` is given two values for `" + keyword + "`");
    }
    field = value;
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    if (!fields[i].bound() && cls->host != nullptr) {
      fields[i] = hostDefault(cls->host, names[i]);
    }
    if (!fields[i].bound()) {
      sem_.fail("`" + cls->name + "` needs a value for `" + names[i] + "`");
    }
    fields[i] = fieldValue(*cls, i, fields[i]);
  }
  return Value::aggregate(cls, std::move(fields));
}

// A class or names of the language, for messages.
static std::string typeName(const Value &type) {
  if (const Aggregate *any = type.tuple()) {
    std::string text;
    for (const Value &one : any->fields) {
      text += (text.empty() ? "" : " | ") + typeName(one);
    }
    return text;
  }
  const auto *operation = type.as<const Operation *>();
  const auto *cls = type.as<std::shared_ptr<const Class>>();
  return operation != nullptr ? std::string("tl.") + (*operation)->name
         : cls != nullptr     ? (*cls)->name
                              : type.describe();
}

// The value as the field holds it: a number becomes a tensor where one is declared.
Value Walker::fieldValue(const Class &cls, size_t field, const Value &value) {
  const Value type = field < cls.types.size() ? cls.types[field] : Value::none();
  if (type.isNone() || fitsField(value, type)) {
    return value;
  }
  Value decayed = sem_.decay(value);
  if (!fitsField(decayed, type)) {
    sem_.fail("the field `" + cls.fields[field] + "` of `" + cls.name + "` is declared as " +
              typeName(type) + " and cannot hold " + value.describe());
  }
  return decayed;
}

// aggregate_replace(instance, field=value, ...): its class is called with all fields.
Value Walker::replaceFields(const Arguments &arguments) {
  const Aggregate *instance =
      arguments.positional.size() == 1 ? arguments.positional[0].object() : nullptr;
  if (instance == nullptr) {
    sem_.fail("aggregate_replace takes an aggregate, and its new fields by name");
  }
  const std::vector<std::string> &names = instance->cls->fields;
  Arguments all;
  for (size_t i = 0; i < names.size(); ++i) {
    all.keyword.emplace_back(names[i], instance->fields[i]);
    all.places.emplace_back();
  }
  for (size_t k = 0; k < arguments.keyword.size(); ++k) {
    const auto &[keyword, value] = arguments.keyword[k];
    const auto found = std::ranges::find(names, keyword);
    if (found == names.end()) {
      failAt(arguments, 1 + k, "`" + instance->cls->name + "` has no field `" + keyword + "`" +
                                   didYouMean(keyword, names));
    }
    all.keyword[static_cast<size_t>(found - names.begin())].second = value;
  }
  return callClass(instance->cls, all);
}

} // namespace libtile::frontend
