// SPDX-License-Identifier: Apache-2.0
// Python objects as launch arguments: the hot path of a launch from Python.
//
// Numbers and None are told by their type. What sort of array a type is gets found out once and kept
// in a small table of types. NumPy arrays are read through their C structure, whose head has been the
// same in all releases; it is declared here, since neither building nor importing needs NumPy, and it
// is checked against the array's own attributes when the type is first met: an array that disagrees is
// read through __array_interface__, slowly.
#include "common.h"

#include <bit>
#include <cstring>
#include <string>
#include <string_view>

namespace libtile::python {

namespace {

enum class Sort : uint8_t { Unknown, Numpy, NumpySlow, NumpyScalar, Torch, Own, CudaInterface, Dlpack, Buffer, Index, Number, Constant };

struct NumpyArray {
  PyObject_HEAD
  char *data;
  int rank;
  Py_ssize_t *shape;
  Py_ssize_t *strides;
  PyObject *base;
  PyObject *descr;
  int flags;
};
constexpr int kNumpyAligned = 0x0100;
constexpr int kNumpyWriteable = 0x0400;

PyObject *intern(const char *text) { return PyUnicode_InternFromString(text); }

// ---- small tables that only grow; objects in them are kept alive

template <class T, size_t N> struct ObjectTable {
  struct Row {
    PyObject *key;
    T value;
  };
  Row rows[N];
  size_t count = 0;

  T *find(PyObject *key) {
    for (size_t i = 0; i < count; ++i) {
      if (rows[i].key == key) {
        return &rows[i].value;
      }
    }
    return nullptr;
  }
  void add(PyObject *key, T value) {
    if (count < N) {
      Py_INCREF(key);
      rows[count++] = {key, value};
    }
  }
};

ObjectTable<Sort, 32> knownTypes;
ObjectTable<int, 64> knownDtypes; // NumPy's and torch's dtype objects -> type code

// ---- element types

struct NameRow {
  const char *theirs, *ours;
};
constexpr NameRow kNames[] = {
    {"float32", "fp32"}, {"float64", "fp64"}, {"float16", "fp16"}, {"bfloat16", "bf16"},
    {"int8", "int8"},    {"int16", "int16"},  {"int32", "int32"},  {"int64", "int64"},
    {"uint8", "uint8"},  {"uint16", "uint16"}, {"uint32", "uint32"}, {"uint64", "uint64"},
    {"bool", "int1"},
};

int codeOfName(std::string_view name) {
  for (const NameRow &row : kNames) {
    if (name == row.theirs) {
      return lt_dtype(row.ours);
    }
  }
  return -1;
}

// "<f4", "|u1", "=i8", "<V2" (bfloat16 in ml_dtypes is told by name, not here).
int codeOfTypestr(std::string_view text) {
  if (text.size() < 3 || text[0] == '>') {
    return -1;
  }
  const int size = text[2] - '0';
  switch (text[1]) {
  case 'f':
    return size == 4 ? lt_dtype("fp32") : size == 8 ? lt_dtype("fp64") : size == 2 ? lt_dtype("fp16") : -1;
  case 'b':
    return lt_dtype("int1");
  case 'i':
  case 'u': {
    const std::string name = (text[1] == 'u' ? "uint" : "int") + std::to_string(size * 8);
    return lt_dtype(name.c_str());
  }
  default:
    return -1;
  }
}

std::string textOf(PyObject *object) {
  const Ref text(object != nullptr ? PyObject_Str(object) : nullptr);
  const char *utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  PyErr_Clear();
  return utf8 != nullptr ? utf8 : "";
}

bool refuse(PyObject *name, const char *why) {
  PyErr_Format(PyExc_TypeError, "argument '%U': %s", name, why);
  return false;
}

// A dtype object of NumPy or torch.
int codeOfDtype(PyObject *dtype) {
  if (const int *known = knownDtypes.find(dtype)) {
    return *known;
  }
  std::string text = textOf(dtype);
  if (text.starts_with("torch.")) {
    text.erase(0, 6);
  } else {
    static PyObject *const byteorder = intern("byteorder");
    const Ref order(PyObject_GetAttr(dtype, byteorder));
    if (textOf(order.get()) == ">") {
      return -2;
    }
  }
  const int code = codeOfName(text);
  if (code >= 0) {
    knownDtypes.add(dtype, code);
  }
  return code;
}

bool setDtype(int code, PyObject *dtype, PyObject *name, lt_arg &arg) {
  if (code >= 0) {
    arg.dtype = static_cast<uint16_t>(code);
    return true;
  }
  if (code == -2) {
    return refuse(name, "the array is byte-swapped; convert it with .astype(a.dtype.newbyteorder('='))");
  }
  return refuse(name, ("arrays of type " + textOf(dtype) + " are not supported").c_str());
}

void setPointer(lt_arg &arg, uint64_t address, bool isReadOnly) {
  arg.kind = LT_ARG_POINTER;
  arg.flags = isReadOnly ? LT_ARG_READ_ONLY : 0;
  arg.bits = address;
}

// ---- what sort of object a type makes

bool hasBase(PyTypeObject *type, const char *name) {
  PyObject *mro = type->tp_mro;
  for (Py_ssize_t i = 0; mro != nullptr && i < PyTuple_GET_SIZE(mro); ++i) {
    if (std::strcmp(reinterpret_cast<PyTypeObject *>(PyTuple_GET_ITEM(mro, i))->tp_name, name) == 0) {
      return true;
    }
  }
  return false;
}

bool has(PyObject *object, const char *attribute) {
  const Ref found(PyObject_GetAttrString(object, attribute));
  PyErr_Clear();
  return static_cast<bool>(found);
}

// Whether the structure says the same as the array's attributes.
bool looksLikeNumpy(PyObject *object) {
  const auto *array = reinterpret_cast<NumpyArray *>(object);
  if (Py_TYPE(object)->tp_basicsize < static_cast<Py_ssize_t>(sizeof(NumpyArray))) {
    return false;
  }
  const Ref interface(PyObject_GetAttrString(object, "__array_interface__"));
  const Ref descr(PyObject_GetAttrString(object, "dtype"));
  if (!interface || !descr) {
    PyErr_Clear();
    return false;
  }
  PyObject *data = PyDict_GetItemString(interface.get(), "data");
  PyObject *shape = PyDict_GetItemString(interface.get(), "shape");
  if (data == nullptr || shape == nullptr || !PyTuple_Check(data) || !PyTuple_Check(shape)) {
    return false;
  }
  const bool isReadOnly = PyObject_IsTrue(PyTuple_GetItem(data, 1)) == 1;
  return reinterpret_cast<char *>(PyLong_AsVoidPtr(PyTuple_GetItem(data, 0))) == array->data &&
         PyTuple_GET_SIZE(shape) == array->rank && descr.get() == array->descr &&
         isReadOnly == ((array->flags & kNumpyWriteable) == 0);
}

Sort sortOf(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  if (hasBase(type, "numpy.ndarray")) {
    return looksLikeNumpy(object) ? Sort::Numpy : Sort::NumpySlow;
  }
  if (hasBase(type, "numpy.generic")) {
    return Sort::NumpyScalar;
  }
  if (has(object, "__libtile_array__")) {
    return Sort::Own;
  }
  if (has(object, "data_ptr") && has(object, "is_cuda")) {
    return Sort::Torch;
  }
  if (isJit(object) || PyUnicode_Check(object) || PyTuple_Check(object) || PyType_Check(object) ||
      has(object, "_value")) {
    return Sort::Constant;
  }
  if (has(object, "__cuda_array_interface__")) {
    return Sort::CudaInterface;
  }
  if (has(object, "__dlpack__")) {
    return Sort::Dlpack;
  }
  if (PyObject_CheckBuffer(object) != 0) {
    return Sort::Buffer;
  }
  if (PyIndex_Check(object) != 0) {
    return Sort::Index;
  }
  return has(object, "__float__") ? Sort::Number : Sort::Constant;
}

// ---- one reader a sort

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

// libtile's own arrays: __libtile_array__ is (address, type name, device, read-only, bytes).
bool readOwn(PyObject *object, PyObject *name, lt_arg &arg, int &device) {
  static PyObject *const attribute = intern("__libtile_array__");
  const Ref fields(PyObject_GetAttr(object, attribute));
  unsigned long long address = 0, bytes = 0;
  const char *dtype = nullptr;
  int isReadOnly = 0;
  if (!fields ||
      !PyArg_ParseTuple(fields.get(), "KsipK", &address, &dtype, &device, &isReadOnly, &bytes)) {
    return false;
  }
  const int code = codeOfName(dtype);
  if (code < 0) {
    return refuse(name, "arrays of this type are not supported");
  }
  arg.dtype = static_cast<uint16_t>(code);
  setPointer(arg, address, isReadOnly != 0);
  return true;
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

bool readInt(PyObject *object, PyObject *name, lt_arg &arg) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  arg.kind = LT_ARG_INT;
  arg.bits = static_cast<uint64_t>(value);
  if (overflow == 0) {
    return value != -1 || PyErr_Occurred() == nullptr;
  }
  arg.kind = LT_ARG_UINT;
  arg.bits = PyLong_AsUnsignedLongLong(object);
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return refuse(name, "the integer does not fit in 64 bits");
  }
  return true;
}

bool readFloat(PyObject *object, lt_arg &arg) {
  const double value = PyFloat_AsDouble(object);
  arg.kind = LT_ARG_FLOAT;
  arg.bits = std::bit_cast<uint64_t>(value);
  return value != -1.0 || PyErr_Occurred() == nullptr;
}

bool readScalar(PyObject *object, PyObject *name, lt_arg &arg) {
  const Ref python(PyObject_CallMethod(object, "item", nullptr));
  int none = kNoDevice;
  return python && classify(python.get(), false, name, arg, none);
}

// host.constant(object) gives the object's value and a key; equal keys are one constant.
bool readConstant(PyObject *object, lt_arg &arg) {
  static PyObject *const constants = PyDict_New();
  const Ref key(PyObject_CallOneArg(installed.constant, object));
  if (!key) {
    return false;
  }
  PyObject *capsule = PyDict_GetItemWithError(constants, key.get());
  if (capsule == nullptr) {
    if (PyErr_Occurred() != nullptr) {
      return false;
    }
    lt_value *value = toValue(object);
    const Ref made(value != nullptr ? PyCapsule_New(value, nullptr, nullptr) : nullptr);
    if (!made || PyDict_SetItem(constants, key.get(), made.get()) != 0) {
      return false;
    }
    capsule = made.get();
  }
  arg.kind = LT_ARG_CONSTANT;
  arg.bits = reinterpret_cast<uintptr_t>(PyCapsule_GetPointer(capsule, nullptr));
  return true;
}

bool classifySlow(PyObject *object, PyObject *name, lt_arg &arg, int &device) {
  auto *type = reinterpret_cast<PyObject *>(Py_TYPE(object));
  const Sort *known = knownTypes.find(type);
  const Sort sort = known != nullptr ? *known : sortOf(object);
  if (known == nullptr) {
    knownTypes.add(type, sort);
  }
  switch (sort) {
  case Sort::Numpy:
    device = kCpu;
    return readNumpy(object, name, arg);
  case Sort::NumpySlow:
    device = kCpu;
    return readInterface(object, "__array_interface__", name, arg);
  case Sort::NumpyScalar:
    return readScalar(object, name, arg);
  case Sort::Torch:
    return readTorch(object, name, arg, device);
  case Sort::Own:
    return readOwn(object, name, arg, device);
  case Sort::CudaInterface:
    device = 0;
    return readInterface(object, "__cuda_array_interface__", name, arg);
  case Sort::Dlpack:
    return readDlpack(object, name, arg, device);
  case Sort::Buffer:
    device = kCpu;
    return readBuffer(object, name, arg);
  case Sort::Index: {
    const Ref number(PyNumber_Index(object));
    return number && readInt(number.get(), name, arg);
  }
  case Sort::Number:
    return readFloat(object, arg);
  case Sort::Constant:
  case Sort::Unknown:
    return readConstant(object, arg);
  }
  return false;
}

} // namespace

