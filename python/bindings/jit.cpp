// SPDX-License-Identifier: Apache-2.0
// _libtile.Jit, the base of libtile.JITFunction.
#include "kernel.h"
#include "launch.h"

#include <structmember.h>

#include <cstring>
#include <string>
#include <vector>

namespace libtile::python {

namespace {

PyTypeObject *jitType = nullptr;
PyObject *sourceName = nullptr;

// ---- parsing on first use

// The function's default for the parameter, borrowed.
PyObject *defaultOf(PyObject *fn, const char *name) {
  PyObject *code = PyFunction_GET_CODE(fn);
  PyObject *keyword = PyFunction_GET_KW_DEFAULTS(fn);
  if (keyword != nullptr) {
    if (PyObject *found = PyDict_GetItemString(keyword, name)) {
      return found;
    }
  }
  PyObject *defaults = PyFunction_GET_DEFAULTS(fn);
  const Ref names(PyObject_GetAttrString(code, "co_varnames"));
  const int count = reinterpret_cast<PyCodeObject *>(code)->co_argcount;
  for (int i = 0; defaults != nullptr && names && i < count; ++i) {
    const Py_ssize_t at = i - (count - PyTuple_GET_SIZE(defaults));
    if (at >= 0 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names.get(), i), name) == 0) {
      return PyTuple_GET_ITEM(defaults, at);
    }
  }
  return nullptr;
}

// self._source() gives (text, file, first line, name, names not to specialise on, not to align on).
bool parse(PyObject *self) {
  const Ref fn = Ref::borrowed(asJit(self)->fn); // Python code runs, and may take it away
  const Ref source(takingGil([&] { return PyObject_CallMethodNoArgs(self, sourceName); }));
  const char *text = nullptr, *file = nullptr, *name = nullptr;
  Py_ssize_t length = 0;
  int line = 1;
  PyObject *noSpecialise = nullptr, *noAlignment = nullptr;
  if (!source || !PyArg_ParseTuple(source.get(), "s#sisOO", &text, &length, &file, &line, &name,
                                   &noSpecialise, &noAlignment)) {
    return false;
  }
  const Ref behind(PyWeakref_NewRef(fn.get(), nullptr)); // see functionBehind
  if (!behind) {
    return false;
  }
  lt_function *function = lt_function_parse(text, static_cast<size_t>(length), file, line, name,
                                            behind.get());
  if (function == nullptr) {
    raiseError(Doing::Compiling);
    return false;
  }
  size_t count = 0;
  const lt_param *params = lt_function_params(function, &count);
  auto *rows = new std::vector<Param>;
  std::vector<uint8_t> flags(count);
  for (size_t i = 0; i < count; ++i) {
    PyObject *interned = PyUnicode_InternFromString(params[i].name);
    rows->push_back({interned, Py_XNewRef(defaultOf(fn.get(), params[i].name)),
                     params[i].is_constexpr != 0,
                     params[i].is_constexpr != 0 && isOption(interned), params[i].variadic != 0,
                     params[i].keyword_only != 0});
    flags[i] = (PySequence_Contains(noSpecialise, interned) == 1 ? LT_NO_SPECIALIZE : 0) |
               (PySequence_Contains(noAlignment, interned) == 1 ? LT_NO_ALIGNMENT : 0);
  }
  PyErr_Clear();
  if (asJit(self)->function != nullptr) { // another thread was faster
    lt_function_free(function);
    delete rows;
    return true;
  }
  if (lt_function_set_flags(function, flags.data()) != LT_OK) {
    raiseError(Doing::Compiling);
    lt_function_free(function);
    delete rows;
    return false;
  }
  asJit(self)->params = rows;
  asJit(self)->function = function;
  asJit(self)->parsedFrom = Py_NewRef(behind.get());
  return true;
}

// ---- Jit

bool hasFunction(PyObject *self) {
  if (asJit(self)->fn == nullptr) {
    PyErr_SetString(PyExc_RuntimeError,
                    "the jit object has no function: `fn` was taken away, or it was pickled where no name of a "
                    "module leads to it (define it at the top level of a module)");
  }
  return asJit(self)->fn != nullptr;
}

PyObject *jitCall(PyObject *self, PyObject *, PyObject *) {
  const Ref name(hasFunction(self) ? PyObject_GetAttrString(asJit(self)->fn, "__name__") : nullptr);
  if (name) {
    PyErr_Format(PyExc_RuntimeError,
                 "'%U' is called without a grid: a kernel is launched with `%U[grid](...)`, and only other "
                 "kernels call it as a function",
                 name.get(), name.get());
  }
  return nullptr;
}

