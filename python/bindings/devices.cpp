// SPDX-License-Identifier: Apache-2.0
// Device memory, time and the pool, for device.py and testing.py. A device is -1 (CPU), -3 (the interpreter) or the number of a
// GPU (LT_CUDA, LT_HIP), an address an integer.
#include "classes.h"

#include <cstdlib>
#include <string>
#include <string_view>

namespace libtile::python {

namespace {

constexpr int kMaxDevices = 202;
lt_device *opened[kMaxDevices]; // [0] where arrays of the CPU go, [1] the interpreter, [2 + n] GPU n

int indexOf(int device) { return device == kInterpreter ? 1 : device == kCpu ? 0 : device + 2; }

} // namespace

bool &interpretsAll() {
  static bool interprets = [] {
    for (const char *variable : {"LIBTILE_INTERPRET", "TRITON_INTERPRET"}) {
      if (const char *given = std::getenv(variable)) {
        return std::string_view(given) == "1";
      }
    }
    return false;
  }();
  return interprets;
}

namespace {

lt_device *orThrowDevice(int device) { return orThrowSet(deviceFor(device)); }
void *pointer(uint64_t address) { return reinterpret_cast<void *>(address); }
uint64_t integer(const void *address) { return reinterpret_cast<uintptr_t>(address); }

py::list texts(const char *(*at)(size_t)) {
  py::list list;
  for (size_t i = 0; const char *text = at(i); ++i) {
    list.append(text);
  }
  return list;
}

uint64_t allocate(int device, size_t bytes) {
  void *memory = nullptr;
  orThrow(lt_allocate(orThrowDevice(device), bytes, &memory) == LT_OK);
  return integer(memory);
}

// The bytes of an object with the buffer protocol, for a scope.
class Bytes {
public:
  Bytes(const py::object &object, bool isWritten) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) {
      throw py::error_already_set();
    }
    if (isWritten && view_.readonly != 0) {
      PyBuffer_Release(&view_);
      throw py::value_error("the buffer is read-only");
    }
  }
  ~Bytes() { PyBuffer_Release(&view_); }
  Bytes(const Bytes &) = delete;
  Bytes &operator=(const Bytes &) = delete;
  [[nodiscard]] void *data() const { return view_.buf; }
  [[nodiscard]] size_t size() const { return static_cast<size_t>(view_.len); }

private:
  Py_buffer view_{};
};

py::dict deviceProperties(int device) {
  lt_device *found = orThrowDevice(device);
  py::dict properties;
  int64_t value = 0;
  for (size_t i = 0; const char *name = lt_device_property(found, i, &value); ++i) {
    properties[name] = value;
  }
  return properties;
}

void copy(int device, uint64_t address, const py::object &buffer, bool toDevice) {
  lt_device *found = orThrowDevice(device);
  const Bytes host(buffer, !toDevice);
  lt_status status = LT_ERROR;
  {
    const WithoutGil scope;
    status = toDevice ? lt_copy(found, pointer(address), host.data(), host.size(), 1)
                      : lt_copy(found, host.data(), pointer(address), host.size(), 0);
  }
  orThrow(status == LT_OK);
}

void synchronize(int device, uint64_t stream) {
  lt_device *found = orThrowDevice(device);
  lt_status status = LT_OK;
  {
    const WithoutGil scope;
    status = lt_synchronize(found, pointer(stream));
  }
  orThrow(status == LT_OK);
}

uint64_t recordTime(int device, uint64_t stream) {
  void *time = nullptr;
  orThrow(lt_record_time(orThrowDevice(device), pointer(stream), &time) == LT_OK);
  return integer(time);
}

double milliseconds(int device, uint64_t start, uint64_t stop) {
  lt_device *found = orThrowDevice(device);
  double elapsed = 0;
  lt_status status = LT_OK;
  {
    const WithoutGil scope;
    status = lt_milliseconds(found, pointer(start), pointer(stop), &elapsed);
  }
  lt_free_time(found, pointer(start));
  lt_free_time(found, pointer(stop));
  orThrow(status == LT_OK);
  return elapsed;
}

// A number beyond 64 bits is as good as the nearest of 64.
void setNumThreads(const py::object &given) {
  const py::object number = py::reinterpret_steal<py::object>(orThrowSet(PyNumber_Index(given.ptr())));
  int overflow = 0;
  const int64_t threads = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  const int64_t nearest = overflow > 0 ? INT64_MAX : overflow < 0 ? INT64_MIN : threads;
  orThrow(lt_set_num_threads(nearest) == LT_OK);
}

// The folder: bytes or None.
void setCache(int isOn, const py::object &folder, int64_t maxBytes) {
  const lt_cache cache = {isOn, folder.is_none() ? nullptr : orThrowSet(PyBytes_AsString(folder.ptr())), maxBytes};
  orThrow(lt_cache_set(&cache) == LT_OK);
}

py::tuple getCache() {
  lt_cache cache{};
  lt_read_environment();
  orThrow(lt_cache_get(&cache) == LT_OK);
  return py::make_tuple(cache.is_on != 0, py::bytes(cache.folder), cache.max_bytes);
}

// A function of Python, or null. One that another replaces lives on: it may be running.
PyObject *home = nullptr;

} // namespace

