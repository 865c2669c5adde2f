// SPDX-License-Identifier: Apache-2.0
// One call of a kernel: its arguments bound to parameters, as the launcher takes them, and its grid.
#pragma once

#include "common.h"

#include <iterator>
#include <vector>

namespace libtile::python {

struct Param {
  PyObject *name;  // interned
  PyObject *deflt; // null: none
  bool isConstexpr;
  bool isOption;   // constexpr, and of an option's name
  bool isVariadic; // *name: a tuple of the positional arguments that are left
  bool isByName;   // behind a `*`
};

// The options that a function may say for its launches, in the order of Jit's arguments.
constexpr const char *kOwnOptions[] = {"check", "debug", "default_dot_input_precision", "portable"};

struct JitObject {
  PyObject_HEAD
  PyObject *fn;       // the Python function; null: none
  PyObject *parsedFrom; // weakly; null before the first use
  PyObject *weakrefs;
  lt_function *function; // null before the first use
  std::vector<Param> *params;
  int64_t own[std::size(kOwnOptions)]; // LT_STANDARD_VALUE: it says nothing
  size_t uses; // launches and compilations that are under way
};

inline JitObject *asJit(PyObject *object) { return reinterpret_cast<JitObject *>(object); }

// While a jit object is launched or compiled, what was parsed of it stays. Made and destroyed with the
// interpreter's lock.
class UseScope {
public:
  explicit UseScope(PyObject *jit) : jit_(asJit(jit)) { ++jit_->uses; }
  ~UseScope() { --jit_->uses; }
  UseScope(const UseScope &) = delete;
  UseScope &operator=(const UseScope &) = delete;

private:
  JitObject *jit_;
};

struct Call {
  Call() { options.count = 0; }
  PyObject *values[LT_MAX_ARGUMENTS];  // one a parameter, borrowed
  PyObject *objects[LT_MAX_ARGUMENTS]; // one an argument, borrowed
  lt_arg args[LT_MAX_ARGUMENTS];       // with the items of tuples
  size_t numValues = 0, count = 0;
  std::vector<Ref> kept; // what only the call owns
  lt_options options;
  int device = kNoDevice;
  bool isInterpreted = false;         // device="interpreter" was given
  const char *deviceName = nullptr;   // what `device` says, as long as the call lasts; null: nothing
  PyObject *deviceArgument = nullptr; // the first array
  void *homeStream = nullptr;         // where there is none: of the home (devices.cpp)
};

// Parses the source if this is the first use (jit.cpp).
bool ensureParsed(PyObject *self);
// The value of an option of the function's own. False: a Python error is set.
bool readOwnOption(const char *name, PyObject *value, int64_t &number);
// Whether the text is an option's name.
bool isOption(PyObject *name);
// Each false: a Python error is set.
// What the caller gives; the values of the other parameters are null.
bool bind(PyObject *self, PyObject *const *args, size_t positional, PyObject *names, Call &call);
// And what the function says of the others.
bool bindDefaults(PyObject *self, Call &call);
// `allowTypes`: a text is a type ("*fp32:16"), for a compilation without arguments.
bool classifyAll(PyObject *self, Call &call, bool allowTypes);
// The same in two steps: the values that are there after bind(), each of the others leaving a hole (a null object, and
// the parameter's number in the argument's bits); and the holes, once their values are there.
bool classifyGiven(PyObject *self, Call &call);
bool classifyHoles(PyObject *self, Call &call);
// The values by parameter.
Ref byName(PyObject *self, const Call &call);
// The options that are given, by name, as the launcher takes them.
Ref optionsByName(const Call &call);
// A callable grid gets the arguments by name.
bool evaluateGrid(PyObject *self, PyObject *grid, const Call &call, int64_t extents[3]);

} // namespace libtile::python
