// SPDX-License-Identifier: Apache-2.0
// What a launch that lasts asks of whoever made it. Both functions are called in the thread that
// launches, neither may throw, and a launch that returns within microseconds calls none.
#pragma once

namespace libtile::runtime {

struct Caller {
  // Once, as soon as the launch is known to last: the moment to let others run (Python: to release the
  // interpreter's lock). Null: nothing to do.
  void (*lasts)(void *context) = nullptr;
  // After that, some twenty times a second: not 0 ends the launch. Null: never.
  int (*isInterrupted)(void *context) = nullptr;
  void *context = nullptr;
};

} // namespace libtile::runtime
