// SPDX-License-Identifier: Apache-2.0
// Statements of a function's body.
#include "frontend/syntax/parser.h"

#include <algorithm>
#include <array>

namespace libtile::frontend {

namespace {

struct AugmentedOp {
  std::string_view text;
  BinaryOp op;
};
constexpr std::array<AugmentedOp, 13> kAugmented = {{
    {"+=", BinaryOp::Add},
    {"-=", BinaryOp::Sub},
    {"*=", BinaryOp::Mul},
    {"/=", BinaryOp::TrueDiv},
    {"//=", BinaryOp::FloorDiv},
    {"%=", BinaryOp::Mod},
    {"**=", BinaryOp::Pow},
    {"@=", BinaryOp::MatMul},
    {"&=", BinaryOp::BitAnd},
    {"|=", BinaryOp::BitOr},
    {"^=", BinaryOp::BitXor},
    {"<<=", BinaryOp::LShift},
    {">>=", BinaryOp::RShift},
}};

} // namespace

List Parser::block() {
  const Nesting nesting(*this);
  expect(":");
  std::vector<StmtId> body;
  if (!is(TokenKind::Newline)) {
    simpleLine(body);
    return list(body);
  }
  next();
  if (!is(TokenKind::Indent)) {
    fail("expected an indented block before " + describe(now()));
  }
  next();
  while (!is(TokenKind::Dedent) && !is(TokenKind::End)) {
    statement(body);
  }
  next();
  return list(body);
}

void Parser::statement(std::vector<StmtId> &out) {
  if (is(TokenKind::Indent)) {
    fail("unexpected indentation");
  }
  if (is("if")) {
    out.push_back(ifStatement());
  } else if (is("for")) {
    out.push_back(forStatement());
  } else if (is("while")) {
    out.push_back(whileStatement());
  } else if (is("with")) {
    out.push_back(withStatement());
  } else if (!refusedCompound(out)) {
    simpleLine(out);
  }
}

void Parser::simpleLine(std::vector<StmtId> &out) {
  do {
    statementAt_ = at_;
    out.push_back(simple());
  } while (accept(";") && !is(TokenKind::Newline) && !is(TokenKind::End));
  endOfStatement();
}

// Compound statements that kernels cannot use. Their blocks are skipped unread.
bool Parser::refusedCompound(std::vector<StmtId> &out) {
  struct Row {
    std::string_view keyword;
    const char *what;
  };
  static constexpr std::array<Row, 8> kRows = {{{"def", "a nested function"},
                                                {"class", "`class`"},
                                                {"try", "`try`"},
                                                {"async", "`async`"},
                                                {"@", "a nested definition"},
                                                {"except", ""},
                                                {"finally", ""},
                                                {"else", ""}}};
  const SourceRange start = rangeOf(now());
  const Row *found = nullptr;
  for (const Row &row : kRows) {
    found = is(row.keyword) ? &row : found;
  }
  if (found == nullptr && atMatch()) {
    static constexpr Row kMatch = {"match", "`match`"};
    found = &kMatch;
  }
  if (found == nullptr) {
    return false;
  }
  if (*found->what == '\0') {
    fail("unexpected " + describe(now()));
  }
  const bool isTry = found->keyword == "try";
  if (found->keyword == "@") {
    decorators();
  }
  next();
  out.push_back(refuseStmt(found->what, start));
  skipBlock();
  while (isTry && (is("except") || is("finally") || is("else"))) {
    skipBlock();
  }
  return true;
}

// `match` is a name, except before a subject and a colon at the end of the line.
bool Parser::atMatch() const {
  if (now().kind != TokenKind::Name || now().text != "match" || is(ahead(), "=") ||
      is(ahead(), ".") || is(ahead(), ",") || is(ahead(), ":")) {
    return false;
  }
  size_t i = at_ + 1;
  while (tokens_[i].kind != TokenKind::Newline && tokens_[i].kind != TokenKind::End) {
    ++i;
  }
  return i > at_ + 2 && is(tokens_[i - 1], ":") && i + 1 < tokens_.size() &&
         tokens_[i + 1].kind == TokenKind::Indent;
}

StmtId Parser::ifStatement() {
  const Nesting nesting(*this);
  const SourceRange start = rangeOf(now());
  next();
  Stmt stmt;
  stmt.kind = StmtKind::If;
  stmt.test = named();
  stmt.body = block();
  if (is("elif")) {
    const std::vector<StmtId> inner = {ifStatement()};
    stmt.orelse = list(inner);
  } else if (accept("else")) {
    stmt.orelse = block();
  }
  return add(stmt, start);
}

void Parser::recordAssigned(Stmt &loop, size_t mark) {
  std::vector<NameId> names(assigned_.begin() + static_cast<std::ptrdiff_t>(mark), assigned_.end());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  loop.assigned = list(names);
  // Once a name is enough for the loops around.
  assigned_.resize(mark);
  assigned_.insert(assigned_.end(), names.begin(), names.end());
}

StmtId Parser::forStatement() {
  const SourceRange start = rangeOf(now());
  next();
  Stmt stmt;
  stmt.kind = StmtKind::For;
  const size_t mark = assigned_.size();
  bool named = false;
  if (is(TokenKind::Name) && is(ahead(), "in")) {
    Expr target;
    target.kind = ExprKind::Name;
    target.name = name(now().text);
    const SourceRange range = rangeOf(now());
    next();
    stmt.target = add(target, range);
    named = true;
  } else if (is(TokenKind::Name) && ahead().kind != TokenKind::Operator) {
    next();
  } else {
    const SourceRange range = rangeOf(now());
    while (!is("in") && !is(TokenKind::Newline) && !is(TokenKind::End)) {
      next();
    }
    stmt.target = refuse("a loop over several names", range);
  }
  expect("in");
  stmt.value = expressions();
  if (named) {
    openTargets_.push_back(ast_[stmt.target].name);
  }
  stmt.body = block();
  if (named) {
    openTargets_.pop_back();
  }
  recordAssigned(stmt, mark);
  if (named) {
    assigned_.push_back(ast_[stmt.target].name);
  }
  if (accept("else")) {
    stmt.orelse = block();
  }
  return add(stmt, start);
}

StmtId Parser::whileStatement() {
  const SourceRange start = rangeOf(now());
  next();
  Stmt stmt;
  stmt.kind = StmtKind::While;
  const size_t mark = assigned_.size();
  stmt.test = named();
  stmt.body = block();
  recordAssigned(stmt, mark);
  if (accept("else")) {
    stmt.orelse = block();
  }
  return add(stmt, start);
}

// `with a as x, b as y:`, in brackets perhaps, is one statement inside of the other.
StmtId Parser::withStatement() {
  next();
  // Brackets around all items are told from those of an expression by what stands behind them.
  size_t i = at_;
  int depth = 0;
  do {
    depth += is(tokens_[i], "(") ? 1 : is(tokens_[i], ")") ? -1 : 0;
    ++i;
  } while (depth > 0 && i < tokens_.size());
  const bool inBrackets = is("(") && i < tokens_.size() && is(tokens_[i], ":");
  if (inBrackets) {
    next();
  }
  return withItem(inBrackets);
}

StmtId Parser::withItem(bool inBrackets) {
  const Nesting nesting(*this);
  const SourceRange start = rangeOf(now());
  Stmt stmt;
  stmt.kind = StmtKind::With;
  stmt.value = expression();
  if (accept("as")) {
    stmt.target = primary();
    bind(stmt.target);
  }
  const bool hasMore = accept(",") && !is(")");
  if (hasMore) {
    const std::vector<StmtId> inner = {withItem(inBrackets)};
    stmt.body = list(inner);
  } else {
    if (inBrackets) {
      expect(")");
    }
    stmt.body = block();
  }
  return add(stmt, start);
}

StmtId Parser::simple() {
  const SourceRange start = rangeOf(now());
  Stmt stmt;
  if (accept("pass")) {
    return add(stmt, start);
  }
  if (accept("break")) {
    stmt.kind = StmtKind::Break;
    return add(stmt, start);
  }
  if (accept("continue")) {
    stmt.kind = StmtKind::Continue;
    return add(stmt, start);
  }
  if (accept("return")) {
    stmt.kind = StmtKind::Return;
    if (!is(TokenKind::Newline) && !is(";") && !is(TokenKind::End)) {
      stmt.value = expressions();
    }
    return add(stmt, start);
  }
  if (accept("assert")) {
    stmt.kind = StmtKind::Assert;
    stmt.test = expression();
    if (accept(",")) {
      stmt.value = expression();
    }
    return add(stmt, start);
  }
  for (const char *keyword : {"raise", "del", "global", "nonlocal", "import", "from"}) {
    if (is(keyword)) {
      while (!is(TokenKind::Newline) && !is(";") && !is(TokenKind::End)) {
        next();
      }
      return refuseStmt("`" + std::string(keyword) + "`", start);
    }
  }
  return expressionStatement();
}

StmtId Parser::expressionStatement() {
  const SourceRange start = rangeOf(now());
  Stmt stmt;
  stmt.kind = StmtKind::Expression;
  const ExprId first = expressions();
  if (accept(":")) {
    stmt.kind = StmtKind::Annotated;
    stmt.target = first;
    stmt.annotation = expression();
    if (accept("=")) {
      stmt.value = expressions();
    }
    bind(first);
    return add(stmt, start);
  }
  for (const AugmentedOp &row : kAugmented) {
    if (accept(row.text)) {
      stmt.kind = StmtKind::Augmented;
      stmt.op = static_cast<uint8_t>(row.op);
      stmt.target = first;
      stmt.value = expressions();
      bind(first);
      return add(stmt, start);
    }
  }
  stmt.value = first;
  if (is("=")) {
    stmt.kind = StmtKind::Assign;
    std::vector<ExprId> targets;
    while (accept("=")) {
      targets.push_back(stmt.value);
      bind(stmt.value);
      stmt.value = expressions();
    }
    stmt.list = list(targets);
  }
  return add(stmt, start);
}

void Parser::bind(ExprId target) {
  const Expr &expr = ast_[target];
  switch (expr.kind) {
  case ExprKind::Name:
    assigned_.push_back(expr.name);
    break;
  case ExprKind::Tuple:
    for (uint32_t i = 0; i < expr.list.count; ++i) {
      bind(ast_.expr(expr.list, i));
    }
    break;
  case ExprKind::Attribute:
  case ExprKind::Subscript:
  case ExprKind::Starred:
  case ExprKind::Refused:
    break; // refused when reached
  case ExprKind::Constant:
  case ExprKind::Ellipsis:
  case ExprKind::Binary:
  case ExprKind::Unary:
  case ExprKind::BoolOp:
  case ExprKind::Compare:
  case ExprKind::Conditional:
  case ExprKind::Call:
  case ExprKind::Keyword:
  case ExprKind::Slice:
  case ExprKind::Walrus:
  case ExprKind::Comprehension:
  case ExprKind::Formatted:
  case ExprKind::Replacement:
    fail("cannot assign to this expression", expr.range);
  }
}

} // namespace libtile::frontend
