// SPDX-License-Identifier: Apache-2.0
#include "call.h"

#include <charconv>
#include <string>

namespace libtile::python {

namespace {

bool fail(PyObject *type, PyObject *self, const char *format, PyObject *name) {
  const Ref text(PyUnicode_FromFormat(format, name));
  const char *kernel = lt_function_name(asJit(self)->function);
  if (text) {
    PyErr_Format(type, "%s(): %U", kernel, text.get());
  }
  return false;
}

bool bindKeyword(PyObject *self, PyObject *name, PyObject *value, Call &call) {
  static PyObject *const numWarpsName = PyUnicode_InternFromString("num_warps");
  static PyObject *const numStagesName = PyUnicode_InternFromString("num_stages");
  const std::vector<Param> &params = *asJit(self)->params;
  for (int pass = 0; pass < 2; ++pass) { // by identity, then by text
    for (size_t i = 0; i < params.size(); ++i) {
      if (pass == 0 ? params[i].name == name : PyUnicode_Compare(params[i].name, name) == 0) {
        if (call.values[i] != nullptr) {
          return fail(PyExc_TypeError, self, "got several values for parameter '%U'", name);
        }
        call.values[i] = value;
        return true;
      }
    }
    const bool isWarps = pass == 0 ? name == numWarpsName : PyUnicode_Compare(name, numWarpsName) == 0;
    const bool isStages =
        pass == 0 ? name == numStagesName : PyUnicode_Compare(name, numStagesName) == 0;
    if (isWarps || isStages) {
      const long number = value == Py_None ? 0 : PyLong_AsLong(value);
      if (number < 0 || number > 64) {
        return PyErr_Occurred() != nullptr ||
               fail(PyExc_ValueError, self, "'%U' is not in 0 .. 64", name);
      }
      (isWarps ? call.options.num_warps : call.options.num_stages) = static_cast<int32_t>(number);
      return true;
    }
  }
  return fail(PyExc_TypeError, self, "there is no parameter '%U'", name);
}

// "*fp32", "i32:16": a type for a compilation without arguments.
bool classifyType(PyObject *text, PyObject *name, lt_arg &arg) {
  const char *utf8 = PyUnicode_AsUTF8(text);
  if (utf8 == nullptr) {
    return false;
  }
  std::string type = utf8;
  arg = {};
  arg.kind = LT_ARG_TYPE;
  arg.bits = 1;
  if (const size_t colon = type.find(':'); colon != std::string::npos) {
    const char *last = type.data() + type.size();
    const auto [end, error] = std::from_chars(type.data() + colon + 1, last, arg.bits);
    if (error != std::errc() || end != last || arg.bits == 0 || arg.bits > UINT32_MAX) {
      PyErr_Format(PyExc_TypeError, "argument '%U': '%s' says no multiple behind the colon", name, utf8);
      return false;
    }
    type.resize(colon);
  }
  const int code = lt_dtype(type.c_str());
  arg.dtype = static_cast<uint16_t>(code);
  if (code < 0) {
    PyErr_Format(PyExc_TypeError, "argument '%U': there is no type '%s'", name, type.c_str());
  }
  return code >= 0;
}

bool readGrid(PyObject *grid, int64_t extents[3]) {
  extents[0] = extents[1] = extents[2] = 1;
  if (PyLong_Check(grid)) {
    extents[0] = PyLong_AsLongLong(grid);
    return PyErr_Occurred() == nullptr;
  }
  const Ref items(PySequence_Tuple(grid));
  if (!items) {
    return false;
  }
  const Py_ssize_t count = PyTuple_GET_SIZE(items.get());
  if (count < 1 || count > 3) {
    PyErr_SetString(PyExc_ValueError, "a grid has 1 to 3 extents");
    return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *item = PyTuple_GET_ITEM(items.get(), i);
    const Ref number(PyLong_Check(item) ? Py_NewRef(item) : PyNumber_Index(item));
    extents[i] = number ? PyLong_AsLongLong(number.get()) : -1;
    if (extents[i] == -1 && PyErr_Occurred() != nullptr) {
      return false;
    }
  }
  return true;
}

} // namespace

bool bind(PyObject *self, PyObject *const *args, size_t positional, PyObject *names, Call &call) {
  if (!ensureParsed(self)) {
    return false;
  }
  const std::vector<Param> &params = *asJit(self)->params;
  call.count = params.size();
  if (positional > params.size() || params.size() > LT_MAX_ARGUMENTS) {
    PyErr_Format(PyExc_TypeError, "%s() takes %zu arguments, %zu were given",
                 lt_function_name(asJit(self)->function), params.size(), positional);
    return false;
  }
  for (size_t i = 0; i < params.size(); ++i) {
    call.values[i] = i < positional ? args[i] : nullptr;
  }
  const Py_ssize_t keywords = names != nullptr ? PyTuple_GET_SIZE(names) : 0;
  for (Py_ssize_t i = 0; i < keywords; ++i) {
    if (!bindKeyword(self, PyTuple_GET_ITEM(names, i), args[positional + static_cast<size_t>(i)], call)) {
      return false;
    }
  }
  for (size_t i = 0; i < params.size(); ++i) {
    if (call.values[i] == nullptr && (call.values[i] = params[i].deflt) == nullptr) {
      return fail(PyExc_TypeError, self, "parameter '%U' is missing", params[i].name);
    }
  }
  return true;
}

bool classifyAll(PyObject *self, Call &call, bool allowTypes) {
  const std::vector<Param> &params = *asJit(self)->params;
  for (size_t i = 0; i < call.count; ++i) {
    int device = kNoDevice;
    if (allowTypes && !params[i].isConstexpr && PyUnicode_Check(call.values[i])) {
      if (!classifyType(call.values[i], params[i].name, call.args[i])) {
        return false;
      }
      continue;
    }
    if (!classify(call.values[i], params[i].isConstexpr, params[i].name, call.args[i], device)) {
      return false;
    }
    if (device == kNoDevice || device == call.device) {
      continue;
    }
    if (call.device != kNoDevice) {
      return fail(PyExc_ValueError, self,
                  "argument '%U' is on another device than the arrays before it", params[i].name);
    }
    call.device = device;
    call.deviceArgument = call.values[i];
  }
  return true;
}

bool evaluateGrid(PyObject *self, PyObject *grid, const Call &call, int64_t extents[3]) {
  if (PyTuple_Check(grid) || PyCallable_Check(grid) == 0) {
    return readGrid(grid, extents);
  }
  const Ref meta(PyDict_New());
  for (size_t i = 0; meta && i < call.count; ++i) {
    if (PyDict_SetItem(meta.get(), (*asJit(self)->params)[i].name, call.values[i]) != 0) {
      return false;
    }
  }
  const Ref result(meta ? PyObject_CallOneArg(grid, meta.get()) : nullptr);
  return result && readGrid(result.get(), extents);
}

} // namespace libtile::python
