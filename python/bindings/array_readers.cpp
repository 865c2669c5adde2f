// SPDX-License-Identifier: Apache-2.0
// One reader for each sort of array: address, element type, device, whether it may be written.
#include "arrays.h"

#include <cstring>

namespace libtile::python {

bool readNumpy(PyObject *object, PyObject *name, lt_arg &arg) {
  const auto *array = reinterpret_cast<NumpyArray *>(object);
  const int *known = knownDtypes.find(array->descr);
  if (!setDtype(known != nullptr ? *known : codeOfDtype(array->descr), array->descr, name, arg)) {
    return false;
  }
  if ((array->flags & kNumpyAligned) == 0) {
    return refuse(name, "the array is not aligned to the size of its elements");
  }
  setPointer(arg, reinterpret_cast<uintptr_t>(array->data), (array->flags & kNumpyWriteable) == 0);
  return true;
}

// __array_interface__ and __cuda_array_interface__ hold (address, read-only) and a type string.
bool readInterface(PyObject *object, const char *attribute, PyObject *name, lt_arg &arg) {
  const Ref interface(PyObject_GetAttrString(object, attribute));
  if (!interface) {
    return false;
  }
  PyObject *data = PyDict_Check(interface.get()) ? PyDict_GetItemString(interface.get(), "data") : nullptr;
  PyObject *typestr = data != nullptr ? PyDict_GetItemString(interface.get(), "typestr") : nullptr;
  if (typestr == nullptr || !PyTuple_Check(data) || PyTuple_GET_SIZE(data) < 2) {
    return refuse(name, (std::string("its ") + attribute + " holds no address").c_str());
  }
  const Ref dtype(PyObject_GetAttrString(object, "dtype"));
  PyErr_Clear();
  int code = codeOfTypestr(textOf(typestr));
  if (code < 0 && dtype) {
    code = codeOfDtype(dtype.get());
  }
  if (!setDtype(textOf(typestr).starts_with(">") ? -2 : code, typestr, name, arg)) {
    return false;
  }
  const uint64_t address = PyLong_AsUnsignedLongLongMask(PyTuple_GET_ITEM(data, 0));
  setPointer(arg, address, PyObject_IsTrue(PyTuple_GET_ITEM(data, 1)) == 1);
  return PyErr_Occurred() == nullptr;
}

namespace {

// Some neighbours lie side by side. torch keeps the imaginary part of a conjugate as its negative, with a
// bit that says so; such a view steps over the real parts.
bool isDense(const DlTensor &tensor) {
  for (int32_t i = 0; i < tensor.rank; ++i) {
    if (tensor.shape[i] > 1 && tensor.strides[i] == 1) {
      return true;
    }
  }
  return false;
}

// Memory of the host that a GPU reaches, too, is the CPU's. kNoDevice: neither.
int deviceOf(const DlTensor &tensor) {
  switch (tensor.deviceType) {
  case kDlCpu:
  case kDlCudaHost:
  case kDlRocmHost: return kCpu;
  case kDlCuda: return LT_CUDA + tensor.deviceId;
  case kDlRocm: return LT_HIP + tensor.deviceId;
  default: return kNoDevice;
  }
}

// Whether the torch of this process calls AMD's GPUs "cuda".
bool isTorchForRocm() {
  static const bool isForRocm = [] {
    const Ref version(PyImport_ImportModule("torch.version"));
    const Ref hip(version ? PyObject_GetAttrString(version.get(), "hip") : nullptr);
    PyErr_Clear();
    return hip && hip.get() != Py_None;
  }();
  return isForRocm;
}

// False, without a Python error: the tensor is none that this path reads.
bool readExchanged(PyObject *object, const DlExchange &exchange, lt_arg &arg, int &device) {
  DlTensor tensor;
  if (exchange.fromPython(object, &tensor) != 0) {
    PyErr_Clear();
    return false;
  }
  const int code = codeOfDlpack(tensor);
  device = deviceOf(tensor);
  if (code < 0 || tensor.data == nullptr || !isDense(tensor) || device == kNoDevice) {
    return false;
  }
  arg.dtype = static_cast<uint16_t>(code);
  setPointer(arg, reinterpret_cast<uintptr_t>(tensor.data) + tensor.byteOffset, false);
  uint64_t last = 0;
  for (int32_t i = 0; i < tensor.rank; ++i) {
    last += static_cast<uint64_t>((tensor.shape[i] - 1) * tensor.strides[i]);
  }
  arg.bytes = (last + 1) * (tensor.typeBits / 8);
  return true;
}

// True of an attribute or of what a method without arguments returns.
bool isTrue(const Ref &answer) {
  PyErr_Clear();
  return answer.get() == Py_True;
}

bool isEmpty(PyObject *tensor) {
  static PyObject *const numel = intern("numel");
  const Ref count(PyObject_CallMethodNoArgs(tensor, numel));
  const bool isZero = count && PyLong_AsLongLong(count.get()) == 0;
  PyErr_Clear();
  return isZero;
}

} // namespace

// By DLPack's C function where torch has it and the tensor is an ordinary one, else by its methods.
bool readTorch(PyObject *object, const DlExchange *exchange, PyObject *name, lt_arg &arg, int &device) {
  if (exchange != nullptr && readExchanged(object, *exchange, arg, device)) {
    return true;
  }
  static PyObject *const dataPtr = intern("data_ptr");
  static PyObject *const dtypeName = intern("dtype");
  static PyObject *const isCuda = intern("is_cuda");
  static PyObject *const isCpu = intern("is_cpu");
  static PyObject *const isNeg = intern("is_neg");
  static PyObject *const getDevice = intern("get_device");
  const Ref dtype(PyObject_GetAttr(object, dtypeName));
  if (!dtype || !setDtype(codeOfDtype(dtype.get()), dtype.get(), name, arg)) {
    return false;
  }
  device = kCpu;
  if (isTrue(Ref(PyObject_GetAttr(object, isCuda)))) {
    const Ref ordinal(PyObject_CallMethodNoArgs(object, getDevice));
    device = ordinal ? static_cast<int>(PyLong_AsLong(ordinal.get())) + (isTorchForRocm() ? LT_HIP : LT_CUDA) : kCpu;
  } else if (!isTrue(Ref(PyObject_GetAttr(object, isCpu)))) {
    return refuse(name, "the tensor is neither on the CPU nor on a GPU of NVIDIA's or AMD's");
  }
  if (isTrue(Ref(PyObject_CallMethodNoArgs(object, isNeg)))) {
    return refuse(name, "the tensor is a negated view, as of a conjugate; pass x.resolve_neg()");
  }
  const Ref address(PyObject_CallMethodNoArgs(object, dataPtr));
  if (!address) {
    return false;
  }
  setPointer(arg, PyLong_AsUnsignedLongLongMask(address.get()), false);
  if (arg.bits == 0 && !isEmpty(object)) {
    return refuse(name, "the tensor has no memory of its own (a fake tensor or a wrapper)");
  }
  return PyErr_Occurred() == nullptr;
}

// libtile's own arrays: __libtile_array__ is (address, NumPy's name of the type, device, bytes). The name
// is interned, so that its code is found by the object.
bool readOwn(PyObject *object, PyObject *name, lt_arg &arg, int &device) {
  static PyObject *const attribute = intern("__libtile_array__");
  const Ref fields(PyObject_GetAttr(object, attribute));
  if (!fields || !PyTuple_Check(fields.get()) || PyTuple_GET_SIZE(fields.get()) != 4) {
    return refuse(name, "its __libtile_array__ is no tuple of four");
  }
  PyObject *type = PyTuple_GET_ITEM(fields.get(), 1);
  const int *known = knownDtypes.find(type);
  int code = known != nullptr ? *known : codeOfName(textOf(type));
  code = code < 0 ? lt_dtype(textOf(type).c_str()) : code; // NumPy's name or ours
  if (known == nullptr && code >= 0) {
    knownDtypes.add(type, code);
  }
  device = static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(fields.get(), 2)));
  setPointer(arg, PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(fields.get(), 0)), false);
  arg.bytes = PyLong_AsUnsignedLongLongMask(PyTuple_GET_ITEM(fields.get(), 3));
  return setDtype(code, type, name, arg) && PyErr_Occurred() == nullptr;
}

