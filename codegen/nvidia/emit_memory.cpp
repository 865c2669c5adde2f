// SPDX-License-Identifier: Apache-2.0
// Loads and stores of global memory. The registers of a tile that lie side by side in memory, in
// one thread, become one access of up to 16 bytes; a mask becomes the instruction's predicate, so
// masked-off elements never touch memory. Elements in the padding are left out; of replicas all
// load and one stores.
#include "codegen/nvidia/emitter.h"
#include "codegen/nvidia/memory_order.h"
#include "ir/ops.h"

#include "passes/gpu/layout_maps.h"

#include <llvm/ADT/StringExtras.h>

#include <algorithm>

namespace libtile::codegen::nvidia {

using ir::Attr;
using ir::HwDim;

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

// Elements of an atomic access go one by one.
unsigned accessBytes(const ir::Function &fn, ir::OpId op, const ir::Type &type) {
  constexpr unsigned kAlone = 16;
  return fn.hasAttr(op, Attr::sem) ? kAlone : type.elementBytes();
}

bool isFalse(llvm::Value *predicate) {
  const auto *constant = llvm::dyn_cast_or_null<llvm::ConstantInt>(predicate);
  return constant != nullptr && constant->isZero();
}

bool isTrue(llvm::Value *predicate) {
  const auto *constant = llvm::dyn_cast_or_null<llvm::ConstantInt>(predicate);
  return predicate == nullptr || (constant != nullptr && constant->isOne());
}

} // namespace

void Emitter::vectorAlong(ir::ValueId pointer, ir::ValueId mask, unsigned axis,
                          unsigned elementBytes, RegGroup &bits) const {
  const ir::Layout &layout = layoutOf(pointer);
  const passes::AccessFacts facts = facts_.access();
  int64_t elements = facts.maxVectorElements(pointer, axis, target_.maxVectorBytes);
  elements =
      std::min<int64_t>(elements, std::max<int64_t>(1, target_.maxVectorBytes / elementBytes));
  if (mask.valid()) {
    elements = std::min(elements, facts.equalGroup(mask, axis));
  }
  const ir::Layout::Bases &registers = layout.bases(HwDim::Reg);
  for (unsigned width = 1; 2 * int64_t{width} <= elements; width *= 2) {
    ir::Coords wanted(layout.rank(), 0);
    wanted[axis] = static_cast<int32_t>(width);
    const auto found = std::find(registers.begin(), registers.end(), wanted);
    // No other coordinate may move the element within the run.
    unsigned movers = 0;
    for (HwDim dim : {HwDim::Reg, HwDim::Lane, HwDim::Warp}) {
      for (const ir::Coords &basis : layout.bases(dim)) {
        movers += (static_cast<unsigned>(basis[axis]) & width) != 0 ? 1 : 0;
      }
    }
    if (found == registers.end() || movers != 1) {
      break;
    }
    bits.push_back(static_cast<int32_t>(found - registers.begin()));
  }
}

