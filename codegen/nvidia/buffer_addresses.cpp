// SPDX-License-Identifier: Apache-2.0
// Addresses in shared memory. A buffer's subtile is at least as large as that of every layout that
// reaches it, so the thread's part of an offset lies inside the subtile and is linear over F2; the
// registers' part is a constant, in two pieces: one inside the subtile, one that counts repeats.
#include "codegen/nvidia/emitter.h"

namespace libtile::codegen::nvidia {

using ir::HwDim;

Emitter::BufferOffsets Emitter::bufferOffsets(const ir::Layout &registers, const ir::Layout &buffer,
                                              unsigned elementBytes) {
  const ir::LayoutInverse inverse(buffer);
  std::vector<int32_t> lanes;
  for (const ir::Coords &basis : registers.bases(HwDim::Lane)) {
    lanes.push_back(inverse.offsetOf(basis));
  }
  return bufferOffsets(registers, buffer, elementBytes, lanes);
}

Emitter::BufferOffsets Emitter::bufferOffsets(const ir::Layout &registers, const ir::Layout &buffer,
                                              unsigned elementBytes,
                                              std::span<const int32_t> laneColumns) {
  const ir::LayoutInverse inverse(buffer);
  const auto bytes = static_cast<int32_t>(elementBytes);
  BufferOffsets result;
  std::string key = "offset " + std::to_string(bytes);
  std::vector<int32_t> lanes, warps;
  for (const int32_t column : laneColumns) {
    lanes.push_back(column * bytes);
    key += " " + std::to_string(column);
  }
  key += ",";
  for (const ir::Coords &basis : registers.bases(HwDim::Warp)) {
    warps.push_back(inverse.offsetOf(basis) * bytes);
    key += " " + std::to_string(warps.back());
  }
  for (const std::vector<int32_t> *list : {&lanes, &warps}) {
    for (const int32_t column : *list) {
      result.threadBits |= column;
    }
  }
  llvm::Value *&known = threadValues_[key];
  if (known == nullptr) {
    llvm::IRBuilder<>::InsertPointGuard guard(builder_);
    builder_.SetInsertPoint(prologue_->getTerminator());
    known = builder_.CreateXor(linear(lane_, lanes), linear(warp_, warps));
  }
  result.thread = known;
  const int32_t subtile = buffer.subtileSize(HwDim::Offset);
  for (int32_t reg = 0; reg < registers.size(HwDim::Reg); ++reg) {
    const int32_t offset = inverse.offsetOf(registers.applyOne(HwDim::Reg, reg));
    result.inner.push_back(offset % subtile * bytes);
    result.outer.push_back(offset / subtile * subtile * bytes);
  }
  return result;
}

llvm::Value *Emitter::bufferAddress(llvm::Value *buffer, const BufferOffsets &offsets,
                                    int32_t reg) {
  const auto index = static_cast<size_t>(reg);
  const int32_t mixed = offsets.inner[index] & offsets.threadBits;
  const int32_t apart = offsets.inner[index] - mixed + offsets.outer[index];
  llvm::Value *offset = offsets.thread;
  if (mixed != 0) {
    offset = builder_.CreateXor(offset, i32(mixed));
  }
  llvm::Value *pointer = builder_.CreateGEP(builder_.getInt8Ty(), buffer, offset);
  return apart == 0 ? pointer : builder_.CreateConstGEP1_32(builder_.getInt8Ty(), pointer, apart);
}

llvm::Value *Emitter::sharedAddress(llvm::Value *pointer) {
  return builder_.CreatePtrToInt(pointer, builder_.getInt32Ty());
}

llvm::Value *Emitter::loadShared(const ir::Type &element, llvm::Value *pointer) {
  return elementwise_.fromMemory(
      element, builder_.CreateAlignedLoad(elementwise_.memoryType(element), pointer,
                                          llvm::Align(element.elementBytes())));
}

void Emitter::storeShared(const ir::Type &element, llvm::Value *value, llvm::Value *pointer) {
  builder_.CreateAlignedStore(elementwise_.toMemory(element, value), pointer,
                              llvm::Align(element.elementBytes()));
}

} // namespace libtile::codegen::nvidia
