// SPDX-License-Identifier: Apache-2.0
// _libtile.Jit, the base of libtile.JITFunction, and what kernel[grid] gives: a Launcher, whose call
// is the hot path. Launchers are recycled, so that kernel[grid](...) allocates nothing.
#include "call.h"
#include "kernel.h"

#include <structmember.h>

#include <cstring>
#include <string>
#include <vector>

namespace libtile::python {

namespace {

struct Launcher {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject *jit;
  PyObject *grid;
};

PyTypeObject *jitType = nullptr;
PyTypeObject *launcherType = nullptr;
constexpr size_t kFreeLaunchers = 8;
Launcher *freeLaunchers[kFreeLaunchers];
size_t numFreeLaunchers = 0;
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
  const Ref source(takingGil([&] { return PyObject_CallMethodNoArgs(self, sourceName); }));
  const char *text = nullptr, *file = nullptr, *name = nullptr;
  Py_ssize_t length = 0;
  int line = 1;
  PyObject *noSpecialise = nullptr, *noAlignment = nullptr;
  if (!source || !PyArg_ParseTuple(source.get(), "s#sisOO", &text, &length, &file, &line, &name,
                                   &noSpecialise, &noAlignment)) {
    return false;
  }
  lt_function *function = lt_function_parse(text, static_cast<size_t>(length), file, line, name,
                                            asJit(self)->fn);
  if (function == nullptr) {
    raiseError(true);
    return false;
  }
  size_t count = 0;
  const lt_param *params = lt_function_params(function, &count);
  auto *rows = new std::vector<Param>;
  std::vector<uint8_t> flags(count);
  for (size_t i = 0; i < count; ++i) {
    PyObject *interned = PyUnicode_InternFromString(params[i].name);
    rows->push_back({interned, Py_XNewRef(defaultOf(asJit(self)->fn, params[i].name)),
                     params[i].is_constexpr != 0,
                     params[i].is_constexpr != 0 && isOption(interned)});
    flags[i] = (PySequence_Contains(noSpecialise, interned) == 1 ? LT_NO_SPECIALIZE : 0) |
               (PySequence_Contains(noAlignment, interned) == 1 ? LT_NO_ALIGNMENT : 0);
  }
  PyErr_Clear();
  if (asJit(self)->function != nullptr) { // another thread was faster
    lt_function_free(function);
    delete rows;
    return true;
  }
  lt_function_set_flags(function, flags.data());
  asJit(self)->params = rows;
  asJit(self)->function = function;
  return true;
}

// ---- launch

// The plan for the arguments, compiled if need be; answers of the host are checked.
bool findPlan(PyObject *self, lt_device *device, const Call &call, lt_plan &plan) {
  lt_function *function = asJit(self)->function;
  for (int attempt = 0;; ++attempt) {
    lt_status status = lt_find(function, device, call.args, call.count, &call.options, &plan);
    if (status == LT_OK) [[likely]] {
      if (answersHold(static_cast<PyObject *>(plan.user)) || attempt >= 4) {
        return true;
      }
      lt_retire(function, &plan);
      continue;
    }
    if (status == LT_COMPILE) {
      forgetException();
      const WithoutGil scope;
      status = lt_compile(function, device, call.args, call.count, &call.options, makeUser);
      if (status == LT_OK) {
        continue;
      }
    }
    raiseError(!plan.user);
    return false;
  }
}

// The arrays' extents, if the plan asks for them; they lie in `storage`.
const lt_extent *extentsOf(const lt_plan &plan, const Call &call, lt_extent *storage) {
  if (plan.needs_extents == 0) {
    return nullptr;
  }
  for (size_t i = 0; i < call.count; ++i) {
    storage[i] = call.args[i].kind == LT_ARG_POINTER ? extentOf(call.values[i], call.args[i])
                                                  : lt_extent{};
  }
  return storage;
}

// A launch that lasts runs without the interpreter's lock, and takes it now and then for signals.
struct LaunchingThread {
  PyThreadState *state = nullptr; // null: it has the lock
  void letGo() { state = PyEval_SaveThread(); }
  void takeBack() {
    if (state != nullptr) {
      takingGil([this] { PyEval_RestoreThread(std::exchange(state, nullptr)); });
    }
  }
  [[nodiscard]] lt_caller caller() {
    const auto lasts = [](void *self) { static_cast<LaunchingThread *>(self)->letGo(); };
    const auto isInterrupted = [](void *self) {
      auto &thread = *static_cast<LaunchingThread *>(self);
      thread.takeBack();
      const int interrupted = takingGil([] { return PyErr_CheckSignals(); });
      thread.letGo();
      return interrupted;
    };
    return {lasts, isInterrupted, this};
  }
};

bool runPlan(lt_plan &plan, const int64_t grid[3], const Call &call, void *stream) {
  lt_extent storage[LT_MAX_ARGUMENTS];
  const lt_extent *extents = extentsOf(plan, call, storage);
  lt_status status = lt_select(&plan, grid, extents);
  if (status == LT_COMPILE) {
    {
      const WithoutGil scope;
      status = lt_prepare(&plan, extents);
    }
    status = status == LT_OK ? lt_select(&plan, grid, extents) : status;
  }
  if (status == LT_OK) {
    LaunchingThread thread;
    const lt_caller caller = thread.caller();
    status = lt_launch(&plan, stream, &caller);
    thread.takeBack();
  }
  // What a signal's handler raised is the error.
  if (status != LT_OK && PyErr_Occurred() == nullptr) {
    raiseError(true);
  }
  return status == LT_OK;
}

PyObject *launch(PyObject *self, PyObject *grid, PyObject *const *args, size_t positional,
                 PyObject *names) {
  Call call;
  lt_plan plan;
  plan.user = nullptr;
  int64_t extents[3];
  void *stream = nullptr;
  if (!bind(self, args, positional, names, call) || !classifyAll(self, call, false) ||
      !evaluateGrid(self, grid, call, extents)) {
    return nullptr;
  }
  lt_device *device = deviceFor(call.device == kNoDevice ? kCpu : call.device);
  if (device == nullptr ||
      (call.device >= 0 && !currentStream(call.deviceArgument, call.device, stream)) ||
      !findPlan(self, device, call, plan)) {
    return nullptr;
  }
  // The entry may be retired and its kernel dropped while the lock is let go.
  Ref kernel = Ref::borrowed(static_cast<PyObject *>(plan.user));
  return runPlan(plan, extents, call, stream) ? kernel.release() : nullptr;
}

PyObject *launcherCall(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names) {
  auto *launcher = reinterpret_cast<Launcher *>(self);
  return launch(launcher->jit, launcher->grid, args, PyVectorcall_NARGS(nargs), names);
}

// ---- Launcher

void launcherDealloc(PyObject *self) {
  auto *launcher = reinterpret_cast<Launcher *>(self);
  Py_CLEAR(launcher->jit);
  Py_CLEAR(launcher->grid);
  if (numFreeLaunchers < kFreeLaunchers) {
    freeLaunchers[numFreeLaunchers++] = launcher;
    return;
  }
  PyTypeObject *type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef launcherMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Launcher, call), READONLY, nullptr},
    {"kernel", T_OBJECT, offsetof(Launcher, jit), READONLY, nullptr},
    {"grid", T_OBJECT, offsetof(Launcher, grid), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyType_Slot launcherSlots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(launcherDealloc)},
                               {Py_tp_call, reinterpret_cast<void *>(PyVectorcall_Call)},
                               {Py_tp_members, launcherMembers},
                               {0, nullptr}};
