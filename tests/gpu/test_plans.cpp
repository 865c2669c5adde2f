// SPDX-License-Identifier: Apache-2.0
// What the planner of copies ahead refuses, and how many warps a kernel gets.
#include "codegen/codegen.h"
#include "ir/ops.h"
#include "ir/parser.h"
#include "passes/analysis/facts.h"
#include "passes/gpu/plan_pipeline.h"
#include "passes/gpu/propose_layouts.h"
#include "passes/gpu/spread_warps.h"
#include "passes/gpu/reduce_plan.h"
#include "passes/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace libtile;

namespace {

std::string replaced(std::string text, const std::string &what, const std::string &by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

struct LoopCase {
  std::string index = "i32", lo = "%zero", hi = "%n", step = "32", other = "0.0", inside, before;
  std::string elem = "f16", left = "%x";
};

// A loop of 32x32x32 dots.
std::string loopText(const LoopCase &c) {
  std::string text = R"(
func @dot stage=tile warps=4 stages=3 (%a: ptr<ELEM> {divisible=16}, %b: ptr<ELEM> {divisible=16}, %c: ptr<f32> {divisible=16}, %flag: ptr<i32>, %short: i32, %n: INDEX, %m: INDEX) {
  %i = arange {start=0} : tile<32xi32>
  %r = expand_dims %i {axis=1} : tile<32x1xi32>
  %c1 = expand_dims %i {axis=0} : tile<1x32xi32>
  %w = constant {value=32} : tile<32x1xi32>
  %rw = mul %r, %w : tile<32x1xi32>
  %rb = broadcast %rw : tile<32x32xi32>
  %cb = broadcast %c1 : tile<32x32xi32>
  %off = add %rb, %cb : tile<32x32xi32>
  %as = splat %a : tile<32x32xptr<ELEM>>
  %bs = splat %b : tile<32x32xptr<ELEM>>
  %cs = splat %c : tile<32x32xptr<f32>>
  %ap = ptr_add %as, %off : tile<32x32xptr<ELEM>>
  %bp = ptr_add %bs, %off : tile<32x32xptr<ELEM>>
  %cp = ptr_add %cs, %off : tile<32x32xptr<f32>>
  %other = constant {value=OTHER} : tile<32x32xELEM>
  %limit = constant {value=24} : tile<32x32xi32>
  %mask = cmp %cb, %limit {predicate=slt} : tile<32x32xi1>
  BEFORE
  %acc0 = constant {value=0.0} : tile<32x32xf32>
  %q = load %ap : tile<32x32xELEM>
  %zero = constant {value=0} : INDEX
  %end = constant {value=4096} : INDEX
  %one = constant {value=1} : i32
  %step = constant {value=STEP} : INDEX
  %sum = for LO, HI, %step, %acc0 : tile<32x32xf32> {
  ^(%k: INDEX, %acc: tile<32x32xf32>):
    INSIDE
    %ks = splat %k : tile<32x32xINDEX>
    %pa = ptr_add %ap, %ks : tile<32x32xptr<ELEM>>
    %pb = ptr_add %bp, %ks : tile<32x32xptr<ELEM>>
    %x = load %pa, %mask, %other : tile<32x32xELEM>
    %y = load %pb, %mask, %other : tile<32x32xELEM>
    %d = dot LEFT, %y, %acc : tile<32x32xf32>
    yield %d
  }
  store %cp, %sum
  return
}
)";
  for (const auto &[what, by] : std::initializer_list<std::pair<std::string, std::string>>{
           {"LO", c.lo}, {"HI", c.hi}, {"STEP", c.step}, {"OTHER", c.other},
           {"INSIDE", c.inside}, {"BEFORE", c.before}, {"ELEM", c.elem}, {"LEFT", c.left}, {"INDEX", c.index}}) {
    text = replaced(std::move(text), what, by);
  }
  return text;
}

passes::Plan planOf(const std::string &text, const char *target) {
  ir::Function fn = ir::parse(text);
  const passes::PassContext context{codegen::findTarget(target), 4, 3};
  passes::PipelineOptions options;
  options.verifyEach = true;
  options.stopAfter = "assign_layouts";
  passes::runPipeline(fn, context, options);
  return passes::planPipeline(fn, passes::computeFacts(fn), context);
}

passes::Plan planOf(const LoopCase &c) { return planOf(loopText(c), "sm_80"); }

void expectRefused(const LoopCase &c, const std::string &why) {
  const passes::Plan plan = planOf(c);
  EXPECT_TRUE(plan.loops.empty()) << why;
  ASSERT_FALSE(plan.refusals.empty()) << why;
  EXPECT_NE(plan.refusals[0].find(why), std::string::npos) << plan.refusals[0];
}

// In the order of coordinates warps may meet before lanes do: those lanes still hold different elements then.
TEST(Plans, LanesThatAreJoinedBehindTheWarpsWriteWhatTheyHold) {
  const char *text = R"(
#0 = layout regs=[] lanes=[[64],[128],[0],[256],[1]] warps=[[2],[4],[8],[16],[32]] subtile=[512] repeats=[1]
func @differences stage=laid-out warps=32 stages=1 (%o: ptr<i32>) {
  %x = arange {start=0} : tile<512xi32, #0>
  %sum = reduce %x {axis=0} : i32 {
  ^(%a: i32, %b: i32):
    %c = COMBINE %a, %b : i32
    yield %c
  }
  store %o, %sum
  return
}
)";
  const auto laneBits = [&](const char *combine) {
    const ir::Function fn = ir::parse(replaced(text, "COMBINE", combine));
    const auto ops = fn.walk();
    const auto reduce = std::ranges::find(ops, ir::Opcode::Reduce, [&](ir::OpId op) { return fn.opcode(op); });
    return passes::planReduce(fn, *reduce).scratch.laneBits;
  };
  EXPECT_EQ(laneBits("sub"), (std::vector<int32_t>{0, 1, 3}));
  EXPECT_EQ(laneBits("add"), std::vector<int32_t>{});
}