// Whether `def` made it; else a Python error is set.
bool checkFunction(PyObject *fn) {
  if (PyFunction_Check(fn) == 0) {
    PyErr_Format(PyExc_TypeError, "jit takes a Python function, not an object of type '%s'",
                 Py_TYPE(fn)->tp_name);
    return false;
  }
  const auto *code = reinterpret_cast<const PyCodeObject *>(PyFunction_GET_CODE(fn));
  const bool isLambda = PyUnicode_CompareWithASCIIString(code->co_name, "<lambda>") == 0;
  const bool isAsync = (code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0;
  if (isLambda || isAsync) {
    PyErr_Format(PyExc_TypeError, "jit takes a function that `def` makes, not %s",
                 isLambda ? "a lambda" : "one that `async def` makes");
  }
  return !isLambda && !isAsync;
}

int jitInit(PyObject *self, PyObject *args, PyObject *) {
  PyObject *fn = nullptr, *own[std::size(kOwnOptions)] = {Py_None, Py_None, Py_None, Py_None};
  if (!PyArg_ParseTuple(args, "O|OOOO", &fn, &own[0], &own[1], &own[2], &own[3])) {
    return -1;
  }
  if (!checkFunction(fn)) {
    return -1;
  }
  for (size_t i = 0; i < std::size(own); ++i) {
    if (!readOwnOption(kOwnOptions[i], own[i], asJit(self)->own[i])) {
      return -1;
    }
  }
  Py_XSETREF(asJit(self)->fn, Py_NewRef(fn));
  return 0;
}

// Everything that may lead back to the object itself.
int jitTraverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(asJit(self)->fn);
  if (asJit(self)->params != nullptr) {
    for (const Param &param : *asJit(self)->params) {
      Py_VISIT(param.deflt);
    }
  }
  if (asJit(self)->function == nullptr) {
    return 0;
  }
  struct Visit {
    visitproc visit;
    void *arg;
    int result;
  } each{visit, arg, 0};
  lt_function_users(
      asJit(self)->function,
      [](void *user, void *context) {
        auto &to = *static_cast<Visit *>(context);
        to.result = to.result != 0
                        ? to.result
                        : visitUser(*static_cast<const KernelUser *>(user), to.visit, to.arg);
      },
      &each);
  return each.result;
}

// What was parsed and compiled.
void forget(PyObject *self) {
  if (std::vector<Param> *params = std::exchange(asJit(self)->params, nullptr)) {
    for (const Param &param : *params) {
      Py_XDECREF(param.name);
      Py_XDECREF(param.deflt);
    }
    delete params;
  }
  if (lt_function *function = std::exchange(asJit(self)->function, nullptr)) {
    lt_function_free(function);
  }
  Py_CLEAR(asJit(self)->parsedFrom);
}

int jitTearDown(PyObject *self) {
  forget(self);
  Py_CLEAR(asJit(self)->fn);
  return 0;
}

void jitDealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (asJit(self)->weakrefs != nullptr) {
    PyObject_ClearWeakRefs(self);
  }
  jitTearDown(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// Whether there is a target of that name; else a Python error is set. That of the interpreter, which makes no code, is
// not among those that are named.
bool checkTarget(PyObject *self, const char *target) {
  if (std::string_view(target) == "interpreter") {
    return true;
  }
  std::vector<std::string> names = {"cpu"};
  std::vector<const char *> known;
  std::string list;
  for (size_t i = 0; const char *name = lt_target_at(i); ++i) {
    names.emplace_back(name);
  }
  for (const std::string &name : names) {
    if (name == target) {
      return true;
    }
    known.push_back(name.c_str());
    list += (list.empty() ? "" : ", ") + name;
  }
  const std::string hint = lt_did_you_mean(target, known.data(), known.size());
  PyErr_Format(PyExc_ValueError, "%s(): there is no target '%s'%s There are %s",
               lt_function_name(asJit(self)->function), target, hint.empty() ? "." : hint.c_str(), list.c_str());
  return false;
}

// _warmup(target, *args, **kwargs): compiles for a target, no device needed.
PyObject *jitWarmup(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
  const UseScope use(self);
  Call call;
  const char *target = nargs >= 1 ? PyUnicode_AsUTF8(args[0]) : nullptr;
  if (target == nullptr) {
    PyErr_Clear();
    return PyErr_Format(PyExc_TypeError, "a target is one of the texts of libtile.targets(), or \"cpu\"");
  }
  if (!ensureParsed(self) || !checkTarget(self, target) ||
      !bind(self, args + 1, static_cast<size_t>(nargs - 1), names, call) || !bindDefaults(self, call) ||
      !classifyAll(self, call, true)) {
    return nullptr;
  }
  switch (announceCompilation(self, call, target)) {
  case Announced::Refused:
    Py_RETURN_NONE;
  case Announced::Failed:
    return nullptr;
  case Announced::Accepted:
    break;
  }
  lt_kernel *kernel = nullptr;
  lt_status status = LT_OK;
  lt_read_environment();
  {
    const CompilingScope compiling(self);
    const WithoutGil scope;
    status = lt_compile_for(asJit(self)->function, target, call.args, call.count, &call.options, &kernel);
  }
  Ref made(status == LT_OK ? makeKernel(kernel, self) : raiseError(Doing::Compiling));
  return made && announceKernel(self, call, target, made.get()) ? made.release() : nullptr;
}

PyObject *jitPrepare(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
  return prepareLaunch(self, args, static_cast<size_t>(nargs), names);
}

// (name, is_constexpr, has_default) of each parameter.
PyObject *jitParams(PyObject *self, PyObject *) {
  if (!ensureParsed(self)) {
    return nullptr;
  }
  Ref rows(PyList_New(0));
  for (const Param &param : *asJit(self)->params) {
    const Ref row(Py_BuildValue("OOO", param.name, param.isConstexpr ? Py_True : Py_False,
                                param.deflt != nullptr ? Py_True : Py_False));
    if (!row || PyList_Append(rows.get(), row.get()) != 0) {
      return nullptr;
    }
  }
  return rows.release();
}

PyObject *jitClear(PyObject *self, PyObject *) {
  if (asJit(self)->function != nullptr) {
    const WithoutGil scope;
    lt_function_clear(asJit(self)->function);
  }
  Py_RETURN_NONE;
}

// Whether nothing is under way that what was parsed must outlive; else a Python error is set.
bool isIdle(PyObject *self) {
  if (asJit(self)->uses != 0) {
    PyErr_SetString(PyExc_RuntimeError, "the jit object is being launched or compiled");
  }
  return asJit(self)->uses == 0;
}

PyObject *jitForget(PyObject *self, PyObject *) {
  if (!isIdle(self)) {
    return nullptr;
  }
  forget(self);
  Py_RETURN_NONE;
}

PyMethodDef jitMethods[] = {
    {"clear", jitClear, METH_NOARGS, "Forgets everything compiled of the function."},
    {"_warmup", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(jitWarmup)),
     METH_FASTCALL | METH_KEYWORDS, "_warmup(target, *args, **kwargs)"},
    {"_prepare", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(jitPrepare)),
     METH_FASTCALL | METH_KEYWORDS, "_prepare(*args, **kwargs): compiles and loads what a launch runs."},
    {"_forget", jitForget, METH_NOARGS, "_source() is asked again at the next use, and all is compiled anew."},
    {"_params", jitParams, METH_NOARGS, "(name, is_constexpr, has_default) of each parameter."},
    {nullptr, nullptr, 0, nullptr}};
