// SPDX-License-Identifier: Apache-2.0
// Facts and aliasing of the address patterns that kernels are made of, as the back ends ask for
// them.
#include "ir/ops.h"
#include "ir/parser.h"
#include "passes/analysis/alias.h"
#include "passes/analysis/facts.h"
#include "passes/eliminate_common_subexpressions.h"
#include "passes/eliminate_dead_code.h"
#include "passes/hoist_loop_invariants.h"
#include "passes/request_guards.h"
#include "passes/simplify.h"
#include "passes/split_carried_offsets.h"

#include <gtest/gtest.h>

namespace libtile::test {
namespace {

using ir::Function;
using ir::Opcode;
using ir::OpId;
using ir::ValueId;
using passes::Facts;

std::vector<OpId> opsOf(const Function &fn, Opcode opcode) {
  std::vector<OpId> found;
  for (OpId op : fn.walk()) {
    if (fn.opcode(op) == opcode) {
      found.push_back(op);
    }
  }
  return found;
}

Function prepared(const char *text) {
  Function fn = ir::parse(text);
  const ir::Target target;
  const passes::PassContext context{target};
  for (passes::PassFn pass :
       {passes::simplify, passes::splitCarriedOffsets, passes::eliminateCommonSubexpressions,
        passes::hoistLoopInvariants, passes::simplify, passes::eliminateCommonSubexpressions,
        passes::eliminateDeadCode}) {
    pass(fn, context);
  }
  return fn;
}

constexpr const char *kAdd = R"(
func @add stage=tile warps=4 stages=3 (%x: ptr<f32> {divisible=16}, %out: ptr<f32> {divisible=16}, %n: i32 {divisible=16}) {
  %0 = program_id {axis=0} : i32
  %1 = constant {value=1024} : i32
  %2 = mul %0, %1 : i32
  %3 = arange {start=0} : tile<1024xi32>
  %4 = splat %2 : tile<1024xi32>
  %5 = add %4, %3 : tile<1024xi32>
  %6 = splat %n : tile<1024xi32>
  %7 = cmp %5, %6 {predicate=slt} : tile<1024xi1>
  %8 = splat %x : tile<1024xptr<f32>>
  %9 = ptr_add %8, %5 : tile<1024xptr<f32>>
  %10 = load %9, %7 : tile<1024xf32>
  %11 = splat %out : tile<1024xptr<f32>>
  %12 = ptr_add %11, %5 : tile<1024xptr<f32>>
  store %12, %10, %7
  return
}
)";

TEST(FactsCases, VectorAdd) {
  const Function fn = prepared(kAdd);
  const Facts facts = passes::computeFacts(fn);
  const OpId load = opsOf(fn, Opcode::Load)[0];
  const ValueId pointer = fn.operand(load, 0), mask = fn.operand(load, 1);
  EXPECT_EQ(facts.access().maxVectorElements(pointer, 0), 4);
  EXPECT_EQ(facts.access().maxVectorElements(pointer, 0, 8), 2);
  EXPECT_EQ(facts.access().equalGroup(mask, 0), 16);
  EXPECT_EQ(facts.access().constantStride(pointer, 0), 4);
  ASSERT_NE(facts.access().affine(pointer), nullptr);
  EXPECT_EQ(facts.access().affine(pointer)->base, fn.arg(fn.body(), 0));
  EXPECT_EQ(facts.range(mask), (passes::IntRange{0, 1}));
}

TEST(FactsCases, UnalignedParameterGivesScalars) {
  std::string text = kAdd;
  text.replace(text.find(" {divisible=16}"), 15, " {divisible=4}");
  const Function fn = prepared(text.c_str());
  const Facts facts = passes::computeFacts(fn);
  const OpId load = opsOf(fn, Opcode::Load)[0];
  EXPECT_EQ(facts.access().maxVectorElements(fn.operand(load, 0), 0), 1);
  EXPECT_EQ(facts.access().run(fn.operand(load, 0), 0).elements, 1024);
}

// Tiles whose extent is not a power of two.
TEST(FactsCases, Block1000) {
  std::string text = kAdd;
  for (size_t at = 0; (at = text.find("1024", at)) != std::string::npos; at += 4) {
    text.replace(at, 4, "1000");
  }
  const Function fn = prepared(text.c_str());
  const Facts facts = passes::computeFacts(fn);
  const OpId load = opsOf(fn, Opcode::Load)[0];
  EXPECT_EQ(facts.access().maxVectorElements(fn.operand(load, 0), 0), 4);
  EXPECT_EQ(facts.access().equalGroup(fn.operand(load, 1), 0), 8);
}

// The tutorial's matmul, rows and columns modulo M and N, pointers advanced in the loop.
constexpr const char *kMatmul = R"(
func @matmul stage=tile warps=4 stages=3 (%a: ptr<f16> {divisible=16}, %b: ptr<f16> {divisible=16}, %c: ptr<f16> {divisible=16}, %M: i32 {divisible=16}, %N: i32 {divisible=16}, %K: i32 {divisible=16}, %sam: i32 {divisible=16}, %sbk: i32 {divisible=16}) {
  %pm = program_id {axis=0} : i32
  %pn = program_id {axis=1} : i32
  %c128 = constant {value=128} : i32
  %0 = mul %pm, %c128 : i32
  %1 = arange {start=0} : tile<128xi32>
  %2 = splat %0 : tile<128xi32>
  %3 = add %2, %1 : tile<128xi32>
  %4 = splat %M : tile<128xi32>
  %5 = srem %3, %4 : tile<128xi32>
  %6 = mul %pn, %c128 : i32
  %7 = splat %6 : tile<128xi32>
  %8 = add %7, %1 : tile<128xi32>
  %9 = splat %N : tile<128xi32>
  %10 = srem %8, %9 : tile<128xi32>
  %11 = arange {start=0} : tile<64xi32>
  %12 = expand_dims %5 {axis=1} : tile<128x1xi32>
  %13 = splat %sam : tile<128x1xi32>
  %14 = mul %12, %13 : tile<128x1xi32>
  %15 = expand_dims %11 {axis=0} : tile<1x64xi32>
  %16 = broadcast %14 : tile<128x64xi32>
  %17 = broadcast %15 : tile<128x64xi32>
  %18 = add %16, %17 : tile<128x64xi32>
  %19 = splat %a : tile<128x64xptr<f16>>
  %20 = ptr_add %19, %18 : tile<128x64xptr<f16>>
  %21 = expand_dims %11 {axis=1} : tile<64x1xi32>
  %22 = splat %sbk : tile<64x1xi32>
  %23 = mul %21, %22 : tile<64x1xi32>
  %24 = expand_dims %10 {axis=0} : tile<1x128xi32>
  %25 = broadcast %23 : tile<64x128xi32>
  %26 = broadcast %24 : tile<64x128xi32>
  %27 = add %25, %26 : tile<64x128xi32>
  %28 = splat %b : tile<64x128xptr<f16>>
  %29 = ptr_add %28, %27 : tile<64x128xptr<f16>>
  %30 = constant {value=0.0} : tile<128x128xf32>
  %31 = constant {value=0} : i32
  %32 = constant {value=1} : i32
  %c63 = constant {value=63} : i32
  %33 = add %K, %c63 : i32
  %c64 = constant {value=64} : i32
  %34 = sdiv %33, %c64 : i32
  %s64 = constant {value=64} : tile<128x64xi32>
  %35 = mul %sbk, %c64 : i32
  %36 = splat %35 : tile<64x128xi32>
  %37, %38, %39 = for %31, %34, %32, %30, %20, %29 : tile<128x128xf32>, tile<128x64xptr<f16>>, tile<64x128xptr<f16>> {
  ^(%40: i32, %41: tile<128x128xf32>, %42: tile<128x64xptr<f16>>, %43: tile<64x128xptr<f16>>):
    %44 = mul %40, %c64 : i32
    %45 = sub %K, %44 : i32
    %46 = splat %45 : tile<1x64xi32>
    %47 = cmp %15, %46 {predicate=slt} : tile<1x64xi1>
    %48 = broadcast %47 : tile<128x64xi1>
    %49 = load %42, %48 : tile<128x64xf16>
    %50 = splat %45 : tile<64x1xi32>
    %51 = cmp %21, %50 {predicate=slt} : tile<64x1xi1>
    %52 = broadcast %51 : tile<64x128xi1>
    %53 = load %43, %52 : tile<64x128xf16>
    %54 = constant {value=0.0} : tile<128x128xf32>
    %55 = dot %49, %53, %54 : tile<128x128xf32>
    %56 = add %41, %55 : tile<128x128xf32>
    %57 = ptr_add %42, %s64 : tile<128x64xptr<f16>>
    %58 = ptr_add %43, %36 : tile<64x128xptr<f16>>
    yield %56, %57, %58
  }
  %60 = splat %c : tile<128x128xptr<f16>>
  %61 = fptrunc %37 : tile<128x128xf16>
  store %60, %61
  return
}
)";

