// SPDX-License-Identifier: Apache-2.0
#include "call.h"

#include "arrays.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace libtile::python {

namespace {

bool fail(PyObject *type, PyObject *self, const char *format, PyObject *name) {
  const Ref text(PyUnicode_FromFormat(format, name));
  const char *kernel = lt_function_name(asJit(self)->function);
  if (text) {
    PyErr_Format(type, "%s(): %U", kernel, text.get());
  }
  return false;
}

// The options' names, interned, and what values they take.
struct OptionNames {
  size_t count = 0;
  const lt_option *rows;
  std::vector<PyObject *> names;
  OptionNames() : rows(lt_option_rows(&count)) {
    for (size_t i = 0; i < count; ++i) {
      names.push_back(intern(rows[i].name));
    }
  }
};
const OptionNames &options() {
  static const OptionNames known;
  return known;
}

size_t indexOfOption(const char *name) {
  size_t index = 0;
  while (std::strcmp(options().rows[index].name, name) != 0) {
    ++index;
  }
  return index;
}

// The flag that the object is equal to (bools, 0 and 1, those of NumPy and tl.constexpr too); -1, without
// a Python error: it is equal to neither.
int readFlag(PyObject *value) {
  int flag = -1;
  for (PyObject *each : {Py_False, Py_True}) {
    if (PyObject_RichCompareBool(value, each, Py_EQ) == 1) {
      flag = each == Py_True ? 1 : 0;
    }
  }
  PyErr_Clear();
  return flag;
}

bool refuseOption(PyObject *self, const lt_option &option, PyObject *value) {
  PyErr_Clear();
  const Ref text(PyUnicode_FromFormat("'%s' is %R; it takes %s", option.name, value, option.takes));
  return text && fail(PyIndex_Check(value) != 0 ? PyExc_ValueError : PyExc_TypeError, self, "%U", text.get());
}

// Whether the option takes the object; a Python error may be set if not.
bool readValue(size_t at, PyObject *value, int64_t &number) {
  if (value == Py_None) {
    number = LT_STANDARD_VALUE;
    return true;
  }
  switch (options().rows[at].kind) {
  case LT_OPTION_OBJECT:
    number = 1;
    return true;
  case LT_OPTION_FLAG:
    number = readFlag(value);
    return number >= 0;
  case LT_OPTION_PRECISION: {
    const char *text = PyUnicode_Check(value) != 0 ? PyUnicode_AsUTF8(value) : nullptr;
    number = text != nullptr ? lt_option_value(at, text) : -1;
    return number >= 0;
  }
  default:
    const Ref index(PyNumber_Index(value));
    int overflow = 0;
    number = index ? PyLong_AsLongLongAndOverflow(index.get(), &overflow) : -1;
    return index && overflow == 0 && lt_option_fits(at, number) != 0;
  }
}

bool readOption(PyObject *self, size_t at, PyObject *value, int64_t &number) {
  return readValue(at, value, number) || refuseOption(self, options().rows[at], value);
}

// What the function itself says of its launches, unless the call does.
void takeOwnOptions(PyObject *self, Call &call) {
  for (size_t i = 0; i < std::size(kOwnOptions); ++i) {
    const int64_t own = asJit(self)->own[i];
    if (own == LT_STANDARD_VALUE) [[likely]] {
      continue;
    }
    const auto index = static_cast<uint32_t>(indexOfOption(kOwnOptions[i]));
    const std::span given(call.options.option, call.options.count);
    if (std::ranges::find(given, index) == given.end()) {
      call.options.option[call.options.count] = index;
      call.options.value[call.options.count++] = own;
    }
  }
}

// Equal names are one object, but for those made at run time.
enum class By : uint8_t { Identity, Text };
bool same(By by, PyObject *a, PyObject *b) {
  return by == By::Identity ? a == b : PyUnicode_Compare(a, b) == 0;
}

// What a keyword was found to be.
enum class Found : uint8_t { Nothing, Taken, Refused };

Found takeOption(PyObject *self, By by, PyObject *name, PyObject *value, Call &call) {
  const OptionNames &known = options();
  for (size_t i = 0; i < known.count; ++i) {
    if (same(by, known.names[i], name)) {
      const uint32_t at = call.options.count++; // each keyword comes once
      call.options.option[at] = static_cast<uint32_t>(i);
      return readOption(self, i, value, call.options.value[at]) ? Found::Taken : Found::Refused;
    }
  }
  return Found::Nothing;
}

// A parameter of an option's name takes the value; a constexpr one leaves it to the option too.
Found takeParameter(PyObject *self, By by, PyObject *name, PyObject *value, Call &call) {
  const std::vector<Param> &params = *asJit(self)->params;
  for (size_t i = 0; i < params.size(); ++i) {
    if (same(by, params[i].name, name)) {
      if (call.values[i] != nullptr) {
        fail(PyExc_TypeError, self, "got several values for parameter '%U'", name);
        return Found::Refused;
      }
      call.values[i] = value;
      return params[i].isOption ? takeOption(self, By::Text, name, value, call) : Found::Taken;
    }
  }
  return Found::Nothing;
}

bool namesGpu(std::string_view name) { return name.starts_with("cuda") || name.starts_with("hip"); }

// device="interpreter"; that of the arrays, "cpu", "cuda" or "hip", may be said too.
Found takeDevice(PyObject *self, By by, PyObject *name, PyObject *value, Call &call) {
  static PyObject *device = intern("device");
  if (!same(by, device, name)) {
    return Found::Nothing;
  }
  const char *text = PyUnicode_Check(value) != 0 ? PyUnicode_AsUTF8(value) : nullptr;
  const std::string_view given = text != nullptr ? text : "";
  call.isInterpreted = given == "interpreter";
  if (value == Py_None || call.isInterpreted || given == "cpu" || namesGpu(given)) {
    call.deviceName = text;
    return Found::Taken;
  }
  PyErr_Clear();
  fail(PyExc_ValueError, self, "'device' is %R; it takes 'interpreter', or the device of the arrays", value);
  return Found::Refused;
}

// Whether what `device` says is where the arrays are. A launch without either goes home; types are compiled for a target.
bool checkDevice(PyObject *self, Call &call, bool isLaunch) {
  if (call.device == kNoDevice && call.deviceName == nullptr) {
    return !isLaunch || findHome(call.device, call.homeStream);
  }
  if (call.deviceName == nullptr || (call.device == kNoDevice && !namesGpu(call.deviceName))) {
    return true;
  }
  const std::string_view name = call.deviceName;
  const bool isOnGpu = call.device >= 0;
  const bool isThere = isOnGpu ? name == nameOfDevice(call.device) || std::string(name) + ":0" == nameOfDevice(call.device)
                               : name == "interpreter" || (name == "cpu" && call.device == kCpu);
  return isThere || fail(PyExc_ValueError, self, "'device' is '%U', and the arrays are elsewhere",
                         Ref(PyUnicode_FromString(call.deviceName)).get());
}

bool refuseKeyword(PyObject *self, PyObject *name) {
  std::vector<const char *> known;
  for (const Param &param : *asJit(self)->params) {
    known.push_back(PyUnicode_AsUTF8(param.name));
  }
  for (size_t i = 0; i < options().count; ++i) {
    known.push_back(options().rows[i].name);
  }
  const char *given = PyUnicode_AsUTF8(name);
  const char *hint = given != nullptr ? lt_did_you_mean(given, known.data(), known.size()) : nullptr;
  const Ref text(
      hint != nullptr ? PyUnicode_FromFormat("there is no parameter or option '%U'%s", name, hint) : nullptr);
  return text && fail(PyExc_TypeError, self, "%U", text.get());
}

bool bindKeyword(PyObject *self, PyObject *name, PyObject *value, Call &call) {
  for (const By by : {By::Identity, By::Text}) {
    for (const auto take : {takeParameter, takeOption, takeDevice}) {
      if (const Found found = take(self, by, name, value, call); found != Found::Nothing) {
        return found == Found::Taken;
      }
    }
  }
  return refuseKeyword(self, name);
}

// "*fp32", "i32:16": a type for a compilation without arguments.
bool classifyType(PyObject *text, PyObject *name, lt_arg &arg) {
  const char *utf8 = PyUnicode_AsUTF8(text);
  if (utf8 == nullptr) {
    return false;
  }
  const char *why = lt_read_type(utf8, &arg);
  if (*why != '\0') {
    PyErr_Format(PyExc_TypeError, "argument '%U': %s", name, why);
  }
  return *why == '\0';
}

bool refuseGrid(PyObject *self, PyObject *type, PyObject *grid) {
  PyErr_Clear();
  const Ref text(PyUnicode_FromFormat("the grid is %R; it is 1 to 3 integers in 0 .. 2147483647, or a function "
                                      "that makes them of the arguments", grid));
  return text && fail(type, self, "%U", text.get());
}

// Of a grid, for messages.
bool readExtent(PyObject *self, PyObject *grid, PyObject *item, int64_t &extent) {
  const Ref number(PyNumber_Index(item));
  if (!number) {
    return refuseGrid(self, PyExc_TypeError, grid);
  }
  int overflow = 0;
  extent = PyLong_AsLongLongAndOverflow(number.get(), &overflow);
  return overflow == 0 || refuseGrid(self, PyExc_ValueError, grid);
}

bool readGrid(PyObject *self, PyObject *grid, int64_t extents[3]) {
  extents[0] = extents[1] = extents[2] = 1;
  if (Py_TYPE(grid)->tp_iter == nullptr && PySequence_Check(grid) == 0) {
    return readExtent(self, grid, grid, extents[0]);
  }
  const Ref items(PySequence_Tuple(grid));
  if (!items) {
    return false;
  }
  const Py_ssize_t count = PyTuple_GET_SIZE(items.get());
  if (count < 1 || count > 3) {
    return refuseGrid(self, PyExc_ValueError, grid);
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!readExtent(self, grid, PyTuple_GET_ITEM(items.get(), i), extents[i])) {
      return false;
    }
  }
  return true;
}

