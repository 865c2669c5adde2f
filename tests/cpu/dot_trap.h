// SPDX-License-Identifier: Apache-2.0
// Runs the dots of avx512bf16 and of amx on machines with AVX-512 that lack them: vdpbf16ps, vpdpwssd and
// vpdpbusd, and all of AMX that contracts use, are done by a handler of SIGILL, on the registers of the code that
// it interrupts and on tiles of the handler's own. So the very code of these targets is tested, its subnormal
// numbers too, and tests can count how often a flushing unit was taken.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace libtile::test {

// One lane of vdpbf16ps (Intel, Software Developer's Manual, volume 2): the products of the upper and then
// of the lower halves are added to `sum`, each rounded to nearest even; subnormal operands, sums and results
// are 0.
[[nodiscard]] float dotBf16(float sum, uint32_t a, uint32_t b);

// An element of tdpbf16ps (same place): the products of the lower halves are added up from 0, and those of the
// upper ones, then both sums to each other, and that to `sum`. It rounds and flushes as vdpbf16ps does.
[[nodiscard]] float dotTileBf16(float sum, std::span<const uint32_t> a, std::span<const uint32_t> b);

// While one lives, missing dots are done by the handler.
class DotTrap {
public:
  DotTrap();
  ~DotTrap();
  DotTrap(const DotTrap &) = delete;
  DotTrap &operator=(const DotTrap &) = delete;

  // This machine has all that the target asks for but its dots.
  [[nodiscard]] static bool serves(const std::string &target);
  // vdpbf16ps and tdpbf16ps done by handlers so far.
  [[nodiscard]] static uint64_t count();
};

// The targets on which a test of dots runs: runnableTargets(), and those that a DotTrap serves.
[[nodiscard]] std::vector<std::string> dotTargets();

} // namespace libtile::test
