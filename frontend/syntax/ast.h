// SPDX-License-Identifier: Apache-2.0
// Syntax tree of one source text: the functions at its top level, all else is skipped.
//
// Nodes lie in vectors and name each other by typed 32-bit ids, so a tree is a handful of
// allocations and is shared read-only by every specialisation. What Python's grammar has but the
// kernel language refuses becomes a Refused node: it is reported when it is reached, with its
// place, and costs nothing in functions that no kernel calls.
#pragma once

#include "frontend/semantics/semantics.h"
#include "ir/diagnostic.h"
#include "ir/ids.h"

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace libtile::frontend {

using ExprId = ir::Id<struct ExprTag>;
using StmtId = ir::Id<struct StmtTag>;
using NameId = ir::Id<struct NameTag>;

// A slice of Ast::lists.
struct List {
  uint32_t first = 0;
  uint32_t count = 0;
};

enum class ExprKind : uint8_t {
  Name,        // name
  Constant,    // index: constants
  Ellipsis,    // ...
  Tuple,       // list: items; also [a, b]
  Binary,      // op: BinaryOp; a, b
  Unary,       // op: UnaryOp; a
  BoolOp,      // op: 1 for `and`, 0 for `or`; list: operands
  Compare,     // list: operands; list2: CompareOps, one fewer
  Conditional, // a if b else c
  Call,        // a; list: arguments (Starred and Keyword too)
  Attribute,   // a.name
  Subscript,   // a[b]
  Slice,       // a:b:c, each may be missing
  Starred,     // *a
  Keyword,     // name=a, an argument of a call
  Walrus,      // name := b
  Comprehension, // [a for c in b if ...]; list: conditions
  Formatted,   // an f-string; list: its pieces, texts (Constant) and Replacements
  Replacement, // {a!op:b} of an f-string; op: the letter behind `!`, or 0; b may be missing
  Refused,     // index: texts
};

struct Expr {
  ExprKind kind = ExprKind::Ellipsis;
  uint8_t op = 0;
  // Height of the tree, where a chain of binary operators to the left counts once.
  uint16_t depth = 1;
  SourceRange range;
  ExprId a, b, c;
  NameId name;
  uint32_t index = 0;
  List list, list2;
};

enum class StmtKind : uint8_t {
  Expression, // value
  Assign,     // list: targets, left to right; value
  Annotated,  // target: annotation [= value]
  Augmented,  // target op= value
  If,         // test; body; orelse
  For,        // target, value: iterable; body; orelse
  While,      // test; body; orelse
  Return,     // value may be missing
  Break,
  Continue,
  Pass,
  Assert,  // test; value: message, may be missing
  With,    // value; target, may be missing; body
  Refused, // index: texts
};

struct Stmt {
  StmtKind kind = StmtKind::Pass;
  uint8_t op = 0;
  // For: the target's name is read outside of loops over it, so it lives on after the loop.
  bool targetEscapes = false;
  SourceRange range; // of the statement's first line
  ExprId target, test, value;
  ExprId annotation;
  uint32_t index = 0;
  List list, body, orelse;
  // Loops: names bound anywhere inside (each once), which are what the loop may carry.
  List assigned;
};

struct AstParam {
  NameId name;
  SourceRange range;
  ExprId annotation, deflt; // may be missing
  enum Kind : uint8_t { Normal, VarArgs, KeywordOnly, KeywordArgs } kind = Normal;
};

struct AstFunction {
  NameId name;
  SourceRange range; // of the name
  std::vector<AstParam> params;
  List body; // statements
  bool isJit = false; // by a decorator
  // The function does not parse: thrown when it is asked for.
  std::optional<ir::UserError> error;
};

struct Ast {
  std::shared_ptr<const ir::SourceFile> file;
  std::vector<Expr> exprs;
  std::vector<Stmt> stmts;
  std::vector<uint32_t> lists; // ids of the kind that the owner of the List says
  std::vector<Constant> constants;
  std::vector<std::string> texts;
  std::vector<std::string> names;
  std::vector<AstFunction> functions; // in text order
  // What the imports at the top level bind, and to which dotted name.
  std::vector<std::pair<NameId, std::string>> imports;

  // A file of the prelude: its names come from the file and the language alone.
  [[nodiscard]] bool isPrelude() const { return file->isLibrary; }
  [[nodiscard]] const Expr &operator[](ExprId id) const { return exprs[id.index]; }
  [[nodiscard]] const Stmt &operator[](StmtId id) const { return stmts[id.index]; }
  [[nodiscard]] const std::string &operator[](NameId id) const { return names[id.index]; }
  [[nodiscard]] ExprId expr(List list, uint32_t i) const { return {lists[list.first + i]}; }
  [[nodiscard]] StmtId stmt(List list, uint32_t i) const { return {lists[list.first + i]}; }
  [[nodiscard]] NameId name(List list, uint32_t i) const { return {lists[list.first + i]}; }
  // The last function of that name; nullptr if there is none.
  [[nodiscard]] const AstFunction *find(std::string_view function) const;
  [[nodiscard]] ir::Location location(SourceRange range) const {
    return {file, range.line, range.column, range.endColumn, nullptr};
  }
};

} // namespace libtile::frontend
