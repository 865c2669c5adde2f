// SPDX-License-Identifier: Apache-2.0
// Laws of ir::Layout on random layouts.
#include "tests/gpu/random_layouts.h"

#include <gtest/gtest.h>

#include <set>

using libtile::ir::Coords;
using libtile::ir::HwDim;
using libtile::ir::Layout;
using libtile::tests::Random;

namespace {

template <class Check> void forRandomLayouts(Check check) {
  Random random(7);
  for (int i = 0; i < 60; ++i) {
    const unsigned rank = 1 + static_cast<unsigned>(random.below(3));
    const auto shape = random.shape(rank, rank == 1 ? 1000 : 40);
    check(random, shape, random.blocked(shape, 1 << random.below(3)));
    check(random, shape, random.scattered(shape, random.below(3)));
  }
}

// The elements that a thread holds, in any order.
std::multiset<Coords> held(const Layout &layout, int32_t lane, int32_t warp) {
  std::multiset<Coords> result;
  for (int32_t reg = 0; reg < layout.size(HwDim::Reg); ++reg) {
    result.insert(layout.apply(reg, lane, warp));
  }
  return result;
}

TEST(LayoutLaws, CoversItsShapeAndReachesEveryElement) {
  forRandomLayouts([](Random &, const std::vector<int32_t> &shape, const Layout &layout) {
    EXPECT_TRUE(layout.covers(shape)) << layout.str();
    std::set<Coords> seen;
    for (int32_t warp = 0; warp < layout.size(HwDim::Warp); ++warp) {
      for (int32_t lane = 0; lane < layout.size(HwDim::Lane); ++lane) {
        for (const Coords &coords : held(layout, lane, warp)) {
          seen.insert(coords);
        }
      }
    }
    int64_t padded = 1;
    for (unsigned d = 0; d < layout.rank(); ++d) {
      padded *= layout.subtile()[d] * layout.repeats()[d];
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()), padded) << layout.str();
  });
}

TEST(LayoutLaws, HolderInvertsApply) {
  forRandomLayouts([](Random &random, const std::vector<int32_t> &, const Layout &layout) {
    for (int i = 0; i < 50; ++i) {
      const Coords coords = layout.apply(random.below(layout.size(HwDim::Reg)), random.below(32),
                                         random.below(layout.size(HwDim::Warp)));
      const auto holder = layout.holderOf(coords);
      ASSERT_TRUE(holder.has_value());
      EXPECT_EQ(layout.apply(holder->reg, holder->lane, holder->warp), coords) << layout.str();
      EXPECT_EQ(holder->lane & ~layout.canonicalBits(HwDim::Lane), 0);
      EXPECT_EQ(holder->warp & ~layout.canonicalBits(HwDim::Warp), 0);
    }
  });
}

TEST(LayoutLaws, EachElementHasOneCanonicalHolder) {
  forRandomLayouts([](Random &, const std::vector<int32_t> &, const Layout &layout) {
    std::set<Coords> seen;
    for (int32_t warp = 0; warp < layout.size(HwDim::Warp); ++warp) {
      for (int32_t lane = 0; lane < 32; ++lane) {
        for (int32_t reg = 0; reg < layout.size(HwDim::Reg); ++reg) {
          const int32_t inner = reg & (layout.subtileSize(HwDim::Reg) - 1);
          if ((inner & ~layout.canonicalBits(HwDim::Reg)) == 0 &&
              (lane & ~layout.canonicalBits(HwDim::Lane)) == 0 &&
              (warp & ~layout.canonicalBits(HwDim::Warp)) == 0) {
            EXPECT_TRUE(seen.insert(layout.apply(reg, lane, warp)).second) << layout.str();
          }
        }
      }
    }
  });
}

TEST(LayoutLaws, TransCommutesWithApply) {
  forRandomLayouts([](Random &random, const std::vector<int32_t> &, const Layout &layout) {
    const auto axes = random.permutation(layout.rank());
    const std::vector<int64_t> order(axes.begin(), axes.end());
    const Layout transposed = layout.trans(order);
    const int32_t lane = random.below(32), warp = random.below(layout.size(HwDim::Warp));
    std::multiset<Coords> want;
    for (const Coords &coords : held(layout, lane, warp)) {
      Coords permuted;
      for (const int64_t axis : order) {
        permuted.push_back(coords[static_cast<size_t>(axis)]);
      }
      want.insert(permuted);
    }
    EXPECT_EQ(held(transposed, lane, warp), want);
    std::vector<int64_t> back(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    }
    EXPECT_EQ(transposed.trans(back), layout);
  });
}

