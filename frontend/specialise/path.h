// SPDX-License-Identifier: Apache-2.0
// Where the walk of one region has come to: what its names mean, and how it may have been left.
#pragma once

#include "frontend/semantics/value.h"
#include "frontend/syntax/ast.h"

#include <utility>
#include <vector>

namespace libtile::frontend {

// Why a name has no value, for the message.
enum class Why : uint8_t { None, OneBranch, InLoop };

struct Binding {
  NameId name;
  Value value; // unbound: see why
  SourceRange where;
  Why why = Why::None;
};

// The names of one function, in the order of their first binding.
struct Scope {
  std::vector<Binding> bindings;
  [[nodiscard]] const Binding *find(NameId name) const;
  [[nodiscard]] Binding *find(NameId name) {
    return const_cast<Binding *>(std::as_const(*this).find(name));
  }
  void set(NameId name, Value value, SourceRange where);
  void remove(NameId name, Why why);
};

struct Flag {
  enum Kind : uint8_t { Never, Sometimes, Always } kind = Never;
  ir::ValueId value; // Sometimes: an i1
};

struct Flow {
  Flag broke, continued, returned;
  bool dead = false; // every path has left
  Value returnValue; // on the paths that returned
  SourceRange returnedAt;
  [[nodiscard]] bool maybeLeft() const {
    return !dead && (broke.kind != Flag::Never || continued.kind != Flag::Never ||
                     returned.kind != Flag::Never);
  }
};

// Where one region's walk has come to.
struct Path {
  Scope scope;
  Flow flow;
};

} // namespace libtile::frontend
