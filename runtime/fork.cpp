// SPDX-License-Identifier: Apache-2.0
#include "runtime/fork.h"

#include "runtime/cache/reclaim.h"
#include "runtime/drivers/thread_pool.h"

#include <condition_variable>
#include <mutex>
#include <new>
#include <pthread.h>
#include <utility>

namespace libtile::runtime {

namespace {

class Gate {
public:
  void enter() noexcept {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !isClosed_; });
    ++inside_;
  }
  void leave() noexcept {
    const std::lock_guard lock(mutex_);
    if (--inside_ == 0) {
      changed_.notify_all();
    }
  }
  void close() noexcept {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !isClosed_; });
    isClosed_ = true;
    changed_.wait(lock, [this] { return inside_ == 0; });
  }
  void open() noexcept {
    const std::lock_guard lock(mutex_);
    isClosed_ = false;
    changed_.notify_all();
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int inside_ = 0; // threads
  bool isClosed_ = false;
};

// Never destroyed: threads may compile until the process is gone.
Gate &gate() {
  static auto *made = new Gate;
  return *made;
}
thread_local int compileDepth = 0;
thread_local int forkDepth = 0; // 1 or more: this thread has closed the gate

} // namespace

CompileScope::CompileScope() {
  installForkHandlers();
  if (compileDepth++ == 0 && forkDepth == 0) {
    gate().enter();
  }
}

CompileScope::~CompileScope() {
  if (--compileDepth == 0 && forkDepth == 0) {
    gate().leave();
  }
}

HostScope::HostScope() : depth_(std::exchange(compileDepth, 0)) {
  if (depth_ != 0 && forkDepth == 0) {
    gate().leave();
  }
}

HostScope::~HostScope() {
  if (depth_ != 0 && forkDepth == 0) {
    gate().enter();
  }
  compileDepth = depth_;
}

void beforeFork() noexcept {
  if (forkDepth++ == 0) {
    if (compileDepth != 0) {
      gate().leave();
    }
    gate().close();
  }
}

void afterFork(bool isChild) noexcept {
  if (isChild) {
    // Other threads, which do not exist here, may be inside, or hold the gate's lock.
    new (&gate()) Gate;
    forgetPoolAfterFork();
    forgetReadersAfterFork();
  }
  if (--forkDepth == 0) {
    if (!isChild) {
      gate().open();
    }
    if (compileDepth != 0) {
      gate().enter();
    }
  }
}

void installForkHandlers() noexcept {
  static const int installed =
      pthread_atfork([] { beforeFork(); }, [] { afterFork(false); }, [] { afterFork(true); });
  (void)installed;
}

} // namespace libtile::runtime
