// SPDX-License-Identifier: Apache-2.0
// Where the pass takes a factor out of a fold, memory afterwards is the same but for signs of zeros: for every factor that the
// guard admits.
#include "passes/gpu/factor_scales.h"
#include "codegen/codegen.h"
#include "ir/parser.h"
#include "ir/verifier.h"
#include "tests/passes/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

namespace libtile::test {
namespace {

const char *const kSoftmax = R"(
func @scores stage=tile warps=1 stages=3 (%x: ptr<f32>, %out: ptr<f32>, %scale: f32) {
  %i = arange {start=0} : tile<8xi32>
  %r = expand_dims %i {axis=1} : tile<8x1xi32>
  %c = expand_dims %i {axis=0} : tile<1x8xi32>
  %rb = broadcast %r : tile<8x8xi32>
  %cb = broadcast %c : tile<8x8xi32>
  %c8 = constant {value=8} : tile<8x8xi32>
  %rw = mul %rb, %c8 : tile<8x8xi32>
  %at = add %rw, %cb : tile<8x8xi32>
  %xs = splat %x : tile<8x8xptr<f32>>
  %xp = ptr_add %xs, %at : tile<8x8xptr<f32>>
  %s = load %xp : tile<8x8xf32>
  %k = constant {value=FACTOR} : f32
  %factor = mul %scale, %k : f32
  %f = splat %factor : tile<8x8xf32>
  %y = mul LEFT, RIGHT : tile<8x8xf32>
  %mask = cmp %cb, %rb {predicate=sle} : tile<8x8xi1>
  %none = constant {value=NONE} : tile<8x8xf32>
  %seen = select %mask, SHOWN : tile<8x8xf32>
  %m = reduce %seen {axis=1} : tile<8xf32> {
  ^(%a: f32, %b: f32):
    %g = FOLD %a, %b : f32
    yield %g
  }
  %me = expand_dims %m {axis=1} : tile<8x1xf32>
  %mb = broadcast %me : tile<8x8xf32>
  %d = sub %seen, %mb : tile<8x8xf32>
  %os = splat %out : tile<8x8xptr<f32>>
  %op = ptr_add %os, %at : tile<8x8xptr<f32>>
  store %op, %d
  return
}
)";

std::string with(std::string text, const std::string &from, const std::string &to) { return text.replace(text.find(from), from.size(), to); }

std::vector<float> floats(const Machine &machine) {
  std::vector<float> result(machine.memory.size() / 4);
  std::memcpy(result.data(), machine.memory.data(), machine.memory.size());
  return result;
}

TEST(FactorScales, LeavesEveryNumber) {
  std::mt19937 random(5);
  const float special[] = {0.0f, -0.0f, 1.0f, -1.0f, 1e-45f, -1e-38f, 3e38f, -3e38f, INFINITY, -INFINITY, 1.5f};
  for (int round = 0; round < 400; ++round) {
    const bool least = random() % 2 == 0, first = random() % 2 == 0;
    std::string text = with(kSoftmax, "FOLD", least ? "fmin" : "fmax");
    text = with(text, "NONE", least ? "0x7ff0000000000000" : "0xfff0000000000000");
    text = with(text, "SHOWN", first ? "%y, %none" : "%none, %y");
    text = with(text, "LEFT, RIGHT", random() % 2 == 0 ? "%s, %f" : "%f, %s");
    text = with(text, "FACTOR", random() % 2 == 0 ? "1.4426950216293335" : "0.125");
    ir::Function fn = ir::parse(text);
    const ir::Function before = fn.clone();
    ASSERT_TRUE(passes::factorScales(fn, {codegen::findTarget("sm_90a")}));
    ASSERT_TRUE(ir::verify(fn).empty()) << fn.str();
    ASSERT_EQ(fn.guards.size(), 1U);
    Machine machine;
    machine.memory.assign(2 * 64 * 4, 0);
    for (size_t i = 0; i < 64; ++i) {
      const float any = std::ldexp(static_cast<float>(static_cast<int32_t>(random())), static_cast<int>(random() % 120) - 90);
      const float number = random() % 3 == 0 ? special[random() % std::size(special)] : any;
      std::memcpy(&machine.memory[4 * i], &number, 4);
    }
    const double scale = std::ldexp(1.0 + static_cast<double>(random() % 1000) / 1024, static_cast<int>(random() % 128) - 64);
    Machine other = machine;
    const std::vector<Element> arguments = {{0, 0}, {256, 0}, {0, static_cast<double>(static_cast<float>(scale))}};
    evaluate(before, arguments, machine);
    evaluate(fn, arguments, other);
    const std::vector<float> got = floats(other), want = floats(machine);
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) << got[i] << " for " << want[i] << " by " << scale << fn.str();
    }
  }
}

TEST(FactorScales, RelyingOnNothingLeavesParametersAlone) {
  std::string text = with(with(kSoftmax, "FOLD", "fmax"), "NONE", "0xfff0000000000000");
  text = with(with(with(text, "SHOWN", "%y, %none"), "LEFT, RIGHT", "%s, %f"), "FACTOR", "0.5");
  ir::Function fn = ir::parse(text);
  passes::PassContext context{codegen::findTarget("sm_90a")};
  for (const auto less : {passes::Reliance::Nothing, passes::Reliance::Arguments}) {
    context.relies = less;
    EXPECT_FALSE(passes::factorScales(fn, context));
  }
  // A constant is known; a negative one changes the order.
  ir::Function known = ir::parse(with(text, "mul %scale, %k", "mul %k, %k")), negative = ir::parse(with(text, "0.5", "-0.5"));
  EXPECT_TRUE(passes::factorScales(known, context));
  EXPECT_TRUE(known.guards.empty());
  context.relies = passes::Reliance::Numbers;
  EXPECT_FALSE(passes::factorScales(negative, context));
}

} // namespace
} // namespace libtile::test
