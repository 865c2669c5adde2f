// SPDX-License-Identifier: Apache-2.0
// Loops over elements. What an op does is decided in front of a loop, not for each element.
#pragma once

#include "ir/ops.h"
#include "runtime/interpreter/value.h"

#include <algorithm>
#include <type_traits>

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
  const size_t stepA = a.size() == 1 ? 0 : 1, stepB = b.size() == 1 ? 0 : 1;
  for (size_t i = 0; i < made.size(); ++i) {
    made.bits[i] = f(a.bits[i * stepA], b.bits[i * stepB]);
  }
  return made;
}

// f(the opcode as a type), of an arithmetic op.
template <class F> Value withOpcode(ir::Opcode opcode, F &&f) {
  switch (opcode) {
#define ELEMENTWISE(...)
#define CAST(...)
#define OP(...)
#define ARITHMETIC(Name, ...) \
  case ir::Opcode::Name:      \
    return f(std::integral_constant<ir::Opcode, ir::Opcode::Name>());
#include "ir/ops.def"
#define ARITHMETIC(...)
#define OP(Name, ...) case ir::Opcode::Name:
#include "ir/ops.def"
    break;
  }
  throw ir::InternalError("no arithmetic op");
}

} // namespace libtile::runtime::interpreter
