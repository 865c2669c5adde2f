// SPDX-License-Identifier: Apache-2.0
// _libtile.Tuner, the base of libtile.Autotuner. A launch whose key has a choice costs a plain launch and one look-up
// in a dict; all others, and choices that are more than arguments, go to the method _launch_slowly.
//
// The key is a tuple: the values of the key's parameters, the types of all arrays in the order of the parameters, and
// the device. `cache` is a dict key -> configuration that Python may read and change.
#include "arrays.h"
#include "launch.h"

#include <memory>
#include <structmember.h>

namespace libtile::python {

namespace {

// A configuration as arguments of its kernel.
struct Choice {
  Ref config;
  bool isPlain = false; // arguments and options alone
  std::vector<std::pair<size_t, Ref>> values; // by parameter
  std::vector<std::pair<uint32_t, int64_t>> options;
};

struct Tuner {
  PyObject_HEAD
  PyObject *jit;        // the kernel's Jit object
  PyObject *keyNames;   // tuple of str
  PyObject *cache;      // dict
  PyObject *configs;    // list
  PyObject *bestConfig; // of the last launch; null: none yet
  PyObject *weakrefs;
  char isDirect; // the launch is that of the Jit object, nothing lies between
  // For what the Jit object had been parsed from (null: nothing yet).
  PyObject *resolvedFor;
  std::vector<size_t> *keyParams;
  std::vector<std::unique_ptr<Choice>> *choices;
};

Tuner *asTuner(PyObject *object) { return reinterpret_cast<Tuner *>(object); }

// ---- the key

// The texts of types and devices; they are few, and kept.
PyObject *textOfType(uint16_t code) {
  static std::vector<std::pair<uint16_t, PyObject *>> known;
  for (const auto &[type, text] : known) {
    if (type == code) {
      return text;
    }
  }
  return known.emplace_back(code, intern(lt_dtype_name(code))).second;
}
PyObject *textOfDevice(int device) {
  static std::vector<std::pair<int, PyObject *>> known;
  for (const auto &[number, text] : known) {
    if (number == device) {
      return text;
    }
  }
  return known.emplace_back(device, intern(nameOfDevice(device).c_str())).second;
}
// What a launch runs on.
int deviceOf(const Call &call) {
  const int device = call.device == kNoDevice ? kCpu : call.device;
  return call.isInterpreted || (device == kCpu && interpretsAll()) ? kInterpreter : device;
}

// Of the values that the caller gives, classified.
Ref keyOf(const Tuner &tuner, const Call &call) {
  const std::vector<Param> &params = *asJit(tuner.jit)->params;
  PyObject *items[2 * LT_MAX_ARGUMENTS + 1]; // borrowed: the call, the parameters and the tables above own them
  size_t count = 0;
  for (const size_t i : *tuner.keyParams) {
    PyObject *value = call.values[i] != nullptr ? call.values[i] : params[i].deflt;
    items[count++] = value != nullptr ? value : Py_None;
  }
  for (size_t i = 0; i < call.count; ++i) {
    if (call.args[i].kind == LT_ARG_POINTER) {
      items[count++] = textOfType(call.args[i].dtype);
    }
  }
  items[count++] = textOfDevice(deviceOf(call));
  Ref key(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; key && i < count; ++i) {
    PyTuple_SET_ITEM(key.get(), static_cast<Py_ssize_t>(i), Py_NewRef(items[i]));
  }
  return key;
}

// ---- choices

// What was resolved for another function of the Jit object is forgotten.
bool resolveKey(Tuner &tuner) {
  const JitObject &jit = *asJit(tuner.jit);
  if (tuner.resolvedFor == jit.parsedFrom) [[likely]] {
    return true;
  }
  tuner.keyParams->clear();
  tuner.choices->clear();
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tuner.keyNames); ++k) {
    size_t i = 0;
    while (i < jit.params->size() &&
           PyUnicode_Compare((*jit.params)[i].name, PyTuple_GET_ITEM(tuner.keyNames, k)) != 0) {
      ++i;
    }
    if (i == jit.params->size() || k == LT_MAX_ARGUMENTS) {
      PyErr_Format(PyExc_ValueError, "the key names '%U', which is no parameter of '%s'",
                   PyTuple_GET_ITEM(tuner.keyNames, k), lt_function_name(jit.function));
      return false;
    }
    tuner.keyParams->push_back(i);
  }
  Py_XSETREF(tuner.resolvedFor, Py_NewRef(jit.parsedFrom));
  return true;
}