// Version 1 says whether the array is read-only; older libraries do not know the argument.
static Ref dlpackCapsule(PyObject *object) {
  static PyObject *const method = intern("__dlpack__");
  static PyObject *const names = Py_BuildValue("(s)", "max_version");
  static PyObject *const version = Py_BuildValue("(ii)", 1, 0);
  PyObject *args[] = {object, version};
  Ref capsule(PyObject_VectorcallMethod(method, args, 1, names));
  if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError) != 0) {
    PyErr_Clear();
    capsule = Ref(PyObject_CallMethodNoArgs(object, method));
  }
  return capsule;
}

// The exporter keeps the memory as long as the object itself lives, which the caller holds; the capsule
// goes, and with it what was made for it.
bool readDlpack(PyObject *object, PyObject *name, lt_arg &arg, int &device) {
  const Ref capsule = dlpackCapsule(object);
  if (!capsule) {
    return false;
  }
  const DlTensor *tensor = nullptr;
  bool isReadOnly = false;
  if (PyCapsule_IsValid(capsule.get(), "dltensor_versioned") != 0) {
    const auto *managed = static_cast<const DlManagedTensor *>(
        PyCapsule_GetPointer(capsule.get(), "dltensor_versioned"));
    if (managed->version.major != 1) {
      return refuse(name, "its DLPack version is not supported");
    }
    tensor = &managed->tensor;
    isReadOnly = (managed->flags & 1) != 0;
  } else {
    tensor = static_cast<const DlTensor *>(PyCapsule_GetPointer(capsule.get(), "dltensor"));
  }
  if (tensor == nullptr) {
    return false;
  }
  const int code = codeOfDlpack(*tensor);
  if (code < 0) {
    return refuse(name, "DLPack arrays of this element type are not supported");
  }
  device = deviceOf(*tensor);
  if (device == kNoDevice) {
    return refuse(name, "the array is neither on the CPU nor on a GPU of NVIDIA's or AMD's");
  }
  arg.dtype = static_cast<uint16_t>(code);
  setPointer(arg, reinterpret_cast<uintptr_t>(tensor->data) + tensor->byteOffset, isReadOnly);
  return true;
}

