// SPDX-License-Identifier: Apache-2.0
// How a dot becomes a `contract`: the shapes of its scratch buffers and of its register blocks.
//
// What the emitter of `contract a, b, acc, k` may rely on (form_nests makes it so):
//   acc  <Mp x Np>, row-major. Mp is a multiple of block_m, Np of block_n; block_n is a multiple of
//        the rule's lanes. Rows and columns of padding may be computed and written freely.
//   a    <Mp x Ka>: row m, column kk; Ka >= k, more than k is padding against rows that fall on the
//        same cache sets, and may be read up to the end of a cache line. With `pairs` k is even and an
//        odd reduction has a zero column.
//   b    <Kb x Nb> of `packed`, or with `pairs` <Kb/2 x Nb> of i32 words: element (kk, n) is the low
//        half of word [kk/2, n] for even kk, the high half for odd ones (so nests write whole words).
//        Nb >= Np, the rest is padding against cache-set conflicts, never read.
//   k    i32 scalar, 0 <= k <= min(Ka, Kb), even with `pairs`. It may be known only at run time.
// Elements of a and b inside Mp, Np and k are initialised; rows and columns of padding hold zeros, or in
// acc what they sum up to.
// Element types are those of one ContractRule: a (and b without pairs) `packed`, acc `accumulator`;
// the three buffers do not overlap. Buffers start at multiples of 64 bytes.
//
// The register block: block_m rows times block_n / lanes vectors of accumulators stay in registers
// for the whole of k, beside one row of b's vectors, a broadcast of a and, where multiplying and
// adding are two instructions, a product. The shape with the most
// multiply-adds for each load that fits the registers wins, unless padding M or N costs more.
#pragma once

#include "ir/target.h"

#include <cstdint>
#include <optional>

namespace libtile::passes {

struct ContractShape {
  ir::ContractRule rule;
  int32_t m = 0, n = 0;                // of the dot
  int32_t paddedM = 0, paddedN = 0;    // of acc, and the rows of a
  int32_t blockM = 0, blockN = 0;
  // Extents of the packed buffers for a reduction over k elements (rounded up to even with pairs).
  [[nodiscard]] int32_t packedK(int32_t k) const { return rule.pairs ? (k + 1) / 2 * 2 : k; }
  [[nodiscard]] int32_t rowA(int32_t k) const;
  [[nodiscard]] int32_t rowB() const;
};

// nullopt: the target has no rule for these types, the dot goes through plain nests.
[[nodiscard]] std::optional<ContractShape> contractShape(const ir::Target &target, ir::Elem operand,
                                                         ir::Elem accumulator, int32_t m,
                                                         int32_t n);
// Iterations of a k loop with a step of `k` that one contract should take together.
[[nodiscard]] int32_t iterationsPerChunk(const ir::Target &target, const ContractShape &shape,
                                         int32_t k);

} // namespace libtile::passes
