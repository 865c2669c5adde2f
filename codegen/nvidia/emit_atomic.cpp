// SPDX-License-Identifier: Apache-2.0
// Atomics as PTX.
//
// Elements of 16 bits for which there is no instruction are compared and swapped until nobody came
// between; those of 8 bits in the aligned word that holds them, which lies on their page.
#include "codegen/nvidia/nvidia_emitter.h"
#include "codegen/nvidia/description.h"
#include "codegen/nvidia/memory_scope.h"
#include "ir/ops.h"

namespace libtile::codegen::nvidia {

using ir::AtomicKind;
using ir::Attr;
using ir::MemOrder;

namespace {

// "add", "max", ...: what the operation is called.
std::string nameOf(AtomicKind kind) {
  switch (kind) {
  case AtomicKind::add:
  case AtomicKind::fadd:
    return "add";
  case AtomicKind::smax:
  case AtomicKind::umax:
    return "max";
  case AtomicKind::smin:
  case AtomicKind::umin:
    return "min";
  case AtomicKind::and_:
    return "and";
  case AtomicKind::or_:
    return "or";
  case AtomicKind::xor_:
    return "xor";
  case AtomicKind::xchg:
    return "exch";
  }
  throw ir::InternalError("unknown atomic kind");
}

// The letter of the type of integers that it works on: 's', 'u' or 'b'.
char letterOf(AtomicKind kind) {
  switch (kind) {
  case AtomicKind::smax:
  case AtomicKind::smin:
    return 's';
  case AtomicKind::add:
  case AtomicKind::umax:
  case AtomicKind::umin:
    return 'u';
  case AtomicKind::fadd:
  case AtomicKind::and_:
  case AtomicKind::or_:
  case AtomicKind::xor_:
  case AtomicKind::xchg:
    return 'b';
  }
  throw ir::InternalError("unknown atomic kind");
}

// ".noftz.f16"
std::string floatType(const ir::Type &type) {
  return type.elementBits() == 16 ? ".noftz." + std::string(type.elem() == ir::Elem::F16 ? "f16" : "bf16")
                                  : ".f" + std::to_string(type.elementBits());
}

// There is an instruction for it.
bool hasAtomic(const ir::Target &target, AtomicKind kind, const ir::Type &type) {
  if (kind == AtomicKind::fadd) {
    return type.elem() != ir::Elem::BF16 || target.atomicAddBf16;
  }
  return type.elementBits() >= 32;
}

// `x`, a float, is rounded to bf16: by an instruction from sm_80 on.
std::string roundedToBf16(int32_t capability, const std::string &next) {
  if (capability >= 80) {
    return "cvt.rn.bf16.f32 " + next + ", x;\n\t";
  }
  // To even by an addition of 0x7fff and the lowest bit that stays, but for NaN.
  return "shr.u32 y, x, 16;\n\tand.b32 y, y, 1;\n\tadd.u32 y, y, x;\n\tadd.u32 y, y, 32767;\n\t"
         "setp.nan.f32 again, x, x;\n\tselp.b32 x, 2147418112, y, again;\n\tmov.b32 {zero, " + next + "}, x;\n\tmov.b16 zero, 0;\n\t";
}

// f(old, value) as `next`, in registers of `bits` bits; of floats bf16 alone.
std::string computed(int32_t capability, AtomicKind kind, unsigned bits, const std::string &old, const std::string &value,
                     const std::string &next) {
  const std::string operands = " " + next + ", " + old + ", " + value + ";\n\t";
  if (kind == AtomicKind::xchg) {
    return "mov.b" + std::to_string(bits) + " " + next + ", " + value + ";\n\t";
  }
  if (kind == AtomicKind::fadd) {
    return "mov.b32 x, {zero, " + old + "};\n\tmov.b32 y, {zero, " + value +
           "};\n\tadd.rn.f32 x, x, y;\n\t" + roundedToBf16(capability, next);
  }
  const std::string type(1, letterOf(kind));
  if (bits == 16 && (nameOf(kind) == "min" || nameOf(kind) == "max")) {
    // In 32 bits, as all minima (NvidiaElementwise::integerMinMax).
    const std::string widen = "cvt." + type + "32." + type + "16 ";
    return widen + "x, " + old + ";\n\t" + widen + "y, " + value + ";\n\t" + nameOf(kind) + "." + type +
           "32 x, x, y;\n\tcvt.u16.u32 " + next + ", x;\n\t";
  }
  return nameOf(kind) + "." + type + std::to_string(bits) + operands;
}

} // namespace

// Two or four f32 by one red.add, from sm_90 on: nobody asks for what was there.
bool NvidiaEmitter::addsNeighbours(ir::OpId op) const {
  return capabilityOf(target_) >= 90 && fn_.opcode(op) == ir::Opcode::AtomicRmw && fn_.unused(fn_.result(op)) && fn_.type(fn_.result(op)).elem() == ir::Elem::F32 &&
         fn_.getEnum<AtomicKind>(op, Attr::kind) == AtomicKind::fadd;
}

// The text of one element, without what makes it conditional: `$0` is the old value, `$1` the address,
// `$2` and `$3` the values.
std::string NvidiaEmitter::atomicText(ir::OpId op, MemOrder sem, const ir::Type &type,
                                bool wantsOld) const {
  const bool isCas = fn_.opcode(op) == ir::Opcode::AtomicCas;
  const auto kind = fn_.getEnum<AtomicKind>(op, Attr::kind);
  const std::string scope = scopeOf(fn_, op);
  const auto order = [&](MemOrder which) {
    return "." + std::string(ir::enumeratorName(ir::AttrKind::MemOrder, int64_t(which))) + scope + ".global";
  };
  const std::string bits = std::to_string(type.elementBits());
  if (isCas && type.elementBits() >= 16) {
    return "atom" + order(sem) + ".cas.b" + bits + " $0, [$1], $2, $3;";
  }
  if (!isCas && hasAtomic(target_, kind, type)) {
    const std::string operation =
        "." + nameOf(kind) +
        (kind == AtomicKind::fadd ? floatType(type) : std::string(".") + letterOf(kind) + bits);
    if (wantsOld) {
      return "atom" + order(sem) + operation + " $0, [$1], $2;";
    }
    // Nobody sees which value was there, so there is nothing to acquire.
    return "red" + order(releases(sem) ? MemOrder::release : MemOrder::relaxed) + operation + " [$0], $1;";
  }
  if (type.elementBits() == 16) {
    return ".reg .b16 seen, next, zero;\n\t.reg .b32 x, y;\n\t.reg .pred again;\n\tmov.b16 zero, 0;\n\tld" +
           order(MemOrder::relaxed) + ".b16 $0, [$1];\n\tRETRY:\n\tmov.b16 seen, $0;\n\t" +
           computed(capabilityOf(target_), kind, 16, "seen", "$2", "next") + "atom" + order(sem) +
           ".cas.b16 $0, [$1], seen, next;\n\tsetp.ne.b16 again, $0, seen;\n\t@again bra RETRY;";
  }
  const std::string sign = letterOf(kind) == 's' ? "s" : "u";
  const std::string compute =
      isCas ? "setp.ne.b32 again, $0, $2;\n\t@again bra UNEQUAL;\n\tmov.b32 byte, $3;\n\t"
            : computed(capabilityOf(target_), kind, 32, "$0", "$2", "byte");
  const std::string fence = sem == MemOrder::relaxed ? "" : "fence.acq_rel" + scope + ";\n\t";
  return ".reg .b64 at;\n\t.reg .b32 seen, next, byte, shift;\n\t.reg .pred again;\n\t" + fence +
         "and.b64 at, $1, -4;\n\tcvt.u32.u64 shift, $1;\n\tand.b32 shift, shift, 3;\n\t"
         "shl.b32 shift, shift, 3;\n\tld" +
         order(MemOrder::relaxed) + ".b32 seen, [at];\n\tRETRY:\n\tbfe." + sign +
         "32 $0, seen, shift, 8;\n\t" + compute + "bfi.b32 next, byte, seen, shift, 8;\n\tatom" +
         order(MemOrder::relaxed) +
         ".cas.b32 byte, [at], seen, next;\n\tsetp.ne.b32 again, byte, seen;\n\tmov.b32 seen, byte;\n\t"
         "@again bra RETRY;\n\tUNEQUAL:\n\t" +
         fence;
}

// To neighbours in memory, each for itself.
void NvidiaEmitter::addNeighbours(ir::OpId op, MemOrder sem, const RegGroup &group, llvm::Value *predicate) {
  AssemblyOperands operands;
  const std::string address = operands.use(regs(fn_.operand(op, 0))[group[0]], "l");
  std::string values;
  for (const int32_t reg : group) {
    values += (values.empty() ? "" : ", ") + operands.use(regs(fn_.operand(op, 1))[reg], "f");
  }
  const std::string on = predicate != nullptr ? "@" + operands.use(predicate, "b") + " " : "";
  const char *order = releases(sem) ? ".release" : ".relaxed";
  assembly(on + "red" + order + scopeOf(fn_, op) + ".global.add.v" + std::to_string(group.size()) + ".f32 [" + address + "], {" +
               values + "};",
           operands, builder_.getVoidTy());
}

// One element: the address, then values. The old value, 0 where off; null if nobody wants it.
llvm::Value *NvidiaEmitter::atomic(ir::OpId op, MemOrder sem, const ir::Type &type,
                             llvm::ArrayRef<llvm::Value *> operands, llvm::Value *predicate,
                             bool wantsOld) {
  const unsigned bytes = type.elementBytes();
  const bool isCas = fn_.opcode(op) == ir::Opcode::AtomicCas;
  const auto kind = fn_.getEnum<AtomicKind>(op, Attr::kind);
  const bool isReduction = !isCas && !wantsOld && kind != AtomicKind::xchg && hasAtomic(target_, kind, type);
  // Bytes are held in words.
  const unsigned bits = bytes == 1 ? 32 : 8 * bytes;
  llvm::Type *held = builder_.getIntNTy(bits);
  const char *constraint = bits == 64 ? "l" : bits == 32 ? "r" : "h";
  std::string constraints = isReduction ? "l" : std::string("=&") + constraint + ",l";
  llvm::SmallVector<llvm::Value *, 4> all = {operands[0]};
  for (llvm::Value *value : operands.drop_front()) {
    constraints += std::string(",") + constraint;
    llvm::Value *word = packWords(type, {value}, bytes)[0];
    const bool isSigned = kind == AtomicKind::smax || kind == AtomicKind::smin;
    all.push_back(isSigned ? builder_.CreateSExt(word, held) : builder_.CreateZExt(word, held));
  }
  std::string text = atomicText(op, sem, type, !isReduction);
  const bool isLoop = text.starts_with(".reg");
  std::string off = isReduction ? "" : "mov.b" + std::to_string(bits) + " $0, 0;\n\t";
  if (predicate != nullptr) {
    const std::string on = "$" + std::to_string(all.size() + (isReduction ? 0 : 1));
    off += (isLoop ? "@!" + on + " bra DONE;\n\t" : "@" + on + " ");
    constraints += ",b";
    all.push_back(predicate);
  }
  text = isLoop ? "{ " + off + text + "\n\tDONE:\n\t}" : off + text;
  llvm::Type *result = isReduction ? builder_.getVoidTy() : held;
  llvm::Value *old = assembly(text, constraints, result, all, true);
  if (isReduction) {
    return nullptr;
  }
  return unpackWords(type, {builder_.CreateTrunc(old, builder_.getIntNTy(8 * bytes))}, bytes, 1)[0];
}

void NvidiaEmitter::fence(ir::OpId op, llvm::Value *predicate) {
  AssemblyOperands operands;
  const std::string on = predicate != nullptr ? "@" + operands.use(predicate, "b") + " " : "";
  assembly(on + "fence.acq_rel" + scopeOf(fn_, op) + ";", operands, builder_.getVoidTy());
}

} // namespace libtile::codegen::nvidia
