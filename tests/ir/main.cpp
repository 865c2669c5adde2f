// SPDX-License-Identifier: Apache-2.0
// GoogleTest's options and: --count N  mutations of the fuzz tests (default 4000), --seed N.
#include "tests/ir/options.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

libtile::test::Options &libtile::test::options() {
  static Options options;
  return options;
}

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--count") == 0) {
      libtile::test::options().count = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (std::strcmp(argv[i], "--seed") == 0) {
      libtile::test::options().seed = std::strtoull(argv[i + 1], nullptr, 10);
    }
  }
  return RUN_ALL_TESTS();
}
