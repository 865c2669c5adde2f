// SPDX-License-Identifier: Apache-2.0
// The pipeline: one table of passes, and a second one of the orders that must hold, with reasons.
#pragma once

#include "passes/pass.h"

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace libtile::passes {

enum class When : uint8_t { Always, LaysOut, Nests }; // which execution model (Target::laysOut)

struct PassRow {
  const char *name; // the file's name
  PassFn fn;
  When when;
  ir::Stage needs;
  ir::Stage gives;
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

// A pass is named by its name (every run of it), "name:2" (the second run), or "all".
struct PipelineOptions {
  bool verifyEach = false;           // after each pass
  bool verifyEnd = true;             // after the last one
  std::string printAfter;            // "" for none
  std::string stopAfter;             // "" for the end
  std::vector<std::string> disabled; // passes left out
  std::function<void(std::string_view pass, const std::string &text)> print;
  std::function<void(std::string_view pass, double seconds)> time;
};

// Takes the function from the tile stage to Staged (GPU) or Nested (CPU). A failure inside a pass
// that is not the user's becomes InternalError with the text before the pass and a tile-opt
// command.
void runPipeline(ir::Function &fn, const PassContext &context, const PipelineOptions &options = {});
// One pass, under the same PassScope.
void runPass(const PassRow &row, ir::Function &fn, const PassContext &context,
             const PipelineOptions &options = {});

} // namespace libtile::passes
