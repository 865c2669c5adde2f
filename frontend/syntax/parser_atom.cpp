// SPDX-License-Identifier: Apache-2.0
// The innermost expressions: names, literals, brackets and comprehensions.
#include "frontend/syntax/parser.h"

#include <algorithm>
#include <utility>

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
    const ExprId made = refusedComprehension("a generator expression", start);
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
  const size_t firstRead = readOutsideLoop_.size();
  while (!is("]")) {
    items.push_back(starredOrNamed());
    if (atComprehension()) {
      const ExprId made = comprehension(items[0], start, firstRead);
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
      refusedComprehension("a comprehension of a dict or a set", start);
    } else if (!accept(",") && !is("}")) {
      fail("expected `,` or `}` before " + describe(now()));
    }
  }
  expect("}");
  return refuse(isDict ? "a dict" : "a set", start);
}

ExprId Parser::comprehension(ExprId element, SourceRange start, size_t firstRead) {
  if (ast_[element].kind == ExprKind::Starred) {
    fail("`*` in a comprehension", ast_[element].range);
  }
  if (is("async")) {
    return refusedComprehension("an asynchronous comprehension", start);
  }
  expect("for");
  Expr expr;
  expr.kind = ExprKind::Comprehension;
  expr.a = element;
  expr.c = comprehensionTarget();
  expect("in");
  expr.b = disjunction();
  std::vector<ExprId> conditions;
  while (accept("if")) {
    conditions.push_back(disjunction());
  }
  if (atComprehension()) {
    return refusedComprehension("a comprehension with several `for`", start);
  }
  // Its names are its own.
  const auto isTarget = [&](NameId read) {
    const Expr &target = ast_[expr.c];
    bool found = target.name == read;
    for (uint32_t i = 0; i < target.list.count; ++i) {
      found = found || ast_[ast_.expr(target.list, i)].name == read;
    }
    return found;
  };
  const auto begin = readOutsideLoop_.begin() + static_cast<std::ptrdiff_t>(firstRead);
  readOutsideLoop_.erase(std::remove_if(begin, readOutsideLoop_.end(), isTarget),
                         readOutsideLoop_.end());
  expr.list = list(conditions);
  return add(expr, start);
}

// A name, or several.
ExprId Parser::comprehensionTarget() {
  const SourceRange start = rangeOf(now());
  const bool inBrackets = accept("(");
  std::vector<ExprId> names;
  do {
    Expr target;
    target.kind = ExprKind::Name;
    const SourceRange range = rangeOf(now());
    target.name = expectName("a name");
    names.push_back(add(target, range));
  } while (accept(",") && !is("in") && !is(")"));
  const bool isTuple = names.size() > 1 || is(tokens_[at_ - 1], ",");
  if (inBrackets) {
    expect(")");
  }
  if (!isTuple) {
    return names[0];
  }
  Expr tuple;
  tuple.kind = ExprKind::Tuple;
  tuple.list = list(names);
  return add(tuple, start);
}

ExprId Parser::refusedComprehension(const std::string &what, SourceRange start) {
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
  return refuse(what, start);
}

// ---- texts

ExprId Parser::textConstant(std::string text, SourceRange start) {
  Expr expr;
  expr.kind = ExprKind::Constant;
  expr.index = static_cast<uint32_t>(ast_.constants.size());
  ast_.constants.emplace_back(std::move(text));
  return add(expr, start);
}

ExprId Parser::strings() {
  const SourceRange start = rangeOf(now());
  const char *refused = nullptr;
  bool isFormatted = false;
  std::string text;
  std::vector<ExprId> pieces;
  for (; is(TokenKind::String); next()) {
    const Token token = now();
    const StringParts parts = splitString(token.text);
    if (parts.has('t') || parts.has('b')) {
      refused = parts.has('t') ? "a template string" : "a bytes literal";
    } else if (parts.has('f')) {
      isFormatted = true;
      pieces.push_back(textConstant(std::exchange(text, {}), start));
      const auto at = static_cast<size_t>(parts.body.data() - ast_.file->text.data());
      Format format{token, rangeOf(token), parts.has('r')};
      formatPieces(format, at, at + parts.body.size(), false, pieces);
    } else {
      text += parts.has('r') ? std::string(parts.body) : decodeEscapes(parts.body);
    }
  }
  if (refused != nullptr) {
    return refuse(refused, start);
  }
  if (!isFormatted) {
    return textConstant(std::move(text), start);
  }
  pieces.push_back(textConstant(std::move(text), start));
  Expr expr;
  expr.kind = ExprKind::Formatted;
  expr.list = list(pieces);
  return add(expr, start);
}

