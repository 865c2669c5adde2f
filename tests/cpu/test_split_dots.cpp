// SPDX-License-Identifier: Apache-2.0
// Dots of fp32 as the GPU's plan splits them in dots of parts, run on the CPU: the parts' products are as
// exact there as on a matrix unit.
#include "codegen/codegen.h"
#include "ir/ops.h"
#include "passes/gpu/plan_dots.h"
#include "tests/cpu/nests_fixture.h"

#include <limits>

namespace libtile::test {

namespace {

constexpr int kRows = 16, kDepth = 32;

const char *const kDot = R"(
func @split stage=tile warps=4 stages=3 (%x: ptr<f32>, %y: ptr<f32>, %o: ptr<f32>) {
  %i = arange {start=0} : tile<512xi32>
  %ai = reshape %i : tile<16x32xi32>
  %bi = reshape %i : tile<32x16xi32>
  %xs = splat %x : tile<16x32xptr<f32>>
  %xp = ptr_add %xs, %ai : tile<16x32xptr<f32>>
  %ys = splat %y : tile<32x16xptr<f32>>
  %yp = ptr_add %ys, %bi : tile<32x16xptr<f32>>
  %a = load %xp : tile<16x32xf32>
  %b = load %yp : tile<32x16xf32>
  %c = constant {value=0.0} : tile<16x16xf32>
  %d = dot %a, %b, %c {precision=PRECISION} : tile<16x16xf32>
  %j = arange {start=0} : tile<256xi32>
  %oi = reshape %j : tile<16x16xi32>
  %os = splat %o : tile<16x16xptr<f32>>
  %op = ptr_add %os, %oi : tile<16x16xptr<f32>>
  store %op, %d
  return
}
)";

struct Split {
  const char *precision;
  size_t dots;
  double error; // of the sum of all magnitudes
};
const Split kSplits[] = {{"tf32x3", 3, 0x1p-20}, {"bf16x3", 3, 0x1p-14}, {"bf16x6", 6, 0x1p-21}};

// As text for the CPU.
std::string planned(const Split &split) {
  ir::Function fn = ir::parse(fill(kDot, {{"PRECISION", split.precision}}));
  passes::planDots(fn, {codegen::findTarget("sm_80")});
  ir::verifyOrThrow(fn, "plan_dots");
  size_t dots = 0;
  for (const ir::OpId op : fn.walk()) {
    if (fn.opcode(op) == ir::Opcode::Dot) {
      EXPECT_TRUE(passes::unitOf(fn, op, codegen::findTarget("sm_80")).together);
      fn.eraseAttr(op, ir::Attr::unit); // the CPU has units of its own
      ++dots;
    }
  }
  EXPECT_EQ(dots, split.dots);
  EXPECT_TRUE(fn.fallbacks.empty());
  return ir::print(fn);
}

std::vector<float> run(const std::string &text, const std::string &way, const std::vector<float> &a,
                       const std::vector<float> &b) {
  TileKernel kernel(text, way);
  std::vector<float> out(size_t(kRows) * kRows);
  kernel.run({pointer(a.data()), pointer(b.data()), pointer(out.data())});
  return out;
}

// The product and the sum of all magnitudes, of a row and a column.
std::pair<double, double> exact(const std::vector<float> &a, const std::vector<float> &b, int row,
                                int column) {
  double sum = 0, magnitude = 0;
  for (int k = 0; k < kDepth; ++k) {
    const double product = double(a[row * kDepth + k]) * b[k * kRows + column];
    sum += product;
    magnitude += std::fabs(product);
  }
  return {sum, magnitude};
}

std::vector<float> numbers(uint32_t seed, double exponents) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> mantissa(-1, 1), exponent(-exponents, exponents);
  std::vector<float> out(size_t(kRows) * kDepth);
  for (float &number : out) {
    number = float(mantissa(random) * std::exp2(exponent(random)));
  }
  return out;
}

LIBTILE_NEST_TESTS(SplitDots);

TEST_P(SplitDots, AreAsCloseAsTheySay) {
  for (const Split &split : kSplits) {
    const std::string text = planned(split);
    for (const double exponents : {0.0, 12.0}) {
      const auto a = numbers(1, exponents), b = numbers(2, exponents);
      const auto out = run(text, GetParam(), a, b);
      for (int i = 0; i < kRows * kRows; ++i) {
        const auto [sum, magnitude] = exact(a, b, i / kRows, i % kRows);
        EXPECT_LE(std::fabs(out[i] - sum), magnitude * (split.error + 2 * (kDepth + 8) * 0x1p-24))
            << split.precision << " " << i;
      }
    }
  }
}

TEST_P(SplitDots, KeepInfinitiesAndTheLargestNumbers) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::bit_cast<float>(0x7f800001U); // no part of it but the last has a bit
  for (const Split &split : kSplits) {
    auto a = numbers(3, 0);
    std::vector<float> b(size_t(kDepth) * kRows);
    for (size_t i = 0; i < b.size(); ++i) {
      b[i] = 0.5F + float(i % 7) / 16; // the second part is 0
    }
    a[3] = infinity;
    a[kDepth + 5] = -infinity;
    a[2 * kDepth + 7] = nan;
    std::fill(a.begin() + 3 * kDepth, a.begin() + 5 * kDepth, 0.0F);
    a[3 * kDepth + 9] = std::numeric_limits<float>::max();
    a[4 * kDepth + 1] = std::numeric_limits<float>::min();
    const auto out = run(planned(split), GetParam(), a, b);
    for (int column = 0; column < kRows; ++column) {
      EXPECT_EQ(out[column], infinity);
      EXPECT_EQ(out[kRows + column], -infinity);
      EXPECT_TRUE(std::isnan(out[2 * kRows + column]));
      for (const int row : {3, 4}) {
        const auto [sum, magnitude] = exact(a, b, row, column);
        EXPECT_NEAR(out[row * kRows + column] / sum, 1, 0x1p-12) << split.precision << " " << row;
      }
    }
  }
}

} // namespace

} // namespace libtile::test
