// SPDX-License-Identifier: Apache-2.0
// Addresses in shared memory. A buffer's subtile is at least as large as that of every layout that
// reaches it, so the thread's part of an offset lies inside the subtile and is linear over F2; the
// registers' part is a constant, in two pieces: one inside the subtile, one that counts repeats.
#include "codegen/gpu/emitter.h"

#include "passes/gpu/flat_buffers.h"

namespace libtile::codegen::gpu {

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
  result.thread = inPrologue(key, [&] { return builder_.CreateXor(linear(lane_, lanes), linear(warp_, warps)); });
  const int32_t subtile = buffer.subtileSize(HwDim::Offset);
  for (int32_t reg = 0; reg < registers.size(HwDim::Reg); ++reg) {
    const int32_t offset = inverse.offsetOf(registers.applyOne(HwDim::Reg, reg));
    result.inner.push_back(offset % subtile * bytes);
    result.outer.push_back(offset / subtile * subtile * bytes);
  }
  return result;
}

std::pair<llvm::Value *, int32_t> Emitter::bufferAddress(llvm::Value *buffer,
                                                         BufferOffsets &offsets, int32_t reg) {
  const auto index = static_cast<size_t>(reg);
  const int32_t mixed = offsets.inner[index] & offsets.threadBits;
  llvm::Value *&pointer = offsets.made[mixed];
  if (pointer == nullptr) {
    llvm::Value *offset = builder_.CreateXor(offsets.thread, i32(mixed));
    pointer = builder_.CreateGEP(builder_.getInt8Ty(), buffer, offset);
  }
  return {pointer, offsets.inner[index] - mixed + offsets.outer[index]};
}

llvm::Value *Emitter::bufferPointer(llvm::Value *buffer, BufferOffsets &offsets, int32_t reg) {
  const auto [pointer, bytes] = bufferAddress(buffer, offsets, reg);
  return builder_.CreateConstGEP1_64(builder_.getInt8Ty(), pointer, static_cast<uint64_t>(bytes));
}

// The row-major index of the register's element; 0 in the padding, so that an access stays inside
// the buffer.
llvm::Value *Emitter::flatIndex(const ir::Type &tile, int32_t reg) {
  const ir::Layout &layout = fn_.layout(tile.layout());
  const std::vector<int32_t> strides = passes::FlatTile{layout, tile.shape()}.strides();
  llvm::Value *index = i32(0);
  for (unsigned axis = 0; axis < tile.rank(); ++axis) {
    index = builder_.CreateAdd(
        index, builder_.CreateMul(coord(layout, reg, axis), i32(strides[axis])));
  }
  llvm::Value *inside = inTile(tile, reg);
  return inside == nullptr ? index : builder_.CreateSelect(inside, index, i32(0));
}

std::function<llvm::Value *(int32_t)> Emitter::elementAddresses(const ir::Type &tile,
                                                                ir::ValueId buffer) {
  const ir::Layout &registers = fn_.layout(tile.layout());
  const unsigned bytes = tile.elementBytes();
  llvm::Value *base = scalar(buffer);
  if (!passes::isFlat(registers, layoutOf(buffer))) {
    return [=, this, offsets = bufferOffsets(registers, layoutOf(buffer), bytes)](
               int32_t reg) mutable { return bufferPointer(base, offsets, reg); };
  }
  return [=, this](int32_t reg) { return flatAddress(buffer, flatIndex(tile, reg)); };
}

// Bits above the subtile count repeats.
llvm::Value *Emitter::flatAddress(ir::ValueId buffer, llvm::Value *index) {
  const ir::Type &type = fn_.type(buffer);
  const ir::LayoutInverse inverse(layoutOf(buffer));
  std::vector<int32_t> columns;
  bool plain = true;
  for (int32_t position = 1; position < type.dim(0); position *= 2) {
    const ir::Coords flat = {position};
    columns.push_back(inverse.offsetOf(flat));
    plain = plain && columns.back() == position;
  }
  llvm::Value *offset = plain ? index : linear(index, columns);
  return builder_.CreateGEP(builder_.getInt8Ty(), scalar(buffer),
                            builder_.CreateMul(offset, i32(type.elementBytes())));
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

void Emitter::storeShared(const ir::Type &element, llvm::ArrayRef<llvm::Value *> elements,
                          llvm::Value *pointer, llvm::Value *predicate) {
  const unsigned bytes = element.elementBytes();
  if (elements.size() == 1 && predicate == nullptr) {
    return storeShared(element, elements[0], pointer);
  }
  const unsigned total = bytes * elements.size();
  const unsigned wordBytes = bytes == 8 ? 8 : std::min(4u, total);
  const Regs words = packWords(element, elements, wordBytes);
  if (predicate == nullptr && words.size() == 1) {
    builder_.CreateAlignedStore(words[0], pointer, llvm::Align(total));
    return;
  }
  if (predicate == nullptr) {
    builder_.CreateAlignedStore(vectorOf(words), pointer, llvm::Align(total));
    return;
  }
  storeWords(pointer, words, wordBytes, predicate);
}

} // namespace libtile::codegen::gpu
