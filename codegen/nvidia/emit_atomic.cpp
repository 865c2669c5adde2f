// SPDX-License-Identifier: Apache-2.0
// Atomics. A scalar one is done by thread 0, which tells the others the old value if anybody asks
// for it. What a release or an acquire orders for the other threads is the barriers' business
// (passes/gpu/place_barriers.h): a barrier makes their accesses happen before thread 0's release,
// which is cumulative, and after its acquire.
#include "codegen/nvidia/emitter.h"
#include "ir/ops.h"

#include "passes/gpu/shared_accesses.h"

namespace libtile::codegen::nvidia {

using ir::AtomicKind;
using ir::Attr;

namespace {

std::string orderAndScope(const ir::Function &fn, ir::OpId op) {
  const auto name = [&](ir::AttrKind kind, Attr attr) {
    return "." + std::string(ir::enumeratorName(kind, fn.getInt(op, attr)));
  };
  return name(ir::AttrKind::MemOrder, Attr::sem) + name(ir::AttrKind::MemScope, Attr::scope);
}

// ".add.u32"; empty: there is none.
std::string operation(AtomicKind kind, const ir::Type &type) {
  const std::string bits = std::to_string(type.elementBits());
  if (kind == AtomicKind::fadd) {
    switch (type.elem()) {
    case ir::Elem::F16:
      return ".add.noftz.f16";
    case ir::Elem::BF16:
      return ".add.noftz.bf16";
    case ir::Elem::F32:
      return ".add.f32";
    case ir::Elem::F64:
      return ".add.f64";
    case ir::Elem::Void:
    case ir::Elem::I1:
    case ir::Elem::I8:
    case ir::Elem::I16:
    case ir::Elem::I32:
    case ir::Elem::I64:
      return "";
    }
  }
  if (type.elementBits() < 32) {
    return "";
  }
  switch (kind) {
  case AtomicKind::add:
    return ".add.u" + bits;
  case AtomicKind::fadd:
    return "";
  case AtomicKind::smax:
    return ".max.s" + bits;
  case AtomicKind::umax:
    return ".max.u" + bits;
  case AtomicKind::smin:
    return ".min.s" + bits;
  case AtomicKind::umin:
    return ".min.u" + bits;
  case AtomicKind::and_:
    return ".and.b" + bits;
  case AtomicKind::or_:
    return ".or.b" + bits;
  case AtomicKind::xor_:
    return ".xor.b" + bits;
  case AtomicKind::xchg:
    return ".exch.b" + bits;
  }
  return "";
}

} // namespace

// mov $0, 0;  @p atom... $0, [$1], $2;  operands: the address, then values. The old value, 0 where
// off.
llvm::Value *Emitter::atomic(ir::OpId op, const std::string &instruction, const ir::Type &type,
                             llvm::ArrayRef<llvm::Value *> operands, llvm::Value *predicate) {
  const unsigned bytes = type.elementBytes();
  const char *constraint = bytes == 8 ? "l" : bytes == 4 ? "r" : "h";
  std::string text = "mov.b" + std::to_string(8 * bytes) + " $0, 0;\n\t";
  std::string constraints = std::string("=&") + constraint + ",l";
  llvm::SmallVector<llvm::Value *, 4> all = {operands[0]};
  std::string values;
  for (size_t i = 1; i < operands.size(); ++i) {
    constraints += std::string(",") + constraint;
    values += ", $" + std::to_string(i + 1);
    all.push_back(packWords(type, {operands[i]}, bytes)[0]);
  }
  if (predicate != nullptr) {
    text += "@$" + std::to_string(operands.size() + 1) + " ";
    constraints += ",b";
    all.push_back(predicate);
  }
  text += "atom" + orderAndScope(fn_, op) + ".global" + instruction + " $0, [$1]" + values + ";";
  llvm::Value *old = assembly(text, constraints, builder_.getIntNTy(8 * bytes), all, true);
  return unpackWords(type, {old}, bytes, 1)[0];
}

void Emitter::lowerAtomic(ir::OpId op, const std::string &instruction, unsigned numValues,
                          ir::ValueId mask) {
  const ir::ValueId result = fn_.result(op);
  const ir::Type &type = fn_.type(result);
  const ir::Type element = type.element();
  if (instruction.empty() || element.elementBytes() < 2) {
    throw ir::Unsupported("this atomic on " + element.str() + " on an NVIDIA target",
                          fn_.locationOf(op));
  }
  const auto operandsOf = [&](unsigned reg) {
    llvm::SmallVector<llvm::Value *, 3> operands;
    for (unsigned i = 0; i < numValues; ++i) {
      operands.push_back(regs(fn_.operand(op, i))[reg]);
    }
    return operands;
  };
  const auto maskOf = [&](unsigned reg) { return mask.valid() ? regs(mask)[reg] : nullptr; };
  if (!type.isTile()) {
    llvm::Value *old =
        atomic(op, instruction, element, operandsOf(0), both(isFirstThread(), maskOf(0)));
    return set(result, tellOthers(op, old));
  }
  llvm::Value *canonical = isCanonicalThread(layoutOf(result));
  const ir::Layout &layout = layoutOf(result);
  const bool replicated = canonical != nullptr;
  if (replicated && !fn_.unused(result)) {
    throw ir::Unsupported("the old values of an atomic on a tile with fewer elements than threads",
                          fn_.locationOf(op));
  }
  Regs out(numRegs(result), llvm::Constant::getNullValue(registerType(result)));
  for (const RegGroup &group : accessGroups(fn_.operand(op, 0), mask, 16)) {
    llvm::Value *predicate = both(both(canonical, inTile(type, group[0])), maskOf(group[0]));
    out[group[0]] = atomic(op, instruction, element, operandsOf(group[0]), predicate);
  }
  for (size_t reg = 0; reg < out.size(); ++reg) {
    out[reg] = out[firstReplica(layout, static_cast<int32_t>(reg))];
  }
  set(result, std::move(out));
}

llvm::Value *Emitter::tellOthers(ir::OpId op, llvm::Value *value) {
  if (!passes::tellsOthers(fn_, op)) {
    return value;
  }
  const ir::Type type = fn_.type(fn_.result(op));
  if (fn_.numWarps == 1) {
    return shuffle(type, value, "idx", i32(0));
  }
  llvm::Value *slot =
      builder_.CreateConstGEP1_64(builder_.getInt8Ty(), sharedBase(),
                                  static_cast<uint64_t>(fn_.getInt(op, Attr::offset)));
  storeShared(type, {value}, slot, isFirstThread());
  barrier();
  return loadShared(type, slot);
}

void Emitter::lowerAtomicRmw(ir::OpId op) {
  const std::string instruction =
      operation(fn_.getEnum<AtomicKind>(op, Attr::kind), fn_.type(fn_.result(op)).element());
  lowerAtomic(op, instruction, 2, fn_.numOperands(op) > 2 ? fn_.operand(op, 2) : ir::ValueId{});
}

void Emitter::lowerAtomicCas(ir::OpId op) {
  lowerAtomic(op, ".cas.b" + std::to_string(fn_.type(fn_.result(op)).elementBits()), 3, {});
}

} // namespace libtile::codegen::nvidia
