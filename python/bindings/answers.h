// SPDX-License-Identifier: Apache-2.0
// What a kernel's source names from outside, as it was when the kernel was compiled: globals, closure
// variables, and attributes that lie in a dictionary. Not watched: what is made at each access (properties,
// slots), defaults of parameters, and what Python functions look at that a kernel calls on constants.
#pragma once

#include "common.h"

namespace libtile::python {

class Answers {
public:
  Answers() = default;
  Answers(Answers &&other) noexcept : found_(std::exchange(other.found_, {})) {}
  Answers &operator=(Answers &&other) noexcept {
    std::swap(found_, other.found_);
    return *this;
  }
  Answers(const Answers &) = delete;
  Answers &operator=(const Answers &) = delete;
  ~Answers();

  // Notes what the name leads to now, in a function (a closure variable or a global) or another object (an
  // attribute). Before the object is asked: what changes while it answers is seen then.
  void watch(PyObject *asked, const char *name);
  // Whether all of it is the same objects still.
  [[nodiscard]] bool hold() const;
  int visit(visitproc visit, void *arg) const;

private:
  // In a dictionary (of globals, a module, a class, an object) or in a closure's cell. Or a list among what
  // was found, without a name: `value` is the tuple of its items. Owned references.
  struct Found {
    PyObject *container;
    PyObject *name;
    PyObject *value; // null: the name was not there
  };
  bool add(PyObject *container, PyObject *name);
  void addClasses(PyObject *cls, PyObject *name);
  void addLists(PyObject *value, int depth);
  [[nodiscard]] static bool holds(const Found &found);

  std::vector<Found> found_;
};

} // namespace libtile::python
