// SPDX-License-Identifier: Apache-2.0
// Conversions between numbers.
#include "codegen/nvidia/ptx/function.h"

#include "ir/diagnostic.h"

#include <string>

namespace libtile::codegen::nvidia::ptx {

namespace {

using Op = llvm::Instruction;

} // namespace

Operand FunctionWriter::truncated(Operand from, unsigned fromBits, unsigned bits) {
  if (bits == 1) {
    const std::string width = std::to_string(std::max(16U, fromBits));
    const Operand last = made(from.size, "and.b" + width, {from, Operand::integer(from.size, 1)});
    return made(Size::Predicate, "setp.ne.b" + width, {last, Operand::integer(from.size, 0)});
  }
  if (fromBits <= 16) {
    return from;
  }
  const Operand before = bits == 32 && from.isRegister() ? narrow_.lookup(keyOf(from)) : Operand();
  if (before) {
    return before;
  }
  return bits <= 16 ? made(Size::B16, "cvt.u16.u" + llvm::Twine(fromBits), {inRegister(from)})
                    : made(Size::B32, "cvt.u32.u" + llvm::Twine(fromBits), {inRegister(from)});
}

Operand FunctionWriter::extended(Operand from, unsigned fromBits, unsigned bits, bool isSigned) {
  const Size size = bits <= 16 ? Size::B16 : bits == 32 ? Size::B32 : Size::B64;
  const std::string width = std::to_string(std::max(16U, bits));
  if (fromBits == 1) {
    return made(size, "selp.b" + width, {Operand::integer(size, isSigned ? -1 : 1), Operand::integer(size, 0), inRegister(from)});
  }
  if (fromBits == 8 && bits == 64) { // ptxas (12.9, 13.0) takes bytes for halves in conversions to 64 bits
    return extended(extended(from, 8, 32, isSigned), 32, 64, isSigned);
  }
  const std::string letter = isSigned ? "s" : "u";
  from = inRegister(from);
  const Operand out = made(size, "cvt." + letter + width + "." + letter + std::to_string(fromBits), {from});
  if (fromBits == 32) {
    narrow_[keyOf(out)] = from;
  }
  return out;
}

Operand FunctionWriter::resized(Operand from, unsigned fromBits, unsigned bits) {
  return bits == fromBits ? from : bits < fromBits ? truncated(from, fromBits, bits) : extended(from, fromBits, bits, false);
}

Operand FunctionWriter::generic(Operand address, unsigned space) {
  const bool isShared = space == kShared;
  return made(Size::B64, isShared ? "cvta.shared.u64" : "cvta.global.u64", {isShared ? extended(address, 32, 64, false) : inRegister(address)});
}

Operand FunctionWriter::word(Operand operand, unsigned bits, bool isSigned) {
  return bits == 32 ? operand : extended(operand, bits, 32, isSigned);
}

// Towards zero; what the type cannot hold is its nearest number, and NaN is 0. PTX's conversion does so but for NaN where 64 bits
// are on either side.
Operand FunctionWriter::toInteger(Operand from, const llvm::Type *type, unsigned bits, bool isSigned) {
  const std::string letter = isSigned ? "s" : "u", source = floatName(type);
  from = inRegister(from);
  const unsigned held = std::max(32U, bits);
  Operand out = made(held == 64 ? Size::B64 : Size::B32, "cvt.rzi." + letter + std::to_string(held) + "." + source, {from});
  if (held == 64 || type->isDoubleTy()) {
    const Operand isNan = made(Size::Predicate, "setp.nan." + source, {from, from});
    out = made(out.size, "selp.b" + llvm::Twine(held), {Operand::integer(out.size, 0), out, isNan});
  }
  if (bits >= 32) {
    return out;
  }
  const int64_t most = (int64_t{1} << (isSigned ? bits - 1 : bits)) - 1;
  out = made(Size::B32, "min." + letter + "32", {out, Operand::integer(Size::B32, most)});
  if (isSigned) {
    out = made(Size::B32, "max.s32", {out, Operand::integer(Size::B32, -most - 1)});
  }
  return truncated(out, 32, bits);
}

void FunctionWriter::visitTruncInst(llvm::TruncInst &it) {
  if (const auto product = highProduct(it)) {
    const char *name = product->isSigned ? "mul.hi.s" : "mul.hi.u";
    const Operand a = whole(product->a), b = product->b != nullptr ? whole(product->b) : Operand::integer(a.size, product->number);
    return hold(it, made(a.size, name + llvm::Twine(bitsOf(it.getType())), {a, b}));
  }
  visitCastInst(it);
}

void FunctionWriter::visitCastInst(llvm::CastInst &it) {
  const llvm::Type *from = it.getSrcTy()->getScalarType(), *to = it.getDestTy()->getScalarType();
  const unsigned fromBits = bitsOf(from), bits = bitsOf(to);
  const auto convert = [&](Operand value) -> Operand {
    const auto between = [&](const char *kind, const std::string &target, const std::string &source) {
      return made(sizeOf(to), llvm::Twine("cvt") + kind + "." + target + "." + source, {inRegister(value)});
    };
    switch (static_cast<unsigned>(it.getOpcode())) {
    case Op::Trunc:
      return truncated(value, fromBits, bits);
    case Op::ZExt:
    case Op::SExt:
      return extended(value, fromBits, bits, it.getOpcode() == Op::SExt);
    case Op::PtrToInt:
    case Op::IntToPtr:
      return resized(value, fromBits, bits);
    case Op::FPTrunc:
      return between(".rn", floatName(to), floatName(from));
    case Op::FPExt:
      if (from->isBFloatTy()) { // the upper half of a float
        const Operand wide = joined({Operand::integer(Size::B16, 0), value}, 16);
        return to->isDoubleTy() ? made(Size::B64, "cvt.f64.f32", {wide}) : wide;
      }
      return between("", floatName(to), floatName(from));
    case Op::FPToSI:
    case Op::FPToUI:
      return toInteger(value, from, bits, it.getOpcode() == Op::FPToSI);
    case Op::SIToFP:
    case Op::UIToFP: {
      const bool isSigned = it.getOpcode() == Op::SIToFP;
      const unsigned width = std::max(16U, fromBits);
      value = fromBits == 1 ? extended(value, 1, 16, isSigned) : fromBits == 8 ? clean(value, isSigned) : value;
      return between(".rn", floatName(to), (isSigned ? "s" : "u") + std::to_string(width));
    }
    }
    throw ir::Unsupported(std::string("no PTX is known for LLVM's ") + it.getOpcodeName());
  };
  byLanes(it, [&](unsigned i) { return convert(lane(it.getOperand(0), i)); });
}

void FunctionWriter::visitAddrSpaceCastInst(llvm::AddrSpaceCastInst &it) {
  constexpr unsigned kGlobal = 1;
  const unsigned from = it.getSrcAddressSpace();
  if (it.getDestAddressSpace() != 0 || (from != kGlobal && from != kShared)) {
    throw ir::Unsupported("no PTX is known for this change of address space");
  }
  hold(it, generic(whole(it.getOperand(0)), from));
}

} // namespace libtile::codegen::nvidia::ptx