// Makes arguments of config.all_kwargs(). What the kernel does not take is no error here: the choice is not plain then.
bool resolveChoice(PyObject *jit, PyObject *config, Choice &choice) {
  static PyObject *const allName = intern("all_kwargs"), *const hookName = intern("pre_hook");
  const Ref all(takingGil([&] { return PyObject_CallMethodNoArgs(config, allName); }));
  const Ref hook(all ? PyObject_GetAttr(config, hookName) : nullptr);
  if (!hook || PyDict_Check(all.get()) == 0) {
    return false;
  }
  const Ref names(PySequence_Tuple(all.get()));
  std::vector<PyObject *> given;
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names.get()); ++i) {
    given.push_back(PyDict_GetItem(all.get(), PyTuple_GET_ITEM(names.get(), i)));
  }
  Call call;
  choice.isPlain = names && hook.get() == Py_None && bind(jit, given.data(), 0, names.get(), call);
  PyErr_Clear();
  for (size_t i = 0; choice.isPlain && i < call.numValues; ++i) {
    if (call.values[i] != nullptr && !(*asJit(jit)->params)[i].isVariadic) {
      choice.values.emplace_back(i, Ref::borrowed(call.values[i]));
    }
  }
  for (size_t i = 0; choice.isPlain && i < call.options.count; ++i) {
    choice.options.emplace_back(call.options.option[i], call.options.value[i]);
  }
  return true;
}

const Choice *choiceOf(Tuner &tuner, PyObject *config) {
  for (const auto &known : *tuner.choices) {
    if (known->config.get() == config) {
      return known.get();
    }
  }
  auto made = std::make_unique<Choice>();
  if (!resolveChoice(tuner.jit, config, *made)) {
    return nullptr;
  }
  made->config = Ref::borrowed(config);
  return tuner.choices->emplace_back(std::move(made)).get();
}

// False, without an error: the caller gives what the configuration gives.
bool apply(const Choice &choice, Call &call) {
  for (const auto &[at, value] : choice.values) {
    if (call.values[at] != nullptr) {
      return false;
    }
  }
  const uint32_t numGiven = call.options.count;
  for (const auto &[option, value] : choice.options) {
    for (uint32_t i = 0; i < numGiven; ++i) {
      if (call.options.option[i] == option) {
        return false;
      }
    }
    call.options.option[call.options.count] = option;
    call.options.value[call.options.count++] = value;
  }
  for (const auto &[at, value] : choice.values) {
    call.values[at] = value.get();
  }
  return true;
}

// ---- launches

// self._launch_slowly(key, grid, args, kwargs)
PyObject *launchSlowly(PyObject *self, PyObject *key, PyObject *grid, PyObject *const *args,
                       size_t positional, PyObject *names) {
  const Ref rest(PyTuple_New(static_cast<Py_ssize_t>(positional))), keywords(PyDict_New());
  if (!rest || !keywords) {
    return nullptr;
  }
  for (size_t i = 0; i < positional; ++i) {
    PyTuple_SET_ITEM(rest.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args[i]));
  }
  for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); ++i) {
    if (PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(names, i),
                       args[positional + static_cast<size_t>(i)]) != 0) {
      return nullptr;
    }
  }
  return takingGil([&] {
    return PyObject_CallMethod(self, "_launch_slowly", "OOOO", key, grid, rest.get(), keywords.get());
  });
}

// Borrowed; null: there is none yet, or a Python error is set.
PyObject *configFor(const Tuner &tuner, PyObject *key) {
  if (PyList_GET_SIZE(tuner.configs) == 1) {
    return PyList_GET_ITEM(tuner.configs, 0);
  }
  return PyDict_GetItemWithError(tuner.cache, key);
}

// Whether a launch is the Jit object's own: nothing lies between, and its class has no launcher of its own.
bool isDirect(const Tuner &tuner) {
  return tuner.isDirect != 0 &&
         Py_TYPE(tuner.jit)->tp_as_mapping->mp_subscript == static_cast<binaryfunc>(launcherOfJit);
}

PyObject *launchTuned(PyObject *self, PyObject *grid, PyObject *const *args, size_t positional,
                      PyObject *names) {
  Tuner &tuner = *asTuner(self);
  const UseScope use(tuner.jit);
  Call call;
  if (!bind(tuner.jit, args, positional, names, call) || !resolveKey(tuner) ||
      !classifyGiven(tuner.jit, call)) {
    return nullptr;
  }
  const Ref key = keyOf(tuner, call);
  const Ref config = key ? Ref::borrowed(configFor(tuner, key.get())) : Ref();
  if (PyErr_Occurred() != nullptr) {
    return nullptr;
  }
  if (config) {
    const Choice *choice = choiceOf(tuner, config.get());
    if (choice == nullptr) {
      return nullptr;
    }
    if (isDirect(tuner) && choice->isPlain && apply(*choice, call)) [[likely]] {
      Py_XSETREF(tuner.bestConfig, Py_NewRef(config.get()));
      const bool isGood = bindDefaults(tuner.jit, call) && classifyHoles(tuner.jit, call);
      return isGood ? launchClassified(tuner.jit, grid, call) : nullptr;
    }
  }
  return launchSlowly(self, key.get(), grid, args, positional, names);
}

