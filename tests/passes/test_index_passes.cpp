// SPDX-License-Identifier: Apache-2.0
// Laws of the passes that replace what is computed of indices: where they change a function it computes what it did.
#include "codegen/codegen.h"
#include "ir/parser.h"
#include "ir/verifier.h"
#include "passes/gpu/skip_masks.h"
#include "passes/gpu/unwrap_indices.h"
#include "tests/passes/evaluate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace libtile::test {
namespace {

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::vector<uint8_t> memoryAfter(const ir::Function &fn, std::vector<Element> arguments, Machine machine) {
  evaluate(fn, arguments, machine);
  return machine.memory;
}

// The elements of a tile where the mask of two sides says so, for two values of a loop's index.
const char *const kMasked = R"(
func @masked stage=tile warps=1 stages=3 (%out: ptr<i32>, %s: i32, %t: i32) {
  %i = arange {start=0} : tile<8xi32>
  %j = arange {start=0} : tile<64xi32>
  %ie = expand_dims %i {axis=1} : tile<8x1xi32>
  %je = expand_dims %j {axis=0} : tile<1x64xi32>
  %rows = broadcast %ie : tile<8x64xi32>
  %cols = broadcast %je : tile<8x64xi32>
  %c64 = constant {value=64} : tile<8x64xi32>
  %r64 = mul %rows, %c64 : tile<8x64xi32>
  %at = add %r64, %cols : tile<8x64xi32>
  %outs = splat %out : tile<8x64xptr<i32>>
  %none = constant {value=-1} : tile<8x64xi32>
  %p = constant {value=P} : tile<8x64xi32>
  %q = constant {value=Q} : tile<8x64xi32>
  %rp = mul %rows, %p : tile<8x64xi32>
  %cq = mul %cols, %q : tile<8x64xi32>
  %ss = splat %s : tile<8x64xi32>
  %lo = constant {value=0} : i32
  %hi = constant {value=H} : i32
  %step = constant {value=E} : i32
  for %lo, %hi, %step {
  ^(%k: i32):
    %kt = add %k, %t : i32
    %kts = splat %kt : tile<8x64xi32>
    %a0 = add %ss, %rp : tile<8x64xi32>
    %b0 = add %kts, %cq : tile<8x64xi32>
    %m = cmp A, B {predicate=C} : tile<8x64xi1>
    %m2 = cmp %kts, %ss {predicate=slt} : tile<8x64xi1>
    %both = and %m, MORE : tile<8x64xi1>
    %left = constant {value=0} : tile<8x16xi8>
    %right = constant {value=0} : tile<16x64xi8>
    %sums = dot %left, %right, %at : tile<8x64xi32>
    %v = select %both, %sums, %none : tile<8x64xi32>
    %ks = splat %k : tile<8x64xi32>
    %w = mul %ks, %c64 : tile<8x64xi32>
    %e = constant {value=8} : tile<8x64xi32>
    %wide = mul %w, %e : tile<8x64xi32>
    %to = add %at, %wide : tile<8x64xi32>
    %ptr = ptr_add %outs, %to : tile<8x64xptr<i32>>
    store %ptr, %v
    yield
  }
  return
}
)";

TEST(SkipMasks, LeavesWhatIsComputed) {
  std::mt19937_64 random(3);
  const auto one = [&](auto... choices) {
    const std::string all[] = {std::string(choices)...};
    return all[random() % sizeof...(choices)];
  };
  unsigned skipped = 0, allTrue = 0;
  for (int round = 0; round < 150; ++round) {
    std::string text = replaced(kMasked, "value=P", "value=" + one("0", "1", "-1", "64", "-3", "40000000"));
    text = replaced(text, "value=Q", "value=" + one("0", "1", "-1", "5", "-40000000", "1000"));
    text = replaced(replaced(text, "value=H", "value=4"), "value=E", "value=1");
    const bool turned = random() % 2 == 0;
    text = replaced(text, "cmp A, B", turned ? "cmp %b0, %a0" : "cmp %a0, %b0");
    text = replaced(replaced(text, "=C}", "=" + one("slt", "sle", "sgt", "sge") + "}"), "MORE", one("%m", "%m", "%m2"));
    ir::Function fn = ir::parse(text);
    const ir::Function before = fn.clone();
    const passes::PassContext context{codegen::findTarget("sm_90a")};
    ASSERT_TRUE(passes::skipMasks(fn, context));
    ASSERT_TRUE(ir::verify(fn).empty()) << fn.str();
    ++skipped;
    const int64_t ends[] = {0, 1, -1, 100, -100, INT32_MAX, INT32_MAX - 5, INT32_MAX - 70, INT32_MIN, INT32_MIN + 6, INT32_MIN + 300};
    for (const int64_t s : ends) {
      const int64_t t = ends[random() % std::size(ends)];
      Machine machine;
      machine.memory.assign(4 * 8 * 64 * 4, 0xA5);
      const std::vector<Element> arguments = {{0, 0}, {s, 0}, {t, 0}};
      const auto want = memoryAfter(before, arguments, machine);
      ASSERT_EQ(memoryAfter(fn, arguments, machine), want) << s << " " << t << fn.str();
      std::vector<int32_t> stored(want.size() / 4);
      std::memcpy(stored.data(), want.data(), want.size());
      allTrue += std::ranges::count(stored, -1) == 0 ? 1 : 0;
    }
  }
  EXPECT_EQ(skipped, 150U);
  EXPECT_GT(allTrue, 150U) << "hardly a mask is true everywhere";
}

