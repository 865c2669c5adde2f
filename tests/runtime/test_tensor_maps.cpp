// SPDX-License-Identifier: Apache-2.0
// What the driver is asked for when a launch describes its arrays: by a driver that only writes it down.
#include "runtime/drivers/tensor_maps.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

using namespace libtile;
using runtime::TensorMapDescriptor;

namespace {

struct Asked {
  int count = 0, type = 0, interleave = 0, swizzle = 0, promotion = 0, fill = 0;
  uint64_t base = 0;
  std::vector<uint64_t> extents, strides;
  std::vector<uint32_t> box, each;
  bool aligned = false;
  int answer = 0;
};
thread_local Asked asked;

int write(void *made, int type, unsigned rank, void *base, const uint64_t *extents, const uint64_t *strides,
          const uint32_t *box, const uint32_t *each, int interleave, int swizzle, int promotion, int fill) {
  asked = {asked.count + 1, type, interleave, swizzle, promotion, fill, reinterpret_cast<uint64_t>(base),
           {extents, extents + rank}, {strides, strides + rank - 1}, {box, box + rank}, {each, each + rank},
           reinterpret_cast<uint64_t>(made) % 64 == 0, asked.answer};
  std::memset(made, static_cast<int>(reinterpret_cast<uint64_t>(base) >> 8), 128);
  return asked.answer;
}

// An array a[batch][m][k] of 16-bit numbers: arguments a, m, k, stride of a row, of a batch.
ir::TensorMap batches() {
  ir::TensorMap map;
  map.param = 0;
  map.elem = ir::Elem::BF16;
  map.dims = {{{int64_t{1} << 31, -1}, {2, 4}, 1}, {{1, 1}, {2, 3}, 128}, {{1, 2}, {2, -1}, 64}};
  return map;
}
constexpr uint64_t kArguments[] = {0x7000, 1000, 777, 800, 800000};

TEST(TensorMaps, SayWhatIsAdded) {
  ir::TensorMap map = batches();
  map.elem = ir::Elem::F32;
  map.dims[1].stride.factor = 4;
  map.dims[2] = {{1, 2}, {4, -1}, 32};
  TensorMapDescriptor made;
  ASSERT_EQ(runtime::makeTensorMap(write, map, kArguments, made), 0);
  EXPECT_EQ(asked.type, 7); // f32
  // Another type of the same size is another map.
  map.elem = ir::Elem::I32;
  ASSERT_EQ(runtime::makeTensorMap(write, map, kArguments, made), 0);
  EXPECT_EQ(asked.type, 2);
}

TEST(TensorMaps, AreAskedForFastestFirst) {
  asked = {};
  TensorMapDescriptor made;
  ASSERT_EQ(runtime::makeTensorMap(write, batches(), kArguments, made), 0);
  EXPECT_EQ(asked.base, 0x7000U);
  EXPECT_EQ(asked.type, 1); // 16-bit integers
  EXPECT_EQ(asked.extents, (std::vector<uint64_t>{777, 1000, uint64_t{1} << 31}));
  EXPECT_EQ(asked.strides, (std::vector<uint64_t>{1600, 1600000}));
  EXPECT_EQ(asked.box, (std::vector<uint32_t>{64, 128, 1}));
  EXPECT_EQ(asked.each, (std::vector<uint32_t>{1, 1, 1}));
  EXPECT_EQ(asked.swizzle, 3); // rows of 128 bytes
  EXPECT_EQ(asked.interleave, 0);
  EXPECT_EQ(asked.fill, 0); // zeros
  EXPECT_TRUE(asked.aligned);
  EXPECT_EQ(made.words[15], 0x7070707070707070U);
}

TEST(TensorMaps, TypesAndSwizzlesFollowTheRow) {
  struct Row {
    ir::Elem elem;
    int32_t box;
    int type, swizzle;
  };
  for (const Row &row : {Row{ir::Elem::I8, 128, 0, 3}, Row{ir::Elem::F16, 32, 1, 2}, Row{ir::Elem::F32, 8, 7, 1},
                         Row{ir::Elem::F64, 16, 4, 3}, Row{ir::Elem::I64, 8, 4, 2}, Row{ir::Elem::I32, 32, 2, 3}}) {
    asked = {};
    ir::TensorMap map = batches();
    map.elem = row.elem;
    map.dims.back() = {{1, 2}, {static_cast<int64_t>(ir::byteSize(row.elem)), -1}, row.box};
    TensorMapDescriptor made;
    ASSERT_EQ(runtime::makeTensorMap(write, map, kArguments, made), 0);
    EXPECT_EQ(asked.type, row.type);
    EXPECT_EQ(asked.swizzle, row.swizzle);
  }
}

TEST(TensorMaps, AreMadeOnceForTheirValues) {
  asked = {};
  const ir::TensorMap map = batches();
  std::vector<uint64_t> arguments(std::begin(kArguments), std::end(kArguments));
  arguments[0] = 0x123400;
  TensorMapDescriptor made;
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(runtime::makeTensorMap(write, map, arguments.data(), made), 0);
  }
  EXPECT_EQ(asked.count, 1);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const int before = asked.count;
    arguments[i] += i == 0 ? 4096 : 16;
    ASSERT_EQ(runtime::makeTensorMap(write, map, arguments.data(), made), 0);
    EXPECT_EQ(asked.count, before + 1) << "argument " << i;
    EXPECT_EQ(made.words[0] & 0xFF, arguments[0] >> 8 & 0xFF);
  }
  ir::TensorMap other = map;
  other.dims[1].box = 64;
  const int before = asked.count;
  ASSERT_EQ(runtime::makeTensorMap(write, other, arguments.data(), made), 0);
  EXPECT_EQ(asked.count, before + 1);
  EXPECT_EQ(asked.box[1], 64U);
}

TEST(TensorMaps, ARefusalIsNotKept) {
  asked = {};
  asked.answer = 1;
  const uint64_t arguments[] = {0x9900, 10, 20, 30, 40};
  TensorMapDescriptor made;
  EXPECT_EQ(runtime::makeTensorMap(write, batches(), arguments, made), 1);
  EXPECT_EQ(runtime::makeTensorMap(write, batches(), arguments, made), 1);
  EXPECT_EQ(asked.count, 2);
  asked.answer = 0;
  EXPECT_EQ(runtime::makeTensorMap(write, batches(), arguments, made), 0);
  EXPECT_EQ(asked.count, 3);
}

// Each thread keeps its own.
TEST(TensorMaps, ThreadsDoNotMeet) {
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([thread] {
      asked = {};
      for (uint64_t i = 0; i < 2000; ++i) {
        const uint64_t arguments[] = {(thread << 16) | (i % 40 << 8), 10, 20, 16 * (i % 40 + 1), 48};
        TensorMapDescriptor made;
        ASSERT_EQ(runtime::makeTensorMap(write, batches(), arguments, made), 0);
        ASSERT_EQ(made.words[7] & 0xFF, i % 40);
      }
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
}

} // namespace
