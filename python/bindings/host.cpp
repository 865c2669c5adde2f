// SPDX-License-Identifier: Apache-2.0
// The host functions of bindings.h: they take the interpreter's lock and ask host.py. A Python
// exception is kept and becomes the cause of the error that leaves the compiler.
#include "launch.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace libtile::python {

namespace {

// The exception that a host function of this thread left, owned.
thread_local PyObject *pending = nullptr;

PyObject *currentException() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace != nullptr) {
    PyException_SetTraceback(value, trace);
  }
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return value;
}

std::string utf8(PyObject *object) {
  const char *text = object != nullptr ? PyUnicode_AsUTF8(object) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();
    return "?";
  }
  return text;
}

lt_status failed(const char *doing) {
  keepException(doing);
  return LT_ERROR;
}

// The result of host.py as a value.
lt_status give(const Ref &result, const char *doing, lt_value **out) {
  if (!result) {
    return failed(doing);
  }
  if (result.get() == installed.unbound) {
    *out = nullptr;
    return LT_OK;
  }
  *out = toValue(result.get());
  return *out != nullptr ? LT_OK : failed(doing);
}

lt_status ask(PyObject *function, void *object, const char *name, lt_value **out) {
  const WithGil gil;
  const Ref asked = functionBehind(static_cast<PyObject *>(object));
  if (asked && function != installed.defaultValue) {
    CompilingScope::watch(asked.get(), name);
  }
  const Ref result(asked ? takingGil([&] {
    return PyObject_CallFunction(function, "Os", asked.get(), name);
  }) : nullptr);
  return give(result, name, out);
}

lt_status askGlobal(void *function, const char *name, lt_value **out) {
  return ask(installed.globalValue, function, name, out);
}
lt_status askDefault(void *callee, const char *name, lt_value **out) {
  return ask(installed.defaultValue, callee, name, out);
}
lt_status askAttribute(void *object, const char *name, lt_value **out) {
  return ask(installed.attributeValue, object, name, out);
}

Ref wrapCopies(lt_value *const *arguments, size_t count) {
  Ref items(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; items && i < count; ++i) {
    PyObject *item = wrapValue(lt_value_copy(arguments[i]));
    if (item == nullptr) {
      return Ref();
    }
    PyTuple_SET_ITEM(items.get(), static_cast<Py_ssize_t>(i), item);
  }
  return items;
}

// The Python objects of the specialisations that run in this thread, one inside of the other.
thread_local std::vector<std::pair<lt_semantics *, PyObject *>> runningSemantics;

// Borrowed; nullptr with an error set.
PyObject *semanticOf(lt_semantics *semantics) {
  for (const auto &[known, object] : runningSemantics) {
    if (known == semantics) {
      return object;
    }
  }
  PyObject *made = makeSemantic(semantics);
  if (made != nullptr) {
    runningSemantics.emplace_back(semantics, made);
  }
  return made;
}

void endSemantics(lt_semantics *semantics) {
  if (runningSemantics.empty() || runningSemantics.back().first != semantics) {
    return;
  }
  const WithGil gil;
  endSemantic(runningSemantics.back().second);
  Py_DECREF(runningSemantics.back().second);
  runningSemantics.pop_back();
}

lt_status askCall(void *callee, lt_semantics *semantics, lt_value *const *arguments, size_t positional,
                  const char *const *keywords, size_t num_keywords, lt_value **out) {
  const WithGil gil;
  PyObject *semantic = semanticOf(semantics);
  const Ref args = wrapCopies(arguments, positional);
  const Ref values = wrapCopies(arguments + positional, num_keywords);
  const Ref kwargs(PyDict_New());
  if (semantic == nullptr || !args || !values || !kwargs) {
    return failed("call");
  }
  for (size_t i = 0; i < num_keywords; ++i) {
    PyObject *value = PyTuple_GET_ITEM(values.get(), static_cast<Py_ssize_t>(i));
    if (PyDict_SetItemString(kwargs.get(), keywords[i], value) != 0) {
      return failed("call");
    }
  }
  const Ref result(takingGil([&] {
    return PyObject_CallFunctionObjArgs(installed.callValue, static_cast<PyObject *>(callee),
                                        semantic, args.get(), kwargs.get(), nullptr);
  }));
  return give(result, "call", out);
}

