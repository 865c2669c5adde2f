// SPDX-License-Identifier: Apache-2.0
// The table obeys its constraints, the constraints can fail, and a failing pass leaves a
// reproducer.
#include "passes/pipeline.h"

#include "ir/parser.h"
#include "ir/printer.h"
#include "passes/pass_scope.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace libtile::test {
namespace {

using passes::PassContext;
using passes::PassRow;
using passes::PipelineOptions;

constexpr const char *kText = R"(
func @f stage=tile warps=4 stages=3 (%n: i32, %p: ptr<i32>) {
  %0 = constant {value=0} : i32
  %1 = add %n, %0 : i32
  store %p, %1
  return
}
)";

TEST(Pipeline, TableIsInOrder) {
  for (const std::string &wrong :
       checkPipeline(passes::pipelineTable(), passes::orderConstraints())) {
    ADD_FAILURE() << wrong;
  }
}

TEST(Pipeline, ConstraintsNamePassesOfTheTable) {
  for (const passes::OrderConstraint &constraint : passes::orderConstraints()) {
    EXPECT_NE(passes::findPass(constraint.before), nullptr) << constraint.before;
    EXPECT_NE(passes::findPass(constraint.after), nullptr) << constraint.after;
  }
}

// Each constraint is broken by some order: all the rows of one pass put behind the other.
TEST(Pipeline, ConstraintsCanFail) {
  for (const passes::OrderConstraint &constraint : passes::orderConstraints()) {
    std::vector<PassRow> rows(passes::pipelineTable().begin(), passes::pipelineTable().end());
    std::stable_partition(rows.begin(), rows.end(), [&](const PassRow &row) {
      return std::string_view(row.name) == constraint.after;
    });
    EXPECT_FALSE(checkPipeline(rows, {&constraint, 1}).empty())
        << constraint.before << " " << constraint.after;
  }
}

TEST(Pipeline, CallsStopsAndLeavesOut) {
  ir::Target target;
  PipelineOptions options;
  std::vector<std::string> printed, timed;
  options.stopAfter = "hoist_loop_invariants";
  options.disabled = {"eliminate_common_subexpressions"};
  options.after = [&](const passes::PassRun &run, const ir::Function &now) {
    if (passes::matches("simplify:1", run)) {
      printed.push_back(ir::print(now));
    }
  };
  options.time = [&](std::string_view pass, double) { timed.emplace_back(pass); };
  ir::Function fn = ir::parse(kText);
  passes::runPipeline(fn, {target}, options);
  ASSERT_EQ(printed.size(), 1U);
  EXPECT_NE(printed[0].find("store %p, %n"), std::string::npos);
  EXPECT_EQ(timed, (std::vector<std::string>{"simplify", "split_carried_offsets",
                                             "hoist_loop_invariants"}));
}

// What is started after a pass is the rest of the pipeline.
TEST(Pipeline, StartsAfterAPass) {
  ir::Target target;
  target.laysOut = true;
  const std::vector<passes::PassRun> all = passes::schedule(target);
  for (size_t i = 0; i < all.size(); ++i) {
    PipelineOptions options;
    options.startAfter = std::string(all[i].row.name) + ":" + std::to_string(all[i].nth);
    const std::vector<passes::PassRun> rest = passes::schedule(target, options);
    ASSERT_EQ(rest.size(), all.size() - i - 1) << options.startAfter;
    for (size_t k = 0; k < rest.size(); ++k) {
      EXPECT_EQ(&rest[k].row, &all[i + 1 + k].row);
      EXPECT_EQ(rest[k].nth, all[i + 1 + k].nth);
    }
  }
}

// The user's options may leave out what a later pass builds on.
TEST(Pipeline, AMissingStageIsTheUsersError) {
  ir::Target target;
  target.laysOut = true;
  PipelineOptions options;
  options.disabled = {"assign_layouts"};
  ir::Function fn = ir::parse(kText);
  EXPECT_THROW(passes::runPipeline(fn, {target}, options), ir::UserError);
  fn.stage = ir::Stage::Nested;
  EXPECT_THROW(passes::runPipeline(fn, {target}), ir::UserError);
}

bool failing(ir::Function &fn, const PassContext &) {
  fn.erase(fn.first(fn.body()));
  throw std::out_of_range("index 7");
}

bool refusing(ir::Function &, const PassContext &) { throw ir::Unsupported("not on this target"); }

TEST(Pipeline, FailureCarriesAReproducer) {
  ir::Target target;
  target.name = "sm_80";
  const PassRow row{"failing", failing, passes::When::Always, ir::Stage::Tile, ir::Stage::Tile};
  ir::Function fn = ir::parse(kText);
  fn.erase(fn.next(fn.next(fn.first(fn.body())))); // the store: the first op has uses
  const std::string before = ir::print(fn);
  try {
    passes::runPass(row, fn, {target}, {});
    FAIL();
  } catch (const ir::InternalError &error) {
    EXPECT_NE(error.message().find("pass failing"), std::string::npos);
    EXPECT_NE(error.reproducer().find(before), std::string::npos);
    EXPECT_NE(error.reproducer().find("tile-opt --target=sm_80"), std::string::npos);
  }
}

TEST(Pipeline, UnsupportedPassesThrough) {
  ir::Target target;
  const PassRow row{"refusing", refusing, passes::When::Always, ir::Stage::Tile, ir::Stage::Tile};
  ir::Function fn = ir::parse(kText);
  EXPECT_THROW(passes::runPass(row, fn, {target}, {}), ir::Unsupported);
}

} // namespace
} // namespace libtile::test
