// SPDX-License-Identifier: Apache-2.0
// Nests, folds and the kernel's own loops in lanes: random extents, lanes and unrolling.
#include "tests/cpu/numbers.h"
#include "tests/cpu/run_nested.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace libtile::test {
namespace {

std::string replaceAll(std::string text,
                       const std::vector<std::pair<std::string, std::string>> &values) {
  for (const auto &[key, value] : values) {
    for (size_t at = text.find(key); at != std::string::npos;
         at = text.find(key, at + value.size())) {
      text.replace(at, key.size(), value);
    }
  }
  return text;
}

std::string word(int64_t number) { return std::to_string(number); }

struct FoldShape {
  int extent, lanes, unroll;
};
const FoldShape kFoldShapes[] = {{1, 16, 1},    {2, 4, 4},   {3, 16, 4},  {16, 16, 1},
                                 {17, 16, 4},   {64, 16, 4}, {100, 8, 2}, {1000, 8, 4},
                                 {1023, 16, 4}, {7, 1, 4},   {30, 1, 3},  {200, 32, 8}};

// A fold with one op in its combine region at the kernel's own level.
template <class T, class Fn>
void checkFold(const std::string &type, const std::string &combine, Fn reference) {
  const char *const text = R"(
func @f stage=nested warps=4 stages=3 (%x: ptr<TYPE>, %o: ptr<TYPE>) {
  %r = fold {extent=EXTENT, lanes=LANES, unroll=UNROLL} : TYPE {
  ^(%i: i32):
    %p = ptr_add %x, %i : ptr<TYPE>
    %v = load %p : TYPE
    yield %v
  } {
  ^(%a: TYPE, %b: TYPE):
    %c = COMBINE : TYPE
    yield %c
  }
  store %o, %r
  return
}
)";
  std::mt19937 random(1);
  for (const std::string &target : runnableTargets()) {
    for (const FoldShape &shape : kFoldShapes) {
      NestedKernel kernel(replaceAll(text, {{"TYPE", type},
                                            {"COMBINE", combine},
                                            {"EXTENT", word(shape.extent)},
                                            {"LANES", word(shape.lanes)},
                                            {"UNROLL", word(shape.unroll)}}),
                          target);
      std::vector<T> x(shape.extent);
      for (T &value : x) {
        value = static_cast<T>(int(random() % 101) - 50);
      }
      if (combine.find("mul") == 0) {
        for (T &value : x) {
          value = value < 0 ? T(-1) : T(1);
        }
      }
      T got{};
      kernel.run({slot(x.data()), slot(&got)});
      T want = x[0];
      for (int i = 1; i < shape.extent; ++i) {
        want = reference(want, x[i]);
      }
      EXPECT_EQ(got, want) << target << " " << combine << " " << type << " extent=" << shape.extent
                           << " lanes=" << shape.lanes << " unroll=" << shape.unroll;
    }
  }
}

TEST(Folds, OneOp) {
  // Sums of small integers are exact in any order.
  checkFold<float>("f32", "add %a, %b", [](float a, float b) { return a + b; });
  checkFold<double>("f64", "add %b, %a", [](double a, double b) { return a + b; });
  checkFold<float>("f32", "mul %a, %b", [](float a, float b) { return a * b; });
  checkFold<float>("f32", "fmax %a, %b", [](float a, float b) { return std::max(a, b); });
  checkFold<float>("f32", "fmin %a, %b {nan=true}",
                   [](float a, float b) { return std::min(a, b); });
  checkFold<int8_t>("i8", "smax %a, %b", [](int8_t a, int8_t b) { return std::max(a, b); });
  checkFold<int16_t>("i16", "smin %a, %b", [](int16_t a, int16_t b) { return std::min(a, b); });
  checkFold<uint32_t>("i32", "umin %a, %b", [](uint32_t a, uint32_t b) { return std::min(a, b); });
  checkFold<uint64_t>("i64", "umax %a, %b", [](uint64_t a, uint64_t b) { return std::max(a, b); });
  checkFold<int32_t>("i32", "xor %a, %b", [](int32_t a, int32_t b) { return a ^ b; });
  checkFold<int32_t>("i32", "and %a, %b", [](int32_t a, int32_t b) { return a & b; });
  checkFold<int32_t>("i32", "or %a, %b", [](int32_t a, int32_t b) { return a | b; });
  checkFold<int64_t>("i64", "add %a, %b", [](int64_t a, int64_t b) { return a + b; });
}

