// SPDX-License-Identifier: Apache-2.0
// Masked accesses by buffer instructions, which check bounds themselves: a lane that is masked off names an offset behind
// them, reads 0 there and writes nothing, so that no branch is needed.
#include "codegen/amd/amd_emitter.h"
#include "codegen/amd/description.h"
#include "codegen/llvm_compat.h"
#include "ir/ops.h"

#include <llvm/IR/IntrinsicsAMDGPU.h>

#include <limits>

namespace libtile::codegen::amd {

using ir::Attr;

namespace {

constexpr int64_t kBytes = std::numeric_limits<int32_t>::max(); // of a buffer
constexpr uint32_t kOutside = 0x80000000;

// Words of 32 bits, or one that is smaller, as the instructions have them.
llvm::Type *bufferType(llvm::IRBuilder<> &builder, unsigned bytes) {
  constexpr unsigned kWord = 4;
  return bytes <= kWord ? static_cast<llvm::Type *>(builder.getIntNTy(8 * bytes))
                        : llvm::FixedVectorType::get(builder.getInt32Ty(), bytes / kWord);
}

// From the base of an affine form to the last byte of the tile; nullopt: not known, or some lie in front of it.
std::optional<int64_t> reachOf(const passes::AffineForm &form, const ir::Type &tile) {
  int64_t reach = tile.pointee().elementBytes();
  for (unsigned axis = 0; axis < tile.rank(); ++axis) {
    const passes::Polynomial &stride = form.strides[axis];
    if (!stride.isConstant() || stride.constant() < 0 || stride.constant() > kBytes) {
      return std::nullopt;
    }
    reach += stride.constant() * (tile.dim(axis) - 1);
    if (reach > kBytes) {
      return std::nullopt;
    }
  }
  return reach;
}

} // namespace

// The program's own part goes into the buffer's base.
llvm::Value *AmdEmitter::uniformPointer(const passes::AffineForm &form) {
  llvm::Value *offset = builder_.getInt64(static_cast<uint64_t>(form.offset.constant()));
  for (const passes::Monomial &monomial : form.offset.monomials()) {
    llvm::Value *product = builder_.getInt64(static_cast<uint64_t>(monomial.coefficient));
    for (const ir::ValueId factor : monomial.factors) {
      llvm::Value *number = builder_.CreateIntCast(scalar(factor), builder_.getInt64Ty(), !fn_.type(factor).isBool());
      product = builder_.CreateMul(product, number);
    }
    offset = builder_.CreateAdd(offset, product);
  }
  return builder_.CreateGEP(builder_.getInt8Ty(), scalar(form.base), offset);
}

// The same in all lanes, whatever LLVM knows of it: its words are read from one.
llvm::Value *AmdEmitter::bufferAt(llvm::Value *pointer) {
  llvm::Value *address = builder_.CreatePtrToInt(pointer, builder_.getInt64Ty());
  const auto word = [&](llvm::Value *bits) {
    llvm::Value *low = builder_.CreateTrunc(bits, builder_.getInt32Ty());
    llvm::Value *first = builder_.CreateCall(wordIntrinsic(llvm::Intrinsic::amdgcn_readfirstlane), {low});
    return builder_.CreateZExt(first, builder_.getInt64Ty());
  };
  llvm::Value *high = builder_.CreateShl(word(builder_.CreateLShr(address, 32)), 32);
  llvm::Value *base = builder_.CreateIntToPtr(builder_.CreateOr(high, word(address)), pointer->getType());
  return compat::bufferResource(builder_, module_, base, kBytes, bufferWord(target_));
}

std::optional<AmdEmitter::BufferPlace> AmdEmitter::bufferPlace(ir::OpId op, int32_t reg, llvm::Value *on) {
  const ir::ValueId pointers = fn_.operand(op, 0);
  const ir::Type &tile = fn_.type(pointers);
  const passes::AffineForm *form = tile.isTile() ? facts_.access().affine(pointers) : nullptr;
  if (on == nullptr || form == nullptr || !form->base.valid() || !reachOf(*form, tile) || isMarked(op)) {
    return std::nullopt;
  }
  const ir::Layout &layout = layoutOf(pointers);
  const ir::Coords at = layout.applyOne(ir::HwDim::Reg, reg);
  llvm::Value *offset = i32(0);
  int64_t bytes = 0;
  for (unsigned axis = 0; axis < tile.rank(); ++axis) {
    const int64_t stride = form->strides[axis].constant();
    if (stride == 0) {
      continue;
    }
    if ((at[axis] & threadBits(layout, axis)) != 0) {
      return std::nullopt;
    }
    bytes += stride * at[axis];
    if (threadBits(layout, axis) != 0) {
      offset = builder_.CreateAdd(offset, builder_.CreateMul(threadCoord(layout, axis), i32(stride)));
    }
  }
  // Both are below the bounds' end, so the register's part takes none back.
  offset = builder_.CreateAdd(builder_.CreateSelect(on, offset, i32(kOutside)), i32(bytes));
  return BufferPlace{bufferAt(uniformPointer(*form)), offset};
}

llvm::Value *AmdEmitter::loadBuffer(const BufferPlace &from, llvm::Type *type) {
  llvm::Type *words = bufferType(builder_, static_cast<unsigned>(type->getPrimitiveSizeInBits().getFixedValue() / 8));
  llvm::Value *loaded = builder_.CreateCall(compat::intrinsic(module_, llvm::Intrinsic::amdgcn_raw_ptr_buffer_load, {words}),
                                            {from.resource, from.offset, i32(0), i32(0)});
  return builder_.CreateBitCast(loaded, type);
}

void AmdEmitter::storeBuffer(const BufferPlace &to, llvm::Value *value) {
  llvm::Type *words = bufferType(builder_, static_cast<unsigned>(value->getType()->getPrimitiveSizeInBits().getFixedValue() / 8));
  builder_.CreateCall(compat::intrinsic(module_, llvm::Intrinsic::amdgcn_raw_ptr_buffer_store, {words}),
                      {builder_.CreateBitCast(value, words), to.resource, to.offset, i32(0), i32(0)});
}

} // namespace libtile::codegen::amd