bool classify(PyObject *object, bool isConstexpr, PyObject *name, lt_arg &arg, int &device) {
  arg.flags = 0;
  arg.dtype = 0;
  device = kNoDevice;
  PyTypeObject *type = Py_TYPE(object);
  if (!isConstexpr) {
    // The commonest first.
    if (const Sort *known = knownTypes.find(reinterpret_cast<PyObject *>(type));
        known != nullptr && *known == Sort::Numpy) {
      device = kCpu;
      return readNumpy(object, name, arg);
    }
  }
  if (type == &PyLong_Type) {
    if (!isConstexpr) {
      return readInt(object, name, arg);
    }
    int overflow = 0;
    arg.kind = LT_ARG_INT;
    arg.bits = static_cast<uint64_t>(PyLong_AsLongLongAndOverflow(object, &overflow));
    return overflow == 0 || readConstant(object, arg);
  }
  if (type == &PyFloat_Type) {
    return readFloat(object, arg);
  }
  if (object == Py_None) {
    arg.kind = LT_ARG_NONE;
    arg.bits = 0;
    return true;
  }
  if (type == &PyBool_Type) {
    arg.kind = LT_ARG_BOOL;
    arg.bits = object == Py_True ? 1 : 0;
    return true;
  }
  if (isConstexpr) {
    return readConstant(object, arg);
  }
  if (PyLong_Check(object)) {
    return readInt(object, name, arg);
  }
  if (PyFloat_Check(object) && !hasBase(type, "numpy.generic")) {
    return readFloat(object, arg);
  }
  return classifySlow(object, name, arg, device);
}

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

