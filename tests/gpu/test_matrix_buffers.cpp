// SPDX-License-Identifier: Apache-2.0
// Law of the buffers that wgmma reads by itself: where the layout puts an element is where the descriptor makes
// the unit read it. The unit's addressing is written out here, from its fields alone.
#include "codegen/codegen.h"
#include "passes/gpu/fragments.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/shared_layouts.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace libtile;
using ir::Coords;
using ir::Layout;

namespace {

constexpr int32_t kBytes = 2; // of an element that units read along either axis

// The byte that the unit reads for the element `fast`, `slow` of a part: rows in groups of eight, `stride` apart;
// blocks of rows `leading` apart; then bits 4.. of the address are exchanged by bits 7...
int32_t readAt(const passes::MatrixWalk &walk, int32_t fast, int32_t slow, int32_t elementBytes) {
  const int32_t bytes = fast * elementBytes;
  int32_t address = walk.start + slow / 8 * walk.stride + slow % 8 * walk.rowBytes;
  address += walk.leading == 0 ? bytes : bytes / walk.rowBytes * walk.leading + bytes % walk.rowBytes;
  const int32_t bits = walk.rowBytes == 128 ? 7 : walk.rowBytes == 64 ? 3 : 1;
  return address ^ (address >> 7 & bits) << 4;
}

void expectReads(const Layout &buffer, const Coords &first, const Coords &extents, int32_t elementBytes = kBytes) {
  const auto walk = passes::matrixWalk(buffer, first, extents, elementBytes);
  ASSERT_TRUE(walk) << buffer.str() << " at " << first[0] << ", " << first[1];
  EXPECT_EQ(walk->start % 16, 0);
  const ir::LayoutInverse inverse(buffer);
  for (int32_t i = 0; i < extents[0]; ++i) {
    for (int32_t j = 0; j < extents[1]; ++j) {
      const int32_t stored = inverse.offsetOf(Coords{first[0] + i, first[1] + j}) * elementBytes;
      const int32_t read = walk->fastAxis == 0 ? readAt(*walk, i, j, elementBytes) : readAt(*walk, j, i, elementBytes);
      ASSERT_EQ(stored, read) << buffer.str() << " element " << i << ", " << j << " of the part at " << first[0]
                              << ", " << first[1];
    }
  }
}

// Threads that write vectors of 16 bytes along the fast axis, as copies ahead do.
Layout writerOf(std::span<const int32_t> shape, unsigned fast, int32_t warps, int32_t elementBytes = kBytes) {
  const int32_t order[] = {static_cast<int32_t>(fast), static_cast<int32_t>(1 - fast)};
  return Layout::blocked(shape, order, 16 / elementBytes, warps);
}

TEST(MatrixBuffers, HoldElementsWhereTheUnitReadsThem) {
  for (const int32_t depth : {16, 32, 48, 128}) {
    for (const int32_t along : {64, 96, 128, 192}) {
      for (const unsigned fast : {0U, 1U}) {
        for (const int32_t warps : {4, 8}) {
          // As `a`: 64 rows an instruction; as `b`, transposed, what is said to be reached.
          const int32_t shape[] = {along, depth};
          const Layout buffer = passes::matrixLayout(shape, fast, kBytes, std::array{writerOf(shape, fast, warps)});
          EXPECT_TRUE(buffer.covers(shape));
          for (int32_t row = 0; row + 64 <= along; row += 64) {
            for (int32_t k = 0; k < depth; k += 16) {
              expectReads(buffer, {row, k}, {along % 64 == 0 ? 64 : 32, 16});
            }
          }
          if ((along & (along - 1)) == 0) {
            expectReads(buffer, {0, depth - 16}, {along, 16});
          }
        }
      }
    }
  }
}

// Units of other types read 32 bytes of neighbours along k, of 64 rows or of up to 256 columns.
TEST(MatrixBuffers, HoldElementsOfOtherSizesAlongK) {
  for (const int32_t bytes : {1, 4}) {
    const int32_t step = 32 / bytes;
    for (const int32_t steps : {1, 2, 3, 4, 8}) {
      for (const int32_t along : {64, 96, 128, 192, 256}) {
        const int32_t shape[] = {along, steps * step};
        const Layout buffer = passes::matrixLayout(shape, 1, bytes, std::array{writerOf(shape, 1, 4, bytes)});
        EXPECT_TRUE(buffer.covers(shape));
        for (int32_t k = 0; k < steps * step; k += step) {
          for (int32_t row = 0; row + 64 <= along; row += 64) {
            expectReads(buffer, {row, k}, {along % 64 == 0 ? 64 : 32, step}, bytes);
            EXPECT_EQ(passes::matrixWalk(buffer, {row, k}, {64, step}, bytes)->fastAxis, 1U);
          }
          if ((along & (along - 1)) == 0) {
            expectReads(buffer, {0, k}, {along, step}, bytes);
          }
        }
      }
    }
  }
}

TEST(MatrixBuffers, AreWrittenInWholeCopies) {
  for (const int32_t depth : {16, 32, 64, 128}) {
    for (const unsigned fast : {0U, 1U}) {
      const int32_t shape[] = {128, depth};
      const Layout writer = writerOf(shape, fast, 4);
      const Layout buffer = passes::matrixLayout(shape, fast, kBytes, {&writer, 1});
      const passes::BufferAccess access = passes::writeAccess(writer, buffer, kBytes);
      EXPECT_EQ(access.elements, 8) << buffer.str();
      EXPECT_EQ(passes::bankConflicts(writer, buffer, kBytes, access), 0) << buffer.str();
    }
  }
}

TEST(MatrixBuffers, OthersAreRefused) {
  const int32_t shape[] = {64, 64};
  const int32_t order[] = {1, 0};
  EXPECT_FALSE(passes::matrixWalk(passes::bufferLayout(shape, shape, order), {0, 0}, {64, 16}, kBytes));
  // The swizzle of the unit, a unit of 16 bytes further.
  EXPECT_FALSE(passes::matrixWalk(passes::bufferLayout(shape, shape, order, {3, 3, 6, 1}), {0, 0}, {64, 16}, kBytes));
  EXPECT_TRUE(passes::matrixWalk(passes::bufferLayout(shape, shape, order, {3, 3, 6, 0}), {0, 0}, {64, 16}, kBytes));
}

// The row of the tile that a unit's instruction has in each of its 64 rows, as its accumulator says: eight rows of lanes, eight
// rows below, the next warp. Columns are as the instruction has them.
std::vector<int32_t> rowsOf(const ir::DotUnit &unit) {
  const int32_t acc[] = {unit.m, unit.n};
  const Layout sums = passes::accumulatorLayout(unit, acc, {4, 1}, 4);
  std::vector<int32_t> rows(static_cast<size_t>(unit.m), -1);
  for (int32_t warp = 0; warp < 4; ++warp) {
    for (int32_t lane = 0; lane < 32; ++lane) {
      for (int32_t reg = 0; reg < 4; ++reg) {
        const Coords element = sums.apply(reg, lane, warp);
        EXPECT_EQ(element[1], lane % 4 * 2 + reg % 2) << unit.name;
        int32_t &row = rows[static_cast<size_t>(16 * warp + lane / 4 + reg / 2 * 8)];
        EXPECT_TRUE(row == -1 || row == element[0]) << unit.name;
        row = element[0];
      }
    }
  }
  return rows;
}

// Four words of a thread: neighbours along k, eight rows below, the other half of k.
TEST(MatrixBuffers, RegistersHoldTheRowsOfTheSums) {
  for (const ir::DotUnit &unit : codegen::findTarget("sm_90a").units) {
    if (!passes::readsByItself(unit) || unit.a.inShared) {
      continue;
    }
    std::vector<int32_t> rows = rowsOf(unit);
    const int32_t acc[] = {unit.m, unit.n}, perWord = 4 / static_cast<int32_t>(ir::byteSize(unit.a.elem));
    const Layout a = passes::leftLayout(unit, acc, unit.k, {4, 1}, 4);
    for (int32_t warp = 0; warp < 4; ++warp) {
      for (int32_t lane = 0; lane < 32; ++lane) {
        for (int32_t reg = 0; reg < 4 * perWord; ++reg) {
          const Coords element = a.apply(reg, lane, warp);
          const int32_t word = reg / perWord;
          EXPECT_EQ(element[0], rows[static_cast<size_t>(16 * warp + lane / 4 + word % 2 * 8)]) << unit.name;
          EXPECT_EQ(element[1], lane % 4 * perWord + reg % perWord + word / 2 * 4 * perWord) << unit.name;
        }
      }
    }
    std::ranges::sort(rows);
    for (int32_t row = 0; row < unit.m; ++row) {
      EXPECT_EQ(rows[static_cast<size_t>(row)], row) << unit.name;
    }
  }
}

// What threads read of it lies along the rows of a: two of them at once. Of bytes the words of a pair of rows of k that lie 8
// apart are in the same banks.
TEST(MatrixBuffers, ThreadsReadRowsInFewParts) {
  for (const ir::DotUnit &unit : codegen::findTarget("sm_90a").units) {
    if (!passes::readsByItself(unit) || unit.a.inShared || !unit.b.alongK) {
      continue;
    }
    const auto bytes = static_cast<int32_t>(ir::byteSize(unit.a.elem));
    for (const int32_t m : {64, 128, 192, 256}) {
      for (const int32_t k : {unit.k, 2 * unit.k, 4 * unit.k}) {
        for (const int32_t warps : {4, 8}) {
          const int32_t acc[] = {m, 128}, shape[] = {m, k};
          const passes::WarpGrid grid = m % 128 == 0 ? passes::WarpGrid{warps, 1} : passes::WarpGrid{4, warps / 4};
          const Layout held = passes::leftLayout(unit, acc, k, grid, warps);
          const Layout buffer = passes::matrixLayout(shape, 0, bytes, std::array{held, writerOf(shape, 0, warps, bytes)});
          const passes::BufferAccess access = passes::readAccess(held, buffer, bytes, codegen::findTarget("sm_90a").sharedReads);
          EXPECT_EQ(access.elements, 2) << buffer.str();
          EXPECT_EQ(passes::bankConflicts(held, buffer, bytes, access), bytes == 1 ? 1 : 0) << held.str() << buffer.str();
        }
      }
    }
  }
}

TEST(MatrixBuffers, UnitsSayHowManyWarpsIssue) {
  for (const ir::DotUnit &unit : codegen::findTarget("sm_90a").units) {
    EXPECT_EQ(passes::warpsTogether(unit), unit.name.starts_with("wgmma") ? 4 : 1) << unit.name;
    EXPECT_EQ(passes::readsByItself(unit), unit.name.starts_with("wgmma")) << unit.name;
  }
}

} // namespace
