// SPDX-License-Identifier: Apache-2.0
// When compiling must stand still: at a fork, since a child gets only the forking thread, so LLVM's and
// our own locks must be free at that moment; and at the end of a process, whose static objects go.
//
// Compiling goes through a gate. Whoever forks closes it, which new compiles wait for, waits until the
// gate is empty, and opens it afterwards; the child begins with a gate, a thread pool and a watcher of
// its own. While a host function runs (Python), its thread does not count as compiling: it holds none
// of the locks, may wait for as long as it likes, and may fork itself.
//
// A Python process forks with the interpreter's lock held, which a compile in another thread may wait
// for: the extension calls beforeFork with that lock released, and the handlers of pthread_atfork then
// find the work done.
#pragma once

#include "runtime/float_environment.h"

namespace libtile::runtime {

// Held while anything is compiled or loaded, and around each lock that a launch may take. May nest. The compiler's own
// numbers are computed as the code's will be.
class CompileScope {
public:
  CompileScope();
  ~CompileScope();
  CompileScope(const CompileScope &) = delete;
  CompileScope &operator=(const CompileScope &) = delete;

private:
  FloatEnvironment standard_;
};

// Held while a host function runs.
class HostScope {
public:
  HostScope();
  ~HostScope();
  HostScope(const HostScope &) = delete;
  HostScope &operator=(const HostScope &) = delete;

private:
  int depth_; // of the CompileScopes around
};

// Closes the gate and waits until it is empty. The calling thread still passes, until its afterFork.
void beforeFork() noexcept;
void afterFork(bool isChild) noexcept;

// Installs the handlers of pthread_atfork, once.
void installForkHandlers() noexcept;

} // namespace libtile::runtime
