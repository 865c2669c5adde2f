// SPDX-License-Identifier: Apache-2.0
// What nests and folds ask of memory ahead, between pages that must not be touched.
#include "tests/cpu/guarded.h"
#include "tests/cpu/run_nested.h"

#include <gtest/gtest.h>

namespace libtile::test {
namespace {

std::string withExtent(std::string text, int extent) {
  const std::string key = "EXTENT";
  for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at)) {
    text.replace(at, key.size(), std::to_string(extent));
  }
  return text;
}

// o[i] = x[i] - (sum of x) - (sum of w's rows). Twice through x, and through w in a loop within the fold.
const char *const kTwice = R"(
func @f stage=nested warps=4 stages=3 (%x: ptr<f32>, %w: ptr<f32>, %o: ptr<f32>, %rows: i32) {
  %zero = constant {value=0} : i32
  %one = constant {value=1} : i32
  %row = constant {value=EXTENT} : i32
  %z = constant {value=0.0} : f32
  %s = fold {extent=EXTENT, lanes=16, unroll=2} : f32 {
  ^(%i: i32):
    %p = ptr_add %x, %i : ptr<f32>
    %v = load %p : f32
    yield %v
  } {
  ^(%a: f32, %b: f32):
    %c = add %a, %b : f32
    yield %c
  }
  %t = fold {extent=EXTENT, lanes=16, unroll=2} : f32 {
  ^(%j: i32):
    %r = for %zero, %rows, %one, %z : f32 {
    ^(%k: i32, %sum: f32):
      %first = mul %k, %row : i32
      %at = add %first, %j : i32
      %q = ptr_add %w, %at : ptr<f32>
      %u = load %q : f32
      %next = add %sum, %u : f32
      yield %next
    }
    yield %r
  } {
  ^(%d: f32, %e: f32):
    %g = add %d, %e : f32
    yield %g
  }
  %both = add %s, %t : f32
  nest {extents=[EXTENT], lanes=16, unroll=2} {
  ^(%n: i32):
    %px = ptr_add %x, %n : ptr<f32>
    %po = ptr_add %o, %n : ptr<f32>
    %old = load %px : f32
    %new = sub %old, %both : f32
    store %po, %new
    yield
  }
  return
}
)";

// Folds ask as nests do, also from a loop within, and what goes through the same rows later asks for none of them.
TEST(Memory, RowsAreFetchedAheadOnce) {
  codegen::CodeOptions options;
  options.keepLlvm = true;
  constexpr int kRows = 3;
  for (const std::string &target : runnableTargets()) {
    for (const int extent : {1008, 1024, 3076}) {
      NestedKernel kernel(withExtent(kTwice, extent), target, options);
      const bool asks = codegen::findTarget(target).askAhead > 0;
      const size_t ofUnrolledStep = !asks || extent * sizeof(float) < 4096 ? 0 : 2;
      const Guarded x(extent * sizeof(float), true), w(kRows * extent * sizeof(float), true), o(extent * sizeof(float), true);
      float sum = 0;
      for (int i = 0; i < kRows * extent; ++i) {
        w.as<float>()[i] = float(i % 5);
        sum += w.as<float>()[i];
      }
      for (int i = 0; i < extent; ++i) {
        x.as<float>()[i] = float(i % 7);
        sum += x.as<float>()[i];
      }
      kernel.run({slot(x.data()), slot(w.data()), slot(o.data()), slot(kRows)});
      for (int i = 0; i < extent; ++i) {
        ASSERT_EQ(o.as<float>()[i], x.as<float>()[i] - sum) << target << " " << extent << " " << i;
      }
      EXPECT_EQ(timesAsked(kernel.code()), 3 * ofUnrolledStep) << target << " " << extent;
    }
  }
}

// o[0] = the sum of (x[i] - (sum of x)) below n, of a row of a loop that goes on by so many rows.
const char *const kBehind = R"(
func @f stage=nested warps=4 stages=3 (%x: ptr<f32>, %o: ptr<f32>, %n: i32, %rows: i32, %step: i32) {
  %zero = constant {value=0} : i32
  for %zero, %rows, %step {
  ^(%r: i32):
    %at = mul %r, %n : i32
    %row = ptr_add %x, %at : ptr<f32>
    %s = fold %n {extent=EXTENT, lanes=16, unroll=2} : f32 {
    ^(%i: i32):
      %p = ptr_add %row, %i : ptr<f32>
      %m = cmp %i, %n {predicate=slt} : i1
      %v = load %p, %m : f32
      yield %v
    } {
    ^(%a: f32, %b: f32):
      %c = add %a, %b : f32
      yield %c
    }
    %t = fold %n {extent=EXTENT, lanes=16, unroll=2} : f32 {
    ^(%j: i32):
      %q = ptr_add %row, %j : ptr<f32>
      %k = cmp %j, %n {predicate=slt} : i1
      %u = load %q, %k, %s : f32
      %w = sub %u, %s : f32
      yield %w
    } {
    ^(%d: f32, %e: f32):
      %f = add %d, %e : f32
      yield %f
    }
    %po = ptr_add %o, %r : ptr<f32>
    store %po, %t
    yield
  }
  return
}
)";

// A later fold that stores nothing asks for the next iteration's row, or behind the last for what lies there, as far as the
// row goes, and its masked rest for both lines that it may touch; behind the array nothing faults.
TEST(AskAhead, TheLastThroughARowAsksForWhatLiesBehind) {
  codegen::CodeOptions options;
  options.keepLlvm = true;
  constexpr int kExtent = 1024, kRows = 5;
  for (const std::string &target : runnableTargets()) {
    NestedKernel kernel(withExtent(kBehind, kExtent), target, options);
    EXPECT_EQ(timesAsked(kernel.code()), 2 * (2 + 2)) << target; // steps and rests of both
    EXPECT_NE(kernel.code().llvm.find("i32 0, i32 2, i32 1)"), std::string::npos) << target; // into the second cache
    // The first chooses between nothing, as the later one asks for the next iteration's row, and half a page further on.
    const std::string &text = kernel.code().llvm;
    const size_t choice = text.find(" = select i1 ");
    EXPECT_EQ(text.find(", i64 0, i64 ", choice), text.find(", i64 ", choice)) << target;
    for (const int n : {kExtent, 781, 16, 5}) {
      for (const int step : {1, 2, kRows}) {
        const Guarded x(kRows * n * sizeof(float), true), o(kRows * sizeof(float), true);
        for (int i = 0; i < kRows * n; ++i) {
          x.as<float>()[i] = float(i % 7);
        }
        kernel.run({slot(x.data()), slot(o.data()), slot(n), slot(kRows), slot(step)});
        for (int row = 0; row < kRows; row += step) {
          float sum = 0;
          for (int i = 0; i < n; ++i) {
            sum += x.as<float>()[row * n + i];
          }
          EXPECT_EQ(o.as<float>()[row], sum - float(n) * sum) << target << " " << n << " " << row;
        }
      }
    }
  }
}

} // namespace
} // namespace libtile::test
