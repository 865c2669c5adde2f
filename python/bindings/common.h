// SPDX-License-Identifier: Apache-2.0
// What the files of the extension module share. The module is thin: it turns Python objects into the
// arguments and values of runtime/bindings/bindings.h and back; decisions live in libtile.so, and policy about
// Python objects in libtile/host.py.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "runtime/bindings/cache.h"
#include "runtime/bindings/counting.h"

#include <unistd.h>
#include <utility>
#include <string>
#include <vector>

namespace libtile::python {

// An owned reference; null: a Python error is set.
class Ref {
public:
  Ref() = default;
  explicit Ref(PyObject *owned) : object_(owned) {}
  static Ref borrowed(PyObject *object) {
    Py_XINCREF(object);
    return Ref(object);
  }
  Ref(Ref &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref &operator=(Ref &&other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  Ref(const Ref &) = delete;
  Ref &operator=(const Ref &) = delete;
  ~Ref() { Py_XDECREF(object_); }
  [[nodiscard]] PyObject *get() const { return object_; }
  [[nodiscard]] PyObject *release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

private:
  PyObject *object_ = nullptr;
};

// Runs what may take the interpreter's lock: so does any Python code. While the interpreter ends, versions
// before 3.14 unwind the stack of a thread that asks for the lock (pthread_exit), and no destructor or
// noexcept function on the way bears that: such a thread waits here for the end of the process, as 3.14
// lets it wait.
template <class F> auto takingGil(F &&body) {
  try {
    return body();
  } catch (...) {
    while (true) {
      pause();
    }
  }
}

// The interpreter's lock for a scope, from any thread.
class WithGil {
public:
  WithGil() : state_(takingGil([] { return PyGILState_Ensure(); })) {}
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil &) = delete;
  WithGil &operator=(const WithGil &) = delete;

private:
  PyGILState_STATE state_;
};

// The interpreter's lock let go for a scope.
class WithoutGil {
public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    takingGil([this] { PyEval_RestoreThread(state_); });
  }
  WithoutGil(const WithoutGil &) = delete;
  WithoutGil &operator=(const WithoutGil &) = delete;

private:
  PyThreadState *state_;
};

// Python objects that the extension is given at import (_libtile.install).
struct Installed {
  PyObject *makeError;    // errors.make(kind, text, message, line, column, reproducer, doing)
  PyObject *globalValue;  // host.global_value(function, name) -> object or Unbound
  PyObject *defaultValue; // host.default_value(function or class, name)
  PyObject *attributeValue; // host.attribute_value(object, name)
  PyObject *names;        // host.names(object) -> list of str
  PyObject *callValue;    // host.call(callee, semantic, args, kwargs)
  PyObject *describe;     // host.describe(object)
  PyObject *print;        // host.print_text(text)
  PyObject *unbound;      // host.Unbound
  PyObject *launchInfo;   // hooks.LaunchInfo(kernel, function, grid, stream, arguments)
  PyObject *compileInfo;  // hooks.CompileInfo(kernel, function, target, options, arguments)
  PyObject *constant;     // host.constant(object) -> key, for constants that are no plain scalar
  PyObject *convert;      // host.convert(object) -> one that toValue understands by itself
};
extern Installed installed;

// Raises the thread's lt_error(). What was being done makes of a UserError a ValueError, CompilationError,
// OutOfBoundsError, KernelAssertionError or KernelFaultError. An exception that a host function left becomes the cause; one that is no Exception, such
// as KeyboardInterrupt, is raised itself. Returns nullptr.
enum class Doing : int { Calling, Compiling, Running, Asserting, Interpreting };
PyObject *raiseError(Doing doing);
// Keeps the current Python exception as the cause of the error that is to come, and describes it.
void keepException(const char *doing);
// Before each compilation: what an earlier one left is no cause of an error in this one.
void forgetException();

// ---- value.cpp
// New; nullptr with a Python error set. Understands None, bool, int, float, str, tuples (named ones
// too), jit functions, Value, objects with an attribute _value of that type, and what host.convert does.
lt_value *toValue(PyObject *object);
// The class of a named tuple; null, without an error, of other tuples.
lt_value *namedTupleClass(PyObject *tuple);
// A _libtile.Value that owns `value`.
PyObject *wrapValue(lt_value *value);
bool addValueTypes(PyObject *module);
// Owned values for a scope.
struct Values {
  std::vector<lt_value *> items;
  Values() = default;
  Values(const Values &) = delete;
  Values &operator=(const Values &) = delete;
  ~Values() {
    for (lt_value *item : items) {
      lt_value_free(item);
    }
  }
  bool add(lt_value *value) {
    if (value != nullptr) {
      items.push_back(value);
    }
    return value != nullptr;
  }
  bool add(PyObject *object) { return add(toValue(object)); }
};

// ---- semantic.cpp
bool addSemanticType(PyObject *module);
// Handles: valid until ended, in this thread.
PyObject *makeSemantic(lt_semantics *semantics);
void endSemantic(PyObject *semantic);

// ---- host.cpp
void installHost();
// A jit function's source names its Python function by a weak reference: the function's globals lead
// back to what was compiled of it, and such a cycle would never end. The function; a Python error is set
// if it is gone. Other objects are themselves.
Ref functionBehind(PyObject *object);

// ---- arrays.cpp
constexpr int kNoDevice = -2; // of arguments that are no arrays
constexpr int kCpu = -1;      // else LT_CUDA or LT_HIP and the GPU's number, or
constexpr int kInterpreter = -3; // which takes arrays of the CPU as well
// "cuda:1", "hip:0", "cpu", "interpreter"
std::string nameOfDevice(int device);
// The argument as the launcher takes it; of a tensor descriptor the head of a tuple of its
// kDescriptorFields. Constants that are no plain scalars are interned. False with a Python error set;
// `name` is for messages.
constexpr uint16_t kDescriptorFields = 6;
// `kept` gets what the argument needs to live beside the object.
bool classify(PyObject *object, bool isConstexpr, PyObject *name, lt_arg &arg, int &device,
              std::vector<Ref> &kept);
// The same of what is a constant for any parameter.
bool classifyConstant(PyObject *object, PyObject *name, lt_arg &arg, std::vector<Ref> &kept);
// A tuple's head; its items follow as arguments of their own.
bool classifyTuple(PyObject *tuple, lt_arg &arg, std::vector<Ref> &kept);
// The bytes that the kernel may touch: LT_EXTENTS_OF_ARRAYS or LT_EXTENTS_OF_MEMORY.
lt_extent extentOf(PyObject *object, const lt_arg &arg, int which);
// torch's current stream, if the argument is a torch tensor of that device; else the default stream.
bool currentStream(PyObject *object, int device, void *&stream);
bool isTorch(PyObject *object);

// ---- jit.cpp
bool addJitTypes(PyObject *module);
// The function behind a Jit object, parsed if need be; nullptr with a Python error set.
// A compilation that runs in this thread keeps the object until its end.
lt_function *functionOf(PyObject *jit);
bool isJit(PyObject *object);

// ---- tuner.cpp
bool addTunerType(PyObject *module);

// ---- devices.cpp
// nullptr with a Python error set.
lt_device *deviceFor(int device);
// Whether launches with arrays of the CPU are interpreted.
bool &interpretsAll();
// Where a launch goes that has no arrays: what the function says that set_home() got; without one nothing is set, and it is
// the CPU. False with a Python error set.
bool findHome(int &device, void *&stream);

} // namespace libtile::python
