// SPDX-License-Identifier: Apache-2.0
// Reshapes under random layouts: register moves simulated on the host, and where data moves, the
// places that elements have in memory.
#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/gpu/flat_buffers.h"
#include "passes/gpu/layout_maps.h"
#include "tests/gpu/random_layouts.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

using namespace libtile;
using ir::Coords;
using ir::HwDim;
using ir::Layout;
using passes::FlatTile;
using Shape = std::vector<int32_t>;

namespace {

// A shape of the same elements: the prime factors of the extents, dealt out anew in order.
Shape regrouped(tests::Random &random, const Shape &shape) {
  Shape factors;
  for (int32_t extent : shape) {
    for (int32_t prime = 2; extent > 1; ++prime) {
      for (; extent % prime == 0; extent /= prime) {
        factors.push_back(prime);
      }
    }
  }
  if (random.below(2) == 0) {
    std::shuffle(factors.begin(), factors.end(), random.engine());
  }
  Shape result = {1};
  for (const int32_t factor : factors) {
    if (result.size() < 4 && random.below(3) == 0) {
      result.push_back(1);
    }
    result.back() *= factor;
  }
  return result;
}

struct Reshape {
  ir::Function fn{"reshape"};
  ir::OpId op;
  Reshape(const Shape &from, const Shape &to) {
    ir::Builder builder(fn, fn.body());
    const ir::Type number = ir::Type::scalar(ir::Elem::I32);
    const ir::ValueId value = builder.constInt(ir::Type::tile(from, number), 0);
    const ir::Type type = ir::Type::tile(to, number);
    op = builder.op(ir::Opcode::Reshape, {&value, 1}, {&type, 1});
  }
  void setLayouts(const Layout &from, const Layout &to) {
    const ir::ValueId a = fn.operand(op, 0), b = fn.result(op);
    fn.setType(a, fn.type(a).withLayout(fn.internLayout(from)));
    fn.setType(b, fn.type(b).withLayout(fn.internLayout(to)));
  }
};

void expectRenames(Reshape &reshape, const Layout &from, const Layout &to) {
  reshape.setLayouts(from, to);
  const auto map = passes::shapeRegisterMap(reshape.fn, reshape.op);
  ASSERT_TRUE(map.has_value()) << from.str() << "\n" << to.str();
  const ir::Type a = reshape.fn.type(reshape.fn.operand(reshape.op, 0));
  const ir::Type b = reshape.fn.type(reshape.fn.result(reshape.op));
  for (int32_t warp = 0; warp < to.size(HwDim::Warp); ++warp) {
    for (int32_t lane = 0; lane < to.size(HwDim::Lane); ++lane) {
      for (int32_t reg = 0; reg < to.size(HwDim::Reg); ++reg) {
        const auto want = FlatTile{to, b.shape()}.indexOf(to.apply(reg, lane, warp));
        const auto got = FlatTile{from, a.shape()}.indexOf(
            from.apply((*map)[static_cast<size_t>(reg)], lane, warp));
        ASSERT_TRUE(!want || got == want) << from.str() << "\n" << to.str();
      }
    }
  }
}

TEST(Reshapes, OfDividingExtentsRenameRegisters) {
  tests::Random random(5);
  int seen = 0, odd = 0;
  for (int i = 0; i < 400; ++i) {
    const Shape shape = random.shape(1 + static_cast<unsigned>(random.below(3)), 20);
    const Shape other = regrouped(random, shape);
    Reshape reshape(shape, other);
    const Layout from = random.below(2) == 0 ? random.blocked(shape, 2)
                                             : random.scattered(shape, 1);
    if (const auto to = passes::resultLayout(reshape.fn, reshape.op, from)) {
      EXPECT_TRUE(to->covers(other)) << to->str();
      expectRenames(reshape, from, *to);
      ++seen;
      odd += std::ranges::any_of(shape, [](int32_t extent) { return extent % 2 != 0 && extent > 1; });
    }
    const Layout to = random.blocked(other, 2);
    if (const auto needed = passes::operandLayout(reshape.fn, reshape.op, to)) {
      expectRenames(reshape, *needed, to);
    }
  }
  EXPECT_GT(seen, 100);
  EXPECT_GT(odd, 30);
}

TEST(Reshapes, OfGroupsOfAxesDivide) {
  const auto divides = [](const Shape &from, const Shape &to) {
    Reshape reshape(from, to);
    const Shape order = {0, 1, 2, 3};
    return passes::resultLayout(reshape.fn, reshape.op,
                                Layout::blocked(from, std::span(order).first(from.size()), 1, 2))
        .has_value();
  };
  EXPECT_TRUE(divides({192}, {96, 2}));
  EXPECT_TRUE(divides({6, 4}, {3, 8}));
  EXPECT_TRUE(divides({3, 5, 8, 4}, {3, 5, 32}));
  EXPECT_TRUE(divides({3, 1, 5}, {3, 5}));
  EXPECT_TRUE(divides({7}, {1, 7, 1}));
  EXPECT_FALSE(divides({6}, {2, 3}));
  EXPECT_FALSE(divides({17, 48}, {816}));
}

// Every element has a place of its own, which the access reaches in whole, aligned groups.
void expectReaches(const FlatTile &tile, const Layout &buffer, int32_t bytes) {
  const ir::LayoutInverse inverse(buffer);
  const passes::BufferAccess access = passes::flatAccess(tile, buffer, bytes);
  ASSERT_EQ(access.elements, 1 << access.registerBits.size());
  ASSERT_LE(access.elements * bytes, 16);
  const auto offsetOf = [&](int32_t reg, int32_t lane, int32_t warp) -> std::optional<int32_t> {
    const auto index = tile.indexOf(tile.layout.apply(reg, lane, warp));
    return index ? std::optional(inverse.offsetOf(Coords{*index})) : std::nullopt;
  };
  std::set<int32_t> places;
  for (int32_t warp = 0; warp < tile.layout.size(HwDim::Warp); ++warp) {
    for (int32_t lane = 0; lane < tile.layout.size(HwDim::Lane); ++lane) {
      for (int32_t reg = 0; reg < tile.layout.size(HwDim::Reg); ++reg) {
        int32_t first = reg, position = 0;
        for (size_t i = 0; i < access.registerBits.size(); ++i) {
          const int32_t bit = 1 << access.registerBits[i];
          position |= (reg & bit) != 0 ? 1 << i : 0;
          first &= ~bit;
        }
        const auto offset = offsetOf(reg, lane, warp), start = offsetOf(first, lane, warp);
        ASSERT_EQ(offset.has_value(), start.has_value());
        if (offset) {
          ASSERT_EQ(*offset, *start + position) << tile.layout.str() << "\n" << buffer.str();
          ASSERT_EQ(*start % access.elements, 0);
          ASSERT_LT(*offset, buffer.size(HwDim::Offset));
          places.insert(*offset);
        }
      }
    }
  }
  const int64_t elements =
      std::accumulate(tile.shape.begin(), tile.shape.end(), int64_t{1}, std::multiplies<>());
  EXPECT_EQ(static_cast<int64_t>(places.size()), elements);
}

TEST(Reshapes, MoveEveryElementThroughMemory) {
  tests::Random random(6);
  int wide = 0;
  for (int i = 0; i < 60; ++i) {
    const Shape shape = random.shape(1 + static_cast<unsigned>(random.below(3)), 20);
    const Shape other = regrouped(random, shape);
    const int32_t bytes = 1 << random.below(4);
    const Layout from = random.blocked(shape, 2), to = random.scattered(other, 1);
    const Layout buffer = passes::chooseFlatBuffer({from, shape}, {to, other}, bytes);
    expectReaches({from, shape}, buffer, bytes);
    expectReaches({to, other}, buffer, bytes);
    wide += passes::flatAccess({from, shape}, buffer, bytes).elements > 1;
  }
  EXPECT_GT(wide, 5);
}

TEST(Reshapes, AvoidBankConflicts) {
  const Shape rows = {48, 64}, table = {16, 192}, rowMajor = {1, 0}, columnMajor = {0, 1};
  for (const int32_t bytes : {2, 4, 8}) {
    const Layout columns = Layout::blocked(rows, columnMajor, 1, 1);
    const Layout out = Layout::blocked(table, rowMajor, 1, 1);
    const Layout plain = passes::bufferLayout(Shape{3072}, Shape{4}, Shape{0});
    EXPECT_GT(passes::flatConflicts({columns, rows}, plain, bytes), 0);
    const Layout buffer = passes::chooseFlatBuffer({columns, rows}, {out, table}, bytes);
    EXPECT_EQ(passes::flatConflicts({columns, rows}, buffer, bytes), 0) << buffer.str();
    EXPECT_EQ(passes::flatConflicts({out, table}, buffer, bytes), 0) << buffer.str();
  }
}

} // namespace