TEST(FactsCases, Matmul) {
  const Function fn = prepared(kMatmul);
  const Facts facts = passes::computeFacts(fn);
  const auto loads = opsOf(fn, Opcode::Load);
  ASSERT_EQ(loads.size(), 2U);
  // Rows of a lie along k; columns of b are runs of 16, which M and N divide.
  EXPECT_EQ(facts.access().maxVectorElements(fn.operand(loads[0], 0), 1), 8) << fn.str() << facts.str(fn);
  EXPECT_EQ(facts.access().maxVectorElements(fn.operand(loads[1], 0), 1), 8);
  EXPECT_EQ(facts.access().equalGroup(fn.operand(loads[0], 1), 1), 16);
  EXPECT_EQ(facts.access().equalGroup(fn.operand(loads[0], 1), 0), 128);
  EXPECT_EQ(facts.access().equalGroup(fn.operand(loads[1], 1), 1), 128);
  // The dot has its accumulator, and no tile of pointers is carried.
  const OpId loop = opsOf(fn, Opcode::For)[0];
  for (ValueId result : fn.results(loop)) {
    EXPECT_FALSE(fn.type(result).isTile() && fn.type(result).isPointer());
  }
  EXPECT_TRUE(fn.isArg(fn.operand(opsOf(fn, Opcode::Dot)[0], 2)));
}

