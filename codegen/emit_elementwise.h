// SPDX-License-Identifier: Apache-2.0
// The elementwise ops as LLVM IR, with exactly the semantics of ops.def: shared by the emitters of
// all targets.
//
// Operands are all scalars, or all fixed vectors of one length; the result has that form. What an
// LLVM value holds:
//   i1, i8 .. i64   iN;  i1 lies in memory as a byte (memoryType)
//   f16, bf16       i16, the bits. Arithmetic computes in float and rounds once more, which gives
//                   the correctly rounded result for + - * / sqrt (24 >= 2p + 2); fma goes through
//                   double, rounded to odd. So no backend's support of half or bfloat matters, but
//                   for the conversions, which a target may override.
//   f32, f64        float, double
//   pointers        pointerType(): ptr, of the target's address space
//
// No instruction made here is poison or traps for any operand value, so it may stand in inactive
// lanes and be hoisted anywhere: no nsw, nuw, exact, inbounds or fast-math flags.
#pragma once

#include "ir/function.h"

#include <llvm/IR/IRBuilder.h>

namespace libtile::codegen {

class Elementwise {
public:
  explicit Elementwise(llvm::IRBuilder<> &builder) : builder_(builder) {}
  virtual ~Elementwise() = default;
  Elementwise(const Elementwise &) = delete;
  Elementwise &operator=(const Elementwise &) = delete;

  // How a value of the element type (of a scalar, tile or buffer) is held, and how it lies in
  // memory.
  [[nodiscard]] llvm::Type *registerType(const ir::Type &type) const;
  [[nodiscard]] llvm::Type *registerType(ir::Elem elem) const;
  [[nodiscard]] llvm::Type *memoryType(const ir::Type &type) const;
  // `scalar` itself for lanes = 1, else a vector of it.
  [[nodiscard]] static llvm::Type *widen(llvm::Type *scalar, unsigned lanes);
  // Memory form <-> register form: i8 <-> i1, else the value itself.
  llvm::Value *fromMemory(const ir::Type &type, llvm::Value *value);
  llvm::Value *toMemory(const ir::Type &type, llvm::Value *value);

  // The op `isElementwise`; all operands scalars or vectors of one length.
  llvm::Value *emit(const ir::Function &fn, ir::OpId op, llvm::ArrayRef<llvm::Value *> operands);
  // The number of a Constant op, as a scalar.
  llvm::Constant *constant(const ir::Function &fn, ir::OpId op);
  // The nearest float of that type, as it is held.
  llvm::Constant *floatConstant(ir::Elem elem, double number) const;

  // ---- conversions, for emitters that pack or accumulate themselves
  // f16 or bf16 bits -> float, exact.
  virtual llvm::Value *toFloat(ir::Elem elem, llvm::Value *bits);
  // float -> f16 or bf16 bits, nearest even.
  virtual llvm::Value *fromFloat(ir::Elem elem, llvm::Value *value);
  // double -> f16 or bf16 bits, nearest even (once).
  virtual llvm::Value *fromDouble(ir::Elem elem, llvm::Value *value);

protected:
  llvm::IRBuilder<> &builder_;

  virtual llvm::Type *pointerType() const { return builder_.getPtrTy(); }
  // A FUNCTION of ops.def on float or double: one that Target::functions names.
  virtual llvm::Value *function(ir::Opcode opcode, llvm::ArrayRef<llvm::Value *> operands) = 0;
  // A CAST_FUNCTION of ops.def: one that Target::functions names.
  virtual llvm::Value *castFunction(const ir::Function &fn, ir::OpId op, llvm::Value *operand);
  // a / b of float or double; unless `rounded`, the target may be off by 2 ulp in float.
  virtual llvm::Value *divide(llvm::Value *a, llvm::Value *b, bool rounded);
  virtual llvm::Value *squareRoot(llvm::Value *a); // correctly rounded
  // a fmin or fmax of float or double.
  virtual llvm::Value *minMax(bool isMax, bool propagateNan, llvm::Value *a, llvm::Value *b);
  // Of integers: an ordered comparison; smin, smax, umin or umax.
  virtual llvm::Value *compareIntegers(llvm::CmpInst::Predicate predicate, llvm::Value *a, llvm::Value *b);
  virtual llvm::Value *integerMinMax(llvm::Intrinsic::ID which, llvm::Value *a, llvm::Value *b);
  // The upper 16 bits of each i32.
  virtual llvm::Value *upperHalves(llvm::Value *words);
  // The nearest bf16 of an integer of 32 or 64 bits, as bits.
  virtual llvm::Value *wideToBf16(bool isSigned, llvm::Value *a);
  // Quotient of integers; divisors are safe already: not 0, and not -1 where `a` is the least one.
  virtual llvm::Value *divideSafe(bool isSigned, llvm::Value *a, llvm::Value *b);

  llvm::Value *splatLike(llvm::Value *like, llvm::Constant *scalar);
  // The number in the type of `like`, in each lane.
  llvm::Value *intLike(llvm::Value *like, int64_t value);
  llvm::Value *floatLike(llvm::Value *like, double value);
  // The element `type` in as many lanes as `like` has.
  static llvm::Type *typeLike(llvm::Value *like, llvm::Type *type);
  llvm::Value *roundToOddFloat(llvm::Value *value);

private:
  using Operands = llvm::ArrayRef<llvm::Value *>;
  // What the attributes of an op ask for.
  struct Asked {
    bool nan = false, rounded = false;
  };
  // Of integers, float or double.
  llvm::Value *arithmetic(ir::Opcode opcode, Operands v, Asked asked = {false, false});
  llvm::Value *division(ir::Opcode opcode, llvm::Value *a, llvm::Value *d);
  // C fmod of float or double, exact: a call of a function that the module gets (emit_remainder.cpp).
  llvm::Value *remainder(llvm::Value *a, llvm::Value *d);
  llvm::Value *highProduct(bool isSigned, llvm::Value *a, llvm::Value *b);
  llvm::Value *shift(ir::Opcode opcode, llvm::Value *a, llvm::Value *amount);
  llvm::Value *floating(const ir::Function &fn, ir::OpId op, Operands v);
  llvm::Value *narrowFma(ir::Elem elem, Operands v);
  llvm::Value *compareBools(ir::CmpPred predicate, llvm::Value *x, llvm::Value *y);
  llvm::Value *compare(ir::CmpPred predicate, ir::Type type, Operands v);
  llvm::Value *cast(const ir::Function &fn, ir::OpId op, llvm::Value *a);
  llvm::Value *fromInteger(bool isSigned, ir::Elem to, llvm::Value *a);
  llvm::Value *toInteger(llvm::Intrinsic::ID saturating, ir::Elem from, llvm::Type *to,
                         llvm::Value *a);
  llvm::Value *convertFloat(ir::Elem from, ir::Elem to, llvm::Value *a);
};

} // namespace libtile::codegen
