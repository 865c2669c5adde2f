// SPDX-License-Identifier: Apache-2.0
// What the files about arrays share: sorts of objects, and tables of what is known of types and dtypes.
#pragma once

#include "common.h"
#include "dlpack.h"

#include <string>
#include <string_view>

namespace libtile::python {

enum class Sort : uint8_t {
  Unknown, Numpy, NumpySlow, NumpyScalar, Torch, Own, CudaInterface, Dlpack, Buffer, Index, Number,
  Constant,
  Masked, // numpy.ma
  Wrapped,   // tl.constexpr(value)
  Descriptor // TensorDescriptor of libtile.tools.tensor_descriptor, or one like it
};

// The head of NumPy's PyArrayObject.
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

// A small table that only grows; the objects in it are kept alive.
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

struct KnownType {
  Sort sort = Sort::Unknown;
  const DlExchange *exchange = nullptr; // Torch: null where torch has none
};
extern ObjectTable<KnownType, 32> knownTypes;
// Of the object's type; Unknown before the first of its type.
inline KnownType knownType(PyObject *object) {
  const KnownType *known = knownTypes.find(reinterpret_cast<PyObject *>(Py_TYPE(object)));
  return known != nullptr ? *known : KnownType{};
}
extern ObjectTable<int, 64> knownDtypes; // NumPy's and torch's dtype objects -> type code

inline PyObject *intern(const char *text) { return PyUnicode_InternFromString(text); }
// str(object); no error stays behind.
std::string textOf(PyObject *object);
// TypeError about the argument; false.
bool refuse(PyObject *name, const char *why);

// ---- element types, as codes of lt_dtype; -1: none of ours, -2: byte-swapped
int codeOfName(std::string_view name);
int codeOfTypestr(std::string_view text);
int codeOfDtype(PyObject *dtype);
int codeOfDlpack(const DlTensor &tensor);
bool setDtype(int code, PyObject *dtype, PyObject *name, lt_arg &arg);
void setPointer(lt_arg &arg, uint64_t address, bool isReadOnly);

// ---- one reader a sort
bool readNumpy(PyObject *object, PyObject *name, lt_arg &arg);
// __array_interface__ or __cuda_array_interface__.
bool readInterface(PyObject *object, const char *attribute, PyObject *name, lt_arg &arg);
// `exchange`: torch's, or null.
bool readTorch(PyObject *object, const DlExchange *exchange, PyObject *name, lt_arg &arg, int &device);
bool readOwn(PyObject *object, PyObject *name, lt_arg &arg, int &device);
bool readDlpack(PyObject *object, PyObject *name, lt_arg &arg, int &device);
bool readBuffer(PyObject *object, PyObject *name, lt_arg &arg);

} // namespace libtile::python
