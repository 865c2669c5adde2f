// SPDX-License-Identifier: Apache-2.0
// What surrounds the run of a pass: time, verification and whom to call after it, as the options
// ask, and on a failure that is not the user's an InternalError that carries a reproducer: the
// function's text before the pass, and the tile-opt command that runs it again. Nothing is checked
// unless asked for; the text before is made by replaying, only after a failure.
#pragma once

#include "passes/pipeline.h"

#include <functional>
#include <string>

namespace libtile::passes {

class PassScope {
public:
  // `textBefore` is called after a failure only.
  PassScope(PassRun run, ir::Function &fn, const PassContext &context,
            const PipelineOptions &options, std::function<std::string()> textBefore)
      : run_(run), fn_(fn), context_(context), options_(options),
        textBefore_(std::move(textBefore)) {}

  // Runs the pass. UserError and Unsupported pass through; all else becomes InternalError.
  bool run();

private:
  bool runChecked();
  [[noreturn]] void fail(const std::string &message, const ir::Location &location) const;

  PassRun run_;
  ir::Function &fn_;
  const PassContext &context_;
  const PipelineOptions &options_;
  std::function<std::string()> textBefore_;
};

} // namespace libtile::passes
