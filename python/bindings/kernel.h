// SPDX-License-Identifier: Apache-2.0
// Compiled kernels: _libtile.Kernel, which jit.CompiledKernel holds, and what the launcher's entries keep
// of the Python objects that a kernel's source names.
#pragma once

#include "common.h"

namespace libtile::python {

// Where a name was found: in a dictionary (globals, a module) or in a closure's cell.
struct Answer {
  PyObject *container;
  PyObject *name;
  PyObject *value; // null: the name was not there
};

// The user pointer of the launcher's entries (lt_compile). Owned references.
struct KernelUser {
  PyObject *kernel; // of installed.kernelClass
  std::vector<Answer> answers;
};
// Both take the interpreter's lock themselves. Null: the exception is kept.
void *makeUser(lt_kernel *kernel);
void freeUser(void *user);
// Whether every global and closure variable that the kernel was compiled with is the same object.
bool answersHold(const KernelUser &user);
int visitUser(const KernelUser &user, visitproc visit, void *arg);

// A new object of installed.kernelClass, with the lock held.
PyObject *makeKernel(lt_kernel *kernel);

} // namespace libtile::python
