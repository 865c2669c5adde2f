// SPDX-License-Identifier: Apache-2.0
// What the files of the semantics share: the functions that language.def names, and helpers. Not
// for the walker or other folders; those use semantics.h.
#pragma once

#include "frontend/semantics/semantics.h"

#include <functional>
#include <span>

namespace libtile::frontend {

// ---- operations of language.def, one value a parameter, in order
namespace operations {
using Args = std::span<const Value>;
#define OPERATION(name, function, kind, signature, doc) Value function(Semantics &s, Args args);
#define INTERNAL(name, function, signature, doc) Value function(Semantics &s, Args args);
#include "frontend/language.def"
} // namespace operations

// "+", "<=", as written.
const char *operatorSymbol(BinaryOp op);
const char *operatorSymbol(CompareOp op);

// ---- constants: Python's arithmetic (constants.cpp)
Value constantBinary(const Semantics &s, BinaryOp op, const Constant &a, const Constant &b);
Value constantCompare(const Semantics &s, CompareOp op, const Constant &a, const Constant &b);
Value constantUnary(const Semantics &s, UnaryOp op, const Constant &a);
// bool, int or float; the others fail.
double constantDouble(const Semantics &s, const Constant &value);
// bool or int as int; nullopt for others.
std::optional<BigInt> constantBigInt(const Constant &value);
// The type that a number has as a scalar tensor (to_tensor); None and text fail.
DType constantType(const Semantics &s, const Constant &value);

// ---- tensors (tensors.cpp)
// The type of a tensor or number, and whether it is a constant; others fail naming `what`.
struct OperandType {
  DType dtype;
  bool isConstant;
};
OperandType operandType(const Semantics &s, const Value &value);
[[nodiscard]] ir::Type irType(DType dtype, std::span<const int32_t> shape);
// The constant is an integer or bool that the integer type holds.
bool holds(DType dtype, const Constant &value);
// The number in every element; the dtype holds it (integers are wrapped, floats rounded).
Tensor constantTensor(Semantics &s, DType dtype, std::span<const int32_t> shape,
                      const Constant &value);
// An op whose result has the dtype; the result type is inferred / of that shape.
Tensor emit(Semantics &s, ir::Opcode opcode, std::initializer_list<ir::ValueId> operands,
            DType dtype);
Tensor emitShaped(Semantics &s, ir::Opcode opcode, ir::ValueId operand, DType dtype,
                  std::span<const int32_t> shape);
Tensor emitCompare(Semantics &s, CompareOp op, const Tensor &a, const Tensor &b);
// Elementwise on operands of one type and shape.
Tensor emitBinary(Semantics &s, BinaryOp op, const Tensor &a, const Tensor &b);
Tensor emitSelect(Semantics &s, const Tensor &condition, const Tensor &a, const Tensor &b);
Tensor emitMinMax(Semantics &s, bool isMax, const Tensor &a, const Tensor &b, bool propagateNan);
// x in fp32 if it is a narrower float, which fp32 holds; others as they are.
Tensor single(Semantics &s, const Tensor &x);
// The type in which x is computed with: fp32 for 8-bit floats, its own for others.
Tensor computed(Semantics &s, const Tensor &x);
// The launch ends where it is false anywhere (messages.cpp).
void assertHolds(Semantics &s, Tensor holds, std::string message);
// A tensor cast to int1: != 0.
Tensor toBool(Semantics &s, const Tensor &x);
// The shape of the broadcast of two; fails if there is none, at the argument, and says first whose shapes
// these are.
std::vector<int32_t> commonShape(const Semantics &s, std::vector<int32_t> a, std::vector<int32_t> b,
                                 const Value &argument = Value(), const std::string &whose = "");
// x under leading axes of extent 1, then repeated; the shape is one that x broadcasts to.
Tensor stretch(Semantics &s, Tensor x, std::span<const int32_t> shape);
// All in their common shape; one tensor or more.
std::vector<Tensor> broadcastAll(Semantics &s, std::vector<Tensor> tensors);
Tensor expandDims(Semantics &s, const Tensor &x, unsigned axis);
Tensor reshapeTo(Semantics &s, const Tensor &x, std::span<const int32_t> shape);
Tensor permuteTo(Semantics &s, const Tensor &x, std::span<const int64_t> order,
                 const Value &argument = Value());
// Along the axis the elements start, start + step, ...: so many, all of which there are.
Tensor sliceTile(Semantics &s, const Tensor &x, unsigned axis, int64_t start, int64_t step,
                 int32_t count);
// The one element of a tile of one element; scalars as they are.
Tensor onlyElement(Semantics &s, const Tensor &x);
// A constant or tensor operand of an operator (operators.cpp).
Value tensorBinary(Semantics &s, BinaryOp op, const Value &a, const Value &b);
Value tensorCompare(Semantics &s, CompareOp op, const Value &a, const Value &b);
Value tensorUnary(Semantics &s, UnaryOp op, const Tensor &a);

// Tiles of numbers of one shape: an argument that is a tile or a tuple of tiles. `what` names the operation.
std::vector<Tensor> requireTiles(Semantics &s, const Value &value, const std::string &what);
Tensor requireNumbers(const Semantics &s, const Value &value, const std::string &what);
// The type in which sum and cumsum add and which they give: `dtype` unless it is None.
DType sumType(Semantics &s, DType input, const Value &dtype, const std::string &what);

// Calls a function of the prelude that no row of language.def names.
Value callPrelude(Semantics &s, const char *name, std::vector<Value> arguments);

// Folds tiles of numbers of one shape along the axis (nullopt: over all); `combine` gets the
// scalars of two groups and gives those of one.
// `commutative`: it gives the same with the groups exchanged, which passes may not see.
using Combine =
    std::function<std::vector<Tensor>(std::span<const Tensor> left, std::span<const Tensor> right)>;
std::vector<Tensor> reduceTiles(Semantics &s, std::vector<Tensor> inputs,
                                std::optional<unsigned> axis, bool keepDims,
                                const Combine &combine, bool commutative = false);
// The tiles in which each element is combined with all before it along the axis (reverse: behind it).
std::vector<Tensor> scanTiles(Semantics &s, std::span<const Tensor> inputs, unsigned axis,
                              bool reverse, const Combine &combine);
// Calls the user's function, which must give scalars of the lefts' types; it lives as long as both.
Combine callingUser(Semantics &s, const Value &function, const std::string &what);
// Fills the region of a reduce or scan over such inputs.
void fillCombine(Semantics &s, ir::OpId op, std::span<const Tensor> inputs, const Combine &combine);

// A LIBDEVICE row (overloads.cpp): the function of the overload that the arguments fit.
Value callOverload(Semantics &s, const Operation &operation, const Value &function,
                   std::span<const Value> arguments);

// ---- types (types.cpp)
// A type's own members; unbound: there is none.
Value typeAttribute(const TypeValue &type, const std::string &name);
std::vector<std::string> typeAttributeNames();
// The constants of the class tl.dtype: KIND, SINT_TYPES, ...; unbound: there is none.
Value dtypeConstant(const std::string &name);
Value shapeValue(std::span<const int32_t> shape);
int64_t elementCount(std::span<const int32_t> shape);
Value boundMethod(const Value &self, const Operation *operation);

// ---- arguments of operations
bool constantBool(const Semantics &s, const Value &value, const std::string &what);
std::string constantString(const Semantics &s, const Value &value, const std::string &what);
// None counts as "".
std::string optionalString(const Semantics &s, const Value &value, const std::string &what);
DType scalarType(const Semantics &s, const Value &value, const std::string &what);
Tensor requireTensor(const Semantics &s, const Value &value, const std::string &what);
// A tuple of constants, or one constant; for `*shape` a tuple that holds only a tuple counts as it.
std::vector<int64_t> constantInts(const Semantics &s, const Value &value, const std::string &what);
// constantInts as the shape of a tile: extents >= 1, rank and size within the limits.
std::vector<int32_t> constantShape(const Semantics &s, const Value &value, const std::string &what);
// Errors of these two point at the argument, where one said so.
void checkShape(const Semantics &s, std::span<const int32_t> shape, const std::string &what,
                const Value &argument = Value());
// Axis in [-rank, rank) as one in [0, rank).
unsigned wrapAxis(const Semantics &s, int64_t axis, size_t rank, const Value &argument = Value());
std::string shapeText(std::span<const int32_t> shape);

} // namespace libtile::frontend
