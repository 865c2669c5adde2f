// SPDX-License-Identifier: Apache-2.0
// Law of the buffers that wgmma reads by itself: where the layout puts an element is where the descriptor makes
// the unit read it. The unit's addressing is written out here, from its fields alone.
#include "codegen/codegen.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/shared_layouts.h"

#include <gtest/gtest.h>

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

TEST(MatrixBuffers, UnitsSayHowManyWarpsIssue) {
  for (const ir::DotUnit &unit : codegen::findTarget("sm_90a").units) {
    EXPECT_EQ(passes::warpsTogether(unit), unit.name.starts_with("wgmma") ? 4 : 1) << unit.name;
    EXPECT_EQ(passes::readsByItself(unit), unit.name.starts_with("wgmma")) << unit.name;
  }
}

} // namespace
