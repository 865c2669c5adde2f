// SPDX-License-Identifier: Apache-2.0
// Tiles that loops carry and branches yield.
#include "tests/cpu/nests_fixture.h"

namespace libtile::test {

namespace {

LIBTILE_NEST_TESTS(NestControl);

// Each turn: a' = f(a, b) as BODY says; the result is stored after `n` turns.
const char *const kLoop = R"(
func @loop stage=tile warps=4 stages=3 (%x: ptr<i32>, %o: ptr<i32>, %n: i32) {
  %i = arange {start=0} : tile<60xi32>
  %xs = splat %x : tile<60xptr<i32>>
  %xp = ptr_add %xs, %i : tile<60xptr<i32>>
  %a0 = load %xp : tile<60xi32>
  %b0 = add %a0, %i : tile<60xi32>
  %lo = constant {value=0} : i32
  %step = constant {value=1} : i32
  %a9, %b9 = for %lo, %n, %step, %a0, %b0 : tile<60xi32>, tile<60xi32> {
  ^(%k: i32, %a: tile<60xi32>, %b: tile<60xi32>):
BODY
  }
  %os = splat %o : tile<60xptr<i32>>
  %op = ptr_add %os, %i : tile<60xptr<i32>>
  %three = constant {value=3} : tile<60xi32>
  %b3 = mul %b9, %three : tile<60xi32>
  %sum = sub %a9, %b3 : tile<60xi32>
  store %op, %sum
  return
}
)";

using Step = void (*)(std::vector<int32_t> &a, std::vector<int32_t> &b, int k);

void checkLoop(const std::string &target, const char *body, Step step) {
  TileKernel kernel(fill(kLoop, {{"BODY", body}}), target);
  for (int n : {0, 1, 2, 5}) {
    std::vector<int32_t> x(60), o(60), expected(60);
    for (int i = 0; i < 60; ++i) {
      x[i] = (i * 37 + 5) % 101;
    }
    std::vector<int32_t> a = x, b = x;
    for (int i = 0; i < 60; ++i) {
      b[i] += i;
    }
    for (int k = 0; k < n; ++k) {
      step(a, b, k);
    }
    for (int i = 0; i < 60; ++i) {
      expected[i] = a[i] - 3 * b[i];
    }
    kernel.run({pointer(x.data()), pointer(o.data()), slot(n)});
    EXPECT_EQ(o, expected) << n << " turns of" << body;
  }
}

TEST_P(NestControl, ElementByElement) {
  checkLoop(GetParam(), R"(
    %ks = splat %k : tile<60xi32>
    %c = add %a, %ks : tile<60xi32>
    %d = xor %b, %c : tile<60xi32>
    yield %c, %d)",
            [](auto &a, auto &b, int k) {
              for (int i = 0; i < 60; ++i) {
                a[i] += k;
                b[i] ^= a[i];
              }
            });
}

TEST_P(NestControl, Swap) {
  checkLoop(GetParam(), R"(
    %c = add %a, %b : tile<60xi32>
    yield %b, %c)",
            [](auto &a, auto &b, int) {
              for (int i = 0; i < 60; ++i) {
                const int32_t sum = a[i] + b[i];
                a[i] = b[i];
                b[i] = sum;
              }
            });
}

// Each new element depends on another old one: through a transposition.
TEST_P(NestControl, Permuted) {
  checkLoop(GetParam(), R"(
    %m = reshape %a : tile<5x12xi32>
    %t = trans %m {order=[1, 0]} : tile<12x5xi32>
    %c = reshape %t : tile<60xi32>
    %m2 = reshape %b : tile<12x5xi32>
    %t2 = trans %m2 {order=[1, 0]} : tile<5x12xi32>
    %d2 = reshape %t2 : tile<60xi32>
    %d = add %d2, %a : tile<60xi32>
    yield %c, %d)",
            [](auto &a, auto &b, int) {
              std::vector<int32_t> c(60), d(60);
              for (int i = 0; i < 60; ++i) {
                c[i] = a[(i % 5) * 12 + i / 5];
                d[i] = b[(i % 12) * 5 + i / 12] + a[i];
              }
              a = c;
              b = d;
            });
}

