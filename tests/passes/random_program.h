// SPDX-License-Identifier: Apache-2.0
// Random valid tile-stage functions for tests of passes: integer and float arithmetic on scalars
// and tiles, shape ops, casts, masks, loads, stores, loops with carried tiles, ifs. What they
// compute is stored, so that evaluate.h can tell two versions apart.
#pragma once

#include "ir/builder.h"
#include "tests/passes/evaluate.h"

#include <random>

namespace libtile::test {

struct RandomProgram {
  ir::Function fn{"random"};
  std::vector<Element> arguments;
  Machine machine;
};

struct RandomOptions {
  unsigned ops = 30;
  // Numbers stay small, so that hardly any index wraps; what addresses are made of.
  bool indexLike = false;
  // Stores on the way, over what is loaded before and after them.
  bool stores = false;
};

[[nodiscard]] RandomProgram randomProgram(uint64_t seed, RandomOptions options = {});

} // namespace libtile::test
