// SPDX-License-Identifier: Apache-2.0
// Compiled kernels: _libtile.Kernel, which jit.CompiledKernel holds, and what the launcher's entries keep
// of the Python objects that a kernel's source names.
#pragma once

#include "answers.h"

namespace libtile::python {

// The user pointer of the launcher's entries (lt_compile). Owned references.
struct KernelUser {
  PyObject *kernel; // of the jit object's class of kernels
  Answers answers;
};
// Both take the interpreter's lock themselves. Null: the exception is kept.
void *makeUser(lt_kernel *kernel);
void freeUser(void *user);
int visitUser(const KernelUser &user, visitproc visit, void *arg);

// A new object of the jit object's class of kernels, with the lock held.
PyObject *makeKernel(lt_kernel *kernel, PyObject *jit);

} // namespace libtile::python
