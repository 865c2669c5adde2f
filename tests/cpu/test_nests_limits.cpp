// SPDX-License-Identifier: Apache-2.0
// Ordered accesses, loops that stop, and texts whose expressions are deep or would blow up.
#include "tests/cpu/nests_fixture.h"

#include <chrono>

namespace libtile::test {

namespace {

LIBTILE_NEST_TESTS(NestLimits);

// Each element once and in order: all lanes count on one place, and the old values are 0, 1, 2, ...
TEST_P(NestLimits, AtomicsInOrder) {
  const char *text = R"(
func @count stage=tile warps=4 stages=3 (%p: ptr<i32>, %o: ptr<i32>, %n: i32) {
  %i = arange {start=0} : tile<37xi32>
  %ns = splat %n : tile<37xi32>
  %mask = cmp %i, %ns {predicate=slt} : tile<37xi1>
  %ps = splat %p : tile<37xptr<i32>>
  %one = constant {value=1} : tile<37xi32>
  %before = load %ps : tile<37xi32>
  %old = atomic_rmw %ps, %one, %mask {kind=add, sem=relaxed, scope=gpu} : tile<37xi32>
  %after = load %ps : tile<37xi32>
  %os = splat %o : tile<37xptr<i32>>
  %op = ptr_add %os, %i : tile<37xptr<i32>>
  %sum = add %old, %before : tile<37xi32>
  %hundred = constant {value=100} : tile<37xi32>
  %scaled = mul %after, %hundred : tile<37xi32>
  %all = add %sum, %scaled : tile<37xi32>
  store %op, %all
  return
}
)";
  TileKernel kernel(text, GetParam());
  for (int n : {0, 20, 37}) {
    int32_t count = 5;
    std::vector<int32_t> o(37), expected(37);
    for (int i = 0; i < 37; ++i) {
      expected[i] = (i < n ? 5 + i : 0) + 5 + 100 * (5 + n);
    }
    kernel.run({pointer(&count), pointer(o.data()), slot(n)});
    EXPECT_EQ(count, 5 + n);
    EXPECT_EQ(o, expected);
  }
}

// A volatile load happens where it stands, once, whatever its users.
TEST_P(NestLimits, VolatileLoad) {
  const char *text = R"(
func @once stage=tile warps=4 stages=3 (%p: ptr<i32>) {
  %i = arange {start=0} : tile<21xi32>
  %ps = splat %p : tile<21xptr<i32>>
  %pp = ptr_add %ps, %i : tile<21xptr<i32>>
  %v = load %pp {is_volatile=true} : tile<21xi32>
  %one = constant {value=1} : tile<21xi32>
  %w = add %v, %one : tile<21xi32>
  store %pp, %w {is_volatile=true}
  %x = add %v, %w : tile<21xi32>
  %end = constant {value=21} : tile<21xi32>
  %q = ptr_add %pp, %end : tile<21xptr<i32>>
  store %q, %x
  return
}
)";
  TileKernel kernel(text, GetParam());
  std::vector<int32_t> data(42), expected(42);
  for (int i = 0; i < 21; ++i) {
    data[i] = i * i;
    expected[i] = i * i + 1;
    expected[21 + i] = 2 * i * i + 1;
  }
  kernel.run({pointer(data.data())});
  EXPECT_EQ(data, expected);
}

