// SPDX-License-Identifier: Apache-2.0
// Matrix products over the last two axes. Any extents M, N, K >= 1; the target pads.
#include "frontend/semantics/operations.h"
#include "ir/ops.h"

#include <algorithm>
#include <vector>

namespace libtile::frontend::operations {

namespace {

constexpr DType kInt32{ir::Elem::I32, true};
constexpr DType kFloat16{ir::Elem::F16, true};
constexpr DType kFloat32{ir::Elem::F32, true};
constexpr DType kFloat64{ir::Elem::F64, true};

// 8-bit floats, of one format or two, are multiplied as fp16, which holds them.
Tensor operandOf(Semantics &s, const Value &value, const Value &beside, const char *what) {
  const Tensor x = requireTensor(s, value, what);
  const bool both = x.dtype.isFloat8() && requireTensor(s, beside, "an operand of dot").dtype.isFloat8();
  return both ? s.cast(x, kFloat16) : x;
}

// The type in which products of the operands are summed.
DType sumType(const Semantics &s, const Tensor &input, const Tensor &other) {
  const DType dtype = input.dtype;
  if (dtype != other.dtype) {
    s.fail("the operands of dot must have one type, got " + dtype.name() + " and " +
           other.dtype.name());
  }
  if (dtype == DType{ir::Elem::I8, true}) {
    return kInt32;
  }
  if (!dtype.isFloat()) {
    s.fail("dot takes int8, 8-bit floats, fp16, bf16, fp32 or fp64, got " + dtype.name());
  }
  return dtype.elem == ir::Elem::F64 ? kFloat64 : kFloat32;
}

void checkExtents(const Semantics &s, const Tensor &input, const Tensor &other) {
  const size_t rank = input.shape.size();
  const std::string shapes = shapeText(input.shape) + " and " + shapeText(other.shape);
  if (rank != other.shape.size() || rank < 2) {
    s.fail("dot takes two matrices, or batches of them, got shapes " + shapes);
  }
  if (!std::equal(input.shape.begin(), input.shape.end() - 2, other.shape.begin())) {
    s.fail("dot of shapes " + shapes + ": the leading axes differ");
  }
  if (input.shape[rank - 1] != other.shape[rank - 2]) {
    s.fail("dot of shapes " + shapes + ": " + std::to_string(input.shape[rank - 1]) +
           " columns meet " + std::to_string(other.shape[rank - 2]) + " rows");
  }
}

// nullopt: ieee.
std::optional<ir::Precision> precisionOf(const Semantics &s, const Value &name,
                                         const Value &allowTf32) {
  if (!name.isNone() && !allowTf32.isNone()) {
    s.fail("dot takes only one of input_precision and allow_tf32");
  }
  if (!allowTf32.isNone()) {
    return constantBool(s, allowTf32, "allow_tf32") ? ir::Precision::tf32 : ir::Precision::ieee;
  }
  if (name.isNone()) {
    return s.dotPrecision;
  }
  const std::string text = constantString(s, name, "input_precision");
  for (const auto precision : {ir::Precision::ieee, ir::Precision::tf32, ir::Precision::tf32x3,
                               ir::Precision::bf16x3, ir::Precision::bf16x6}) {
    if (text == ir::enumeratorName(ir::AttrKind::Precision, static_cast<int64_t>(precision))) {
      return precision;
    }
  }
  s.fail(name, "input_precision must be 'ieee', 'tf32', 'tf32x3', 'bf16x3' or 'bf16x6', got '" +
                   text + "'");
}

// How many products of 8-bit floats may be summed in less than fp32.
int64_t impreciseSums(const Semantics &s, const Value &given, int64_t depth) {
  if (given.isNone()) {
    return s.impreciseSums;
  }
  const int64_t most = s.constantInt(given, "max_num_imprecise_acc");
  if (most < 0 || most > depth) {
    s.fail(given, "max_num_imprecise_acc must be 0 to " + std::to_string(depth) + ", the columns of the first operand, got " +
                      std::to_string(most));
  }
  return most;
}

bool areFloat8(const Value &input, const Value &other) {
  return input.tensor() != nullptr && other.tensor() != nullptr && input.tensor()->dtype.isFloat8() && other.tensor()->dtype.isFloat8();
}

// The type of dot's result: fp32 unless the accumulator or out_dtype asks for another.
DType resultType(const Semantics &s, const Value &acc, const Value &outDtype, DType sums) {
  const DType given = acc.tensor() != nullptr ? acc.tensor()->dtype : sums;
  if (sums == kInt32 || sums == kFloat64) {
    return sums;
  }
  const DType result = outDtype.isNone() ? given : scalarType(s, outDtype, "out_dtype");
  if (result != kFloat32 && result != kFloat16) {
    s.fail(outDtype, "out_dtype of dot must be fp32 or fp16, got " + result.name() +
           "; cast the result with .to()");
  }
  return result;
}

} // namespace

Value dot(Semantics &s, Args args) {
  const Tensor input = operandOf(s, args[0], args[1], "the first operand of dot");
  const Tensor other = operandOf(s, args[1], args[0], "the second operand of dot");
  const DType sums = sumType(s, input, other);
  checkExtents(s, input, other);
  std::vector<int32_t> shape = input.shape;
  shape.back() = other.shape.back();
  checkShape(s, shape, "the result of dot");
  const DType result = resultType(s, args[2], args[6], sums);
  if (result == kFloat16 && input.dtype != kFloat16) {
    s.fail("dot of " + input.dtype.name() + " gives fp32, not fp16; cast the result with .to()");
  }
  const std::optional<ir::Precision> precision = precisionOf(s, args[3], args[4]);
  const int64_t imprecise = impreciseSums(s, args[5], input.shape.back());

  Tensor acc;
  if (args[2].isNone()) {
    acc = s.makeTensor(s.builder.zero(irType(sums, shape)), sums);
  } else {
    acc = requireTensor(s, args[2], "the accumulator of dot");
    if (acc.shape != shape || acc.dtype != result) {
      s.fail(args[2], "the accumulator of this dot must be " + result.name() + shapeText(shape) +
                          ", got " + args[2].describe());
    }
    // An fp16 accumulator is summed into in fp32 and rounded once.
    acc = s.cast(acc, sums);
  }
  const Tensor product = emit(s, ir::Opcode::Dot, {input.id, other.id, acc.id}, sums);
  ir::Function &fn = s.builder.function();
  // It is a choice for fp32 operands alone; the others' products are exact.
  if (precision && input.dtype == kFloat32) {
    fn.setAttr(fn.def(product.id), ir::Attr::precision, *precision);
  }
  if (imprecise > 0 && areFloat8(args[0], args[1])) {
    fn.setAttr(fn.def(product.id), ir::Attr::imprecise, ir::AttrValue(imprecise));
  }
  return Value(s.cast(product, result));
}

} // namespace libtile::frontend::operations