// Whether the function that was parsed is this one.
bool isParsedFrom(const JitObject *jit, PyObject *fn) {
  const Ref behind(jit->parsedFrom != nullptr ? functionBehind(jit->parsedFrom).release() : nullptr);
  PyErr_Clear();
  return behind.get() == fn;
}

// None takes the function away (who pickles a jit function does that), another one starts afresh, which
// what runs of the old one would not survive.
int jitSetFunction(PyObject *self, PyObject *fn, void *) {
  if (fn == nullptr || (fn != Py_None && PyFunction_Check(fn) == 0)) {
    PyErr_SetString(PyExc_TypeError, "fn is a Python function or None");
    return -1;
  }
  if (fn != Py_None && !checkFunction(fn)) {
    return -1;
  }
  if (fn != Py_None && !isParsedFrom(asJit(self), fn)) {
    if (!isIdle(self)) {
      return -1;
    }
    jitTearDown(self);
  }
  Py_XSETREF(asJit(self)->fn, fn != Py_None ? Py_NewRef(fn) : nullptr);
  return 0;
}
PyObject *jitGetFunction(PyObject *self, void *) {
  return Py_NewRef(asJit(self)->fn != nullptr ? asJit(self)->fn : Py_None);
}

PyGetSetDef jitGetSet[] = {{"fn", jitGetFunction, jitSetFunction, "The Python function, or None.", nullptr},
                           {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMemberDef jitMembers[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(JitObject, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyType_Slot jitSlots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(jitDealloc)},
                          {Py_tp_traverse, reinterpret_cast<void *>(jitTraverse)},
                          {Py_tp_clear, reinterpret_cast<void *>(jitTearDown)},
                          {Py_tp_new, reinterpret_cast<void *>(PyType_GenericNew)},
                          {Py_tp_init, reinterpret_cast<void *>(jitInit)},
                          {Py_tp_call, reinterpret_cast<void *>(jitCall)},
                          {Py_mp_subscript, reinterpret_cast<void *>(launcherOfJit)},
                          {Py_tp_methods, jitMethods},
                          {Py_tp_members, jitMembers},
                          {Py_tp_getset, jitGetSet},
                          {0, nullptr}};
PyType_Spec jitSpec = {"_libtile.Jit", sizeof(JitObject), 0,
                       Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, jitSlots};

} // namespace

bool ensureParsed(PyObject *self) {
  return hasFunction(self) && (asJit(self)->function != nullptr || parse(self));
}

bool isJit(PyObject *object) { return PyObject_TypeCheck(object, jitType) != 0; }

lt_function *functionOf(PyObject *jit) {
  CompilingScope::keep(jit);
  return ensureParsed(jit) ? asJit(jit)->function : nullptr;
}

bool addJitTypes(PyObject *module) {
  sourceName = PyUnicode_InternFromString("_source");
  jitType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&jitSpec));
  return jitType != nullptr && addLauncherType(module) &&
         PyModule_AddObjectRef(module, "Jit", reinterpret_cast<PyObject *>(jitType)) == 0;
}

} // namespace libtile::python
