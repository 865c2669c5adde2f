// SPDX-License-Identifier: Apache-2.0
// Atomic operations, loads and stores: one after another, lane by lane in ascending order; where the lanes lie
// side by side and all are on, as many at once as a compare and swap takes.
#include "codegen/atomic_kinds.h"
#include "codegen/cpu/emitter.h"
#include "codegen/cpu/wide_atomics.h"
#include "ir/ops.h"

namespace libtile::codegen::cpu {

using ir::AtomicKind;
using ir::Attr;
using ir::Elem;
using ir::ValueId;
using llvm::Value;

// A store's lanes give nothing: it goes on with a bit that nobody reads.
void Emitter::eachLane(ir::OpId op, ValueId mask, unsigned numOperands, LaneOp body) {
  const bool isStore = fn_.results(op).empty();
  const auto finish = [&](Value *value, unsigned depth, bool varying) {
    if (!isStore) {
      define(fn_.result(op), value, depth, varying);
    }
  };
  llvm::Type *held =
      isStore ? builder_.getInt1Ty() : elementwise_.registerType(fn_.type(fn_.result(op)));
  bool varying = false;
  for (ValueId operand : fn_.operands(op)) {
    varying |= isVarying(operand);
  }
  const bool asVector = varying && lanes_.count > 1;
  std::vector<Value *> operands;
  for (unsigned i = 0; i < numOperands; ++i) {
    operands.push_back(inForm(fn_.operand(op, i), asVector));
  }
  Value *active = mask.valid() ? inForm(mask, asVector) : nullptr;
  if (asVector) {
    active = laneMask(active);
  }
  const auto guarded = [&](Value *condition, Value *idle,
                           llvm::function_ref<Value *()> act) -> Value * {
    if (condition == nullptr) {
      return act();
    }
    Value *done = nullptr;
    const Joined joined = branch(condition, [&] { done = act(); }, [] {});
    llvm::PHINode *phi = builder_.CreatePHI(idle->getType(), 2);
    phi->addIncoming(done, joined.taken);
    phi->addIncoming(idle, joined.skipped);
    return phi;
  };
  if (!asVector) {
    Value *old =
        guarded(active, llvm::Constant::getNullValue(held), [&] { return body(operands); });
    finish(old, depth(), varying);
    return;
  }
  std::vector<Value *> carried = {
      llvm::Constant::getNullValue(Elementwise::widen(held, lanes_.count))};
  countedLoop({0, lanes_.count, 1}, fn_.effects(op), carried, [&](Value *lane) {
    Value *on = active != nullptr ? builder_.CreateExtractElement(active, lane) : nullptr;
    carried[0] = guarded(on, carried[0], [&] {
      std::vector<Value *> scalars;
      for (Value *operand : operands) {
        scalars.push_back(builder_.CreateExtractElement(operand, lane));
      }
      return builder_.CreateInsertElement(carried[0], body(scalars), lane);
    });
  });
  finish(carried[0], depth(), true);
}

// f16 and bf16 have no atomic addition: compare and swap until nobody came between.
Value *Emitter::narrowAtomicAdd(Elem elem, Value *pointer, Value *value,
                                llvm::AtomicOrdering order) {
  llvm::Type *bits = builder_.getInt16Ty();
  llvm::LoadInst *first = builder_.CreateAlignedLoad(bits, pointer, llvm::Align(2));
  first->setAtomic(llvm::AtomicOrdering::Monotonic);
  llvm::BasicBlock *entry = builder_.GetInsertBlock();
  llvm::BasicBlock *loop = newBlock("retry");
  llvm::BasicBlock *exit = newBlock("added");
  builder_.CreateBr(loop);
  builder_.SetInsertPoint(loop);
  llvm::PHINode *old = builder_.CreatePHI(bits, 2);
  old->addIncoming(first, entry);
  Value *sum =
      builder_.CreateFAdd(elementwise_.toFloat(elem, old), elementwise_.toFloat(elem, value));
  Value *pair = builder_.CreateAtomicCmpXchg(
      pointer, old, elementwise_.fromFloat(elem, sum), llvm::Align(2), order,
      llvm::AtomicCmpXchgInst::getStrongestFailureOrdering(order));
  old->addIncoming(builder_.CreateExtractValue(pair, 0), loop);
  builder_.CreateCondBr(builder_.CreateExtractValue(pair, 1), exit, loop);
  builder_.SetInsertPoint(exit);
  return old;
}

Value *Emitter::atomicRmw(ir::OpId op, Value *pointer, Value *value) {
  const auto kind = fn_.getEnum<AtomicKind>(op, Attr::kind);
  const llvm::AtomicOrdering order = orderOf(fn_.getEnum<ir::MemOrder>(op, Attr::sem));
  const ir::Type type = fn_.type(fn_.operand(op, 1));
  if (kind == AtomicKind::fadd && type.elementBytes() == 2) {
    return narrowAtomicAdd(type.elem(), pointer, value, order);
  }
  return builder_.CreateAtomicRMW(kindOf(kind), pointer, value, llvm::Align(type.elementBytes()),
                                  order);
}

// Whether all lanes are on and the first lies at a multiple of what a compare and swap takes: an i1. Null where
// that is no question, and where accesses are checked: the lanes in front of one out of bounds have an effect.
Value *Emitter::mayGoWide(ir::OpId op) {
  const ir::Type type = fn_.type(fn_.operand(op, 1));
  const int64_t bytes = int64_t{lanes_.count} * type.elementBytes();
  if (fn_.hasAttr(op, Attr::within) || lanes_.count == 1 || needsMask() || !isVarying(fn_.operand(op, 0)) || type.isBool() ||
      bytes % target_.widestAtomic != 0) {
    return nullptr;
  }
  const Address address = addressOf(fn_.operand(op, 0), type);
  if (!address.contiguous) {
    return nullptr;
  }
  Value *place = builder_.CreatePtrToInt(address.pointer, builder_.getInt64Ty());
  Value *offset = builder_.CreateAnd(place, builder_.getInt64(target_.widestAtomic - 1));
  Value *aligned = builder_.CreateICmpEQ(offset, builder_.getInt64(0));
  Value *mask = fn_.numOperands(op) > 2 ? laneMask(vector(fn_.operand(op, 2))) : nullptr;
  return mask != nullptr ? builder_.CreateAnd(aligned, allOf(mask)) : aligned;
}

void Emitter::emitAtomicRmw(ir::OpId op) {
  const ValueId mask = fn_.numOperands(op) > 2 ? fn_.operand(op, 2) : ValueId();
  const ir::Type type = fn_.type(fn_.result(op));
  const auto byLane = [&] {
    eachLane(op, mask, 2, [&](llvm::ArrayRef<Value *> operands) {
      checkScalar(op, operands[0], nullptr);
      Value *old = atomicRmw(op, operands[0], elementwise_.toMemory(type, operands[1]));
      return elementwise_.fromMemory(type, old);
    });
  };
  Value *wide = mayGoWide(op);
  if (wide == nullptr) {
    return byLane();
  }
  const Address address = addressOf(fn_.operand(op, 0), type);
  Value *value = vector(fn_.operand(op, 1)); // in front of both
  Value *old = nullptr;
  const Joined joined = branch(
      wide,
      [&] {
        const WideUpdate update{fn_.getEnum<AtomicKind>(op, Attr::kind), type.elem(),
                                orderOf(fn_.getEnum<ir::MemOrder>(op, Attr::sem)), target_.widestAtomic};
        old = wideAtomicRmw(builder_, elementwise_, update, address.pointer, value);
      },
      byLane);
  llvm::PHINode *both = builder_.CreatePHI(old->getType(), 2);
  both->addIncoming(old, joined.taken);
  both->addIncoming(form(fn_.result(op)).exact, joined.skipped);
  define(fn_.result(op), both, depth(), true);
}

void Emitter::emitAtomicCas(ir::OpId op) {
  const llvm::AtomicOrdering order = orderOf(fn_.getEnum<ir::MemOrder>(op, Attr::sem));
  const ir::Type type = fn_.type(fn_.result(op));
  llvm::Type *held = elementwise_.registerType(type);
  llvm::Type *bits = held->isFloatingPointTy() ? builder_.getIntNTy(held->getScalarSizeInBits())
                                               : elementwise_.memoryType(type);
  const ValueId mask = fn_.numOperands(op) > 3 ? fn_.operand(op, 3) : ValueId();
  eachLane(op, mask, 3, [&](llvm::ArrayRef<Value *> operands) {
    const auto toBits = [&](Value *value) {
      return held->isFloatingPointTy() ? builder_.CreateBitCast(value, bits)
                                       : elementwise_.toMemory(type, value);
    };
    checkScalar(op, operands[0], nullptr);
    Value *pair = builder_.CreateAtomicCmpXchg(
        operands[0], toBits(operands[1]), toBits(operands[2]), llvm::Align(type.elementBytes()),
        order, llvm::AtomicCmpXchgInst::getStrongestFailureOrdering(order));
    Value *old = builder_.CreateExtractValue(pair, 0);
    return held->isFloatingPointTy() ? builder_.CreateBitCast(old, held)
                                     : elementwise_.fromMemory(type, old);
  });
}

void Emitter::emitAtomicLoad(ir::OpId op) {
  const ir::Type type = fn_.type(fn_.result(op));
  const ValueId mask = fn_.numOperands(op) > 1 ? fn_.operand(op, 1) : ValueId();
  eachLane(op, mask, 1, [&](llvm::ArrayRef<Value *> operands) {
    checkScalar(op, operands[0], nullptr);
    llvm::LoadInst *read = builder_.CreateAlignedLoad(elementwise_.memoryType(type), operands[0],
                                                      llvm::Align(type.elementBytes()), true);
    read->setAtomic(orderOf(fn_.getEnum<ir::MemOrder>(op, Attr::sem)));
    return elementwise_.fromMemory(type, read);
  });
}

void Emitter::emitAtomicStore(ir::OpId op) {
  const ir::Type type = fn_.type(fn_.operand(op, 1));
  const ValueId mask = fn_.numOperands(op) > 2 ? fn_.operand(op, 2) : ValueId();
  eachLane(op, mask, 2, [&](llvm::ArrayRef<Value *> operands) {
    checkScalar(op, operands[0], nullptr);
    llvm::StoreInst *write = builder_.CreateAlignedStore(elementwise_.toMemory(type, operands[1]), operands[0],
                                                         llvm::Align(type.elementBytes()), true);
    write->setAtomic(orderOf(fn_.getEnum<ir::MemOrder>(op, Attr::sem)));
    return builder_.getFalse();
  });
}

} // namespace libtile::codegen::cpu
