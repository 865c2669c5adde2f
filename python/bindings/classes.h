// SPDX-License-Identifier: Apache-2.0
// What the files share that are bound by pybind11: everything but the hot path of a launch, arrays, and
// the values that kernels exchange with Python while they are compiled.
#pragma once

#include "common.h"

#include <pybind11/pybind11.h>

namespace libtile::python {

namespace py = pybind11;

// Throws the thread's lt_error() as a Python exception unless `isGood`. `doing`: as of raiseError.
inline void orThrow(bool isGood, Doing doing = Doing::Calling) {
  if (!isGood) {
    raiseError(doing);
    throw py::error_already_set();
  }
}
// For calls that set the Python exception themselves.
template <class T> T *orThrowSet(T *result) {
  if (result == nullptr) {
    throw py::error_already_set();
  }
  return result;
}

void addKernelClass(py::module_ &module);    // kernel.cpp
void addDeviceFunctions(py::module_ &module); // devices.cpp

} // namespace libtile::python
