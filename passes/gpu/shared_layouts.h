// SPDX-License-Identifier: Apache-2.0
// Layouts of shared memory, and how well register layouts reach them.
//
// A buffer is stored row-major by subtiles; inside a subtile the order of axes is free and the
// offset of an element is swizzled: with p its position in that order,
//     offset = p XOR (rotate((p >> shift) & (2^bits - 1)) << unit)
// which permutes units of 2^unit elements within a row by the low bits of the row (rotated within
// `bits` by `rotation`). Folded, the row's bits from the last of these on are added to them (XOR), for
// threads that write rows at a distance of each other and read neighbours, or the other way round. Such a map is a Layout from
// HwDim::Offset. Shared memory has 32 banks of 4 bytes; an access of all 32 lanes of 4, 8 or 16 bytes is served in 1, 2 or 4 parts of 128
// bytes; a part whose lanes need different words of one bank takes longer. Targets may read from more banks (ir::SharedReads).
#pragma once

#include "ir/target.h"

#include <optional>
#include <span>
#include <vector>

namespace libtile::passes {

struct Swizzle {
  int32_t unit = 0, bits = 0, shift = 0, rotation = 0;
  bool folded = false; // with bits > 1
  // Position to offset, and back: the bits moved lie below those they come from.
  [[nodiscard]] int32_t apply(int32_t position) const;
};

// Swizzles worth a try on positions of so many bits: units of 4 to 16 bytes, within rows of at most
// `rowBytes`. The first is none, the last ones are folded.
[[nodiscard]] std::vector<Swizzle> swizzles(int32_t elementBytes, int32_t positionBits, int32_t rowBytes = 128);

// subtile: powers of two; order[0] is the axis whose elements lie side by side.
[[nodiscard]] ir::Layout bufferLayout(std::span<const int32_t> shape,
                                      std::span<const int32_t> subtile,
                                      std::span<const int32_t> order, Swizzle swizzle = {});
// The buffer with a leading axis of `depth` slots, one behind the other.
[[nodiscard]] ir::Layout ringLayout(const ir::Layout &slot, int32_t depth);

// How a register layout reads or writes a buffer.
enum class AccessKind : uint8_t { Vector, Matrix, MatrixTransposed };
struct BufferAccess {
  AccessKind kind = AccessKind::Vector;
  // Elements that one thread takes at once, side by side in the buffer: a power of two.
  int32_t elements = 1;
  // Bits of the register index that count these elements, lowest first (Vector and Matrix: the
  // 32-bit unit's elements; MatrixTransposed: the one bit that makes pairs).
  std::vector<int32_t> registerBits;
};
// The best way to read: ldmatrix where the layouts divide into 8x8 matrices of 16-bit units.
[[nodiscard]] BufferAccess readAccess(const ir::Layout &registers, const ir::Layout &buffer,
                                      int32_t elementBytes);
[[nodiscard]] BufferAccess writeAccess(const ir::Layout &registers, const ir::Layout &buffer,
                                       int32_t elementBytes, int32_t maxBytes = 16);

// Parts in which one access of a warp is served: each lane takes `bytes` bytes at its byte address.
[[nodiscard]] int32_t bankParts(std::span<const int32_t> addresses, int32_t bytes, int32_t banks = 32);
// Parts of one access of a warp beyond the least that its bytes need; 0: no bank conflict. Of a write the reads are the plain ones.
[[nodiscard]] int32_t bankConflicts(const ir::Layout &registers, const ir::Layout &buffer, int32_t elementBytes, const BufferAccess &access,
                                    const ir::SharedReads &reads = {});
// Parts of all accesses of a warp for the whole tile, with the reads as above.
[[nodiscard]] int64_t accessCost(const ir::Layout &registers, const ir::Layout &buffer,
                                 int32_t elementBytes, const BufferAccess &access, const ir::SharedReads &reads = {});

// The buffer that the writers and readers reach in fewest parts, and of such in fewest accesses. `minUnitBytes`: bytes that stay
// together (an asynchronous copy's width). order: the axis to lie side by side, -1: free.
struct BufferUse {
  std::span<const ir::Layout> writers, readers;
  int32_t elementBytes = 4;
  int32_t minUnitBytes = 0;
  int32_t fastAxis = -1;
  ir::SharedReads reads = {};
};
[[nodiscard]] ir::Layout chooseBuffer(std::span<const int32_t> shape, const BufferUse &use);

} // namespace libtile::passes
