// SPDX-License-Identifier: Apache-2.0
// Shared memory: buffers, reads and writes of whole tiles, barriers. Which
// access a layout and a buffer allow is passes/gpu/shared_layouts.h's answer.
#include "codegen/gpu/emitter.h"
#include "ir/ops.h"

#include "codegen/llvm_compat.h"
#include "codegen/require_pass.h"
#include "passes/gpu/flat_buffers.h"
#include "passes/gpu/layout_maps.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/shared_layouts.h"

#include <algorithm>

namespace libtile::codegen::gpu {

using ir::Attr;
using ir::HwDim;
using ir::Opcode;

// Registers that have none of the bits, each with the group that counts through the bits.
std::vector<RegGroup> Emitter::groupsOf(int32_t registers, std::span<const int32_t> bits) {
  int32_t within = 0;
  for (const int32_t bit : bits) {
    within |= 1 << bit;
  }
  std::vector<RegGroup> groups;
  for (int32_t reg = 0; reg < registers; ++reg) {
    if ((reg & within) != 0) {
      continue;
    }
    RegGroup group;
    for (int32_t element = 0; element < 1 << bits.size(); ++element) {
      int32_t member = reg;
      for (size_t i = 0; i < bits.size(); ++i) {
        member |= (element >> i & 1) << bits[i];
      }
      group.push_back(member);
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

void Emitter::lowerAlloc(ir::OpId op) {
  requirePass(fn_.hasAttr(op, Attr::offset), "allocate_shared");
  set(fn_.result(op),
      builder_.CreateConstGEP1_64(builder_.getInt8Ty(), sharedBase(),
                                  static_cast<uint64_t>(fn_.getInt(op, Attr::offset))));
}

void Emitter::lowerBufferSlot(ir::OpId op) {
  const ir::Type slot = fn_.type(fn_.result(op));
  const int64_t bytes = int64_t{layoutOf(fn_.result(op)).size(HwDim::Offset)} * slot.elementBytes();
  llvm::Value *offset = builder_.CreateMul(scalar(fn_.operand(op, 1)), i32(bytes));
  set(fn_.result(op), builder_.CreateGEP(builder_.getInt8Ty(), scalar(fn_.operand(op, 0)), offset));
}

void Emitter::lowerBufferRead(ir::OpId op) {
  const ir::ValueId result = fn_.result(op), buffer = fn_.operand(op, 0);
  const auto bytes = static_cast<int32_t>(fn_.type(result).elementBytes());
  const passes::BufferAccess access =
      passes::isFlat(layoutOf(result), layoutOf(buffer))
          ? passes::flatAccess({layoutOf(result), fn_.type(result).shape()}, layoutOf(buffer), bytes)
          : passes::readAccess(layoutOf(result), layoutOf(buffer), bytes, target_.sharedReads);
  access.kind == passes::AccessKind::Vector ? readVectors(op, access.registerBits) : readMatrices(op, access);
}

void Emitter::readVectors(ir::OpId op, const std::vector<int32_t> &bits) {
  const ir::ValueId result = fn_.result(op);
  const ir::Type element = fn_.type(result).element();
  const ir::Layout &layout = layoutOf(result);
  const unsigned bytes = element.elementBytes();
  const auto addressOf = elementAddresses(fn_.type(result), fn_.operand(op, 0));
  Regs out(numRegs(result));
  for (const RegGroup &group : groupsOf(layout.size(HwDim::Reg), bits)) {
    llvm::Value *pointer = addressOf(group[0]);
    if (group.size() == 1) {
      out[group[0]] = loadShared(element, pointer);
      continue;
    }
    const unsigned total = bytes * group.size();
    const unsigned wordBytes = bytes == 8 ? 8 : std::min(4u, total);
    auto *type = llvm::FixedVectorType::get(builder_.getIntNTy(8 * wordBytes), total / wordBytes);
    llvm::Value *loaded = builder_.CreateAlignedLoad(type, pointer, llvm::Align(total));
    Regs words;
    for (unsigned i = 0; i < total / wordBytes; ++i) {
      words.push_back(builder_.CreateExtractElement(loaded, uint64_t{i}));
    }
    const Regs elements = unpackWords(element, words, wordBytes, group.size());
    for (size_t i = 0; i < group.size(); ++i) {
      out[group[i]] = elements[i];
    }
  }
  set(result, std::move(out));
}

void Emitter::lowerBufferWrite(ir::OpId op) {
  const ir::ValueId buffer = fn_.operand(op, 0), value = fn_.operand(op, 1);
  const ir::Layout &layout = layoutOf(value);
  const bool byMatrices = !passes::isFlat(layout, layoutOf(buffer)) && !passes::holdsReplicas(layout);
  const auto matrices = byMatrices ? passes::matrixWriteAccess(layout, layoutOf(buffer), static_cast<int32_t>(fn_.type(value).elementBytes()),
                                                               target_.sharedReads)
                                   : std::nullopt;
  matrices ? writeMatrices(op, *matrices) : writeVectors(op);
  if (passes::publishes(fn_, op, target_)) {
    publish();
  }
}

void Emitter::writeMatrices(ir::OpId op, const passes::BufferAccess &) {
  throw ir::InternalError("a target without matrices that are written");
}

void Emitter::writeVectors(ir::OpId op) {
  const ir::ValueId buffer = fn_.operand(op, 0), value = fn_.operand(op, 1);
  const ir::Type type = fn_.type(value);
  const ir::Layout &layout = layoutOf(value);
  const auto bytes = static_cast<int32_t>(type.elementBytes());
  const bool flat = passes::isFlat(layout, layoutOf(buffer));
  const passes::BufferAccess access =
      flat ? passes::flatAccess({layout, type.shape()}, layoutOf(buffer), bytes)
           : passes::writeAccess(layout, layoutOf(buffer), bytes);
  const auto addressOf = elementAddresses(type, buffer);
  // Of replicas one is written.
  llvm::Value *canonical = isCanonicalThread(layout);
  for (const RegGroup &group : groupsOf(layout.size(HwDim::Reg), access.registerBits)) {
    // The padding has a place of its own, unless the tile lies there by its flat index.
    if (flat && !passes::inTile(layout, group[0], type.shape()).somewhere) {
      continue;
    }
    llvm::SmallVector<llvm::Value *, 16> elements;
    for (const int32_t reg : group) {
      elements.push_back(regs(value)[reg]);
    }
    storeShared(type.element(), elements, addressOf(group[0]),
                flat ? both(canonical, inTile(type, group[0])) : canonical);
  }
}

void Emitter::lowerBarrier(ir::OpId) { barrier(); }

} // namespace libtile::codegen::gpu