// No op here has a neutral element: the first element starts the fold.
TEST(Folds, ArgMaxCarriesATuple) {
  const char *const text = R"(
func @f stage=nested warps=4 stages=3 (%x: ptr<f32>, %o: ptr<f32>, %oi: ptr<i32>) {
  %r0, %r1 = fold {extent=EXTENT, lanes=LANES, unroll=UNROLL} : f32, i32 {
  ^(%i: i32):
    %p = ptr_add %x, %i : ptr<f32>
    %v = load %p : f32
    yield %v, %i
  } {
  ^(%a: f32, %ai: i32, %b: f32, %bi: i32):
    %gt = cmp %a, %b {predicate=ogt} : i1
    %eq = cmp %a, %b {predicate=oeq} : i1
    %lt = cmp %ai, %bi {predicate=slt} : i1
    %tie = and %eq, %lt : i1
    %left = or %gt, %tie : i1
    %m = select %left, %a, %b : f32
    %mi = select %left, %ai, %bi : i32
    yield %m, %mi
  }
  store %o, %r0
  store %oi, %r1
  return
}
)";
  std::mt19937 random(2);
  for (const std::string &target : runnableTargets()) {
    for (const FoldShape &shape : kFoldShapes) {
      NestedKernel kernel(replaceAll(text, {{"EXTENT", word(shape.extent)},
                                            {"LANES", word(shape.lanes)},
                                            {"UNROLL", word(shape.unroll)}}),
                          target);
      std::vector<float> x(shape.extent);
      for (float &value : x) {
        value = -1.F - float(random() % 40);
      }
      float best = 0;
      int32_t at = -1;
      kernel.run({slot(x.data()), slot(&best), slot(&at)});
      const auto want = std::max_element(x.begin(), x.end());
      EXPECT_EQ(best, *want) << target << " " << shape.extent << " " << shape.lanes << " "
                             << shape.unroll;
      EXPECT_EQ(at, want - x.begin()) << target << " " << shape.extent << " " << shape.lanes;
    }
  }
}

// Rows in a nest of one lane with a fold in lanes; columns in lanes with a fold in each lane.
TEST(Folds, InsideOfNests) {
  const char *const text = R"(
func @f stage=nested warps=4 stages=3 (%x: ptr<f32>, %rows: ptr<f32>, %columns: ptr<f32>) {
  %w = constant {value=N} : i32
  nest {extents=[M], lanes=1} {
  ^(%m: i32):
    %row = mul %m, %w : i32
    %s = fold {extent=N, lanes=8, unroll=2} : f32 {
    ^(%n: i32):
      %i = add %row, %n : i32
      %p = ptr_add %x, %i : ptr<f32>
      %v = load %p : f32
      yield %v
    } {
    ^(%a: f32, %b: f32):
      %c = add %a, %b : f32
      yield %c
    }
    %q = ptr_add %rows, %m : ptr<f32>
    store %q, %s
    yield
  }
  nest {extents=[N], lanes=8, unroll=2} {
  ^(%xn: i32):
    %xs = fold {extent=M, lanes=1, unroll=2} : f32 {
    ^(%xm: i32):
      %xrow = mul %xm, %w : i32
      %xi = add %xrow, %xn : i32
      %xp = ptr_add %x, %xi : ptr<f32>
      %xv = load %xp : f32
      yield %xv
    } {
    ^(%xa: f32, %xb: f32):
      %xc = fmax %xa, %xb : f32
      yield %xc
    }
    %xq = ptr_add %columns, %xn : ptr<f32>
    store %xq, %xs
    yield
  }
  return
}
)";
  for (const std::string &target : runnableTargets()) {
    for (auto [m, n] : {std::pair(1, 1), std::pair(5, 37), std::pair(12, 64), std::pair(3, 8)}) {
      NestedKernel kernel(replaceAll(text, {{"[M]", "[" + word(m) + "]"},
                                            {"[N]", "[" + word(n) + "]"},
                                            {"=M", "=" + word(m)},
                                            {"=N", "=" + word(n)}}),
                          target);
      std::vector<float> x(m * n), rows(m), columns(n);
      for (int i = 0; i < m * n; ++i) {
        x[i] = float(i * 37 % 101) - 50;
      }
      kernel.run({slot(x.data()), slot(rows.data()), slot(columns.data())});
      for (int r = 0; r < m; ++r) {
        float sum = 0;
        for (int c = 0; c < n; ++c) {
          sum += x[r * n + c];
        }
        EXPECT_EQ(rows[r], sum) << target << " row " << r;
      }
      for (int c = 0; c < n; ++c) {
        float most = x[c];
        for (int r = 1; r < m; ++r) {
          most = std::max(most, x[r * n + c]);
        }
        EXPECT_EQ(columns[c], most) << target << " column " << c;
      }
    }
  }
}