// Rows of a 16-column array, from the program's on, that wrap around at %m.
const char *const kWrapped = R"(
func @wrapped stage=tile warps=4 stages=3 (%a: ptr<f32>, %out: ptr<f32>, %m: i32) {
  %pid = program_id {axis=0} : i32
  %tile = constant {value=N} : i32
  %first = mul %pid, %tile : i32
  %i = arange {start=0} : tile<Nxi32>
  %firsts = splat %first : tile<Nxi32>
  %rows = add %firsts, %i : tile<Nxi32>
  %ms = splat %m : tile<Nxi32>
  %wrapped = srem %rows, %ms : tile<Nxi32>
  %r = expand_dims %wrapped {axis=1} : tile<Nx1xi32>
  %c16 = constant {value=16} : tile<Nx1xi32>
  %ra = mul %r, %c16 : tile<Nx1xi32>
  %as = splat %a : tile<Nx1xptr<f32>>
  %p2 = ptr_add %as, %ra : tile<Nx1xptr<f32>>
  %p3 = broadcast %p2 : tile<Nx16xptr<f32>>
  %j = arange {start=0} : tile<16xi32>
  %je = expand_dims %j {axis=0} : tile<1x16xi32>
  %js = broadcast %je : tile<Nx16xi32>
  %ap = ptr_add %p3, %js : tile<Nx16xptr<f32>>
  %x = load %ap : tile<Nx16xf32>
  %y = trans %x {order=[1, 0]} : tile<16xNxf32>
  %zero = constant {value=0.0} : tile<NxNxf32>
  %lo = constant {value=0} : i32
  %one = constant {value=1} : i32
  %sum = for %lo, %one, %one, %zero : tile<NxNxf32> {
  ^(%k: i32, %acc: tile<NxNxf32>):
    %s = dot %x, %y, %acc : tile<NxNxf32>
    yield %s
  }
  %i32 = arange {start=0} : tile<Nxi32>
  %ie = expand_dims %i32 {axis=1} : tile<Nx1xi32>
  %n = constant {value=N} : tile<Nx1xi32>
  %in = mul %ie, %n : tile<Nx1xi32>
  %ins = broadcast %in : tile<NxNxi32>
  %i0 = expand_dims %i32 {axis=0} : tile<1xNxi32>
  %i0s = broadcast %i0 : tile<NxNxi32>
  %to = add %ins, %i0s : tile<NxNxi32>
  %os = splat %out : tile<NxNxptr<f32>>
  %op = ptr_add %os, %to : tile<NxNxptr<f32>>
  store %op, %sum
  return
}
)";

TEST(UnwrapIndices, LeavesWhatIsComputed) {
  for (const int n : {16, 12}) {
    const std::string extent = std::to_string(n);
    std::string text = replaced(replaced(kWrapped, "<N", "<" + extent), "xNx", "x" + extent + "x");
    text = replaced(text, "value=N}", "value=" + extent + "}");
    ir::Function fn = ir::parse(text);
    const ir::Function before = fn.clone();
    passes::PassContext context{codegen::findTarget("sm_90a")};
    EXPECT_FALSE(passes::unwrapIndices(fn, context));
    context.copiesBoxes = true;
    ASSERT_TRUE(passes::unwrapIndices(fn, context));
    ASSERT_TRUE(ir::verify(fn).empty()) << fn.str();
    ASSERT_EQ(fn.guards.size(), 2U);
    for (int program = 0; program < 9; ++program) {
      for (int m = n; m <= 4 * n; m += n) {
        Machine machine;
        const size_t bytes = static_cast<size_t>(m) * 16 * 4;
        machine.memory.assign(bytes + static_cast<size_t>(n) * n * 4, 0);
        for (size_t i = 0; i < bytes / 4; ++i) {
          const float value = static_cast<float>(i * 7 % 31);
          std::memcpy(&machine.memory[4 * i], &value, 4);
        }
        machine.program[0] = program;
        const std::vector<Element> arguments = {{0, 0}, {static_cast<int64_t>(bytes), 0}, {m, 0}};
        ASSERT_EQ(memoryAfter(fn, arguments, machine), memoryAfter(before, arguments, machine)) << program << " of " << m;
      }
    }
  }
}

} // namespace
} // namespace libtile::test
