// SPDX-License-Identifier: Apache-2.0
// Element types and types of tiles: their members, what makes them, and what is asked of the target.
#include "frontend/semantics/operations.h"
#include "ir/float8.h"
#include "ir/ops.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace libtile::frontend {

namespace {

using ir::Elem;

int mantissaBits(DType dtype) {
  const Elem elem = dtype.elem;
  return dtype.float8          ? ir::float8Format(*dtype.float8).mantissaBits
         : elem == Elem::F16   ? 10
         : elem == Elem::BF16  ? 7
         : elem == Elem::F32   ? 23
                               : 52;
}

int exponentBias(DType dtype) {
  const Elem elem = dtype.elem;
  return dtype.float8        ? ir::float8Format(*dtype.float8).bias
         : elem == Elem::F16 ? 15
         : elem == Elem::F64 ? 1023
                             : 127;
}

unsigned bitsOf(DType dtype) { return dtype.isPointer() ? 64 : ir::bitWidth(dtype.elem); }

bool isUnsigned(DType dtype) { return !dtype.isSigned || dtype.isBool(); }

Value texts(std::initializer_list<const char *> all) {
  std::vector<Value> items;
  for (const char *text : all) {
    items.push_back(Value::string(text));
  }
  return Value::tuple(std::move(items));
}

// A class of constants that are the numbers 0, 1, ...
Value numbered(const char *name, std::vector<std::string> members) {
  std::vector<Value> numbers;
  for (size_t i = 0; i < members.size(); ++i) {
    numbers.push_back(Value::integer(static_cast<BigInt>(i)));
  }
  return Value::aggregate(
      std::make_shared<const Class>(Class{name, std::move(members), false, nullptr}),
      std::move(numbers));
}

std::string longName(DType dtype) {
  const std::string name = dtype.name();
  return name.starts_with("fp") ? "float" + name.substr(2)
         : name == "bf16"       ? "bfloat16"
                                : name;
}

std::string mangled(const TypeValue &type) {
  const DType dtype = type.dtype;
  std::string text = dtype.isPointer() ? "P" + mangled({dtype.pointee(), {}})
                     : dtype.isInt()   ? (isUnsigned(dtype) ? "u" : "i") + std::to_string(bitsOf(dtype))
                     : dtype.isFloat() ? dtype.name()
                                       : "V";
  for (size_t i = 0; i < type.shape.size(); ++i) {
    text += (i == 0 ? "S" : "_") + std::to_string(type.shape[i]);
  }
  return text + (type.shape.empty() ? "" : "S");
}

} // namespace

Value shapeValue(std::span<const int32_t> shape) {
  std::vector<Value> items;
  for (const int32_t extent : shape) {
    items.push_back(Value::integer(extent));
  }
  return Value::tuple(std::move(items));
}

int64_t elementCount(std::span<const int32_t> shape) {
  int64_t count = 1;
  for (const int32_t extent : shape) {
    count *= extent;
  }
  return count;
}

Value boundMethod(const Value &self, const Operation *operation) {
  return Value(std::make_shared<const BoundMethod>(BoundMethod{self, Value(operation)}));
}

Value dtypeConstant(const std::string &name) {
  if (name == "KIND") {
    return numbered("KIND", {"BOOLEAN", "INTEGRAL", "FLOATING"});
  }
  if (name == "SIGNEDNESS") {
    return numbered("SIGNEDNESS", {"SIGNED", "UNSIGNED"});
  }
  if (name == "SINT_TYPES") {
    return texts({"int8", "int16", "int32", "int64"});
  }
  if (name == "UINT_TYPES") {
    return texts({"int1", "uint8", "uint16", "uint32", "uint64"});
  }
  if (name == "FP_TYPES") {
    return texts({"fp8e4b15", "fp8e4nv", "fp8e4b8", "fp8e5", "fp8e5b16", "fp16", "bf16", "fp32", "fp64"});
  }
  if (name == "STANDARD_FP_TYPES") {
    return texts({"fp16", "bf16", "fp32", "fp64"});
  }
  return name == "OTHER_TYPES" ? texts({"void"}) : Value();
}

