// SPDX-License-Identifier: Apache-2.0
// Reductions from text to results: one axis and two, along either, tuples, and kernels made of them.
#include "tests/cpu/nests_fixture.h"

namespace libtile::test {

namespace {

LIBTILE_NEST_TESTS(NestReductions);

const int kSizes[] = {1, 2, 5, 16, 17, 63, 96, 1000};

TEST_P(NestReductions, OneAxis) {
  const char *text = R"(
func @sum stage=tile warps=4 stages=3 (%x: ptr<f32>, %o: ptr<f32>, %n: i32) {
  %i = arange {start=0} : tile<NxI>
  %ns = splat %n : tile<NxI>
  %mask = cmp %i, %ns {predicate=slt} : tile<Nxi1>
  %xs = splat %x : tile<Nxptr<f32>>
  %xp = ptr_add %xs, %i : tile<Nxptr<f32>>
  %a = load %xp, %mask : tile<Nxf32>
  %s = reduce %a {axis=0} : f32 {
  ^(%l: f32, %r: f32):
    %c = add %l, %r : f32
    yield %c
  }
  %low = constant {value=-1000.0} : tile<Nxf32>
  %b = select %mask, %a, %low : tile<Nxf32>
  %m = reduce %b {axis=0} : f32 {
  ^(%l2: f32, %r2: f32):
    %c2 = fmax %l2, %r2 : f32
    yield %c2
  }
  store %o, %s
  %one = constant {value=1} : i32
  %o1 = ptr_add %o, %one : ptr<f32>
  store %o1, %m
  return
}
)";
  for (int size : kSizes) {
    TileKernel kernel(fill(text, {{"NxI", std::to_string(size) + "xi32"}, {"<Nx", "<" + std::to_string(size) + "x"}}), GetParam());
    const std::vector<float> x = randomFloats(size, 3);
    for (int n : {1, size / 2 + 1, size}) {
      float out[2] = {};
      kernel.run({pointer(x.data()), pointer(out), slot(n)});
      double sum = 0, most = -1000;
      for (int i = 0; i < n; ++i) {
        sum += x[i];
        most = std::max<double>(most, x[i]);
      }
      EXPECT_EQ(out[0], sum) << size << " " << n; // sixteenths: exact
      EXPECT_EQ(out[1], most);
    }
  }
}

// Sums over axis 0 and axis 1 of a matrix that lies row-major, and of its transpose.
TEST_P(NestReductions, TwoAxes) {
  const char *text = R"(
func @sums stage=tile warps=4 stages=3 (%x: ptr<f32>, %o: ptr<f32>, %q: ptr<f32>) {
  %i = arange {start=0} : tile<Mxi32>
  %j = arange {start=0} : tile<Nxi32>
  %i1 = expand_dims %i {axis=1} : tile<Mx1xi32>
  %width = constant {value=WIDTH} : tile<Mx1xi32>
  %row = mul %i1, %width : tile<Mx1xi32>
  %j1 = expand_dims %j {axis=0} : tile<1xNxi32>
  %rows = broadcast %row : tile<MxNxi32>
  %columns = broadcast %j1 : tile<MxNxi32>
  %at = add %rows, %columns : tile<MxNxi32>
  %xs = splat %x : tile<MxNxptr<f32>>
  %xp = ptr_add %xs, %at : tile<MxNxptr<f32>>
  %a = load %xp : tile<MxNxf32>
  %t = trans %a {order=[1, 0]} : tile<NxMxf32>
  %s0 = reduce %a {axis=0} : tile<Nxf32> {
  ^(%l0: f32, %r0: f32):
    %c0 = add %l0, %r0 : f32
    yield %c0
  }
  %s1 = reduce %a {axis=1} : tile<Mxf32> {
  ^(%l1: f32, %r1: f32):
    %c1 = add %l1, %r1 : f32
    yield %c1
  }
  %t0 = reduce %t {axis=0} : tile<Mxf32> {
  ^(%l2: f32, %r2: f32):
    %c2 = fmax %l2, %r2 : f32
    yield %c2
  }
  %os = splat %o : tile<Nxptr<f32>>
  %op = ptr_add %os, %j : tile<Nxptr<f32>>
  store %op, %s0
  %qs = splat %q : tile<Mxptr<f32>>
  %qp = ptr_add %qs, %i : tile<Mxptr<f32>>
  %d = sub %t0, %s1 : tile<Mxf32>
  store %qp, %d
  return
}
)";
  for (auto [m, n] : {std::pair(1, 1), {3, 5}, {1, 40}, {40, 1}, {17, 33}, {64, 16}, {5, 1000}, {100, 7}}) {
    TileKernel kernel(fill(text, {{"WIDTH", std::to_string(n)},
                                  {"Mx1x", std::to_string(m) + "x1x"},
                                  {"1xNx", "1x" + std::to_string(n) + "x"},
                                  {"MxNx", times(m, n) + "x"},
                                  {"NxMx", times(n, m) + "x"},
                                  {"<Mx", "<" + std::to_string(m) + "x"},
                                  {"<Nx", "<" + std::to_string(n) + "x"}}),
                      GetParam());
    const std::vector<float> x = randomFloats(size_t(m) * n, 9);
    std::vector<float> o(n), q(m), o2(n), q2(m);
    for (int row = 0; row < m; ++row) {
      float sum = 0, most = -1e9F;
      for (int column = 0; column < n; ++column) {
        sum += x[row * n + column];
        most = std::max(most, x[row * n + column]);
        o2[column] += x[row * n + column];
      }
      q2[row] = most - sum;
    }
    kernel.run({pointer(x.data()), pointer(o.data()), pointer(q.data())});
    EXPECT_EQ(o, o2) << m << "x" << n;
    EXPECT_EQ(q, q2) << m << "x" << n;
  }
}

