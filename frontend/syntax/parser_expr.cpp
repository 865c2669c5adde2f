// SPDX-License-Identifier: Apache-2.0
// Expressions: recursive descent down to comparisons, then by precedence. Chains of binary
// operators are read in a loop, so their length costs no stack.
#include "frontend/syntax/parser.h"

#include <array>

namespace libtile::frontend {

namespace {

struct BinaryRow {
  std::string_view text;
  BinaryOp op;
  int precedence;
};
constexpr std::array<BinaryRow, 12> kBinary = {{{"|", BinaryOp::BitOr, 1},
                                                {"^", BinaryOp::BitXor, 2},
                                                {"&", BinaryOp::BitAnd, 3},
                                                {"<<", BinaryOp::LShift, 4},
                                                {">>", BinaryOp::RShift, 4},
                                                {"+", BinaryOp::Add, 5},
                                                {"-", BinaryOp::Sub, 5},
                                                {"*", BinaryOp::Mul, 6},
                                                {"/", BinaryOp::TrueDiv, 6},
                                                {"//", BinaryOp::FloorDiv, 6},
                                                {"%", BinaryOp::Mod, 6},
                                                {"@", BinaryOp::MatMul, 6}}};

const BinaryRow *binaryRow(const Token &token) {
  if (token.kind != TokenKind::Operator || token.text.size() > 2) {
    return nullptr;
  }
  for (const BinaryRow &row : kBinary) {
    if (row.text == token.text) {
      return &row;
    }
  }
  return nullptr;
}

bool endsExpressions(const Token &token) {
  if (token.kind == TokenKind::Newline || token.kind == TokenKind::End) {
    return true;
  }
  return token.kind == TokenKind::Operator &&
         (token.text == ")" || token.text == "]" || token.text == "}" || token.text == "=" ||
          token.text == ":" || token.text == ";" ||
          (token.text.size() > 1 && token.text.back() == '='));
}

} // namespace

ExprId Parser::expressions(bool starred) {
  const SourceRange start = rangeOf(now());
  if (is("yield")) {
    const Nesting nesting(*this);
    next();
    if (!endsExpressions(now())) {
      accept("from");
      expressions();
    }
    return refuse("`yield`", start);
  }
  const ExprId first = starred ? starredOrNamed() : named();
  if (!is(",")) {
    return first;
  }
  std::vector<ExprId> items = {first};
  while (accept(",") && !endsExpressions(now())) {
    items.push_back(starredOrNamed());
  }
  Expr tuple;
  tuple.kind = ExprKind::Tuple;
  tuple.list = list(items);
  return add(tuple, start);
}

ExprId Parser::starredOrNamed() {
  const SourceRange start = rangeOf(now());
  if (!accept("*")) {
    return named();
  }
  Expr expr;
  expr.kind = ExprKind::Starred;
  expr.a = binary(1);
  return add(expr, start);
}

ExprId Parser::named() {
  if (!is(TokenKind::Name) || !is(ahead(), ":=")) {
    return expression();
  }
  const SourceRange start = rangeOf(now());
  Expr expr;
  expr.kind = ExprKind::Walrus;
  expr.name = name(now().text);
  assigned_.push_back(expr.name);
  next();
  next();
  expr.b = expression();
  return add(expr, start);
}

ExprId Parser::expression() {
  const Nesting nesting(*this);
  if (is("lambda")) {
    return lambda();
  }
  const SourceRange start = rangeOf(now());
  const ExprId value = disjunction();
  if (!accept("if")) {
    return value;
  }
  Expr expr;
  expr.kind = ExprKind::Conditional;
  expr.a = disjunction();
  expr.b = value;
  expect("else");
  expr.c = expression();
  return add(expr, start);
}

ExprId Parser::lambda() {
  const SourceRange start = rangeOf(now());
  next();
  while (!is(":") && !is(TokenKind::Newline) && !is(TokenKind::End) && !is(")")) {
    if (accept("=")) {
      expression();
    } else {
      next();
    }
  }
  expect(":");
  expression();
  return refuse("`lambda`", start);
}

ExprId Parser::disjunction() {
  const SourceRange start = rangeOf(now());
  std::vector<ExprId> operands = {conjunction()};
  while (accept("or")) {
    operands.push_back(conjunction());
  }
  if (operands.size() == 1) {
    return operands[0];
  }
  Expr expr;
  expr.kind = ExprKind::BoolOp;
  expr.list = list(operands);
  return add(expr, start);
}

ExprId Parser::conjunction() {
  const SourceRange start = rangeOf(now());
  std::vector<ExprId> operands = {inversion()};
  while (accept("and")) {
    operands.push_back(inversion());
  }
  if (operands.size() == 1) {
    return operands[0];
  }
  Expr expr;
  expr.kind = ExprKind::BoolOp;
  expr.op = 1;
  expr.list = list(operands);
  return add(expr, start);
}

ExprId Parser::inversion() {
  if (!is("not")) {
    return comparison();
  }
  const Nesting nesting(*this);
  const SourceRange start = rangeOf(now());
  next();
  Expr expr;
  expr.kind = ExprKind::Unary;
  expr.op = static_cast<uint8_t>(UnaryOp::Not);
  expr.a = inversion();
  return add(expr, start);
}

ExprId Parser::comparison() {
  struct Row {
    std::string_view text;
    CompareOp op;
  };
  static constexpr std::array<Row, 8> kRows = {{{"==", CompareOp::Eq},
                                                {"!=", CompareOp::Ne},
                                                {"<", CompareOp::Lt},
                                                {"<=", CompareOp::Le},
                                                {">", CompareOp::Gt},
                                                {">=", CompareOp::Ge},
                                                {"is", CompareOp::Is},
                                                {"in", CompareOp::In}}};
  const SourceRange start = rangeOf(now());
  std::vector<ExprId> operands = {binary(1)};
  std::vector<ir::Id<struct CompareTag>> ops;
  for (;;) {
    std::optional<CompareOp> op;
    for (const Row &row : kRows) {
      if (is(row.text)) {
        op = row.op;
      }
    }
    if (is("not") && is(ahead(), "in")) {
      op = CompareOp::NotIn;
      next();
    }
    if (!op) {
      break;
    }
    next();
    if (op == CompareOp::Is && accept("not")) {
      op = CompareOp::IsNot;
    }
    ops.push_back({static_cast<uint32_t>(*op)});
    operands.push_back(binary(1));
  }
  if (ops.empty()) {
    return operands[0];
  }
  Expr expr;
  expr.kind = ExprKind::Compare;
  expr.list = list(operands);
  expr.list2 = list(ops);
  return add(expr, start);
}

ExprId Parser::binary(int minimum) {
  const SourceRange start = rangeOf(now());
  ExprId left = unary();
  for (const BinaryRow *row = binaryRow(now()); row != nullptr && row->precedence >= minimum;
       row = binaryRow(now())) {
    next();
    Expr expr;
    expr.kind = ExprKind::Binary;
    expr.op = static_cast<uint8_t>(row->op);
    expr.a = left;
    expr.b = binary(row->precedence + 1);
    left = add(expr, start);
  }
  return left;
}

ExprId Parser::unary() {
  UnaryOp op;
  if (is("-")) {
    op = UnaryOp::Neg;
  } else if (is("+")) {
    op = UnaryOp::Pos;
  } else if (is("~")) {
    op = UnaryOp::Invert;
  } else {
    return power();
  }
  const Nesting nesting(*this);
  const SourceRange start = rangeOf(now());
  next();
  Expr expr;
  expr.kind = ExprKind::Unary;
  expr.op = static_cast<uint8_t>(op);
  expr.a = unary();
  return add(expr, start);
}

ExprId Parser::power() {
  const SourceRange start = rangeOf(now());
  if (accept("await")) {
    const Nesting nesting(*this);
    power();
    return refuse("`await`", start);
  }
  const ExprId base = primary();
  if (!accept("**")) {
    return base;
  }
  const Nesting nesting(*this);
  Expr expr;
  expr.kind = ExprKind::Binary;
  expr.op = static_cast<uint8_t>(BinaryOp::Pow);
  expr.a = base;
  expr.b = unary();
  return add(expr, start);
}

ExprId Parser::primary() {
  const SourceRange start = rangeOf(now());
  ExprId value = atom();
  for (;;) {
    if (accept(".")) {
      Expr expr;
      expr.kind = ExprKind::Attribute;
      expr.a = value;
      expr.name = expectName("an attribute's name");
      value = add(expr, start);
    } else if (is("(")) {
      value = callArguments(value, start);
    } else if (is("[")) {
      value = subscript(value, start);
    } else {
      return value;
    }
  }
}

ExprId Parser::callArguments(ExprId callee, SourceRange whole) {
  expect("(");
  std::vector<ExprId> arguments;
  std::vector<NameId> keywords;
  ExprId refused;
  while (!is(")")) {
    const SourceRange start = rangeOf(now());
    if (accept("**")) {
      expression();
      refused = refuse("`**` in a call", start);
    } else if (is(TokenKind::Name) && is(ahead(), "=")) {
      Expr keyword;
      keyword.kind = ExprKind::Keyword;
      keyword.name = name(now().text);
      next();
      next();
      keyword.a = expression();
      if (std::ranges::find(keywords, keyword.name) != keywords.end()) {
        fail("a second argument `" + ast_[keyword.name] + "`", start);
      }
      keywords.push_back(keyword.name);
      arguments.push_back(add(keyword, start));
    } else {
      ExprId value = starredOrNamed();
      if (atComprehension()) {
        value = refusedComprehension("a generator expression", start);
      }
      if (!keywords.empty() && ast_[value].kind != ExprKind::Starred) {
        fail("a positional argument behind a keyword argument", start);
      }
      arguments.push_back(value);
    }
    if (!accept(",") && !is(")")) {
      fail("expected `,` or `)` before " + describe(now()));
    }
  }
  expect(")");
  if (refused.valid()) {
    return refused;
  }
  Expr expr;
  expr.kind = ExprKind::Call;
  expr.a = callee;
  expr.list = list(arguments);
  return add(expr, whole);
}

ExprId Parser::subscript(ExprId object, SourceRange start) {
  expect("[");
  const SourceRange first = rangeOf(now());
  ExprId index = sliceItem();
  if (is(",")) {
    std::vector<ExprId> items = {index};
    while (accept(",") && !is("]")) {
      items.push_back(sliceItem());
    }
    Expr tuple;
    tuple.kind = ExprKind::Tuple;
    tuple.list = list(items);
    index = add(tuple, first);
  }
  expect("]");
  Expr expr;
  expr.kind = ExprKind::Subscript;
  expr.a = object;
  expr.b = index;
  return add(expr, start);
}

ExprId Parser::sliceItem() {
  const SourceRange start = rangeOf(now());
  Expr slice;
  slice.kind = ExprKind::Slice;
  const auto ends = [this] { return is(":") || is("]") || is(","); };
  if (!is(":")) {
    slice.a = starredOrNamed();
    if (!is(":")) {
      return slice.a;
    }
  }
  expect(":");
  slice.b = ends() ? ExprId() : expression();
  if (accept(":")) {
    slice.c = ends() ? ExprId() : expression();
  }
  return add(slice, start);
}

} // namespace libtile::frontend
