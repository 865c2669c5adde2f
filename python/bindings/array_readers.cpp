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

bool readTorch(PyObject *object, PyObject *name, lt_arg &arg, int &device) {
  static PyObject *const dataPtr = intern("data_ptr");
  static PyObject *const dtypeName = intern("dtype");
  static PyObject *const isCuda = intern("is_cuda");
  static PyObject *const isCpu = intern("is_cpu");
  static PyObject *const getDevice = intern("get_device");
  const Ref dtype(PyObject_GetAttr(object, dtypeName));
  const Ref address(PyObject_CallMethodNoArgs(object, dataPtr));
  const Ref cuda(PyObject_GetAttr(object, isCuda));
  if (!dtype || !address || !cuda || !setDtype(codeOfDtype(dtype.get()), dtype.get(), name, arg)) {
    return false;
  }
  device = kCpu;
  if (cuda.get() == Py_True) {
    const Ref ordinal(PyObject_CallMethodNoArgs(object, getDevice));
    device = ordinal ? static_cast<int>(PyLong_AsLong(ordinal.get())) : kCpu;
  } else {
    const Ref cpu(PyObject_GetAttr(object, isCpu));
    if (cpu.get() != Py_True) {
      PyErr_Clear();
      return refuse(name, "the tensor is neither on the CPU nor on a CUDA device");
    }
  }
  setPointer(arg, PyLong_AsUnsignedLongLongMask(address.get()), false);
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
  const int code = known != nullptr ? *known : codeOfName(textOf(type));
  if (known == nullptr && code >= 0) {
    knownDtypes.add(type, code);
  }
  device = static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(fields.get(), 2)));
  setPointer(arg, PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(fields.get(), 0)), false);
  return setDtype(code, type, name, arg) && PyErr_Occurred() == nullptr;
}

// DLPack's structures, as its specification gives them.
struct DlTensor {
  void *data;
  int32_t deviceType, deviceId;
  int32_t rank;
  uint8_t typeCode, typeBits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byteOffset;
};

bool readDlpack(PyObject *object, PyObject *name, lt_arg &arg, int &device) {
  const Ref capsule(PyObject_CallMethod(object, "__dlpack__", nullptr));
  const auto *tensor = capsule ? static_cast<const DlTensor *>(
                                     PyCapsule_GetPointer(capsule.get(), "dltensor"))
                               : nullptr;
  if (tensor == nullptr) {
    return false;
  }
  enum : int { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kBool = 6 };
  const std::string bits = std::to_string(tensor->typeBits);
  const std::string type = tensor->typeCode == kInt      ? "int" + bits
                           : tensor->typeCode == kUInt   ? "uint" + bits
                           : tensor->typeCode == kFloat  ? "float" + bits
                           : tensor->typeCode == kBfloat ? "bfloat16"
                           : tensor->typeCode == kBool   ? "bool"
                                                         : "?";
  const int code = tensor->lanes == 1 ? codeOfName(type) : -1;
  if (code < 0) {
    return refuse(name, "DLPack arrays of this element type are not supported");
  }
  // kDLCPU, kDLCUDA, kDLCUDAHost, kDLCUDAManaged
  if (tensor->deviceType != 1 && tensor->deviceType != 2 && tensor->deviceType != 3) {
    return refuse(name, "the array is neither on the CPU nor on a CUDA device");
  }
  device = tensor->deviceType == 2 ? tensor->deviceId : kCpu;
  arg.dtype = static_cast<uint16_t>(code);
  setPointer(arg, reinterpret_cast<uintptr_t>(tensor->data) + tensor->byteOffset, false);
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
