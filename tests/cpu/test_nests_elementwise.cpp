// SPDX-License-Identifier: Apache-2.0
// Tile kernels from text to results: element-by-element code, memory order, shape ops.
#include "tests/cpu/nests_fixture.h"

namespace libtile::test {

namespace {

LIBTILE_NEST_TESTS(Nests);

const char *const kAdd = R"(
func @add stage=tile warps=4 stages=3 (%x: ptr<ELEM>, %y: ptr<ELEM>, %o: ptr<ELEM>, %n: i32)GUARDS {
  %pid = program_id {axis=0} : i32
  %block = constant {value=BLOCK} : i32
  %start = mul %pid, %block : i32
  %range = arange {start=0} : tile<BLOCKxi32>
  %starts = splat %start : tile<BLOCKxi32>
  %i = add %starts, %range : tile<BLOCKxi32>
  %ns = splat %n : tile<BLOCKxi32>
  %mask = cmp %i, %ns {predicate=slt} : tile<BLOCKxi1>
  %xs = splat %x : tile<BLOCKxptr<ELEM>>
  %xp = ptr_add %xs, %i : tile<BLOCKxptr<ELEM>>
  %a = load %xp, %mask : tile<BLOCKxELEM>
  %ys = splat %y : tile<BLOCKxptr<ELEM>>
  %yp = ptr_add %ys, %i : tile<BLOCKxptr<ELEM>>
  %b = load %yp, %mask : tile<BLOCKxELEM>
  %sum = add %a, %b : tile<BLOCKxELEM>
  %os = splat %o : tile<BLOCKxptr<ELEM>>
  %op = ptr_add %os, %i : tile<BLOCKxptr<ELEM>>
  store %op, %sum, %mask
  return
}
)";

template <class T> void checkAdd(const std::string &target, const char *elem) {
  for (int block : {1, 5, 16, 96, 1000, 1024}) {
    for (int n : {1, 15, 17, 1000, 1500}) {
      for (const char *guards : {"", "\n  guard disjoint %x %o\n  guard disjoint %y %o"}) {
        TileKernel kernel(fill(kAdd, {{"GUARDS", guards}, {"ELEM", elem}, {"BLOCK", std::to_string(block)}}),
                          target);
        std::vector<T> x(n), y(n), o(n + 64, T(77));
        for (int i = 0; i < n; ++i) {
          x[i] = T(i % 50);
          y[i] = T(3 * i % 41);
        }
        kernel.run({pointer(x.data()), pointer(y.data()), pointer(o.data()), slot(n)},
                   {(n + block - 1) / block});
        for (int i = 0; i < n + 64; ++i) {
          ASSERT_EQ(o[i], i < n ? T(x[i] + y[i]) : T(77)) << elem << " block " << block << " at " << i;
        }
      }
    }
  }
}

TEST_P(Nests, AddAllTypes) {
  checkAdd<float>(GetParam(), "f32");
  checkAdd<double>(GetParam(), "f64");
  checkAdd<int8_t>(GetParam(), "i8");
  checkAdd<int16_t>(GetParam(), "i16");
  checkAdd<int32_t>(GetParam(), "i32");
  checkAdd<int64_t>(GetParam(), "i64");
}

// Every element is read before the first is written, however far the ranges overlap.
TEST_P(Nests, ShiftInPlace) {
  const int n = 1000;
  for (int shift : {-17, -1, 0, 1, 3, 16, 40}) {
    TileKernel kernel(fill(kAdd, {{"GUARDS", ""}, {"ELEM", "f32"}, {"BLOCK", "1024"}}), GetParam());
    std::vector<float> data = randomFloats(n + 128, 5), y = randomFloats(n, 6);
    std::vector<float> expected = data;
    for (int i = 0; i < n; ++i) {
      expected[64 + shift + i] = data[64 + i] + y[i];
    }
    kernel.run({pointer(data.data() + 64), pointer(y.data()), pointer(data.data() + 64 + shift), slot(n)});
    EXPECT_EQ(data, expected) << shift;
  }
}

// One base pointer: load p + i, store p + i + SHIFT. With a stride of 0 all elements hit one place.
TEST_P(Nests, OneBasePointer) {
  const char *text = R"(
func @shift stage=tile warps=4 stages=3 (%p: ptr<i32>) {
  %i = arange {start=0} : tile<100xi32>
  %step = constant {value=STEP} : tile<100xi32>
  %j = mul %i, %step : tile<100xi32>
  %ps = splat %p : tile<100xptr<i32>>
  %from = ptr_add %ps, %j : tile<100xptr<i32>>
  %x = load %from : tile<100xi32>
  %one = constant {value=1} : tile<100xi32>
  %y = add %x, %one : tile<100xi32>
  %by = constant {value=SHIFT} : tile<100xi32>
  %to = ptr_add %from, %by : tile<100xptr<i32>>
  store %to, %y
  return
}
)";
  for (int step : {0, 1, 2}) {
    for (int shift : {0, 1, 2, 7}) {
      TileKernel kernel(fill(text, {{"STEP", std::to_string(step)}, {"SHIFT", std::to_string(shift)}}),
                        GetParam());
      std::vector<int32_t> data(300), expected;
      for (int i = 0; i < 300; ++i) {
        data[i] = i * i;
      }
      expected = data;
      for (int i = 0; i < 100; ++i) {
        expected[i * step + shift] = data[i * step] + 1;
      }
      kernel.run({pointer(data.data())});
      EXPECT_EQ(data, expected) << step << " " << shift;
    }
  }
}

