// SPDX-License-Identifier: Apache-2.0
// Law of the buffers that boxes are copied into: where the layout puts an element is where the machine writes it.
// Its addressing is written out here. And which loads the planner gives to boxes.
#include "codegen/codegen.h"
#include "ir/parser.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/plan_pipeline.h"
#include "passes/gpu/shared_layouts.h"
#include "passes/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace libtile;
using ir::Coords;
using ir::Layout;

namespace {

// Rows one behind the other from `start` on; then bits 4.. of the address are exchanged by bits 7...
int32_t writtenAt(int32_t start, int32_t slow, int32_t byteInRow, int32_t rowBytes) {
  const int32_t address = start + slow * rowBytes + byteInRow;
  const int32_t bits = rowBytes == 128 ? 7 : rowBytes == 64 ? 3 : 1;
  return address ^ (address >> 7 & bits) << 4;
}

// `warps` read along the slow axis, and so many write.
void expectWrites(const std::vector<int32_t> &shape, unsigned fastAxis, int32_t bytes, int32_t warps = 4) {
  const int32_t order[] = {static_cast<int32_t>(fastAxis), static_cast<int32_t>(1 - fastAxis)};
  const int32_t slowFirst[] = {order[1], order[0]};
  const Layout threads[] = {Layout::blocked(shape, order, std::max(1, 16 / bytes), warps),
                            Layout::blocked(shape, slowFirst, 1, warps)};
  const Layout buffer = passes::matrixLayout(shape, fastAxis, bytes, threads);
  for (const Layout &layout : threads) {
    EXPECT_TRUE(buffer.hasRoomFor(layout)) << buffer.str() << " for " << layout.str();
  }
  const auto boxes = passes::boxParts(buffer, shape, bytes);
  ASSERT_TRUE(boxes) << buffer.str();
  EXPECT_EQ(boxes->fastAxis, fastAxis);
  const int32_t rowBytes = boxes->fast * bytes;
  EXPECT_TRUE(rowBytes == 32 || rowBytes == 64 || rowBytes == 128) << rowBytes;
  EXPECT_LE(boxes->slow, 256);
  const ir::LayoutInverse inverse(buffer);
  int64_t seen = 0;
  for (const passes::BoxParts::Part &part : boxes->parts) {
    EXPECT_EQ(part.byte % 128, 0);
    EXPECT_LE(part.byte + rowBytes * boxes->slow, buffer.size(ir::HwDim::Offset) * bytes);
    for (int32_t slow = 0; slow < boxes->slow; ++slow) {
      for (int32_t fast = 0; fast < boxes->fast; ++fast) {
        Coords at = part.first;
        at[fastAxis] += fast;
        at[1 - fastAxis] += slow;
        if (at[0] >= shape[0] || at[1] >= shape[1]) {
          continue; // padding
        }
        ++seen;
        ASSERT_EQ(inverse.offsetOf(at) * bytes, writtenAt(part.byte, slow, fast * bytes, rowBytes))
            << buffer.str() << " element " << at[0] << ", " << at[1];
      }
    }
  }
  EXPECT_EQ(seen, int64_t{shape[0]} * shape[1]) << buffer.str();
}

TEST(Boxes, AreWrittenWhereTheLayoutPutsElements) {
  for (const int32_t bytes : {1, 2, 4, 8}) {
    for (const int32_t rows : {16, 40, 64, 96, 128, 192, 256, 512}) {
      for (const int32_t depth : {16, 32, 48, 64, 128}) {
        for (const unsigned fastAxis : {0U, 1U}) {
          expectWrites({rows, depth}, fastAxis, bytes);
          expectWrites({rows, 24}, fastAxis, bytes, 16);
        }
      }
    }
  }
}

// A loop of 64x64x32 dots, whose left operand is a box.
const std::string kLoop = R"(
func @dot stage=tile warps=4 stages=3 (%a: ptr<f16> {divisible=16}, %b: ptr<f16> {divisible=16}, %c: ptr<f32> {divisible=16}, %m: i32, %n: i32 {divisible=16}, %lda: i32 {divisible=16})
  guard disjoint %a %c
  guard disjoint %b %c {
  %i = arange {start=0} : tile<64xi32>
  %j = arange {start=0} : tile<32xi32>
  %pid = program_id {axis=0} : i32
  %r = expand_dims %i {axis=1} : tile<64x1xi32>
  %c1 = expand_dims %j {axis=0} : tile<1x32xi32>
  %rs = expand_dims %j {axis=1} : tile<32x1xi32>
  %cs64 = expand_dims %i {axis=0} : tile<1x64xi32>
  %first = splat %pid : tile<64x1xi32>
  %row = add %r, %first : tile<64x1xi32>
  %ldas = splat %lda : tile<64x1xi32>
  %ra = mul %row, %ldas : tile<64x1xi32>
  %ras = broadcast %ra : tile<64x32xi32>
  %cb = broadcast %c1 : tile<64x32xi32>
  %offa = add %ras, %cb : tile<64x32xi32>
  %as = splat %a : tile<64x32xptr<f16>>
  %ap = ptr_add %as, %offa : tile<64x32xptr<f16>>
  %rb = broadcast %rs : tile<32x64xi32>
  %cbb = broadcast %cs64 : tile<32x64xi32>
  %offb = add %rb, %cbb : tile<32x64xi32>
  %bs = splat %b : tile<32x64xptr<f16>>
  %bp = ptr_add %bs, %offb : tile<32x64xptr<f16>>
  %y = load %bp : tile<32x64xf16>
  %ms = splat %m : tile<64x1xi32>
  %inm = cmp %row, %ms {predicate=slt} : tile<64x1xi1>
  %inms = broadcast %inm : tile<64x32xi1>
  %ns = splat %n : tile<1x32xi32>
  %zero = constant {value=0.0} : tile<64x64xf32>
  %lo = constant {value=0} : i32
  %step = constant {value=32} : i32
  BEFORE
  %sum = for %lo, %n, %step, %zero : tile<64x64xf32> {
  ^(%k: i32, %acc: tile<64x64xf32>):
    %ks = splat %k : tile<1x32xi32>
    %at = add %c1, %ks : tile<1x32xi32>
    %inn = cmp %at, %ns {predicate=slt} : tile<1x32xi1>
    %inns = broadcast %inn : tile<64x32xi1>
    %mask = and %inms, %inns : tile<64x32xi1>
    %kb = broadcast %ks : tile<64x32xi32>
    %pa = ptr_add %ap, %kb : tile<64x32xptr<f16>>
    %x = load %pa, %mask : tile<64x32xf16>
    %d = dot %x, %y, %acc : tile<64x64xf32>
    yield %d
  }
  %o = broadcast %r : tile<64x64xi32>
  %cs = splat %c : tile<64x64xptr<f32>>
  %cp = ptr_add %cs, %o : tile<64x64xptr<f32>>
  store %cp, %sum
  return
}
)";

