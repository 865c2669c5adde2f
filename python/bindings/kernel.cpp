// SPDX-License-Identifier: Apache-2.0
#include "kernel.h"

#include <vector>

namespace libtile::python {

namespace {

// Where a name was found: in a dictionary (globals, a module) or in a closure's cell.
struct Answer {
  PyObject *container;
  PyObject *name;
  PyObject *value; // null: the name was not there
};

struct KernelObject {
  PyObject_HEAD
  lt_kernel *kernel;
  std::vector<Answer> *answers;
};

KernelObject *cast(PyObject *object) { return reinterpret_cast<KernelObject *>(object); }

// The cell of a closure variable; null: the function has none of that name.
PyObject *findCell(PyObject *function, PyObject *name) {
  PyObject *closure = PyFunction_GET_CLOSURE(function);
  if (closure == nullptr) {
    return nullptr;
  }
  const Ref names(PyObject_GetAttrString(PyFunction_GET_CODE(function), "co_freevars"));
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names.get()); ++i) {
    if (PyUnicode_Compare(PyTuple_GET_ITEM(names.get(), i), name) == 0) {
      return PyTuple_GET_ITEM(closure, i);
    }
  }
  PyErr_Clear();
  return nullptr;
}

PyObject *lookUp(PyObject *container, PyObject *name) {
  return PyCell_Check(container) ? PyCell_GET(container) : PyDict_GetItemWithError(container, name);
}

// Objects other than functions and modules are not watched: attributes may be made at each access.
void watch(std::vector<Answer> &answers, PyObject *object, const char *text) {
  Ref name(PyUnicode_InternFromString(text));
  const Ref function = functionBehind(object);
  object = function.get();
  PyObject *container = nullptr;
  if (object != nullptr && PyFunction_Check(object)) {
    container = findCell(object, name.get());
    container = container != nullptr ? container : PyFunction_GET_GLOBALS(object);
  } else if (object != nullptr && PyModule_Check(object)) {
    container = PyModule_GetDict(object);
  }
  if (container != nullptr) {
    PyObject *value = lookUp(container, name.get());
    answers.push_back({Py_NewRef(container), name.release(), Py_XNewRef(value)});
  }
  PyErr_Clear();
}

void kernelDealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (cast(self)->answers != nullptr) {
    for (const Answer &answer : *cast(self)->answers) {
      Py_DECREF(answer.container);
      Py_DECREF(answer.name);
      Py_XDECREF(answer.value);
    }
  }
  delete cast(self)->answers;
  lt_kernel_free(cast(self)->kernel);
  type->tp_free(self);
  Py_DECREF(type);
}

int kernelTraverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  if (cast(self)->answers != nullptr) {
    for (const Answer &answer : *cast(self)->answers) {
      Py_VISIT(answer.container);
      Py_VISIT(answer.value);
    }
  }
  return 0;
}

PyObject *kernelFact(PyObject *self, PyObject *name) {
  const char *text = PyUnicode_AsUTF8(name);
  const char *fact = text != nullptr ? lt_kernel_fact(cast(self)->kernel, text) : nullptr;
  return fact != nullptr ? PyUnicode_FromString(fact) : text != nullptr ? raiseError(false) : nullptr;
}

PyObject *kernelText(PyObject *self, PyObject *name) {
  const char *stage = PyUnicode_AsUTF8(name);
  if (stage == nullptr) {
    return nullptr;
  }
  const char *text = nullptr;
  {
    const WithoutGil scope;
    text = lt_kernel_text(cast(self)->kernel, stage);
  }
  return text != nullptr ? PyUnicode_FromString(text) : raiseError(true);
}

PyMethodDef kernelMethods[] = {{"fact", kernelFact, METH_O, "A fact by name, as text."},
                               {"text", kernelText, METH_O, "A stage by name, as text."},
                               {nullptr, nullptr, 0, nullptr}};
PyType_Slot kernelSlots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(kernelDealloc)},
                             {Py_tp_traverse, reinterpret_cast<void *>(kernelTraverse)},
                             {Py_tp_methods, kernelMethods},
                             {0, nullptr}};
PyType_Spec kernelSpec = {"_libtile.Kernel", sizeof(KernelObject), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC |
                              Py_TPFLAGS_DISALLOW_INSTANTIATION,
                          kernelSlots};

} // namespace

PyObject *makeKernel(lt_kernel *kernel) {
  auto *type = reinterpret_cast<PyTypeObject *>(installed.kernelClass);
  PyObject *object = type->tp_alloc(type, 0);
  if (object == nullptr) {
    lt_kernel_free(kernel);
    return nullptr;
  }
  cast(object)->kernel = kernel;
  cast(object)->answers = new std::vector<Answer>;
  for (size_t i = 0, count = lt_kernel_num_answers(kernel); i < count; ++i) {
    const char *name = nullptr;
    auto *asked = static_cast<PyObject *>(lt_kernel_answer(kernel, i, &name));
    if (asked != nullptr) {
      watch(*cast(object)->answers, asked, name);
    }
  }
  return object;
}

void *makeUser(lt_kernel *kernel) {
  const WithGil gil;
  PyObject *object = makeKernel(kernel);
  if (object == nullptr) {
    keepException("making the kernel object");
  }
  return object;
}

bool answersHold(PyObject *kernel) {
  for (const Answer &answer : *cast(kernel)->answers) {
    if (lookUp(answer.container, answer.name) != answer.value) {
      PyErr_Clear();
      return false;
    }
  }
  return true;
}

bool addKernelType(PyObject *module) {
  const Ref type(PyType_FromSpec(&kernelSpec));
  return type && PyModule_AddObjectRef(module, "Kernel", type.get()) == 0;
}

} // namespace libtile::python
