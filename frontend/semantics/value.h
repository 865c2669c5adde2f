// SPDX-License-Identifier: Apache-2.0
// What an expression of the kernel language evaluates to while a kernel is being specialised.
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
class HostObject;      // an object that only the Host understands, frontend/specialise/host.h

// Element types as the user sees them: integers have a sign, pointers may be read-only.
struct DType {
  ir::Elem elem = ir::Elem::Void;
  bool isSigned = true; // integers; i1 is unsigned
  uint8_t pointerDepth = 0;
  bool isConst = false; // pointers

  [[nodiscard]] bool isPointer() const { return pointerDepth != 0; }
  [[nodiscard]] bool isInt() const { return !isPointer() && ir::isInt(elem); }
  [[nodiscard]] bool isBool() const { return !isPointer() && elem == ir::Elem::I1; }
  [[nodiscard]] bool isFloat() const { return !isPointer() && ir::isFloat(elem); }
  [[nodiscard]] ir::Type irType() const { return ir::Type::scalar(elem, pointerDepth); }
  [[nodiscard]] DType pointee() const;
  [[nodiscard]] DType pointerTo() const;
  // Triton's name: "int32", "uint8", "fp16", "bf16", "fp32", "int1", "pointer<fp32>".
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
struct Tuple {
  std::vector<Value> items;
  // For named tuples: the class's name and the field names, one an item.
  std::string typeName;
  std::vector<std::string> fields;
};
// A module of the language, or one that the Host knows by this handle.
struct Module {
  std::string name; // "tl", "math", ...
  std::shared_ptr<HostObject> host;
};
// self.method before its call.
struct BoundMethod;

class Value {
public:
  using Data =
      std::variant<std::monostate, Constant, Tensor, std::shared_ptr<const Tuple>, TypeValue,
                   std::shared_ptr<const FunctionSource>, const Operation *, Module,
                   std::shared_ptr<const BoundMethod>, std::shared_ptr<HostObject>>;
  Value() = default; // no value: an unbound name
  template <class T>
    requires std::is_constructible_v<Data, T>
  Value(T data) : data_(std::move(data)) {}
  static Value integer(BigInt value) { return Value(Constant(value)); }
  static Value boolean(bool value) { return Value(Constant(value)); }
  static Value none() { return Value(Constant(None{})); }
  static Value string(std::string text) { return Value(Constant(std::move(text))); }
  static Value tuple(std::vector<Value> items);

  [[nodiscard]] bool bound() const { return data_.index() != 0; }
  [[nodiscard]] const Data &data() const { return data_; }
  template <class T> [[nodiscard]] const T *as() const { return std::get_if<T>(&data_); }
  [[nodiscard]] const Constant *constant() const { return as<Constant>(); }
  [[nodiscard]] const Tensor *tensor() const { return as<Tensor>(); }
  [[nodiscard]] const Tuple *tuple() const {
    const auto *p = as<std::shared_ptr<const Tuple>>();
    return p != nullptr ? p->get() : nullptr;
  }
  [[nodiscard]] bool isNone() const {
    return constant() != nullptr && std::holds_alternative<None>(*constant());
  }
  // For messages: "tensor of int32[64]", "constexpr 3", "tuple of 2", "function add".
  [[nodiscard]] std::string describe() const;
  // What static_print and f-strings show: "3", "fp32", "fp32[64]", "(1, 2)".
  [[nodiscard]] std::string text() const;

private:
  Data data_;
};

struct BoundMethod {
  Value self;
  const Operation *operation; // a member function of tensors
};

// The arguments of one call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keyword; // in call order
};

} // namespace libtile::frontend
