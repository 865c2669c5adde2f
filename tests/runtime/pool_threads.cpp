// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/pool_jobs.h"

namespace libtile::runtime {

void useThreads(int threads) { setPoolThreads(threads); }

} // namespace libtile::runtime
