// SPDX-License-Identifier: Apache-2.0
#include "codegen/nvidia/ptx/patterns.h"

#include "codegen/llvm_compat.h"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/DataLayout.h>
#include <llvm/IR/Operator.h>

namespace libtile::codegen::nvidia::ptx {

namespace {

// A product's operands, of which a number is the second.
std::pair<const llvm::Value *, const llvm::Value *> factors(const llvm::BinaryOperator &product) {
  const llvm::Value *a = product.getOperand(0), *b = product.getOperand(1);
  return llvm::isa<llvm::ConstantInt>(a) ? std::pair(b, a) : std::pair(a, b);
}

} // namespace

std::optional<WideProduct> wideProduct(const llvm::BinaryOperator &it) {
  const unsigned bits = it.getType()->isIntegerTy() ? it.getType()->getIntegerBitWidth() : 0;
  const auto [first, second] = factors(it);
  const auto *extension = llvm::dyn_cast<llvm::CastInst>(first);
  if (it.getOpcode() != llvm::Instruction::Mul || (bits != 64 && bits != 32) || extension == nullptr ||
      (!llvm::isa<llvm::SExtInst>(extension) && !llvm::isa<llvm::ZExtInst>(extension)) ||
      extension->getSrcTy()->getIntegerBitWidth() != bits / 2) {
    return std::nullopt;
  }
  const bool isSigned = llvm::isa<llvm::SExtInst>(extension);
  if (const auto *number = llvm::dyn_cast<llvm::ConstantInt>(second)) {
    const llvm::APInt &value = number->getValue();
    if (isSigned ? value.isSignedIntN(bits / 2) : value.isIntN(bits / 2)) {
      return WideProduct{extension->getOperand(0), nullptr, value.trunc(bits / 2).getSExtValue(), isSigned};
    }
    return std::nullopt;
  }
  const auto *other = llvm::dyn_cast<llvm::CastInst>(second);
  if (other == nullptr || other->getOpcode() != extension->getOpcode() || other->getSrcTy() != extension->getSrcTy()) {
    return std::nullopt;
  }
  return WideProduct{extension->getOperand(0), other->getOperand(0), 0, isSigned};
}

std::optional<HighProduct> highProduct(const llvm::TruncInst &it) {
  const llvm::Type *type = it.getType();
  const auto *shift = llvm::dyn_cast<llvm::BinaryOperator>(it.getOperand(0));
  if (!type->isIntegerTy() || shift == nullptr || shift->getOpcode() != llvm::Instruction::LShr) {
    return std::nullopt;
  }
  const unsigned bits = type->getIntegerBitWidth();
  const auto *distance = llvm::dyn_cast<llvm::ConstantInt>(shift->getOperand(1));
  const auto *product = llvm::dyn_cast<llvm::BinaryOperator>(shift->getOperand(0));
  if (bits < 32 || shift->getType()->getIntegerBitWidth() != 2 * bits || distance == nullptr || distance->getValue() != bits ||
      product == nullptr || product->getOpcode() != llvm::Instruction::Mul) {
    return std::nullopt;
  }
  const auto [first, second] = factors(*product);
  const auto *a = llvm::dyn_cast<llvm::CastInst>(first), *b = llvm::dyn_cast<llvm::CastInst>(second);
  if (a == nullptr || a->getSrcTy() != type || (!llvm::isa<llvm::SExtInst>(a) && !llvm::isa<llvm::ZExtInst>(a))) {
    return std::nullopt;
  }
  const bool isSigned = llvm::isa<llvm::SExtInst>(a);
  if (const auto *number = llvm::dyn_cast<llvm::ConstantInt>(second)) {
    const llvm::APInt &value = number->getValue();
    const bool fits = isSigned ? value.isSignedIntN(bits) : value.isIntN(bits);
    return fits ? std::optional(HighProduct{a->getOperand(0), nullptr, value.trunc(bits).getSExtValue(), isSigned}) : std::nullopt;
  }
  const bool isProduct = b != nullptr && a->getOpcode() == b->getOpcode() && b->getSrcTy() == type;
  return isProduct ? std::optional(HighProduct{a->getOperand(0), b->getOperand(0), 0, isSigned}) : std::nullopt;
}

namespace {

const llvm::BinaryOperator *contractedProduct(const llvm::Value *value) {
  const auto *product = llvm::dyn_cast<llvm::BinaryOperator>(value);
  const bool is = product != nullptr && product->getOpcode() == llvm::Instruction::FMul && product->hasAllowContract();
  return is ? product : nullptr;
}

} // namespace

std::optional<FusedSum> fusedSum(const llvm::BinaryOperator &it) {
  const bool isSum = it.getOpcode() == llvm::Instruction::FAdd, isDifference = it.getOpcode() == llvm::Instruction::FSub;
  if ((!isSum && !isDifference) || !it.hasAllowContract() || it.getType()->isVectorTy()) {
    return std::nullopt;
  }
  if (const auto *product = contractedProduct(it.getOperand(0))) {
    return FusedSum{product->getOperand(0), product->getOperand(1), it.getOperand(1), false, isDifference};
  }
  if (const auto *product = contractedProduct(it.getOperand(1))) {
    return FusedSum{product->getOperand(0), product->getOperand(1), it.getOperand(0), isDifference, false};
  }
  return std::nullopt;
}

namespace {

// The float that is rounded to the element; null: it is none.
const llvm::Value *roundedFrom(const llvm::Value *element) {
  const auto *rounding = llvm::dyn_cast<llvm::FPTruncInst>(element);
  return rounding != nullptr && rounding->getSrcTy()->isFloatTy() ? rounding->getOperand(0) : nullptr;
}

bool isIndex(const llvm::Value *index, uint64_t wanted) {
  const auto *number = llvm::dyn_cast<llvm::ConstantInt>(index);
  return number != nullptr && number->getZExtValue() == wanted;
}

} // namespace

std::optional<RoundedPair> roundedPair(const llvm::InsertElementInst &it) {
  const llvm::FixedVectorType *type = llvm::cast<llvm::FixedVectorType>(it.getType());
  const auto *first = llvm::dyn_cast<llvm::InsertElementInst>(it.getOperand(0));
  if (type->getNumElements() != 2 || first == nullptr || !isIndex(it.getOperand(2), 1) || !isIndex(first->getOperand(2), 0)) {
    return std::nullopt;
  }
  const llvm::Value *low = roundedFrom(first->getOperand(1)), *high = roundedFrom(it.getOperand(1));
  if (low == nullptr || high == nullptr) {
    return std::nullopt;
  }
  return RoundedPair{low, high, type->getElementType()->isBFloatTy()};
}

Address addressOf(const llvm::Value *pointer, const llvm::DataLayout &layout) {
  llvm::APInt bytes(layout.getIndexTypeSizeInBits(pointer->getType()), 0);
  const llvm::Value *base = pointer->stripAndAccumulateConstantOffsets(layout, bytes, /*AllowNonInbounds=*/true);
  if (base->getType() != pointer->getType()) {
    return {pointer, 0};
  }
  return {base, bytes.getSExtValue()};
}

std::optional<Distance> distanceOf(const llvm::GetElementPtrInst &it, const llvm::DataLayout &layout) {
  compat::OffsetScales scales;
  llvm::APInt bytes(64, 0);
  if (it.getType()->isVectorTy() || !llvm::cast<llvm::GEPOperator>(it).collectOffset(layout, 64, scales, bytes)) {
    return std::nullopt;
  }
  Distance found;
  for (const auto &[index, scale] : scales) {
    found.scales.emplace_back(index, scale.getSExtValue());
  }
  found.bytes = bytes.getSExtValue();
  return found;
}

LinearIndex linearIndex(const llvm::Value *index, const llvm::DataLayout &layout) {
  if (const auto *number = llvm::dyn_cast<llvm::ConstantInt>(index)) {
    return {nullptr, 0, number->getSExtValue()};
  }
  const auto *it = llvm::dyn_cast<llvm::Instruction>(index);
  const auto bits = [](const llvm::Value *value) { return value->getType()->getIntegerBitWidth(); };
  if (it == nullptr || bits(it) < 32) {
    return {index, 1, 0};
  }
  if (llvm::isa<llvm::SExtInst, llvm::ZExtInst, llvm::TruncInst>(it) && bits(it->getOperand(0)) >= 32) {
    return linearIndex(it->getOperand(0), layout);
  }
  const auto *number = it->getNumOperands() == 2 ? llvm::dyn_cast<llvm::ConstantInt>(it->getOperand(1)) : nullptr;
  if (number == nullptr || !llvm::isa<llvm::BinaryOperator>(it)) {
    return {index, 1, 0};
  }
  const auto scaled = [&](int64_t by) {
    const LinearIndex inner = linearIndex(it->getOperand(0), layout);
    return LinearIndex{inner.root, inner.scale * by, inner.constant * by};
  };
  const auto moved = [&](int64_t by) {
    const LinearIndex inner = linearIndex(it->getOperand(0), layout);
    return LinearIndex{inner.root, inner.scale, inner.constant + by};
  };
  const int64_t value = number->getSExtValue();
  const bool isBelow = number->getValue().ult(32);
  switch (static_cast<unsigned>(it->getOpcode())) {
  case llvm::Instruction::Add:
    return moved(value);
  case llvm::Instruction::Sub:
    return moved(-value);
  case llvm::Instruction::Or:
    return llvm::MaskedValueIsZero(it->getOperand(0), number->getValue(), layout) ? moved(value) : LinearIndex{index, 1, 0};
  case llvm::Instruction::Mul:
    return scaled(value);
  case llvm::Instruction::Shl:
    return isBelow ? scaled(int64_t{1} << value) : LinearIndex{index, 1, 0};
  }
  return {index, 1, 0};
}

void needs(const llvm::Instruction &it, const llvm::DataLayout &layout, llvm::function_ref<void(const llvm::Value *)> ask) {
  if (const auto *load = llvm::dyn_cast<llvm::LoadInst>(&it)) {
    return ask(addressOf(load->getPointerOperand(), layout).base);
  }
  if (const auto *store = llvm::dyn_cast<llvm::StoreInst>(&it)) {
    ask(store->getValueOperand());
    return ask(addressOf(store->getPointerOperand(), layout).base);
  }
  if (const auto *address = llvm::dyn_cast<llvm::GetElementPtrInst>(&it)) {
    const auto distance = address->getAddressSpace() == kShared ? distanceOf(*address, layout) : std::nullopt;
    if (distance) {
      ask(address->getPointerOperand());
      for (const auto &[index, scale] : distance->scales) {
        const llvm::Value *root = linearIndex(index, layout).root;
        root != nullptr ? ask(root) : void();
      }
      return;
    }
  }
  if (const auto *cut = llvm::dyn_cast<llvm::TruncInst>(&it)) {
    if (const auto product = highProduct(*cut)) {
      ask(product->a);
      return product->b != nullptr ? ask(product->b) : void();
    }
  }
  if (const auto *insert = llvm::dyn_cast<llvm::InsertElementInst>(&it)) {
    if (const auto pair = roundedPair(*insert)) {
      ask(pair->low);
      return ask(pair->high);
    }
  }
  if (const auto *binary = llvm::dyn_cast<llvm::BinaryOperator>(&it)) {
    if (const auto wide = wideProduct(*binary)) {
      ask(wide->a);
      return wide->b != nullptr ? ask(wide->b) : void();
    }
    if (const auto sum = fusedSum(*binary)) {
      ask(sum->a);
      ask(sum->b);
      return ask(sum->c);
    }
  }
  for (const llvm::Value *operand : it.operand_values()) {
    ask(operand);
  }
}

} // namespace libtile::codegen::nvidia::ptx
