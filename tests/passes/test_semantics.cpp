// SPDX-License-Identifier: Apache-2.0
// Every pass of the tile stage leaves what a function computes as it was: random programs are run
// before and after, and their memory compared byte for byte.
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/eliminate_common_subexpressions.h"
#include "passes/eliminate_dead_code.h"
#include "passes/hoist_loop_invariants.h"
#include "passes/pipeline.h"
#include "passes/simplify.h"
#include "passes/split_carried_offsets.h"
#include "tests/passes/random_program.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace libtile::test {
namespace {

using passes::PassContext;

std::string problems(const ir::Function &fn) {
  std::string text;
  for (const ir::Violation &violation : ir::verify(fn)) {
    text += "[" + std::to_string(violation.invariant) + "] " + violation.message + "\n";
  }
  return text;
}

void checkPass(const char *name, std::vector<passes::PassFn> passes, uint64_t seeds) {
  const ir::Target target;
  const PassContext context{target};
  unsigned changed = 0;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    RandomProgram program =
        randomProgram(seed, {2 + static_cast<unsigned>(seed / 25) % 40, seed % 2 == 1, seed % 3 == 2});
    ASSERT_EQ(problems(program.fn), "") << program.fn.str();
    const std::string before = program.fn.str();
    Machine first = program.machine, second = program.machine;
    evaluate(program.fn, program.arguments, first);
    for (passes::PassFn pass : passes) {
      changed += pass(program.fn, context) ? 1 : 0;
      ASSERT_EQ(problems(program.fn), "") << name << " seed " << seed << "\n"
                                          << before << program.fn.str();
    }
    second.budget *= 4;
    evaluate(program.fn, program.arguments, second);
    const auto differs = std::ranges::mismatch(first.memory, second.memory).in1;
    ASSERT_TRUE(differs == first.memory.end())
        << name << " seed " << seed << " at " << differs - first.memory.begin() << "\n"
        << before << "\n"
        << program.fn.str();
    ASSERT_EQ(ir::print(ir::parse(program.fn.str())), program.fn.str());
  }
  EXPECT_GT(changed, seeds / 4) << name << " hardly ever does anything here";
}

TEST(Semantics, Simplify) { checkPass("simplify", {passes::simplify}, 1500); }

TEST(Semantics, EliminateDeadCode) { checkPass("dce", {passes::eliminateDeadCode}, 300); }

TEST(Semantics, EliminateCommonSubexpressions) {
  checkPass("cse", {passes::eliminateCommonSubexpressions}, 300);
}

TEST(Semantics, HoistLoopInvariants) { checkPass("licm", {passes::hoistLoopInvariants}, 300); }

TEST(Semantics, SplitCarriedOffsets) {
  checkPass("split", {passes::simplify, passes::splitCarriedOffsets}, 500);
}

// The rows of the table that every target runs.
TEST(Semantics, AllTogether) {
  std::vector<passes::PassFn> tileStage;
  for (const passes::PassRow &row : passes::pipelineTable()) {
    if (row.when == passes::When::Always) {
      tileStage.push_back(row.fn);
    }
  }
  checkPass("all", tileStage, 1000);
}

// A second run finds nothing: the rules terminate in a normal form.
TEST(Semantics, SimplifyIsIdempotent) {
  const ir::Target target;
  const PassContext context{target};
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomProgram program = randomProgram(seed, {2 + static_cast<unsigned>(seed / 10) % 40});
    passes::simplify(program.fn, context);
    passes::eliminateDeadCode(program.fn,
                              context); // what left with a region has left operands behind
    const std::string once = program.fn.str();
    const bool again = passes::simplify(program.fn, context);
    ASSERT_EQ(once, program.fn.str()) << "seed " << seed;
    ASSERT_FALSE(again) << "seed " << seed << "\n" << once;
  }
}

} // namespace
} // namespace libtile::test
