// SPDX-License-Identifier: Apache-2.0
// What tile-opt prints while passes run. One value has one name in all that is printed.
#pragma once

#include "ir/names.h"
#include "ir/printer.h"
#include "runtime/tools/options.h"

namespace libtile {

class PassPrinter {
public:
  PassPrinter(const ToolOptions &options, ir::Names names)
      : options_(options), names_(std::move(names)) {}

  // Before the first pass: names what there is in the order of the text.
  void begin(const ir::Function &fn);
  // Prints the function, or what changed in it, if the options ask for it after this run.
  void after(const passes::PassRun &run, const ir::Function &fn);
  [[nodiscard]] std::string text(const ir::Function &fn);
  // How texts are printed.
  [[nodiscard]] ir::PrintOptions options();

private:
  const ToolOptions &options_;
  ir::Names names_;
  std::string last_; // the text that was made last
};

} // namespace libtile