TEST(Plans, LoopsOfDotsRunAhead) {
  LoopCase c;
  EXPECT_EQ(planOf(c).loops.size(), 1U);
  c.index = "i64";
  c.hi = "%end";
  EXPECT_EQ(planOf(c).loops.size(), 1U);
}

TEST(Plans, WithoutAsynchronousCopiesRegistersHoldWhatIsUnderWay) {
  for (const char *target : {"gfx90a", "gfx942", "gfx1100", "gfx1201"}) {
    const passes::Plan plan = planOf(loopText({}), target);
    ASSERT_EQ(plan.loops.size(), 1U) << target;
    EXPECT_TRUE(plan.loops[0].oneSlot && plan.loops[0].stages == 2 && plan.loops[0].slots() == 1) << target;
    EXPECT_TRUE(plan.refusals.empty()) << target;
    // Where threads lack them loads stay, and nothing was to be done about it.
    const passes::Plan large = planOf(replaced(loopText({}), "32x", "128x"), target);
    EXPECT_TRUE(large.loops.empty() && large.refusals.empty()) << target;
  }
}

TEST(Plans, WhatAnAtomicOrdersStaysBehindIt) {
  // Another program says by its flag that the next block is there.
  LoopCase c;
  const std::string used = "\n    store %flag, %got";
  for (const std::string sem : {"acquire", "acq_rel"}) {
    c.inside = "%got = atomic_rmw %flag, %one {kind=add, sem=" + sem + ", scope=gpu} : i32" + used;
    expectRefused(c, "an atomic that acquires");
    c.inside = "%got = atomic_cas %flag, %one, %one {sem=" + sem + ", scope=gpu} : i32" + used;
    expectRefused(c, "an atomic that acquires");
  }
  c.inside = "%got = load %flag {is_volatile=true} : i32";
  expectRefused(c, "a volatile access");
}

TEST(Plans, WhatAnAtomicDoesNotOrderPassesIt) {
  LoopCase c;
  c.inside = "%got = atomic_rmw %flag, %one {kind=add, sem=acq_rel, scope=gpu} : i32";
  EXPECT_EQ(planOf(c).loops.size(), 1U) << "nobody reads what it saw";
  c.inside = "%got = atomic_rmw %flag, %one {kind=add, sem=relaxed, scope=gpu} : i32\n    store %flag, %got";
  EXPECT_EQ(planOf(c).loops.size(), 1U);
  // It may write the next block of its array; the other array's goes ahead.
  c.inside = "%got = atomic_rmw %ap, %other {kind=fadd, sem=relaxed, scope=gpu} : tile<32x32xf16>";
  const passes::Plan plan = planOf(c);
  ASSERT_TRUE(plan.loops.size() == 1 && plan.refusals.size() == 1);
  EXPECT_NE(plan.refusals[0].find("a store of the loop may write what is loaded"), std::string::npos);
  EXPECT_EQ(plan.loops[0].loads.size(), 1U);
  c.left = "%q";
  c.inside = "%got = atomic_rmw %bp, %other {kind=fadd, sem=relaxed, scope=gpu} : tile<32x32xf16>";
  expectRefused(c, "a store of the loop may write what is loaded");
}

