// SPDX-License-Identifier: Apache-2.0
// Conversions that stay in registers or inside warps (passes/gpu/conversion.h), and shuffles.
#include "codegen/gpu/emitter.h"

#include "codegen/require_pass.h"
#include "passes/gpu/conversion.h"

#include <map>
#include <set>

namespace libtile::codegen::gpu {

// Values of more than 32 bits go in halves, smaller ones in the low bits.
llvm::Value *Emitter::shuffle(const ir::Type &element, llvm::Value *value, const LaneExchange &exchange) {
  const unsigned bits = std::max(8u, element.elementBits());
  llvm::Type *word = builder_.getInt32Ty();
  const auto move = [&](llvm::Value *part) { return shuffleWord(part, exchange); };
  llvm::Type *whole = builder_.getIntNTy(bits);
  llvm::Value *memory = elementwise_.toMemory(element, value);
  llvm::Type *memoryType = memory->getType();
  llvm::Value *number = memoryType->isPointerTy() ? builder_.CreatePtrToInt(memory, whole)
                                                  : builder_.CreateBitCast(memory, whole);
  llvm::Value *moved = nullptr;
  if (bits <= 32) {
    moved = builder_.CreateTrunc(move(builder_.CreateZExt(number, word)), whole);
  } else {
    llvm::Value *low = move(builder_.CreateTrunc(number, word));
    llvm::Value *high = move(builder_.CreateTrunc(builder_.CreateLShr(number, 32), word));
    moved = builder_.CreateOr(builder_.CreateZExt(low, whole),
                              builder_.CreateShl(builder_.CreateZExt(high, whole), 32));
  }
  moved = memoryType->isPointerTy() ? builder_.CreateIntToPtr(moved, memoryType)
                                    : builder_.CreateBitCast(moved, memoryType);
  return elementwise_.fromMemory(element, moved);
}

namespace {

// What `perWord` elements side by side are.
ir::Type wordType(const ir::Type &element, int32_t perWord) {
  return perWord == 1 ? element : ir::Type::scalar(perWord * element.elementBytes() == 4 ? ir::Elem::I32 : ir::Elem::I16);
}

} // namespace

// Words of neighbouring registers, of which half change places with another lane's in each step.
Regs Emitter::exchangeRegisters(const ir::Type &element, const Regs &from, const passes::Conversion &plan) {
  const auto perWord = static_cast<unsigned>(plan.perWord);
  const unsigned wordBytes = perWord * element.elementBytes();
  const ir::Type word = wordType(element, plan.perWord);
  Regs words = perWord > 1 ? packWords(element, from, wordBytes) : from;
  for (const passes::Conversion::Exchange &step : plan.exchanges) {
    const int32_t lanes = 1 << step.laneBit;
    const size_t stride = (size_t{1} << step.registerBit) / perWord;
    llvm::Value *upper = builder_.CreateICmpNE(builder_.CreateAnd(lane_, i32(lanes)), i32(0));
    const LaneExchange exchange{LaneExchange::Mode::Xor, i32(lanes),
                                laneSources(target_.warpSize, [&](int32_t lane) { return onlyLane(lane ^ lanes); })};
    for (size_t low = 0; low < words.size(); ++low) {
      if ((low & stride) != 0) {
        continue;
      }
      llvm::Value *&first = words[low], *&second = words[low + stride];
      llvm::Value *come = shuffle(word, builder_.CreateSelect(upper, first, second), exchange);
      first = builder_.CreateSelect(upper, come, first);
      second = builder_.CreateSelect(upper, second, come);
    }
  }
  return perWord > 1 ? unpackWords(element, words, wordBytes, static_cast<unsigned>(from.size())) : words;
}

// One shuffle for each word that some result lies in.
Regs Emitter::shuffleRegisters(const ir::Type &element, const Regs &from, const passes::Conversion &plan) {
  const int32_t perWord = plan.perWord;
  const unsigned wordBytes = static_cast<unsigned>(perWord) * element.elementBytes();
  const Regs words = perWord > 1 ? packWords(element, from, wordBytes) : from;
  const auto atLane = [&](const passes::LaneMap &map) -> llvm::Value * {
    return builder_.CreateXor(linear(lane_, map.columns), i32(map.base));
  };
  const auto move = [&](const passes::Conversion::Shuffle &step) -> llvm::Value * {
    // The word that this lane shows.
    std::set<int32_t> candidates;
    for (int32_t lane = 0; lane < target_.warpSize; ++lane) {
      candidates.insert((step.firstRegister + step.send.at(lane)) / perWord);
    }
    llvm::Value *shown = words[static_cast<size_t>(*candidates.begin())];
    if (candidates.size() > 1) {
      llvm::Value *index = builder_.CreateAdd(atLane(step.send), i32(step.firstRegister));
      for (const int32_t candidate : candidates) {
        shown = builder_.CreateSelect(builder_.CreateICmpEQ(index, i32(candidate * perWord + step.shown() % perWord)),
                                      words[static_cast<size_t>(candidate)], shown);
      }
    }
    LaneSources sources = laneSources(target_.warpSize, [&](int32_t lane) { return onlyLane(step.lane.at(lane)); });
    return shuffle(wordType(element, perWord), shown, {LaneExchange::Mode::From, atLane(step.lane), std::move(sources)});
  };
  std::map<std::pair<int32_t, int32_t>, Regs> moved; // by lane 0's source: the elements of a word
  Regs out;
  for (const passes::Conversion::Shuffle &step : plan.shuffles) {
    Regs &elements = moved[{step.lane.base, step.shown() / perWord}];
    if (elements.empty()) {
      llvm::Value *word = move(step);
      elements = perWord > 1 ? unpackWords(element, {word}, wordBytes, static_cast<unsigned>(perWord)) : Regs{word};
    }
    out.push_back(elements[static_cast<size_t>(step.shown() % perWord)]);
  }
  return out;
}

void Emitter::lowerConvertLayout(ir::OpId op) {
  const ir::ValueId value = fn_.operand(op, 0), result = fn_.result(op);
  const ir::Type type = fn_.type(value);
  const passes::Conversion plan = passes::planConversion(
      layoutOf(value), layoutOf(result), type.shape(), static_cast<int32_t>(type.elementBytes()), target_.sharedReads);
  if (plan.kind == passes::Conversion::Kind::Shuffles) {
    return set(result, shuffleRegisters(type.element(), regs(value), plan));
  }
  requirePass(plan.kind != passes::Conversion::Kind::Shared, "lower_conversions");
  const Regs held = exchangeRegisters(type.element(), regs(value), plan);
  Regs out;
  for (const int32_t reg : plan.registers) {
    out.push_back(held[static_cast<size_t>(reg)]);
  }
  set(result, std::move(out));
}

} // namespace libtile::codegen::gpu
