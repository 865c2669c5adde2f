// SPDX-License-Identifier: Apache-2.0
// Law of the buffers that boxes are copied into: where the layout puts an element is where the machine writes it.
// Its addressing is written out here.
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/plan_boxes.h"
#include "passes/gpu/shared_layouts.h"

#include <gtest/gtest.h>

using namespace libtile;
using ir::Coords;
using ir::Layout;

namespace {

// Rows one behind the other from `start` on; then bits 4.. of the address are exchanged by bits 7...
int32_t writtenAt(int32_t start, int32_t slow, int32_t byteInRow, int32_t rowBytes) {
  const int32_t address = start + slow * rowBytes + byteInRow;
  const int32_t bits = rowBytes == 128 ? 7 : rowBytes == 64 ? 3 : 1;
  return address ^ (address >> 7 & bits) << 4;
}

void expectWrites(const std::vector<int32_t> &shape, unsigned fastAxis, int32_t bytes) {
  const int32_t order[] = {static_cast<int32_t>(fastAxis), static_cast<int32_t>(1 - fastAxis)};
  const Layout writer = Layout::blocked(shape, order, std::max(1, 16 / bytes), 4);
  const Layout buffer = passes::matrixLayout(shape, fastAxis, bytes, writer);
  const auto boxes = passes::boxParts(buffer, shape, bytes);
  ASSERT_TRUE(boxes) << buffer.str();
  EXPECT_EQ(boxes->fastAxis, fastAxis);
  const int32_t rowBytes = boxes->fast * bytes;
  EXPECT_TRUE(rowBytes == 32 || rowBytes == 64 || rowBytes == 128) << rowBytes;
  EXPECT_LE(boxes->slow, 256);
  const ir::LayoutInverse inverse(buffer);
  int64_t seen = 0;
  for (const passes::BoxParts::Part &part : boxes->parts) {
    EXPECT_EQ(part.byte % 128, 0);
    EXPECT_LE(part.byte + rowBytes * boxes->slow, buffer.size(ir::HwDim::Offset) * bytes);
    for (int32_t slow = 0; slow < boxes->slow; ++slow) {
      for (int32_t fast = 0; fast < boxes->fast; ++fast) {
        Coords at = part.first;
        at[fastAxis] += fast;
        at[1 - fastAxis] += slow;
        if (at[0] >= shape[0] || at[1] >= shape[1]) {
          continue; // padding
        }
        ++seen;
        ASSERT_EQ(inverse.offsetOf(at) * bytes, writtenAt(part.byte, slow, fast * bytes, rowBytes))
            << buffer.str() << " element " << at[0] << ", " << at[1];
      }
    }
  }
  EXPECT_EQ(seen, int64_t{shape[0]} * shape[1]) << buffer.str();
}

TEST(Boxes, AreWrittenWhereTheLayoutPutsElements) {
  for (const int32_t bytes : {1, 2, 4, 8}) {
    for (const int32_t rows : {16, 40, 64, 96, 128, 192, 256, 512}) {
      for (const int32_t depth : {16, 32, 48, 64, 128}) {
        for (const unsigned fastAxis : {0U, 1U}) {
          expectWrites({rows, depth}, fastAxis, bytes);
        }
      }
    }
  }
}

TEST(Boxes, OtherBuffersHaveNone) {
  const int32_t shape[] = {64, 64}, order[] = {1, 0};
  EXPECT_FALSE(passes::boxParts(passes::bufferLayout(shape, shape, order), shape, 2));
  EXPECT_FALSE(passes::boxParts(passes::bufferLayout(shape, shape, order, {3, 3, 6, 1}), shape, 2));
}

} // namespace