// Scratch: written transposed, read along both axes and in an order that is no line.
TEST(Nests, ScratchBuffers) {
  const char *const text = R"(
func @f stage=nested warps=4 stages=3 arena=8192 (%x: ptr<f16>, %o: ptr<f32>) {
  %t = alloc {offset=64} : buffer<19x23xf32>
  %w = constant {value=19} : i32
  %v23 = constant {value=23} : i32
  %five = constant {value=5} : i32
  nest {extents=[23, 19], lanes=16} {
  ^(%i: i32, %j: i32):
    %row = mul %i, %w : i32
    %k = add %row, %j : i32
    %p = ptr_add %x, %k : ptr<f16>
    %h = load %p : f16
    %f = fpext %h : f32
    element_write %t, %f, %j, %i
    yield
  }
  nest {extents=[19, 23], lanes=8, unroll=2} {
  ^(%yi: i32, %yj: i32):
    %a = element_read %t, %yi, %yj : f32
    %odd = mul %yj, %five : i32
    %m = urem %odd, %v23 : i32
    %b = element_read %t, %yi, %m : f32
    %s = sub %a, %b : f32
    %yrow = mul %yi, %v23 : i32
    %yk = add %yrow, %yj : i32
    %yp = ptr_add %o, %yk : ptr<f32>
    store %yp, %s
    yield
  }
  return
}
)";
  for (const std::string &target : runnableTargets()) {
    NestedKernel kernel(text, target);
    std::vector<uint16_t> x(23 * 19);
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<uint16_t>(encode(ir::Elem::F16, float(i) / 8));
    }
    std::vector<float> out(19 * 23);
    kernel.run({slot(x.data()), slot(out.data())});
    for (int i = 0; i < 19; ++i) {
      for (int j = 0; j < 23; ++j) {
        const float want = float(j * 19 + i) / 8 - float(j * 5 % 23 * 19 + i) / 8;
        ASSERT_EQ(out[i * 23 + j], want) << target << " " << i << "," << j;
      }
    }
  }
}

// The kernel's own loops carry scalars at its level and vectors inside of lanes.
TEST(Loops, ForInLanes) {
  const char *const text = R"(
func @f stage=nested warps=4 stages=3 (%x: ptr<i32>, %o: ptr<i32>, %lo: i32, %hi: i32, %step: i32) {
  %w = constant {value=21} : i32
  %zero = constant {value=0} : i32
  nest {extents=[21], lanes=8} {
  ^(%n: i32):
    %r0, %r1 = for %lo, %hi, %step, %zero, %n : i32, i32 {
    ^(%k: i32, %sum: i32, %last: i32):
      %row = mul %k, %w : i32
      %i = add %row, %n : i32
      %p = ptr_add %x, %i : ptr<i32>
      %v = load %p : i32
      %s = add %sum, %v : i32
      yield %s, %v
    }
    %total = add %r0, %r1 : i32
    %q = ptr_add %o, %n : ptr<i32>
    store %q, %total
    yield
  }
  return
}
)";
  std::vector<int32_t> x(21 * 30);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = int32_t(i * i % 1009);
  }
  for (const std::string &target : runnableTargets()) {
    NestedKernel kernel(text, target);
    for (auto [lo, hi, step] :
         {std::tuple(0, 30, 1), std::tuple(3, 29, 4), std::tuple(5, 5, 1), std::tuple(29, -1, -3),
          std::tuple(7, 3, 2), std::tuple(0, 1, INT32_MAX)}) {
      std::vector<int32_t> out(21);
      kernel.run({slot(x.data()), slot(out.data()), slot(lo), slot(hi), slot(step)});
      for (int n = 0; n < 21; ++n) {
        int32_t sum = 0, last = n;
        for (int64_t k = lo; step > 0 ? k < hi : k > hi; k += step) {
          last = x[k * 21 + n];
          sum += last;
        }
        EXPECT_EQ(out[n], sum + last) << target << " " << lo << ".." << hi << " by " << step;
      }
    }
  }
}

