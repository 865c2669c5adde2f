// SPDX-License-Identifier: Apache-2.0
// What an expression of the kernel language evaluates to while a kernel is being specialised.
//
//   constant       None, a bool, an int, a float or a text of Python's sort
//   tensor         a tile or a scalar of the running program
//   aggregate      {class, fields}: tuples, named tuples, slices, objects of the user's classes
//   class          what makes aggregates
//   type           an element type or the type of a tile: `tl.float32`, `x.type`
//   function, operation, bound method, host object: what can be called
//   language part  `tl`, `tl.math`, ...
//
// Values do not change: an assignment binds a name to another value. Tensors lie at the leaves of
// aggregates alone, so whatever carries values through branches and loops takes aggregates apart and
// puts them together again, and knows no sort of them. sameValue() is the identity of values; a host
// keeps one HostObject for each of its objects, so theirs is the object's.
#pragma once

#include "ir/function.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace libtile::frontend {

struct FunctionSource; // a parsed jit function, frontend/syntax/source.h
struct Operation;      // a row of language.def, frontend/semantics/semantics.h
struct LanguagePart;   // `tl` or a submodule of it, frontend/semantics/semantics.h
class HostObject;      // an object that only the Host understands, frontend/specialise/host.h

// Element types as the user sees them: integers have a sign, pointers may be read-only, and an 8-bit float
// is an i8 of the IR.
struct DType {
  ir::Elem elem = ir::Elem::Void;
  bool isSigned = true; // integers; i1 is unsigned
  uint8_t pointerDepth = 0;
  bool isConst = false; // pointers
  std::optional<ir::Float8> float8 = {}; // with I8: its code

  [[nodiscard]] bool isPointer() const { return pointerDepth != 0; }
  [[nodiscard]] bool isInt() const { return !isPointer() && !float8 && ir::isInt(elem); }
  [[nodiscard]] bool isBool() const { return !isPointer() && elem == ir::Elem::I1; }
  [[nodiscard]] bool isFloat() const { return isFloat8() || (!isPointer() && ir::isFloat(elem)); }
  [[nodiscard]] bool isFloat8() const { return !isPointer() && float8.has_value(); }
  [[nodiscard]] ir::Type irType() const { return ir::Type::scalar(elem, pointerDepth); }
  [[nodiscard]] DType pointee() const;
  [[nodiscard]] DType pointerTo() const;
  // Triton's name: "int32", "uint8", "fp16", "bf16", "fp8e5", "int1", "pointer<fp32>".
  [[nodiscard]] std::string name() const;
  // Of that name or of its short form ("i32", "u8", "f32", "*fp32"); nullopt if there is none.
  static std::optional<DType> byName(std::string_view name);
  friend bool operator==(const DType &, const DType &) = default;
};

// A scalar type (empty shape) or a tile type, as a value of the language ("tl.float32", "x.type").
struct TypeValue {
  DType dtype;
  std::vector<int32_t> shape;
  friend bool operator==(const TypeValue &, const TypeValue &) = default;
};

// A tile or a scalar of the running program.
struct Tensor {
  ir::ValueId id;
  DType dtype;
  std::vector<int32_t> shape; // empty: scalar
  [[nodiscard]] bool isScalar() const { return shape.empty(); }
  [[nodiscard]] TypeValue type() const { return {dtype, shape}; }
};

// A compile-time constant of Python's sort. Integers beyond 127 bits are a located error.
using BigInt = __int128;
struct None {
  friend bool operator==(None, None) = default;
};
using Constant = std::variant<None, bool, BigInt, double, std::string>;
[[nodiscard]] std::string bigIntText(BigInt value);
// As Python's str(): "None", "True", "3", "1.0", the text itself.
[[nodiscard]] std::string constantText(const Constant &value);

class Value;

struct Class; // what aggregates are made by
struct Aggregate;
// x.method before its call: the callee gets `self` in front of its arguments.
struct BoundMethod;

class Value {
public:
  using Data =
      std::variant<std::monostate, Constant, Tensor, std::shared_ptr<const Aggregate>,
                   std::shared_ptr<const Class>, TypeValue, std::shared_ptr<const FunctionSource>,
                   const Operation *, std::shared_ptr<const BoundMethod>,
                   std::shared_ptr<HostObject>, const LanguagePart *>;
  Value() = default; // no value: an unbound name
  template <class T>
    requires std::is_constructible_v<Data, T>
  Value(T data) : data_(std::move(data)) {}
  static Value integer(BigInt value) { return Value(Constant(value)); }
  static Value boolean(bool value) { return Value(Constant(value)); }
  static Value none() { return Value(Constant(None{})); }
  static Value string(std::string text) { return Value(Constant(std::move(text))); }
  static Value tuple(std::vector<Value> items);
  static Value aggregate(std::shared_ptr<const Class> cls, std::vector<Value> fields);

