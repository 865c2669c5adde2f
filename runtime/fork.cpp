// SPDX-License-Identifier: Apache-2.0
#include "runtime/fork.h"

#include "runtime/drivers/thread_pool.h"

#include <mutex>
#include <new>
#include <pthread.h>
#include <shared_mutex>

namespace libtile::runtime {

namespace {

std::shared_mutex &compileMutex() {
  static auto *mutex = new std::shared_mutex;
  return *mutex;
}
thread_local int compileDepth = 0;
thread_local int forkDepth = 0;

} // namespace

CompileScope::CompileScope() {
  installForkHandlers();
  if (compileDepth == 0 && forkDepth == 0) {
    compileMutex().lock_shared();
  }
  ++compileDepth;
}

CompileScope::~CompileScope() {
  --compileDepth;
  if (compileDepth == 0 && forkDepth == 0) {
    compileMutex().unlock_shared();
  }
}

void beforeFork() noexcept {
  if (forkDepth++ == 0 && compileDepth == 0) {
    compileMutex().lock();
  }
}

void afterFork(bool isChild) noexcept {
  if (isChild && forkDepth == 1) {
    // Readers of other threads, which do not exist here, would be counted for ever.
    new (&compileMutex()) std::shared_mutex;
    if (compileDepth != 0) {
      compileMutex().lock_shared();
    }
  }
  if (isChild) {
    forgetPoolAfterFork();
  }
  if (--forkDepth == 0 && compileDepth == 0 && !isChild) {
    compileMutex().unlock();
  }
}

void installForkHandlers() noexcept {
  static const int installed =
      pthread_atfork([] { beforeFork(); }, [] { afterFork(false); }, [] { afterFork(true); });
  (void)installed;
}

} // namespace libtile::runtime
