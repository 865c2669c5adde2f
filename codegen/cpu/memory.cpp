// SPDX-License-Identifier: Apache-2.0
// Loads, stores and accesses of scratch. In lanes an access is, in order of preference, one scalar
// for all, one contiguous vector, or one element a lane (gather, scatter).
//
// Masked lanes touch no memory. Where the machine has no masked access of an element size, a branch
// tests whether all lanes are on, which is the rule, and else goes lane by lane. A scalar read
// under a mask reads a harmless place instead, without a branch, so that it can be hoisted.
#include "codegen/cpu/emitter.h"
#include "codegen/cpu/known_lanes.h"
#include "codegen/cpu/streams.h"
#include "ir/ops.h"

#include <optional>

namespace libtile::codegen::cpu {

using ir::Attr;
using ir::ValueId;
using llvm::Value;

namespace {

llvm::Align alignOf(const ir::Type &type) { return llvm::Align(type.elementBytes()); }

} // namespace

// ---- addresses

Address Emitter::addressOf(ValueId pointer, const ir::Type &pointee) {
  const Form &known = form(pointer);
  if (!isVarying(pointer)) {
    return {known.exact, false, false, known.depth};
  }
  const bool isContiguous = known.affine && known.stride == pointee.elementBytes();
  if (!isContiguous && (lanes_.count > 1 || !known.affine)) {
    Address address{known.exact, false, lanes_.count > 1, known.depth};
    if (known.affine) {
      address.step = known.stride;
      atDepth(std::max(known.anchorDepth, lanes_.depth), [&] {
        Value *offset = builder_.CreateMul(lanes_.base, builder_.getInt64(known.stride));
        address.first = builder_.CreateGEP(builder_.getInt8Ty(), known.anchor, offset);
      });
    }
    return address;
  }
  Address address{nullptr, lanes_.count > 1, false, std::max(known.anchorDepth, lanes_.depth)};
  atDepth(address.depth, [&] {
    address.pointer =
        isContiguous
            ? builder_.CreateGEP(elementwise_.memoryType(pointee), known.anchor, lanes_.base)
            : builder_.CreateGEP(builder_.getInt8Ty(), known.anchor,
                                 builder_.CreateMul(lanes_.base, builder_.getInt64(known.stride)));
  });
  return address;
}

// Row-major; the part of the sum that does not depend on the lane is a scalar of its own depth.
Address Emitter::elementAddress(ValueId buffer, std::span<const ValueId> indices) {
  const ir::Type type = fn_.type(buffer);
  ir::check(indices.size() == type.rank(), "one index for each axis of a buffer");
  bool affine = true, varying = false;
  for (ValueId index : indices) {
    varying |= isVarying(index);
    affine &= !isVarying(index) || form(index).affine;
  }
  const bool perLane = !affine && lanes_.count > 1;
  const unsigned lanes = perLane ? lanes_.count : 1;
  llvm::Type *int64 = Elementwise::widen(builder_.getInt64Ty(), lanes);
  Value *sum = llvm::Constant::getNullValue(int64);
  unsigned depth = depthOf(buffer);
  int64_t step = 0, row = 1;
  for (unsigned axis = type.rank(); axis-- > 0; row *= type.dim(axis)) {
    auto [value, valueDepth] =
        affine ? anchorOf(indices[axis])
               : std::pair(inForm(indices[axis], perLane), depthOf(indices[axis]));
    depth = std::max(depth, valueDepth);
    step += affine && isVarying(indices[axis]) ? form(indices[axis]).stride * row : 0;
    atDepth(depth, [&] {
      Value *wide = builder_.CreateSExt(value, int64);
      Value *scaled = builder_.CreateMul(wide, elementwise_.intLike(wide, row));
      sum = builder_.CreateAdd(sum, scaled);
    });
  }
  const ir::Type element = ir::Type::scalar(type.elem());
  llvm::Type *held = elementwise_.memoryType(element);
  Address address{nullptr, false, perLane, depth};
  atDepth(depth, [&] { address.pointer = builder_.CreateGEP(held, form(buffer).exact, sum); });
  if (!affine || !varying || step == 0) {
    return address;
  }
  address.depth = std::max(depth, lanes_.depth);
  address.contiguous = step == 1 && lanes_.count > 1;
  address.perLane = step != 1 && lanes_.count > 1;
  atDepth(address.depth, [&] {
    Value *offset = builder_.CreateMul(lanes_.base, builder_.getInt64(step));
    if (address.perLane) {
      address.first = builder_.CreateGEP(held, address.pointer, offset);
      address.step = step * type.elementBytes();
      Value *each = builder_.CreateMul(iota(builder_.getInt64Ty()),
                                       splat(builder_.getInt64(step), lanes_.count));
      offset = builder_.CreateAdd(splat(offset, lanes_.count), each);
    }
    address.pointer = builder_.CreateGEP(held, address.pointer, offset);
  });
  return address;
}

unsigned Emitter::readDepth(unsigned depth, bool global) const {
  unsigned place = this->depth();
  while (place > depth && scopes_[place].mayHoistOut &&
         !(global ? scopes_[place].writesGlobal : scopes_[place].writesBuffer)) {
    --place;
  }
  return place;
}

Value *Emitter::laneMask(Value *mask) {
  const auto *known = llvm::dyn_cast_or_null<llvm::Constant>(mask);
  if (known != nullptr && known->isAllOnesValue()) {
    mask = nullptr;
  }
  if (!needsMask()) {
    return mask;
  }
  if (lanes_.on != nullptr) {
    return mask != nullptr ? builder_.CreateAnd(mask, lanes_.on) : lanes_.on;
  }
  llvm::SmallVector<llvm::Constant *, 64> inside;
  for (unsigned lane = 0; lane < lanes_.count; ++lane) {
    inside.push_back(builder_.getInt1(lane < lanes_.valid));
  }
  llvm::Constant *valid = llvm::ConstantVector::get(inside);
  return mask != nullptr ? builder_.CreateAnd(mask, valid) : valid;
}

Value *Emitter::allOf(Value *mask) { return builder_.CreateAndReduce(mask); }

Value *Emitter::harmlessPointer() {
  constexpr const char *kName = "harmless";
  llvm::GlobalVariable *found = module_.getNamedGlobal(kName);
  if (found == nullptr) {
    llvm::Type *type = builder_.getInt64Ty();
    found = new llvm::GlobalVariable(module_, type, true, llvm::GlobalValue::InternalLinkage,
                                     llvm::ConstantInt::get(type, 0), kName);
  }
  return found;
}

// ---- reads

Value *Emitter::readScalar(const ir::Type &type, Value *pointer, Value *mask, Value *other,
                           bool isVolatile) {
  if (mask != nullptr) {
    pointer = builder_.CreateSelect(mask, pointer, harmlessPointer());
  }
  Value *read =
      builder_.CreateAlignedLoad(elementwise_.memoryType(type), pointer, alignOf(type), isVolatile);
  Value *value = elementwise_.fromMemory(type, read);
  return mask != nullptr ? builder_.CreateSelect(mask, value, other) : value;
}

Value *Emitter::readContiguous(llvm::Type *type, Value *pointer, llvm::Align align, Value *mask,
                               Value *other) {
  if (mask == nullptr) {
    return builder_.CreateAlignedLoad(type, pointer, align);
  }
  const auto masked = [&] { return builder_.CreateMaskedLoad(type, pointer, align, mask, other); };
  const bool hasMaskedRead = target_.vectorBytes >= 32 && type->getScalarSizeInBits() >= 32;
  if (target_.maskedAccess || hasMaskedRead || llvm::isa<llvm::Constant>(mask)) {
    return masked();
  }
  Value *whole = nullptr, *parts = nullptr;
  const Joined joined = branch(
      allOf(mask), [&] { whole = builder_.CreateAlignedLoad(type, pointer, align); },
      [&] { parts = masked(); });
  llvm::PHINode *value = builder_.CreatePHI(type, 2);
  value->addIncoming(whole, joined.taken);
  value->addIncoming(parts, joined.skipped);
  return value;
}

Value *Emitter::readVector(const ir::Type &type, const Address &address, Value *mask,
                           Value *other) {
  llvm::Type *vector = Elementwise::widen(elementwise_.memoryType(type), lanes_.count);
  const llvm::Align align = alignOf(type);
  if (!address.contiguous && !address.perLane) {
    Value *any = mask != nullptr ? builder_.CreateOrReduce(mask) : nullptr;
    Value *zero = llvm::Constant::getNullValue(elementwise_.registerType(type));
    Value *value = splat(readScalar(type, address.pointer, any, zero, false), lanes_.count);
    return mask != nullptr ? builder_.CreateSelect(mask, value, other) : value;
  }
  if (address.first != nullptr && mask == nullptr && !target_.maskedAccess) {
    return elementwise_.fromMemory(type, readSteps(vector, address, align));
  }
  Value *instead = elementwise_.toMemory(type, other);
  return elementwise_.fromMemory(
      type, address.contiguous ? readContiguous(vector, address.pointer, align, mask, instead)
                               : gather(vector, address.pointer, align, mask, instead));
}

// Without an instruction that gathers, lanes at a constant distance have one address together.
Value *Emitter::readSteps(llvm::Type *type, const Address &address, llvm::Align align) {
  Value *read = llvm::PoisonValue::get(type);
  for (unsigned lane = 0; lane < lanes_.count; ++lane) {
    Value *place = builder_.CreateConstGEP1_64(builder_.getInt8Ty(), address.first, int64_t(lane) * address.step);
    Value *one = builder_.CreateAlignedLoad(type->getScalarType(), place, align);
    read = builder_.CreateInsertElement(read, one, uint64_t{lane});
  }
  return read;
}

// AVX-512 gathers words of 32 and 64 bits; a smaller element is cut out of the aligned word that
// holds it, which lies on the element's own page. Elsewhere lanes that are off read a harmless
// place, so that the back end needs no branch for each lane.
Value *Emitter::gather(llvm::Type *type, Value *pointers, llvm::Align align, Value *mask,
                       Value *other) {
  Value *all =
      llvm::Constant::getAllOnesValue(Elementwise::widen(builder_.getInt1Ty(), lanes_.count));
  Value *on = mask != nullptr ? mask : all;
  if (!target_.maskedAccess) {
    Value *safe = mask != nullptr ? builder_.CreateSelect(mask, pointers,
                                                          splat(harmlessPointer(), lanes_.count))
                                  : pointers;
    Value *read = builder_.CreateMaskedGather(type, safe, align, all, other);
    return mask != nullptr ? builder_.CreateSelect(mask, read, other) : read;
  }
  if (type->getScalarSizeInBits() >= 32) {
    return builder_.CreateMaskedGather(type, pointers, align, on, other);
  }
  llvm::Type *words = Elementwise::widen(builder_.getInt32Ty(), lanes_.count);
  Value *address =
      builder_.CreatePtrToInt(pointers, Elementwise::widen(builder_.getInt64Ty(), lanes_.count));
  Value *offset = builder_.CreateAnd(address, elementwise_.intLike(address, 3));
  Value *aligned =
      builder_.CreateIntToPtr(builder_.CreateXor(address, offset), pointers->getType());
  Value *word = builder_.CreateMaskedGather(words, aligned, llvm::Align(4), on,
                                            llvm::Constant::getNullValue(words));
  Value *shift =
      builder_.CreateShl(builder_.CreateTrunc(offset, words), elementwise_.intLike(word, 3));
  Value *read = builder_.CreateTrunc(builder_.CreateLShr(word, shift), type);
  return mask != nullptr ? builder_.CreateSelect(mask, read, other) : read;
}

void Emitter::emitLoad(ir::OpId op) {
  if (fn_.hasAttr(op, Attr::sem)) {
    return emitAtomicLoad(op);
  }
  const ir::Type type = fn_.type(fn_.result(op));
  const bool isVolatile = fn_.getBool(op, Attr::is_volatile);
  bool varying = false;
  unsigned depth = 0;
  const std::span<const ValueId> operands = fn_.operands(op);
  for (ValueId operand : operands) {
    varying |= isVarying(operand);
  }
  const bool asVector = varying && lanes_.count > 1;
  const Address address = addressOf(operands[0], type);
  depth = address.depth;
  for (ValueId operand : operands.subspan(1)) {
    depth = std::max(depth, depthOf(operand));
  }
  const unsigned place = isVolatile ? this->depth() : readDepth(depth, true);
  Value *mask = operands.size() > 1 ? inForm(operands[1], asVector) : nullptr;
  Value *other = operands.size() > 2
                     ? inForm(operands[2], asVector)
                     : llvm::Constant::getNullValue(Elementwise::widen(
                           elementwise_.registerType(type), asVector ? lanes_.count : 1));
  Value *value = nullptr;
  atDepth(place, [&] {
    Value *on = asVector ? laneMask(mask) : mask;
    checkAccess(op, address, on, asVector);
    fetchAhead(operands[0], type, address, false);
    value = asVector ? readVector(type, address, on, other)
                     : readScalar(type, address.pointer, on, other, isVolatile);
  });
  define(fn_.result(op), value, place, varying);
}

void Emitter::emitElementRead(ir::OpId op) {
  const ir::Type type = fn_.type(fn_.result(op));
  const std::span<const ValueId> indices = fn_.operands(op).subspan(1);
  bool varying = false;
  for (ValueId index : indices) {
    varying |= isVarying(index);
  }
  const bool asVector = varying && lanes_.count > 1;
  const Address address = elementAddress(fn_.operand(op, 0), indices);
  const unsigned place = readDepth(address.depth, false);
  Value *value = nullptr;
  atDepth(place, [&] {
    llvm::Type *held = Elementwise::widen(elementwise_.registerType(type), lanes_.count);
    value = asVector
                ? readVector(type, address, laneMask(nullptr), llvm::Constant::getNullValue(held))
                : readScalar(type, address.pointer, nullptr, nullptr, false);
  });
  define(fn_.result(op), value, place, varying);
}

// ---- writes

// Where one lane alone may be on it is stored as a scalar: of a masked store of one lane of a truncated
// vector, LLVM's AVX-512 back end (22 at least) writes the element as wide as it was before. It takes such a
// store for one also where it finds out itself that the mask is constant.
void Emitter::writeContiguous(Value *value, Value *pointer, llvm::Align align, Value *mask) {
  const std::optional<KnownLanes> known =
      mask != nullptr ? std::optional(knownLanes(mask)) : std::nullopt;
  if (known && (~known->off).popcount() <= 1) {
    const unsigned lane = (~known->off).countr_zero();
    if (lane == known->off.getBitWidth()) {
      return;
    }
    const auto store = [&] {
      llvm::Type *element = llvm::cast<llvm::VectorType>(value->getType())->getElementType();
      Value *place = builder_.CreateConstGEP1_64(element, pointer, lane);
      builder_.CreateAlignedStore(builder_.CreateExtractElement(value, uint64_t{lane}), place, align);
    };
    if (known->on[lane]) {
      store();
    } else {
      branch(builder_.CreateExtractElement(mask, uint64_t{lane}), store, [] {});
    }
    return;
  }
  const auto whole = [&] { builder_.CreateAlignedStore(value, pointer, align); };
  const auto masked = [&] { builder_.CreateMaskedStore(value, pointer, align, mask); };
  if (mask == nullptr) {
    whole();
  } else if (target_.maskedAccess || llvm::isa<llvm::Constant>(mask)) {
    masked();
  } else {
    branch(allOf(mask), whole, masked);
  }
}

void Emitter::write(const ir::Type &type, const Address &address, Value *value, Value *mask,
                    bool asVector, bool isVolatile) {
  Value *stored = elementwise_.toMemory(type, value);
  if (!asVector) {
    const auto store = [&] {
      builder_.CreateAlignedStore(stored, address.pointer, alignOf(type), isVolatile);
    };
    if (mask == nullptr) {
      store();
    } else {
      branch(mask, store, [] {});
    }
  } else if (address.contiguous) {
    writeContiguous(stored, address.pointer, alignOf(type), mask);
  } else {
    Value *pointers = address.perLane ? address.pointer : splat(address.pointer, lanes_.count);
    scatter(stored, pointers, alignOf(type), mask);
  }
}

// In ascending order of the lanes, so the last one wins where addresses are equal. Without an
// instruction for it, a loop over the lanes keeps the code short.
void Emitter::scatter(Value *value, Value *pointers, llvm::Align align, Value *mask) {
  if (target_.maskedAccess && value->getType()->getScalarSizeInBits() >= 32) {
    builder_.CreateMaskedScatter(value, pointers, align, mask);
    return;
  }
  std::vector<Value *> none;
  const ir::Effects effects(ir::Effects::WritesGlobal | ir::Effects::WritesBuffer);
  countedLoop({0, lanes_.count, 1}, effects, none, [&](Value *lane) {
    const auto store = [&] {
      builder_.CreateAlignedStore(builder_.CreateExtractElement(value, lane),
                                  builder_.CreateExtractElement(pointers, lane), align);
    };
    if (mask == nullptr) {
      store();
    } else {
      branch(builder_.CreateExtractElement(mask, lane), store, [] {});
    }
  });
}

void Emitter::emitStore(ir::OpId op) {
  if (fn_.hasAttr(op, Attr::sem)) {
    return emitAtomicStore(op);
  }
  const std::span<const ValueId> operands = fn_.operands(op);
  const ir::Type type = fn_.type(operands[1]);
  bool varying = false;
  for (ValueId operand : operands) {
    varying |= isVarying(operand);
  }
  const bool asVector = varying && lanes_.count > 1;
  const Address address = addressOf(operands[0], type);
  Value *mask = operands.size() > 2 ? inForm(operands[2], asVector) : nullptr;
  mask = asVector ? laneMask(mask) : mask;
  checkAccess(op, address, mask, asVector);
  Value *value = inForm(operands[1], asVector);
  const auto toCaches = [&] {
    fetchAhead(operands[0], type, address, true);
    write(type, address, value, mask, asVector, fn_.getBool(op, Attr::is_volatile));
  };
  Value *past = mask == nullptr && asVector && address.contiguous ? storesPastCaches(op, type) : nullptr;
  if (past == nullptr) {
    return toCaches();
  }
  streams_ = true;
  branch(past, [&] { writePastCaches(builder_, elementwise_.toMemory(type, value), address.pointer); }, toCaches);
}

void Emitter::emitElementWrite(ir::OpId op) {
  const std::span<const ValueId> indices = fn_.operands(op).subspan(2);
  const ValueId value = fn_.operand(op, 1);
  bool varying = isVarying(value);
  for (ValueId index : indices) {
    varying |= isVarying(index);
  }
  const bool asVector = varying && lanes_.count > 1;
  const Address address = elementAddress(fn_.operand(op, 0), indices);
  write(fn_.type(value), address, inForm(value, asVector), asVector ? laneMask(nullptr) : nullptr,
        asVector, false);
}

} // namespace libtile::codegen::cpu
