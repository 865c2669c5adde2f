// SPDX-License-Identifier: Apache-2.0
// Source text -> syntax tree.
//
// The full grammar of Python expressions and simple statements is read; compound statements that a
// kernel cannot use (try, match, class, nested def) are skipped as blocks and leave a Refused node.
// At the top level only `def`s are read. A function that does not parse carries its error, so that
// host code in the same file does no harm.
#pragma once

#include "frontend/syntax/ast.h"
#include "frontend/syntax/lexer.h"

namespace libtile::frontend {

// Throws UserError where no tokens can be made of the text.
[[nodiscard]] std::shared_ptr<const Ast> parse(std::shared_ptr<const ir::SourceFile> file);

// The number, or what it is called if the language has none such.
[[nodiscard]] std::variant<Constant, std::string> numberLiteral(std::string_view token);

// The parser's state; parser_expr.cpp and parser_stmt.cpp define their parts.
class Parser {
public:
  explicit Parser(Ast &ast, std::vector<Token> tokens) : ast_(ast), tokens_(std::move(tokens)) {}
  void module();

private:
  static constexpr unsigned kDeepest = 200;

  // Counts the nesting of whatever recurses.
  struct Nesting {
    Parser &parser;
    explicit Nesting(Parser &parser) : parser(parser) {
      if (++parser.depth_ > kDeepest) {
        parser.fail("nested more than 200 deep");
      }
    }
    ~Nesting() { --parser.depth_; }
    Nesting(const Nesting &) = delete;
    Nesting &operator=(const Nesting &) = delete;
  };

  // ---- tokens
  [[nodiscard]] const Token &now() const { return tokens_[at_]; }
  [[nodiscard]] const Token &ahead(size_t n = 1) const {
    return tokens_[std::min(at_ + n, tokens_.size() - 1)];
  }
  [[nodiscard]] bool is(TokenKind kind) const { return now().kind == kind; }
  // An operator or keyword.
  [[nodiscard]] static bool is(const Token &token, std::string_view text) {
    return (token.kind == TokenKind::Operator || token.kind == TokenKind::Keyword) &&
           token.text.size() == text.size() && token.text[0] == text[0] && token.text == text;
  }
  [[nodiscard]] bool is(std::string_view text) const { return is(now(), text); }
  void next() { at_ += at_ + 1 < tokens_.size() ? 1 : 0; }
  bool accept(std::string_view text);
  void expect(std::string_view text);
  NameId expectName(const char *what);
  void endOfStatement();
  void skipLine();  // to behind the next Newline
  void skipBlock(); // a line and the indented block behind it
  [[nodiscard]] std::string describe(const Token &token) const;
  // At the present token; says which keyword a statement that begins with its misspelling may mean.
  [[noreturn]] void fail(const std::string &message) const {
    fail(message + keywordHint(), rangeOf(now()));
  }
  [[nodiscard]] std::string keywordHint() const;
  [[noreturn]] void fail(const std::string &message, SourceRange range) const;
  [[nodiscard]] SourceRange rangeOf(const Token &token) const;
  // From there to the end of the last token taken.
  [[nodiscard]] SourceRange rangeFrom(SourceRange start) const;

  // ---- tree
  NameId name(std::string_view text);
  template <class IdT> List list(const std::vector<IdT> &ids) {
    const List made{static_cast<uint32_t>(ast_.lists.size()), static_cast<uint32_t>(ids.size())};
    for (const IdT id : ids) {
      ast_.lists.push_back(id.index);
    }
    return made;
  }
  ExprId add(Expr expr, SourceRange start);
  StmtId add(Stmt stmt, SourceRange start);
  ExprId refuse(const std::string &what, SourceRange start);
  StmtId refuseStmt(const std::string &what, SourceRange start);

  // ---- expressions, weakest first
  ExprId expressions(bool starred = true); // a, b, c: a tuple where there is a comma
  ExprId named();                          // name := value
  ExprId expression();
  ExprId lambda();
  ExprId disjunction();
  ExprId conjunction();
  ExprId inversion();
  ExprId comparison();
  ExprId binary(int minimum);
  ExprId unary();
  ExprId power();
  ExprId primary();
  ExprId callArguments(ExprId callee, SourceRange start);
  ExprId subscript(ExprId object, SourceRange start);
  ExprId sliceItem();
  ExprId atom();
  ExprId parenthesised();
  ExprId bracketed();
  ExprId braced();
  ExprId strings();
  // The pieces of an f-string's text from `at` to `end`, in the file's text; of a format specification
  // up to its `}`. Returns where it has come to.
  struct Format {
    Token rest; // of the string's token, where it is being read
    SourceRange range;
    bool isRaw;
  };
  size_t formatPieces(Format &format, size_t at, size_t end, bool isSpec,
                      std::vector<ExprId> &pieces);
  size_t replacement(Format &format, size_t at, size_t end, std::vector<ExprId> &pieces);
  ExprId textConstant(std::string text, SourceRange start);
  ExprId number();
  ExprId starredOrNamed();
  // After the first element: `for x in y if z` up to the closing bracket.
  ExprId comprehension(ExprId element, SourceRange start, size_t firstRead);
  ExprId comprehensionTarget();
  ExprId refusedComprehension(const std::string &what, SourceRange start);
  [[nodiscard]] bool atComprehension() const { return is("for") || is("async"); }

  // ---- statements
  List block();
  void statement(std::vector<StmtId> &out);
  void simpleLine(std::vector<StmtId> &out);
  StmtId simple();
  StmtId expressionStatement();
  StmtId ifStatement();
  StmtId forStatement();
  StmtId whileStatement();
  StmtId withStatement();
  StmtId withItem(bool inBrackets);
  bool refusedCompound(std::vector<StmtId> &out);
  [[nodiscard]] bool atMatch() const;
  // Records what an assignment to the target binds; refuses what cannot be one.
  void bind(ExprId target);
  void recordAssigned(Stmt &loop, size_t mark);

  // ---- functions
  void imports(); // `import a.b as c, d` and `from a.b import (c, d as e)`
  std::string dottedName();
  void function(bool isJit);
  void parameters(AstFunction &fn);
  void parameter(AstFunction &fn, AstParam::Kind kind);
  bool decorators(); // whether one is jit, with or without a prefix and arguments
  void settleEscapes(size_t firstStmt);

  Ast &ast_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  size_t statementAt_ = 0; // the first token of the simple statement
  unsigned depth_ = 0;
  std::unordered_map<std::string, NameId> nameIds_;
  std::vector<NameId> assigned_;        // targets in text order; loops take what lies behind a mark
  std::vector<NameId> openTargets_;     // of the `for` loops around
  std::vector<NameId> readOutsideLoop_; // names read where no loop over them is open
};

} // namespace libtile::frontend
