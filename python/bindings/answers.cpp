// SPDX-License-Identifier: Apache-2.0
#include "answers.h"

namespace libtile::python {

namespace {

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

// Borrowed; null: the name is not there.
PyObject *lookUp(PyObject *container, PyObject *name) {
  return PyCell_Check(container) ? PyCell_GET(container) : PyDict_GetItemWithError(container, name);
}

} // namespace

Answers::~Answers() {
  for (const Found &found : found_) {
    Py_DECREF(found.container);
    Py_XDECREF(found.name);
    Py_XDECREF(found.value);
  }
}

void Answers::watch(PyObject *asked, const char *text) {
  const Ref name(PyUnicode_InternFromString(text));
  if (name && PyFunction_Check(asked)) {
    PyObject *cell = findCell(asked, name.get());
    add(cell != nullptr ? cell : PyFunction_GET_GLOBALS(asked), name.get());
  } else if (name && PyModule_Check(asked)) {
    add(PyModule_GetDict(asked), name.get());
  } else if (name && PyType_Check(asked)) {
    addClasses(asked, name.get());
  } else if (name) {
    const Ref own(PyObject_GenericGetDict(asked, nullptr));
    if (!own || !add(own.get(), name.get())) {
      addClasses(reinterpret_cast<PyObject *>(Py_TYPE(asked)), name.get());
    }
  }
  PyErr_Clear();
}

bool Answers::hold() const {
  for (const Found &found : found_) {
    if (!holds(found)) {
      PyErr_Clear();
      return false;
    }
  }
  return true;
}

int Answers::visit(visitproc visit, void *arg) const {
  for (const Found &found : found_) {
    Py_VISIT(found.container);
    Py_VISIT(found.value);
  }
  return 0;
}

bool Answers::holds(const Found &found) {
  if (found.name != nullptr) {
    return lookUp(found.container, found.name) == found.value;
  }
  const Py_ssize_t count = PyTuple_GET_SIZE(found.value);
  bool same = PyList_GET_SIZE(found.container) == count;
  for (Py_ssize_t i = 0; same && i < count; ++i) {
    same = PyList_GET_ITEM(found.container, i) == PyTuple_GET_ITEM(found.value, i);
  }
  return same;
}

// Whether the name is there.
bool Answers::add(PyObject *container, PyObject *name) {
  PyObject *value = lookUp(container, name);
  for (const Found &found : found_) {
    if (found.container == container && found.name == name && found.value == value) {
      return value != nullptr;
    }
  }
  found_.push_back({Py_NewRef(container), Py_NewRef(name), Py_XNewRef(value)});
  addLists(value, 0);
  return value != nullptr;
}

// In the class and its bases up to the first that has the name: it may come to be in one before.
void Answers::addClasses(PyObject *cls, PyObject *name) {
  PyObject *bases = reinterpret_cast<PyTypeObject *>(cls)->tp_mro;
  for (Py_ssize_t i = 0; bases != nullptr && i < PyTuple_GET_SIZE(bases); ++i) {
    const auto *base = reinterpret_cast<PyTypeObject *>(PyTuple_GET_ITEM(bases, i));
    const bool mayChange = (base->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0;
    if (!mayChange || add(base->tp_dict, name)) {
      return;
    }
  }
}

// Lists change in place.
void Answers::addLists(PyObject *value, int depth) {
  constexpr int kDeepest = 32; // of aggregates that kernels may have
  const bool isList = value != nullptr && PyList_Check(value);
  const bool isTuple = value != nullptr && PyTuple_Check(value);
  const Ref items(depth <= kDeepest && (isList || isTuple) ? PySequence_Tuple(value) : nullptr);
  if (!items) {
    return;
  }
  if (isList) {
    found_.push_back({Py_NewRef(value), nullptr, Py_NewRef(items.get())});
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    addLists(PyTuple_GET_ITEM(items.get(), i), depth + 1);
  }
}

} // namespace libtile::python
