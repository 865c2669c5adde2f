// SPDX-License-Identifier: Apache-2.0
// Inline assembly, LLVM's intrinsics, and functions that are called.
#include "codegen/nvidia/ptx/function.h"

#include "ir/diagnostic.h"

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <cctype>

namespace libtile::codegen::nvidia::ptx {

using llvm::Intrinsic::ID;

void FunctionWriter::visitCallInst(llvm::CallInst &it) {
  if (it.isInlineAsm()) {
    return assembly(it);
  }
  if (const auto *known = llvm::dyn_cast<llvm::IntrinsicInst>(&it)) {
    return intrinsic(*known);
  }
  call(it);
}

// ---- assembly

llvm::SmallVector<std::pair<unsigned, unsigned>, 8> tiedArguments(const llvm::CallInst &assembly) {
  const auto *text = llvm::cast<llvm::InlineAsm>(assembly.getCalledOperand());
  llvm::SmallVector<std::pair<unsigned, unsigned>, 8> tied;
  unsigned argument = 0;
  for (llvm::StringRef rest = text->getConstraintString(); !rest.empty();) {
    const auto [code, others] = rest.split(',');
    rest = others;
    unsigned result = 0;
    if (!code.getAsInteger(10, result)) {
      tied.emplace_back(result, argument);
    }
    argument += code.starts_with("=") || code.starts_with("~") ? 0 : 1;
  }
  return tied;
}

namespace {

// A register of the kind that the constraint names.
Size sizeNamed(llvm::StringRef code) {
  const char letter = code.empty() ? '?' : code[0];
  switch (letter) {
  case 'b':
    return Size::Predicate;
  case 'h':
  case 'c':
    return Size::B16;
  case 'r':
  case 'f':
    return Size::B32;
  case 'l':
  case 'd':
    return Size::B64;
  }
  throw ir::UserError("in the kernel's assembly: the constraint `" + code.str() + "` is unknown");
}

// The text with operands in place of $0, ${1} and so on, and the statement's number in place of ${:uid}; $$ is a $.
std::string withOperands(llvm::StringRef text, llvm::ArrayRef<Operand> operands, unsigned number) {
  std::string out;
  while (!text.empty()) {
    const auto [before, rest] = text.split('$');
    out += before;
    const bool found = before.size() < text.size();
    text = rest;
    if (!found) {
      break;
    }
    if (text.consume_front("$")) {
      out += '$';
      continue;
    }
    if (text.consume_front("{:uid}")) {
      out += std::to_string(number);
      continue;
    }
    const bool braced = text.consume_front("{");
    size_t index = 0;
    if (text.consumeInteger(10, index) || (braced && !text.consume_front("}")) || index >= operands.size()) {
      throw ir::UserError("in the kernel's assembly: invalid operand number in inline asm string");
    }
    Text::append(out, operands[index]);
  }
  return out;
}

} // namespace

void FunctionWriter::assembly(const llvm::CallInst &it) {
  const auto *assembly = llvm::cast<llvm::InlineAsm>(it.getCalledOperand());
  const llvm::InlineAsm::ConstraintInfoVector constraints = assembly->ParseConstraints();
  llvm::DenseMap<unsigned, unsigned> tied;
  for (const auto &[result, from] : tiedArguments(it)) {
    tied[result] = from;
  }
  Operands results;
  llvm::SmallVector<Operand, 16> operands;
  unsigned argument = 0;
  bool changes = false; // registers that have been others'
  for (const llvm::InlineAsm::ConstraintInfo &constraint : constraints) {
    const llvm::StringRef code = constraint.Codes.empty() ? "" : llvm::StringRef(constraint.Codes[0]);
    if (constraint.Type == llvm::InlineAsm::isOutput) {
      const auto number = static_cast<unsigned>(results.size());
      const auto from = tied.find(number);
      const llvm::Value *before = from != tied.end() ? it.getArgOperand(from->second) : nullptr;
      const Size size = sizeNamed(code);
      Operand place = placeOfResult(it, number, before);
      const bool isOther = place.isRegister() && place.size == size;
      changes |= isOther;
      place = isOther ? place : text_.fresh(size);
      if (before != nullptr && whole(before) != place) {
        text_.line(moveOf(size), place, ", ", whole(before));
      }
      results.push_back(place);
      operands.push_back(place);
    } else if (constraint.Type == llvm::InlineAsm::isInput) {
      const llvm::Value *value = it.getArgOperand(argument++);
      unsigned result = 0;
      if (!code.getAsInteger(10, result)) {
        operands.push_back(operands[result]);
        continue;
      }
      const Operand given = code == "n" || code == "i" ? whole(value) : inRegister(value);
      // An address in shared memory, which has 32 bits, where 64 are asked for.
      operands.push_back(code == "l" && given.size == Size::B32 ? extended(given, 32, 64, false) : given);
    }
  }
  text_.raw("\t", withOperands(assembly->getAsmString(), operands, statements_++));
  if (changes) { // what was made of them before is not what would be made now
    made_.clear();
  }
  if (it.getType()->isStructTy()) {
    hold(it, std::move(results));
  } else if (!results.empty()) {
    hold(it, results[0]);
  }
}

// ---- intrinsics

namespace {

// Registers of the machine, null: it is none.
const char *specialRegister(ID id) {
  switch (id) {
  case llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x:
    return "%tid.x";
  case llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x:
    return "%ctaid.x";
  case llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_y:
    return "%ctaid.y";
  case llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_z:
    return "%ctaid.z";
  case llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x:
    return "%nctaid.x";
  case llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_y:
    return "%nctaid.y";
  case llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_z:
    return "%nctaid.z";
  }
  return nullptr;
}

// What takes a type behind its name and operands as they are; null: it is no such.
const char *nameOfFunction(ID id) {
  switch (id) {
  case llvm::Intrinsic::fabs:
    return "abs.f";
  case llvm::Intrinsic::sqrt:
    return "sqrt.rn.f";
  case llvm::Intrinsic::fma:
    return "fma.rn.f";
  case llvm::Intrinsic::copysign:
    return "copysign.f";
  case llvm::Intrinsic::maxnum:
    return "max.f";
  case llvm::Intrinsic::minnum:
    return "min.f";
  case llvm::Intrinsic::maximum:
    return "max.NaN.f";
  case llvm::Intrinsic::minimum:
    return "min.NaN.f";
  case llvm::Intrinsic::smax:
    return "max.s";
  case llvm::Intrinsic::smin:
    return "min.s";
  case llvm::Intrinsic::umax:
    return "max.u";
  case llvm::Intrinsic::umin:
    return "min.u";
  case llvm::Intrinsic::abs:
    return "abs.s";
  }
  return nullptr;
}

// Which whole number a float is rounded to; null: it is no such function.
const char *roundingOf(ID id) {
  switch (id) {
  case llvm::Intrinsic::floor:
    return "rmi";
  case llvm::Intrinsic::ceil:
    return "rpi";
  case llvm::Intrinsic::trunc:
    return "rzi";
  case llvm::Intrinsic::roundeven:
  case llvm::Intrinsic::rint:
  case llvm::Intrinsic::nearbyint:
    return "rni";
  }
  return nullptr;
}

} // namespace

void FunctionWriter::intrinsic(const llvm::IntrinsicInst &it) {
  if (const char *name = specialRegister(it.getIntrinsicID())) {
    return hold(it, made(Size::B32, "mov.u32 " + llvm::Twine(name), {}));
  }
  byLanes(it, [&](unsigned i) { return function(it, i); });
}

Operand FunctionWriter::function(const llvm::IntrinsicInst &it, unsigned i) {
  const ID id = it.getIntrinsicID();
  const llvm::Type *type = it.getType()->getScalarType(), *from = it.getArgOperand(0)->getType()->getScalarType();
  const unsigned bits = bitsOf(type);
  if (from->isIntegerTy(1)) {
    return ofSingleBits(it, i);
  }
  if (id == llvm::Intrinsic::fptosi_sat || id == llvm::Intrinsic::fptoui_sat) {
    return toInteger(lane(it.getArgOperand(0), i), from, bits, id == llvm::Intrinsic::fptosi_sat);
  }
  if (type->isBFloatTy()) {
    throw ir::Unsupported("no PTX is known for functions of bf16");
  }
  if (const char *rounding = roundingOf(id)) {
    const Operand value = inRegister(lane(it.getArgOperand(0), i));
    return made(value.size, "cvt." + llvm::Twine(rounding) + ".f" + llvm::Twine(bits) + ".f" + llvm::Twine(bits), {value});
  }
  const char *name = nameOfFunction(id);
  if (name == nullptr) {
    return bitFunction(it, i);
  }
  const bool isSigned = id != llvm::Intrinsic::umax && id != llvm::Intrinsic::umin;
  const unsigned count = id == llvm::Intrinsic::abs ? 1 : it.arg_size();
  Operands operands;
  for (unsigned k = 0; k < count; ++k) {
    const Operand value = inRegister(lane(it.getArgOperand(k), i));
    operands.push_back(bits == 8 ? clean(value, isSigned) : value);
  }
  if (id == llvm::Intrinsic::copysign) { // the sign comes first
    std::swap(operands[0], operands[1]);
  }
  return made(operands[0].size, name + llvm::Twine(std::max(16U, bits)), operands);
}

// True is a signed -1.
Operand FunctionWriter::ofSingleBits(const llvm::IntrinsicInst &it, unsigned i) {
  const Operand a = lane(it.getArgOperand(0), i);
  switch (it.getIntrinsicID()) {
  case llvm::Intrinsic::smax:
  case llvm::Intrinsic::umin:
    return logic(llvm::Instruction::And, a, lane(it.getArgOperand(1), i));
  case llvm::Intrinsic::smin:
  case llvm::Intrinsic::umax:
    return logic(llvm::Instruction::Or, a, lane(it.getArgOperand(1), i));
  case llvm::Intrinsic::ctlz:
    return negated(a);
  case llvm::Intrinsic::abs:
  case llvm::Intrinsic::ctpop:
  case llvm::Intrinsic::bitreverse:
    return a;
  }
  throw ir::Unsupported("no PTX is known for LLVM's " + it.getCalledFunction()->getName().str() + " of single bits");
}

// Of integers, in words of 32 or 64 bits; what is found of a shorter number is moved to its bits.
Operand FunctionWriter::bitFunction(const llvm::IntrinsicInst &it, unsigned i) {
  const ID id = it.getIntrinsicID();
  const unsigned bits = bitsOf(it.getType()->getScalarType()), held = std::max(32U, bits);
  const bool counts = id == llvm::Intrinsic::ctpop || id == llvm::Intrinsic::ctlz;
  if (!counts && id != llvm::Intrinsic::bitreverse) {
    throw ir::Unsupported("no PTX is known for LLVM's " + it.getCalledFunction()->getName().str());
  }
  const Operand value = inRegister(lane(it.getArgOperand(0), i));
  const Operand from = bits < 32 ? word(value, bits, false) : value;
  const char *name = id == llvm::Intrinsic::ctpop ? "popc.b" : id == llvm::Intrinsic::ctlz ? "clz.b" : "brev.b";
  Operand out = made(counts ? Size::B32 : from.size, name + llvm::Twine(held), {from});
  if (bits < 32 && id != llvm::Intrinsic::ctpop) {
    out = made(Size::B32, counts ? "sub.s32" : "shr.u32", {out, Operand::integer(Size::B32, 32 - int64_t{bits})});
  }
  return bits < 32 ? truncated(out, 32, bits) : bits == 64 && counts ? extended(out, 32, 64, false) : out;
}

// ---- functions

void FunctionWriter::call(const llvm::CallInst &it) {
  const llvm::Function *callee = it.getCalledFunction();
  if (callee == nullptr) {
    throw ir::Unsupported("no PTX is known for a call of a pointer");
  }
  const std::string number = std::to_string(calls_++), result = "result" + number;
  std::string arguments;
  llvm::SmallVector<std::pair<std::string, Operand>, 4> passed;
  for (unsigned i = 0; i < it.arg_size(); ++i) {
    passed.emplace_back("argument" + number + "_" + std::to_string(i), inRegister(it.getArgOperand(i)));
  }
  text_.raw("\t{");
  for (const auto &[name, value] : passed) {
    const unsigned bits = value.size == Size::B64 ? 64 : 32;
    text_.line(".param .b", bits, " ", name);
    text_.line("st.param.b", bits, " [", name, "], ", value);
    arguments += (arguments.empty() ? "" : ", ") + name;
  }
  if (it.getType()->isVoidTy()) {
    text_.line("call.uni ", nameOf(*callee), ", (", arguments, ")");
  } else {
    const Operand out = text_.fresh(sizeOf(it.getType()));
    const unsigned bits = out.size == Size::B64 ? 64 : 32;
    text_.line(".param .b", bits, " ", result);
    text_.line("call.uni (", result, "), ", nameOf(*callee), ", (", arguments, ")");
    text_.line("ld.param.b", bits, " ", out, ", [", result, "]");
    hold(it, out);
  }
  text_.raw("\t}");
}

} // namespace libtile::codegen::nvidia::ptx