PyType_Spec launcherSpec = {"_libtile.Launcher", sizeof(Launcher), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL |
                                Py_TPFLAGS_DISALLOW_INSTANTIATION,
                            launcherSlots};

// ---- Jit

PyObject *jitSubscript(PyObject *self, PyObject *grid) {
  Launcher *launcher = nullptr;
  if (numFreeLaunchers > 0) {
    launcher = freeLaunchers[--numFreeLaunchers];
    _Py_NewReference(reinterpret_cast<PyObject *>(launcher));
  } else {
    launcher = reinterpret_cast<Launcher *>(launcherType->tp_alloc(launcherType, 0));
    if (launcher == nullptr) {
      return nullptr;
    }
    launcher->call = launcherCall;
  }
  launcher->jit = Py_NewRef(self);
  launcher->grid = Py_NewRef(grid);
  return reinterpret_cast<PyObject *>(launcher);
}

PyObject *jitCall(PyObject *self, PyObject *, PyObject *) {
  const Ref name(PyObject_GetAttrString(asJit(self)->fn, "__name__"));
  if (name) {
    PyErr_Format(PyExc_RuntimeError,
                 "'%U' is called without a grid: a kernel is launched with `%U[grid](...)`, and only other "
                 "kernels call it as a function",
                 name.get(), name.get());
  }
  return nullptr;
}