// For messages: an error here only costs the names.
void askNames(void *object, void (*add)(const char *name, void *context), void *context) {
  const WithGil gil;
  const Ref asked = functionBehind(static_cast<PyObject *>(object));
  const Ref names(asked ? takingGil([&] { return PyObject_CallOneArg(installed.names, asked.get()); })
                        : nullptr);
  const bool isList = names && PyList_Check(names.get());
  for (Py_ssize_t i = 0; isList && i < PyList_GET_SIZE(names.get()); ++i) {
    if (const char *name = PyUnicode_AsUTF8(PyList_GET_ITEM(names.get(), i))) {
      add(name, context);
    }
  }
  PyErr_Clear();
}

void describeObject(void *object, char *buffer, size_t size) {
  const WithGil gil;
  const Ref asked = functionBehind(static_cast<PyObject *>(object));
  const Ref text(asked ? takingGil([&] { return PyObject_CallOneArg(installed.describe, asked.get()); })
                       : nullptr);
  std::strncpy(buffer, utf8(text.get()).c_str(), size - 1);
  buffer[size - 1] = 0;
  PyErr_Clear();
}

lt_status printText(const char *text, size_t length) {
  const WithGil gil;
  const Ref printed(PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(length), "replace"));
  const Ref done(printed ? takingGil([&] {
    return PyObject_CallOneArg(installed.print, printed.get());
  }) : nullptr);
  return done ? LT_OK : failed("print");
}

void retainObject(void *object) {
  const WithGil gil;
  Py_INCREF(static_cast<PyObject *>(object));
}
void releaseObject(void *object) {
  // Values may outlive the interpreter.
  if (Py_IsInitialized() != 0) {
    const WithGil gil;
    Py_DECREF(static_cast<PyObject *>(object));
  }
}

const lt_host kHost = {askGlobal,      askDefault,   askAttribute, askCall, askNames,
                       describeObject, endSemantics, printText,    retainObject, releaseObject};

} // namespace

Ref functionBehind(PyObject *object) {
  if (PyWeakref_Check(object) == 0) {
    return Ref::borrowed(object);
  }
#if PY_VERSION_HEX >= 0x030D0000
  PyObject *found = nullptr;
  PyWeakref_GetRef(object, &found);
  Ref function(found);
#else
  Ref function = Ref::borrowed(PyWeakref_GetObject(object));
  if (function.get() == Py_None) {
    function = Ref();
  }
#endif
  if (!function && PyErr_Occurred() == nullptr) {
    PyErr_SetString(PyExc_ReferenceError, "the jit function is gone");
  }
  return function;
}

void installHost() { lt_set_host(&kHost); }

void keepException(const char *doing) {
  PyObject *exception = currentException();
  Py_XSETREF(pending, exception);
  std::string message = "Python raised an exception";
  int kind = 0;
  if (exception != nullptr) {
    // Our own errors keep their message; others are named.
    const Ref text(PyObject_Str(exception));
    const Ref own(PyObject_GetAttrString(exception, "message"));
    const Ref ownKind(PyObject_GetAttrString(exception, "kind"));
    PyErr_Clear();
    if (own && ownKind && PyUnicode_Check(own.get()) && PyLong_Check(ownKind.get())) {
      message = utf8(own.get());
      kind = static_cast<int>(PyLong_AsLong(ownKind.get()));
    } else {
      message = std::string(Py_TYPE(exception)->tp_name) + ": " + utf8(text.get());
    }
  }
  lt_set_error(kind, message.c_str());
}

void forgetException() { Py_CLEAR(pending); }

PyObject *raiseError(Doing doing) {
  const lt_error_info *error = lt_error();
  // Ctrl-C and the like go through as they are.
  if (pending != nullptr && PyErr_GivenExceptionMatches(pending, PyExc_Exception) == 0) {
    const Ref raised(std::exchange(pending, nullptr));
    PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(raised.get())), raised.get());
    return nullptr;
  }
  const Ref exception(takingGil([&] {
    return PyObject_CallFunction(installed.makeError, "issiizi", error->kind, error->text,
                                 error->message, error->line, error->column, error->reproducer,
                                 static_cast<int>(doing));
  }));
  const Ref cause(std::exchange(pending, nullptr));
  if (!exception) {
    return nullptr;
  }
  const Ref file(PyUnicode_DecodeFSDefault(error->file));
  if (PyObject_SetAttrString(exception.get(), "file", file ? file.get() : Py_None) != 0) {
    PyErr_Clear();
  }
  if (cause) {
    PyException_SetCause(exception.get(), Py_NewRef(cause.get()));
  }
  PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(exception.get())), exception.get());
  return nullptr;
}

} // namespace libtile::python
