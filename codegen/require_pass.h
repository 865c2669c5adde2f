// SPDX-License-Identifier: Apache-2.0
// What code generation relies on: a pipeline may leave out the pass that does it.
#pragma once

#include "ir/diagnostic.h"

namespace libtile::codegen {

// Throws UserError, with the pass's name, when `done` is false.
inline void requirePass(bool done, const char *pass) {
  if (!done) [[unlikely]] {
    throw ir::UserError(std::string("code is made of what the pass ") + pass +
                        " leaves; it has been left out");
  }
}

} // namespace libtile::codegen