size_t Parser::formatPieces(Format &format, size_t at, size_t end, bool isSpec,
                            std::vector<ExprId> &pieces) {
  const std::string_view text = ast_.file->text;
  const SourceRange here = format.range;
  std::string plain;
  const auto finish = [&] {
    if (!plain.empty()) {
      pieces.push_back(textConstant(format.isRaw ? plain : decodeEscapes(plain), here));
      plain.clear();
    }
  };
  while (at < end && !(isSpec && text[at] == '}')) {
    const char c = text[at];
    const bool isTwice = at + 1 < end && text[at + 1] == c;
    if (c == '{' && (isSpec || !isTwice)) {
      finish();
      at = replacement(format, at + 1, end, pieces);
    } else if (c == '}' && !isTwice) {
      fail("`}` without `{` in an f-string", here);
    } else {
      const bool isEscape = c == '\\' && !format.isRaw && at + 1 < end;
      plain.append(text.substr(at, isEscape ? 2 : 1));
      at += isEscape || c == '{' || c == '}' ? 2 : 1;
    }
  }
  finish();
  return at;
}

// Behind the `{`; returns the place behind the `}`.
size_t Parser::replacement(Format &format, size_t at, size_t end, std::vector<ExprId> &pieces) {
  const Nesting nesting(*this);
  const std::string_view text = ast_.file->text;
  const SourceRange here = format.range;
  std::vector<Token> lexed = lexReplacement(ast_.file, format.rest, at);
  const auto stop = static_cast<size_t>(format.rest.text.data() - text.data());
  Expr expr;
  expr.kind = ExprKind::Replacement;
  bool showsItself = false;
  {
    // The parser reads these tokens, and then goes on with its own.
    struct Reading {
      Parser &parser;
      std::vector<Token> tokens;
      size_t at, statementAt;
      ~Reading() {
        parser.tokens_ = std::move(tokens);
        parser.at_ = at, parser.statementAt_ = statementAt;
      }
    };
    const size_t count = lexed.size();
    showsItself = count > 2 && is(lexed[count - 2], "=");
    if (showsItself) {
      lexed.erase(lexed.end() - 2);
    }
    const Reading reading{*this, std::exchange(tokens_, std::move(lexed)),
                          std::exchange(at_, 0), std::exchange(statementAt_, 0)};
    expr.a = expressions();
    if (!is(TokenKind::End)) {
      fail("expected `}` before " + describe(now()));
    }
  }
  if (showsItself) {
    pieces.push_back(textConstant(std::string(text.substr(at, stop - at)), here));
  }
  at = stop;
  if (at < end && text[at] == '!') {
    expr.op = static_cast<uint8_t>(at + 1 < end ? text[at + 1] : 0);
    if (expr.op != 'r' && expr.op != 's' && expr.op != 'a') {
      fail("`!` of an f-string is followed by r, s or a", here);
    }
    at += 2;
  }
  if (at < end && text[at] == ':') {
    std::vector<ExprId> spec;
    at = formatPieces(format, at + 1, end, true, spec);
    Expr made;
    made.kind = ExprKind::Formatted;
    made.list = list(spec);
    expr.b = add(made, here);
  } else if (showsItself && expr.op == 0) {
    expr.op = 'r';
  }
  if (at >= end || text[at] != '}') {
    fail("`{` of an f-string is not closed", here);
  }
  pieces.push_back(add(expr, here));
  return at + 1;
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
