// SPDX-License-Identifier: Apache-2.0
// Statements of the walker.
#include "frontend/specialise/walker.h"

#include <algorithm>

namespace libtile::frontend {

void Walker::statements(List body, uint32_t from) {
  for (uint32_t i = from; i < body.count; ++i) {
    if (flow().dead) {
      return;
    }
    if (flow().maybeLeft()) {
      guarded([&] { statements(body, i); });
      return;
    }
    const Stmt &stmt = ast()[ast().stmt(body, i)];
    step(stmt.range);
    if (stmt.kind == StmtKind::If) {
      if (ifStatement(stmt, [&] { statements(body, i + 1); })) {
        return;
      }
    } else {
      statement(stmt);
    }
  }
}

void Walker::statement(const Stmt &stmt) {
  switch (stmt.kind) {
  case StmtKind::Expression: {
    const Expr &expr = ast()[stmt.value];
    if (expr.kind != ExprKind::Ellipsis && expr.kind != ExprKind::Constant) {
      step(expr.range);
      expr.kind == ExprKind::Call ? call(expr, false) : eval(stmt.value);
    }
    break;
  }
  case StmtKind::Assign:
    assign(stmt);
    break;
  case StmtKind::Annotated:
    annotated(stmt);
    break;
  case StmtKind::Augmented:
    augmented(stmt);
    break;
  case StmtKind::If:
    ifStatement(stmt, nullptr);
    break;
  case StmtKind::For:
    forStatement(stmt);
    break;
  case StmtKind::While:
    whileStatement(stmt);
    break;
  case StmtKind::Return:
    returnStatement(stmt);
    break;
  case StmtKind::Break:
  case StmtKind::Continue: {
    const bool isBreak = stmt.kind == StmtKind::Break;
    if (frame_->loops == 0) {
      fail(stmt.range, std::string(isBreak ? "`break`" : "`continue`") + " outside of a loop");
    }
    (isBreak ? flow().broke : flow().continued).kind = Flag::Always;
    flow().dead = true;
    break;
  }
  case StmtKind::Pass:
    break;
  case StmtKind::Assert: {
    const Value test = eval(stmt.test);
    const Value message = stmt.value.valid() ? eval(stmt.value) : Value::string("");
    at(stmt.range);
    sem_.call(*Semantics::find("device_assert"), {{test, message}, {}});
    break;
  }
  case StmtKind::With:
    withStatement(stmt);
    break;
  case StmtKind::Refused:
    refused(stmt.range, stmt.index);
  }
}

void Walker::assign(const Stmt &stmt) {
  const Value value = eval(stmt.value);
  for (uint32_t i = 0; i < stmt.list.count; ++i) {
    assignTo(ast().expr(stmt.list, i), value);
  }
}

void Walker::assignTo(ExprId target, const Value &value) {
  const Expr &expr = ast()[target];
  if (expr.kind == ExprKind::Name) {
    if (!value.bound()) {
      fail(expr.range, "there is no value to assign");
    }
    bind(expr.name, value, expr.range);
    return;
  }
  if (expr.kind == ExprKind::Refused) {
    refused(expr.range, expr.index);
  }
  if (expr.kind == ExprKind::Attribute || expr.kind == ExprKind::Subscript) {
    fail(expr.range, std::string("assignment to ") +
                         (expr.kind == ExprKind::Attribute ? "an attribute" : "an element") +
                         " is not allowed in a kernel: values do not change");
  }
  if (expr.kind != ExprKind::Tuple) {
    fail(expr.range, "a `*` target is not allowed in a kernel");
  }
  for (uint32_t i = 0; i < expr.list.count; ++i) {
    if (const Expr &part = ast()[ast().expr(expr.list, i)]; part.kind == ExprKind::Starred) {
      fail(part.range, "a `*` target is not allowed in a kernel");
    }
  }
  const Aggregate *values = value.tuple();
  if (values == nullptr) {
    fail(expr.range, "cannot take " + value.describe() + " apart into " +
                         std::to_string(expr.list.count) + " names");
  }
  if (values->fields.size() != expr.list.count) {
    fail(expr.range, std::to_string(expr.list.count) + " names cannot take a tuple of " +
                         std::to_string(values->fields.size()) + " values");
  }
  for (uint32_t i = 0; i < expr.list.count; ++i) {
    assignTo(ast().expr(expr.list, i), values->fields[i]);
  }
}

void Walker::annotated(const Stmt &stmt) {
  const Expr &target = ast()[stmt.target];
  const bool isConstexpr = annotationName(ast(), stmt.annotation) == "constexpr";
  if (target.kind != ExprKind::Name) {
    fail(target.range, "an annotation needs a plain name");
  }
  if (!isConstexpr) {
    if (stmt.value.valid()) {
      assignTo(stmt.target, eval(stmt.value));
    }
    return;
  }
  if (!stmt.value.valid()) {
    frame_->declaredConstexpr.push_back(target.name);
    return;
  }
  const Value value = eval(stmt.value);
  const std::string &name = ast()[target.name];
  if (value.tensor() != nullptr || !value.bound()) {
    fail(ast()[stmt.value].range, "`" + name + "` is constexpr and cannot hold " +
                                      (value.bound() ? value.describe() : "nothing"));
  }
  // The same statement may bind it again: in an unrolled loop.
  const Binding *before = scope().find(target.name);
  if (before != nullptr && before->value.bound() &&
      (before->where.line != target.range.line || before->where.column != target.range.column)) {
    fail(target.range, "`" + name + "` is already defined; a constexpr cannot be defined again");
  }
  scope().set(target.name, value, target.range);
}

void Walker::augmented(const Stmt &stmt) {
  const Expr &target = ast()[stmt.target];
  if (target.kind != ExprKind::Name) {
    assignTo(stmt.target, Value());
    fail(target.range, "this assignment needs a plain name");
  }
  const Value left = name(target.name, target.range);
  const Value right = eval(stmt.value);
  at(stmt.range);
  const Value value = applyBinary(static_cast<BinaryOp>(stmt.op), left, right);
  checkSize(value, stmt.range);
  bind(target.name, value, target.range);
}

bool Walker::ifStatement(const Stmt &stmt, llvm::function_ref<void()> rest) {
  const Value test = eval(stmt.test);
  at(ast()[stmt.test].range);
  if (const auto truth = sem_.constantTruth(test)) {
    statements(*truth ? stmt.body : stmt.orelse);
    return false;
  }
  const Tensor condition = sem_.condition(test);
  at(stmt.range);
  return branch(condition, [&] { statements(stmt.body); }, [&] { statements(stmt.orelse); }, rest);
}

void Walker::returnStatement(const Stmt &stmt) {
  Value value = stmt.value.valid() ? eval(stmt.value) : Value::none();
  flow().returned.kind = Flag::Always;
  flow().returnValue = frame_->isKernel || !value.bound() ? Value::none() : std::move(value);
  flow().returnedAt = stmt.range;
  flow().dead = true;
}

// The members of what stands behind `with` are called before and after the body.
void Walker::withStatement(const Stmt &stmt) {
  const SourceRange range = ast()[stmt.value].range;
  const Value manager = eval(stmt.value);
  at(range);
  const Value entered = callMember(manager, "__enter__", {});
  if (!entered.bound()) {
    fail(range, manager.describe() + " has no `__enter__`, which `with` needs");
  }
  if (stmt.target.valid()) {
    const Expr &target = ast()[stmt.target];
    if (target.kind != ExprKind::Name) {
      fail(target.range, "`as` needs a plain name");
    }
    scope().set(target.name, entered, target.range);
  }
  statements(stmt.body);
  if (flow().dead || flow().maybeLeft()) {
    fail(stmt.range, "`return`, `break` and `continue` are not allowed inside of `with`");
  }
  at(range);
  if (!callMember(manager, "__exit__", {Value::none(), Value::none(), Value::none()}).bound()) {
    fail(range, manager.describe() + " has no `__exit__`, which `with` needs");
  }
}

Value Walker::functionResult(const AstFunction &fn) {
  Flow &at = flow();
  if (at.returned.kind == Flag::Never) {
    return Value::none();
  }
  if (!at.dead && !at.returnValue.isNone()) {
    fail(at.returnedAt, "`" + ast()[fn.name] + "` returns a value here but not on every path");
  }
  dropUnused(at.returned);
  return at.returnValue;
}

} // namespace libtile::frontend
