// SPDX-License-Identifier: Apache-2.0
// Slices under random layouts: register moves simulated on the host.
#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/gpu/layout_maps.h"
#include "tests/gpu/random_layouts.h"

#include <gtest/gtest.h>

using namespace libtile;
using ir::HwDim;
using ir::Layout;
using Shape = std::vector<int32_t>;

namespace {

struct Slice {
  ir::Function fn{"slice"};
  ir::OpId op;
  Shape from, to;
  unsigned axis;
  int64_t start, step;

  Slice(tests::Random &random, Shape shape) : from(std::move(shape)), to(from) {
    axis = static_cast<unsigned>(random.below(static_cast<int32_t>(from.size())));
    const int32_t extent = from[axis];
    start = random.below(extent);
    step = random.below(3) == 0 ? 1 + random.below(3) : 1;
    if (random.below(3) == 0) {
      start = start / 8 * 8;
    }
    to[axis] = 1 + random.below(1 + static_cast<int32_t>((extent - 1 - start) / step));
    if (random.below(4) == 0) {
      start += (to[axis] - 1) * step;
      step = -step;
    }
    ir::Builder builder(fn, fn.body());
    const ir::Type number = ir::Type::scalar(ir::Elem::I32);
    const ir::ValueId value = builder.constInt(ir::Type::tile(from, number), 0);
    const ir::Type type = ir::Type::tile(to, number);
    op = builder.op(ir::Opcode::Slice, {&value, 1}, {&type, 1});
    fn.setAttr(op, ir::Attr::axis, ir::AttrValue(int64_t{axis}));
    fn.setAttr(op, ir::Attr::start, ir::AttrValue(start));
    fn.setAttr(op, ir::Attr::step, ir::AttrValue(step));
  }

  // The map of registers under these layouts, where there is one, moves each element to its place.
  bool renames(const Layout &operand, const Layout &result) {
    const ir::ValueId a = fn.operand(op, 0), b = fn.result(op);
    fn.setType(a, fn.type(a).withLayout(fn.internLayout(operand)));
    fn.setType(b, fn.type(b).withLayout(fn.internLayout(result)));
    const auto map = passes::shapeRegisterMap(fn, op);
    for (int32_t warp = 0; map && warp < result.size(HwDim::Warp); ++warp) {
      for (int32_t lane = 0; lane < result.size(HwDim::Lane); ++lane) {
        for (int32_t reg = 0; reg < result.size(HwDim::Reg); ++reg) {
          ir::Coords want = result.apply(reg, lane, warp);
          const ir::Coords got = operand.apply((*map)[static_cast<size_t>(reg)], lane, warp);
          bool inside = true;
          for (size_t d = 0; d < want.size(); ++d) {
            inside = inside && want[d] < to[d];
          }
          want[axis] = static_cast<int32_t>(start + want[axis] * step);
          EXPECT_TRUE(!inside || got == want) << operand.str() << "\n" << result.str() << "\n" << fn.str();
        }
      }
    }
    return map.has_value();
  }
};

TEST(Slices, RenameRegistersWhereThreadsKeepTheirElements) {
  tests::Random random(11);
  int before = 0, after = 0, shared = 0;
  for (int i = 0; i < 600; ++i) {
    const Shape shape = random.shape(1 + static_cast<unsigned>(random.below(3)), 20);
    Slice slice(random, shape);
    const Layout from = random.below(2) == 0 ? random.blocked(shape, 2) : random.scattered(shape, 1);
    const Layout to = random.below(2) == 0 ? random.blocked(slice.to, 2) : random.scattered(slice.to, 1);
    if (const auto given = passes::resultLayout(slice.fn, slice.op, from)) {
      EXPECT_TRUE(given->covers(slice.to)) << given->str();
      EXPECT_TRUE(slice.renames(from, *given)) << slice.fn.str();
      ++after;
    }
    if (const auto needed = passes::operandLayout(slice.fn, slice.op, to)) {
      EXPECT_TRUE(needed->covers(shape)) << needed->str();
      EXPECT_TRUE(slice.renames(*needed, to)) << slice.fn.str();
      ++before;
    } else {
      ++shared;
    }
    slice.renames(from, to);
  }
  EXPECT_GT(before, 100);
  EXPECT_GT(after, 100);
  EXPECT_GT(shared, 100);
}

} // namespace