int jitInit(PyObject *self, PyObject *args, PyObject *) {
  PyObject *fn = nullptr;
  if (!PyArg_ParseTuple(args, "O", &fn)) {
    return -1;
  }
  if (!PyFunction_Check(fn)) {
    PyErr_SetString(PyExc_TypeError, "jit takes a Python function");
    return -1;
  }
  Py_XSETREF(asJit(self)->fn, Py_NewRef(fn));
  return 0;
}

void jitDealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (asJit(self)->weakrefs != nullptr) {
    PyObject_ClearWeakRefs(self);
  }
  if (asJit(self)->params != nullptr) {
    for (const Param &param : *asJit(self)->params) {
      Py_XDECREF(param.name);
      Py_XDECREF(param.deflt);
    }
  }
  delete asJit(self)->params;
  if (lt_function *function = asJit(self)->function) {
    std::vector<PyObject *> users;
    lt_function_users(
        function,
        [](void *user, void *context) {
          static_cast<std::vector<PyObject *> *>(context)->push_back(static_cast<PyObject *>(user));
        },
        &users);
    lt_function_free(function);
    for (PyObject *user : users) {
      Py_DECREF(user);
    }
  }
  Py_CLEAR(asJit(self)->fn);
  type->tp_free(self);
  Py_DECREF(type);
}

int jitTraverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(asJit(self)->fn);
  return 0;
}

// _warmup(target, *args, **kwargs): compiles for a target, no device needed.
PyObject *jitWarmup(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
  Call call;
  const char *target = nargs >= 1 ? PyUnicode_AsUTF8(args[0]) : nullptr;
  if (target == nullptr) {
    return PyErr_Occurred() != nullptr ? nullptr
                                       : PyErr_Format(PyExc_TypeError, "_warmup takes a target");
  }
  if (!bind(self, args + 1, static_cast<size_t>(nargs - 1), names, call) ||
      !classifyAll(self, call, true)) {
    return nullptr;
  }
  lt_kernel *kernel = nullptr;
  lt_status status = LT_OK;
  forgetException();
  {
    const WithoutGil scope;
    status = lt_compile_for(asJit(self)->function, target, call.args, call.count, &call.options, &kernel);
  }
  return status == LT_OK ? makeKernel(kernel) : raiseError(true);
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
    lt_function_clear(asJit(self)->function);
  }
  Py_RETURN_NONE;
}

PyMethodDef jitMethods[] = {
    {"clear", jitClear, METH_NOARGS, "Forgets everything compiled of the function."},
    {"_warmup", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(jitWarmup)),
     METH_FASTCALL | METH_KEYWORDS, "_warmup(target, *args, **kwargs)"},
    {"_params", jitParams, METH_NOARGS, "(name, is_constexpr, has_default) of each parameter."},
    {nullptr, nullptr, 0, nullptr}};
PyMemberDef jitMembers[] = {
    {"fn", T_OBJECT, offsetof(JitObject, fn), READONLY, "The Python function."},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(JitObject, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyType_Slot jitSlots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(jitDealloc)},
                          {Py_tp_traverse, reinterpret_cast<void *>(jitTraverse)},
                          {Py_tp_new, reinterpret_cast<void *>(PyType_GenericNew)},
                          {Py_tp_init, reinterpret_cast<void *>(jitInit)},
                          {Py_tp_call, reinterpret_cast<void *>(jitCall)},
                          {Py_mp_subscript, reinterpret_cast<void *>(jitSubscript)},
                          {Py_tp_methods, jitMethods},
                          {Py_tp_members, jitMembers},
                          {0, nullptr}};
PyType_Spec jitSpec = {"_libtile.Jit", sizeof(JitObject), 0,
                       Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, jitSlots};

} // namespace

bool ensureParsed(PyObject *self) { return asJit(self)->function != nullptr || parse(self); }

bool isJit(PyObject *object) { return PyObject_TypeCheck(object, jitType) != 0; }

lt_function *functionOf(PyObject *jit) {
  if (!ensureParsed(jit)) {
    return nullptr;
  }
  return asJit(jit)->function;
}

bool addJitTypes(PyObject *module) {
  sourceName = PyUnicode_InternFromString("_source");
  jitType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&jitSpec));
  launcherType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&launcherSpec));
  return jitType != nullptr && launcherType != nullptr &&
         PyModule_AddObjectRef(module, "Jit", reinterpret_cast<PyObject *>(jitType)) == 0;
}

} // namespace libtile::python