TEST(LayoutLaws, SliceProjectsAndInvertsExpand) {
  forRandomLayouts([](Random &random, const std::vector<int32_t> &, const Layout &layout) {
    const auto axis = static_cast<unsigned>(random.below(static_cast<int32_t>(layout.rank())));
    EXPECT_EQ(layout.expandDims(axis).slice(axis), layout);
    if (layout.rank() == 1) {
      return;
    }
    const Layout reduced = layout.reduced(axis);
    const int32_t lane = random.below(32), warp = random.below(layout.size(HwDim::Warp));
    std::set<Coords> want;
    for (Coords coords : held(layout, lane, warp)) {
      coords.erase(coords.begin() + axis);
      want.insert(coords);
    }
    const auto got = held(reduced, lane, warp);
    EXPECT_EQ(std::set<Coords>(got.begin(), got.end()), want) << layout.str();
    EXPECT_EQ(got.size(), want.size()) << "a register is held twice: " << reduced.str();
  });
}

TEST(LayoutLaws, TextRoundTrips) {
  forRandomLayouts([](Random &, const std::vector<int32_t> &, const Layout &layout) {
    const auto parsed = Layout::parse(layout.str());
    ASSERT_TRUE(parsed.has_value()) << layout.str();
    EXPECT_EQ(*parsed, layout);
  });
}

TEST(LayoutText, RefusesWhatIsNoLayout) {
  for (const char *text :
       {"", "regs=[[1]]", "regs=[[1]] lanes=[] warps=[] subtile=[4] repeats=[1]",
        "regs=[[1]] lanes=[] warps=[] subtile=[3] repeats=[1]",
        "regs=[[1]] lanes=[] warps=[] subtile=[2] repeats=[0]",
        "regs=[[1,0]] lanes=[] warps=[] subtile=[2] repeats=[1]",
        "regs=[[2]] lanes=[] warps=[] subtile=[2] repeats=[1]",
        "regs=[[1]] lanes=[] warps=[] subtile=[2] repeats=[1] x",
        "regs=[[1]] lanes=[] warps=[] subtile=[2] repeats=[2000000000]",
        "regs=[[99999999999]] lanes=[] warps=[] subtile=[2] repeats=[1]", "regs=[[1]"}) {
    EXPECT_FALSE(Layout::parse(text).has_value()) << text;
  }
}

TEST(LayoutBlocked, IsCoalesced) {
  const std::vector<int32_t> shape = {1024}, order = {0};
  EXPECT_EQ(Layout::blocked(shape, order, 4, 4).str(),
            "regs=[[1],[2]] lanes=[[4],[8],[16],[32],[64]] warps=[[128],[256]] subtile=[512] "
            "repeats=[2]");
}

TEST(LayoutBlocked, HoldsRows) {
  // Vectors of four of two rows a thread; lanes go along a row for two, then over the 6 rows, of which one subtile has 8, and then
  // along the row again.
  const std::vector<int32_t> shape = {6, 64}, order = {1, 0};
  EXPECT_EQ(Layout::blocked(shape, {.order = order, .vector = 4, .rows = 2, .warps = 1, .warpSize = 16, .lanesAlong = 2}).str(),
            "regs=[[0,1],[0,2],[1,0]] lanes=[[0,4],[0,8],[0,16],[0,32]] warps=[] subtile=[2,64] repeats=[3,1]");
  const std::vector<int32_t> square = {64, 64};
  EXPECT_EQ(Layout::blocked(square, {.order = order, .vector = 4, .rows = 2, .warps = 2, .warpSize = 16, .lanesAlong = 2}).str(),
            "regs=[[0,1],[0,2],[1,0]] lanes=[[0,4],[2,0],[4,0],[8,0]] warps=[[0,8]] subtile=[16,16] repeats=[4,4]");
}

} // namespace