TEST_P(NestControl, ReduceInside) {
  checkLoop(GetParam(), R"(
    %s = reduce %a {axis=0} : i32 {
    ^(%l: i32, %r: i32):
      %lr = add %l, %r : i32
      yield %lr
    }
    %ss = splat %s : tile<60xi32>
    %c = sub %b, %ss : tile<60xi32>
    %d = add %a, %b : tile<60xi32>
    yield %c, %d)",
            [](auto &a, auto &b, int) {
              int32_t sum = 0;
              for (int32_t value : a) {
                sum += value;
              }
              for (int i = 0; i < 60; ++i) {
                const int32_t old = a[i];
                a[i] = b[i] - sum;
                b[i] += old;
              }
            });
}

TEST_P(NestControl, BranchInside) {
  checkLoop(GetParam(), R"(
    %one = constant {value=1} : i32
    %odd = and %k, %one : i32
    %is = cmp %odd, %one {predicate=eq} : i1
    %c = add %a, %b : tile<60xi32>
    %u, %v = if %is : tile<60xi32>, tile<60xi32> {
      %e = sub %c, %a : tile<60xi32>
      yield %e, %a
    } {
      %f = add %c, %c : tile<60xi32>
      yield %a, %f
    }
    yield %u, %v)",
            [](auto &a, auto &b, int k) {
              for (int i = 0; i < 60; ++i) {
                const int32_t c = a[i] + b[i], u = k % 2 ? c - a[i] : a[i], v = k % 2 ? a[i] : 2 * c;
                a[i] = u;
                b[i] = v;
              }
            });
}

TEST_P(NestControl, LoopInside) {
  checkLoop(GetParam(), R"(
    %two = constant {value=2} : i32
    %u, %v = for %lo, %two, %step, %b, %a : tile<60xi32>, tile<60xi32> {
    ^(%j: i32, %p: tile<60xi32>, %q: tile<60xi32>):
      %pq = add %p, %q : tile<60xi32>
      yield %pq, %p
    }
    yield %v, %u)",
            [](auto &a, auto &b, int) {
              for (int i = 0; i < 60; ++i) {
                int32_t p = b[i], q = a[i];
                for (int j = 0; j < 2; ++j) {
                  const int32_t sum = p + q;
                  q = p;
                  p = sum;
                }
                a[i] = q;
                b[i] = p;
              }
            });
}

// Two axes: a running sum over rows whose buffer is read through a broadcast by the next value.
TEST_P(NestControl, ShapesMixed) {
  const char *text = R"(
func @mixed stage=tile warps=4 stages=3 (%o: ptr<i32>, %n: i32) {
  %i = arange {start=0} : tile<9xi32>
  %zero = constant {value=0} : tile<9x20xi32>
  %lo = constant {value=0} : i32
  %step = constant {value=1} : i32
  %v9, %m9 = for %lo, %n, %step, %i, %zero : tile<9xi32>, tile<9x20xi32> {
  ^(%k: i32, %v: tile<9xi32>, %m: tile<9x20xi32>):
    %s = reduce %m {axis=1} : tile<9xi32> {
    ^(%l: i32, %r: i32):
      %lr = smax %l, %r : i32
      yield %lr
    }
    %w = add %v, %s : tile<9xi32>
    %v1 = expand_dims %v {axis=1} : tile<9x1xi32>
    %vb = broadcast %v1 : tile<9x20xi32>
    %m1 = add %m, %vb : tile<9x20xi32>
    yield %w, %m1
  }
  %j = arange {start=0} : tile<180xi32>
  %flat = reshape %m9 : tile<180xi32>
  %os = splat %o : tile<180xptr<i32>>
  %op = ptr_add %os, %j : tile<180xptr<i32>>
  store %op, %flat
  return
}
)";
  TileKernel kernel(text, GetParam());
  for (int n : {0, 1, 4}) {
    std::vector<int32_t> o(180), expected(180);
    for (int row = 0; row < 9; ++row) {
      int32_t v = row, m = 0;
      for (int k = 0; k < n; ++k) {
        const int32_t w = v + m;
        m += v;
        v = w;
      }
      std::fill_n(expected.begin() + row * 20, 20, m);
    }
    kernel.run({pointer(o.data()), slot(n)});
    EXPECT_EQ(o, expected) << n;
  }
}