TEST(Loops, BoundsNeverOverflow) {
  const char *const text = R"(
func @f stage=nested warps=4 stages=3 (%o: ptr<i32>, %lo: i8, %hi: i8, %step: i8) {
  %zero = constant {value=0} : i32
  %one = constant {value=1} : i32
  %n = for %lo, %hi, %step, %zero {ATTRIBUTES} : i32 {
  ^(%i: i8, %c: i32):
    %d = add %c, %one : i32
    yield %d
  }
  store %o, %n
  return
}
)";
  const std::string target = runnableTargets().back();
  NestedKernel plain(replaceAll(text, {{"{ATTRIBUTES} ", ""}}), target);
  NestedKernel isUnsigned(replaceAll(text, {{"ATTRIBUTES", "is_unsigned=true"}}), target);
  std::mt19937 random(4);
  for (int trial = 0; trial < 3000; ++trial) {
    const auto any = [&] {
      const int edges[] = {0, 1, 127, 128, 255};
      return random() % 2 != 0 ? edges[random() % 5] : int(random() & 255);
    };
    const int lo = any(), hi = any(), step = std::max(any(), 1);
    int32_t count = -1;
    isUnsigned.run({slot(&count), slot(uint8_t(lo)), slot(uint8_t(hi)), slot(uint8_t(step))});
    ASSERT_EQ(count, lo < hi ? (hi - lo + step - 1) / step : 0) << lo << " " << hi << " " << step;
    const int slo = int8_t(lo), shi = int8_t(hi), sstep = int8_t(step);
    plain.run({slot(&count), slot(uint8_t(lo)), slot(uint8_t(hi)), slot(uint8_t(step))});
    int want = 0;
    for (int i = slo; sstep > 0 ? i < shi : i > shi; i += sstep) {
      ++want;
    }
    ASSERT_EQ(count, want) << slo << " " << shi << " " << sstep;
  }
}

TEST(Loops, StopWhileAndIf) {
  const char *const text = R"(
func @f stage=nested warps=4 stages=3 (%x: ptr<i32>, %o: ptr<i32>, %n: i32, %limit: i32) {
  %zero = constant {value=0} : i32
  %one = constant {value=1} : i32
  %two = constant {value=2} : i32
  %s = for %zero, %n, %one, %zero {stop=true} : i32 {
  ^(%i: i32, %sum: i32):
    %p = ptr_add %x, %i : ptr<i32>
    %v = load %p : i32
    %next = add %sum, %v : i32
    %done = cmp %next, %limit {predicate=sgt} : i1
    yield %done, %next
  }
  %w0, %w1 = while %s, %zero : i32, i32 {
  ^(%a: i32, %k: i32):
    %go = cmp %a, %one {predicate=sgt} : i1
    yield %go
  } {
  ^(%c: i32, %l: i32):
    %odd = and %c, %one : i32
    %isodd = cmp %odd, %one {predicate=eq} : i1
    %b = if %isodd : i32 {
      %three = constant {value=3} : i32
      %t = mul %c, %three : i32
      %u = add %t, %one : i32
      yield %u
    } {
      %h = sdiv %c, %two : i32
      yield %h
    }
    %k1 = add %l, %one : i32
    yield %b, %k1
  }
  store %o, %w1
  %p1 = ptr_add %o, %one : ptr<i32>
  store %p1, %s
  return
}
)";
  const std::vector<int32_t> x = {3, 1, 4, 1, 5, 9, 2, 6};
  for (const std::string &target : runnableTargets()) {
    NestedKernel kernel(text, target);
    for (int limit : {0, 3, 7, 100}) {
      int32_t out[2] = {};
      kernel.run({slot(x.data()), slot(out), slot(8), slot(limit)});
      int sum = 0, steps = 0;
      for (int v : x) {
        if ((sum += v) > limit) {
          break;
        }
      }
      EXPECT_EQ(out[1], sum) << target;
      for (int a = sum; a > 1; ++steps) {
        a = a % 2 != 0 ? 3 * a + 1 : a / 2;
      }
      EXPECT_EQ(out[0], steps) << target;
    }
  }
}

