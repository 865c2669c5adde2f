// SPDX-License-Identifier: Apache-2.0
// Arithmetic, comparisons and selections.
#include "codegen/nvidia/ptx/function.h"

#include "ir/diagnostic.h"

#include <optional>
#include <string>

namespace libtile::codegen::nvidia::ptx {

namespace {

using Op = llvm::Instruction;

std::string number(unsigned bits) { return std::to_string(std::max(16U, bits)); }

std::string floatType(const llvm::Type *type) {
  return std::string(".") + floatName(type);
}

} // namespace

Operand FunctionWriter::clean(Operand byte, bool isSigned) {
  if (!byte.isRegister()) {
    const auto value = static_cast<int64_t>(byte.bits);
    return Operand::integer(Size::B16, isSigned ? static_cast<int8_t>(value) : static_cast<uint8_t>(value));
  }
  return isSigned ? made(Size::B16, "cvt.s16.s8", {byte}) : made(Size::B16, "and.b16", {byte, Operand::integer(Size::B16, 255)});
}

Operand FunctionWriter::negated(Operand predicate) {
  if (!predicate.isRegister()) {
    return Operand::integer(Size::Predicate, predicate.bits == 0 ? 1 : 0);
  }
  return made(Size::Predicate, "not.pred", {predicate});
}

// Of single bits. They are only shifted by 0, and divided by 1.
Operand FunctionWriter::logic(unsigned opcode, Operand a, Operand b) {
  if (opcode == Op::URem || opcode == Op::SRem) {
    return Operand::integer(Size::Predicate, 0);
  }
  if (opcode != Op::And && opcode != Op::Or && opcode != Op::Xor && opcode != Op::Add && opcode != Op::Sub && opcode != Op::Mul) {
    return a;
  }
  const bool isXor = opcode == Op::Xor || opcode == Op::Add || opcode == Op::Sub, isOr = opcode == Op::Or;
  if (!a.isRegister()) {
    std::swap(a, b);
  }
  if (!b.isRegister()) {
    const bool isTrue = b.bits != 0;
    return isXor ? (isTrue ? negated(a) : a) : isTrue == isOr ? b : a;
  }
  return made(Size::Predicate, isXor ? "xor.pred" : isOr ? "or.pred" : "and.pred", {a, b});
}

namespace {

// How the instruction is called, for so many bits; "": it is none of them.
std::string nameOf(unsigned opcode, unsigned bits) {
  const std::string width = number(bits);
  switch (opcode) {
  case Op::And:
    return "and.b" + width;
  case Op::Or:
    return "or.b" + width;
  case Op::Xor:
    return "xor.b" + width;
  case Op::Add:
    return "add.s" + width;
  case Op::Sub:
    return "sub.s" + width;
  case Op::Mul:
    return "mul.lo.s" + width;
  case Op::Shl:
    return "shl.b" + width;
  case Op::LShr:
    return "shr.u" + width;
  case Op::AShr:
    return "shr.s" + width;
  case Op::UDiv:
    return "div.u" + width;
  case Op::SDiv:
    return "div.s" + width;
  case Op::URem:
    return "rem.u" + width;
  case Op::SRem:
    return "rem.s" + width;
  }
  return "";
}

// The number that does nothing on the right side; nullopt: there is none.
std::optional<uint64_t> neutral(unsigned opcode) {
  switch (opcode) {
  case Op::Mul:
  case Op::UDiv:
  case Op::SDiv:
    return 1;
  case Op::Add:
  case Op::Sub:
  case Op::Or:
  case Op::Xor:
  case Op::Shl:
  case Op::LShr:
  case Op::AShr:
    return 0;
  case Op::And:
    return ~uint64_t{0};
  }
  return std::nullopt;
}

} // namespace

Operand FunctionWriter::simple(unsigned opcode, unsigned bits, Operand a, Operand b) {
  const bool commutes = opcode == Op::Add || opcode == Op::Mul || opcode == Op::And || opcode == Op::Or || opcode == Op::Xor;
  if (commutes && !a.isRegister()) {
    std::swap(a, b);
  }
  if (!b.isRegister() && neutral(opcode) == b.bits) {
    return a;
  }
  if ((opcode == Op::Mul || opcode == Op::And) && !b.isRegister() && b.bits == 0) {
    return b;
  }
  return made(a.size, nameOf(opcode, bits), {a, b});
}

Operand FunctionWriter::integers(unsigned opcode, unsigned bits, Operand a, Operand b) {
  const bool isShift = opcode == Op::Shl || opcode == Op::LShr || opcode == Op::AShr;
  const bool isSigned = opcode == Op::AShr || opcode == Op::SDiv || opcode == Op::SRem;
  const bool isRemainder = opcode == Op::URem || opcode == Op::SRem;
  const bool isDivision = isRemainder || opcode == Op::UDiv || opcode == Op::SDiv;
  if (bits == 8 && (isShift || isDivision)) { // which look at the upper half
    a = opcode == Op::Shl ? a : clean(a, isSigned);
    b = clean(b, isSigned && !isShift);
  }
  if (isDivision && !b.isRegister() && b.bits != 0) {
    return divided(isSigned, isRemainder, bits, a, static_cast<int64_t>(b.bits));
  }
  if (isShift && b.isRegister() && b.size != Size::B32) { // how far is a number of 32 bits
    b = bits == 64 ? truncated(b, 64, 32) : extended(b, 16, 32, false);
  }
  return simple(opcode, bits, a, b);
}

Operand FunctionWriter::floats(const llvm::BinaryOperator &it, unsigned i) {
  const llvm::Type *type = it.getType()->getScalarType();
  const std::string suffix = floatType(type);
  const Size size = sizeOf(type);
  const bool isNarrow = size == Size::B16; // which take no numbers
  if (const auto sum = fusedSum(it)) {
    const auto signedBy = [&](const llvm::Value *value, bool negates) {
      const Operand operand = isNarrow || negates ? inRegister(value) : whole(value);
      return negates ? made(size, "neg" + suffix, {operand}) : operand;
    };
    return made(size, "fma.rn" + suffix, {signedBy(sum->a, sum->negatesProduct), signedBy(sum->b, false), signedBy(sum->c, sum->negatesSum)});
  }
  const unsigned opcode = it.getOpcode();
  if (opcode == Op::FRem) {
    throw ir::Unsupported("no PTX is known for a remainder of floats");
  }
  Operand a = lane(it.getOperand(0), i), b = lane(it.getOperand(1), i);
  const auto *dividend = llvm::dyn_cast<llvm::ConstantFP>(it.getOperand(0));
  if (opcode == Op::FDiv && dividend != nullptr && dividend->isExactlyValue(1.0)) {
    return made(size, "rcp.rn" + suffix, {b});
  }
  const char *name = opcode == Op::FAdd ? "add" : opcode == Op::FSub ? "sub" : opcode == Op::FMul ? "mul" : "div";
  // Without a rounding ptxas may fuse a product and a sum.
  const char *rounding = it.hasAllowContract() && opcode != Op::FDiv ? "" : ".rn";
  return made(size, name + (rounding + suffix), {isNarrow ? inRegister(a) : a, isNarrow ? inRegister(b) : b});
}

Operand FunctionWriter::binary(const llvm::BinaryOperator &it, unsigned i) {
  if (it.getType()->isFPOrFPVectorTy()) {
    return floats(it, i);
  }
  if (const auto wide = wideProduct(it)) {
    const Operand a = whole(wide->a), b = wide->b != nullptr ? whole(wide->b) : Operand::integer(a.size, wide->number);
    return made(sizeOf(it.getType()), (wide->isSigned ? "mul.wide.s" : "mul.wide.u") + llvm::Twine(bitsOf(it.getType()) / 2), {a, b});
  }
  const Operand a = lane(it.getOperand(0), i), b = lane(it.getOperand(1), i);
  const llvm::Type *type = it.getType()->getScalarType();
  return type->isIntegerTy(1) ? logic(it.getOpcode(), a, b) : integers(it.getOpcode(), bitsOf(type), a, b);
}

void FunctionWriter::visitBinaryOperator(llvm::BinaryOperator &it) {
  if (const Operand place = wanted_.lookup(&it)) {
    return makeIn(place, it, it.hasAllowContract() ? "mul.f32" : "mul.rn.f32", {whole(it.getOperand(0)), whole(it.getOperand(1))});
  }
  byLanes(it, [&](unsigned i) { return binary(it, i); });
}

void FunctionWriter::visitUnaryOperator(llvm::UnaryOperator &it) {
  byLanes(it, [&](unsigned i) {
    const Operand from = inRegister(lane(it.getOperand(0), i));
    return made(from.size, "neg" + floatType(it.getType()->getScalarType()), {from});
  });
}

// ---- comparisons

namespace {

const char *nameOf(llvm::CmpInst::Predicate predicate) {
  using P = llvm::CmpInst::Predicate;
  switch (static_cast<unsigned>(predicate)) {
  case P::ICMP_EQ:
  case P::FCMP_OEQ:
    return "eq";
  case P::ICMP_NE:
  case P::FCMP_ONE:
    return "ne";
  case P::ICMP_SLT:
  case P::ICMP_ULT:
  case P::FCMP_OLT:
    return "lt";
  case P::ICMP_SLE:
  case P::ICMP_ULE:
  case P::FCMP_OLE:
    return "le";
  case P::ICMP_SGT:
  case P::ICMP_UGT:
  case P::FCMP_OGT:
    return "gt";
  case P::ICMP_SGE:
  case P::ICMP_UGE:
  case P::FCMP_OGE:
    return "ge";
  case P::FCMP_UEQ:
    return "equ";
  case P::FCMP_UNE:
    return "neu";
  case P::FCMP_ULT:
    return "ltu";
  case P::FCMP_ULE:
    return "leu";
  case P::FCMP_UGT:
    return "gtu";
  case P::FCMP_UGE:
    return "geu";
  case P::FCMP_ORD:
    return "num";
  case P::FCMP_UNO:
    return "nan";
  }
  throw ir::Unsupported("no PTX is known for a comparison whose result is constant");
}

} // namespace

Operand FunctionWriter::compared(const llvm::ICmpInst &it, unsigned i) {
  const llvm::Type *type = it.getOperand(0)->getType()->getScalarType();
  const unsigned bits = bitsOf(type);
  Operand a = lane(it.getOperand(0), i), b = lane(it.getOperand(1), i);
  if (a == b) {
    return Operand::integer(Size::Predicate, it.isTrueWhenEqual() ? 1 : 0);
  }
  if (bits == 1 && it.isEquality()) {
    const Operand differ = made(Size::Predicate, "xor.pred", {inRegister(a), inRegister(b)});
    return it.getPredicate() == llvm::CmpInst::ICMP_NE ? differ : negated(differ);
  }
  if (bits <= 8) { // a true bit is a signed -1
    a = bits == 1 ? extended(a, 1, 16, it.isSigned()) : clean(a, it.isSigned());
    b = bits == 1 ? extended(b, 1, 16, it.isSigned()) : clean(b, it.isSigned());
  }
  const char *letter = it.isEquality() ? ".b" : it.isSigned() ? ".s" : ".u";
  return made(Size::Predicate, "setp." + llvm::Twine(nameOf(it.getPredicate())) + letter + number(bits), {a, b});
}

void FunctionWriter::visitICmpInst(llvm::ICmpInst &it) {
  byLanes(it, [&](unsigned i) { return compared(it, i); });
}

void FunctionWriter::visitFCmpInst(llvm::FCmpInst &it) {
  const llvm::Type *type = it.getOperand(0)->getType()->getScalarType();
  byLanes(it, [&](unsigned i) {
    const Operand a = lane(it.getOperand(0), i), b = lane(it.getOperand(1), i);
    const bool isNarrow = a.size == Size::B16;
    return made(Size::Predicate, "setp." + llvm::Twine(nameOf(it.getPredicate())) + floatType(type),
                {isNarrow ? inRegister(a) : a, isNarrow ? inRegister(b) : b});
  });
}

Operand FunctionWriter::selected(Operand on, Operand a, Operand b, const llvm::Type *type) {
  if (!on.isRegister()) {
    return on.bits != 0 ? a : b;
  }
  const unsigned bits = bitsOf(type);
  if (bits != 1) {
    return a == b ? a : made(sizeOf(type), (type->isFloatTy() ? "selp.f" : "selp.b") + number(bits), {a, b, on});
  }
  const auto both = [&](const char *name, Operand x, Operand y) {
    return made(Size::Predicate, name, {inRegister(x), inRegister(y)});
  };
  if (!b.isRegister()) {
    return b.bits == 0 ? both("and.pred", on, a) : both("or.pred", negated(on), a);
  }
  if (!a.isRegister()) {
    return a.bits != 0 ? both("or.pred", on, b) : both("and.pred", negated(on), b);
  }
  return both("or.pred", both("and.pred", on, a), both("and.pred", negated(on), b));
}

void FunctionWriter::visitSelectInst(llvm::SelectInst &it) {
  const Operand place = wanted_.lookup(&it), on = place ? whole(it.getCondition()) : Operand();
  if (on.isRegister()) {
    return makeIn(place, it, "selp.f32", {whole(it.getTrueValue()), whole(it.getFalseValue()), on});
  }
  byLanes(it, [&](unsigned i) {
    return selected(lane(it.getCondition(), i), lane(it.getTrueValue(), i), lane(it.getFalseValue(), i),
                    it.getType()->getScalarType());
  });
}

} // namespace libtile::codegen::nvidia::ptx
