// SPDX-License-Identifier: Apache-2.0
// Elementwise operations of the language.
//
// Functions like exp take floats. Narrower ones than fp32 are computed in fp32 and rounded back
// (Triton refuses these), so a backend has them for fp32 and fp64 alone.
#include "frontend/semantics/operations.h"
#include "ir/ops.h"

#include <algorithm>

namespace libtile::frontend::operations {

using ir::Opcode;

namespace {

constexpr DType kFloat32{ir::Elem::F32, true};

bool isNumber(const Value &value) {
  return value.constant() != nullptr && !value.isNone() &&
         !std::holds_alternative<std::string>(*value.constant());
}

Tensor requireFloat(Semantics &s, const Value &value, const char *what) {
  const Tensor x = s.toTensor(value);
  if (!x.dtype.isFloat()) {
    s.fail(value, std::string(what) + " takes floats, got " + value.describe());
  }
  return x;
}

// f(x), through fp32 for narrower floats.
Value function(Semantics &s, const Value &value, Opcode opcode, const char *what) {
  const Tensor x = requireFloat(s, value, what);
  const Tensor argument = single(s, x);
  return Value(s.cast(emit(s, opcode, {argument.id}, argument.dtype), x.dtype));
}

Tensor requireInt(Semantics &s, const Value &value, const char *what) {
  const Tensor x = s.toTensor(value);
  if (!x.dtype.isInt()) {
    s.fail(value, std::string(what) + " takes integers, got " + value.describe());
  }
  return x;
}

Value ofBits(Semantics &s, const Value &value, Opcode opcode, const char *what) {
  const Tensor x = requireInt(s, value, what);
  return Value(emit(s, opcode, {x.id}, x.dtype));
}

bool propagatesNan(const Semantics &s, const Value &value) {
  const std::string text = constantString(s, value, "propagate_nan");
  if (text != "ALL" && text != "NONE") {
    s.fail(value,
           "propagate_nan must be PropagateNan.ALL or PropagateNan.NONE, got '" + text + "'");
  }
  return text == "ALL";
}

Value minMax(Semantics &s, Args args, bool isMax) {
  const bool nan = propagatesNan(s, args[2]);
  if (isNumber(args[0]) && isNumber(args[1])) {
    const Value less = s.compare(CompareOp::Lt, args[0], args[1]);
    const Constant &chosen = *args[*s.constantTruth(less) == isMax ? 1 : 0].constant();
    const auto isReal = [](const Value &v) {
      return std::holds_alternative<double>(*v.constant());
    };
    return isReal(args[0]) || isReal(args[1]) ? Value(Constant(constantDouble(s, chosen)))
                                              : Value(chosen);
  }
  const auto [x, y] = s.promoteBoth(args[0], args[1], false);
  if (x.dtype.isPointer()) {
    s.fail(std::string(isMax ? "maximum" : "minimum") + " does not take pointers");
  }
  return Value(emitMinMax(s, isMax, x, y, nan));
}

struct Three {
  Tensor a, b, c;
};

// Three operands in their common type and shape; constants take part together, after the tensors.
Three promoteThree(Semantics &s, Args args) {
  std::optional<DType> ofTensors;
  std::optional<DType> ofConstants;
  for (const Value &value : args.first(3)) {
    const OperandType type = operandType(s, value);
    std::optional<DType> &joined = type.isConstant ? ofConstants : ofTensors;
    joined = joined ? s.computationType(*joined, false, type.dtype, false, false) : type.dtype;
  }
  const DType dtype = !ofConstants ? *ofTensors
                      : !ofTensors
                          ? *ofConstants
                          : s.computationType(*ofTensors, false, *ofConstants, true, false);
  auto [a, b] = s.broadcastBoth(s.toComputation(args[0], dtype), s.toComputation(args[1], dtype));
  auto [wide, c] = s.broadcastBoth(a, s.toComputation(args[2], dtype));
  return {wide, s.broadcastBoth(b, wide).first, c};
}

// What takes integers or floats alone, at the first argument that is something else.
[[noreturn]] void refuseTypes(const Semantics &s, Args args, const std::string &what, bool (*fits)(DType)) {
  const auto wrong =
      std::ranges::find_if(args, [&](const Value &each) { return !fits(operandType(s, each).dtype); });
  const Value &named = wrong != args.end() ? *wrong : args[0];
  s.fail(named, what + ", got " + named.describe());
}

bool isFloat(DType dtype) { return dtype.isFloat(); }
bool isInt(DType dtype) { return dtype.isInt(); }

Value divideFloats(Semantics &s, Args args, bool rounded, const std::string &what) {
  const auto [left, right] = s.promoteBoth(args[0], args[1], true);
  if (!left.dtype.isFloat()) {
    refuseTypes(s, args.first(2), what + " takes floats", isFloat);
  }
  const Tensor quotient = emit(s, Opcode::FDiv, {left.id, right.id}, left.dtype);
  if (rounded) {
    ir::Function &fn = s.builder.function();
    fn.setAttr(fn.def(quotient.id), ir::Attr::rounded, ir::AttrValue(int64_t{1}));
  }
  return Value(quotient);
}

// x, y, sanitize_overflow
Value sanitized(Semantics &s, BinaryOp op, Args args) {
  const Semantics::Wrapping wrapping(s, !constantBool(s, args[2], "sanitize_overflow"));
  return s.binary(op, args[0], args[1]);
}

} // namespace

Value add(Semantics &s, Args args) { return sanitized(s, BinaryOp::Add, args); }
Value sub(Semantics &s, Args args) { return sanitized(s, BinaryOp::Sub, args); }
Value mul(Semantics &s, Args args) { return sanitized(s, BinaryOp::Mul, args); }
Value logicalAnd(Semantics &s, Args args) { return s.logical(true, args[0], args[1]); }
Value logicalOr(Semantics &s, Args args) { return s.logical(false, args[0], args[1]); }

Value where(Semantics &s, Args args) {
  Tensor condition = toBool(s, s.toTensor(args[0]));
  auto [x, y] = s.promoteBoth(args[1], args[2], false);
  // A scalar condition chooses whole tiles all the same: everything gets the common shape.
  std::tie(condition, x) = s.broadcastBoth(condition, x);
  y = s.broadcastBoth(y, x).first;
  return Value(emitSelect(s, condition, x, y));
}

Value cast(Semantics &s, Args args) {
  const DType to = scalarType(s, args[1], "the dtype of a cast");
  const bool bitcast = constantBool(s, args[3], "bitcast");
  const std::string rounding = optionalString(s, args[2], "fp_downcast_rounding");
  const Tensor input = s.toTensor(args[0]);
  if (!rounding.empty() && rounding != "rtne" && rounding != "rtz") {
    s.fail(args[2], "fp_downcast_rounding must be 'rtne' or 'rtz', got '" + rounding + "'");
  }
  // A cast to the tile's own type rounds nothing, whatever it says: libraries write it for every type of their results.
  if (!rounding.empty() && !bitcast && input.dtype != to) {
    if (!input.dtype.isFloat() || !to.isFloat() ||
        ir::bitWidth(to.elem) >= ir::bitWidth(input.dtype.elem)) {
      s.fail("fp_downcast_rounding takes a cast to a narrower float, got " + input.dtype.name() +
             " to " + to.name());
    }
    if (rounding == "rtz") {
      return callPrelude(s, "cast_towards_zero", {Value(input), args[1]});
    }
  }
  return Value(s.cast(input, to, bitcast));
}

Value minimum(Semantics &s, Args args) { return minMax(s, args, false); }
Value maximum(Semantics &s, Args args) { return minMax(s, args, true); }

Value clamp(Semantics &s, Args args) {
  const bool nan = propagatesNan(s, args[3]);
  const Three operands = promoteThree(s, args);
  const Tensor raised = emitMinMax(s, true, operands.a, operands.b, nan);
  return Value(emitMinMax(s, false, raised, operands.c, nan));
}

Value absolute(Semantics &s, Args args) {
  const Tensor x = s.toTensor(args[0]);
  if (x.dtype.isPointer()) {
    s.fail(args[0], "abs does not take " + args[0].describe());
  }
  if (x.dtype.isFloat() && ir::bitWidth(x.dtype.elem) == 8) {
    return callPrelude(s, "float8_abs", {Value(x)});
  }
  const bool isUnsigned = x.dtype.isInt() && (!x.dtype.isSigned || x.dtype.isBool());
  const Tensor source = computed(s, x);
  return Value(isUnsigned ? x : s.cast(emit(s, Opcode::Abs, {source.id}, source.dtype), x.dtype));
}

Value exp(Semantics &s, Args args) { return function(s, args[0], Opcode::Exp, "exp"); }
Value exp2(Semantics &s, Args args) { return function(s, args[0], Opcode::Exp2, "exp2"); }
Value log(Semantics &s, Args args) { return function(s, args[0], Opcode::Log, "log"); }
Value log2(Semantics &s, Args args) { return function(s, args[0], Opcode::Log2, "log2"); }
Value sqrt(Semantics &s, Args args) { return function(s, args[0], Opcode::Sqrt, "sqrt"); }
Value rsqrt(Semantics &s, Args args) { return function(s, args[0], Opcode::Rsqrt, "rsqrt"); }

Value sin(Semantics &s, Args args) { return function(s, args[0], Opcode::Sin, "sin"); }
Value cos(Semantics &s, Args args) { return function(s, args[0], Opcode::Cos, "cos"); }
Value erf(Semantics &s, Args args) { return function(s, args[0], Opcode::Erf, "erf"); }
Value floor(Semantics &s, Args args) { return function(s, args[0], Opcode::Floor, "floor"); }
Value ceil(Semantics &s, Args args) { return function(s, args[0], Opcode::Ceil, "ceil"); }
Value chop(Semantics &s, Args args) { return function(s, args[0], Opcode::Chop, "chop"); }
Value rint(Semantics &s, Args args) { return function(s, args[0], Opcode::Rint, "rint"); }

Value umulhi(Semantics &s, Args args) {
  const auto [x, y] = s.promoteBoth(args[0], args[1], false);
  if (!x.dtype.isInt() || ir::bitWidth(x.dtype.elem) < 32) {
    refuseTypes(s, args, "umulhi takes integers of 32 or 64 bits",
                [](DType dtype) { return dtype.isInt() && ir::bitWidth(dtype.elem) >= 32; });
  }
  return Value(emit(s, Opcode::UMulHi, {x.id, y.id}, x.dtype));
}

Value mulhi(Semantics &s, Args args) {
  const auto [x, y] = s.promoteBoth(args[0], args[1], false);
  if (!x.dtype.isInt()) {
    refuseTypes(s, args, "mulhi takes integers", isInt);
  }
  return Value(emit(s, x.dtype.isSigned ? Opcode::SMulHi : Opcode::UMulHi, {x.id, y.id}, x.dtype));
}

Value popc(Semantics &s, Args args) { return ofBits(s, args[0], Opcode::Popc, "popc"); }
Value clz(Semantics &s, Args args) { return ofBits(s, args[0], Opcode::Clz, "clz"); }
Value brev(Semantics &s, Args args) { return ofBits(s, args[0], Opcode::Brev, "brev"); }

Value scalb(Semantics &s, Args args) {
  const auto [x, n] = s.promoteBoth(args[0], args[1], false);
  if (!x.dtype.isFloat()) {
    refuseTypes(s, args, "scalb takes floats", isFloat);
  }
  return Value(emit(s, Opcode::Scalb, {x.id, n.id}, x.dtype));
}

Value fma(Semantics &s, Args args) {
  const Three operands = promoteThree(s, args);
  if (!operands.a.dtype.isFloat()) {
    refuseTypes(s, args, "fma takes floats", isFloat);
  }
  const Tensor a = computed(s, operands.a);
  const Tensor b = computed(s, operands.b);
  const Tensor c = computed(s, operands.c);
  return Value(s.cast(emit(s, Opcode::Fma, {a.id, b.id, c.id}, a.dtype), operands.a.dtype));
}

Value fdiv(Semantics &s, Args args) {
  const bool exact = constantBool(s, args[2], "ieee_rounding");
  if (constantBool(s, args[3], "approx") && exact) {
    s.fail("fdiv takes only one of approx and ieee_rounding");
  }
  // approx allows less than `/` does, and asks for nothing.
  return divideFloats(s, args, exact, "fdiv");
}

Value divRn(Semantics &s, Args args) { return divideFloats(s, args, true, "div_rn"); }

} // namespace libtile::frontend::operations
