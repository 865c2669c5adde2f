// SPDX-License-Identifier: Apache-2.0
#include "runtime/tools/pass_printer.h"

#include "runtime/tools/text_diff.h"

#include <iostream>

namespace libtile {

namespace {

void show(const std::string &title, const std::string &text) {
  std::cout << "// ---- " << title << "\n" << text;
}

} // namespace

std::string PassPrinter::text(const ir::Function &fn) { return ir::print(fn, options()); }

ir::PrintOptions PassPrinter::options() {
  ir::PrintOptions print;
  print.locations = options_.locations;
  print.source = options_.source;
  print.names = &names_;
  return print;
}

void PassPrinter::begin(const ir::Function &fn) {
  last_ = text(fn);
  if (options_.changes != ToolOptions::Changes::None) {
    show("at first", last_);
  }
}

// The text is made after each run, so that names do not depend on what is printed.
void PassPrinter::after(const passes::PassRun &run, const ir::Function &fn) {
  using Changes = ToolOptions::Changes;
  std::string now = text(fn);
  const std::string title = "after " + std::string(run.row.name) +
                            (run.nth > 1 ? ":" + std::to_string(run.nth) : "");
  const bool changed = now != last_;
  if (passes::matches(options_.printAfter, run) || (changed && options_.changes == Changes::Text)) {
    show(title, now);
  } else if (changed && options_.changes == Changes::Diff) {
    show(title, diff(last_, now));
  }
  last_ = std::move(now);
}

} // namespace libtile