  [[nodiscard]] bool bound() const { return data_.index() != 0; }
  [[nodiscard]] const Data &data() const { return data_; }
  template <class T> [[nodiscard]] const T *as() const { return std::get_if<T>(&data_); }
  [[nodiscard]] const Constant *constant() const { return as<Constant>(); }
  [[nodiscard]] const Tensor *tensor() const { return as<Tensor>(); }
  [[nodiscard]] const Aggregate *aggregate() const {
    const auto *p = as<std::shared_ptr<const Aggregate>>();
    return p != nullptr ? p->get() : nullptr;
  }
  // The aggregate if it is a sequence: a tuple or a named tuple.
  [[nodiscard]] const Aggregate *tuple() const;
  // The aggregate if it is of a class of the host and no sequence: its members carry out operators.
  [[nodiscard]] const Aggregate *object() const;
  [[nodiscard]] bool isNone() const {
    return constant() != nullptr && std::holds_alternative<None>(*constant());
  }
  // For messages: "tensor of int32[64]", "constexpr 3", "tuple of 2", "Point", "function add".
  [[nodiscard]] std::string describe() const;
  // What static_print and f-strings show: "3", "fp32", "fp32[64]", "(1, 2)".
  [[nodiscard]] std::string text() const;
  // The same, but a string is "'a'".
  [[nodiscard]] std::string quoted() const;

private:
  Data data_;
};

// What aggregates are made by.
struct Class {
  std::string name; // for messages: "tuple", "Point"
  // One name a field; none: a tuple of as many fields as it is given.
  std::vector<std::string> fields;
  // Its aggregates are tuples: they have items in order, which len(), [], +, *, ==, in and an
  // assignment to several names take.
  bool isSequence = false;
  // The host's class, which answers for defaults of fields and for members that are no fields
  // (methods); null: a class of the language.
  std::shared_ptr<HostObject> host;
  // What each field must be: a class, a name of the language for isinstance, or a tuple of those;
  // None: anything. No types: all fields may be anything.
  std::vector<Value> types = {};
  // A call goes to the host's class, which has a constructor of its own.
  bool isMadeByHost = false;

  [[nodiscard]] bool is(const Class &other) const {
    return host == other.host && (host != nullptr || name == other.name);
  }
  static const std::shared_ptr<const Class> &tuple();
  static const std::shared_ptr<const Class> &slice(); // start, stop, step
  static const std::shared_ptr<const Class> &blockPointer();     // frontend/semantics/blocks.h
  static const std::shared_ptr<const Class> &tensorDescriptor(); // the same
  static const std::shared_ptr<const Class> &tensorDescriptorType(); // block_type, shape_type, strides_type
  static const std::shared_ptr<const Class> &constexprType(); // value
  static const std::shared_ptr<const Class> &tupleType();     // types, fields: their names, or None
};

struct Aggregate {
  std::shared_ptr<const Class> cls;
  std::vector<Value> fields;
  // An aggregate of the same class with these fields.
  [[nodiscard]] Value with(std::vector<Value> others) const {
    return Value::aggregate(cls, std::move(others));
  }
};

struct BoundMethod {
  Value self;
  Value callee; // an operation, a jit function or a function of the host
};

// The same value, told without a look at the running program: the same tensor, constants of one type
// and (floats: by bits) one value, aggregates of one class whose fields are the same.
[[nodiscard]] bool sameValue(const Value &a, const Value &b);
// Whether `part` is `whole` itself or one of the objects inside of it.
[[nodiscard]] bool isPartOf(const Value &part, const Value &whole);

// Columns of one line, as in ir::Location; a node that spans lines ends with its first line.
struct SourceRange {
  uint32_t line = 0; // 0: none
  uint32_t column = 0;
  uint32_t endColumn = 0;
};

// The arguments of one call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keyword; // in call order
  // Where they stand: the positional ones, then the others. Empty: not in a source text.
  std::vector<SourceRange> places = {};

  [[nodiscard]] SourceRange place(size_t index) const {
    return index < places.size() ? places[index] : SourceRange{};
  }
  void prepend(Value first);
};

} // namespace libtile::frontend
