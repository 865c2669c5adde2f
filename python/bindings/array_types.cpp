// SPDX-License-Identifier: Apache-2.0
// Element types by the names that others give them.
#include "arrays.h"

#include <array>
#include <bit>

namespace libtile::python {

ObjectTable<int, 64> knownDtypes;

namespace {

struct NameRow {
  const char *theirs, *ours;
};
constexpr NameRow kNames[] = {
    {"float32", "fp32"}, {"float64", "fp64"}, {"float16", "fp16"}, {"bfloat16", "bf16"},
    {"int8", "int8"},    {"int16", "int16"},  {"int32", "int32"},  {"int64", "int64"},
    {"uint8", "uint8"},  {"uint16", "uint16"}, {"uint32", "uint32"}, {"uint64", "uint64"},
    {"bool", "int1"},
    {"float8_e5m2", "fp8e5"}, {"float8_e4m3fn", "fp8e4nv"}, {"float8_e4m3fnuz", "fp8e4b8"},
    {"float8_e5m2fnuz", "fp8e5b16"},
};

} // namespace

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

int codeOfDlpack(const DlTensor &tensor) {
  constexpr const char *kKinds[] = {"int", "uint", "float", "", "bfloat", "", "bool",
                                    "", "", "", "float8_e4m3fn", "float8_e4m3fnuz",
                                    "float8_e5m2", "float8_e5m2fnuz"};
  constexpr size_t kSizes = 4; // of 8 to 64 bits
  static const auto codes = [&] {
    std::array<int, std::size(kKinds) * kSizes> rows{};
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::string kind = kKinds[i / kSizes], bits = std::to_string(8U << (i % kSizes));
      const bool sayBits = kind != "bool" && !kind.starts_with("float8");
      rows[i] = sayBits ? codeOfName(kind + bits) : bits == "8" ? codeOfName(kind) : -1;
    }
    return rows;
  }();
  const unsigned bits = tensor.typeBits;
  const bool isKnown = tensor.typeCode < std::size(kKinds) && tensor.lanes == 1 && bits >= 8 &&
                       bits <= 64 && std::has_single_bit(bits);
  return isKnown ? codes[tensor.typeCode * kSizes + static_cast<size_t>(std::countr_zero(bits)) - 3] : -1;
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
  arg.bytes = 0;
}

} // namespace libtile::python