// The grouped order of programs: pn is a quotient whose sign the program does not show.
TEST(FactsCases, MatmulGrouped) {
  std::string text = kMatmul;
  const std::string pn = "%pn = program_id {axis=1} : i32";
  text.replace(
      text.find(pn), pn.size(),
      "%q = program_id {axis=1} : i32\n  %g = sub %K, %q : i32\n  %pn = sdiv %q, %g : i32");
  const Function fn = prepared(text.c_str());
  const Facts facts = passes::computeFacts(fn);
  EXPECT_EQ(facts.access().maxVectorElements(fn.operand(opsOf(fn, Opcode::Load)[1], 0), 1), 8)
      << fn.str() << facts.str(fn);
}

// Without the remainder the pointers are affine, and k is a symbol of the loop.
TEST(FactsCases, MatmulAffine) {
  std::string text = kMatmul;
  text.replace(text.find("srem %3, %4"), 11, "smax %3, %3");
  const Function fn = prepared(text.c_str());
  const Facts facts = passes::computeFacts(fn);
  const ValueId pointer = fn.operand(opsOf(fn, Opcode::Load)[0], 0);
  const passes::AffineForm *form = facts.access().affine(pointer);
  ASSERT_NE(form, nullptr) << fn.str();
  EXPECT_EQ(form->strides[1], passes::Polynomial(2));
  EXPECT_EQ(form->strides[0].monomials().size(), 1U);
  EXPECT_EQ(facts.access().constantStride(pointer, 1), 2);
  EXPECT_EQ(facts.access().constantStride(pointer, 0), std::nullopt);
}

