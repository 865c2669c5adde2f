// SPDX-License-Identifier: Apache-2.0
// std::random_device of the C++ library that is linked in uses arc4random, which glibc has from 2.36 on.
// With one here, hidden like all that the exports do not name, libtile.so needs glibc 2.34, which Ubuntu
// 22.04 and RHEL 9 have.
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" uint32_t arc4random() noexcept {
  uint32_t value = 0;
  if (getrandom(&value, sizeof value, 0) != sizeof value) {
    std::abort(); // four bytes are never cut short, and every Linux with this glibc has the call
  }
  return value;
}