std::vector<std::string> typeAttributeNames() {
  return {"scalar",       "element_ty",        "shape",         "numel",
          "nbytes",       "name",              "itemsize",      "primitive_bitwidth",
          "int_bitwidth", "fp_mantissa_width", "exponent_bias", "int_signedness",
          "address_space"};
}

// What depends on the element type alone.
static Value elementAttribute(DType dtype, const std::string &name) {
  const unsigned bits = bitsOf(dtype);
  if (name == "primitive_bitwidth" || (name == "int_bitwidth" && dtype.isInt())) {
    return Value::integer(bits);
  }
  if (name == "itemsize") {
    return Value::integer(bits / 8);
  }
  if (name == "int_signedness" && dtype.isInt()) {
    return Value::integer(isUnsigned(dtype) ? 1 : 0);
  }
  if (name == "fp_mantissa_width" && dtype.isFloat()) {
    return Value::integer(mantissaBits(dtype));
  }
  if (name == "exponent_bias" && dtype.isFloat()) {
    return Value::integer(exponentBias(dtype));
  }
  return name == "address_space" && dtype.isPointer() ? Value::string("global") : Value();
}

Value typeAttribute(const TypeValue &type, const std::string &name) {
  const DType dtype = type.dtype;
  const bool isTile = !type.shape.empty();
  if (name == "scalar" || (name == "element_ty" && isTile)) {
    return Value(TypeValue{dtype, {}});
  }
  if (name == "element_ty" && dtype.isPointer()) {
    return Value(TypeValue{dtype.pointee(), {}});
  }
  if (name == "shape" && isTile) {
    return shapeValue(type.shape);
  }
  if (name == "numel") {
    return Value::integer(elementCount(type.shape));
  }
  if (name == "nbytes" && isTile) {
    return Value::integer(elementCount(type.shape) * (bitsOf(dtype) / 8));
  }
  if (name == "name" || name == "cache_key_part") {
    return Value::string(Value(type).text());
  }
  if (Value found = elementAttribute(dtype, name); found.bound()) {
    return found;
  }
  const Operation *operation = Semantics::findMember(name, Operation::Receiver::Type);
  return operation != nullptr ? boundMethod(Value(type), operation) : dtypeConstant(name);
}

