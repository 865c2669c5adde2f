// SPDX-License-Identifier: Apache-2.0
// How a dot becomes a `contract`: the shapes of its scratch buffers and of its register blocks.
//
// What the emitter of `contract a, b, acc, k` may rely on (form_nests makes it so):
//   acc  <Mp x Np>, row-major. Mp is whole blocks of rows (RowBlocks), Np a multiple of block_n; block_n is a multiple of
//        the unit's lanes. Rows and columns of padding may be computed and written freely.
//   a    <Mp x Ka> of `packed`: row m, column kk, each number with what the unit packs of its bias added to it, as bits;
//        Ka >= k, more than k is padding against rows that fall on the same cache sets, and may be read
//        up to the end of a cache line.
//   b    <Kb x Nb> of `packed`, or with a group g > 1 <Kb/g x Nb> of i32 words: element (kk, n) is the
//        part kk % g, counted from the low bits, of word [kk/g, n] (so nests write whole words).
//        Nb >= Np, the rest is padding against cache-set conflicts, never read.
//   k    i32 scalar, 0 <= k <= min(Ka, Kb), a multiple of the group, or of the words that a unit of tiles
//        takes. It may be known only at run time.
//   rows none, or <Mp> addresses as i64, and the i32 `direct`, 0 <= direct <= k: the first `direct` numbers of a row of a
//        lie at its address, of `packed`; the buffer has room for them. direct is a whole number of vectors; no tiles, no packed bias.
//   ahead none, or <Mp> addresses as i64, and the i1 `soon`: rows of elements of ahead_bytes that are stored soon (sums_ahead.h).
//   findings none, or three tables of i32 about tiny numbers (codegen/cpu/tiny_numbers.h), each with an i1. What is not known is found out
//        and written. <2 x 3> of a and <2 x 2 + Np/lanes> of b, if they are those of this op for the same numbers: for what is read in
//        place, then for what is packed, how many steps along k, up to which row or column, and the least exponent fields, of a's
//        rows together and from each vector of columns on. <Np/lanes> of the sums, if acc is as this op left it: not 0 where the
//        block that begins at a vector of columns had nothing to flush.
//   empty i1: acc holds nothing yet. All of it is written without being read, unless k is 0.
//   ends none, or the i32 rows and columns of acc that are needed (bound_nests.h): blocks that begin behind them (rows by RowBlocks::both)
//        are left out, and vectors of the last columns.
// Elements of a and b inside Mp, Np and k are initialised, those of blocks that are left out apart. Padding holds zeros: rows of a, columns of b, and
// in both what an extent along k lacks to such a multiple; acc's holds what they sum up to.
// Element types are those of one ContractUnit, which the op names; the three buffers do not overlap. Buffers
// start at multiples of 64 bytes.
//
// The register block: block_m rows times block_n / lanes vectors of accumulators stay in registers
// for the whole of k, beside one row of b's vectors, a broadcast of a and the unit's temporaries. The shape
// with the most multiply-adds for each load that fits the registers wins, unless padding N, or rows that are no whole blocks, costs more.
// In a unit of tiles each accumulator, each vector of b and each broadcast of a is a tile, of `rows` rows.
#pragma once

#include "ir/function.h"
#include "ir/target.h"

#include <array>
#include <cstdint>
#include <optional>

namespace libtile::passes {

// Blocks of rows: up to `whole` of block_m rows, and of `rest`, fewer, behind that; so tiles of a power of two rows have
// blocks of 6. `whole` is a multiple of `both`, that of block_m and of rest. Without a rest it is all rows.
struct RowBlocks {
  int32_t whole, rest, both;
};
// nullopt: rows are not whole blocks.
[[nodiscard]] std::optional<RowBlocks> rowBlocks(const ir::ContractUnit &unit, int32_t rows, int32_t blockM);

struct ContractShape {
  ir::ContractUnit unit;
  int32_t m = 0, n = 0;                // of the dot
  int32_t paddedM = 0, paddedN = 0;    // of acc, and the rows of a
  int32_t blockM = 0, blockN = 0;
  bool transposesA = false, transposesB = false; // packed by transpose_words
  std::string fallback;                // which unit was withheld, and why; empty: none
  // Extents of the packed buffers for a reduction over k elements, rounded up to what the unit takes.
  [[nodiscard]] int32_t packedK(int32_t k) const {
    return (k + unit.stepK() - 1) / unit.stepK() * unit.stepK();
  }
  [[nodiscard]] int32_t rowA(int32_t k) const;
  [[nodiscard]] int32_t rowB() const;
};

// Extents of the scratch copies of a and b for reductions over `columns` elements, whole steps of the unit.
struct PackedShapes {
  std::array<int32_t, 2> a, b;
  ir::Elem elemB;
};
[[nodiscard]] PackedShapes packedShapes(const ContractShape &shape, int32_t columns);

// What a text decides (plan_pins.h); empty or 0: nothing.
struct ContractPins {
  std::string_view unit;
  int64_t blockM = 0, blockN = 0;
  [[nodiscard]] bool any() const { return !unit.empty() || blockM != 0 || blockN != 0; }
};
// By the first unit that fits and is not withheld, with the block that costs least; of those that are pinned. nullopt: the
// target has none, the dot goes through plain nests.
[[nodiscard]] std::optional<ContractShape> contractShape(const ir::Target &target, ir::Elem operand,
                                                         ir::Elem accumulator, int32_t m,
                                                         int32_t n, const ContractPins &pins);
// Iterations of a k loop with a step of `k` that one contract should take together.
[[nodiscard]] int32_t iterationsPerChunk(const ir::Target &target, const ContractShape &shape,
                                         int32_t k);
// Where a contract has, among its operands, the addresses of rows that it reads in place, and of those that it asks for ahead; nullopt:
// it has none.
[[nodiscard]] std::optional<unsigned> rowsInPlaceOf(const ir::Function &fn, ir::OpId contract);
[[nodiscard]] std::optional<unsigned> rowsAheadOf(const ir::Function &fn, ir::OpId contract);
// Likewise where it has its findings: of a, b and the sums.
[[nodiscard]] std::optional<unsigned> findingsOf(const ir::Function &fn, ir::OpId contract);
constexpr int32_t kContractTurns = 2; // what is read in place, and what is packed
constexpr int32_t kFindingsHead = 2;  // numbers of findings in front of the fields
// Where its ends are: behind all of these.
[[nodiscard]] unsigned firstEndOf(const ir::Function &fn, ir::OpId contract);
// The unit that a contract names, for buffers and blocks that fit it; else a UserError at the op.
[[nodiscard]] const ir::ContractUnit &contractUnitOf(const ir::Function &fn, ir::OpId contract,
                                                     const ir::Target &target);

} // namespace libtile::passes
