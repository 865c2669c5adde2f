// SPDX-License-Identifier: Apache-2.0
// The arena's laws on random lifetimes, the shapes of register blocks, and a cost.
#include "passes/allocate_arena.h"
#include "passes/cpu/contract_blocks.h"
#include "passes/cpu/nest_costs.h"
#include "codegen/codegen.h"
#include "ir/ops.h"
#include "ir/parser.h"

#include <gtest/gtest.h>

#include <random>

namespace libtile::test {

namespace {

using passes::Lifetime;

TEST(Arena, RandomLifetimesShareNothing) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<Lifetime> lives(random() % 40);
    for (Lifetime &life : lives) {
      life.start = random() % 50;
      life.end = life.start + random() % 20;
      life.bytes = random() % 5 == 0 ? 0 : random() % 5000;
      life.align = int64_t{1} << (random() % 9);
    }
    const passes::ArenaPlan plan = passes::allocateArena(lives);
    ASSERT_EQ(plan.offsets.size(), lives.size());
    int64_t end = 0;
    for (size_t i = 0; i < lives.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % lives[i].align, 0);
      end = std::max(end, plan.offsets[i] + lives[i].bytes);
      for (size_t j = 0; j < i; ++j) {
        const bool together = lives[i].start <= lives[j].end && lives[j].start <= lives[i].end;
        const bool apart = plan.offsets[i] + lives[i].bytes <= plan.offsets[j] ||
                           plan.offsets[j] + lives[j].bytes <= plan.offsets[i];
        EXPECT_TRUE(!together || apart) << i << " and " << j;
      }
    }
    EXPECT_EQ(plan.bytes, end);
  }
}

TEST(Arena, SharesBytesOverTime) {
  const std::vector<Lifetime> lives = {{0, 1, 1000}, {2, 3, 500}, {2, 3, 400}, {4, 9, 1000}};
  EXPECT_LE(passes::allocateArena(lives).bytes, 1024);
}

// The code's vector instructions, one of which is a division.
TEST(NestCosts, ARemainderIsWhatItsCodeIs) {
  codegen::CodeOptions options;
  options.keepAssembly = true;
  const std::string code = codegen::generate(ir::parse(R"(
func @f stage=nested warps=4 stages=3 (%x: ptr<f32>) {
  nest {extents=[64], lanes=16} {
  ^(%i: i32):
    %p = ptr_add %x, %i : ptr<f32>
    %v = load %p : f32
    %w = add %v, %v : f32
    %r = frem %v, %w : f32
    store %p, %r
    yield
  }
  return
}
)"), codegen::findTarget("avx512"), options).assembly;
  const std::string body = code.substr(code.find("libtile.fmod.f32x16:"));
  int count = 0;
  for (size_t at = body.find("\n\tv"); at < body.find("\tretq"); at = body.find("\n\tv", at + 1)) {
    ++count;
  }
  const int cost = count - 1 + passes::opCost(ir::Opcode::FDiv);
  EXPECT_NEAR(passes::opCost(ir::Opcode::FRem), cost, 8) << body;
}

TEST(ContractShape, FitsTheRegisters) {
  for (const char *name : {"x86-64-v3", "avx512", "avx512vnni", "avx512bf16", "amx", "aarch64", "aarch64-dotprod", "aarch64-bf16"}) {
    const ir::Target &target = codegen::findTarget(name);
    for (int m : {1, 5, 6, 17, 96, 128}) {
      for (int n : {1, 5, 16, 80, 128, 250}) {
        for (ir::Elem elem : {ir::Elem::F32, ir::Elem::BF16}) {
          const auto shape = passes::contractShape(target, elem, ir::Elem::F32, m, n, {});
          ASSERT_TRUE(shape);
          const int vectors = shape->blockN / shape->unit.lanes;
          const int rows = shape->blockM / shape->unit.rows;
          const int registers = shape->unit.registers > 0 ? shape->unit.registers : target.vectorRegisters;
          EXPECT_LE(rows * vectors + vectors + 1, registers);
          EXPECT_EQ(shape->blockM % shape->unit.rows, 0);
          EXPECT_EQ(shape->blockN % shape->unit.lanes, 0);
          const auto blocks = passes::rowBlocks(shape->unit, shape->paddedM, shape->blockM);
          ASSERT_TRUE(blocks);
          EXPECT_EQ(blocks->whole % blocks->both, 0);
          EXPECT_EQ((shape->paddedM - blocks->whole) % blocks->rest, 0);
          EXPECT_TRUE(blocks->both % shape->blockM == 0 && blocks->both % blocks->rest == 0);
          EXPECT_TRUE(blocks->rest == shape->blockM || (blocks->whole > 0 && 2 * blocks->rest > shape->blockM && blocks->rest < shape->blockM));
          EXPECT_EQ(shape->paddedN % shape->blockN, 0);
          EXPECT_GE(shape->paddedM, m);
          EXPECT_GE(shape->paddedN, n);
          EXPECT_LT(shape->paddedM, m + shape->blockM);
          EXPECT_LT(shape->paddedN, n + shape->blockN);
          EXPECT_GE(shape->rowA(31), shape->packedK(31));
          EXPECT_GE(shape->rowB(), shape->paddedN);
          EXPECT_GE(passes::iterationsPerChunk(target, *shape, 32), 1);
        }
      }
    }
    EXPECT_FALSE(passes::contractShape(target, ir::Elem::I64, ir::Elem::I64, 8, 8, {}));
  }
}

} // namespace

} // namespace libtile::test
