// SPDX-License-Identifier: Apache-2.0
// Dispatch to the target's generator, and the fence around LLVM: what LLVM calls fatal becomes an
// exception. The frames that it unwinds leave their objects half changed, so what belongs to that
// compilation (context, module, machine) is leaked, not destroyed; nothing else refers to it.
#include "codegen/backends.h"

#include <llvm/Support/ErrorHandling.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

namespace libtile::codegen {

namespace {

[[noreturn]] void throwFatal(void *, const char *reason, bool) {
  throw LlvmFatalError{reason != nullptr ? reason : "unknown"};
}

// LLVM frees at a kernel's end what it took for it. glibc then hands the end of the heap to the system, which gives it out again
// page by page for the next kernel, unless it knows that blocks of such a size come and go: it keeps twice the largest one that
// it has mapped and seen freed. Nothing touches this one, and volatile keeps the compiler from leaving it out.
void keepFreedMemory() {
  constexpr size_t kBytes = size_t{16} << 20U;
  void *volatile block = std::malloc(kBytes);
  std::free(block);
}

void prepare() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::install_fatal_error_handler(throwFatal, nullptr);
    keepFreedMemory();
  });
}

// The host's own is a row of none.
const Backend &backendOf(const ir::Target &target) {
  const auto *found = std::ranges::find_if(kBackends, [&](const Backend &backend) {
    return std::ranges::any_of(backend.targets(), [&](const ir::Target &row) { return row.name == target.name; });
  });
  return found != std::end(kBackends) ? *found : kBackends[0];
}

// Destroys from the last to the first, in any case but a fatal error.
struct Keep {
  Kept objects;
  ~Keep() {
    while (!objects.empty()) {
      objects.pop_back();
    }
  }
};

} // namespace

Code generate(const ir::Function &fn, const ir::Target &target, const CodeOptions &options) {
  prepare();
  Keep keep;
  try {
    return backendOf(target).generate(fn, target, options, keep.objects);
  } catch (const LlvmFatalError &error) {
    new std::vector<std::shared_ptr<void>>(std::move(keep.objects));
    throw ir::InternalError(
        "LLVM failed on @" + fn.name + " for " + target.name + ": " + error.message, {}, fn.str());
  }
}

void forgetRecentCode() { cpu::forgetRecentObjects(); }

} // namespace libtile::codegen