// `break`: the tiles carried are those of the turn that stops.
TEST_P(NestLimits, LoopThatStops) {
  const char *text = R"(
func @stop stage=tile warps=4 stages=3 (%x: ptr<i32>, %n: i32, %limit: i32) {
  %i = arange {start=0} : tile<18xi32>
  %xs = splat %x : tile<18xptr<i32>>
  %xp = ptr_add %xs, %i : tile<18xptr<i32>>
  %lo = constant {value=0} : i32
  %one = constant {value=1} : i32
  %a9 = for %lo, %n, %one, %i {stop=true} : tile<18xi32> {
  ^(%k: i32, %a: tile<18xi32>):
    %b = add %a, %a : tile<18xi32>
    %s = reduce %b {axis=0} : i32 {
    ^(%l: i32, %r: i32):
      %lr = add %l, %r : i32
      yield %lr
    }
    %enough = cmp %s, %limit {predicate=sgt} : i1
    yield %enough, %b
  }
  store %xp, %a9
  return
}
)";
  TileKernel kernel(text, GetParam());
  for (int n : {0, 1, 3, 50}) {
    std::vector<int32_t> x(18), expected(18);
    int scale = 1;
    for (int k = 0; k < n; ++k) {
      scale *= 2;
      if (scale * 153 > 1000) {
        break;
      }
    }
    for (int i = 0; i < 18; ++i) {
      expected[i] = scale * i;
    }
    kernel.run({pointer(x.data()), slot(n), slot(1000)});
    EXPECT_EQ(x, expected) << n;
  }
}

std::string chain(int length, const std::string &op) {
  std::string body;
  std::string last = "%v";
  for (int i = 0; i < length; ++i) {
    const std::string name = "%c" + std::to_string(i);
    body += fill(op, {{"NEW", name}, {"OLD", last}, {"ID", std::to_string(i)}});
    last = name;
  }
  return fill(R"(
func @chain stage=tile warps=4 stages=3 (%x: ptr<i32>) {
  %i = arange {start=0} : tile<36xi32>
  %xs = splat %x : tile<36xptr<i32>>
  %xp = ptr_add %xs, %i : tile<36xptr<i32>>
  %v = load %xp : tile<36xi32>
BODY  store %xp, LAST
  return
}
)",
              {{"BODY", body}, {"LAST", last}});
}

// Recursion and code stay bounded however long the chain of ops is.
TEST_P(NestLimits, DeepChain) {
  TileKernel kernel(chain(3000, "  NEW = add OLD, %i : tile<36xi32>\n"), GetParam());
  std::vector<int32_t> x(36, 7);
  kernel.run({pointer(x.data())});
  for (int i = 0; i < 36; ++i) {
    EXPECT_EQ(x[i], 7 + 3000 * i);
  }
}

// Each step reads its operand under two index maps: 2^40 paths if nothing were stored.
TEST_P(NestLimits, ManyPaths) {
  const std::string step = R"(  %mID = reshape OLD : tile<4x9xi32>
  %tID = trans %mID {order=[1, 0]} : tile<9x4xi32>
  %rID = reshape %tID : tile<36xi32>
  NEW = add OLD, %rID : tile<36xi32>
)";
  const auto start = std::chrono::steady_clock::now();
  TileKernel kernel(chain(40, step), GetParam());
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  EXPECT_LT(taken.count(), 20);
  std::vector<int32_t> x(36), expected(36);
  for (int i = 0; i < 36; ++i) {
    x[i] = expected[i] = i;
  }
  for (int k = 0; k < 40; ++k) {
    std::vector<int32_t> next = expected;
    for (int i = 0; i < 36; ++i) {
      next[i] = int32_t(uint32_t(next[i]) + uint32_t(expected[(i % 4) * 9 + i / 4]));
    }
    expected = next;
  }
  kernel.run({pointer(x.data())});
  EXPECT_EQ(x, expected);
}

// The text does not grow with the tile.
TEST_P(NestLimits, SizeOfTile) {
  const auto lines = [&](int size) {
    std::string text = chain(4, "  NEW = mul OLD, %i : tile<36xi32>\n");
    const std::string shape = "<" + std::to_string(size) + "x";
    return std::ranges::count(ir::print(nested(fill(text, {{"<36x", shape}}), GetParam())), '\n');
  };
  EXPECT_EQ(lines(1024), lines(1 << 20));
}

