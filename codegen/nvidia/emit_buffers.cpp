// SPDX-License-Identifier: Apache-2.0
// Shared memory: buffers, reads and writes of whole tiles, asynchronous copies, barriers. Which
// access a layout and a buffer allow is passes/gpu/shared_layouts.h's answer.
#include "codegen/nvidia/emitter.h"
#include "ir/ops.h"

#include "codegen/llvm_compat.h"
#include "codegen/require_pass.h"
#include "passes/gpu/flat_buffers.h"
#include "passes/gpu/layout_maps.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/shared_layouts.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>

namespace libtile::codegen::nvidia {

using ir::Attr;
using ir::HwDim;
using ir::Opcode;

namespace {

// Registers that have none of the bits, each with the group that counts through the bits.
std::vector<RegGroup> groupsOf(int32_t registers, std::span<const int32_t> bits) {
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

// Where the three low bits of the lane, which name a matrix's rows, move the address: elements.
std::vector<int32_t> rowColumns(const ir::Layout &layout, const ir::Layout &buffer,
                                std::span<const int32_t> unitBits, bool transposed) {
  const ir::LayoutInverse inverse(buffer);
  const auto &lanes = layout.bases(HwDim::Lane);
  if (!transposed) {
    return {inverse.offsetOf(lanes[2]), inverse.offsetOf(lanes[3]), inverse.offsetOf(lanes[4])};
  }
  const auto &regs = layout.bases(HwDim::Reg);
  return {inverse.offsetOf(regs[static_cast<size_t>(unitBits[0])]), inverse.offsetOf(lanes[0]),
          inverse.offsetOf(lanes[1])};
}

} // namespace

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
          : passes::readAccess(layoutOf(result), layoutOf(buffer), bytes);
  switch (access.kind) {
  case passes::AccessKind::Vector:
    return readVectors(op, access.registerBits);
  case passes::AccessKind::Matrix:
    return readMatrices(op, access.registerBits, false);
  case passes::AccessKind::MatrixTransposed:
    return readMatrices(op, access.registerBits, true);
  }
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

// ldmatrix: the lane 8 j + i names row i of matrix j; each lane gets one 32-bit unit of each
// matrix. The matrices differ in up to two bits of the register index.
void Emitter::readMatrices(ir::OpId op, const std::vector<int32_t> &unitBits, bool transposed) {
  const ir::ValueId result = fn_.result(op);
  const ir::Layout &layout = layoutOf(result);
  const ir::Layout &bufferLayout = layoutOf(fn_.operand(op, 0));
  const ir::Type element = fn_.type(result).element();
  std::vector<int32_t> columns = rowColumns(layout, bufferLayout, unitBits, transposed);
  std::vector<int32_t> allBits(unitBits.begin(), unitBits.end());
  const ir::LayoutInverse inverse(bufferLayout);
  const auto &regBases = layout.bases(HwDim::Reg);
  unsigned count = 1;
  for (int32_t bit = 0; bit < static_cast<int32_t>(regBases.size()) && count < 4; ++bit) {
    if (std::find(unitBits.begin(), unitBits.end(), bit) == unitBits.end()) {
      allBits.push_back(bit);
      columns.push_back(inverse.offsetOf(regBases[bit]));
      count *= 2;
    }
  }
  columns.resize(5, 0);
  BufferOffsets offsets =
      bufferOffsets(layout, bufferLayout, element.elementBytes(), columns);
  const bool dotsOnly = std::ranges::all_of(fn_.uses(result), [&](ir::Use use) {
    return fn_.opcode(use.op) == Opcode::Dot && use.operand < 2;
  });
  Regs out(numRegs(result));
  for (const RegGroup &group : groupsOf(layout.size(HwDim::Reg), allBits)) {
    const Regs units = loadMatrices(bufferPointer(scalar(fn_.operand(op, 0)), offsets, group[0]),
                                    count, transposed);
    const size_t perUnit = group.size() / count;
    for (unsigned matrix = 0; matrix < count; ++matrix) {
      const int32_t *members = &group[matrix * perUnit];
      units_[result.index][members[0]] = units[matrix];
      if (!dotsOnly) {
        const Regs elements =
            unpackWords(element, {units[matrix]}, 4, static_cast<unsigned>(perUnit));
        for (size_t i = 0; i < perUnit; ++i) {
          out[members[i]] = elements[i];
        }
      }
    }
  }
  set(result, std::move(out));
}

Regs Emitter::loadMatrices(llvm::Value *pointer, unsigned count, bool transposed) {
  using namespace llvm::Intrinsic;
  constexpr ID kPlain[] = {nvvm_ldmatrix_sync_aligned_m8n8_x1_b16,
                           nvvm_ldmatrix_sync_aligned_m8n8_x2_b16,
                           nvvm_ldmatrix_sync_aligned_m8n8_x4_b16};
  constexpr ID kTransposed[] = {nvvm_ldmatrix_sync_aligned_m8n8_x1_trans_b16,
                                nvvm_ldmatrix_sync_aligned_m8n8_x2_trans_b16,
                                nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16};
  const unsigned log = count / 2;
  llvm::Function *instruction = compat::intrinsic(
      module_, transposed ? kTransposed[log] : kPlain[log], {pointer->getType()});
  llvm::Value *loaded = builder_.CreateCall(instruction, {pointer});
  if (count == 1) {
    return {loaded};
  }
  Regs units;
  for (unsigned i = 0; i < count; ++i) {
    units.push_back(builder_.CreateExtractValue(loaded, i));
  }
  return units;
}

void Emitter::lowerBufferWrite(ir::OpId op) {
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
  if (passes::publishes(fn_, op, target_)) {
    assembly("fence.proxy.async.shared::cta;", "", builder_.getVoidTy(), {}, true);
  }
}

// cp.async of the group's elements, side by side in both memories; masked off, it writes zeros.
// What is below its least width goes through a register. Of replicas one thread copies.
void Emitter::copyGroup(ir::OpId op, llvm::ArrayRef<int32_t> group, const AccessAddress &from,
                        std::pair<llvm::Value *, int32_t> to) {
  const ir::ValueId pointers = fn_.operand(op, 0);
  const ir::Type element = fn_.type(pointers).pointee().element();
  const unsigned bytes = element.elementBytes() * static_cast<unsigned>(group.size());
  llvm::Value *predicate = inTile(fn_.type(pointers), group[0]);
  if (fn_.numOperands(op) > 2) {
    predicate = both(predicate, regs(fn_.operand(op, 2))[group[0]]);
  }
  predicate = predicate == nullptr ? builder_.getTrue() : predicate;
  AssemblyOperands operands;
  llvm::Value *canonical = isCanonicalThread(layoutOf(pointers));
  const std::string guard =
      canonical == nullptr ? "" : "@" + operands.use(canonical, "b") + " ";
  const std::string target = "[" + operands.use(sharedAddress(to.first), "r") + "+" +
                             std::to_string(to.second) + "]";
  std::string text;
  const std::string source = operands.address(from, text);
  if (bytes >= 4) {
    const std::string taken =
        operands.use(builder_.CreateSelect(predicate, i32(bytes), i32(0)), "r");
    text += guard + (bytes == 16 ? "cp.async.cg" : "cp.async.ca") + ".shared.global " + target +
            ", " + source + ", " + std::to_string(bytes) + ", " + taken + ";";
  } else {
    const std::string type = ".b" + std::to_string(8 * bytes) + " ";
    text = ".reg .b16 element;\n\t" + text + "mov.b16 element, 0;\n\t@" +
           operands.use(predicate, "b") + " ld.global" + type + "element, " + source + ";\n\t" +
           guard + "st.shared" + type + target + ", element;";
  }
  assembly(text, operands, builder_.getVoidTy());
}

void Emitter::lowerAsyncCopy(ir::OpId op) {
  const ir::ValueId pointers = fn_.operand(op, 0);
  const ir::ValueId mask = fn_.numOperands(op) > 2 ? fn_.operand(op, 2) : ir::ValueId{};
  const ir::Layout &layout = layoutOf(pointers);
  const ir::Layout &bufferLayout = layoutOf(fn_.operand(op, 1));
  const unsigned bytes = fn_.type(pointers).pointee().elementBytes();
  BufferOffsets offsets = bufferOffsets(layout, bufferLayout, bytes);
  AccessAddresses addresses(*this, pointers);
  const auto together = static_cast<size_t>(
      passes::writeAccess(layout, bufferLayout, static_cast<int32_t>(bytes)).elements);
  for (const RegGroup &group : accessGroups(pointers, mask, bytes)) {
    const size_t step = std::min(together, group.size());
    for (size_t first = 0; first < group.size(); first += step) {
      const llvm::ArrayRef<int32_t> part = llvm::ArrayRef<int32_t>(group).slice(first, step);
      copyGroup(op, part, addresses.of(part[0]),
                bufferAddress(scalar(fn_.operand(op, 1)), offsets, part[0]));
    }
  }
}

void Emitter::lowerAsyncCommit(ir::OpId) {
  assembly("cp.async.commit_group;", "", builder_.getVoidTy(), {}, true);
}

void Emitter::lowerAsyncWait(ir::OpId op) {
  // What has arrived is seen by units that read by themselves.
  const std::string published = passes::publishes(fn_, op, target_) ? "\n\tfence.proxy.async.shared::cta;" : "";
  assembly("cp.async.wait_group " + std::to_string(fn_.getInt(op, Attr::count)) + ";" + published, "",
           builder_.getVoidTy(), {}, true);
}

void Emitter::lowerBarrier(ir::OpId) { barrier(); }

} // namespace libtile::codegen::nvidia