std::vector<RegGroup> Emitter::accessGroups(ir::ValueId pointer, ir::ValueId mask,
                                            unsigned elementBytes) {
  const ir::Type &type = fn_.type(pointer);
  if (!type.isTile()) {
    return {{0}};
  }
  const ir::Layout &layout = layoutOf(pointer);
  RegGroup best;
  for (unsigned axis = 0; axis < type.rank(); ++axis) {
    RegGroup bits;
    vectorAlong(pointer, mask, axis, elementBytes, bits);
    best = bits.size() > best.size() ? bits : best;
  }
  int32_t within = 0;
  for (int32_t bit : best) {
    within |= 1 << bit;
  }
  std::vector<RegGroup> groups;
  for (int32_t reg = 0; reg < layout.size(HwDim::Reg); ++reg) {
    if ((reg & within) != 0 || firstReplica(layout, reg) != reg ||
        !passes::inTile(layout, reg, type.shape()).somewhere) {
      continue;
    }
    RegGroup group;
    for (int32_t element = 0; element < (1 << best.size()); ++element) {
      int32_t member = reg;
      for (size_t i = 0; i < best.size(); ++i) {
        member |= ((element >> i) & 1) << best[i];
      }
      group.push_back(member);
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

// mov $r, other;  @p ld.global.v4.b32 {$r}, [address]
Regs Emitter::loadGroup(ir::OpId op, const RegGroup &group, const AccessAddress &from,
                        llvm::Value *on) {
  const ir::Type element = fn_.type(fn_.result(op)).element();
  const Words words(element.elementBytes(), group.size());
  llvm::Type *registerType = builder_.getIntNTy(words.registerBits());
  AssemblyOperands operands;
  std::vector<std::string> results;
  for (unsigned i = 0; i < words.count; ++i) {
    results.push_back(operands.result(words.resultConstraint()));
  }
  std::string text;
  const std::string address = operands.address(from, text);
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

// Acquires by one fence behind the loads: ptxas (up to 13.5 at least) loses the predicate of a load.acquire
// whose number nobody uses, and with it what else that predicate decides.
void Emitter::lowerLoad(ir::OpId op) {
  const ir::ValueId pointer = fn_.operand(op, 0);
  const ir::ValueId mask = fn_.numOperands(op) > 1 ? fn_.operand(op, 1) : ir::ValueId{};
  const ir::ValueId result = fn_.result(op);
  const ir::Type &type = fn_.type(result);
  Regs out(numRegs(result), llvm::Constant::getNullValue(registerType(result)));
  AccessAddresses addresses(*this, pointer);
  // A scalar that is read atomically is told to the others by the thread that reads it.
  llvm::Value *reader = !type.isTile() && fn_.hasAttr(op, Attr::sem) ? isFirstThread() : nullptr;
  for (const RegGroup &group : accessGroups(pointer, mask, accessBytes(fn_, op, type))) {
    llvm::Value *predicate = type.isTile() ? inTile(fn_.type(pointer), group[0]) : reader;
    predicate = both(predicate, mask.valid() ? regs(mask)[group[0]] : nullptr);
    const Regs loaded = loadGroup(op, group, addresses.of(group[0]), predicate);
    for (size_t i = 0; i < group.size(); ++i) {
      out[group[i]] = loaded[i];
    }
  }
  if (fn_.hasAttr(op, Attr::sem) && acquires(fn_.getEnum<ir::MemOrder>(op, Attr::sem))) {
    fence(op, reader);
  }
  if (type.isTile()) {
    for (size_t reg = 0; reg < out.size(); ++reg) {
      out[reg] = out[firstReplica(layoutOf(result), static_cast<int32_t>(reg))];
    }
  } else {
    out[0] = tellOthers(op, out[0]);
  }
  set(result, std::move(out));
}

void Emitter::storeGroup(ir::OpId op, const RegGroup &group, const AccessAddress &to,
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

void Emitter::lowerStore(ir::OpId op) {
  const ir::ValueId pointer = fn_.operand(op, 0);
  const ir::ValueId mask = fn_.numOperands(op) > 2 ? fn_.operand(op, 2) : ir::ValueId{};
  const ir::Type &type = fn_.type(pointer);
  llvm::Value *canonical = type.isTile() ? isCanonicalThread(layoutOf(pointer)) : isFirstThread();
  AccessAddresses addresses(*this, pointer);
  if (fn_.hasAttr(op, Attr::sem) && releases(fn_.getEnum<ir::MemOrder>(op, Attr::sem))) {
    fence(op, type.isTile() ? nullptr : canonical);
  }
  for (const RegGroup &group :
       accessGroups(pointer, mask, accessBytes(fn_, op, fn_.type(fn_.operand(op, 1))))) {
    llvm::Value *predicate = type.isTile() ? both(canonical, inTile(type, group[0])) : canonical;
    predicate = both(predicate, mask.valid() ? regs(mask)[group[0]] : nullptr);
    if (!isFalse(predicate)) {
      storeGroup(op, group, addresses.of(group[0]), predicate);
    }
  }
}

} // namespace libtile::codegen::nvidia