// Branches that yield addresses and masks: both lie in scratch as numbers.
TEST_P(NestLimits, PointersAndMasksInBuffers) {
  const char *text = R"(
func @pick stage=tile warps=4 stages=3 (%x: ptr<i16>, %y: ptr<i16>, %o: ptr<i16>, %first: i32) {
  %i = arange {start=0} : tile<50xi32>
  %zero = constant {value=0} : i32
  %is = cmp %first, %zero {predicate=ne} : i1
  %ten = constant {value=10} : tile<50xi32>
  %p, %m = if %is : tile<50xptr<i16>>, tile<50xi1> {
    %xs = splat %x : tile<50xptr<i16>>
    %xp = ptr_add %xs, %i : tile<50xptr<i16>>
    %low = cmp %i, %ten {predicate=slt} : tile<50xi1>
    yield %xp, %low
  } {
    %ys = splat %y : tile<50xptr<i16>>
    %yp = ptr_add %ys, %i : tile<50xptr<i16>>
    %high = cmp %i, %ten {predicate=sge} : tile<50xi1>
    yield %yp, %high
  }
  %minus = constant {value=-1} : tile<50xi16>
  %v = load %p, %m, %minus : tile<50xi16>
  %os = splat %o : tile<50xptr<i16>>
  %op = ptr_add %os, %i : tile<50xptr<i16>>
  store %op, %v
  return
}
)";
  TileKernel kernel(text, GetParam());
  std::vector<int16_t> x(50), y(50);
  for (int i = 0; i < 50; ++i) {
    x[i] = int16_t(i * 5);
    y[i] = int16_t(i * 7);
  }
  for (int first : {0, 1}) {
    std::vector<int16_t> o(50), expected(50);
    for (int i = 0; i < 50; ++i) {
      expected[i] = first != 0 ? (i < 10 ? x[i] : -1) : (i >= 10 ? y[i] : -1);
    }
    kernel.run({pointer(x.data()), pointer(y.data()), pointer(o.data()), slot(first)});
    EXPECT_EQ(o, expected);
  }
}

// A dot with a batch axis goes through plain nests, and says so.
TEST_P(NestLimits, BatchedDot) {
  const char *text = R"(
func @batched stage=tile warps=4 stages=3 (%x: ptr<f32>, %o: ptr<f32>) {
  %i = arange {start=0} : tile<30xi32>
  %at = reshape %i : tile<2x3x5xi32>
  %xs = splat %x : tile<2x3x5xptr<f32>>
  %xp = ptr_add %xs, %at : tile<2x3x5xptr<f32>>
  %a = load %xp : tile<2x3x5xf32>
  %b = trans %a {order=[0, 2, 1]} : tile<2x5x3xf32>
  %c = constant {value=1.0} : tile<2x3x3xf32>
  %d = dot %a, %b, %c : tile<2x3x3xf32>
  %flat = reshape %d : tile<18xf32>
  %j = arange {start=0} : tile<18xi32>
  %os = splat %o : tile<18xptr<f32>>
  %op = ptr_add %os, %j : tile<18xptr<f32>>
  store %op, %flat
  return
}
)";
  EXPECT_TRUE(nested(text, GetParam()).fallbacks.empty());
  TileKernel kernel(text, GetParam());
  const std::vector<float> x = randomFloats(30, 4);
  std::vector<float> o(18), expected(18);
  for (int i = 0; i < 18; ++i) {
    const int batch = i / 9, row = i / 3 % 3, column = i % 3;
    expected[i] = 1;
    for (int k = 0; k < 5; ++k) {
      expected[i] += x[batch * 15 + row * 5 + k] * x[batch * 15 + column * 5 + k];
    }
  }
  kernel.run({pointer(x.data()), pointer(o.data())});
  EXPECT_EQ(o, expected);
}