std::string changed(const std::string &what, const std::string &by, const std::string &before = "") {
  std::string text = kLoop;
  for (const auto &[from, to] : {std::pair(std::string("BEFORE"), before), std::pair(what, by)}) {
    const size_t at = from.empty() ? std::string::npos : text.find(from);
    EXPECT_TRUE(from.empty() || at != std::string::npos) << from;
    if (at != std::string::npos) {
      text.replace(at, from.size(), to);
    }
  }
  return text;
}

// `leastRow`: of the target; none unless a test asks about short rows.
passes::Plan planOf(const std::string &text, const std::string &name = "sm_90a", bool asked = true, bool guards = true, int32_t leastRow = 0) {
  ir::Function fn = ir::parse(text);
  using passes::Reliance;
  ir::Target target = codegen::findTarget(name);
  target.leastBoxRow = leastRow;
  passes::PassContext context{target, 4, 3, guards ? Reliance::Numbers : Reliance::Nothing};
  context.copiesBoxes = asked;
  passes::PipelineOptions options;
  options.verifyEach = true;
  options.stopAfter = "assign_layouts";
  passes::runPipeline(fn, context, options);
  return passes::planPipeline(fn, passes::computeFacts(fn), context);
}

void expectBox(const passes::Plan &plan, bool is) {
  ASSERT_EQ(plan.loops.size(), 1U);
  ASSERT_EQ(plan.loops[0].loads.size(), 1U);
  EXPECT_EQ(plan.loops[0].loads[0].box.has_value(), is);
}

TEST(Boxes, AreLoadsOfAffineAddresses) {
  const passes::Plan plan = planOf(changed("", ""));
  expectBox(plan, true);
  const passes::PlannedBox &box = *plan.loops[0].loads[0].box;
  EXPECT_EQ(box.map.param, 0U);
  ASSERT_EQ(box.map.dims.size(), 2U);
  EXPECT_EQ(box.map.dims[0].extent, (ir::LaunchNumber{1, 3}));
  EXPECT_EQ(box.map.dims[0].stride, (ir::LaunchNumber{2, 5}));
  EXPECT_EQ(box.map.dims[0].box, 64);
  EXPECT_EQ(box.map.dims[1].extent, (ir::LaunchNumber{1, 4}));
  EXPECT_EQ(box.map.dims[1].box, 32);
  EXPECT_EQ(box.guards.size(), 3U); // m, n and lda are positive
  EXPECT_TRUE(plan.refusals.empty());
}

