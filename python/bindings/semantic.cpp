// SPDX-License-Identifier: Apache-2.0
// _libtile.Semantic: a running specialisation, whose operations Python code may use.
#include "common.h"

namespace libtile::python {

namespace {

struct SemanticObject {
  PyObject_HEAD
  lt_semantics *semantics; // null after the end
  unsigned long thread;
};

PyTypeObject *semanticType = nullptr;

// nullptr with an error set if the specialisation is over or runs in another thread.
lt_semantics *running(PyObject *self) {
  auto *object = reinterpret_cast<SemanticObject *>(self);
  if (object->semantics == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "a tensor is used after the end of its specialisation");
    return nullptr;
  }
  if (object->thread != PyThread_get_thread_ident()) {
    PyErr_SetString(PyExc_RuntimeError, "a tensor is used in another thread than its specialisation's");
    return nullptr;
  }
  return object->semantics;
}

PyObject *give(lt_status status, lt_value *out) {
  return status == LT_OK ? wrapValue(out) : raiseError(Doing::Compiling);
}

// call(callee, args, kwargs)
PyObject *semanticCall(PyObject *self, PyObject *args) {
  PyObject *callee = nullptr, *positional = nullptr, *keyword = nullptr;
  lt_semantics *semantics = running(self);
  if (semantics == nullptr ||
      !PyArg_ParseTuple(args, "OO!O!", &callee, &PyTuple_Type, &positional, &PyDict_Type, &keyword)) {
    return nullptr;
  }
  Values values;
  if (!values.add(callee)) {
    return nullptr;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(positional); ++i) {
    if (!values.add(PyTuple_GET_ITEM(positional, i))) {
      return nullptr;
    }
  }
  std::vector<const char *> names;
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(keyword, &at, &key, &value) != 0;) {
    const char *name = PyUnicode_AsUTF8(key);
    if (name == nullptr || !values.add(value)) {
      return nullptr;
    }
    names.push_back(name);
  }
  lt_value *out = nullptr;
  const lt_status status =
      lt_call(semantics, values.items[0], values.items.data() + 1,
              static_cast<size_t>(PyTuple_GET_SIZE(positional)), names.data(), names.size(), &out);
  return give(status, out);
}

// operator(text, a, b=Unary)
PyObject *semanticOperator(PyObject *self, PyObject *args) {
  const char *text = nullptr;
  PyObject *a = nullptr, *b = nullptr;
  lt_semantics *semantics = running(self);
  if (semantics == nullptr || !PyArg_ParseTuple(args, "sO|O", &text, &a, &b)) {
    return nullptr;
  }
  Values values;
  if (!values.add(a) || (b != nullptr && !values.add(b))) {
    return nullptr;
  }
  lt_value *out = nullptr;
  const lt_status status =
      lt_operator(semantics, text, values.items[0], b != nullptr ? values.items[1] : nullptr, &out);
  return give(status, out);
}

PyObject *semanticSubscript(PyObject *self, PyObject *args) {
  PyObject *object = nullptr, *index = nullptr;
  lt_semantics *semantics = running(self);
  Values values;
  if (semantics == nullptr || !PyArg_ParseTuple(args, "OO", &object, &index) || !values.add(object) ||
      !values.add(index)) {
    return nullptr;
  }
  lt_value *out = nullptr;
  const lt_status status = lt_subscript(semantics, values.items[0], values.items[1], &out);
  return give(status, out);
}

PyObject *semanticAttribute(PyObject *self, PyObject *args) {
  PyObject *object = nullptr;
  const char *name = nullptr;
  lt_semantics *semantics = running(self);
  Values values;
  if (semantics == nullptr || !PyArg_ParseTuple(args, "Os", &object, &name) || !values.add(object)) {
    return nullptr;
  }
  lt_value *out = nullptr;
  const lt_status status = lt_attribute(semantics, values.items[0], name, &out);
  return give(status, out);
}

PyObject *semanticToTensor(PyObject *self, PyObject *object) {
  lt_semantics *semantics = running(self);
  Values values;
  if (semantics == nullptr || !values.add(object)) {
    return nullptr;
  }
  lt_value *out = nullptr;
  const lt_status status = lt_to_tensor(semantics, values.items[0], &out);
  return give(status, out);
}

void semanticDealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMethodDef semanticMethods[] = {
    {"call", semanticCall, METH_VARARGS, "call(callee, args, kwargs)"},
    {"operator", semanticOperator, METH_VARARGS, "operator(text, a[, b])"},
    {"subscript", semanticSubscript, METH_VARARGS, "subscript(object, index)"},
    {"attribute", semanticAttribute, METH_VARARGS, "attribute(object, name)"},
    {"to_tensor", semanticToTensor, METH_O, "A number as a tensor."},
    {nullptr, nullptr, 0, nullptr}};
PyType_Slot semanticSlots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(semanticDealloc)},
                               {Py_tp_methods, semanticMethods},
                               {0, nullptr}};
PyType_Spec semanticSpec = {"_libtile.Semantic", sizeof(SemanticObject), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, semanticSlots};

} // namespace

PyObject *makeSemantic(lt_semantics *semantics) {
  auto *object = reinterpret_cast<SemanticObject *>(semanticType->tp_alloc(semanticType, 0));
  if (object != nullptr) {
    object->semantics = semantics;
    object->thread = PyThread_get_thread_ident();
  }
  return reinterpret_cast<PyObject *>(object);
}

void endSemantic(PyObject *semantic) {
  reinterpret_cast<SemanticObject *>(semantic)->semantics = nullptr;
}

bool addSemanticType(PyObject *module) {
  semanticType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&semanticSpec));
  return semanticType != nullptr &&
         PyModule_AddObjectRef(module, "Semantic", reinterpret_cast<PyObject *>(semanticType)) == 0;
}

} // namespace libtile::python
