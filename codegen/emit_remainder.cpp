// SPDX-License-Identifier: Apache-2.0
// C's fmod of float and double, exact for all numbers on every target: back ends call a C library for
// it, or compute x - y * trunc(x / y), which is wrong beyond the precision.
//
// Long division in base 2^S, of magnitudes. d is y * 2^(S j), the largest that is at most x or so:
//   d = y;  while (x * 2^-S >= d) d *= 2^S
//   r = x;  do { r = r mod d } while (d > y, and then d *= 2^-S)
// Each quotient is below 2^S, so it is rounded to a whole number at worst: r - q * d is negative then,
// by less than d. Both r - q * d and r + d are multiples of d's last place and at most d, so they are
// exact, with one rounding of a fused multiply-add that rounds nothing. 14 rounds at most for float, 43
// for double; one where x / y < 2^S.
#include "codegen/emit_elementwise.h"

#include <llvm/IR/Module.h>

#include <string>

namespace libtile::codegen {

namespace {

using llvm::Value;

// The body of a function of x and y, scalars or vectors: lanes that are done go on without effect.
class RemainderFunction {
public:
  explicit RemainderFunction(llvm::Function &function)
      : function_(function), type_(function.getReturnType()), b_(function.getContext()) {}

  void emit() {
    llvm::BasicBlock *entry = block("entry");
    b_.SetInsertPoint(entry);
    Value *signedX = function_.getArg(0);
    Value *x = magnitude(signedX), *y = magnitude(function_.getArg(1));
    Value *infinity = llvm::ConstantFP::getInfinity(type_);
    Value *isLess = b_.CreateFCmpOLT(x, y); // an infinite y too
    Value *divides = b_.CreateAnd(b_.CreateFCmpOGE(x, y), b_.CreateFCmpOLT(x, infinity));
    divides = b_.CreateAnd(divides, b_.CreateFCmpOGT(y, number(0)));
    Value *dividend = b_.CreateSelect(divides, x, number(0));
    Value *divisor = b_.CreateSelect(divides, y, number(1));
    Value *rest = divided(dividend, scaledUp(dividend, divisor), divisor);
    Value *nan = llvm::ConstantFP::getNaN(type_);
    rest = b_.CreateSelect(isLess, x, b_.CreateSelect(divides, rest, nan));
    b_.CreateRet(b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, rest, signedX));
  }

private:
  llvm::BasicBlock *block(const char *name) {
    return llvm::BasicBlock::Create(b_.getContext(), name, &function_);
  }
  Value *number(double value) { return llvm::ConstantFP::get(type_, value); }
  Value *magnitude(Value *v) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v); }
  // 2^S and its reciprocal, S two bits below the precision.
  [[nodiscard]] double base() const {
    return type_->getScalarType()->isFloatTy() ? 0x1p22 : 0x1p51;
  }
  Value *any(Value *lanes) {
    return lanes->getType()->isVectorTy() ? b_.CreateOrReduce(lanes) : lanes;
  }

  // d: the divisor times a power of the base.
  Value *scaledUp(Value *dividend, Value *divisor) {
    llvm::BasicBlock *before = b_.GetInsertBlock();
    llvm::BasicBlock *loop = block("scale"), *after = block("scaled");
    Value *bound = b_.CreateFMul(dividend, number(1 / base()));
    b_.CreateBr(loop);
    b_.SetInsertPoint(loop);
    llvm::PHINode *scaled = b_.CreatePHI(type_, 2);
    Value *grows = b_.CreateFCmpOGE(bound, scaled);
    Value *next = b_.CreateSelect(grows, b_.CreateFMul(scaled, number(base())), scaled);
    scaled->addIncoming(divisor, before);
    scaled->addIncoming(next, loop);
    b_.CreateCondBr(any(grows), loop, after);
    b_.SetInsertPoint(after);
    return next;
  }

  Value *divided(Value *dividend, Value *scaled, Value *divisor) {
    llvm::BasicBlock *before = b_.GetInsertBlock();
    llvm::BasicBlock *loop = block("divide"), *after = block("divided");
    b_.CreateBr(loop);
    b_.SetInsertPoint(loop);
    llvm::PHINode *r = b_.CreatePHI(type_, 2);
    llvm::PHINode *d = b_.CreatePHI(type_, 2);
    Value *quotient = b_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, b_.CreateFDiv(r, d));
    Value *rest = b_.CreateIntrinsic(llvm::Intrinsic::fma, {type_}, {b_.CreateFNeg(quotient), d, r});
    Value *below = b_.CreateFCmpOLT(rest, number(0));
    rest = b_.CreateSelect(below, b_.CreateFAdd(rest, d), rest);
    Value *more = b_.CreateFCmpOGT(d, divisor);
    Value *next = b_.CreateSelect(more, b_.CreateFMul(d, number(1 / base())), d);
    r->addIncoming(dividend, before);
    r->addIncoming(rest, loop);
    d->addIncoming(scaled, before);
    d->addIncoming(next, loop);
    b_.CreateCondBr(any(more), loop, after);
    b_.SetInsertPoint(after);
    return rest;
  }

  llvm::Function &function_;
  llvm::Type *type_;
  llvm::IRBuilder<> b_;
};

// One for each type and module.
llvm::Function *remainderFunction(llvm::Module &module, llvm::Type *type) {
  const auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  // No kernel's name has dots.
  const std::string name = std::string("libtile.fmod.") +
                           (type->getScalarType()->isFloatTy() ? "f32" : "f64") +
                           (vector != nullptr ? "x" + std::to_string(vector->getNumElements()) : "");
  if (llvm::Function *made = module.getFunction(name)) {
    return made;
  }
  auto *function = llvm::Function::Create(llvm::FunctionType::get(type, {type, type}, false),
                                          llvm::GlobalValue::InternalLinkage, name, module);
  function->setDoesNotThrow();
  function->setDoesNotAccessMemory();
  function->addFnAttr(llvm::Attribute::WillReturn);
  RemainderFunction(*function).emit();
  return function;
}

} // namespace

Value *Elementwise::remainder(Value *a, Value *d) {
  llvm::Module &module = *builder_.GetInsertBlock()->getModule();
  return builder_.CreateCall(remainderFunction(module, a->getType()), {a, d});
}

} // namespace libtile::codegen
