// SPDX-License-Identifier: Apache-2.0
// The pipeline: one table of passes, and a second one of the orders that must hold, with reasons.
#pragma once

#include "ir/printer.h"
#include "passes/pass.h"

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace libtile::passes {

enum class When : uint8_t { Always, LaysOut, Nests }; // which execution model (Target::laysOut)

// What the pass is going to do with the function, as text.
using PlanFn = std::string (*)(const ir::Function &, const PassContext &, const ir::PrintOptions &);

struct PassRow {
  const char *name; // the file's name
  PassFn fn;
  When when;
  ir::Stage needs;
  ir::Stage gives;
  PlanFn plan = nullptr; // null: it does as its header says
};

// In the order of running; a pass may have several rows.
[[nodiscard]] std::span<const PassRow> pipelineTable();
[[nodiscard]] const PassRow *findPass(std::string_view name);

// An order that must hold in the table, for every target on which both run.
struct OrderConstraint {
  const char *before;
  const char *after;
  enum Kind : uint8_t {
    SomeBefore, // some run of `before` precedes the first of `after`
    AllBefore,  // every run of `before` precedes the first of `after`
    SomeAfter,  // some run of `after` follows the last of `before`
  } kind;
  const char *reason;
};
[[nodiscard]] std::span<const OrderConstraint> orderConstraints();
// What breaks a constraint or a chain of stages, in words; empty if the table is in order.
[[nodiscard]] std::vector<std::string> checkPipeline(std::span<const PassRow> table,
                                                     std::span<const OrderConstraint> constraints);

// One run of a pass in a pipeline.
struct PassRun {
  const PassRow &row;
  unsigned nth; // the how manyth run of a pass of this name, from 1
};

// "simplify" names each run of that pass, "simplify:2" the second, "all" every pass.
[[nodiscard]] bool matches(const std::string &pattern, const PassRun &run);

// A pass is named by a pattern (matches).
struct PipelineOptions {
  bool verifyEach = false;           // after each pass
  bool verifyEnd = true;             // after the last one
  std::string startAfter;            // "" for the beginning
  std::string stopAfter;             // "" for the end
  std::vector<std::string> disabled; // passes left out
  // Called before each pass.
  std::function<void(const PassRun &run, const ir::Function &fn)> before;
  // Called after each pass, before the function is verified.
  std::function<void(const PassRun &run, const ir::Function &fn)> after;
  std::function<void(std::string_view pass, double seconds)> time;
};

// The runs that the options leave of the pipeline for the target, in order.
[[nodiscard]] std::vector<PassRun> schedule(const ir::Target &target,
                                            const PipelineOptions &options = {});
// Takes the function from the tile stage (startAfter: from where that pass left it) to Staged (GPU)
// or Nested (CPU). Throws UserError where the options, or the function's stage, leave a pass in front
// of another stage than it needs. A failure inside a pass that is not the user's becomes
// InternalError with the text before the pass and a tile-opt command.
void runPipeline(ir::Function &fn, const PassContext &context, const PipelineOptions &options = {});
// One pass, under the same PassScope.
void runPass(const PassRow &row, ir::Function &fn, const PassContext &context,
             const PipelineOptions &options = {});

} // namespace libtile::passes
