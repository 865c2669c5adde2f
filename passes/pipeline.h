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

[[nodiscard]] std::span<const PassRow> pipelineTable();
[[nodiscard]] const PassRow *findPass(std::string_view name);

struct PipelineOptions {
  bool verifyEach = false;             // after each pass; at the end it is always done
  std::string printAfter;              // "" none, "all", or a pass's name (the n-th run counts too)
  std::string stopAfter;               // a pass's name
  std::vector<std::string> disabled;   // passes left out
  std::function<void(std::string_view pass, const std::string &text)> print;
  std::function<void(std::string_view pass, double seconds)> time;
};

// Takes the function from the tile stage to Staged (GPU) or Nested (CPU). A failure inside a pass
// that is not the user's becomes InternalError with the text before the pass and a tile-opt command.
void runPipeline(ir::Function &fn, const PassContext &context, const PipelineOptions &options = {});
// One pass, under the same PassScope.
void runPass(const PassRow &row, ir::Function &fn, const PassContext &context,
             const PipelineOptions &options = {});

} // namespace libtile::passes
