// SPDX-License-Identifier: Apache-2.0
// Launches: what kernel[grid] gives, and the scope of a compilation.
#pragma once

#include "answers.h"
#include "call.h"

namespace libtile::python {

// What a launcher does when it is called; the result of the call.
using Launch = PyObject *(*)(PyObject *kernel, PyObject *grid, PyObject *const *args, size_t positional,
                             PyObject *names);
// A new reference to what kernel[grid] gives, whose call is the hot path.
PyObject *makeLauncher(PyObject *kernel, PyObject *grid, Launch launch);
PyObject *launcherOfJit(PyObject *jit, PyObject *grid);
// Launches a call whose arguments are classified; a new reference to the compiled kernel.
PyObject *launchClassified(PyObject *jit, PyObject *grid, Call &call);
// Compiles and loads what a launch with these arguments runs, and launches nothing; likewise.
PyObject *prepareLaunch(PyObject *jit, PyObject *const *args, size_t positional, PyObject *names);
bool addLauncherType(PyObject *module);

// Tells the hooks of a compilation that is to come; one of them may refuse it. `target`: its name; null: the
// device of the arguments.
enum class Announced : uint8_t { Accepted, Refused, Failed };
Announced announceCompilation(PyObject *jit, const Call &call, const char *target);
// And of its kernel. False: a Python error is set.
bool announceKernel(PyObject *jit, const Call &call, const char *target, PyObject *kernel);

// What a compilation of this thread asks of Python objects, and what it must find again: jit functions that
// only a host call made. Made and destroyed with the interpreter's lock.
class CompilingScope {
public:
  explicit CompilingScope(PyObject *jit) : outer_(std::exchange(current, this)), jit_(jit) { forgetException(); }
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
  // What is being compiled; there must be something.
  [[nodiscard]] static PyObject *jit() { return current->jit_; }
  [[nodiscard]] static Answers takeAnswers() {
    return current != nullptr ? std::move(current->answers_) : Answers();
  }

private:
  static thread_local CompilingScope *current;
  CompilingScope *outer_;
  PyObject *jit_; // borrowed
  std::vector<Ref> kept_;
  Answers answers_;
};

} // namespace libtile::python
