// SPDX-License-Identifier: Apache-2.0
// Places buffers in one arena: lifetimes in, offsets out. One module for the CPU's scratch and the
// GPU's shared memory; what a lifetime is, is the caller's business.
//
// The largest buffers are placed first, each at the lowest offset that is free during its whole
// lifetime (best-fit gaps give little here: kernels have few buffers, and the large ones decide).
// The result depends on the input only, ties go by position in the list.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace libtile::passes {

// The buffer holds data from moment `start` to moment `end`, both included. Moments are any numbers
// that grow along the program.
struct Lifetime {
  int64_t start = 0;
  int64_t end = 0;
  int64_t bytes = 0;
  int64_t align = 64; // a power of two
};

struct ArenaPlan {
  std::vector<int64_t> offsets; // one for each lifetime, aligned as asked
  int64_t bytes = 0;            // of the arena
};

// Ensures: two buffers whose lifetimes share a moment share no byte. A buffer of 0 bytes gets 0.
[[nodiscard]] ArenaPlan allocateArena(std::span<const Lifetime> lifetimes);

} // namespace libtile::passes