namespace operations {

namespace {

const TypeValue &typeSelf(const Semantics &s, Args args) {
  const TypeValue *type = args[0].as<TypeValue>();
  if (type == nullptr) {
    s.fail(args[0], "expected a type, got " + args[0].describe());
  }
  return *type;
}

Value isExactly(const Semantics &s, Args args, DType dtype) {
  const DType self = typeSelf(s, args).dtype;
  return Value::boolean(self == dtype);
}

Value isFormat(const Semantics &s, Args args, ir::Float8 format) {
  const DType self = typeSelf(s, args).dtype;
  return Value::boolean(self.isFloat8() && self.float8 == format);
}

// The element type of an integer type.
DType integerSelf(const Semantics &s, Args args, const char *member) {
  const DType dtype = typeSelf(s, args).dtype;
  if (!dtype.isInt()) {
    s.fail(std::string(member) + " is of integer types, not of " + dtype.name());
  }
  return dtype;
}

// The number in the name of one of NVIDIA's targets: 90 of "sm_90a"; 0 of others.
int64_t capability(const Semantics &s) {
  constexpr std::string_view kPrefix = "sm_";
  int64_t number = 0;
  for (size_t i = kPrefix.size(); s.target.starts_with(kPrefix) && i < s.target.size() &&
                                  std::isdigit(static_cast<unsigned char>(s.target[i])) != 0;
       ++i) {
    number = number * 10 + (s.target[i] - '0');
  }
  return number;
}

} // namespace

Value pointerType(Semantics &s, Args args) {
  DType dtype = scalarType(s, args[0], "the element type of a pointer").pointerTo();
  dtype.isConst = constantBool(s, args[2], "const");
  return Value(TypeValue{dtype, {}});
}

Value isFloating(Semantics &s, Args args) {
  return Value::boolean(typeSelf(s, args).dtype.isFloat());
}
Value isInt(Semantics &s, Args args) { return Value::boolean(typeSelf(s, args).dtype.isInt()); }
Value isBool(Semantics &s, Args args) { return Value::boolean(typeSelf(s, args).dtype.isBool()); }
Value isIntSigned(Semantics &s, Args args) {
  const DType dtype = typeSelf(s, args).dtype;
  return Value::boolean(dtype.isInt() && dtype.isSigned && !dtype.isBool());
}
Value isIntUnsigned(Semantics &s, Args args) {
  const DType dtype = typeSelf(s, args).dtype;
  return Value::boolean(dtype.isInt() && (!dtype.isSigned || dtype.isBool()));
}
Value isInt8(Semantics &s, Args args) { return isExactly(s, args, {ir::Elem::I8, true}); }
Value isInt16(Semantics &s, Args args) { return isExactly(s, args, {ir::Elem::I16, true}); }
Value isInt32(Semantics &s, Args args) { return isExactly(s, args, {ir::Elem::I32, true}); }
Value isInt64(Semantics &s, Args args) { return isExactly(s, args, {ir::Elem::I64, true}); }
Value isUint8(Semantics &s, Args args) { return isExactly(s, args, {ir::Elem::I8, false}); }
Value isUint16(Semantics &s, Args args) { return isExactly(s, args, {ir::Elem::I16, false}); }
Value isUint32(Semantics &s, Args args) { return isExactly(s, args, {ir::Elem::I32, false}); }
Value isUint64(Semantics &s, Args args) { return isExactly(s, args, {ir::Elem::I64, false}); }
Value isFp16(Semantics &s, Args args) { return isExactly(s, args, {ir::Elem::F16, true}); }
Value isBf16(Semantics &s, Args args) { return isExactly(s, args, {ir::Elem::BF16, true}); }
Value isFp32(Semantics &s, Args args) { return isExactly(s, args, {ir::Elem::F32, true}); }
Value isFp64(Semantics &s, Args args) { return isExactly(s, args, {ir::Elem::F64, true}); }
Value isFp8(Semantics &s, Args args) {
  return Value::boolean(typeSelf(s, args).dtype.isFloat8());
}
Value isStandardFloating(Semantics &s, Args args) {
  const DType dtype = typeSelf(s, args).dtype;
  return Value::boolean(dtype.isFloat() && !dtype.isFloat8());
}
Value isFp8e5(Semantics &s, Args args) { return isFormat(s, args, ir::Float8::e5); }
Value isFp8e4nv(Semantics &s, Args args) { return isFormat(s, args, ir::Float8::e4nv); }
Value isFp8e4b15(Semantics &s, Args args) { return isFormat(s, args, ir::Float8::e4b15); }
Value isFp8e4b8(Semantics &s, Args args) { return isFormat(s, args, ir::Float8::e4b8); }
Value isFp8e5b16(Semantics &s, Args args) { return isFormat(s, args, ir::Float8::e5b16); }
Value isPtr(Semantics &s, Args args) { return Value::boolean(typeSelf(s, args).dtype.isPointer()); }
Value isBlock(Semantics &s, Args args) { return Value::boolean(!typeSelf(s, args).shape.empty()); }

Value isConst(Semantics &s, Args args) { return Value::boolean(typeSelf(s, args).dtype.isConst); }

Value kindOf(Semantics &s, Args args) {
  const DType dtype = typeSelf(s, args).dtype;
  if (!dtype.isInt() && !dtype.isFloat()) {
    s.fail(dtype.name() + " is of no kind");
  }
  return Value::integer(dtype.isBool() ? 0 : dtype.isInt() ? 1 : 2);
}

Value codegenName(Semantics &s, Args args) {
  return Value::string(longName(typeSelf(s, args).dtype));
}

Value mangle(Semantics &s, Args args) { return Value::string(mangled(typeSelf(s, args))); }

Value intMaxValue(Semantics &s, Args args) {
  const DType dtype = integerSelf(s, args, "get_int_max_value");
  return Value::integer((BigInt(1) << (bitsOf(dtype) - (isUnsigned(dtype) ? 0 : 1))) - 1);
}

Value intMinValue(Semantics &s, Args args) {
  const DType dtype = integerSelf(s, args, "get_int_min_value");
  return Value::integer(isUnsigned(dtype) ? BigInt(0) : -(BigInt(1) << (bitsOf(dtype) - 1)));
}

Value withElementTy(Semantics &s, Args args) {
  return Value(TypeValue{scalarType(s, args[1], "element_ty"), typeSelf(s, args).shape});
}

Value blockShapes(Semantics &s, Args args) { return shapeValue(typeSelf(s, args).shape); }

Value blockType(Semantics &s, Args args) {
  return Value(TypeValue{scalarType(s, args[0], "the element type of a tile"),
                         constantShape(s, args[1], "the shape of a tile")});
}

Value getIntDtype(Semantics &s, Args args) {
  const int64_t bits = s.constantInt(args[0], "bitwidth");
  const bool isSigned = constantBool(s, args[1], "signed");
  const std::string name = bits == 1 ? "int1" : (isSigned ? "int" : "uint") + std::to_string(bits);
  const auto found = DType::byName(name);
  if (!found || (bits == 1 && isSigned)) {
    s.fail(args[0], "there is no integer type of " + std::to_string(bits) + " bits");
  }
  return Value(TypeValue{*found, {}});
}

Value strToTy(Semantics &s, Args args) {
  std::string name = constantString(s, args[0], "the text of a type");
  const bool isConst = name.starts_with("*k");
  if (isConst) {
    name.erase(1, 1);
  }
  auto found = DType::byName(name);
  if (!found) {
    s.fail(args[0], "there is no type '" + name + "'");
  }
  found->isConst = isConst;
  return Value(TypeValue{*found, {}});
}

// ---- the target

Value currentTarget(Semantics &s, Args) {
  const int64_t number = capability(s);
  const bool isAmd = s.target.starts_with("gfx");
  static const auto cls = std::make_shared<const Class>(
      Class{"GPUTarget", {"backend", "arch", "warp_size"}, false, nullptr});
  return Value::aggregate(
      cls, {Value::string(number != 0 ? "cuda" : isAmd ? "hip" : "cpu"),
            number != 0 ? Value::integer(number) : Value::string(s.target),
            Value::integer(number != 0 ? 32 : !isAmd ? 1 : s.target.starts_with("gfx9") ? 64 : 32)});
}

Value onlyOn(Semantics &s, Args args) {
  const std::string name = constantString(s, args[0], "the name");
  const bool isHere = name.starts_with("extra.cuda.") ? capability(s) != 0 : s.target.starts_with("gfx");
  if (!isHere) {
    s.unsupported("tl." + name + " is there for " +
                  (name.starts_with("extra.cuda.") ? "NVIDIA's" : "AMD's") + " GPUs alone, not for " +
                  (s.target.empty() ? "an unknown target" : s.target));
  }
  return Value::none();
}

// Launches overlap from compute capability 9.0 on.
static Value ofOverlap(Semantics &s, ir::Opcode opcode) {
  if (capability(s) >= 90) {
    s.builder.op(opcode, {});
  }
  return Value::none();
}
Value gridWait(Semantics &s, Args) { return ofOverlap(s, ir::Opcode::GridWait); }
Value launchDependents(Semantics &s, Args) { return ofOverlap(s, ir::Opcode::LaunchDependents); }

Value warps(Semantics &s, Args) {
  if (!s.warps) {
    s.fail("the number of warps is known in kernels alone");
  }
  return Value::integer(s.warps());
}

Value isCuda(Semantics &s, Args) { return Value::boolean(capability(s) != 0); }

Value cudaCapabilityGeq(Semantics &s, Args args) {
  const int64_t major = s.constantInt(args[0], "major");
  const int64_t minor = s.constantInt(args[1], "minor");
  const int64_t number = capability(s);
  return Value::boolean(number != 0 &&
                        std::pair(number / 10, number % 10) >= std::pair(major, minor));
}

Value isHip(Semantics &s, Args) { return Value::boolean(s.target.starts_with("gfx")); }
Value isHipCdna3(Semantics &s, Args) { return Value::boolean(s.target == "gfx942"); }
Value isHipCdna4(Semantics &s, Args) { return Value::boolean(s.target == "gfx950"); }
Value isHipGfx1250(Semantics &s, Args) { return Value::boolean(s.target == "gfx1250"); }

} // namespace operations

} // namespace libtile::frontend