TEST(Boxes, OfShortRowsAreCopiedByThreads) {
  EXPECT_EQ(codegen::findTarget("sm_90a").leastBoxRow, 80);
  expectBox(planOf(changed("", ""), "sm_90a", true, true, 64), true);
  const passes::Plan plan = planOf(changed("", ""), "sm_90a", true, true, 65);
  expectBox(plan, false);
  EXPECT_EQ(plan.loops[0].loads[0].noBox, "rows so short that threads copy them faster");
  EXPECT_EQ(plan.loops[0].loads[0].vectorBytes, 16);
  // A loop that computes with its sums has time for both ways.
  expectBox(planOf(changed("yield %d", "%twice = add %d, %d : tile<64x64xf32>\n    yield %twice"), "sm_90a", true, true, 65), true);
}

TEST(Boxes, AreNotTakenWithoutAskingOrWhereNoneCanBe) {
  expectBox(planOf(changed("", ""), "sm_90a", false), false);
  expectBox(planOf(changed("", ""), "sm_80"), false);
  EXPECT_TRUE(std::ranges::none_of(planOf(changed("", ""), "sm_90a", true, false).loops, [](const passes::LoopPlan &loop) {
    return loop.loads[0].box.has_value();
  })) << "the general variant has no guards";
}

TEST(Boxes, WhatIsNotSureIsCopiedByThreads) {
  // An array or a row that may start anywhere, rows that may lie below the array.
  expectBox(planOf(changed("%lda: i32 {divisible=16}", "%lda: i32 {divisible=4}")), false);
  expectBox(planOf(changed("%a: ptr<f16> {divisible=16}", "%a: ptr<f16> {divisible=8}")), false);
  expectBox(planOf(changed("%pid = program_id {axis=0} : i32", "%pid = load %p : i32", "").replace(
                kLoop.find("%m: i32"), 0, "%p: ptr<i32>, ")), false);
  // No bound of the rows, which may be too many for a coordinate.
  expectBox(planOf(changed("and %inms, %inns", "and %inns, %inns")), false);
  // The kernel acquires what others wrote.
  expectBox(planOf(changed("", "", "%got = atomic_rmw %c, %f {kind=fadd, sem=acquire, scope=gpu} : f32\n  store %c, %got")
                       .replace(kLoop.find("BEFORE"), 0, "%f = constant {value=1.0} : f32\n  ")),
            false);
  // It writes to the array behind the loop.
  expectBox(planOf(changed("store %cp, %sum", "store %cp, %sum\n  %h = constant {value=1.0} : f16\n  store %a, %h")), false);
}

TEST(Boxes, ARowLiesAsItIs) {
  const int32_t order[] = {0};
  for (const int32_t extent : {8, 16, 48, 64, 256, 512}) {
    for (const int32_t bytes : {2, 4}) {
      const int32_t shape[] = {extent}, subtile[] = {extent & -extent};
      const auto boxes = passes::boxParts(passes::bufferLayout(shape, subtile, order), shape, bytes);
      ASSERT_TRUE(boxes) << extent;
      EXPECT_EQ(boxes->slow, 1);
      int32_t next = 0;
      for (const passes::BoxParts::Part &part : boxes->parts) {
        EXPECT_EQ(part.first[0], next);
        EXPECT_EQ(part.byte, next * bytes);
        next += boxes->fast;
      }
      EXPECT_EQ(next, extent);
    }
  }
  // Not of whole units of 16 bytes; not of parts alike; swizzled.
  const int32_t few[] = {2}, odd[] = {384}, part[] = {128}, many[] = {64};
  EXPECT_FALSE(passes::boxParts(passes::bufferLayout(few, few, order), few, 4));
  EXPECT_FALSE(passes::boxParts(passes::bufferLayout(odd, part, order), odd, 4));
  EXPECT_FALSE(passes::boxParts(passes::bufferLayout(many, many, order, {0, 1, 3, 0}), many, 4));
}

TEST(Boxes, OtherBuffersHaveNone) {
  const int32_t shape[] = {64, 64}, order[] = {1, 0};
  EXPECT_FALSE(passes::boxParts(passes::bufferLayout(shape, shape, order), shape, 2));
  EXPECT_FALSE(passes::boxParts(passes::bufferLayout(shape, shape, order, {3, 3, 6, 1}), shape, 2));
}

} // namespace
