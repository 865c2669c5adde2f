// SPDX-License-Identifier: Apache-2.0
// Python objects as launch arguments: the hot path of a launch from Python.
//
// Numbers and None are told by their type. What sort of array a type is gets found out once and kept
// in a small table of types. NumPy arrays are read through their C structure, whose head has been the
// same in all releases; it is declared here, since neither building nor importing needs NumPy, and it
// is checked against the array's own attributes when the type is first met: an array that disagrees is
// read through __array_interface__, slowly.
#include "arrays.h"

#include "runtime/float_environment.h"

#include <bit>
#include <cstring>

namespace libtile::python {

ObjectTable<KnownType, 32> knownTypes;

namespace {

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
  if (hasBase(type, "MaskedArray") && hasBase(type, "numpy.ndarray")) {
    return Sort::Masked;
  }
  if (hasBase(type, "numpy.ndarray")) {
    return looksLikeNumpy(object) ? Sort::Numpy : Sort::NumpySlow;
  }
  if (hasBase(type, "numpy.generic")) {
    return Sort::NumpyScalar;
  }
  if (hasBase(type, "constexpr")) {
    return Sort::Wrapped;
  }
  if (hasBase(type, "TensorDescriptor")) {
    return Sort::Descriptor;
  }
  if (has(object, "__libtile_array__")) {
    return Sort::Own;
  }
  if (has(object, "data_ptr") && has(object, "is_cuda")) {
    return Sort::Torch;
  }
  if (isJit(object) || PyUnicode_Check(object) || PyTuple_Check(object) || PyType_Check(object)) {
    return Sort::Constant;
  }
  if (has(object, "__cuda_array_interface__")) {
    return Sort::CudaInterface;
  }
  if (has(object, "__dlpack__")) {
    return Sort::Dlpack;
  }
  if (has(object, "_value")) { // after the arrays: those of JAX have one
    return Sort::Constant;
  }
  if (PyObject_CheckBuffer(object) != 0) {
    return Sort::Buffer;
  }
  if (PyIndex_Check(object) != 0) {
    return Sort::Index;
  }
  return has(object, "__float__") ? Sort::Number : Sort::Constant;
}

// The type's table of C functions; null: it has none that we know.
const DlExchange *exchangeOf(PyObject *type) {
  const Ref capsule(PyObject_GetAttrString(type, DlExchange::kAttribute));
  void *found = capsule ? PyCapsule_GetPointer(capsule.get(), DlExchange::kCapsule) : nullptr;
  PyErr_Clear();
  const auto *exchange = static_cast<const DlExchange *>(found);
  while (exchange != nullptr && exchange->version.major > 1) {
    exchange = exchange->previous;
  }
  const bool isUsable = exchange != nullptr && exchange->version.major == 1 &&
                        exchange->fromPython != nullptr && exchange->currentStream != nullptr;
  return isUsable ? exchange : nullptr;
}

KnownType learnType(PyObject *object) {
  if (const KnownType known = knownType(object); known.sort != Sort::Unknown) {
    return known;
  }
  auto *type = reinterpret_cast<PyObject *>(Py_TYPE(object));
  KnownType known{sortOf(object), nullptr};
  if (known.sort == Sort::Torch) {
    known.exchange = exchangeOf(type);
  }
  knownTypes.add(type, known);
  return known;
}

// ---- numbers and constants

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
    PyErr_Format(PyExc_OverflowError, "argument '%U': the integer does not fit in 64 bits", name);
    return false;
  }
  return true;
}

bool readFloat(PyObject *object, lt_arg &arg) {
  const double value = PyFloat_AsDouble(object);
  arg.kind = LT_ARG_FLOAT;
  arg.bits = std::bit_cast<uint64_t>(value);
  return value != -1.0 || PyErr_Occurred() == nullptr;
}

