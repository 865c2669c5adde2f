// SPDX-License-Identifier: Apache-2.0
// The hot path of a launch from Python. Launchers are recycled, so that kernel[grid](...) allocates
// nothing.
#include "launch.h"

#include "kernel.h"

#include <structmember.h>

namespace libtile::python {

thread_local CompilingScope *CompilingScope::current = nullptr;

namespace {

struct Launcher {
  PyObject_HEAD
  vectorcallfunc call;
  Launch launch;
  PyObject *kernel;
  PyObject *grid;
};

PyTypeObject *launcherType = nullptr;
constexpr size_t kFreeLaunchers = 8;
Launcher *freeLaunchers[kFreeLaunchers];
size_t numFreeLaunchers = 0;

// A plan for a scope: what it found stays there.
struct Plan : lt_plan {
  Plan() { entry = nullptr; }
  ~Plan() { lt_release(this); }
  Plan(const Plan &) = delete;
  Plan &operator=(const Plan &) = delete;
};

const KernelUser &userOf(const lt_plan &plan) { return *static_cast<const KernelUser *>(plan.user); }

// Called around compilations, or null: callables that take a CompileInfo.
struct Hooks {
  PyObject *enter = nullptr, *exit = nullptr;
};
Hooks compileHooks;

// What the hook returns; null: a Python error is set.
Ref callCompileHook(PyObject *hook, PyObject *jit, const Call &call, const char *target, PyObject *kernel) {
  const Ref owned = Ref::borrowed(hook), arguments = byName(jit, call), options = optionsByName(call);
  const Ref info(arguments && options ? takingGil([&] {
    return PyObject_CallFunction(installed.compileInfo, "OOzOO", kernel, jit, target, options.get(),
                                 arguments.get());
  }) : nullptr);
  return Ref(info ? takingGil([&] { return PyObject_CallOneArg(hook, info.get()); }) : nullptr);
}

// Compiles for the arguments. Nothing was compiled, and no error is set, if a hook refuses.
bool compile(PyObject *self, lt_device *device, const Call &call) {
  if (announceCompilation(self, call, nullptr) != Announced::Accepted) {
    return false;
  }
  lt_status status = LT_OK;
  lt_read_environment();
  {
    const CompilingScope compiling(self);
    const WithoutGil scope;
    status = lt_compile(asJit(self)->function, device, call.args, call.count, &call.options, makeUser, freeUser);
  }
  if (status != LT_OK) {
    raiseError(Doing::Compiling);
  }
  return status == LT_OK;
}

// The plan for the arguments, compiled if need be; answers of the host are checked. False without a Python
// error: a hook refuses.
bool findPlan(PyObject *self, lt_device *device, const Call &call, Plan &plan) {
  lt_function *function = asJit(self)->function;
  bool isNew = false;
  for (int attempt = 0;; ++attempt) {
    lt_status status = lt_find(function, device, call.args, call.count, &call.options, &plan);
    if (status == LT_OK) [[likely]] {
      if (userOf(plan).answers.hold() || attempt >= 4) {
        return !isNew || announceKernel(self, call, nullptr, userOf(plan).kernel);
      }
      const WithoutGil scope;
      lt_retire(function, &plan);
      continue;
    }
    if (status == LT_COMPILE) {
      if (!compile(self, device, call)) {
        return false;
      }
      isNew = true;
      continue;
    }
    raiseError(plan.user != nullptr ? Doing::Calling : Doing::Compiling);
    return false;
  }
}

// The array at the lowest address, whose size is known; call.count: none.
size_t lowestArray(const Call &call) {
  size_t lowest = call.count;
  for (size_t i = 0; i < call.count; ++i) {
    const lt_arg &arg = call.args[i];
    if (arg.kind == LT_ARG_POINTER && (lowest == call.count || arg.bits < call.args[lowest].bits)) {
      lowest = i;
    }
  }
  return lowest < call.count && call.args[lowest].bytes != 0 ? lowest : call.count;
}

// The arrays' extents, if the plan asks for them; they lie in `storage`. Extents of arrays are only
// compared with each other, so that the lowest array needs no more than its own bytes: one above it that
// lies in the same storage reaches down to the storage's begin, and so over it.
const lt_extent *extentsOf(const lt_plan &plan, const Call &call, lt_extent *storage) {
  if (plan.needs_extents == LT_NO_EXTENTS) {
    return nullptr;
  }
  const size_t lowest = plan.needs_extents == LT_EXTENTS_OF_ARRAYS ? lowestArray(call) : call.count;
  for (size_t i = 0; i < call.count; ++i) {
    const lt_arg &arg = call.args[i];
    storage[i] = arg.kind != LT_ARG_POINTER ? lt_extent{}
                 : i == lowest              ? lt_extent{arg.bits, arg.bits + arg.bytes}
                                            : extentOf(call.objects[i], arg, plan.needs_extents);
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

// Finds the variant, compiled and loaded if need be.
bool selectVariant(lt_plan &plan, const int64_t grid[3], const lt_extent *extents) {
  lt_status status = lt_select(&plan, grid, extents);
  bool isPrepared = true;
  if (status == LT_COMPILE) {
    {
      const WithoutGil scope;
      status = lt_prepare(&plan, extents);
    }
    isPrepared = status == LT_OK;
    status = isPrepared ? lt_select(&plan, grid, extents) : status;
  }
  if (status != LT_OK) {
    raiseError(isPrepared ? Doing::Calling : Doing::Compiling);
  }
  return status == LT_OK;
}

bool runPlan(lt_plan &plan, const int64_t grid[3], const Call &call, void *stream) {
  lt_extent storage[LT_MAX_ARGUMENTS];
  const lt_extent *extents = extentsOf(plan, call, storage);
  if (!selectVariant(plan, grid, extents)) {
    return false;
  }
  LaunchingThread thread;
  const lt_caller caller = thread.caller();
  const lt_status status = lt_launch(&plan, stream, &caller, extents);
  thread.takeBack();
  // What a signal's handler raised is the error.
  if (status != LT_OK && PyErr_Occurred() == nullptr) {
    raiseError(status == LT_OUT_OF_BOUNDS      ? Doing::Running
               : status == LT_ASSERTION_FAILED ? Doing::Asserting
               : status == LT_KERNEL_FAULT     ? Doing::Interpreting
                                               : Doing::Calling);
  }
  return status == LT_OK;
}

// Called around launches, or null: callables that take a LaunchInfo.
Hooks launchHooks;

// Between the hooks, which see what is launched. An empty grid is no launch.
bool runHooked(PyObject *self, PyObject *kernel, lt_plan &plan, const int64_t grid[3], const Call &call,
               void *stream) {
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) {
    return runPlan(plan, grid, call, stream);
  }
  const Ref arguments = byName(self, call);
  const Ref info(arguments ? takingGil([&] {
    return PyObject_CallFunction(installed.launchInfo, "OO(LLL)NO", kernel, self,
                                 static_cast<long long>(grid[0]), static_cast<long long>(grid[1]),
                                 static_cast<long long>(grid[2]), PyLong_FromVoidPtr(stream),
                                 arguments.get());
  }) : nullptr);
  const auto called = [&](PyObject *hook) {
    const Ref owned = Ref::borrowed(hook);
    return hook == nullptr || Ref(takingGil([&] { return PyObject_CallOneArg(hook, info.get()); }));
  };
  return info && called(launchHooks.enter) && runPlan(plan, grid, call, stream) && called(launchHooks.exit);
}

// What a launch returns that found no plan: None if it was refused, null with the error that is set.
PyObject *refused() { return PyErr_Occurred() != nullptr ? nullptr : Py_NewRef(Py_None); }

// The device of the call's arrays, opened.
lt_device *deviceOf(const Call &call) {
  return deviceFor(call.isInterpreted ? kInterpreter : call.device == kNoDevice ? kCpu : call.device);
}

PyObject *launchJit(PyObject *jit, PyObject *grid, PyObject *const *args, size_t positional,
                    PyObject *names) {
  const UseScope use(jit);
  Call call;
  const bool isGood = bind(jit, args, positional, names, call) && bindDefaults(jit, call) &&
                      classifyAll(jit, call, false);
  return isGood ? launchClassified(jit, grid, call) : nullptr;
}

// (enter, exit): callables or None.
PyObject *setHooks(Hooks &hooks, PyObject *args) {
  PyObject *enter = nullptr, *exit = nullptr;
  if (!PyArg_ParseTuple(args, "OO", &enter, &exit)) {
    return nullptr;
  }
  Py_XSETREF(hooks.enter, enter != Py_None ? Py_NewRef(enter) : nullptr);
  Py_XSETREF(hooks.exit, exit != Py_None ? Py_NewRef(exit) : nullptr);
  Py_RETURN_NONE;
}
PyObject *setLaunchHooks(PyObject *, PyObject *args) { return setHooks(launchHooks, args); }
PyObject *setCompileHooks(PyObject *, PyObject *args) { return setHooks(compileHooks, args); }

PyObject *launcherCall(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names) {
  auto *launcher = reinterpret_cast<Launcher *>(self);
  return launcher->launch(launcher->kernel, launcher->grid, args, PyVectorcall_NARGS(nargs), names);
}

// ---- Launcher

void launcherDealloc(PyObject *self) {
  auto *launcher = reinterpret_cast<Launcher *>(self);
  Py_CLEAR(launcher->kernel);
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
    {"kernel", T_OBJECT, offsetof(Launcher, kernel), READONLY, nullptr},
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

PyMethodDef functions[] = {
    {"set_launch_hooks", setLaunchHooks, METH_VARARGS, "set_launch_hooks(enter, exit): callables or None."},
    {"set_compile_hooks", setCompileHooks, METH_VARARGS, "set_compile_hooks(enter, exit): callables or None."},
    {nullptr, nullptr, 0, nullptr}};

} // namespace

Announced announceCompilation(PyObject *jit, const Call &call, const char *target) {
  if (compileHooks.enter == nullptr) {
    return Announced::Accepted;
  }
  const Ref answer = callCompileHook(compileHooks.enter, jit, call, target, Py_None);
  const int refuses = answer ? PyObject_IsTrue(answer.get()) : -1;
  return refuses < 0 ? Announced::Failed : refuses > 0 ? Announced::Refused : Announced::Accepted;
}

bool announceKernel(PyObject *jit, const Call &call, const char *target, PyObject *kernel) {
  return compileHooks.exit == nullptr || callCompileHook(compileHooks.exit, jit, call, target, kernel);
}

PyObject *makeLauncher(PyObject *kernel, PyObject *grid, Launch launch) {
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
  launcher->launch = launch;
  launcher->kernel = Py_NewRef(kernel);
  launcher->grid = Py_NewRef(grid);
  return reinterpret_cast<PyObject *>(launcher);
}

PyObject *launcherOfJit(PyObject *jit, PyObject *grid) { return makeLauncher(jit, grid, launchJit); }

PyObject *launchClassified(PyObject *jit, PyObject *grid, Call &call) {
  Plan plan;
  int64_t extents[3];
  void *stream = call.homeStream;
  if (!evaluateGrid(jit, grid, call, extents)) {
    return nullptr;
  }
  lt_device *device = deviceOf(call);
  if (device == nullptr ||
      (call.deviceArgument != nullptr && call.device >= 0 && !currentStream(call.deviceArgument, call.device, stream))) {
    return nullptr;
  }
  if (!findPlan(jit, device, call, plan)) {
    return refused();
  }
  Ref kernel = Ref::borrowed(userOf(plan).kernel);
  const bool isHooked = launchHooks.enter != nullptr || launchHooks.exit != nullptr;
  const bool ran = isHooked ? runHooked(jit, kernel.get(), plan, extents, call, stream)
                            : runPlan(plan, extents, call, stream);
  return ran ? kernel.release() : nullptr;
}

PyObject *prepareLaunch(PyObject *jit, PyObject *const *args, size_t positional, PyObject *names) {
  const UseScope use(jit);
  Call call;
  if (!bind(jit, args, positional, names, call) || !bindDefaults(jit, call) ||
      !classifyAll(jit, call, false)) {
    return nullptr;
  }
  Plan plan;
  lt_device *device = deviceOf(call);
  if (device == nullptr) {
    return nullptr;
  }
  if (!findPlan(jit, device, call, plan)) {
    return refused();
  }
  Ref kernel = Ref::borrowed(userOf(plan).kernel);
  constexpr int64_t kOne[3] = {1, 1, 1};
  lt_extent storage[LT_MAX_ARGUMENTS];
  return selectVariant(plan, kOne, extentsOf(plan, call, storage)) ? kernel.release() : nullptr;
}

bool addLauncherType(PyObject *module) {
  launcherType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&launcherSpec));
  return launcherType != nullptr && PyModule_AddFunctions(module, functions) == 0;
}

} // namespace libtile::python
