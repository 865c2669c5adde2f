// SPDX-License-Identifier: Apache-2.0
// _libtile.Kernel: a compiled kernel, and what it knew of the Python objects that its source names.
#pragma once

#include "common.h"

namespace libtile::python {

// The user pointer of the launcher's entries (lt_compile): a new reference to an object of
// installed.kernelClass. Takes the interpreter's lock itself.
void *makeUser(lt_kernel *kernel);
// A new reference, with the lock held.
PyObject *makeKernel(lt_kernel *kernel);
// Whether every global and closure variable that the kernel was compiled with is the same object.
bool answersHold(PyObject *kernel);
bool addKernelType(PyObject *module);

} // namespace libtile::python