bool readScalar(PyObject *object, bool isConstexpr, PyObject *name, lt_arg &arg, std::vector<Ref> &kept) {
  const runtime::FloatEnvironment standard; // tiny numbers stay
  const Ref python(PyObject_CallMethod(object, "item", nullptr));
  int none = kNoDevice;
  // A NumPy number that Python has no type for is its own item.
  if (python && Py_TYPE(python.get()) == Py_TYPE(object)) {
    return refuse(name, "a number of this type is not supported");
  }
  return python && classify(python.get(), isConstexpr, name, arg, none, kept);
}

// ---- constants and classes of named tuples: each has a number that no other one ever gets

constexpr Py_ssize_t kMostConstants = 1024;
PyObject *constants = nullptr; // key -> capsule of a Constant

struct Constant {
  uint64_t id;
  lt_value *value;
};

void freeConstant(PyObject *capsule) {
  auto *constant = static_cast<Constant *>(PyCapsule_GetPointer(capsule, nullptr));
  lt_value_free(constant->value);
  delete constant;
}

// What is there under the key, or made by `make`. A full table is begun anew: who asks again for what was
// in it gets another number.
template <class Make> bool internConstant(PyObject *key, Make &&make, lt_arg &arg, std::vector<Ref> &kept) {
  static uint64_t nextId = 1;
  if (constants == nullptr || PyDict_GET_SIZE(constants) >= kMostConstants) {
    Py_XSETREF(constants, PyDict_New());
  }
  Ref capsule = Ref::borrowed(PyDict_GetItemWithError(constants, key));
  if (!capsule) {
    lt_value *value = PyErr_Occurred() == nullptr ? make() : nullptr;
    if (value == nullptr) {
      return false;
    }
    auto *made = new Constant{nextId++, value};
    capsule = Ref(PyCapsule_New(made, nullptr, freeConstant));
    if (!capsule || PyDict_SetItem(constants, key, capsule.get()) != 0) {
      return false;
    }
  }
  const auto *constant = static_cast<const Constant *>(PyCapsule_GetPointer(capsule.get(), nullptr));
  arg.bits = constant->id;
  arg.value = constant->value;
  kept.push_back(std::move(capsule));
  return true;
}

// host.constant(object, name, takes_any) gives a key; equal keys are one constant. Objects that only Python knows are
// constants of constexpr parameters.
bool readConstant(PyObject *object, PyObject *name, lt_arg &arg, std::vector<Ref> &kept, bool takesAny = false) {
  const Ref key(takingGil([&] {
    return PyObject_CallFunctionObjArgs(installed.constant, object, name, takesAny ? Py_True : Py_False, nullptr);
  }));
  arg.kind = LT_ARG_CONSTANT;
  return key && internConstant(key.get(), [&] { return toValue(object); }, arg, kept);
}

bool readWrapped(PyObject *object, bool isConstexpr, PyObject *name, lt_arg &arg, int &device,
                 std::vector<Ref> &kept) {
  Ref value(PyObject_GetAttrString(object, "value"));
  PyObject *inside = value.get();
  kept.push_back(std::move(value));
  if (inside == nullptr) {
    return false;
  }
  // A number in it is a constant for any parameter.
  const bool isNumber = PyLong_Check(inside) != 0 || PyFloat_Check(inside) != 0;
  return isNumber && !isConstexpr ? readConstant(inside, name, arg, kept)
                                  : classify(inside, isConstexpr, name, arg, device, kept);
}

