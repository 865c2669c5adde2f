// SPDX-License-Identifier: Apache-2.0
// Dispatch to the target's generator, and the fence around LLVM: what LLVM calls fatal becomes an
// exception. The frames that it unwinds leave their objects half changed, so what belongs to that
// compilation (context, module, machine) is leaked, not destroyed; nothing else refers to it.
#include "codegen/backends.h"

#include <llvm/Support/ErrorHandling.h>

#include <mutex>

namespace libtile::codegen {

namespace {

[[noreturn]] void throwFatal(void *, const char *reason, bool) {
  throw LlvmFatalError{reason != nullptr ? reason : "unknown"};
}

void installHandler() {
  static std::once_flag once;
  std::call_once(once, [] { llvm::install_fatal_error_handler(throwFatal, nullptr); });
}

// Destroys from the last to the first, in any case but a fatal error.
struct Keep {
  std::vector<std::shared_ptr<void>> objects;
  ~Keep() {
    while (!objects.empty()) {
      objects.pop_back();
    }
  }
};

} // namespace

Code generate(const ir::Function &fn, const ir::Target &target, const CodeOptions &options) {
  installHandler();
  Keep keep;
  try {
    return target.laysOut ? nvidia::generate(fn, target, options, keep.objects)
                          : cpu::generate(fn, target, options, keep.objects);
  } catch (const LlvmFatalError &error) {
    new std::vector<std::shared_ptr<void>>(std::move(keep.objects));
    throw ir::InternalError(
        "LLVM failed on @" + fn.name + " for " + target.name + ": " + error.message, {}, fn.str());
  }
}

} // namespace libtile::codegen