PyObject *packed(PyObject *const *items, size_t count, Call &call) {
  Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; tuple && i < count; ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(items[i]));
  }
  PyObject *made = tuple.get();
  call.kept.push_back(std::move(tuple));
  return made;
}

bool add(PyObject *self, Call &call, const Param &param, PyObject *value, bool allowTypes);

// The fields of a tensor descriptor, whose head is added: the array, its shape and strides, and as constants
// what a block is, the padding, and whether numbers are rounded.
bool addFields(PyObject *self, Call &call, const Param &param, PyObject *descriptor) {
  static PyObject *const names[kDescriptorFields] = {
      intern("base"),        intern("shape"),   intern("strides"),
      intern("block_shape"), intern("padding"), intern("round_f32_to_tf32")};
  constexpr int kFirstTuple = 1, kFirstConstant = 3, kFirstPlain = 4;
  for (int i = 0; i < kDescriptorFields; ++i) {
    Ref field(PyObject_GetAttr(descriptor, names[i]));
    if (field && i >= kFirstTuple && i < kFirstPlain) {
      field = Ref(PySequence_Tuple(field.get()));
    }
    if (!field) {
      return false;
    }
    PyObject *value = field.get();
    call.kept.push_back(std::move(field));
    if (i < kFirstConstant) {
      if (!add(self, call, param, value, false)) {
        return false;
      }
      continue;
    }
    if (call.count == LT_MAX_ARGUMENTS) {
      return fail(PyExc_TypeError, self, "more than 256 arguments, with the items of '%U'", param.name);
    }
    lt_arg &arg = call.args[call.count];
    call.objects[call.count++] = value;
    if (!classifyConstant(value, param.name, arg, call.kept)) {
      return false;
    }
  }
  return true;
}