TEST(Alias, Parameters) {
  Function fn = prepared(kAdd);
  const ir::Target target;
  const Facts facts = passes::computeFacts(fn);
  const OpId load = opsOf(fn, Opcode::Load)[0], store = opsOf(fn, Opcode::Store)[0];
  EXPECT_TRUE(passes::mayConflict(fn, load, store, facts));
  EXPECT_TRUE(passes::mayWriteTo(fn, fn.body(), load, facts));
  passes::requestGuards(fn, {target});
  EXPECT_FALSE(passes::mayConflict(fn, load, store, facts));
  EXPECT_FALSE(passes::mayWriteTo(fn, fn.body(), load, facts));
  EXPECT_EQ(passes::basePointer(fn, fn.operand(load, 0), facts), fn.arg(fn.body(), 0));
}

TEST(Alias, SameBase) {
  const Function fn = prepared(R"(
func @f stage=tile warps=4 stages=3 (%x: ptr<f32>, %s: i32) {
  %0 = arange {start=0} : tile<64xi32>
  %1 = splat %x : tile<64xptr<f32>>
  %2 = ptr_add %1, %0 : tile<64xptr<f32>>
  %3 = load %2 : tile<64xf32>
  store %2, %3
  %4 = constant {value=64} : tile<64xi32>
  %5 = ptr_add %2, %4 : tile<64xptr<f32>>
  store %5, %3
  %6 = constant {value=63} : tile<64xi32>
  %7 = ptr_add %2, %6 : tile<64xptr<f32>>
  store %7, %3
  %8 = splat %s : tile<64xi32>
  %9 = ptr_add %2, %8 : tile<64xptr<f32>>
  store %9, %3
  store %1, %3
  return
}
)");
  const Facts facts = passes::computeFacts(fn);
  const ValueId pointer = fn.operand(opsOf(fn, Opcode::Load)[0], 0);
  const auto stores = opsOf(fn, Opcode::Store);
  const auto to = [&](size_t i) { return fn.operand(stores[i], 0); };
  EXPECT_TRUE(passes::sameElements(fn, pointer, to(0), facts));
  EXPECT_FALSE(passes::mayAlias(fn, pointer, to(1), facts));
  EXPECT_TRUE(passes::mayAlias(fn, pointer, to(2), facts));
  EXPECT_FALSE(passes::sameElements(fn, pointer, to(2), facts));
  EXPECT_TRUE(passes::mayAlias(fn, pointer, to(3), facts));
  EXPECT_FALSE(passes::sameElements(fn, to(4), to(4), facts)) << "all elements are one address";
}

// The halves of rows, of which each tile takes one; and rows that the first tile's reach into.
TEST(Alias, TilesThatInterleave) {
  const Function fn = prepared(R"(
func @f stage=tile warps=4 stages=3 (%x: ptr<f32>, %n: i32) {
  %0 = arange {start=0} : tile<32xi32>
  %1 = expand_dims %0 {axis=0} : tile<1x32xi32>
  %2 = broadcast %1 : tile<8x32xi32>
  %3 = arange {start=0} : tile<8xi32>
  %4 = expand_dims %3 {axis=1} : tile<8x1xi32>
  %5 = constant {value=64} : tile<8x1xi32>
  %6 = mul %4, %5 : tile<8x1xi32>
  %7 = broadcast %6 : tile<8x32xi32>
  %8 = add %2, %7 : tile<8x32xi32>
  %9 = ptr_add %x, %n : ptr<f32>
  %10 = splat %9 : tile<8x32xptr<f32>>
  %11 = ptr_add %10, %8 : tile<8x32xptr<f32>>
  %12 = load %11 : tile<8x32xf32>
  %13 = constant {value=32} : tile<8x32xi32>
  %14 = ptr_add %11, %13 : tile<8x32xptr<f32>>
  store %14, %12
  %15 = constant {value=31} : tile<8x32xi32>
  %16 = ptr_add %11, %15 : tile<8x32xptr<f32>>
  store %16, %12
  %17 = constant {value=33} : tile<8x32xi32>
  %18 = ptr_add %11, %17 : tile<8x32xptr<f32>>
  store %18, %12
  %19 = constant {value=-32} : tile<8x32xi32>
  %20 = ptr_add %11, %19 : tile<8x32xptr<f32>>
  store %20, %12
  return
}
)");
  const Facts facts = passes::computeFacts(fn);
  const ValueId pointer = fn.operand(opsOf(fn, Opcode::Load)[0], 0);
  const auto stores = opsOf(fn, Opcode::Store);
  const auto meets = [&](size_t i) { return passes::mayAlias(fn, fn.operand(stores[i], 0), pointer, facts); };
  EXPECT_FALSE(meets(0));
  EXPECT_TRUE(meets(1)) << "the first half's last column";
  EXPECT_TRUE(meets(2)) << "the next row's first column";
  EXPECT_FALSE(meets(3));
}