bool findHome(int &device, void *&stream) {
  if (home == nullptr || interpretsAll()) {
    return true;
  }
  const Ref found(takingGil([] { return PyObject_CallNoArgs(home); }));
  unsigned long long handle = 0;
  const bool isPair = found && PyArg_ParseTuple(found.get(), "iK", &device, &handle) != 0;
  stream = pointer(handle);
  return isPair;
}

std::string nameOfDevice(int device) {
  return device == kInterpreter ? "interpreter"
         : device < 0           ? "cpu"
         : device >= LT_HIP     ? "hip:" + std::to_string(device - LT_HIP)
                                : "cuda:" + std::to_string(device - LT_CUDA);
}

lt_device *deviceFor(int device) {
  const int index = indexOf(device);
  if (index >= 0 && index < kMaxDevices && opened[index] != nullptr) [[likely]] {
    return opened[index];
  }
  if (index < 0 || index >= kMaxDevices) {
    PyErr_Format(PyExc_ValueError, "there is no device %d", device);
    return nullptr;
  }
  const bool isInterpreted = device == kInterpreter || (device == kCpu && interpretsAll());
  const std::string name = nameOfDevice(isInterpreted ? kInterpreter : device);
  opened[index] = lt_device_open(name.c_str());
  if (opened[index] == nullptr) {
    raiseError(Doing::Calling);
  }
  return opened[index];
}

void addDeviceFunctions(py::module_ &module) {
  module.def("devices", [] { return texts(lt_device_at); }, "The devices' names.");
  module.def("targets", [] { return texts(lt_target_at); }, "The targets' names.");
  module.def("target", [](int device) { return lt_device_target(orThrowDevice(device)); },
             "target(device): the best target of a device.");
  module.def("allocate", allocate, "allocate(device, bytes)");
  // At the interpreter's end, too: what cannot be freed is gone with the process.
  module.def("release", [](int device, uint64_t address) {
    if (lt_device *found = deviceFor(device)) {
      lt_free(found, pointer(address));
    }
    PyErr_Clear();
  }, "release(device, address)");
  module.def("copy", copy, "copy(device, address, buffer, to_device)");
  module.def("fill", [](int device, uint64_t address, int byte, size_t bytes) {
    orThrow(lt_fill(orThrowDevice(device), pointer(address), byte, bytes) == LT_OK);
  }, "fill(device, address, byte, bytes)");
  module.def("synchronize", synchronize, py::arg("device"), py::arg("stream") = 0,
             "synchronize(device[, stream])");
  module.def("cache_bytes", [](int device) { return lt_cache_bytes(orThrowDevice(device)); },
             "cache_bytes(device)");
  module.def("device_model", [](int device) { return orThrowSet(lt_device_model(orThrowDevice(device))); },
             "device_model(device): its own name, or an empty text.");
  module.def("device_properties", deviceProperties,
             "device_properties(device): what the device's library says of it, by name; of the CPU nothing.");
  module.def("record_time", recordTime, py::arg("device"), py::arg("stream") = 0,
             "A moment on the device's clock, to be freed by milliseconds().");
  module.def("milliseconds", milliseconds,
             "milliseconds(device, start, stop): waits for both, and frees them.");
  module.def("offer_ptxas", lt_offer_ptxas, "offer_ptxas(path): where NVIDIA's assembler may lie; see LIBTILE_PTXAS.");
  module.def("interprets", [] { return interpretsAll(); }, "Whether launches are interpreted.");
  module.def("set_interprets", [](bool wanted) {
    interpretsAll() = wanted;
    opened[indexOf(kCpu)] = nullptr;
  }, "set_interprets(wanted)");
  module.def("checks_portability", [] { return lt_check_portability(-1) != 0; },
             "Whether the interpreter looks for what only libtile defines.");
  module.def("check_portability", [](bool wanted) { lt_check_portability(wanted ? 1 : 0); },
             "check_portability(wanted)");
  module.def("begin_counting", lt_begin_counting,
             "begin_counting(most_programs): what this thread has interpreted from here on is counted.");
  module.def("end_counting", [] { return orThrowSet(lt_end_counting()); }, "What was counted since, as text (bindings.h).");
  module.def("set_home", [](const py::object &wanted) { home = wanted.is_none() ? nullptr : Ref::borrowed(wanted.ptr()).release(); },
             "set_home(function): function() is (device, stream) for launches without arrays; None: the CPU.");
  module.def("set_num_threads", setNumThreads, "Threads that CPU kernels use; 0: all cores.");
  module.def("num_threads", [] {
    const int threads = lt_num_threads();
    orThrow(threads > 0);
    return threads;
  }, "Threads that CPU kernels use.");
  module.def("set_cache", setCache, "set_cache(is_on, folder, max_bytes): what counts from now on; -1, None, -1: the environment.");
  module.def("cache", getCache, "(is_on, folder, max_bytes) of the cache on disk.");
  module.def("before_fork", [] {
    const WithoutGil scope;
    lt_before_fork();
  });
  module.def("after_fork_in_parent", [] { lt_after_fork(0); });
  module.def("after_fork_in_child", [] { lt_after_fork(1); });
}

} // namespace libtile::python
