// SPDX-License-Identifier: Apache-2.0
// What the launcher asks of arrays beyond their address: the bytes they may touch, and torch's stream.
#include "arrays.h"

namespace libtile::python {

bool isTorch(PyObject *object) {
  const Sort *known = knownTypes.find(reinterpret_cast<PyObject *>(Py_TYPE(object)));
  return known != nullptr && *known == Sort::Torch;
}

namespace {

void widen(lt_extent &extent, uint64_t begin, uint64_t end) {
  if (extent.begin == extent.end) {
    extent = {begin, end};
  } else {
    extent.begin = begin < extent.begin ? begin : extent.begin;
    extent.end = end > extent.end ? end : extent.end;
  }
}

// A base may have an element type of its own.
int64_t itemSize(PyObject *dtype) {
  static ObjectTable<int64_t, 64> known;
  if (const int64_t *size = known.find(dtype)) {
    return *size;
  }
  const Ref size(PyObject_GetAttrString(dtype, "itemsize"));
  const int64_t bytes = size ? PyLong_AsLongLong(size.get()) : 0;
  PyErr_Clear();
  known.add(dtype, bytes);
  return bytes;
}

// A view's kernel may reach all of the memory that the view is of.
lt_extent numpyExtent(PyObject *object) {
  lt_extent extent{};
  while (object != nullptr) {
    const Sort *known = knownTypes.find(reinterpret_cast<PyObject *>(Py_TYPE(object)));
    if (known == nullptr || *known != Sort::Numpy) {
      break;
    }
    const auto *array = reinterpret_cast<NumpyArray *>(object);
    int64_t low = 0, high = itemSize(array->descr);
    bool empty = false;
    for (int i = 0; i < array->rank; ++i) {
      const int64_t reach = (array->shape[i] - 1) * array->strides[i];
      empty = empty || array->shape[i] == 0;
      (reach < 0 ? low : high) += reach;
    }
    const auto address = reinterpret_cast<uintptr_t>(array->data);
    if (!empty) {
      widen(extent, address + static_cast<uint64_t>(low), address + static_cast<uint64_t>(high));
    }
    object = array->base;
  }
  return extent;
}

bool isTrue(PyObject *object, PyObject *method) {
  const Ref answer(PyObject_CallMethodNoArgs(object, method));
  PyErr_Clear();
  return answer.get() == Py_True;
}

// All of the storage; that of a contiguous tensor which is no view is the tensor itself, which is much
// cheaper to ask for.
lt_extent torchExtent(PyObject *object, uint64_t address) {
  static PyObject *const isView = intern("_is_view");
  static PyObject *const isContiguous = intern("is_contiguous");
  static PyObject *const nbytes = intern("nbytes");
  if (isTrue(object, isContiguous) && !isTrue(object, isView)) {
    const Ref bytes(PyObject_GetAttr(object, nbytes));
    if (bytes) {
      return {address, address + PyLong_AsUnsignedLongLongMask(bytes.get())};
    }
  }
  PyErr_Clear();
  const Ref storage(PyObject_CallMethod(object, "untyped_storage", nullptr));
  const Ref start(storage ? PyObject_CallMethod(storage.get(), "data_ptr", nullptr) : nullptr);
  const Ref bytes(storage ? PyObject_CallMethod(storage.get(), "nbytes", nullptr) : nullptr);
  if (!start || !bytes) {
    PyErr_Clear();
    return {};
  }
  const uint64_t begin = PyLong_AsUnsignedLongLongMask(start.get());
  return {begin, begin + PyLong_AsUnsignedLongLongMask(bytes.get())};
}

lt_extent ownExtent(PyObject *object, uint64_t address) {
  static PyObject *const attribute = intern("__libtile_array__");
  const Ref fields(PyObject_GetAttr(object, attribute));
  if (!fields || !PyTuple_Check(fields.get()) || PyTuple_GET_SIZE(fields.get()) != 4) {
    PyErr_Clear();
    return {};
  }
  return {address, address + PyLong_AsUnsignedLongLongMask(PyTuple_GET_ITEM(fields.get(), 3))};
}

} // namespace

lt_extent extentOf(PyObject *object, uint64_t address) {
  const Sort *known = knownTypes.find(reinterpret_cast<PyObject *>(Py_TYPE(object)));
  if (known == nullptr) {
    return {};
  }
  return *known == Sort::Numpy   ? numpyExtent(object)
         : *known == Sort::Torch ? torchExtent(object, address)
         : *known == Sort::Own   ? ownExtent(object, address)
                                 : lt_extent{};
}

bool currentStream(PyObject *object, int device, void *&stream) {
  stream = nullptr;
  if (device < 0 || !isTorch(object)) {
    return true;
  }
  static PyObject *rawStream = nullptr;
  if (rawStream == nullptr) {
    const Ref module(PyImport_ImportModule("torch._C"));
    rawStream = module ? PyObject_GetAttrString(module.get(), "_cuda_getCurrentRawStream") : nullptr;
    if (rawStream == nullptr) {
      return false;
    }
  }
  const Ref ordinal(PyLong_FromLong(device));
  const Ref raw(PyObject_CallOneArg(rawStream, ordinal.get()));
  if (!raw) {
    return false;
  }
  stream = PyLong_AsVoidPtr(raw.get());
  return PyErr_Occurred() == nullptr;
}

} // namespace libtile::python
