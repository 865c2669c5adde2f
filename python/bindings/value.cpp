// SPDX-License-Identifier: Apache-2.0
// _libtile.Value: an immutable value of the language.
#include "common.h"

#include <vector>

namespace libtile::python {

namespace {

struct ValueObject {
  PyObject_HEAD
  lt_value *value;
};

PyTypeObject *valueType = nullptr;
PyObject *valueAttribute = nullptr;

lt_value *intValue(PyObject *object) {
  int overflow = 0;
  const long long small = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow == 0) {
    return small == -1 && PyErr_Occurred() != nullptr
               ? nullptr
               : lt_value_int(small < 0 ? -1 : 0, static_cast<uint64_t>(small));
  }
  const Ref shift(PyLong_FromLong(64));
  const Ref high(PyNumber_Rshift(object, shift.get()));
  if (!high) {
    return nullptr;
  }
  const long long top = PyLong_AsLongLongAndOverflow(high.get(), &overflow);
  if (overflow != 0) {
    PyErr_SetString(PyExc_OverflowError, "a constant integer of a kernel has at most 127 bits");
    return nullptr;
  }
  return lt_value_int(top, PyLong_AsUnsignedLongLongMask(object));
}

lt_value *orRaise(lt_value *value) {
  if (value == nullptr) {
    raiseError(Doing::Compiling);
  }
  return value;
}

const lt_value *valueOf(PyObject *self) { return reinterpret_cast<ValueObject *>(self)->value; }

// The class of that name with the fields, a tuple of str; `types`: a tuple of as many, or null.
lt_value *classValue(PyObject *cls, const char *name, PyObject *fields, PyObject *types, int flags) {
  Values typeValues;
  std::vector<const char *> names;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(fields); ++i) {
    const char *field = PyUnicode_AsUTF8(PyTuple_GET_ITEM(fields, i));
    if (field == nullptr) {
      return nullptr;
    }
    names.push_back(field);
    if (types != nullptr && !typeValues.add(PyTuple_GET_ITEM(types, i))) {
      return nullptr;
    }
  }
  return orRaise(lt_value_class(cls, name, names.data(),
                                types != nullptr ? typeValues.items.data() : nullptr, names.size(),
                                flags));
}

lt_value *tupleValue(PyObject *object) {
  Values owned;
  lt_value *cls = namedTupleClass(object);
  if (PyErr_Occurred() != nullptr) {
    return nullptr;
  }
  if (cls != nullptr) {
    owned.add(cls);
  }
  const size_t first = owned.items.size();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
    if (!owned.add(PyTuple_GET_ITEM(object, i))) {
      return nullptr;
    }
  }
  return orRaise(lt_value_aggregate(cls, owned.items.data() + first, owned.items.size() - first));
}

// ---- Value

void valueDealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  lt_value_free(reinterpret_cast<ValueObject *>(self)->value);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject *valueKind(PyObject *self, void *) {
  static const char *const kNames[] = {"unbound",   "none",   "bool",     "int",      "float",
                                       "string",    "tensor", "aggregate", "class",   "type",
                                       "function",  "operation", "method", "object",  "language"};
  return PyUnicode_FromString(kNames[lt_value_kind(valueOf(self))]);
}

PyObject *intOf(const lt_value *value) {
  uint64_t low = 0;
  const int64_t high = lt_value_as_int(value, &low);
  if (high == (static_cast<int64_t>(low) < 0 ? -1 : 0)) {
    return PyLong_FromLongLong(static_cast<int64_t>(low));
  }
  const Ref top(PyLong_FromLongLong(high));
  const Ref shift(PyLong_FromLong(64));
  const Ref shifted(PyNumber_Lshift(top.get(), shift.get()));
  const Ref bottom(PyLong_FromUnsignedLongLong(low));
  return PyNumber_Or(shifted.get(), bottom.get());
}

// The constant as a Python object.
PyObject *valuePython(PyObject *self, PyObject *) {
  const lt_value *value = valueOf(self);
  switch (lt_value_kind(value)) {
  case LT_V_NONE:
    Py_RETURN_NONE;
  case LT_V_BOOL:
    return PyBool_FromLong(lt_value_as_bool(value));
  case LT_V_INT:
    return intOf(value);
  case LT_V_FLOAT:
    return PyFloat_FromDouble(lt_value_as_float(value));
  case LT_V_STRING: {
    size_t length = 0;
    const char *text = lt_value_as_string(value, &length);
    return PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(length), "replace");
  }
  default:
    return PyErr_Format(PyExc_TypeError, "%s is no constant", lt_value_describe(value));
  }
}

