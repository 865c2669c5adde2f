// SPDX-License-Identifier: Apache-2.0
#include "passes/pass_scope.h"

#include "ir/verifier.h"

#include <chrono>

namespace libtile::passes {

bool PassScope::run() {
  try {
    return runChecked();
  } catch (const ir::UserError &) {
    throw;
  } catch (const ir::Unsupported &) {
    throw;
  } catch (const ir::Error &error) {
    fail(error.message(), error.location());
  } catch (const std::exception &error) {
    fail(error.what(), {});
  }
}

bool PassScope::runChecked() {
  const auto start = std::chrono::steady_clock::now();
  const PassRow &row = run_.row;
  const bool converts = row.needs != row.gives;
  ir::check(!converts || fn_.stage == row.needs,
            "the function is in the stage that the pass needs");
  if (options_.before) {
    options_.before(run_, fn_);
  }
  const bool changed = row.fn(fn_, context_);
  ir::check(!converts || fn_.stage == row.gives, "the pass has reached its stage");
  if (options_.time) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    options_.time(row.name, elapsed.count());
  }
  if (options_.after) {
    options_.after(run_, fn_);
  }
  if (options_.verifyEach) {
    ir::verifyOrThrow(fn_, row.name, context_.target.warpSize);
  }
  return changed;
}

void PassScope::fail(const std::string &message, const ir::Location &location) const {
  std::string reproducer =
      "// tile-opt --target=" + context_.target.name + " --passes=" + run_.row.name;
  if (context_.numWarps != 0) {
    reproducer += " --warps=" + std::to_string(context_.numWarps);
  }
  if (context_.numStages != 0) {
    reproducer += " --stages=" + std::to_string(context_.numStages);
  }
  if (context_.unitRows != 0) {
    reproducer += " --unit-rows=" + std::to_string(context_.unitRows);
  }
  if (context_.unitGroups != 0) {
    reproducer += " --unit-groups=" + std::to_string(context_.unitGroups);
  }
  reproducer += " --verify-each this.tile\n" + textBefore_();
  throw ir::InternalError(std::string("pass ") + run_.row.name + ": " + message, location,
                          std::move(reproducer));
}

} // namespace libtile::passes
