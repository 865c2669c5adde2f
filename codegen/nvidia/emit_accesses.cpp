// SPDX-License-Identifier: Apache-2.0
// Accesses as PTX: loads and stores of global memory under a predicate, and those of shared memory that have one.
#include "codegen/nvidia/nvidia_emitter.h"
#include "codegen/nvidia/memory_scope.h"
#include "ir/ops.h"

#include <llvm/ADT/StringExtras.h>

#include <algorithm>

namespace libtile::codegen::nvidia {

using ir::Attr;

namespace {

// What an access of this many bytes is made of: `count` words of `bytes` each.
struct Words {
  unsigned bytes;
  unsigned count;
  explicit Words(unsigned elementBytes, size_t elements) {
    const unsigned total = elementBytes * elements;
    bytes = elementBytes == 8 ? 8 : std::min(4u, total);
    count = total / bytes;
  }
  [[nodiscard]] const char *constraint() const { return bytes == 8 ? "l" : bytes == 4 ? "r" : "h"; }
  // Registers are at least 16 bits wide.
  [[nodiscard]] unsigned registerBits() const { return std::max(16u, 8 * bytes); }
  [[nodiscard]] std::string suffix() const {
    return (count > 1 ? ".v" + std::to_string(count) : "") + ".b" + std::to_string(8 * bytes);
  }
  [[nodiscard]] const char *resultConstraint() const {
    return bytes == 8 ? "=&l" : bytes == 4 ? "=&r" : "=&h";
  }
  // "$0" or "{$0, $1}".
  [[nodiscard]] std::string list(const std::vector<std::string> &operands) const {
    return count > 1 ? "{" + llvm::join(operands, ", ") + "}" : operands[0];
  }
};

// ".relaxed.gpu.global", ".volatile.global", ".global.cg", ".global.L1::evict_first". What else an atomic
// access orders is a fence's business.
std::string modifiers(const ir::Function &fn, ir::OpId op) {
  if (fn.hasAttr(op, Attr::sem)) {
    return ".relaxed" + scopeOf(fn, op) + ".global";
  }
  if (fn.getBool(op, Attr::is_volatile)) {
    return ".volatile.global";
  }
  const auto cache = fn.getEnum<ir::CacheHint>(op, Attr::cache);
  if (cache != ir::CacheHint::none) {
    return ".global." + std::string(ir::enumeratorName(ir::AttrKind::CacheHint, int64_t(cache)));
  }
  switch (fn.getEnum<ir::EvictHint>(op, Attr::evict)) {
  case ir::EvictHint::none:
    break;
  case ir::EvictHint::first:
    return ".global.L1::evict_first";
  case ir::EvictHint::last:
    return ".global.L1::evict_last";
  }
  return ".global";
}

bool isTrue(llvm::Value *predicate) {
  const auto *constant = llvm::dyn_cast_or_null<llvm::ConstantInt>(predicate);
  return predicate == nullptr || (constant != nullptr && constant->isOne());
}

} // namespace

// mov $r, other;  @p ld.global.v4.b32 {$r}, [address]
Regs NvidiaEmitter::loadGroups(ir::OpId op, llvm::ArrayRef<RegGroup> groups, llvm::ArrayRef<AccessAddress> from, llvm::Value *on) {
  const RegGroup &group = groups.front();
  const ir::Type element = fn_.type(fn_.result(op)).element();
  const Words words(element.elementBytes(), group.size());
  llvm::Type *registerType = builder_.getIntNTy(words.registerBits());
  AssemblyOperands operands;
  std::vector<std::string> results;
  for (unsigned i = 0; i < words.count; ++i) {
    results.push_back(operands.result(words.resultConstraint()));
  }
  std::string text;
  const std::string address = operands.address(from.front(), text);
  if (!isTrue(on)) {
    Regs otherwise;
    if (fn_.numOperands(op) > 2) {
      llvm::SmallVector<llvm::Value *, 16> elements;
      for (int32_t reg : group) {
        elements.push_back(regs(fn_.operand(op, 2))[reg]);
      }
      otherwise = packWords(element, elements, words.bytes);
    }
    for (unsigned i = 0; i < words.count; ++i) {
      const std::string value =
          otherwise.empty() ? "0"
                            : operands.use(builder_.CreateZExt(otherwise[i], registerType),
                                           words.constraint());
      text += "mov.b" + std::to_string(words.registerBits()) + " " + results[i] + ", " + value +
              ";\n\t";
    }
    text += "@" + operands.use(on, "b") + " ";
  }
  text += "ld" + modifiers(fn_, op) + words.suffix() + " " + words.list(results) + ", " + address +
          ";";
  llvm::Type *result = registerType;
  if (words.count > 1) {
    result = llvm::StructType::get(context_,
                                   llvm::SmallVector<llvm::Type *, 4>(words.count, registerType));
  }
  llvm::Value *loaded = assembly(text, operands, result);
  Regs parts;
  for (unsigned i = 0; i < words.count; ++i) {
    llvm::Value *part = words.count > 1 ? builder_.CreateExtractValue(loaded, i) : loaded;
    parts.push_back(builder_.CreateTrunc(part, builder_.getIntNTy(8 * words.bytes)));
  }
  return unpackWords(element, parts, words.bytes, group.size());
}

void NvidiaEmitter::storeGroup(ir::OpId op, const RegGroup &group, const AccessAddress &to,
                         llvm::Value *on) {
  const ir::ValueId value = fn_.operand(op, 1);
  const ir::Type element = fn_.type(value).element();
  const Words words(element.elementBytes(), group.size());
  llvm::SmallVector<llvm::Value *, 16> elements;
  for (int32_t reg : group) {
    elements.push_back(regs(value)[reg]);
  }
  AssemblyOperands operands;
  std::string text;
  const std::string address = operands.address(to, text);
  if (!isTrue(on)) {
    text += "@" + operands.use(on, "b") + " ";
  }
  std::vector<std::string> stored;
  for (llvm::Value *word : packWords(element, elements, words.bytes)) {
    stored.push_back(operands.use(
        builder_.CreateZExt(word, builder_.getIntNTy(words.registerBits())), words.constraint()));
  }
  text += "st" + modifiers(fn_, op) + words.suffix() + " " + address + ", " + words.list(stored) +
          ";";
  assembly(text, operands, builder_.getVoidTy());
}

void NvidiaEmitter::storeWords(llvm::Value *pointer, const Regs &words, unsigned wordBytes, llvm::Value *predicate) {
  // Registers are at least 16 bits wide.
  llvm::Type *word = builder_.getIntNTy(std::max(16u, 8 * wordBytes));
  std::string list, constraints = "r,b";
  llvm::SmallVector<llvm::Value *, 8> operands = {sharedAddress(pointer), predicate};
  for (llvm::Value *value : words) {
    list += (list.empty() ? "$" : ", $") + std::to_string(operands.size());
    constraints += wordBytes == 8 ? ",l" : wordBytes == 4 ? ",r" : ",h";
    operands.push_back(builder_.CreateZExt(value, word));
  }
  const bool several = words.size() > 1;
  assembly("@$1 st.shared" + (several ? ".v" + std::to_string(words.size()) : std::string()) +
               ".b" + std::to_string(8 * wordBytes) + " [$0], " +
               (several ? "{" + list + "}" : list) + ";",
           constraints, builder_.getVoidTy(), operands, true);
}

void NvidiaEmitter::countShared(llvm::Value *pointer, llvm::Value *predicate) {
  llvm::Value *address = sharedAddress(pointer);
  AssemblyOperands operands;
  const std::string where = operands.use(address, "r");
  const std::string guard = predicate == nullptr ? "" : "@" + operands.use(predicate, "b") + " ";
  assembly(guard + "red.shared.add.u32 [" + where + "], 1;", operands, builder_.getVoidTy());
}

llvm::Value *NvidiaEmitter::sharedAddress(llvm::Value *pointer) {
  return builder_.CreatePtrToInt(pointer, builder_.getInt32Ty());
}

} // namespace libtile::codegen::nvidia