bool readBuffer(PyObject *object, PyObject *name, lt_arg &arg) {
  Py_buffer view;
  if (PyObject_GetBuffer(object, &view, PyBUF_FORMAT | PyBUF_STRIDES) != 0) {
    return false;
  }
  std::string_view format = view.format != nullptr ? view.format : "B";
  const bool swapped = format.starts_with(">") || format.starts_with("!");
  if (format.starts_with("<") || format.starts_with("=") || format.starts_with("@")) {
    format.remove_prefix(1);
  }
  const char letter = format.size() == 1 ? format[0] : '?';
  const std::string bits = std::to_string(view.itemsize * 8);
  const std::string type = letter == '?'                          ? "bool"
                           : std::strchr("bhilqn", letter) != nullptr ? "int" + bits
                           : std::strchr("BHILQNc", letter) != nullptr ? "uint" + bits
                           : std::strchr("efd", letter) != nullptr    ? "float" + bits
                                                                      : "?";
  const int code = swapped ? -2 : codeOfName(format == "?" ? "bool" : letter == '?' ? "?" : type);
  setPointer(arg, reinterpret_cast<uintptr_t>(view.buf), view.readonly != 0);
  // The exporter keeps the memory as long as the object itself lives, which the caller holds.
  PyBuffer_Release(&view);
  const Ref shown(PyUnicode_FromString(type.c_str()));
  return setDtype(code, shown.get(), name, arg);
}

} // namespace libtile::python
