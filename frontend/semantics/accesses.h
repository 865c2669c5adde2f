// SPDX-License-Identifier: Apache-2.0
// What loads, stores and atomics ask of their arguments (memory.cpp). The pointer, or tile of pointers,
// gives the shape; mask and values are brought to it.
#pragma once

#include "frontend/semantics/operations.h"

#include <array>
#include <utility>

namespace libtile::frontend {

// The pointer of `what` ("load"); fails for other values.
Tensor requirePointer(const Semantics &s, const Value &value, const char *what);
// One that may be written through.
Tensor requireWritable(const Semantics &s, const Value &value, const char *what);
// The mask in the pointer's shape; nullopt for None and for a constant that is true.
std::optional<Tensor> maskFor(Semantics &s, const Value &mask, const Tensor &pointer);
// A value in the element type and shape of the pointer.
Tensor valueFor(Semantics &s, const Value &value, const Tensor &pointer, const char *what);
// Pointers to int1 as pointers to bytes.
Tensor asBytes(Semantics &s, const Tensor &pointer);
// An access without its attributes: its result in the pointer's element type, and the op.
struct MadeAccess {
  Value result; // None of a store
  ir::OpId op;
};
MadeAccess makeLoad(Semantics &s, Tensor pointer, const Value &mask, const Value &other);
MadeAccess makeStore(Semantics &s, const Tensor &pointer, const Value &value, const Value &mask);

// The enumerator of a text, None as '', whose first dot may be missing; fails for texts that are not there, and
// names the others, but '', which says nothing.
template <class E, size_t N>
E choice(const Semantics &s, const Value &value, const std::string &what,
         const std::array<std::pair<const char *, E>, N> &choices) {
  const std::string text = optionalString(s, value, what);
  std::string known;
  for (const auto &[name, result] : choices) {
    if (text == name || "." + text == name) {
      return result;
    }
    if (!std::string_view(name).empty()) {
      known += (known.empty() ? "'" : ", '") + std::string(name) + "'";
    }
  }
  s.fail(value, what + " must be one of " + known + ", got '" + text + "'");
}

} // namespace libtile::frontend