TEST(Plans, WhatThreadsCannotCopyGoesByRegisters) {
  // Threads copy 4 bytes at least, and from an odd address on two neighbours are not aligned.
  const std::string odd = replaced(loopText({}), "%pb = ptr_add %bp, %ks",
                                   "%odd = constant {value=1} : tile<32x32xi32>\n    %po = ptr_add %bp, %odd : tile<32x32xptr<f16>>\n    "
                                   "%pb = ptr_add %po, %ks");
  for (const char *target : {"sm_80", "sm_90a"}) {
    const passes::Plan plan = planOf(odd, target);
    ASSERT_EQ(plan.loops.size(), 1U) << target;
    const passes::LoopPlan &loop = plan.loops[0];
    ASSERT_EQ(loop.loads.size(), 2U) << target;
    EXPECT_TRUE(!loop.loads[0].byRegisters && loop.loads[1].byRegisters && loop.loads[1].vectorBytes == 2) << target;
    // Registers hold one iteration.
    EXPECT_TRUE(loop.stages == 2 && !loop.oneSlot && plan.refusals.empty()) << target;
  }
}

TEST(Plans, MaskedOffElementsAreZerosToTheBit) {
  LoopCase c;
  c.other = "-0.0";
  expectRefused(c, "masked-off elements are not 0");
  c.other = "1.0";
  expectRefused(c, "masked-off elements are not 0");
}

TEST(Plans, CopiesPastTheEndDoNotWrap) {
  LoopCase c;
  c.step = "2147483616";
  EXPECT_EQ(planOf(c).loops.size(), 1U);
  c.index = "i64";
  c.before = "%far = sext %short : i64";
  c.hi = "%far";
  EXPECT_EQ(planOf(c).loops.size(), 1U);
  c.step = "4611686018427387904";
  expectRefused(c, "near the end of 64 bits");
  // A loop that starts beyond its end must not start copies either.
  c.step = "32";
  c.lo = "%m";
  expectRefused(c, "near the end of 64 bits");
  c.lo = "%zero";
  c.hi = "%n";
  expectRefused(c, "near the end of 64 bits");
}

TEST(Plans, LeaveRoomForTheRest) {
  // Fused multiply-adds of a tile from outside of the loop, which lies in 4096 bytes, with rows of
  // 4096 bytes that run ahead.
  LoopCase c;
  c.elem = "f32";
  c.left = "%q";
  const auto stagesWith = [&](int32_t bytes) {
    ir::Target target = codegen::findTarget("sm_80");
    target.sharedMemory = bytes;
    ir::Function fn = ir::parse(loopText(c));
    passes::runPipeline(fn, {target, 4, 3}, {});
    EXPECT_LE(fn.arenaBytes, bytes);
    const auto said = [&](const std::string &text) {
      return std::ranges::any_of(fn.fallbacks, [&](const std::string &fallback) {
        return fallback.find(text) != std::string::npos;
      });
    };
    return said("no copies ahead: no room") ? 1 : said("2 stages instead of 3") ? 2 : 3;
  };
  EXPECT_EQ(stagesWith(16384), 3);
  EXPECT_EQ(stagesWith(16383), 2);
  EXPECT_EQ(stagesWith(12288), 2);
  EXPECT_EQ(stagesWith(12287), 1);
  EXPECT_EQ(stagesWith(8192), 1);
  EXPECT_THROW(stagesWith(8191), ir::Unsupported);
}

// ---- warps

int32_t warpsOf(const std::string &text, int32_t asked = 0, const char *target = "sm_80", bool spreads = false) {
  ir::Function fn = ir::parse(text);
  passes::PassContext context{codegen::findTarget(target), asked};
  context.spreadsWarps = spreads;
  passes::spreadWarps(fn, context);
  return passes::chooseWarps(fn, context);
}