// Adds the value to the call's arguments; behind a tuple its items.
bool add(PyObject *self, Call &call, const Param &param, PyObject *value, bool allowTypes) {
  if (call.count == LT_MAX_ARGUMENTS) {
    return fail(PyExc_TypeError, self, "more than 256 arguments, with the items of '%U'", param.name);
  }
  lt_arg &arg = call.args[call.count];
  call.objects[call.count++] = value;
  if (PyTuple_Check(value) && !param.isConstexpr) {
    if (PyTuple_GET_SIZE(value) > LT_MAX_ARGUMENTS) {
      return fail(PyExc_TypeError, self, "'%U' has more than 256 items", param.name);
    }
    bool good = classifyTuple(value, arg, call.kept);
    for (Py_ssize_t i = 0; good && i < PyTuple_GET_SIZE(value); ++i) {
      good = add(self, call, param, PyTuple_GET_ITEM(value, i), allowTypes);
    }
    return good;
  }
  if (allowTypes && !param.isConstexpr && PyUnicode_Check(value)) {
    return classifyType(value, param.name, arg);
  }
  int device = kNoDevice;
  if (!classify(value, param.isConstexpr, param.name, arg, device, call.kept)) {
    return false;
  }
  if (arg.kind == LT_ARG_TUPLE) {
    return addFields(self, call, param, value);
  }
  if (device == kNoDevice || device == call.device) {
    return true;
  }
  // The interpreter's memory is the host's.
  if ((call.device == kCpu && device == kInterpreter) || (call.device == kInterpreter && device == kCpu)) {
    call.device = kInterpreter;
    return true;
  }
  if (call.device != kNoDevice) {
    return fail(PyExc_ValueError, self, "argument '%U' is on another device than the arrays before it",
                param.name);
  }
  call.device = device;
  call.deviceArgument = value;
  return true;
}

} // namespace

bool readOwnOption(const char *name, PyObject *value, int64_t &number) {
  const size_t at = indexOfOption(name);
  if (!readValue(at, value, number)) {
    PyErr_Format(PyExc_TypeError, "jit(): '%s' is %R; it takes %s", name, value, options().rows[at].takes);
    return false;
  }
  return true;
}

bool isOption(PyObject *name) {
  for (PyObject *each : options().names) {
    if (PyUnicode_Compare(each, name) == 0) {
      return true;
    }
  }
  return false;
}

