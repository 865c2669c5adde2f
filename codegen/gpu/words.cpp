// SPDX-License-Identifier: Apache-2.0
// Shared memory as a whole, and elements as words.
#include "codegen/gpu/emitter.h"

#include "codegen/gpu/module.h"
#include "ir/ops.h"

namespace libtile::codegen::gpu {

namespace {

bool isHalf(const llvm::Value *bits) {
  const auto *cast = llvm::dyn_cast<llvm::BitCastInst>(bits);
  return cast != nullptr && cast->getSrcTy()->isHalfTy();
}

llvm::Value *withoutCasts(llvm::Value *bits) {
  while (auto *cast = llvm::dyn_cast<llvm::BitCastInst>(bits)) {
    bits = cast->getOperand(0);
  }
  return bits;
}

// The vector that the elements are taken from, all of it in its order; null: they are not.
llvm::Value *unpackedFrom(llvm::ArrayRef<llvm::Value *> elements) {
  llvm::Value *vector = nullptr;
  for (size_t i = 0; i < elements.size(); ++i) {
    auto *extract = llvm::dyn_cast<llvm::ExtractElementInst>(withoutCasts(elements[i]));
    const auto *index = extract != nullptr ? llvm::dyn_cast<llvm::ConstantInt>(extract->getIndexOperand()) : nullptr;
    if (index == nullptr || index->getZExtValue() != i || (vector != nullptr && vector != extract->getVectorOperand())) {
      return nullptr;
    }
    vector = extract->getVectorOperand();
  }
  const auto *type = llvm::cast<llvm::FixedVectorType>(vector->getType());
  return type->getNumElements() == elements.size() ? vector : nullptr;
}

// Where a byte was taken from; nullopt: it is no byte of a word.
std::optional<WordByte> byteOf(llvm::Value *part) {
  auto *extract = llvm::dyn_cast<llvm::ExtractElementInst>(withoutCasts(part));
  auto *cast = extract != nullptr ? llvm::dyn_cast<llvm::BitCastInst>(extract->getVectorOperand()) : nullptr;
  const auto *index = extract != nullptr ? llvm::dyn_cast<llvm::ConstantInt>(extract->getIndexOperand()) : nullptr;
  if (cast == nullptr || index == nullptr || !extract->getType()->isIntegerTy(8) || !cast->getSrcTy()->isIntegerTy(32)) {
    return std::nullopt;
  }
  return WordByte{cast->getOperand(0), static_cast<unsigned>(index->getZExtValue())};
}

std::optional<std::array<WordByte, 4>> bytesOf(llvm::ArrayRef<llvm::Value *> parts) {
  std::array<WordByte, 4> bytes;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto found = byteOf(parts[i]);
    if (!found) {
      return std::nullopt;
    }
    bytes[i] = *found;
  }
  return bytes;
}

// Of the base: of the buffer that needs most.
uint64_t arenaAlignment(const ir::Function &fn) {
  int64_t align = 128;
  for (const ir::OpId op : fn.walk()) {
    if (fn.opcode(op) == ir::Opcode::Alloc && fn.hasAttr(op, ir::Attr::align)) {
      align = std::max(align, fn.getInt(op, ir::Attr::align));
    }
  }
  return static_cast<uint64_t>(align);
}

} // namespace

llvm::Value *Emitter::sharedBase() {
  llvm::GlobalVariable *base = module_.getGlobalVariable(kSharedMemory, true);
  if (base == nullptr) {
    const int64_t bytes = sharedExtent();
    llvm::Type *type = llvm::ArrayType::get(builder_.getInt8Ty(), static_cast<uint64_t>(bytes));
    base = new llvm::GlobalVariable(module_, type, false,
                                    bytes == 0 ? llvm::GlobalValue::ExternalLinkage : llvm::GlobalValue::InternalLinkage,
                                    bytes == 0 ? nullptr : llvm::PoisonValue::get(type), kSharedMemory, nullptr,
                                    llvm::GlobalValue::NotThreadLocal, 3);
    base->setAlignment(llvm::Align(arenaAlignment(fn_)));
  }
  return base;
}