PyObject *valueFields(PyObject *self, PyObject *) {
  const lt_value *value = valueOf(self);
  const size_t count = lt_value_num_fields(value);
  Ref fields(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; fields && i < count; ++i) {
    PyObject *field = wrapValue(lt_value_field(value, i));
    if (field == nullptr) {
      return nullptr;
    }
    PyTuple_SET_ITEM(fields.get(), static_cast<Py_ssize_t>(i), field);
  }
  return fields.release();
}

PyObject *valueObject(PyObject *self, PyObject *) {
  auto *object = static_cast<PyObject *>(lt_value_as_object(valueOf(self)));
  return functionBehind(object != nullptr ? object : Py_None).release();
}

// (name of the element type, shape)
PyObject *valueType_(PyObject *self, PyObject *) {
  int32_t shape[8];
  size_t rank = 0;
  const char *name = lt_value_as_type(valueOf(self), shape, &rank);
  Ref extents(PyTuple_New(static_cast<Py_ssize_t>(rank)));
  for (size_t i = 0; extents && i < rank; ++i) {
    PyTuple_SET_ITEM(extents.get(), static_cast<Py_ssize_t>(i), PyLong_FromLong(shape[i]));
  }
  return extents ? Py_BuildValue("sN", name, extents.release()) : nullptr;
}

PyObject *valueRepr(PyObject *self) {
  return PyUnicode_FromFormat("<%s>", lt_value_describe(valueOf(self)));
}

