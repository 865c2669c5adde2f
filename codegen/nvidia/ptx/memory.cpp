// SPDX-License-Identifier: Apache-2.0
// Addresses, loads and stores.
#include "codegen/nvidia/ptx/function.h"

#include "ir/diagnostic.h"

#include <llvm/IR/Operator.h>
#include <llvm/Support/MathExtras.h>

namespace libtile::codegen::nvidia::ptx {

namespace {

std::string spaceOf(const llvm::Value *pointer) {
  constexpr const char *kNames[] = {"", ".global", nullptr, ".shared", ".const", ".local"};
  const unsigned space = pointer->getType()->getPointerAddressSpace();
  if (space >= std::size(kNames) || kNames[space] == nullptr) {
    throw ir::Unsupported("no PTX is known for an address space");
  }
  return kNames[space];
}

// How a type lies in memory as one access: so many parts of so many bits.
struct Parts {
  unsigned count, bits;
};

Parts partsOf(const llvm::Type *type, uint64_t align) {
  const auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  const unsigned all = bitsOf(type), each = vector != nullptr ? bitsOf(vector->getElementType()) : all;
  if (all <= 64 && each < 32) {
    return align * 8 >= all ? Parts{1, all} : Parts{all / each, each};
  }
  const unsigned bits = std::max(each, static_cast<unsigned>(std::min<uint64_t>(32, align * 8)));
  return {all / bits, bits};
}

} // namespace

std::string FunctionWriter::address(const llvm::Value *pointer, int64_t bytes) {
  const Address where = ptx::addressOf(pointer, layout_);
  std::string text = "[";
  int64_t sum = where.bytes + bytes;
  if (const auto *global = llvm::dyn_cast<llvm::GlobalValue>(where.base)) {
    text += nameOf(*global);
  } else if (llvm::isa<llvm::Constant>(where.base)) {
    Text::append(text, inRegister(where.base));
  } else {
    const Held &held = held_[where.base];
    Text::append(text, held.whole);
    sum = static_cast<int32_t>(held.bytes) + sum;
  }
  return text + (sum == 0 ? "]" : "+" + std::to_string(sum) + "]");
}

Operand FunctionWriter::scaled(const llvm::Value *index, int64_t size) {
  const unsigned bits = bitsOf(index->getType());
  const Operand value = whole(index);
  if (bits == 32 && size != 1) {
    return made(Size::B64, "mul.wide.s32", {value, Operand::integer(Size::B32, size)});
  }
  return simple(llvm::Instruction::Mul, 64, bits == 64 ? value : extended(value, bits, 64, true), Operand::integer(Size::B64, size));
}

// In 32 bits, where what is added to indices may as well be added behind them, by the instruction that takes the address.
void FunctionWriter::sharedAddress(const llvm::GetElementPtrInst &it, const Distance &distance) {
  const llvm::Value *pointer = it.getPointerOperand();
  const auto before = held_.find(pointer);
  const bool isInstruction = !llvm::isa<llvm::Constant>(pointer);
  Operand sum = isInstruction ? before->second.whole : whole(pointer);
  int64_t bytes = distance.bytes + (isInstruction ? before->second.bytes : 0);
  for (const auto &[index, size] : distance.scales) {
    const LinearIndex linear = linearIndex(index, layout_);
    bytes += linear.constant * size;
    if (linear.root != nullptr) {
      const unsigned bits = bitsOf(linear.root->getType());
      const Operand root = whole(linear.root), word32 = bits < 32 ? extended(root, bits, 32, true) : resized(root, bits, 32);
      const Operand product = simple(llvm::Instruction::Mul, 32, word32, Operand::integer(Size::B32, static_cast<int32_t>(linear.scale * size)));
      sum = simple(llvm::Instruction::Add, 32, sum, product);
    }
  }
  hold(it, sum);
  held_[&it].bytes = static_cast<int32_t>(bytes);
}

void FunctionWriter::visitGetElementPtrInst(llvm::GetElementPtrInst &it) {
  const auto distance = distanceOf(it, layout_);
  if (!distance) {
    return visitInstruction(it);
  }
  if (it.getAddressSpace() == kShared) {
    return sharedAddress(it, *distance);
  }
  Operand sum = whole(it.getPointerOperand());
  for (const auto &[index, scale] : distance->scales) {
    sum = made(Size::B64, "add.s64", {sum, scaled(index, scale)});
  }
  hold(it, simple(llvm::Instruction::Add, 64, sum, Operand::integer(Size::B64, distance->bytes)));
}

namespace {

// "v4.b32 "
std::string vectorType(unsigned count, unsigned bits) {
  return (count > 1 ? ".v" + std::to_string(count) : "") + ".b" + std::to_string(bits) + " ";
}

std::string listOf(llvm::ArrayRef<Operand> operands) {
  std::string text = operands.size() > 1 ? "{" : "";
  for (size_t i = 0; i < operands.size(); ++i) {
    text += i == 0 ? "" : ", ";
    Text::append(text, operands[i]);
  }
  return text + (operands.size() > 1 ? "}" : "");
}

// Throws for what no emitter of ours makes.
template <class Access> void check(const Access &it, const Parts &parts) {
  if (it.isAtomic() || parts.bits < 8 || it.getAlign().value() * 8 < parts.bits) {
    throw ir::Unsupported("no PTX is known for an access that is atomic, of single bits, or of words that are not aligned");
  }
}

// Of so many bytes, in so many parts: how many go in one access.
unsigned together(const Parts &parts, uint64_t align) {
  const unsigned most = 128 / parts.bits; // an access has 16 bytes at most
  unsigned count = std::min(parts.count, most);
  while (count > 1 && (!llvm::isPowerOf2_32(count) || align * 8 < uint64_t{count} * parts.bits || parts.count % count != 0)) {
    count /= 2;
  }
  return count;
}

} // namespace

void FunctionWriter::visitLoadInst(llvm::LoadInst &it) {
  const auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(it.getType());
  const Parts parts = partsOf(it.getType(), it.getAlign().value());
  check(it, parts);
  const unsigned each = together(parts, it.getAlign().value());
  const std::string name = std::string(it.isVolatile() ? "ld.volatile" : "ld") + spaceOf(it.getPointerOperand()) + vectorType(each, parts.bits);
  Operands loaded;
  for (unsigned i = 0; i < parts.count; i += each) {
    const std::string from = address(it.getPointerOperand(), i * parts.bits / 8);
    for (unsigned k = 0; k < each; ++k) {
      loaded.push_back(text_.fresh(parts.bits <= 16 ? Size::B16 : parts.bits == 32 ? Size::B32 : Size::B64));
    }
    text_.line(name, listOf(llvm::ArrayRef(loaded).take_back(each)), ", ", from);
  }
  if (parts.count == 1) {
    return hold(it, loaded[0]);
  }
  const unsigned bits = bitsOf(vector->getElementType());
  Operands elements;
  for (const Operand part : loaded) {
    elements.append(parted(part, bits, parts.bits / bits));
  }
  hold(it, std::move(elements));
}

void FunctionWriter::visitStoreInst(llvm::StoreInst &it) {
  const llvm::Value *value = it.getValueOperand();
  const auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  const Parts parts = partsOf(value->getType(), it.getAlign().value());
  check(it, parts);
  Operands stored;
  if (parts.count == 1) {
    stored.push_back(inRegister(value));
  } else {
    const unsigned bits = bitsOf(vector->getElementType()), perPart = parts.bits / bits;
    for (unsigned i = 0; i < parts.count; ++i) {
      Operands elements;
      for (unsigned k = 0; k < perPart; ++k) {
        elements.push_back(element(value, i * perPart + k));
      }
      stored.push_back(inRegister(joined(elements, bits)));
    }
  }
  const unsigned each = together(parts, it.getAlign().value());
  const std::string name = std::string(it.isVolatile() ? "st.volatile" : "st") + spaceOf(it.getPointerOperand()) + vectorType(each, parts.bits);
  for (unsigned i = 0; i < parts.count; i += each) {
    const std::string to = address(it.getPointerOperand(), i * parts.bits / 8);
    text_.line(name, to, ", ", listOf(llvm::ArrayRef(stored).slice(i, each)));
  }
}

// Each thread's own memory, at a generic address.
void FunctionWriter::visitAllocaInst(llvm::AllocaInst &it) {
  const std::string name = "local" + std::to_string(numLocals_++);
  const uint64_t bytes = layout_.getTypeAllocSize(it.getAllocatedType()).getFixedValue();
  locals_ += "\t.local .align " + std::to_string(it.getAlign().value()) + " .b8 " + name + "[" + std::to_string(std::max<uint64_t>(1, bytes)) + "];\n";
  hold(it, made(Size::B64, "cvta.local.u64", {made(Size::B64, "mov.b64 " + name, {})}));
}

} // namespace libtile::codegen::nvidia::ptx