lt_extent torchExtent(PyObject *object) {
  const Ref storage(PyObject_CallMethod(object, "untyped_storage", nullptr));
  const Ref address(storage ? PyObject_CallMethod(storage.get(), "data_ptr", nullptr) : nullptr);
  const Ref bytes(storage ? PyObject_CallMethod(storage.get(), "nbytes", nullptr) : nullptr);
  if (!address || !bytes) {
    PyErr_Clear();
    return {};
  }
  const uint64_t begin = PyLong_AsUnsignedLongLongMask(address.get());
  return {begin, begin + PyLong_AsUnsignedLongLongMask(bytes.get())};
}

lt_extent ownExtent(PyObject *object) {
  const Ref fields(PyObject_GetAttrString(object, "__libtile_array__"));
  if (!fields || !PyTuple_Check(fields.get()) || PyTuple_GET_SIZE(fields.get()) != 5) {
    PyErr_Clear();
    return {};
  }
  const uint64_t begin = PyLong_AsUnsignedLongLongMask(PyTuple_GET_ITEM(fields.get(), 0));
  return {begin, begin + PyLong_AsUnsignedLongLongMask(PyTuple_GET_ITEM(fields.get(), 4))};
}

} // namespace

lt_extent extentOf(PyObject *object) {
  const Sort *known = knownTypes.find(reinterpret_cast<PyObject *>(Py_TYPE(object)));
  if (known == nullptr) {
    return {};
  }
  return *known == Sort::Numpy   ? numpyExtent(object)
         : *known == Sort::Torch ? torchExtent(object)
         : *known == Sort::Own   ? ownExtent(object)
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
