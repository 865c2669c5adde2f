// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace libtile::test {

struct Options {
  uint64_t count = 4000;
  uint64_t seed = 1;
};
Options &options();

} // namespace libtile::test
