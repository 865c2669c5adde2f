// SPDX-License-Identifier: Apache-2.0
// What a fork must wait for: a child gets only the forking thread, so LLVM's and our own locks must
// be free at that moment. Compiling holds a shared lock, forking takes it exclusively; the child also
// forgets the parent's thread pool.
//
// A Python process forks with the interpreter's lock held, which a compile in another thread may wait
// for: the extension calls beforeFork with that lock released, and the handlers of pthread_atfork then
// find the work done.
#pragma once

namespace libtile::runtime {

// Held while anything is compiled or loaded. May nest.
class CompileScope {
public:
  CompileScope();
  ~CompileScope();
  CompileScope(const CompileScope &) = delete;
  CompileScope &operator=(const CompileScope &) = delete;
};

// Waits for running compiles and keeps new ones from starting, until afterFork in the same thread. A
// thread that forks inside its own compile does not wait for itself.
void beforeFork() noexcept;
void afterFork(bool isChild) noexcept;

// Installs the handlers of pthread_atfork, once.
void installForkHandlers() noexcept;

} // namespace libtile::runtime
