// SPDX-License-Identifier: Apache-2.0
// Nests and folds that end where their masks do: rows of every length in a longer tile, with numbers
// behind the mask, and in the scratch, that would be seen.
#include "tests/cpu/nests_fixture.h"

namespace libtile::test {

namespace {

LIBTILE_NEST_TESTS(NestBounds);

// softmax(x * scale) of a row, and the sum of its exponentials; `other` behind the mask.
const char *const kSoftmax = R"(
func @softmax stage=tile warps=4 stages=3 (%x: ptr<f32>, %o: ptr<f32>, %s: ptr<f32>, %n: i32, %scale: f32) {
  %i = arange {start=0} : tile<Bxi32>
  %ns = splat %n : tile<Bxi32>
  %m = cmp %i, %ns {predicate=slt} : tile<Bxi1>
  %xs = splat %x : tile<Bxptr<f32>>
  %xp = ptr_add %xs, %i : tile<Bxptr<f32>>
  %low = constant {value=OTHER} : tile<Bxf32>
  %v = load %xp, %m, %low : tile<Bxf32>
  %scales = splat %scale : tile<Bxf32>
  %w = mul %v, %scales : tile<Bxf32>
  %most = reduce %w {axis=0} : f32 {
  ^(%l: f32, %r: f32):
    %lr = fmax %l, %r : f32
    yield %lr
  }
  %mosts = splat %most : tile<Bxf32>
  %d = sub %w, %mosts : tile<Bxf32>
  %e = exp %d : tile<Bxf32>
  %sum = reduce %e {axis=0} : f32 {
  ^(%a: f32, %b: f32):
    %ab = add %a, %b : f32
    yield %ab
  }
  store %s, %sum
  %sums = splat %sum : tile<Bxf32>
  %y = fdiv %e, %sums : tile<Bxf32>
  %os = splat %o : tile<Bxptr<f32>>
  %op = ptr_add %os, %i : tile<Bxptr<f32>>
  store %op, %y, %m
  return
}
)";

struct Softmax {
  std::vector<double> y;
  double sum = 0;
};

Softmax reference(const std::vector<float> &x, int n, int block, double other, float scale) {
  std::vector<double> w(block, static_cast<double>(static_cast<float>(other) * scale));
  for (int i = 0; i < n; ++i) {
    w[i] = static_cast<double>(x[i] * scale);
  }
  double most = NAN;
  for (const double v : w) {
    most = std::fmax(most, v);
  }
  Softmax result;
  for (double &v : w) {
    v = std::exp(v - most);
    result.sum += v;
  }
  for (int i = 0; i < n; ++i) {
    result.y.push_back(w[i] / result.sum);
  }
  return result;
}

void expectClose(float got, double want, const std::string &where) {
  const double tolerance = 1e-5 * std::fabs(want) + 1e-37;
  EXPECT_TRUE(std::isnan(want) ? std::isnan(got) : std::fabs(got - want) <= tolerance)
      << got << " for " << want << " " << where;
}

void checkSoftmax(const std::string &way, int block, const std::string &otherText, double other) {
  TileKernel kernel(fill(kSoftmax, {{"OTHER", otherText}, {"B", std::to_string(block)}}), way);
  const float infinity = std::numeric_limits<float>::infinity();
  std::mt19937 random(block);
  for (int n = 0; n <= block; n += 1 + int(random() % 7)) {
    for (const float scale : {1.0F, -3.5F, 0.0F, infinity}) {
      for (const float special : {0.5F, -infinity, infinity, NAN}) {
        std::vector<float> x = randomFloats(block, n);
        if (n > 0) {
          x[random() % n] = special;
        }
        if (n % 2 == 0 && special == -infinity) {
          std::ranges::fill(x, special);
        }
        std::fill(x.begin() + n, x.end(), 1e30F); // masked off
        std::vector<float> o(block, 7);
        float sum = 7;
        std::memset(kernel.arena(), n % 3 == 0 ? 0xff : 0x7e, kernel.code().info.scratchBytes);
        kernel.run({pointer(x.data()), pointer(o.data()), pointer(&sum), slot(n), slot(scale)});
        const Softmax want = reference(x, n, block, other, scale);
        const std::string where = "of " + std::to_string(n) + " times " + std::to_string(scale) +
                                  " with " + std::to_string(special);
        expectClose(sum, want.sum, "the sum " + where);
        for (int i = 0; i < block; ++i) {
          expectClose(o[i], i < n ? want.y[i] : 7, std::to_string(i) + " " + where);
        }
      }
    }
  }
}

TEST_P(NestBounds, Softmax) {
  for (const int block : {100, 256}) {
    checkSoftmax(GetParam(), block, "0xfff0000000000000", -std::numeric_limits<double>::infinity());
    // Elements that do count.
    checkSoftmax(GetParam(), block, "0.0", 0);
    checkSoftmax(GetParam(), block, "1.5", 1.5);
  }
}

} // namespace

} // namespace libtile::test