PyObject *launcherOfTuner(PyObject *self, PyObject *grid) {
  const Tuner &tuner = *asTuner(self);
  if (tuner.jit == nullptr || PyList_Check(tuner.configs) == 0 || PyDict_Check(tuner.cache) == 0) {
    PyErr_SetString(PyExc_TypeError, "an autotuner has a kernel, a list `configs` and a dict `cache`");
    return nullptr;
  }
  return makeLauncher(self, grid, launchTuned);
}

// ---- Tuner

// Tuner(jit, key names, configs, is_direct)
int tunerInit(PyObject *self, PyObject *args, PyObject *) {
  PyObject *jit = nullptr, *names = nullptr, *configs = nullptr;
  int isDirect = 0;
  if (!PyArg_ParseTuple(args, "OO!O!p", &jit, &PyTuple_Type, &names, &PyList_Type, &configs, &isDirect)) {
    return -1;
  }
  Tuner &tuner = *asTuner(self);
  Ref cache(PyDict_New());
  if (!cache || !isJit(jit)) {
    PyErr_SetString(PyExc_TypeError, "a tuner is made of a jit function");
    return -1;
  }
  Py_XSETREF(tuner.jit, Py_NewRef(jit));
  Py_XSETREF(tuner.keyNames, Py_NewRef(names));
  Py_XSETREF(tuner.configs, Py_NewRef(configs));
  Py_XSETREF(tuner.cache, cache.release());
  tuner.isDirect = isDirect != 0 ? 1 : 0;
  if (tuner.keyParams == nullptr) {
    tuner.keyParams = new std::vector<size_t>;
    tuner.choices = new std::vector<std::unique_ptr<Choice>>;
  }
  return 0;
}

int tunerTraverse(PyObject *self, visitproc visit, void *arg) {
  const Tuner &tuner = *asTuner(self);
  Py_VISIT(Py_TYPE(self));
  for (PyObject *each : {tuner.jit, tuner.keyNames, tuner.cache, tuner.configs, tuner.bestConfig}) {
    Py_VISIT(each);
  }
  for (size_t i = 0; tuner.choices != nullptr && i < tuner.choices->size(); ++i) {
    Py_VISIT((*tuner.choices)[i]->config.get());
    for (const auto &[at, value] : (*tuner.choices)[i]->values) {
      Py_VISIT(value.get());
    }
  }
  return 0;
}

int tunerClear(PyObject *self) {
  Tuner &tuner = *asTuner(self);
  delete std::exchange(tuner.choices, nullptr);
  delete std::exchange(tuner.keyParams, nullptr);
  Py_CLEAR(tuner.resolvedFor);
  Py_CLEAR(tuner.jit);
  Py_CLEAR(tuner.keyNames);
  Py_CLEAR(tuner.cache);
  Py_CLEAR(tuner.configs);
  Py_CLEAR(tuner.bestConfig);
  return 0;
}

void tunerDealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (asTuner(self)->weakrefs != nullptr) {
    PyObject_ClearWeakRefs(self);
  }
  tunerClear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef tunerMembers[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Tuner, weakrefs), READONLY, nullptr},
    {"cache", T_OBJECT, offsetof(Tuner, cache), 0, "Key -> configuration."},
    {"configs", T_OBJECT, offsetof(Tuner, configs), 0, "The list of candidates."},
    {"best_config", T_OBJECT_EX, offsetof(Tuner, bestConfig), 0, "The configuration of the last launch."},
    {nullptr, 0, 0, 0, nullptr}};
PyType_Slot tunerSlots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(tunerDealloc)},
                            {Py_tp_traverse, reinterpret_cast<void *>(tunerTraverse)},
                            {Py_tp_clear, reinterpret_cast<void *>(tunerClear)},
                            {Py_tp_new, reinterpret_cast<void *>(PyType_GenericNew)},
                            {Py_tp_init, reinterpret_cast<void *>(tunerInit)},
                            {Py_mp_subscript, reinterpret_cast<void *>(launcherOfTuner)},
                            {Py_tp_members, tunerMembers},
                            {0, nullptr}};
PyType_Spec tunerSpec = {"_libtile.Tuner", sizeof(Tuner), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, tunerSlots};

} // namespace

bool addTunerType(PyObject *module) {
  const Ref type(PyType_FromSpec(&tunerSpec));
  return type && PyModule_AddObjectRef(module, "Tuner", type.get()) == 0;
}

} // namespace libtile::python