TEST(Alias, AcrossIterations) {
  const Function fn = prepared(R"(
func @f stage=tile warps=4 stages=3 (%x: ptr<f32>, %n: i32) {
  %0 = arange {start=0} : tile<64xi32>
  %1 = splat %x : tile<64xptr<f32>>
  %2 = ptr_add %1, %0 : tile<64xptr<f32>>
  %3 = constant {value=0} : i32
  %4 = constant {value=64} : i32
  for %3, %n, %4 {
  ^(%5: i32):
    %6 = splat %5 : tile<64xi32>
    %7 = ptr_add %2, %6 : tile<64xptr<f32>>
    %8 = load %7 : tile<64xf32>
    %9 = constant {value=64} : tile<64xi32>
    %10 = ptr_add %7, %9 : tile<64xptr<f32>>
    store %10, %8
    yield
  }
  return
}
)");
  const Facts facts = passes::computeFacts(fn);
  const OpId load = opsOf(fn, Opcode::Load)[0], store = opsOf(fn, Opcode::Store)[0];
  EXPECT_FALSE(passes::mayAlias(fn, fn.operand(load, 0), fn.operand(store, 0), facts));
  EXPECT_TRUE(
      passes::mayAliasAcross(fn, fn.block(load), fn.operand(load, 0), fn.operand(store, 0), facts));
}

TEST(Facts, HintsAndAssumptions) {
  const Function fn = ir::parse(R"(
func @f stage=tile warps=4 stages=3 (%x: ptr<f32> {divisible=16}, %i: ptr<i32>, %s: i32) {
  %0 = arange {start=0} : tile<64xi32>
  %1 = splat %i : tile<64xptr<i32>>
  %2 = ptr_add %1, %0 : tile<64xptr<i32>>
  %3 = load %2 : tile<64xi32>
  %4 = hint %3 {divisible=[8], contiguous=[8]} : tile<64xi32>
  %5 = splat %x : tile<64xptr<f32>>
  %6 = ptr_add %5, %4 : tile<64xptr<f32>>
  %7 = constant {value=8} : i32
  %8 = srem %s, %7 : i32
  %9 = constant {value=0} : i32
  %10 = cmp %8, %9 {predicate=eq} : i1
  assume %10
  %11 = cmp %s, %9 {predicate=sgt} : i1
  assume %11
  return
}
)");
  const Facts facts = passes::computeFacts(fn);
  const auto sums = opsOf(fn, Opcode::PtrAdd);
  EXPECT_EQ(facts.access().maxVectorElements(fn.result(sums[1]), 0), 4);
  EXPECT_EQ(facts.divisible(fn.arg(fn.body(), 2)), 8);
  EXPECT_EQ(facts.range(fn.arg(fn.body(), 2)).lo, 1);
}