PyMethodDef valueMethods[] = {
    {"python", valuePython, METH_NOARGS, "The constant as a Python object."},
    {"fields", valueFields, METH_NOARGS, "The fields of an aggregate."},
    {"object", valueObject, METH_NOARGS,
     "The Python object behind a function, a class or an object; the class of an aggregate; or None."},
    {"type", valueType_, METH_NOARGS, "(element type, shape) of a tensor or a type."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef valueGetSet[] = {{"kind", valueKind, nullptr, nullptr, nullptr},
                             {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot valueSlots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(valueDealloc)},
                            {Py_tp_repr, reinterpret_cast<void *>(valueRepr)},
                            {Py_tp_methods, valueMethods},
                            {Py_tp_getset, valueGetSet},
                            {0, nullptr}};
PyType_Spec valueSpec = {"_libtile.Value", sizeof(ValueObject), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, valueSlots};

// ---- makers for host.py

PyObject *languageValue(PyObject *, PyObject *name) {
  const char *text = PyUnicode_AsUTF8(name);
  return text != nullptr ? wrapValue(orRaise(lt_value_language(text))) : nullptr;
}
PyObject *classValueOf(PyObject *, PyObject *args) {
  PyObject *cls = nullptr, *fields = nullptr, *types = nullptr;
  const char *name = nullptr;
  int isSequence = 0, isMadeByHost = 0;
  if (!PyArg_ParseTuple(args, "OsO!|O!pp", &cls, &name, &PyTuple_Type, &fields, &PyTuple_Type, &types,
                        &isSequence, &isMadeByHost)) {
    return nullptr;
  }
  if (types != nullptr && PyTuple_GET_SIZE(types) != PyTuple_GET_SIZE(fields)) {
    PyErr_SetString(PyExc_ValueError, "a class has one type a field");
    return nullptr;
  }
  return wrapValue(classValue(cls, name, fields, types,
                              (isSequence != 0 ? LT_CLASS_SEQUENCE : 0) |
                                  (isMadeByHost != 0 ? LT_CLASS_MADE_BY_HOST : 0)));
}
// An aggregate of a class, a Value, with the fields of a tuple.
PyObject *aggregateValue(PyObject *, PyObject *args) {
  PyObject *cls = nullptr, *fields = nullptr;
  Values values;
  if (!PyArg_ParseTuple(args, "O!O!", valueType, &cls, &PyTuple_Type, &fields)) {
    return nullptr;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(fields); ++i) {
    if (!values.add(PyTuple_GET_ITEM(fields, i))) {
      return nullptr;
    }
  }
  return wrapValue(
      orRaise(lt_value_aggregate(valueOf(cls), values.items.data(), values.items.size())));
}
PyObject *objectValue(PyObject *, PyObject *object) {
  return wrapValue(orRaise(lt_value_object(object, PyFunction_Check(object) ? 1 : 0)));
}
PyObject *typeValue(PyObject *, PyObject *args) {
  const char *name = nullptr;
  PyObject *extents = nullptr;
  if (!PyArg_ParseTuple(args, "s|O!", &name, &PyTuple_Type, &extents)) {
    return nullptr;
  }
  std::vector<int32_t> shape;
  for (Py_ssize_t i = 0; extents != nullptr && i < PyTuple_GET_SIZE(extents); ++i) {
    shape.push_back(static_cast<int32_t>(PyLong_AsLong(PyTuple_GET_ITEM(extents, i))));
  }
  return PyErr_Occurred() != nullptr
             ? nullptr
             : wrapValue(orRaise(lt_value_type(name, shape.data(), shape.size())));
}
// slice(start, stop, step) of a subscript
PyObject *sliceValue(PyObject *, PyObject *args) {
  PyObject *parts[3];
  Values values;
  if (!PyArg_ParseTuple(args, "OOO", &parts[0], &parts[1], &parts[2])) {
    return nullptr;
  }
  for (PyObject *part : parts) {
    if (!values.add(part)) {
      return nullptr;
    }
  }
  return wrapValue(orRaise(lt_value_slice(values.items.data())));
}

PyMethodDef makers[] = {{"language_value", languageValue, METH_O, "language_value(name)"},
                        {"class_value", classValueOf, METH_VARARGS,
                         "class_value(cls, name, fields, types=None, is_sequence=False, is_made_by_host=False)"},
                        {"aggregate_value", aggregateValue, METH_VARARGS, "aggregate_value(class, fields)"},
                        {"object_value", objectValue, METH_O, "object_value(object)"},
                        {"type_value", typeValue, METH_VARARGS, "type_value(name, shape=())"},
                        {"slice_value", sliceValue, METH_VARARGS, "slice_value(start, stop, step)"},
                        {nullptr, nullptr, 0, nullptr}};

} // namespace

lt_value *namedTupleClass(PyObject *tuple) {
  if (PyTuple_CheckExact(tuple)) {
    return nullptr;
  }
  auto *cls = reinterpret_cast<PyObject *>(Py_TYPE(tuple));
  const Ref fields(PyObject_GetAttrString(cls, "_fields"));
  PyErr_Clear();
  return fields && PyTuple_Check(fields.get())
             ? classValue(cls, Py_TYPE(tuple)->tp_name, fields.get(), nullptr, LT_CLASS_SEQUENCE)
             : nullptr;
}

lt_value *toValue(PyObject *object) {
  if (object == Py_None) {
    return lt_value_none();
  }
  if (object == Py_NotImplemented) {
    return lt_value_not_implemented();
  }
  if (PyBool_Check(object)) {
    return lt_value_bool(object == Py_True ? 1 : 0);
  }
  if (PyLong_Check(object)) {
    return intValue(object);
  }
  if (PyFloat_Check(object)) {
    return lt_value_float(PyFloat_AS_DOUBLE(object));
  }
  if (PyUnicode_Check(object)) {
    Py_ssize_t length = 0;
    const char *text = PyUnicode_AsUTF8AndSize(object, &length);
    return text != nullptr ? lt_value_string(text, static_cast<size_t>(length)) : nullptr;
  }
  if (PyTuple_Check(object)) {
    return tupleValue(object);
  }
  if (Py_TYPE(object) == valueType) {
    return lt_value_copy(valueOf(object));
  }
  if (isJit(object)) {
    lt_function *function = functionOf(object);
    return function != nullptr ? orRaise(lt_value_function(function)) : nullptr;
  }
  const Ref inner(PyObject_GetAttr(object, valueAttribute));
  if (inner && Py_TYPE(inner.get()) == valueType) {
    return lt_value_copy(valueOf(inner.get()));
  }
  PyErr_Clear();
  const Ref converted(PyObject_CallOneArg(installed.convert, object));
  if (!converted || converted.get() == object) {
    if (converted) {
      PyErr_Format(PyExc_TypeError, "a kernel cannot use an object of type '%s'",
                   Py_TYPE(object)->tp_name);
    }
    return nullptr;
  }
  return toValue(converted.get());
}

PyObject *wrapValue(lt_value *value) {
  if (value == nullptr) {
    return PyErr_Occurred() != nullptr ? nullptr : PyErr_NoMemory();
  }
  auto *object = reinterpret_cast<ValueObject *>(valueType->tp_alloc(valueType, 0));
  if (object == nullptr) {
    lt_value_free(value);
    return nullptr;
  }
  object->value = value;
  return reinterpret_cast<PyObject *>(object);
}

bool addValueTypes(PyObject *module) {
  valueAttribute = PyUnicode_InternFromString("_value");
  valueType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&valueSpec));
  return valueAttribute != nullptr && valueType != nullptr && addSemanticType(module) &&
         PyModule_AddObjectRef(module, "Value", reinterpret_cast<PyObject *>(valueType)) == 0 &&
         PyModule_AddFunctions(module, makers) == 0;
}

} // namespace libtile::python