// argmax: a tuple of values and indices, ties to the first, along each axis of a matrix.
TEST_P(NestReductions, ArgMax) {
  const char *text = R"(
func @argmax stage=tile warps=4 stages=3 (%x: ptr<f32>, %o: ptr<i32>) {
  %flat = arange {start=0} : tile<FLATxi32>
  %at = reshape %flat : tile<MxNxi32>
  %xs = splat %x : tile<MxNxptr<f32>>
  %xp = ptr_add %xs, %at : tile<MxNxptr<f32>>
  %a = load %xp : tile<MxNxf32>
  %v, %k = reduce %a, %at {axis=AXIS} : tile<Lxf32>, tile<Lxi32> {
  ^(%v1: f32, %k1: i32, %v2: f32, %k2: i32):
    %more = cmp %v1, %v2 {predicate=ogt} : i1
    %same = cmp %v1, %v2 {predicate=oeq} : i1
    %before = cmp %k1, %k2 {predicate=slt} : i1
    %tie = and %same, %before : i1
    %left = or %more, %tie : i1
    %value = select %left, %v1, %v2 : f32
    %index = select %left, %k1, %k2 : i32
    yield %value, %index
  }
  %l = arange {start=0} : tile<Lxi32>
  %os = splat %o : tile<Lxptr<i32>>
  %op = ptr_add %os, %l : tile<Lxptr<i32>>
  store %op, %k
  return
}
)";
  for (auto [m, n] : {std::pair(1, 1), {3, 5}, {17, 33}, {64, 16}, {1, 300}, {50, 1}}) {
    for (int axis : {0, 1}) {
      const int kept = axis == 0 ? n : m;
      TileKernel kernel(fill(text, {{"FLAT", std::to_string(m * n)},
                                    {"AXIS", std::to_string(axis)},
                                    {"MxNx", times(m, n) + "x"},
                                    {"<Lx", "<" + std::to_string(kept) + "x"}}),
                        GetParam());
      const std::vector<float> x = randomFloats(size_t(m) * n, 11);
      std::vector<int32_t> o(kept), expected(kept, -1);
      for (int i = 0; i < m * n; ++i) {
        int32_t &best = expected[axis == 0 ? i % n : i / n];
        if (best < 0 || x[i] > x[best]) {
          best = i;
        }
      }
      kernel.run({pointer(x.data()), pointer(o.data())});
      EXPECT_EQ(o, expected) << m << "x" << n << " axis " << axis;
    }
  }
}

// The fused softmax of the tutorials, against double.
TEST_P(NestReductions, Softmax) {
  const char *text = R"(
func @softmax stage=tile warps=4 stages=3 (%x: ptr<f32>, %o: ptr<f32>, %n: i32)GUARDS {
  %pid = program_id {axis=0} : i32
  %start = mul %pid, %n : i32
  %i = arange {start=0} : tile<Nxi32>
  %ns = splat %n : tile<Nxi32>
  %mask = cmp %i, %ns {predicate=slt} : tile<Nxi1>
  %p = ptr_add %x, %start : ptr<f32>
  %ps = splat %p : tile<Nxptr<f32>>
  %pp = ptr_add %ps, %i : tile<Nxptr<f32>>
  %ninf = constant {value=0xFFF0000000000000} : tile<Nxf32>
  %a = load %pp, %mask, %ninf : tile<Nxf32>
  %m = reduce %a {axis=0} : f32 {
  ^(%l0: f32, %r0: f32):
    %c0 = fmax %l0, %r0 : f32
    yield %c0
  }
  %ms = splat %m : tile<Nxf32>
  %d = sub %a, %ms : tile<Nxf32>
  %e = exp %d : tile<Nxf32>
  %s = reduce %e {axis=0} : f32 {
  ^(%l1: f32, %r1: f32):
    %c1 = add %l1, %r1 : f32
    yield %c1
  }
  %ss = splat %s : tile<Nxf32>
  %y = fdiv %e, %ss : tile<Nxf32>
  %q = ptr_add %o, %start : ptr<f32>
  %qs = splat %q : tile<Nxptr<f32>>
  %qp = ptr_add %qs, %i : tile<Nxptr<f32>>
  store %qp, %y, %mask
  return
}
)";
  for (int size : {16, 100, 1024, 65536}) {
    for (const char *guards : {"", "\n  guard disjoint %x %o"}) {
      TileKernel kernel(fill(text, {{"GUARDS", guards}, {"<Nx", "<" + std::to_string(size) + "x"}}), GetParam());
      for (int n : {1, size - 7, size}) {
        const int rows = 3;
        std::vector<float> x = randomFloats(size_t(rows) * n, 21), o(x.size());
        kernel.run({pointer(x.data()), pointer(o.data()), slot(n)}, {rows});
        for (int row = 0; row < rows; ++row) {
          double most = -1e30, sum = 0;
          for (int i = 0; i < n; ++i) {
            most = std::max<double>(most, x[row * n + i]);
          }
          for (int i = 0; i < n; ++i) {
            sum += std::exp(x[row * n + i] - most);
          }
          for (int i = 0; i < n; ++i) {
            const double exact = std::exp(x[row * n + i] - most) / sum;
            // exp and the division, and a sum of n / lanes terms in each of at least 8 lanes.
            const double tolerance = (6 + n / 8.0) * 6e-8 * exact;
            ASSERT_NEAR(o[row * n + i], exact, tolerance) << size << " " << n;
          }
        }
        if (*guards == 0) { // in place
          kernel.run({pointer(x.data()), pointer(x.data()), slot(n)}, {rows});
          EXPECT_EQ(x, o);
        }
      }
    }
  }
}

} // namespace

} // namespace libtile::test