bool classifySlow(PyObject *object, PyObject *name, lt_arg &arg, int &device, std::vector<Ref> &kept) {
  const KnownType known = learnType(object);
  switch (known.sort) {
  case Sort::Numpy:
    device = kCpu;
    return readNumpy(object, name, arg);
  case Sort::NumpySlow:
    device = kCpu;
    return readInterface(object, "__array_interface__", name, arg);
  case Sort::Masked:
    return refuse(name, "a kernel would not see the mask of a masked array; pass x.data or x.filled(value)");
  case Sort::NumpyScalar:
    return readScalar(object, false, name, arg, kept);
  case Sort::Torch:
    return readTorch(object, known.exchange, name, arg, device);
  case Sort::Own:
    return readOwn(object, name, arg, device);
  case Sort::CudaInterface:
    if (!readInterface(object, "__cuda_array_interface__", name, arg)) {
      return false;
    }
    device = lt_device_of(reinterpret_cast<void *>(arg.bits));
    return device >= 0 || arg.bits == 0 || refuse(name, "its address is not in a GPU's memory");
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
  case Sort::Wrapped:
    return readWrapped(object, false, name, arg, device, kept);
  case Sort::Descriptor:
    arg.kind = LT_ARG_TUPLE;
    arg.dtype = kDescriptorFields;
    return internConstant(reinterpret_cast<PyObject *>(Py_TYPE(object)),
                          [] { return lt_value_descriptor_class(); }, arg, kept);
  case Sort::Constant:
  case Sort::Unknown:
    return readConstant(object, name, arg, kept);
  }
  return false;
}

} // namespace

bool classifyConstant(PyObject *object, PyObject *name, lt_arg &arg, std::vector<Ref> &kept) {
  arg.flags = 0;
  arg.dtype = 0;
  return readConstant(object, name, arg, kept);
}

bool classifyTuple(PyObject *tuple, lt_arg &arg, std::vector<Ref> &kept) {
  static PyObject *const fieldsName = intern("_fields");
  arg.kind = LT_ARG_TUPLE;
  arg.flags = 0;
  arg.dtype = static_cast<uint16_t>(PyTuple_GET_SIZE(tuple));
  arg.bits = 0;
  arg.value = nullptr;
  auto *type = reinterpret_cast<PyObject *>(Py_TYPE(tuple));
  if (type == reinterpret_cast<PyObject *>(&PyTuple_Type)) {
    return true;
  }
  const Ref fields(PyObject_GetAttr(type, fieldsName));
  if (!fields || PyTuple_Check(fields.get()) == 0) {
    PyErr_Clear();
    return true;
  }
  return internConstant(type, [&] { return namedTupleClass(tuple); }, arg, kept);
}

bool classify(PyObject *object, bool isConstexpr, PyObject *name, lt_arg &arg, int &device,
              std::vector<Ref> &kept) {
  arg.flags = 0;
  arg.dtype = 0;
  device = kNoDevice;
  PyTypeObject *type = Py_TYPE(object);
  if (!isConstexpr) {
    // The commonest first.
    const KnownType known = knownType(object);
    if (known.sort == Sort::Numpy) {
      device = kCpu;
      return readNumpy(object, name, arg);
    }
    if (known.sort == Sort::Torch) {
      return readTorch(object, known.exchange, name, arg, device);
    }
  }
  if (type == &PyLong_Type) {
    if (!isConstexpr) {
      return readInt(object, name, arg);
    }
    int overflow = 0;
    arg.kind = LT_ARG_INT;
    arg.bits = static_cast<uint64_t>(PyLong_AsLongLongAndOverflow(object, &overflow));
    return overflow == 0 || readConstant(object, name, arg, kept);
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
  if (isConstexpr && hasBase(type, "numpy.generic")) {
    return readScalar(object, true, name, arg, kept);
  }
  if (isConstexpr) {
    const Sort sort = learnType(object).sort;
    return sort == Sort::Wrapped ? readWrapped(object, true, name, arg, device, kept)
                                 : readConstant(object, name, arg, kept, sort == Sort::Constant);
  }
  if (PyLong_Check(object)) {
    return readInt(object, name, arg);
  }
  if (PyFloat_Check(object) && !hasBase(type, "numpy.generic")) {
    return readFloat(object, arg);
  }
  return classifySlow(object, name, arg, device, kept);
}

} // namespace libtile::python