llvm::Value *Emitter::joinBytes(const std::array<WordByte, 4> &) { return nullptr; }

llvm::Value *Emitter::vectorOf(llvm::ArrayRef<llvm::Value *> parts) {
  auto *type = llvm::FixedVectorType::get(parts[0]->getType(), static_cast<unsigned>(parts.size()));
  if (llvm::Value *before = unpackedFrom(parts)) {
    return builder_.CreateBitCast(before, type);
  }
  llvm::Value *vector = llvm::PoisonValue::get(type);
  for (size_t i = 0; i < parts.size(); ++i) {
    vector = builder_.CreateInsertElement(vector, parts[i], uint64_t{i});
  }
  return vector;
}

// Both go through the memory form, whose elements lie side by side in a vector.
Regs Emitter::packWords(const ir::Type &type, llvm::ArrayRef<llvm::Value *> elements,
                        unsigned wordBytes) {
  const unsigned bytes = type.elementBytes();
  llvm::Type *whole = builder_.getIntNTy(8 * bytes);
  const unsigned perWord = std::max(1u, wordBytes / bytes);
  ir::check(bytes <= wordBytes && elements.size() % perWord == 0, "elements fill whole words");
  Regs words;
  for (size_t first = 0; first < elements.size(); first += perWord) {
    // What has been a word before is that word.
    llvm::Value *before = perWord == 1 ? nullptr : unpackedFrom(elements.slice(first, perWord));
    if (before != nullptr && before->getType()->getPrimitiveSizeInBits() == 8 * wordBytes) {
      llvm::Value *bits = withoutCasts(before);
      words.push_back(builder_.CreateBitCast(bits, builder_.getIntNTy(8 * wordBytes)));
      continue;
    }
    llvm::SmallVector<llvm::Value *, 8> parts;
    for (unsigned i = 0; i < perWord; ++i) {
      llvm::Value *part = elementwise_.toMemory(type, elements[first + i]);
      parts.push_back(part->getType()->isPointerTy() ? builder_.CreatePtrToInt(part, whole)
                                                     : builder_.CreateBitCast(part, whole));
    }
    if (perWord == 1) {
      words.push_back(parts[0]);
      continue;
    }
    const auto taken = parts.size() == 4 ? bytesOf(parts) : std::nullopt;
    if (llvm::Value *joined = taken ? joinBytes(*taken) : nullptr) {
      words.push_back(joined);
      continue;
    }
    // Halves go in as such: two conversions and their word are one instruction.
    if (llvm::all_of(parts, isHalf)) {
      for (llvm::Value *&part : parts) {
        part = llvm::cast<llvm::BitCastInst>(part)->getOperand(0);
      }
    }
    words.push_back(builder_.CreateBitCast(vectorOf(parts), builder_.getIntNTy(8 * wordBytes)));
  }
  return words;
}

Regs Emitter::unpackWords(const ir::Type &type, llvm::ArrayRef<llvm::Value *> words,
                          unsigned wordBytes, unsigned count) {
  const unsigned bytes = type.elementBytes();
  llvm::Type *whole = builder_.getIntNTy(8 * bytes);
  llvm::Type *memory = elementwise_.memoryType(type);
  const unsigned perWord = std::max(1u, wordBytes / bytes);
  Regs out;
  llvm::Value *vector = nullptr;
  for (unsigned i = 0; i < count; ++i) {
    llvm::Value *word = words[i / perWord];
    if (perWord > 1) {
      // One for all of its elements, by which they are known to be the word.
      vector = i % perWord == 0 ? builder_.CreateBitCast(word, llvm::FixedVectorType::get(whole, perWord)) : vector;
      word = builder_.CreateExtractElement(vector, uint64_t{i % perWord});
    }
    word = memory->isPointerTy() ? builder_.CreateIntToPtr(word, memory)
                                 : builder_.CreateBitCast(word, memory);
    out.push_back(elementwise_.fromMemory(type, word));
  }
  return out;
}

} // namespace libtile::codegen::gpu
