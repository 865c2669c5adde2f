// SPDX-License-Identifier: Apache-2.0
// Runs the dots of avx512bf16 on machines with AVX-512 that lack them: vdpbf16ps, vpdpwssd and vpdpbusd
// are done by a handler of SIGILL, on the registers of the code that it interrupts. So the very code of that
// target is tested, its subnormal numbers too, and tests can count how often the flushing unit was taken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace libtile::test {

// One lane of vdpbf16ps (Intel, Software Developer's Manual, volume 2): the products of the upper and then
// of the lower halves are added to `sum`, each rounded to nearest even; subnormal operands, sums and results
// are 0.
[[nodiscard]] float dotBf16(float sum, uint32_t a, uint32_t b);

// While one lives, missing dots are done by the handler.
class DotTrap {
public:
  DotTrap();
  ~DotTrap();
  DotTrap(const DotTrap &) = delete;
  DotTrap &operator=(const DotTrap &) = delete;

  // This machine has all that avx512bf16 asks for but its dots.
  [[nodiscard]] static bool needed();
  // vdpbf16ps done by handlers so far.
  [[nodiscard]] static uint64_t count();
};

// The targets on which a test of dots runs: runnableTargets(), and avx512bf16 where a DotTrap serves.
[[nodiscard]] std::vector<std::string> dotTargets();

} // namespace libtile::test
