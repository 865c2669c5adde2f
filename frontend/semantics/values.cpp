// SPDX-License-Identifier: Apache-2.0
// What the walker asks of values (decay, conditions, constants), the arguments that operations
// expect, and the types' own members.
#include "frontend/semantics/blocks.h"
#include "ir/float8.h"

#include <algorithm>
#include <array>
#include <limits>

namespace libtile::frontend {

Tensor Semantics::toTensor(const Value &value) {
  if (const Tensor *tensor = value.tensor()) {
    return *tensor;
  }
  return toComputation(value, operandType(*this, value).dtype);
}

Tensor Semantics::toTensor(const Value &value, DType dtype) {
  const Constant *constant = value.constant();
  if (constant == nullptr || dtype.isPointer()) {
    return cast(toTensor(value), dtype);
  }
  const DType natural = operandType(*this, value).dtype;
  // A number goes to its type at once where that loses nothing, else as a cast would take it.
  return dtype.isFloat() || holds(dtype, *constant) ? toComputation(value, dtype)
                                                    : cast(toComputation(value, natural), dtype);
}

Value Semantics::decay(const Value &value) {
  if (const Aggregate *tuple = value.tuple()) {
    std::vector<Value> items = tuple->fields;
    for (Value &item : items) {
      item = decay(item);
    }
    return tuple->with(std::move(items));
  }
  const Constant *constant = value.constant();
  if (constant == nullptr || value.isNone() || std::holds_alternative<std::string>(*constant)) {
    return value;
  }
  return Value(toTensor(value));
}

Tensor Semantics::condition(const Value &value) {
  Tensor tensor = toTensor(value);
  if (irType(tensor.dtype, tensor.shape).numElements() != 1) {
    fail("the truth of " + value.describe() + " is ambiguous: a condition must be a scalar");
  }
  return toBool(*this, onlyElement(*this, tensor));
}

std::optional<bool> Semantics::constantTruth(const Value &value) const {
  if (value.tensor() != nullptr) {
    return std::nullopt;
  }
  const Constant *constant = value.constant();
  const bool isTruth = constant != nullptr && !std::holds_alternative<std::string>(*constant) &&
                       !std::holds_alternative<double>(*constant);
  if (!isTruth) {
    fail("a constant condition must be a bool, an int or None, got " + value.describe());
  }
  return !value.isNone() && *constantBigInt(*constant) != 0;
}

int64_t Semantics::constantInt(const Value &value, const std::string &what) const {
  const Constant *constant = value.constant();
  const std::optional<BigInt> number =
      constant != nullptr ? constantBigInt(*constant) : std::nullopt;
  if (!number) {
    fail(value, what + " must be a constant integer, got " + value.describe() +
         (value.tensor() != nullptr && value.tensor()->isScalar() && value.tensor()->dtype.isInt()
              ? "; annotate the parameter or the variable that it comes from with `: tl.constexpr`"
              : ""));
  }
  if (*number < std::numeric_limits<int64_t>::min() ||
      *number > std::numeric_limits<int64_t>::max()) {
    fail(value, what + " is " + bigIntText(*number) + ", which does not fit in 64 bits");
  }
  return static_cast<int64_t>(*number);
}

bool constantBool(const Semantics &s, const Value &value, const std::string &what) {
  const Constant *constant = value.constant();
  if (constant == nullptr || (!value.isNone() && !constantBigInt(*constant))) {
    s.fail(value, what + " must be a constant bool, got " + value.describe());
  }
  return !value.isNone() && *constantBigInt(*constant) != 0;
}

std::string constantString(const Semantics &s, const Value &value, const std::string &what) {
  const Constant *constant = value.constant();
  const std::string *text = constant != nullptr ? std::get_if<std::string>(constant) : nullptr;
  if (text == nullptr) {
    s.fail(value, what + " must be a constant text, got " + value.describe());
  }
  return *text;
}

std::string optionalString(const Semantics &s, const Value &value, const std::string &what) {
  return value.isNone() ? "" : constantString(s, value, what);
}

DType scalarType(const Semantics &s, const Value &value, const std::string &what) {
  const TypeValue *type = value.as<TypeValue>();
  if (type == nullptr) {
    s.fail(value, what + " must be a type such as tl.float32, got " + value.describe());
  }
  return type->dtype;
}

Tensor requireTensor(const Semantics &s, const Value &value, const std::string &what) {
  if (value.tensor() == nullptr) {
    s.fail(value, what + " must be a tensor, got " + value.describe());
  }
  return *value.tensor();
}

std::vector<int64_t> constantInts(const Semantics &s, const Value &value, const std::string &what) {
  const Aggregate *tuple = value.tuple();
  if (tuple != nullptr && tuple->fields.size() == 1 && tuple->fields[0].tuple() != nullptr) {
    tuple = tuple->fields[0].tuple();
  }
  const auto number = [&](const Value &item) { return s.constantInt(item, what); };
  if (tuple == nullptr) {
    return {number(value)};
  }
  std::vector<int64_t> numbers;
  for (const Value &item : tuple->fields) {
    numbers.push_back(number(item));
  }
  return numbers;
}

std::vector<int32_t> constantShape(const Semantics &s, const Value &value,
                                   const std::string &what) {
  std::vector<int32_t> shape;
  for (const int64_t extent : constantInts(s, value, what)) {
    if (extent < 1 || extent > ir::Type::kMaxElements) {
      s.fail(value, what + " has extent " + std::to_string(extent) + "; an extent is from 1 to " +
             std::to_string(ir::Type::kMaxElements));
    }
    shape.push_back(static_cast<int32_t>(extent));
  }
  checkShape(s, shape, what, value);
  return shape;
}

unsigned wrapAxis(const Semantics &s, int64_t axis, size_t rank, const Value &argument) {
  const auto signedRank = static_cast<int64_t>(rank);
  if (axis < -signedRank || axis >= signedRank) {
    s.fail(argument, "axis " + std::to_string(axis) + " is outside of a tile with " +
                         std::to_string(rank) + (rank == 1 ? " axis" : " axes"));
  }
  return static_cast<unsigned>(axis < 0 ? axis + signedRank : axis);
}

// ---- attributes and subscripts

namespace {

Value tensorAttribute(Semantics &s, const Tensor &x, const std::string &name) {
  if (name == "dtype") {
    return Value(TypeValue{x.dtype, {}});
  }
  if (name == "type") {
    return Value(x.type());
  }
  if (name == "shape") {
    return shapeValue(x.shape);
  }
  if (name == "numel") {
    return Value::integer(elementCount(x.shape));
  }
  if (name == "T") {
    if (x.shape.size() != 2) {
      s.fail(".T takes a tile with two axes, got shape " + shapeText(x.shape));
    }
    constexpr std::array<int64_t, 2> kSwapped = {1, 0};
    return Value(permuteTo(s, x, kSwapped));
  }
  const Operation *operation = Semantics::findMember(name, Operation::Receiver::Tensor);
  return operation != nullptr ? boundMethod(Value(x), operation) : Value();
}

Value fieldOf(const Aggregate &aggregate, const std::string &name) {
  const std::vector<std::string> &names = aggregate.cls->fields;
  const auto found = std::ranges::find(names, name);
  return found != names.end() ? aggregate.fields[static_cast<size_t>(found - names.begin())]
                              : Value();
}

// The slice that the value is; nullptr for other values.
const Aggregate *sliceOf(const Value &value) {
  const Aggregate *all = value.aggregate();
  return all != nullptr && all->cls->is(*Class::slice()) ? all : nullptr;
}

// `:`, which where no axis is left stands for none.
bool isWhole(const Value &part) {
  const Aggregate *slice = sliceOf(part);
  return slice != nullptr && std::ranges::all_of(slice->fields, &Value::isNone);
}

// A bound of a slice of a sequence of `size` items, clamped as Python does.
int64_t sliceBound(Semantics &s, const Value &value, int64_t fallback, int64_t size, bool down) {
  if (value.isNone()) {
    return fallback;
  }
  int64_t bound = s.constantInt(value, "a bound of a slice");
  if (bound < 0) {
    bound += size;
  }
  return std::clamp(bound, down ? int64_t{-1} : int64_t{0}, down ? size - 1 : size);
}

// The items of a sequence of `size` that a slice names: begin, begin + step, ... before end.
struct SliceRange {
  int64_t begin, end, step;
  [[nodiscard]] int64_t count() const {
    const int64_t distance = step < 0 ? begin - end : end - begin;
    const int64_t stride = step < 0 ? -step : step;
    return distance <= 0 ? 0 : (distance - 1) / stride + 1;
  }
};

SliceRange sliceRange(Semantics &s, const Aggregate &slice, int64_t size) {
  const int64_t step =
      slice.fields[2].isNone() ? 1 : s.constantInt(slice.fields[2], "the step of a slice");
  if (step == 0) {
    s.fail("the step of a slice is 0");
  }
  const bool down = step < 0;
  // A longer step takes the first item alone, as well as this one.
  return {sliceBound(s, slice.fields[0], down ? size - 1 : 0, size, down),
          sliceBound(s, slice.fields[1], down ? -1 : size, size, down),
          std::clamp<int64_t>(step, -size - 1, size + 1)};
}

Value sliceTuple(Semantics &s, const Aggregate &tuple, const Aggregate &slice) {
  const SliceRange range = sliceRange(s, slice, static_cast<int64_t>(tuple.fields.size()));
  std::vector<Value> items;
  for (int64_t i = 0; i < range.count(); ++i) {
    items.push_back(tuple.fields[static_cast<size_t>(range.begin + i * range.step)]);
  }
  return Value::tuple(std::move(items));
}

// Position of an index in a sequence.
size_t itemIndex(Semantics &s, const Value &index, size_t size, const char *what) {
  const int64_t number = s.constantInt(index, std::string("the index of a ") + what);
  const auto signedSize = static_cast<int64_t>(size);
  if (number < -signedSize || number >= signedSize) {
    s.fail("index " + std::to_string(number) + " is outside of a " + what + " of " +
           std::to_string(size));
  }
  return static_cast<size_t>(number < 0 ? number + signedSize : number);
}

// One part of a subscript of a tile, which stands for its axis `axis`: a slice or an index.
Tensor partOfAxis(Semantics &s, const Tensor &x, unsigned axis, const Value &part) {
  const int64_t extent = x.shape[axis];
  if (const Aggregate *slice = sliceOf(part)) {
    const SliceRange range = sliceRange(s, *slice, extent);
    if (range.count() == 0) {
      s.fail("an empty slice of axis " + std::to_string(axis) + ", of extent " +
             std::to_string(extent));
    }
    return sliceTile(s, x, axis, range.begin, range.step, static_cast<int32_t>(range.count()));
  }
  if (part.tensor() != nullptr) {
    s.fail("a tensor is subscripted by None, slices and constants, got " + part.describe() +
           "; elements at indices that are not known before the kernel runs are taken by gather");
  }
  const auto index = static_cast<int64_t>(itemIndex(s, part, x.shape[axis], "tensor's axis"));
  const Tensor element = sliceTile(s, x, axis, index, 1, 1);
  std::vector<int32_t> shape = element.shape;
  shape.erase(shape.begin() + axis);
  return reshapeTo(s, element, shape);
}

Value tensorSubscript(Semantics &s, const Tensor &x, const Value &index) {
  const std::vector<Value> parts =
      index.tuple() != nullptr ? index.tuple()->fields : std::vector<Value>{index};
  Tensor result = x;
  size_t used = 0;
  unsigned axis = 0; // of the result, which the next part stands for
  for (const Value &part : parts) {
    if (part.isNone()) {
      result = expandDims(s, result, axis++);
      continue;
    }
    if (used == x.shape.size() && isWhole(part)) {
      continue;
    }
    if (++used > x.shape.size()) {
      s.fail("too many indices for shape " + shapeText(x.shape));
    }
    result = partOfAxis(s, result, axis, part);
    axis += sliceOf(part) != nullptr ? 1 : 0;
  }
  return Value(std::move(result));
}

// What `type` of a constant or a tuple is.
Value typeOf(Semantics &s, const Value &value) {
  const Aggregate *tuple = value.tuple();
  if (tuple == nullptr) {
    return value.tensor() != nullptr || value.aggregate() != nullptr
               ? s.attribute(value, "type")
               : Value::aggregate(Class::constexprType(), {value});
  }
  std::vector<Value> types, names;
  for (const Value &field : tuple->fields) {
    types.push_back(typeOf(s, field));
  }
  for (const std::string &name : tuple->cls->fields) {
    names.push_back(Value::string(name));
  }
  return Value::aggregate(Class::tupleType(), {Value::tuple(std::move(types)),
                                               names.empty() ? Value::none() : Value::tuple(std::move(names))});
}

} // namespace

Value Semantics::attribute(const Value &object, const std::string &name) {
  if (const Tensor *tensor = object.tensor()) {
    return tensorAttribute(*this, *tensor, name);
  }
  if (const TypeValue *type = object.as<TypeValue>()) {
    return typeAttribute(*type, name);
  }
  if (const Aggregate *aggregate = object.aggregate()) {
    const Value field = fieldOf(*aggregate, name);
    return field.bound()                                    ? field
           : object.tuple() != nullptr && name == "type" ? typeOf(*this, object)
                                                            : blockAttribute(*aggregate, name);
  }
  if (const auto *part = object.as<const LanguagePart *>()) {
    return partName(**part, name);
  }
  if (const auto *operation = object.as<const Operation *>()) {
    return (*operation)->name == std::string_view("dtype") ? dtypeConstant(name) : Value();
  }
  const bool isConstant = object.constant() != nullptr;
  return isConstant && name == "value" ? object : isConstant && name == "type" ? typeOf(*this, object) : Value();
}

void Semantics::noAttribute(const Value &object, const std::string &name) const {
  std::vector<std::string> names;
  const auto addMembers = [&](Operation::Receiver receiver) {
    for (const Operation &row : operations()) {
      if (row.isMemberOf(receiver)) {
        names.emplace_back(row.name);
      }
    }
  };
  if (object.tensor() != nullptr) {
    if (isLater(name)) {
      unsupported("tl." + name + " is not there yet");
    }
    names = {"dtype", "type", "shape", "numel"};
    addMembers(Operation::Receiver::Tensor);
  } else if (object.as<TypeValue>() != nullptr) {
    names = typeAttributeNames();
    addMembers(Operation::Receiver::Type);
  } else if (const Aggregate *aggregate = object.aggregate()) {
    names = aggregate->cls->fields;
    if (aggregate->cls == Class::tensorDescriptor()) {
      addMembers(Operation::Receiver::Descriptor);
    }
  } else if (const auto *part = object.as<const LanguagePart *>()) {
    const std::string &prefix = (*part)->prefix;
    if ((*part)->members.empty() && prefix.empty()) {
      unknownName(name);
    }
    names = (*part)->members;
    for (const Operation &row : operations()) {
      if (!prefix.empty() && std::string_view(row.name).starts_with(prefix)) {
        names.emplace_back(row.name + prefix.size());
      }
    }
  }
  const std::string instead = object.tensor() != nullptr && find(name) != nullptr ? "; there is tl." + name
                              : object.tuple() != nullptr ? "; a tuple or list does not change, t + (x,) is a longer one"
                                                          : didYouMean(name, names);
  fail(object.describe() + " has no attribute `" + name + "`" + instead);
}

Value Semantics::subscript(const Value &object, const Value &index) {
  if (const Tensor *tensor = object.tensor()) {
    return tensorSubscript(*this, *tensor, index);
  }
  if (const Aggregate *tuple = object.tuple()) {
    if (const Aggregate *slice = sliceOf(index)) {
      return sliceTuple(*this, *tuple, *slice);
    }
    return tuple->fields[itemIndex(*this, index, tuple->fields.size(), "tuple")];
  }
  const Constant *constant = object.constant();
  if (constant != nullptr && std::holds_alternative<std::string>(*constant) &&
      sliceOf(index) == nullptr) {
    const auto &text = std::get<std::string>(*constant);
    return Value::string(std::string(1, text[itemIndex(*this, index, text.size(), "text")]));
  }
  const bool isFunction = object.as<std::shared_ptr<const FunctionSource>>() != nullptr;
  fail("a subscript does not take " + object.describe() + (isFunction ? "; a kernel calls it without a grid" : ""));
}

} // namespace libtile::frontend
