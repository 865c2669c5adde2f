// SPDX-License-Identifier: Apache-2.0
// Launches: what kernel[grid] gives, and the scope of a compilation.
#pragma once

#include "answers.h"
#include "call.h"

namespace libtile::python {

// A new reference to the launcher of kernel[grid], whose call is the hot path.
PyObject *makeLauncher(PyObject *jit, PyObject *grid);
bool addLauncherType(PyObject *module);

// What a compilation of this thread asks of Python objects, and what it must find again: jit functions that
// only a host call made. Made and destroyed with the interpreter's lock.
class CompilingScope {
public:
  CompilingScope() : outer_(std::exchange(current, this)) { forgetException(); }
  ~CompilingScope() { current = outer_; }
  CompilingScope(const CompilingScope &) = delete;
  CompilingScope &operator=(const CompilingScope &) = delete;
  // Nothing if this thread compiles nothing.
  static void keep(PyObject *object) {
    if (current != nullptr) {
      current->kept_.push_back(Ref::borrowed(object));
    }
  }

  static void watch(PyObject *asked, const char *name) {
    if (current != nullptr) {
      current->answers_.watch(asked, name);
    }
  }
  [[nodiscard]] static Answers takeAnswers() {
    return current != nullptr ? std::move(current->answers_) : Answers();
  }

private:
  static thread_local CompilingScope *current;
  CompilingScope *outer_;
  std::vector<Ref> kept_;
  Answers answers_;
};

} // namespace libtile::python