// A load before a store, used after it.
TEST_P(Nests, LoadSurvivesStore) {
  const char *text = R"(
func @swap stage=tile warps=4 stages=3 (%p: ptr<f32>, %q: ptr<f32>) {
  %i = arange {start=0} : tile<77xi32>
  %ps = splat %p : tile<77xptr<f32>>
  %pp = ptr_add %ps, %i : tile<77xptr<f32>>
  %qs = splat %q : tile<77xptr<f32>>
  %qp = ptr_add %qs, %i : tile<77xptr<f32>>
  %a = load %pp : tile<77xf32>
  %b = load %qp : tile<77xf32>
  %c = add %b, %b : tile<77xf32>
  store %pp, %c
  store %qp, %a
  return
}
)";
  std::vector<float> p = randomFloats(77, 1), q = randomFloats(77, 2);
  std::vector<float> newP, newQ = p;
  for (float value : q) {
    newP.push_back(2 * value);
  }
  TileKernel kernel(text, GetParam());
  kernel.run({pointer(p.data()), pointer(q.data())});
  EXPECT_EQ(p, newP);
  EXPECT_EQ(q, newQ);
}

// o[j, i] = x[i, j] through trans, reshape and broadcast; the flat index of each element comes along.
TEST_P(Nests, ShapeChain) {
  const char *text = R"(
func @shapes stage=tile warps=4 stages=3 (%x: ptr<i32>, %o: ptr<i32>) {
  %i = arange {start=0} : tile<FLATxi32>
  %xs = splat %x : tile<FLATxptr<i32>>
  %xp = ptr_add %xs, %i : tile<FLATxptr<i32>>
  %flat = load %xp : tile<FLATxi32>
  %t = reshape %flat : tile<MxNxi32>
  %tt = trans %t {order=[1, 0]} : tile<NxMxi32>
  %r = reshape %tt : tile<FLATxi32>
  %row = arange {start=100} : tile<Mxi32>
  %row1 = expand_dims %row {axis=0} : tile<1xMxi32>
  %rows = broadcast %row1 : tile<NxMxi32>
  %rr = reshape %rows : tile<FLATxi32>
  %sum = add %r, %rr : tile<FLATxi32>
  %cube = reshape %sum : tile<Nx1xMxi32>
  %turn = trans %cube {order=[2, 0, 1]} : tile<MxNx1xi32>
  %back = reshape %turn : tile<FLATxi32>
  %os = splat %o : tile<FLATxptr<i32>>
  %op = ptr_add %os, %i : tile<FLATxptr<i32>>
  store %op, %sum
  %end = constant {value=FLAT} : tile<FLATxi32>
  %op2 = ptr_add %op, %end : tile<FLATxptr<i32>>
  store %op2, %back
  return
}
)";
  for (auto [m, n] : {std::pair(1, 1), {3, 5}, {16, 8}, {17, 33}, {7, 1}, {64, 48}}) {
    const int flat = m * n;
    const std::string filled = fill(text, {{"FLAT", std::to_string(flat)},
                                           {"MxNx1x", times(m, n) + "x1x"},
                                           {"Nx1xMx", std::to_string(n) + "x1x" + std::to_string(m) + "x"},
                                           {"MxNx", times(m, n) + "x"},
                                           {"NxMx", times(n, m) + "x"},
                                           {"1xMx", "1x" + std::to_string(m) + "x"},
                                           {"<Mx", "<" + std::to_string(m) + "x"}});
    TileKernel kernel(filled, GetParam());
    std::vector<int32_t> x(flat), o(2 * flat), expected(2 * flat);
    for (int i = 0; i < flat; ++i) {
      x[i] = 7 * i + 1;
    }
    for (int row = 0; row < m; ++row) {
      for (int column = 0; column < n; ++column) {
        expected[column * m + row] = x[row * n + column] + 100 + row;
        expected[flat + row * n + column] = expected[column * m + row];
      }
    }
    kernel.run({pointer(x.data()), pointer(o.data())});
    EXPECT_EQ(o, expected) << m << "x" << n;
  }
}

} // namespace

} // namespace libtile::test
