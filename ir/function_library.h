// SPDX-License-Identifier: Apache-2.0
// Bodies for elementary functions that a target has no instruction for. Passes inline them
// (expand_functions.h) and do not know where they come from: the runtime has them from the prelude.
#pragma once

#include "ir/function.h"
#include "ir/target.h"

namespace libtile::ir {

class FunctionLibrary {
public:
  FunctionLibrary() = default;
  virtual ~FunctionLibrary() = default;
  FunctionLibrary(const FunctionLibrary &) = delete;
  FunctionLibrary &operator=(const FunctionLibrary &) = delete;

  // The op on scalars: one parameter an operand, straight-line code of constants and elementwise ops,
  // and a `yield` of the result at the end. It may use other functions. nullptr: there is none. Lives
  // as long as the library; any thread may ask.
  [[nodiscard]] virtual const Function *body(const FunctionKey &wanted) = 0;
};

} // namespace libtile::ir
