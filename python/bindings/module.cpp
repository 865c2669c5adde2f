// SPDX-License-Identifier: Apache-2.0
// The extension module libtile._libtile. It links libtile.so alone; both come from one build, which
// the version of the bindings confirms at import.
#include "kernel.h"

#include <cstring>

namespace libtile::python {

Installed installed;

namespace {

// install(**objects): what the extension calls in the package.
PyObject *install(PyObject *, PyObject *, PyObject *kwargs) {
  const struct {
    const char *name;
    PyObject **slot;
  } slots[] = {
      {"make_error", &installed.makeError},       {"kernel_class", &installed.kernelClass},
      {"global_value", &installed.globalValue},   {"default_value", &installed.defaultValue},
      {"attribute_value", &installed.attributeValue}, {"names", &installed.names},
      {"call", &installed.callValue},             {"describe", &installed.describe},
      {"constant", &installed.constant},          {"convert", &installed.convert},
      {"launch_info", &installed.launchInfo},
  };
  for (const auto &[name, slot] : slots) {
    PyObject *object = kwargs != nullptr ? PyDict_GetItemString(kwargs, name) : nullptr;
    if (object == nullptr) {
      return PyErr_Format(PyExc_TypeError, "install: '%s' is missing", name);
    }
    Py_XSETREF(*slot, Py_NewRef(object));
  }
  installHost();
  Py_RETURN_NONE;
}

PyObject *language(PyObject *, PyObject *) { return PyUnicode_FromString(lt_language()); }

// (name, kind, standard value, doc) of each option.
PyObject *options(PyObject *, PyObject *) {
  static const char *const kKinds[] = {"integer", "flag", "object"};
  size_t count = 0;
  const lt_option *rows = lt_option_rows(&count);
  Ref list(PyList_New(0));
  for (size_t i = 0; list && i < count; ++i) {
    const Ref row(Py_BuildValue("ssLs", rows[i].name, kKinds[rows[i].kind],
                                static_cast<long long>(rows[i].standard), rows[i].doc));
    if (!row || PyList_Append(list.get(), row.get()) != 0) {
      return nullptr;
    }
  }
  return list.release();
}

PyMethodDef functions[] = {
    {"install", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(install)),
     METH_VARARGS | METH_KEYWORDS, nullptr},
    {"options", options, METH_NOARGS, "(name, kind, standard value, doc) of each option."},
    {"language", language, METH_NOARGS, "The rows of the language, see lt_language in bindings.h."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_libtile", nullptr, -1, functions, nullptr, nullptr,
                          nullptr,               nullptr};

} // namespace

} // namespace libtile::python

PyMODINIT_FUNC PyInit__libtile() {
  using namespace libtile::python;
  if (std::strcmp(lt_bindings_version(), LT_BINDINGS_VERSION " " LIBTILE_VERSION) != 0) {
    PyErr_Format(PyExc_ImportError, "libtile.so (%s) and its Python module (%s) are of different builds",
                 lt_bindings_version(), LT_BINDINGS_VERSION " " LIBTILE_VERSION);
    return nullptr;
  }
  Ref module(PyModule_Create(&definition));
  if (!module || !addValueTypes(module.get()) || !addKernelType(module.get()) ||
      !addJitTypes(module.get()) || !addDeviceFunctions(module.get()) ||
      PyModule_AddStringConstant(module.get(), "version", LIBTILE_VERSION) != 0) {
    return nullptr;
  }
  return module.release();
}
