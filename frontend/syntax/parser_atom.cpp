// SPDX-License-Identifier: Apache-2.0
// The innermost expressions: names, literals, brackets and comprehensions.
#include "frontend/syntax/parser.h"

namespace libtile::frontend {

ExprId Parser::atom() {
  const SourceRange start = rangeOf(now());
  Expr expr;
  switch (now().kind) {
  case TokenKind::Name: {
    expr.kind = ExprKind::Name;
    expr.name = name(now().text);
    bool open = false;
    for (const NameId target : openTargets_) {
      open |= target == expr.name;
    }
    if (!open) {
      readOutsideLoop_.push_back(expr.name);
    }
    next();
    return add(expr, start);
  }
  case TokenKind::Number:
    return number();
  case TokenKind::String:
    return strings();
  case TokenKind::Keyword:
    if (is("True") || is("False") || is("None")) {
      expr.kind = ExprKind::Constant;
      expr.index = static_cast<uint32_t>(ast_.constants.size());
      if (is("None")) {
        ast_.constants.emplace_back(None{});
      } else {
        ast_.constants.emplace_back(is("True"));
      }
      next();
      return add(expr, start);
    }
    break;
  case TokenKind::Operator:
    if (is("(")) {
      return parenthesised();
    }
    if (is("[")) {
      return bracketed();
    }
    if (is("{")) {
      return braced();
    }
    if (accept("...")) {
      return add(expr, start);
    }
    break;
  case TokenKind::End:
  case TokenKind::Newline:
  case TokenKind::Indent:
  case TokenKind::Dedent:
    break;
  }
  fail("expected an expression before " + describe(now()));
}

ExprId Parser::parenthesised() {
  const SourceRange start = rangeOf(now());
  expect("(");
  if (accept(")")) {
    Expr empty;
    empty.kind = ExprKind::Tuple;
    return add(empty, start);
  }
  const ExprId value = expressions();
  if (atComprehension()) {
    const ExprId made = comprehension("a generator expression", false, start);
    expect(")");
    return made;
  }
  expect(")");
  // The brackets belong to what is shown.
  const SourceRange whole = rangeFrom(start);
  ast_.exprs[value.index].range = whole;
  return value;
}

ExprId Parser::bracketed() {
  const SourceRange start = rangeOf(now());
  expect("[");
  std::vector<ExprId> items;
  while (!is("]")) {
    items.push_back(starredOrNamed());
    if (atComprehension()) {
      const ExprId made = comprehension("a comprehension", true, start);
      expect("]");
      return made;
    }
    if (!accept(",") && !is("]")) {
      fail("expected `,` or `]` before " + describe(now()));
    }
  }
  expect("]");
  Expr expr;
  expr.kind = ExprKind::Tuple;
  expr.list = list(items);
  return add(expr, start);
}

ExprId Parser::braced() {
  const SourceRange start = rangeOf(now());
  expect("{");
  bool isDict = is("}");
  while (!is("}")) {
    if (accept("**")) {
      isDict = true;
      binary(1);
    } else {
      starredOrNamed();
      if (accept(":")) {
        isDict = true;
        expression();
      }
    }
    if (atComprehension()) {
      comprehension("a comprehension", false, start);
    } else if (!accept(",") && !is("}")) {
      fail("expected `,` or `}` before " + describe(now()));
    }
  }
  expect("}");
  return refuse(isDict ? "a dict" : "a set", start);
}

ExprId Parser::comprehension(const std::string &what, bool notYet, SourceRange start) {
  while (atComprehension()) {
    accept("async");
    expect("for");
    do {
      accept("*");
      primary();
    } while (accept(",") && !is("in"));
    expect("in");
    disjunction();
    while (accept("if")) {
      is("lambda") ? lambda() : disjunction();
    }
  }
  return refuse(what, start, notYet);
}

ExprId Parser::strings() {
  const SourceRange start = rangeOf(now());
  std::string text;
  const char *refused = nullptr;
  for (; is(TokenKind::String); next()) {
    const StringParts parts = splitString(now().text);
    if (parts.has('f') || parts.has('t')) {
      refused = "an f-string";
    } else if (parts.has('b')) {
      refused = "a bytes literal";
    }
    text += parts.has('r') ? std::string(parts.body) : decodeEscapes(parts.body);
  }
  if (refused != nullptr) {
    return refuse(refused, start, std::string_view(refused) == "an f-string");
  }
  Expr expr;
  expr.kind = ExprKind::Constant;
  expr.index = static_cast<uint32_t>(ast_.constants.size());
  ast_.constants.emplace_back(std::move(text));
  return add(expr, start);
}

ExprId Parser::number() {
  const SourceRange start = rangeOf(now());
  auto value = numberLiteral(now().text);
  next();
  if (const std::string *refused = std::get_if<std::string>(&value)) {
    return refuse(*refused, start);
  }
  Expr expr;
  expr.kind = ExprKind::Constant;
  expr.index = static_cast<uint32_t>(ast_.constants.size());
  ast_.constants.push_back(std::move(std::get<Constant>(value)));
  return add(expr, start);
}

} // namespace libtile::frontend
