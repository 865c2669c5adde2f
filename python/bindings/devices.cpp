// SPDX-License-Identifier: Apache-2.0
// Device memory, time and the pool, for device.py and testing.py.
#include "common.h"

namespace libtile::python {

namespace {

constexpr int kMaxDevices = 65;
lt_device *opened[kMaxDevices]; // [0] the CPU, [1 + n] cuda:n

PyObject *nothingOr(lt_status status) {
  if (status != LT_OK) {
    return raiseError(false);
  }
  Py_RETURN_NONE;
}

PyObject *names(PyObject *, PyObject *) { return PyUnicode_FromString(lt_devices()); }
PyObject *targets(PyObject *, PyObject *) { return PyUnicode_FromString(lt_targets()); }

PyObject *target(PyObject *, PyObject *args) {
  int device = kCpu;
  if (!PyArg_ParseTuple(args, "i", &device)) {
    return nullptr;
  }
  const lt_device *found = deviceFor(device);
  return found != nullptr ? PyUnicode_FromString(lt_device_target(found)) : nullptr;
}

PyObject *allocate(PyObject *, PyObject *args) {
  int device = kCpu;
  Py_ssize_t bytes = 0;
  if (!PyArg_ParseTuple(args, "in", &device, &bytes)) {
    return nullptr;
  }
  lt_device *found = deviceFor(device);
  void *memory = nullptr;
  if (found == nullptr) {
    return nullptr;
  }
  return lt_allocate(found, static_cast<size_t>(bytes), &memory) == LT_OK ? PyLong_FromVoidPtr(memory)
                                                                          : raiseError(false);
}

PyObject *release(PyObject *, PyObject *args) {
  int device = kCpu;
  unsigned long long address = 0;
  if (!PyArg_ParseTuple(args, "iK", &device, &address)) {
    return nullptr;
  }
  if (lt_device *found = deviceFor(device)) {
    lt_free(found, reinterpret_cast<void *>(address));
  }
  PyErr_Clear();
  Py_RETURN_NONE;
}

// copy(device, address, buffer, to_device)
PyObject *copy(PyObject *, PyObject *args) {
  int device = kCpu, toDevice = 0;
  unsigned long long address = 0;
  Py_buffer host;
  if (!PyArg_ParseTuple(args, "iKy*p", &device, &address, &host, &toDevice)) {
    return nullptr;
  }
  lt_device *found = deviceFor(device);
  lt_status status = LT_ERROR;
  auto *memory = reinterpret_cast<void *>(address);
  if (toDevice == 0 && host.readonly != 0) {
    PyBuffer_Release(&host);
    return PyErr_Format(PyExc_ValueError, "the buffer is read-only");
  }
  if (found != nullptr) {
    const WithoutGil scope;
    status = toDevice != 0 ? lt_copy(found, memory, host.buf, static_cast<size_t>(host.len), 1)
                           : lt_copy(found, host.buf, memory, static_cast<size_t>(host.len), 0);
  }
  PyBuffer_Release(&host);
  return found != nullptr ? nothingOr(status) : nullptr;
}

PyObject *fill(PyObject *, PyObject *args) {
  int device = kCpu, byte = 0;
  unsigned long long address = 0;
  Py_ssize_t bytes = 0;
  if (!PyArg_ParseTuple(args, "iKin", &device, &address, &byte, &bytes)) {
    return nullptr;
  }
  lt_device *found = deviceFor(device);
  return found == nullptr ? nullptr
                          : nothingOr(lt_fill(found, reinterpret_cast<void *>(address), byte,
                                              static_cast<size_t>(bytes)));
}

PyObject *synchronize(PyObject *, PyObject *args) {
  int device = kCpu;
  unsigned long long stream = 0;
  if (!PyArg_ParseTuple(args, "i|K", &device, &stream)) {
    return nullptr;
  }
  lt_device *found = deviceFor(device);
  if (found == nullptr) {
    return nullptr;
  }
  lt_status status = LT_OK;
  {
    const WithoutGil scope;
    status = lt_synchronize(found, reinterpret_cast<void *>(stream));
  }
  return nothingOr(status);
}

PyObject *cacheBytes(PyObject *, PyObject *args) {
  int device = kCpu;
  if (!PyArg_ParseTuple(args, "i", &device)) {
    return nullptr;
  }
  lt_device *found = deviceFor(device);
  return found != nullptr ? PyLong_FromSize_t(lt_cache_bytes(found)) : nullptr;
}

// A moment on the device's clock, to be freed by milliseconds().
PyObject *recordTime(PyObject *, PyObject *args) {
  int device = kCpu;
  unsigned long long stream = 0;
  if (!PyArg_ParseTuple(args, "i|K", &device, &stream)) {
    return nullptr;
  }
  lt_device *found = deviceFor(device);
  void *time = nullptr;
  if (found == nullptr) {
    return nullptr;
  }
  if (lt_record_time(found, reinterpret_cast<void *>(stream), &time) != LT_OK) {
    return raiseError(false);
  }
  return PyLong_FromVoidPtr(time);
}

// Waits for both moments, gives the time between them, and frees them.
PyObject *milliseconds(PyObject *, PyObject *args) {
  int device = kCpu;
  unsigned long long start = 0, stop = 0;
  if (!PyArg_ParseTuple(args, "iKK", &device, &start, &stop)) {
    return nullptr;
  }
  lt_device *found = deviceFor(device);
  if (found == nullptr) {
    return nullptr;
  }
  double elapsed = 0;
  lt_status status = LT_OK;
  {
    const WithoutGil scope;
    status = lt_milliseconds(found, reinterpret_cast<void *>(start), reinterpret_cast<void *>(stop), &elapsed);
  }
  lt_free_time(found, reinterpret_cast<void *>(start));
  lt_free_time(found, reinterpret_cast<void *>(stop));
  return status == LT_OK ? PyFloat_FromDouble(elapsed) : raiseError(false);
}

PyObject *setNumThreads(PyObject *, PyObject *number) {
  const long threads = PyLong_AsLong(number);
  if (threads == -1 && PyErr_Occurred() != nullptr) {
    return nullptr;
  }
  lt_set_num_threads(static_cast<int>(threads));
  Py_RETURN_NONE;
}
PyObject *numThreads(PyObject *, PyObject *) { return PyLong_FromLong(lt_num_threads()); }

PyObject *beforeFork(PyObject *, PyObject *) {
  const WithoutGil scope;
  lt_before_fork();
  return Py_NewRef(Py_None);
}
PyObject *afterForkInParent(PyObject *, PyObject *) {
  lt_after_fork(0);
  Py_RETURN_NONE;
}
PyObject *afterForkInChild(PyObject *, PyObject *) {
  lt_after_fork(1);
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"devices", names, METH_NOARGS, "The devices' names, joined by commas."},
    {"targets", targets, METH_NOARGS, "The targets' names, joined by commas."},
    {"target", target, METH_VARARGS, "target(device): the best target of a device (-1: CPU)."},
    {"allocate", allocate, METH_VARARGS, "allocate(device, bytes)"},
    {"release", release, METH_VARARGS, "release(device, address)"},
    {"copy", copy, METH_VARARGS, "copy(device, address, buffer, to_device)"},
    {"fill", fill, METH_VARARGS, "fill(device, address, byte, bytes)"},
    {"synchronize", synchronize, METH_VARARGS, "synchronize(device[, stream])"},
    {"cache_bytes", cacheBytes, METH_VARARGS, "cache_bytes(device)"},
    {"record_time", recordTime, METH_VARARGS, "record_time(device[, stream])"},
    {"milliseconds", milliseconds, METH_VARARGS, "milliseconds(device, start, stop)"},
    {"set_num_threads", setNumThreads, METH_O, "Threads that CPU kernels use; 0: all cores."},
    {"num_threads", numThreads, METH_NOARGS, "Threads that CPU kernels use."},
    {"before_fork", beforeFork, METH_NOARGS, nullptr},
    {"after_fork_in_parent", afterForkInParent, METH_NOARGS, nullptr},
    {"after_fork_in_child", afterForkInChild, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

} // namespace

lt_device *deviceFor(int device) {
  const int index = device + 1;
  if (index >= 0 && index < kMaxDevices && opened[index] != nullptr) [[likely]] {
    return opened[index];
  }
  if (index < 0 || index >= kMaxDevices) {
    PyErr_Format(PyExc_ValueError, "there is no device %d", device);
    return nullptr;
  }
  char name[16] = "cpu";
  if (device >= 0) {
    PyOS_snprintf(name, sizeof name, "cuda:%d", device);
  }
  opened[index] = lt_device_open(name);
  if (opened[index] == nullptr) {
    raiseError(false);
  }
  return opened[index];
}

bool addDeviceFunctions(PyObject *module) { return PyModule_AddFunctions(module, functions) == 0; }

} // namespace libtile::python
