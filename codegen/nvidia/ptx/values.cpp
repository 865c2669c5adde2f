// SPDX-License-Identifier: Apache-2.0
// Registers of values: constants, and vectors in either form.
#include "codegen/nvidia/ptx/function.h"

#include "ir/diagnostic.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Operator.h>

namespace libtile::codegen::nvidia::ptx {

namespace {

[[noreturn]] void unsupported(const std::string &what) { throw ir::Unsupported("no PTX is known for " + what); }

std::string textOf(const llvm::Type *type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  type->print(stream);
  return text;
}

uint64_t elementIndex(const llvm::Value *index) {
  if (const auto *number = llvm::dyn_cast<llvm::ConstantInt>(index)) {
    return number->getZExtValue();
  }
  unsupported("an element that only the running kernel knows");
}

Size sizeOfBits(unsigned bits) {
  switch (bits) {
  case 1:
    return Size::Predicate;
  case 8:
  case 16:
    return Size::B16;
  case 32:
    return Size::B32;
  case 64:
    return Size::B64;
  }
  unsupported("a value of " + std::to_string(bits) + " bits");
}

} // namespace

const char *moveOf(Size size) {
  constexpr const char *kMoves[] = {"mov.pred ", "mov.b16 ", "mov.b32 ", "mov.b64 "};
  return kMoves[static_cast<size_t>(size)];
}

unsigned bitsOf(const llvm::Type *type) {
  if (const auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(type)) {
    return vector->getNumElements() * bitsOf(vector->getElementType());
  }
  if (type->isPointerTy()) { // within shared memory 32 bits are enough, for PTX as for the machine
    return type->getPointerAddressSpace() == kShared ? 32 : 64;
  }
  const unsigned bits = type->getPrimitiveSizeInBits().getFixedValue();
  return bits != 0 ? bits : (unsupported("values of the type " + textOf(type)), 0);
}

Size sizeOf(const llvm::Type *type) { return sizeOfBits(bitsOf(type)); }

const char *floatName(const llvm::Type *type) {
  return type->isHalfTy() ? "f16" : type->isBFloatTy() ? "bf16" : type->isFloatTy() ? "f32" : "f64";
}

// ---- constants

namespace {

// Of a number in a register of the type.
Operand::Kind kindOf(const llvm::Type *type) {
  return type->isFloatTy() ? Operand::Kind::Float : type->isDoubleTy() ? Operand::Kind::Double : Operand::Kind::Integer;
}

// A number's bits as a number of that type: how it is written depends on that.
Operand retyped(Operand operand, const llvm::Type *type) {
  if (operand.isRegister() || kindOf(type) == operand.kind) {
    return operand;
  }
  const bool isInteger = kindOf(type) == Operand::Kind::Integer, isWord = operand.size == Size::B32;
  const uint64_t bits = !isWord ? operand.bits : isInteger ? static_cast<uint64_t>(llvm::SignExtend64<32>(operand.bits)) : llvm::Lo_32(operand.bits);
  return {kindOf(type), operand.size, bits};
}

} // namespace

Operand FunctionWriter::constant(const llvm::Constant *value) {
  const llvm::Type *type = value->getType();
  const Operand::Kind kind = kindOf(type);
  if (const auto *number = llvm::dyn_cast<llvm::ConstantInt>(value)) {
    return Operand::integer(sizeOf(type), number->getValue().getBitWidth() == 1 ? number->isOne() : number->getSExtValue());
  }
  if (const auto *number = llvm::dyn_cast<llvm::ConstantFP>(value)) {
    const uint64_t bits = number->getValueAPF().bitcastToAPInt().getZExtValue();
    return {kind, sizeOf(type), bits};
  }
  if (value->isNullValue() || llvm::isa<llvm::UndefValue>(value)) {
    return {kind, sizeOf(type), 0};
  }
  if (const auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(type)) {
    uint64_t bits = 0;
    const unsigned each = bitsOf(vector->getElementType());
    for (unsigned i = vector->getNumElements(); i-- > 0;) {
      const uint64_t mask = each == 64 ? ~uint64_t{0} : (uint64_t{1} << each) - 1;
      bits = (each == 64 ? 0 : bits << each) | (constant(value->getAggregateElement(i)).bits & mask);
    }
    const Size size = sizeOf(type);
    return Operand::integer(size, size == Size::B32   ? static_cast<int32_t>(bits)
                                  : size == Size::B16 ? static_cast<int16_t>(bits)
                                                      : static_cast<int64_t>(bits));
  }
  return addressOf(value);
}

// Of memory that the module declares, and numbers behind it.
Operand FunctionWriter::addressOf(const llvm::Constant *value) {
  const Size size = sizeOf(value->getType());
  if (const auto *global = llvm::dyn_cast<llvm::GlobalValue>(value)) {
    const Operand base = bases_.lookup(global);
    return base ? base : made(size, moveOf(size) + llvm::Twine(nameOf(*global)), {});
  }
  const auto *expression = llvm::dyn_cast<llvm::ConstantExpr>(value);
  if (expression == nullptr) {
    unsupported("a constant of the type " + textOf(value->getType()));
  }
  const llvm::Constant *inner = expression->getOperand(0);
  switch (static_cast<unsigned>(expression->getOpcode())) {
  case llvm::Instruction::GetElementPtr: {
    const Address where = ptx::addressOf(value, layout_);
    if (where.base == value) {
      unsupported("an address that no number is the distance of");
    }
    return made(size, size == Size::B32 ? "add.s32" : "add.s64", {whole(where.base), Operand::integer(size, where.bytes)});
  }
  case llvm::Instruction::AddrSpaceCast:
    return generic(whole(inner), inner->getType()->getPointerAddressSpace());
  case llvm::Instruction::BitCast:
    return whole(inner);
  case llvm::Instruction::PtrToInt:
  case llvm::Instruction::IntToPtr:
    return resized(whole(inner), bitsOf(inner->getType()), bitsOf(value->getType()));
  }
  unsupported(std::string("a constant's ") + expression->getOpcodeName());
}

// ---- registers

Operand FunctionWriter::made(Size size, const llvm::Twine &instruction, llvm::ArrayRef<Operand> operands) {
  std::string key = instruction.str();
  const size_t name = key.find(' ') == std::string::npos ? key.size() : key.find(' ');
  for (const Operand operand : operands) {
    key += key.size() == name ? " " : ", ";
    Text::append(key, operand);
  }
  Operand &found = made_[key];
  if (!found) {
    found = text_.fresh(size);
    text_.line(key.substr(0, name), ' ', found, key.size() > name ? ", " : "", key.size() > name ? key.substr(name + 1) : "");
  }
  return found;
}

void FunctionWriter::makeIn(Operand place, const llvm::Instruction &it, const char *instruction, llvm::ArrayRef<Operand> operands) {
  std::string rest;
  for (const Operand operand : operands) {
    rest += ", ";
    Text::append(rest, operand);
  }
  text_.line(instruction, " ", place, rest);
  made_.clear(); // what was made of the register before is not what would be made now
  hold(it, place);
}

Operand FunctionWriter::inRegister(Operand operand) {
  return operand.isRegister() ? operand : made(operand.size, llvm::StringRef(moveOf(operand.size)).rtrim(), {operand});
}

Operand FunctionWriter::whole(const llvm::Value *value) {
  if (const auto *number = llvm::dyn_cast<llvm::Constant>(value)) {
    return constant(number);
  }
  Held &held = held_[value];
  if (held.whole && known(held.wholeIn)) {
    return held.bytes == 0 ? held.whole : simple(llvm::Instruction::Add, 32, held.whole, Operand::integer(Size::B32, held.bytes));
  }
  if (held.elements.empty()) {
    throw ir::InternalError("a value that no instruction before has made");
  }
  const Operands parts = held.elements;
  const Operand made = joined(parts, bitsOf(llvm::cast<llvm::FixedVectorType>(value->getType())->getElementType()));
  Held &again = held_[value];
  again.whole = made;
  again.wholeIn = here_;
  return made;
}

Operand FunctionWriter::element(const llvm::Value *value, unsigned i) {
  if (const auto *number = llvm::dyn_cast<llvm::Constant>(value)) {
    return constant(number->getAggregateElement(i));
  }
  const Held &held = held_[value];
  if (!held.elements.empty() && known(held.elementsIn)) {
    return held.elements[i];
  }
  const auto *type = llvm::cast<llvm::FixedVectorType>(value->getType());
  Operands parts = parted(held.whole, bitsOf(type->getElementType()), type->getNumElements());
  Held &again = held_[value];
  again.elements = std::move(parts);
  again.elementsIn = here_;
  return again.elements[i];
}

Operand FunctionWriter::lane(const llvm::Value *value, unsigned i) {
  return value->getType()->isVectorTy() ? element(value, i) : whole(value);
}

void FunctionWriter::byLanes(const llvm::Instruction &it, llvm::function_ref<Operand(unsigned)> compute) {
  const auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(it.getType());
  if (vector == nullptr) {
    return hold(it, compute(0));
  }
  Operands elements;
  for (unsigned i = 0; i < vector->getNumElements(); ++i) {
    elements.push_back(compute(i));
  }
  hold(it, std::move(elements));
}

// ---- words of several elements

// The register that is parted into these, in this order.
Operand FunctionWriter::partedFrom(llvm::ArrayRef<Operand> parts, unsigned bits) const {
  Operand whole;
  for (unsigned i = 0; i < parts.size(); ++i) {
    const auto found = partOf_.find(keyOf(parts[i]));
    if (!parts[i].isRegister() || found == partOf_.end() || found->second.index != i || found->second.count != parts.size() ||
        found->second.bits != bits ||
        (i > 0 && found->second.whole != whole)) {
      return {};
    }
    whole = found->second.whole;
  }
  return whole;
}

// By permutations of two words' bytes: one, where the bytes lie in two words or one.
Operand FunctionWriter::joinedBytes(llvm::ArrayRef<Operand> bytes) {
  struct Byte {
    Operand word;
    unsigned index;
  };
  llvm::SmallVector<Byte, 4> from;
  Operands words;
  for (const Operand byte : bytes) {
    const auto found = partOf_.find(keyOf(byte));
    const bool isPart = byte.isRegister() && found != partOf_.end() && found->second.bits == 8 && found->second.whole.size != Size::B64;
    const Operand source = isPart ? found->second.whole : byte;
    from.push_back({source.size == Size::B16 ? extended(inRegister(source), 16, 32, false) : source, isPart ? found->second.index : 0});
    if (!llvm::is_contained(words, from.back().word)) {
      words.push_back(from.back().word);
    }
  }
  // `a` and `b` are words of the bytes; a byte's selector counts those of `a` first.
  const auto permuted = [&](Operand a, Operand b, llvm::ArrayRef<Byte> chosen) {
    int64_t selector = 0;
    for (const Byte &byte : llvm::reverse(chosen)) {
      selector = selector << 4 | (byte.word == a ? byte.index : 4 + byte.index);
    }
    return made(Size::B32, "prmt.b32", {a, b, Operand::integer(Size::B32, selector)});
  };
  if (words.size() <= 2) {
    return permuted(words.front(), words.back(), from);
  }
  const llvm::ArrayRef<Byte> all(from);
  const Operand low = permuted(from[0].word, from[1].word, all.take_front(2)), high = permuted(from[2].word, from[3].word, all.take_back(2));
  const Byte halves[] = {{low, 0}, {low, 1}, {high, 0}, {high, 1}};
  return permuted(low, high, halves);
}

Operand FunctionWriter::joined(llvm::ArrayRef<Operand> parts, unsigned bits) {
  if (parts.size() == 1) {
    return parts[0];
  }
  if (const Operand before = partedFrom(parts, bits)) {
    return before;
  }
  if (bits == 8 && parts.size() == 2) {
    const Operand high = made(Size::B16, "shl.b16", {inRegister(parts[1]), Operand::integer(Size::B32, 8)});
    return made(Size::B16, "or.b16", {clean(parts[0], false), high});
  }
  if (bits == 8 && parts.size() == 4) {
    return joinedBytes(parts);
  }
  if (bits == 8) {
    return joined({joined(parts.take_front(parts.size() / 2), 8), joined(parts.drop_front(parts.size() / 2), 8)}, 32);
  }
  std::string list;
  for (const Operand part : parts) {
    list += list.empty() ? "{" : ", ";
    Text::append(list, inRegister(part));
  }
  const Size size = sizeOfBits(bits * static_cast<unsigned>(parts.size()));
  return made(size, moveOf(size) + llvm::Twine(list) + "}", {});
}

Operands FunctionWriter::parted(Operand whole, unsigned bits, unsigned count) {
  Operands parts;
  if (count == 1) {
    parts.push_back(whole);
    return parts;
  }
  whole = inRegister(whole);
  if (bits == 8 && count == 8) {
    for (const Operand half : parted(whole, 32, 2)) {
      parts.append(parted(half, 8, 4));
    }
    return parts;
  }
  if (bits == 8) {
    for (unsigned i = 0; i < count; ++i) {
      const Operand moved = simple(llvm::Instruction::LShr, 8 * count, whole, Operand::integer(Size::B32, 8 * int64_t{i}));
      parts.push_back(truncated(moved, 8 * count, 16));
    }
  } else {
    std::string list;
    for (unsigned i = 0; i < count; ++i) {
      parts.push_back(text_.fresh(sizeOfBits(bits)));
      list += list.empty() ? "{" : ", ";
      Text::append(list, parts.back());
    }
    text_.line(moveOf(whole.size), list, "}, ", whole);
  }
  for (unsigned i = 0; i < count; ++i) {
    partOf_[keyOf(parts[i])] = {whole, i, count, bits};
  }
  return parts;
}

void FunctionWriter::visitBitCastInst(llvm::BitCastInst &it) {
  const llvm::Value *from = it.getOperand(0);
  const auto *source = llvm::dyn_cast<llvm::FixedVectorType>(from->getType());
  const auto *target = llvm::dyn_cast<llvm::FixedVectorType>(it.getType());
  const unsigned bits = bitsOf(it.getType());
  if (source != nullptr && target != nullptr && source->getNumElements() == target->getNumElements()) {
    return byLanes(it, [&](unsigned i) { return retyped(element(from, i), target->getElementType()); });
  }
  if (bits <= 64) {
    return hold(it, retyped(whole(from), it.getType()));
  }
  if (source == nullptr || target == nullptr) {
    unsupported("a number of " + std::to_string(bits) + " bits");
  }
  // Wider ones are held by elements, of which several are one or one is several.
  const unsigned fromBits = bitsOf(source->getElementType()), toBits = bitsOf(target->getElementType());
  Operands elements;
  if (fromBits > toBits) {
    for (unsigned i = 0; i < source->getNumElements(); ++i) {
      elements.append(parted(element(from, i), toBits, fromBits / toBits));
    }
  } else {
    const unsigned together = toBits / fromBits;
    for (unsigned i = 0; i < target->getNumElements(); ++i) {
      Operands parts;
      for (unsigned part = 0; part < together; ++part) {
        parts.push_back(element(from, i * together + part));
      }
      elements.push_back(joined(parts, fromBits));
    }
  }
  hold(it, std::move(elements));
}

void FunctionWriter::visitExtractElementInst(llvm::ExtractElementInst &it) {
  hold(it, element(it.getVectorOperand(), static_cast<unsigned>(elementIndex(it.getIndexOperand()))));
}

void FunctionWriter::visitInsertElementInst(llvm::InsertElementInst &it) {
  if (const auto pair = roundedPair(it)) {
    const char *name = pair->isBrain ? "cvt.rn.bf16x2.f32" : "cvt.rn.f16x2.f32";
    return hold(it, made(Size::B32, name, {inRegister(pair->high), inRegister(pair->low)}));
  }
  const uint64_t at = elementIndex(it.getOperand(2));
  const llvm::Value *before = it.getOperand(0);
  Operands elements;
  const auto *type = llvm::cast<llvm::FixedVectorType>(it.getType());
  for (unsigned i = 0; i < type->getNumElements(); ++i) {
    elements.push_back(i == at ? whole(it.getOperand(1)) : element(before, i));
  }
  hold(it, std::move(elements));
}

void FunctionWriter::visitShuffleVectorInst(llvm::ShuffleVectorInst &it) {
  const auto *from = llvm::cast<llvm::FixedVectorType>(it.getOperand(0)->getType());
  byLanes(it, [&](unsigned i) {
    const int picked = it.getMaskValue(i);
    const unsigned count = from->getNumElements();
    return picked < 0 ? constant(llvm::UndefValue::get(from->getElementType()))
                      : element(it.getOperand(static_cast<unsigned>(picked) / count), static_cast<unsigned>(picked) % count);
  });
}

void FunctionWriter::visitExtractValueInst(llvm::ExtractValueInst &it) {
  hold(it, element(it.getAggregateOperand(), it.getIndices()[0]));
}

void FunctionWriter::visitFreezeInst(llvm::FreezeInst &it) {
  byLanes(it, [&](unsigned i) { return lane(it.getOperand(0), i); });
}

} // namespace libtile::codegen::nvidia::ptx
