// SPDX-License-Identifier: Apache-2.0
// What the launcher asks of arrays beyond their address: the bytes they may touch, and torch's stream.
#include "arrays.h"

#include <algorithm>

namespace libtile::python {

bool isTorch(PyObject *object) { return knownType(object).sort == Sort::Torch; }

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

lt_extent storageExtent(PyObject *object);

// The memory of what is no array of NumPy's: a tensor, bytes, a mapped file. Unknown if it does not tell.
lt_extent foreignExtent(PyObject *object) {
  if (PyObject_CheckBuffer(object) == 0) {
    return storageExtent(object);
  }
  Py_buffer buffer;
  if (PyObject_GetBuffer(object, &buffer, PyBUF_SIMPLE) != 0) {
    PyErr_Clear();
    return {};
  }
  const uint64_t begin = reinterpret_cast<uintptr_t>(buffer.buf);
  const lt_extent extent{begin, begin + static_cast<uint64_t>(buffer.len)};
  PyBuffer_Release(&buffer);
  return extent;
}

// A view's kernel may reach all of the memory that the view is of.
lt_extent numpyExtent(PyObject *object, int which) {
  lt_extent extent{};
  const uint64_t own = reinterpret_cast<uintptr_t>(reinterpret_cast<NumpyArray *>(object)->data);
  while (object != nullptr && knownType(object).sort == Sort::Numpy) {
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
  if (which == LT_EXTENTS_OF_MEMORY && object != nullptr) {
    const lt_extent foreign = foreignExtent(object);
    const bool holdsAll = foreign.begin <= extent.begin && extent.end <= foreign.end;
    return holdsAll ? foreign : lt_extent{};
  }
  return extent.begin != extent.end ? extent : lt_extent{own, own};
}

// A method without arguments, looked up once for objects of one type.
class Method {
public:
  explicit Method(const char *name) : name_(intern(name)) {}
  Ref operator()(PyObject *self) {
    auto *type = reinterpret_cast<PyObject *>(Py_TYPE(self));
    if (type != type_.get()) {
      function_ = Ref(PyObject_GetAttr(type, name_));
      type_ = Ref::borrowed(function_ ? type : nullptr);
    }
    return Ref(function_ ? PyObject_Vectorcall(function_.get(), &self, 1, nullptr) : nullptr);
  }

private:
  PyObject *name_;
  Ref type_, function_;
};

// Of a tensor that is read by its methods.
lt_extent storageExtent(PyObject *object) {
  static Method &untypedStorage = *new Method("untyped_storage"); // objects outlive the interpreter
  static Method &dataPtr = *new Method("data_ptr");
  static Method &nbytes = *new Method("nbytes");
  const Ref storage = untypedStorage(object);
  const Ref start = storage ? dataPtr(storage.get()) : Ref();
  const Ref bytes = start ? nbytes(storage.get()) : Ref();
  if (!bytes) {
    PyErr_Clear();
    return {};
  }
  // An empty storage has no address; its begin is known all the same.
  const uint64_t begin = std::max<uint64_t>(PyLong_AsUnsignedLongLongMask(start.get()), 1);
  return {begin, begin + PyLong_AsUnsignedLongLongMask(bytes.get())};
}

// From the storage's first byte to the tensor's last: a kernel may reach all of the storage from any
// view of it, and two tensors have a storage in common if they have its first byte. Asking for the
// storage itself makes an object of it, which costs three times as much.
lt_extent torchExtent(PyObject *object, const lt_arg &arg, int which) {
  static Method &storageOffset = *new Method("storage_offset");
  if (arg.bytes != 0 && which == LT_EXTENTS_OF_ARRAYS) {
    const Ref offset = storageOffset(object);
    if (offset) {
      const uint64_t elements = PyLong_AsUnsignedLongLongMask(offset.get());
      return {arg.bits - elements * lt_dtype_bytes(arg.dtype), arg.bits + arg.bytes};
    }
    PyErr_Clear();
  }
  return storageExtent(object);
}

} // namespace

lt_extent extentOf(PyObject *object, const lt_arg &arg, int which) {
  const Sort sort = knownType(object).sort;
  return sort == Sort::Numpy   ? numpyExtent(object, which)
         : sort == Sort::Torch ? torchExtent(object, arg, which)
         : sort == Sort::Own   ? lt_extent{arg.bits, arg.bits + arg.bytes}
         : sort == Sort::Buffer && which == LT_EXTENTS_OF_MEMORY ? foreignExtent(object)
                                                                 : lt_extent{};
}

bool currentStream(PyObject *object, int device, void *&stream) {
  stream = nullptr;
  const KnownType known = knownType(object);
  if (device < 0 || known.sort != Sort::Torch) {
    return true;
  }
  if (known.exchange != nullptr) {
    return known.exchange->currentStream(device >= LT_HIP ? kDlRocm : kDlCuda, device % LT_HIP, &stream) == 0;
  }
  static PyObject *rawStream = nullptr;
  if (rawStream == nullptr) {
    const Ref module(PyImport_ImportModule("torch._C"));
    rawStream = module ? PyObject_GetAttrString(module.get(), "_cuda_getCurrentRawStream") : nullptr;
    if (rawStream == nullptr) {
      return false;
    }
  }
  const Ref ordinal(PyLong_FromLong(device % LT_HIP));
  const Ref raw(PyObject_CallOneArg(rawStream, ordinal.get()));
  if (!raw) {
    return false;
  }
  stream = PyLong_AsVoidPtr(raw.get());
  return PyErr_Occurred() == nullptr;
}

} // namespace libtile::python