// Indices modulo n, in blocks that wrap and in blocks that do not.
// Steps below a bound take its compare for true: exact where the sum wraps, below zero, and when the
// bound is the largest number.
TEST_P(NestLimits, ComparesWithABound) {
  for (const char *predicate : {"slt", "sle", "ult", "ule"}) {
    std::string text = R"(
func @bound stage=tile warps=4 stages=3 (%o: ptr<i32>, %sum: ptr<i32>, %start: i32, %n: i32) {
  %i = arange {start=0} : tile<300xi32>
  %s = splat %start : tile<300xi32>
  %j = add %i, %s : tile<300xi32>
  %ns = splat %n : tile<300xi32>
  %b = cmp %j, %ns {predicate=PREDICATE} : tile<300xi1>
  %v = zext %b : tile<300xi32>
  %w = mul %v, %i : tile<300xi32>
  %t = reduce %w {axis=0} : i32 {
  ^(%p: i32, %q: i32):
    %r = add %p, %q : i32
    yield %r
  }
  store %sum, %t
  %os = splat %o : tile<300xptr<i32>>
  %op = ptr_add %os, %i : tile<300xptr<i32>>
  store %op, %v
  return
}
)";
    text.replace(text.find("PREDICATE"), 9, predicate);
    TileKernel kernel(text.c_str(), GetParam());
    const int32_t most = INT32_MAX, least = INT32_MIN;
    for (int32_t start : {0, 7, -50, most, most - 100, least, -300}) {
      for (int32_t n : {0, 1, 63, 64, 130, 299, 300, 1000, -1, -40, most, most - 36, least, least + 99}) {
        std::vector<int32_t> o(300), expected(300);
        int32_t sum = 0, expectedSum = 0;
        for (int32_t i = 0; i < 300; ++i) {
          const uint32_t j = uint32_t(start) + uint32_t(i);
          const bool isSigned = predicate[0] == 's';
          const bool below = isSigned ? int32_t(j) < n : j < uint32_t(n);
          const bool equal = predicate[2] == 'e' && j == uint32_t(n);
          expected[i] = below || equal;
          expectedSum += expected[i] * i;
        }
        kernel.run({pointer(o.data()), pointer(&sum), slot(start), slot(n)});
        EXPECT_EQ(o, expected) << predicate << " " << start << " " << n;
        EXPECT_EQ(sum, expectedSum) << predicate << " " << start << " " << n;
      }
    }
  }
}

TEST_P(NestLimits, Remainders) {
  const char *text = R"(
func @wrap stage=tile warps=4 stages=3 (%x: ptr<i32>, %o: ptr<i32>, %start: i32, %n: i32) {
  %i = arange {start=0} : tile<100xi32>
  %s = splat %start : tile<100xi32>
  %j = add %i, %s : tile<100xi32>
  %ns = splat %n : tile<100xi32>
  %r = srem %j, %ns : tile<100xi32>
  %xs = splat %x : tile<100xptr<i32>>
  %xp = ptr_add %xs, %r : tile<100xptr<i32>>
  %v = load %xp : tile<100xi32>
  %os = splat %o : tile<100xptr<i32>>
  %op = ptr_add %os, %i : tile<100xptr<i32>>
  store %op, %v
  return
}
)";
  TileKernel kernel(text, GetParam());
  std::vector<int32_t> x(1300);
  for (int i = 0; i < 1300; ++i) {
    x[i] = i * 3 + 1;
  }
  for (auto [start, n] : {std::pair(0, 100), {0, 99}, {850, 1000}, {850, 949}, {850, 950}, {-30, 500}, {2000, 7}}) {
    std::vector<int32_t> o(100), expected(100);
    for (int i = 0; i < 100; ++i) {
      expected[i] = x[300 + (start + i) % n];
    }
    kernel.run({pointer(x.data() + 300), pointer(o.data()), slot(start), slot(n)});
    EXPECT_EQ(o, expected) << start << " " << n;
  }
}

} // namespace

} // namespace libtile::test