std::string loadText(int32_t extent, const std::string &after) {
  return replaced(replaced(R"(
func @f stage=tile warps=4 stages=3 (%x: ptr<f32>) {
  %i = arange {start=0} : tile<NxI>
  %xs = splat %x : tile<Nxptr<f32>>
  %p = ptr_add %xs, %i : tile<Nxptr<f32>>
  %v = load %p : tile<Nxf32>
  AFTER
  return
}
)", "AFTER", after), "N", std::to_string(extent));
}

int32_t streamWarps(int32_t extent) {
  return warpsOf(replaced(loadText(extent, "store %p, %v"), "xI>", "xi32>"));
}

TEST(Warps, OfStreamsFollowTheBytes) {
  // 1024 bytes a warp, 1 to 8 warps; as many more as leave a thread 64 registers of them.
  EXPECT_EQ(streamWarps(32), 1);
  EXPECT_EQ(streamWarps(256), 1);
  EXPECT_EQ(streamWarps(512), 2);
  EXPECT_EQ(streamWarps(500), 1);
  EXPECT_EQ(streamWarps(1024), 4);
  EXPECT_EQ(streamWarps(2048), 8);
  EXPECT_EQ(streamWarps(1 << 14), 8);
  EXPECT_EQ(streamWarps(1 << 15), 16);
  EXPECT_EQ(streamWarps(1 << 20), 16);
}

// A sum of the row %v, stored where %y points.
const std::string kSum = R"(%s = reduce %v {axis=0} : f32 {
  ^(%a: f32, %b: f32):
    %c = add %a, %b : f32
    yield %c
  }
  store %y, %s)";

int32_t rowWarps(int32_t extent) { return warpsOf(replaced(loadText(extent, replaced(kSum, "%y", "%x")), "xI>", "xi32>")); }

// The same of a row of f16, summed up in f32.
int32_t halfRowWarps(int32_t extent) {
  const std::string sum = "%w = fpext %v : tile<Nxf32>\n  " + replaced(kSum, "reduce %v", "reduce %w");
  const std::string ofFloats = replaced(replaced(loadText(extent, sum), "%x: ptr<f32>", "%x: ptr<f16>, %y: ptr<f32>"), "xI>", "xi32>");
  return warpsOf(replaced(replaced(ofFloats, "xptr<f32>>", "xptr<f16>>"), "%p : tile<" + std::to_string(extent) + "xf32>", "%p : tile<" + std::to_string(extent) + "xf16>"));
}

TEST(Warps, OfReducedRowsHold32Elements) {
  // A warp up to four; as many more as leave a thread 64 registers of the row as memory has it.
  EXPECT_EQ(rowWarps(781), 1);
  EXPECT_EQ(rowWarps(1024), 1);
  EXPECT_EQ(rowWarps(4096), 4);
  EXPECT_EQ(rowWarps(8192), 4);
  EXPECT_EQ(rowWarps(16384), 8);
  EXPECT_EQ(rowWarps(32768), 16);
  EXPECT_EQ(rowWarps(1 << 20), 16);
  EXPECT_EQ(halfRowWarps(4096), 4);
  EXPECT_EQ(halfRowWarps(16384), 4);
  EXPECT_EQ(halfRowWarps(32768), 8);
}

// A sum of a row of f16, beside which as many rows are loaded.
int32_t weightedRowWarps(int32_t extent, int32_t others) {
  std::string loads;
  for (int32_t i = 0; i < others; ++i) {
    loads += "  %o" + std::to_string(i) + " = load %p : tile<Nxf16>\n";
  }
  return warpsOf(replaced(R"(
func @f stage=tile warps=4 stages=3 (%x: ptr<f16>, %y: ptr<f32>) {
  %i = arange {start=0} : tile<Nxi32>
  %xs = splat %x : tile<Nxptr<f16>>
  %p = ptr_add %xs, %i : tile<Nxptr<f16>>
  %h = load %p : tile<Nxf16>
)" + loads + "  %v = fpext %h : tile<Nxf32>\n  " + kSum + "\n  return\n}\n", "N", std::to_string(extent)));
}

TEST(Warps, OfRowsThatOthersGoWith) {
  // Two at least, but of a row of a few elements a thread.
  EXPECT_EQ(weightedRowWarps(1024, 0), 1);
  EXPECT_EQ(weightedRowWarps(256, 1), 1);
  EXPECT_EQ(weightedRowWarps(512, 1), 2);
  EXPECT_EQ(weightedRowWarps(1024, 1), 2);
  EXPECT_EQ(weightedRowWarps(4096, 2), 4);
  EXPECT_EQ(weightedRowWarps(8192, 2), 4);
  // Sixteen where two programs of eight lack registers.
  EXPECT_EQ(weightedRowWarps(16384, 1), 8);
  EXPECT_EQ(weightedRowWarps(16384, 2), 16);
}

// A loop adds a row to `sums` tiles that it carries, and what it adds needs the row's sum.
int32_t carriedWarps(int32_t extent, int32_t sums) {
  std::string types, inits, results, args, adds, yields, stores;
  for (int32_t i = 0; i < sums; ++i) {
    const std::string n = std::to_string(i), comma = i > 0 ? ", " : "";
    types += comma + "tile<Nxf32>";
    inits += ", %v";
    results += comma + "%r" + n;
    args += ", %c" + n + ": tile<Nxf32>";
    adds += "    %s" + n + " = add %c" + n + ", %t : tile<Nxf32>\n";
    yields += comma + "%s" + n;
    stores += "  store %p, %r" + n + "\n";
  }
  const std::string loop = "%lo = constant {value=0} : i32\n  %step = constant {value=1} : i32\n  " +
                           results + " = for %lo, %step, %step" + inits + " : " + types + R"( {
  ^(%iv: i32)" + args + R"():
    %w = load %p : tile<Nxf32>
    %m = reduce %w {axis=0} : f32 {
    ^(%a: f32, %b: f32):
      %ab = add %a, %b : f32
      yield %ab
    }
    %ms = splat %m : tile<Nxf32>
    %t = mul %w, %ms : tile<Nxf32>
)" + adds + "    yield " + yields + "\n  }\n" + stores;
  return warpsOf(replaced(loadText(extent, loop), "xI>", "xi32>"));
}