bool bind(PyObject *self, PyObject *const *args, size_t positional, PyObject *names, Call &call) {
  if (!ensureParsed(self)) {
    return false;
  }
  const std::vector<Param> &params = *asJit(self)->params;
  call.numValues = params.size();
  if (params.size() > LT_MAX_ARGUMENTS) {
    PyErr_SetString(PyExc_TypeError, "a kernel has at most 256 parameters");
    return false;
  }
  size_t taken = 0;
  for (size_t i = 0; i < params.size(); ++i) {
    call.values[i] = taken < positional && !params[i].isByName && !params[i].isVariadic ? args[taken++]
                                                                                       : nullptr;
    if (params[i].isVariadic) {
      call.values[i] = packed(args + taken, positional - taken, call);
      taken = positional;
    }
  }
  if (taken < positional) {
    PyErr_Format(PyExc_TypeError, "%s() takes %zu argument%s, %zu were given",
                 lt_function_name(asJit(self)->function), taken, taken == 1 ? "" : "s", positional);
    return false;
  }
  const Py_ssize_t keywords = names != nullptr ? PyTuple_GET_SIZE(names) : 0;
  for (Py_ssize_t i = 0; i < keywords; ++i) {
    if (!bindKeyword(self, PyTuple_GET_ITEM(names, i), args[positional + static_cast<size_t>(i)], call)) {
      return false;
    }
  }
  return true;
}

bool bindDefaults(PyObject *self, Call &call) {
  const std::vector<Param> &params = *asJit(self)->params;
  takeOwnOptions(self, call);
  for (size_t i = 0; i < params.size(); ++i) {
    if (call.values[i] == nullptr && (call.values[i] = params[i].deflt) == nullptr) {
      return fail(PyExc_TypeError, self, "parameter '%U' is missing", params[i].name);
    }
  }
  return true;
}

bool classifyAll(PyObject *self, Call &call, bool allowTypes) {
  const std::vector<Param> &params = *asJit(self)->params;
  for (size_t i = 0; i < call.numValues; ++i) {
    if (!add(self, call, params[i], call.values[i], allowTypes)) {
      return false;
    }
  }
  return checkDevice(self, call, !allowTypes);
}

bool classifyGiven(PyObject *self, Call &call) {
  const std::vector<Param> &params = *asJit(self)->params;
  for (size_t i = 0; i < call.numValues; ++i) {
    const bool isHole = call.values[i] == nullptr;
    // None stands in for what comes.
    if (!add(self, call, params[i], isHole ? Py_None : call.values[i], false)) {
      return false;
    }
    if (isHole) {
      call.objects[call.count - 1] = nullptr;
      call.args[call.count - 1].bits = i;
    }
  }
  return true;
}

bool classifyHoles(PyObject *self, Call &call) {
  const size_t count = call.count;
  for (size_t hole = 0; hole < count; ++hole) {
    if (call.objects[hole] != nullptr) {
      continue;
    }
    const size_t i = call.args[hole].bits;
    call.count = hole;
    if (!add(self, call, (*asJit(self)->params)[i], call.values[i], false)) {
      return false;
    }
    if (call.count != hole + 1) { // a tuple, over the arguments behind it
      call.count = 0;
      call.device = kNoDevice;
      return classifyAll(self, call, false);
    }
  }
  call.count = count;
  return checkDevice(self, call, true);
}

Ref byName(PyObject *self, const Call &call) {
  Ref meta(PyDict_New());
  for (size_t i = 0; meta && i < call.numValues; ++i) {
    if (PyDict_SetItem(meta.get(), (*asJit(self)->params)[i].name, call.values[i]) != 0) {
      return Ref();
    }
  }
  return meta;
}

Ref optionsByName(const Call &call) {
  Ref made(PyDict_New());
  for (uint32_t i = 0; made && i < call.options.count; ++i) {
    const Ref value(PyLong_FromLongLong(call.options.value[i]));
    const bool isGiven = call.options.value[i] != LT_STANDARD_VALUE;
    if (!value || (isGiven && PyDict_SetItem(made.get(), options().names[call.options.option[i]], value.get()) != 0)) {
      return Ref();
    }
  }
  return made;
}

bool evaluateGrid(PyObject *self, PyObject *grid, const Call &call, int64_t extents[3]) {
  if (PyTuple_Check(grid) || PyCallable_Check(grid) == 0) {
    return readGrid(self, grid, extents);
  }
  const Ref meta = byName(self, call);
  const Ref result(
      meta ? takingGil([&] { return PyObject_CallOneArg(grid, meta.get()); }) : nullptr);
  return result && readGrid(self, result.get(), extents);
}

} // namespace libtile::python