TEST(Programs, IndicesOfAnyRange) {
  const char *const text = R"(
func @f stage=nested warps=4 stages=3 (%o: ptr<i32>) {
  %x = program_id {axis=0} : i32
  %y = program_id {axis=1} : i32
  %z = program_id {axis=2} : i32
  %nx = num_programs {axis=0} : i32
  %ny = num_programs {axis=1} : i32
  %a = mul %z, %ny : i32
  %b = add %a, %y : i32
  %c = mul %b, %nx : i32
  %d = add %c, %x : i32
  %p = ptr_add %o, %d : ptr<i32>
  %h = constant {value=100} : i32
  %e = mul %z, %h : i32
  %f = add %e, %y : i32
  %g = mul %f, %h : i32
  %i = add %g, %x : i32
  store %p, %i
  return
}
)";
  const std::string target = runnableTargets().back();
  NestedKernel kernel(text, target);
  const Grid grid{5, 3, 4};
  kernel.run({slot(uintptr_t{0})}, {0, 0, 0}, 0, 0);
  for (uint64_t first = 0; first < 60; first += 7) {
    std::vector<int32_t> out(60, -1);
    const uint64_t count = std::min<uint64_t>(9, 60 - first);
    kernel.run({slot(out.data())}, grid, first, count);
    for (uint64_t p = 0; p < 60; ++p) {
      const int want = int(p / 15 * 10000 + p / 5 % 3 * 100 + p % 5);
      EXPECT_EQ(out[p], p >= first && p < first + count ? want : -1) << p;
    }
  }
}

} // namespace
// Every other row of n, in place.
const char *const kEveryOther = R"(
func @f stage=nested warps=4 stages=3 (%x: ptr<f32>, %n: i32, %rows: i32) {
  %zero = constant {value=0} : i32
  %two = constant {value=2} : i32
  for %zero, %rows, %two {
  ^(%r: i32):
    %at = mul %r, %n : i32
    %row = ptr_add %x, %at : ptr<f32>
    nest {extents=[1024], lanes=16, unroll=4} {
    ^(%i: i32):
      %p = ptr_add %row, %i : ptr<f32>
      %v = load %p : f32
      %u = add %v, %v : f32
      store %p, %u
      yield
    }
    yield
  }
  return
}
)";

// What a loop around goes through next is fetched, and behind the last of its runs what lies there.
TEST(Loops, TheNextIterationIsFetchedAhead) {
  codegen::CodeOptions options;
  options.keepLlvm = true;
  for (const std::string &target : runnableTargets()) {
    NestedKernel kernel(kEveryOther, target, options);
    EXPECT_NE(timesAsked(kernel.code()), 0u) << target;
    const std::string other = ", i64 " + std::to_string(codegen::findTarget(target).askAhead) + "\n";
    EXPECT_NE(kernel.code().llvm.find(other), std::string::npos) << target; // the distance is selected
    std::vector<float> x(4 * 1024, 1);
    kernel.run({slot(x.data()), slot(1024), slot(4)});
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(x[i], i / 1024 % 2 == 0 ? 2 : 1) << target << " " << i;
    }
  }
}

} // namespace libtile::test