TEST(Warps, OfTilesLiveAtOnceHold128Registers) {
  // The row is held beside the sums while it is reduced.
  EXPECT_EQ(carriedWarps(1024, 1), 1);
  EXPECT_EQ(carriedWarps(1024, 3), 1);
  EXPECT_EQ(carriedWarps(1024, 4), 2);
  EXPECT_EQ(carriedWarps(4096, 3), 4);
  EXPECT_EQ(carriedWarps(4096, 7), 8);
  EXPECT_EQ(carriedWarps(4096, 8), 16);
  EXPECT_EQ(carriedWarps(4096, 20), 16);
}

int32_t dotWarps(int32_t m, int32_t n, int32_t asked = 0, const char *target = "sm_80", bool spreads = false) {
  std::string text = R"(
func @f stage=tile warps=4 stages=3 (%x: ptr<f32>) {
  %a = constant {value=1.0} : tile<Mx16xf16>
  %b = constant {value=1.0} : tile<16xNxf16>
  %c = constant {value=1.0} : tile<MxNxf32>
  %d = dot %a, %b, %c : tile<MxNxf32>
  return
}
)";
  return warpsOf(replaced(replaced(text, "N", std::to_string(n)), "M", std::to_string(m)), asked, target, spreads);
}

TEST(Warps, OfDotsKeepTheAccumulatorInRegisters) {
  EXPECT_EQ(dotWarps(16, 16), 1);
  EXPECT_EQ(dotWarps(64, 64), 2);
  EXPECT_EQ(dotWarps(128, 128), 4);
  EXPECT_EQ(dotWarps(128, 256), 8);
  EXPECT_EQ(dotWarps(256, 256), 8);
}

TEST(Warps, AskedForArePowersOfTwoWithinTheTarget) {
  EXPECT_EQ(dotWarps(128, 128, 1), 1);
  EXPECT_EQ(dotWarps(128, 128, 3), 4);
  EXPECT_EQ(dotWarps(128, 128, 32), 32);
  EXPECT_EQ(dotWarps(128, 128, 1000), 32);
}

TEST(Warps, AreSpreadWhereTheirRegistersDoNotHoldTheTiles) {
  const auto spread = [](int32_t m, int32_t n, int32_t asked, const char *target = "sm_90a") { return dotWarps(m, n, asked, target, true); };
  EXPECT_EQ(spread(64, 64, 1), 1);   // 128 registers of a thread
  EXPECT_EQ(spread(64, 128, 1), 2);  // 256
  EXPECT_EQ(spread(128, 256, 4), 8); // 256
  EXPECT_EQ(spread(128, 256, 1), 8);
  EXPECT_EQ(spread(128, 128, 4), 4);
  EXPECT_EQ(spread(128, 128, 16), 16); // never fewer than asked for
  // Eight warps have all registers of a multiprocessor: more of them hold no more.
  EXPECT_EQ(spread(512, 512, 1), 8);
  EXPECT_EQ(spread(512, 512, 4, "gfx942"), 4); // four waves of 512 registers
  EXPECT_EQ(spread(128, 128, 1, "gfx942"), 1); // sums: 256 of its 512
  EXPECT_EQ(spread(128, 128, 1, "gfx1100"), 4);
}

} // namespace
