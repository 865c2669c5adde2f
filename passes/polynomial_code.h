// SPDX-License-Identifier: Apache-2.0
// Code that computes a polynomial (analysis/polynomial.h).
#pragma once

#include "ir/builder.h"
#include "passes/analysis/polynomial.h"

#include <llvm/ADT/STLFunctionalExtras.h>

namespace libtile::passes {

// The polynomial's number as an i64, modulo 2^64, where the builder stands. `mapped` gives the value that stands for a
// symbol there, an i32 or i64.
[[nodiscard]] ir::ValueId makeNumber(ir::Builder &builder, const Polynomial &polynomial,
                                     llvm::function_ref<ir::ValueId(ir::ValueId)> mapped);

} // namespace libtile::passes