// While with a tile: halve until the sum is small; the condition reads the carried tile.
TEST_P(NestControl, While) {
  const char *text = R"(
func @halve stage=tile warps=4 stages=3 (%x: ptr<i32>) {
  %i = arange {start=0} : tile<50xi32>
  %xs = splat %x : tile<50xptr<i32>>
  %xp = ptr_add %xs, %i : tile<50xptr<i32>>
  %a0 = load %xp : tile<50xi32>
  %a9 = while %a0 : tile<50xi32> {
  ^(%a: tile<50xi32>):
    %s = reduce %a {axis=0} : i32 {
    ^(%l: i32, %r: i32):
      %lr = add %l, %r : i32
      yield %lr
    }
    %limit = constant {value=100} : i32
    %more = cmp %s, %limit {predicate=sgt} : i1
    yield %more
  } {
  ^(%b: tile<50xi32>):
    %one = constant {value=1} : tile<50xi32>
    %half = ashr %b, %one : tile<50xi32>
    yield %half
  }
  store %xp, %a9
  return
}
)";
  TileKernel kernel(text, GetParam());
  std::vector<int32_t> x(50), expected;
  for (int i = 0; i < 50; ++i) {
    x[i] = 1000 - 17 * i;
  }
  expected = x;
  const auto sum = [&] {
    int32_t total = 0;
    for (int32_t value : expected) {
      total += value;
    }
    return total;
  };
  while (sum() > 100) {
    for (int32_t &value : expected) {
      value >>= 1;
    }
  }
  kernel.run({pointer(x.data())});
  EXPECT_EQ(x, expected);
}

// A loop that reads what its last turn stored, with a load before the loop that is used after it.
TEST_P(NestControl, StoreInLoop) {
  const char *text = R"(
func @chain stage=tile warps=4 stages=3 (%x: ptr<i32>, %n: i32) {
  %i = arange {start=0} : tile<33xi32>
  %xs = splat %x : tile<33xptr<i32>>
  %xp = ptr_add %xs, %i : tile<33xptr<i32>>
  %first = load %xp : tile<33xi32>
  %lo = constant {value=0} : i32
  %step = constant {value=1} : i32
  for %lo, %n, %step {
  ^(%k: i32):
    %v = load %xp : tile<33xi32>
    %one = constant {value=1} : tile<33xi32>
    %next = ptr_add %xp, %one : tile<33xptr<i32>>
    %w = add %v, %first : tile<33xi32>
    store %next, %w
    %back = load %xp : tile<33xi32>
    %z = add %back, %v : tile<33xi32>
    store %xp, %z
    yield
  }
  %now = load %xp : tile<33xi32>
  %diff = sub %now, %first : tile<33xi32>
  store %xp, %diff
  return
}
)";
  TileKernel kernel(text, GetParam());
  for (int n : {0, 1, 3}) {
    std::vector<int32_t> x(40), expected;
    for (int i = 0; i < 40; ++i) {
      x[i] = i * i - 30;
    }
    expected = x;
    for (int k = 0; k < n; ++k) {
      const std::vector<int32_t> v = expected;
      for (int i = 0; i < 33; ++i) {
        expected[i + 1] = v[i] + x[i];
      }
      const std::vector<int32_t> back = expected;
      for (int i = 0; i < 33; ++i) {
        expected[i] = back[i] + v[i];
      }
    }
    for (int i = 0; i < 33; ++i) {
      expected[i] -= x[i];
    }
    kernel.run({pointer(x.data()), slot(n)});
    EXPECT_EQ(x, expected) << n;
  }
}

} // namespace

} // namespace libtile::test
