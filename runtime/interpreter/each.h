// SPDX-License-Identifier: Apache-2.0
// Loops over elements.
#pragma once

#include "runtime/interpreter/value.h"

#include <algorithm>

namespace libtile::runtime::interpreter {

// f(a's element), ...
template <class F> Value each(const Value &a, F &&f) {
  Value made{std::vector<uint64_t>(a.size())};
  for (size_t i = 0; i < made.size(); ++i) {
    made.bits[i] = f(a.bits[i]);
  }
  return made;
}

// f(a's element, b's element), ...
template <class F> Value each(const Value &a, const Value &b, F &&f) {
  Value made{std::vector<uint64_t>(std::max(a.size(), b.size()))};
  for (size_t i = 0; i < made.size(); ++i) {
    made.bits[i] = f(a[i], b[i]);
  }
  return made;
}

} // namespace libtile::runtime::interpreter
