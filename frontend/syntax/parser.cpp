// SPDX-License-Identifier: Apache-2.0
// Tokens, the tree's tables, and functions at the top level.
#include "frontend/syntax/parser.h"

#include "frontend/syntax/source.h"

#include <algorithm>

namespace libtile::frontend {

const AstFunction *Ast::find(std::string_view function) const {
  for (auto it = functions.rbegin(); it != functions.rend(); ++it) {
    if (names[it->name.index] == function) {
      return &*it;
    }
  }
  return nullptr;
}

// ---- tokens

bool Parser::accept(std::string_view text) {
  if (!is(text)) {
    return false;
  }
  next();
  return true;
}

void Parser::expect(std::string_view text) {
  if (!accept(text)) {
    fail("expected `" + std::string(text) + "` before " + describe(now()));
  }
}

NameId Parser::expectName(const char *what) {
  if (!is(TokenKind::Name)) {
    fail(std::string("expected ") + what + " before " + describe(now()));
  }
  const NameId id = name(now().text);
  next();
  return id;
}

std::string Parser::describe(const Token &token) const {
  switch (token.kind) {
  case TokenKind::End:
    return "the end of the text";
  case TokenKind::Newline:
    return "the end of the line";
  case TokenKind::Indent:
    return "an indented block";
  case TokenKind::Dedent:
    return "the end of the block";
  case TokenKind::String:
    return "a string";
  case TokenKind::Name:
  case TokenKind::Keyword:
  case TokenKind::Number:
  case TokenKind::Operator:
    break;
  }
  constexpr size_t kMost = 40;
  return "`" + std::string(token.text.substr(0, kMost)) + (token.text.size() > kMost ? "..." : "") +
         "`";
}

std::string Parser::keywordHint() const {
  // `retrun x` stops at its second token, `esle:` at the end of its line.
  constexpr size_t kFurthest = 2;
  const Token &first = tokens_[statementAt_];
  if (first.kind != TokenKind::Name || at_ == statementAt_ || at_ - statementAt_ > kFurthest) {
    return "";
  }
  static const std::vector<std::string> kStatements = {
      "assert", "break", "continue", "def", "elif", "else", "for", "if", "pass", "return", "while"};
  return didYouMean(first.text, kStatements);
}

void Parser::fail(const std::string &message, SourceRange range) const {
  throw ir::UserError(message, ast_.location(range));
}

SourceRange Parser::rangeOf(const Token &token) const {
  // Strings may span lines; they are shown on their first one.
  const size_t onLine = token.kind == TokenKind::String
                            ? std::min(token.text.find_first_of("\r\n"), token.text.size())
                            : token.text.size();
  const auto length = static_cast<uint32_t>(std::max<size_t>(onLine, 1));
  return {token.line, token.column, token.column + length};
}

SourceRange Parser::rangeFrom(SourceRange start) const {
  size_t last = at_;
  while (last > 0) {
    const SourceRange range = rangeOf(tokens_[--last]);
    if (range.line == start.line) {
      return {start.line, start.column, std::max(start.endColumn, range.endColumn)};
    }
    if (range.line < start.line) {
      break;
    }
  }
  return start;
}

void Parser::endOfStatement() {
  if (!is(TokenKind::Newline) && !is(TokenKind::End)) {
    fail("expected the end of the statement before " + describe(now()));
  }
  next();
}

void Parser::skipLine() {
  while (!is(TokenKind::Newline) && !is(TokenKind::End)) {
    next();
  }
  next();
}

void Parser::skipBlock() {
  skipLine();
  if (!is(TokenKind::Indent)) {
    return;
  }
  int depth = 0;
  do {
    depth += is(TokenKind::Indent) ? 1 : is(TokenKind::Dedent) ? -1 : 0;
    next();
  } while (depth > 0 && !is(TokenKind::End));
}

// ---- tree

NameId Parser::name(std::string_view text) {
  const auto [it, isNew] =
      nameIds_.try_emplace(std::string(text), NameId{static_cast<uint32_t>(ast_.names.size())});
  if (isNew) {
    ast_.names.emplace_back(text);
  }
  return it->second;
}

ExprId Parser::add(Expr expr, SourceRange start) {
  expr.range = rangeFrom(start);
  unsigned depth = 0;
  const auto under = [&](ExprId child, unsigned extra) {
    if (child.valid()) {
      depth = std::max(depth, ast_[child].depth + extra);
    }
  };
  const bool chain = expr.kind == ExprKind::Binary && ast_[expr.a].kind == ExprKind::Binary;
  under(expr.a, chain || expr.kind == ExprKind::Keyword ? 0 : 1);
  under(expr.b, 1);
  under(expr.c, 1);
  for (uint32_t i = 0; i < expr.list.count; ++i) {
    under(ast_.expr(expr.list, i), 1);
  }
  if (depth > kDeepest) {
    fail("expression nested more than 200 deep", expr.range);
  }
  expr.depth = static_cast<uint16_t>(std::max(depth, 1U));
  ast_.exprs.push_back(expr);
  return {static_cast<uint32_t>(ast_.exprs.size() - 1)};
}

StmtId Parser::add(Stmt stmt, SourceRange start) {
  stmt.range = rangeFrom(start);
  ast_.stmts.push_back(stmt);
  return {static_cast<uint32_t>(ast_.stmts.size() - 1)};
}

ExprId Parser::refuse(const std::string &what, SourceRange start) {
  Expr expr;
  expr.kind = ExprKind::Refused;
  expr.index = static_cast<uint32_t>(ast_.texts.size());
  ast_.texts.push_back(what);
  return add(expr, start);
}

StmtId Parser::refuseStmt(const std::string &what, SourceRange start) {
  Stmt stmt;
  stmt.kind = StmtKind::Refused;
  stmt.index = static_cast<uint32_t>(ast_.texts.size());
  ast_.texts.push_back(what);
  return add(stmt, start);
}

// ---- functions

void Parser::module() {
  while (!is(TokenKind::End)) {
    const size_t before = at_;
    const bool isJit = decorators();
    if (is("def")) {
      function(isJit);
    } else if (is("import") || is("from")) {
      imports();
      skipLine();
    } else {
      skipBlock();
    }
    if (at_ == before) {
      next();
    }
  }
}

std::string Parser::dottedName() {
  std::string path;
  while (is(TokenKind::Name) || is(".") || is("...")) {
    path += now().text;
    next();
  }
  return path;
}

void Parser::imports() {
  const bool isFrom = accept("from");
  const std::string module = isFrom ? dottedName() + "." : "";
  if (!accept("import")) {
    return;
  }
  accept("(");
  while (is(TokenKind::Name)) {
    const std::string path = dottedName();
    if (accept("as") && is(TokenKind::Name)) {
      ast_.imports.emplace_back(name(now().text), module + path);
      next();
    } else {
      const std::string first = path.substr(0, path.find('.'));
      ast_.imports.emplace_back(name(first), module + (isFrom ? path : first));
    }
    if (!accept(",")) {
      break;
    }
  }
}

bool Parser::decorators() {
  bool isJit = false;
  while (is("@")) {
    next();
    while (is(TokenKind::Name) && is(ahead(), ".")) {
      next(), next();
    }
    isJit |= now().text == "jit";
    while (!is(TokenKind::Newline) && !is(TokenKind::End)) {
      next();
    }
    next();
  }
  return isJit;
}

void Parser::function(bool isJit) {
  AstFunction fn;
  fn.isJit = isJit;
  const size_t start = at_;
  const size_t firstStmt = ast_.stmts.size();
  assigned_.clear(), openTargets_.clear(), readOutsideLoop_.clear();
  next();
  if (!is(TokenKind::Name)) {
    skipBlock();
    return;
  }
  fn.range = rangeOf(now());
  fn.name = expectName("the function's name");
  try {
    if (is("[")) {
      fail("type parameters are not allowed");
    }
    parameters(fn);
    if (accept("->")) {
      expression();
    }
    fn.body = block();
    settleEscapes(firstStmt);
  } catch (const ir::UserError &error) {
    fn.error = error;
    depth_ = 0;
    at_ = start;
    skipBlock();
  }
  ast_.functions.push_back(std::move(fn));
}

void Parser::parameters(AstFunction &fn) {
  expect("(");
  AstParam::Kind kind = AstParam::Normal;
  while (!is(")")) {
    if (accept("**")) {
      parameter(fn, AstParam::KeywordArgs);
    } else if (accept("*")) {
      if (kind == AstParam::KeywordOnly) {
        fail("a second `*` among the parameters");
      }
      kind = AstParam::KeywordOnly;
      if (!is(",")) {
        parameter(fn, AstParam::VarArgs);
      }
    } else if (is("/")) {
      fail("positional-only parameters are not allowed");
    } else {
      parameter(fn, kind);
    }
    if (!accept(",") && !is(")")) {
      fail("expected `,` or `)` before " + describe(now()));
    }
  }
  expect(")");
}

void Parser::parameter(AstFunction &fn, AstParam::Kind kind) {
  AstParam param;
  param.kind = kind;
  param.range = rangeOf(now());
  param.name = expectName("a parameter's name");
  for (const AstParam &other : fn.params) {
    if (other.name == param.name) {
      fail("a second parameter `" + ast_[param.name] + "`", param.range);
    }
  }
  if (accept(":")) {
    param.annotation = expression();
  }
  if (is("=")) {
    next();
    param.deflt = expression();
  } else if (kind == AstParam::Normal && !fn.params.empty() && fn.params.back().deflt.valid()) {
    fail("parameter `" + ast_[param.name] + "` needs a default, as the one before it has one",
         param.range);
  }
  fn.params.push_back(param);
}

void Parser::settleEscapes(size_t firstStmt) {
  std::sort(readOutsideLoop_.begin(), readOutsideLoop_.end());
  for (size_t i = firstStmt; i < ast_.stmts.size(); ++i) {
    Stmt &stmt = ast_.stmts[i];
    if (stmt.kind == StmtKind::For && ast_[stmt.target].kind == ExprKind::Name) {
      stmt.targetEscapes = std::binary_search(readOutsideLoop_.begin(), readOutsideLoop_.end(),
                                              ast_[stmt.target].name);
    }
  }
}

std::shared_ptr<const Ast> parse(std::shared_ptr<const ir::SourceFile> file) {
  auto ast = std::make_shared<Ast>();
  ast->file = std::move(file);
  Parser(*ast, lex(ast->file)).module();
  return ast;
}

} // namespace libtile::frontend
