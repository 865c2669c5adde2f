// SPDX-License-Identifier: Apache-2.0
// Names and places of the walker: locals, then the Host, then functions of the same file, then
// Python's built-in functions.
#include "frontend/prelude/prelude.h"
#include "frontend/specialise/walker.h"

#include <algorithm>

namespace libtile::frontend {

namespace {

// Leaves and depth of an aggregate, counted up to the given bounds.
size_t countLeaves(const Value &value, size_t most, unsigned depth) {
  constexpr unsigned kDeepest = 32;
  const Aggregate *aggregate = value.aggregate();
  if (aggregate == nullptr) {
    return 1;
  }
  if (depth >= kDeepest) {
    return most + 1;
  }
  size_t count = 1;
  for (const Value &field : aggregate->fields) {
    count += countLeaves(field, most, depth + 1);
    if (count > most) {
      break;
    }
  }
  return count;
}

} // namespace

const Binding *Scope::find(NameId name) const {
  for (const Binding &binding : bindings) {
    if (binding.name == name) {
      return &binding;
    }
  }
  return nullptr;
}

void Scope::set(NameId name, Value value, SourceRange where) {
  if (Binding *binding = find(name)) {
    *binding = {name, std::move(value), where, Why::None};
  } else {
    bindings.push_back({name, std::move(value), where, Why::None});
  }
}

void Scope::remove(NameId name, Why why) {
  if (Binding *binding = find(name)) {
    binding->value = Value();
    binding->why = why;
  }
}

ir::Location Walker::location(SourceRange range) const {
  return {frame_->ast->file, range.line, range.column, range.endColumn, frame_->caller};
}

void Walker::fail(SourceRange range, const std::string &message) const {
  throw ir::UserError(message, location(range));
}

void Walker::refused(SourceRange range, uint32_t text) const {
  fail(range, ast().texts[text] + " is not allowed in a kernel");
}

void Walker::step(SourceRange range) {
  if (++steps_ > kMostSteps) {
    fail(range, "the kernel takes more than " + std::to_string(kMostSteps) +
                    " steps to unroll and inline");
  }
  if (fn_.numOps() > kMostOps) {
    fail(range, "the kernel has more than " + std::to_string(kMostOps) +
                    " operations after unrolling and inlining");
  }
  const char *here = static_cast<const char *>(__builtin_frame_address(0));
  const std::ptrdiff_t used = here < stackBase_ ? stackBase_ - here : here - stackBase_;
  if (static_cast<size_t>(used) > kMostStack) {
    fail(range, "calls and expressions are nested too deeply");
  }
}

void Walker::checkSize(const Value &value, SourceRange range) {
  constexpr size_t kMostLeaves = 10'000;
  constexpr size_t kLongest = size_t{1} << 20;
  if (value.aggregate() != nullptr) {
    const size_t leaves = countLeaves(value, kMostLeaves, 0);
    steps_ += leaves / 8;
    if (leaves > kMostLeaves) {
      fail(range, "a tuple of more than 10000 elements, or nested more than 32 deep");
    }
  } else if (const Constant *constant = value.constant()) {
    const std::string *text = std::get_if<std::string>(constant);
    if (text != nullptr && text->size() > kLongest) {
      fail(range, "a string of more than 1 MiB");
    }
  }
}

Value Walker::ask(llvm::function_ref<Value()> question) {
  const ir::Location here = sem_.location();
  try {
    return question();
  } catch (const ir::UserError &error) {
    if (error.location().known()) {
      throw;
    }
    throw ir::UserError(error.message(), here);
  } catch (const ir::Unsupported &error) {
    if (error.location().known()) {
      throw;
    }
    throw ir::Unsupported(error.message(), here);
  }
}

Value Walker::askOnce(HostAnswer question, llvm::function_ref<Value()> askHost) {
  const auto *function = static_cast<const void *>(question.function.get());
  const void *owner = function != nullptr ? function : question.object.get();
  const auto key = std::tuple(question.kind, owner, question.name);
  if (const auto it = asked_.find(key); it != asked_.end()) {
    return it->second.value;
  }
  question.value = ask(askHost);
  if (answers_ != nullptr) {
    answers_->push_back(question);
  }
  return asked_.emplace(key, std::move(question)).first->second.value;
}

Value Walker::hostGlobal(const FunctionSource &source, const std::string &name) {
  return askOnce({HostAnswer::Global, source.shared_from_this(), nullptr, name, {}},
                 [&] { return host_.global(source, name); });
}

Value Walker::hostDefault(const std::shared_ptr<HostObject> &callee, const std::string &name) {
  return askOnce({HostAnswer::Default, nullptr, callee, name, {}},
                 [&] { return host_.defaultOf(callee, name); });
}

Value Walker::hostAttribute(const std::shared_ptr<HostObject> &object, const std::string &name) {
  return askOnce({HostAnswer::Attribute, nullptr, object, name, {}},
                 [&] { return host_.attribute(object, name); });
}

Value Walker::name(NameId name, SourceRange range) {
  const std::string &text = ast()[name];
  const Binding *binding = scope().find(name);
  if (binding != nullptr && binding->value.bound()) {
    return binding->value;
  }
  if (binding != nullptr && binding->why == Why::OneBranch) {
    fail(range, "`" + text + "` is not defined: it has a value on one side of an `if` only");
  }
  if (binding != nullptr && binding->why == Why::InLoop) {
    fail(range,
         "`" + text + "` is not defined: it gets its first value inside a loop, which may not run");
  }
  at(range);
  Value found = global(*frame_->source, text);
  if (!found.bound()) {
    unknownName(text, range);
  }
  return found;
}

void Walker::unknownName(const std::string &name, SourceRange range) {
  const FunctionSource &source = *frame_->source;
  std::vector<std::string> known;
  for (const Binding &local : scope().bindings) {
    if (local.value.bound() && local.name.index < ast().names.size()) {
      known.push_back(ast()[local.name]);
    }
  }
  for (const AstFunction &fn : ast().functions) {
    known.push_back(ast()[fn.name]);
  }
  if (source.host != nullptr) {
    std::ranges::copy(host_.names(source.host), std::back_inserter(known));
  }
  std::ranges::copy(builtinNames(), std::back_inserter(known));
  known.insert(known.end(), {"break", "continue", "pass", "return"});
  fail(range, "`" + name + "` is not defined" +
                  (Semantics::languageName(name).bound() ? "; there is tl." + name : didYouMean(name, known)));
}

Value Walker::global(const FunctionSource &source, const std::string &name) {
  const auto key = std::pair(&source, name);
  if (const auto it = globals_.find(key); it != globals_.end()) {
    return it->second;
  }
  Value found = source.host == nullptr ? sameFile(source, name) : Value();
  if (!found.bound()) {
    // The prelude sees the language and its own files alone.
    found = source.ast->isPrelude() ? TableHost().global(source, name) : hostGlobal(source, name);
  }
  if (!found.bound() && source.ast->isPrelude()) {
    const auto piece = preludeFunction(name, source);
    found = piece != nullptr ? Value(piece) : Value();
  }
  if (!found.bound() && source.host != nullptr) {
    found = sameFile(source, name);
  }
  if (!found.bound()) {
    const Operation *builtin = findBuiltin(name);
    found = builtin != nullptr ? Value(builtin) : Value();
  }
  return globals_[key] = found;
}

Value Walker::sameFile(const FunctionSource &source, const std::string &name) {
  const AstFunction *fn = source.ast->find(name);
  if (fn == nullptr) {
    return {};
  }
  auto &made = siblings_[fn];
  if (made == nullptr) {
    made = makeFunction(source.ast, *fn, source.host);
  }
  return Value(made);
}

Value Walker::defaultOf(const std::shared_ptr<const FunctionSource> &source,
                        const AstParam &param) {
  const std::string &name = (*source->ast)[param.name];
  if (source->host != nullptr) {
    Value found = hostDefault(source->host, name);
    if (found.bound()) {
      return found;
    }
  }
  // Defaults see globals only.
  Frame frame;
  frame.source = source.get();
  frame.ast = source->ast.get();
  frame.caller =
      frame_ != nullptr ? std::make_shared<const ir::Location>(sem_.location()) : nullptr;
  const FrameGuard guard(*this, frame);
  return eval(param.deflt);
}

void Walker::bind(NameId name, const Value &value, SourceRange range) {
  const auto &declared = frame_->declaredConstexpr;
  if (std::find(declared.begin(), declared.end(), name) != declared.end()) {
    if (value.tensor() != nullptr) {
      fail(range,
           "`" + ast()[name] + "` is declared constexpr and cannot hold " + value.describe());
    }
    scope().set(name, value, range);
    return;
  }
  at(range);
  scope().set(name, sem_.decay(value), range);
}

// ---- what loops bind

// Whether the statements bind the name, not counting sides of `if`s on constants that are not
// taken.
bool Walker::mayBind(const Stmt &loop, List body, NameId name) {
  const auto binds = [&](ExprId target) {
    const auto search = [&](const auto &self, ExprId id) -> bool {
      const Expr &expr = ast()[id];
      bool found = expr.kind == ExprKind::Name && expr.name == name;
      for (uint32_t i = 0; expr.kind == ExprKind::Tuple && i < expr.list.count; ++i) {
        found = found || self(self, ast().expr(expr.list, i));
      }
      return found;
    };
    return search(search, target);
  };
  for (uint32_t i = 0; i < body.count; ++i) {
    const Stmt &stmt = ast()[ast().stmt(body, i)];
    bool found = stmt.target.valid() && binds(stmt.target);
    for (uint32_t k = 0; stmt.kind == StmtKind::Assign && k < stmt.list.count; ++k) {
      found = found || binds(ast().expr(stmt.list, k));
    }
    const auto truth =
        stmt.kind == StmtKind::If ? fixedTruth(loop, stmt.test) : std::optional<bool>();
    found = found || (truth != false && mayBind(loop, stmt.body, name)) ||
            (truth != true && mayBind(loop, stmt.orelse, name));
    if (found) {
      return true;
    }
  }
  return std::any_of(ast().exprs.begin(), ast().exprs.end(), [name](const Expr &expr) {
    return expr.kind == ExprKind::Walrus && expr.name == name;
  });
}

// The truth of a condition made of constants that the loop does not bind: it can be told ahead of
// time, and leaves no op behind.
std::optional<bool> Walker::fixedTruth(const Stmt &loop, ExprId test) {
  const Expr &expr = ast()[test];
  if (expr.kind == ExprKind::BoolOp) {
    const bool isAnd = expr.op != 0;
    for (uint32_t i = 0; i < expr.list.count; ++i) {
      const auto truth = fixedTruth(loop, ast().expr(expr.list, i));
      if (truth != isAnd) {
        return truth;
      }
    }
    return isAnd;
  }
  if (expr.kind == ExprKind::Unary && expr.op == static_cast<uint8_t>(UnaryOp::Not)) {
    const auto truth = fixedTruth(loop, expr.a);
    return truth ? std::optional(!*truth) : std::nullopt;
  }
  bool identity = expr.kind == ExprKind::Compare;
  bool fixed = true;
  for (uint32_t i = 0; identity && i < expr.list2.count; ++i) {
    const auto op = static_cast<CompareOp>(ast().lists[expr.list2.first + i]);
    identity = op == CompareOp::Is || op == CompareOp::IsNot;
    fixed = fixed && op != CompareOp::In && op != CompareOp::NotIn;
  }
  if (expr.kind == ExprKind::Compare) {
    for (uint32_t i = 0; i < expr.list.count; ++i) {
      fixed = fixed && isFixed(loop, ast().expr(expr.list, i), identity);
    }
  } else {
    fixed = isFixed(loop, test, false);
  }
  if (!fixed) {
    return std::nullopt;
  }
  try {
    return sem_.constantTruth(eval(test));
  } catch (const ir::UserError &) {
    // Reported where it is reached, if it is.
    return std::nullopt;
  }
}

// A literal, or a name that the loop does not bind; of a constant unless only its identity counts.
bool Walker::isFixed(const Stmt &loop, ExprId id, bool identity) {
  const Expr &expr = ast()[id];
  if (expr.kind == ExprKind::Constant) {
    return true;
  }
  const Binding *binding = expr.kind == ExprKind::Name ? scope().find(expr.name) : nullptr;
  if (binding == nullptr || !binding->value.bound()) {
    return false;
  }
  for (uint32_t i = 0; i < loop.assigned.count; ++i) {
    if (ast().name(loop.assigned, i) == expr.name) {
      return false;
    }
  }
  return identity || binding->value.constant() != nullptr;
}

} // namespace libtile::frontend