// A run of 12 is no group of 8, and narrow integers that wrap are no run of addresses.
TEST(FactsCases, RunsOfNoPowerOfTwo) {
  const Function fn = ir::parse(R"(
func @f stage=tile warps=1 stages=3 (%x: ptr<f32> {divisible=16}, %i: ptr<i32>, %n: i32, %b: i8) {
  %0 = arange {start=0} : tile<48xi32>
  %1 = splat %i : tile<48xptr<i32>>
  %2 = ptr_add %1, %0 : tile<48xptr<i32>>
  %3 = load %2 : tile<48xi32>
  %4 = hint %3 {constant=[12]} : tile<48xi32>
  %5 = splat %n : tile<48xi32>
  %6 = cmp %4, %5 {predicate=slt} : tile<48xi1>
  %7 = trunc %0 : tile<48xi8>
  %8 = splat %b : tile<48xi8>
  %9 = add %7, %8 : tile<48xi8>
  %10 = splat %x : tile<48xptr<f32>>
  %11 = ptr_add %10, %9 : tile<48xptr<f32>>
  %12 = ptr_add %10, %7 : tile<48xptr<f32>>
  return
}
)");
  const Facts facts = passes::computeFacts(fn);
  EXPECT_EQ(facts.axis(fn.result(opsOf(fn, Opcode::Hint)[0]), 0).constant, 12);
  EXPECT_EQ(facts.equalGroup(fn.result(opsOf(fn, Opcode::Cmp)[0]), 0), 4);
  const auto sums = opsOf(fn, Opcode::PtrAdd);
  EXPECT_EQ(facts.access().run(fn.result(sums[1]), 0).elements, 1);
  EXPECT_EQ(facts.access().affine(fn.result(sums[1])), nullptr);
  EXPECT_EQ(facts.access().maxVectorElements(fn.result(sums[2]), 0), 4);
  EXPECT_NE(facts.affine(fn.result(sums[2])), nullptr);
  for (const int64_t extent : {1, 8, 12, 48}) {
    for (int64_t run = 1; run <= 60; ++run) {
      const int64_t group = passes::alignedGroup(run, extent);
      EXPECT_EQ(group & (group - 1), 0);
      for (int64_t k = 0; k < extent; ++k) {
        EXPECT_EQ((k - k % group) / run, k / run) << run << " of " << extent;
      }
    }
  }
}

// docs/semantics.md: a dividend that feeds an address is not negative, unless its bounds show that it may be.
// That is no proof for anybody else.
TEST(FactsCases, DividendsThatMayBeNegative) {
  // The run of (dividend % M), M a multiple of 16, as promised and as proved; the dividend is %3.
  using Runs = std::pair<int64_t, int64_t>;
  const auto runOf = [](const std::string &dividend) {
    const Function fn = ir::parse(R"(
func @f stage=tile warps=4 stages=3 (%M: i32 {divisible=16}, %s: i32 {divisible=16}) {
  %0 = arange {start=0} : tile<64xi32>
  )" + dividend + R"(
  %4 = splat %M : tile<64xi32>
  %5 = srem %3, %4 : tile<64xi32>
  return
}
)");
    const Facts facts = passes::computeFacts(fn);
    const ValueId remainder = fn.result(opsOf(fn, Opcode::SRem)[0]);
    return Runs{facts.access().axis(remainder, 0).contiguous, facts.axis(remainder, 0).contiguous};
  };
  const auto startingAt = [](int64_t start) {
    return "%3 = arange {start=" + std::to_string(start) + "} : tile<64xi32>";
  };
  const auto atLeast = [](int64_t bound) {
    return "%k = constant {value=" + std::to_string(bound) + R"(} : i32
  %1 = smax %s, %k : i32
  %2 = splat %1 : tile<64xi32>
  %3 = add %2, %0 : tile<64xi32>)";
  };
  EXPECT_EQ(runOf(startingAt(16)), Runs(16, 16));
  EXPECT_EQ(runOf(startingAt(-16)), Runs(1, 1));
  EXPECT_EQ(runOf(startingAt(-1073741824)), Runs(1, 1)); // below 0 as a whole
  EXPECT_EQ(runOf(atLeast(0)), Runs(16, 1));             // the sum may wrap
  EXPECT_EQ(runOf(atLeast(-16)), Runs(1, 1));
  EXPECT_EQ(runOf(atLeast(-1073741808)), Runs(1, 1));
  EXPECT_EQ(runOf(atLeast(-1073741824)), Runs(16, 1)); // -2^30 shows nothing
}

} // namespace
} // namespace libtile::test
