// SPDX-License-Identifier: Apache-2.0
// Every function of ops.def on every type that it is expanded for.
#pragma once

#include "ir/ops.h"
#include "ir/target.h"

namespace libtile::test {

inline std::vector<ir::FunctionKey> functionKeys() {
  std::vector<ir::FunctionKey> keys;
  for (unsigned number = 0; number < ir::kNumOpcodes; ++number) {
    const auto opcode = static_cast<ir::Opcode>(number);
    if (!ir::isFunction(opcode)) {
      continue;
    }
    const bool decodes = opcode == ir::Opcode::Float8Decode;
    const bool encodes = opcode == ir::Opcode::Float8Encode;
    for (const ir::Elem elem : {ir::Elem::BF16, ir::Elem::F32, ir::Elem::F64}) {
      if (!decodes && !encodes && elem != ir::Elem::BF16) {
        keys.push_back({opcode, elem});
        if (opcode == ir::Opcode::Exp || opcode == ir::Opcode::Exp2) {
          keys.push_back({.opcode = opcode, .elem = elem, .nonpositive = true});
          keys.push_back({.opcode = opcode, .elem = elem, .nonpositive = true, .scales = true});
        }
      } else if (encodes || (decodes && elem != ir::Elem::F64)) {
        using enum ir::Float8;
        for (const ir::Float8 format : {e5, e4nv, e4b15, e4b8, e5b16}) {
          keys.push_back({opcode, elem, format});
        }
      }
    }
  }
  return keys;
}

} // namespace libtile::test
