// SPDX-License-Identifier: Apache-2.0
// How well register layouts reach layouts of shared memory (swizzles.h).
//
// Shared memory has 32 banks of 4 bytes; an access of all 32 lanes of 4, 8 or 16 bytes is served in 1, 2 or 4 parts of 128
// bytes; a part whose lanes need different words of one bank takes longer. Targets may read from more banks (ir::SharedReads).
#pragma once

#include "ir/target.h"
#include "passes/gpu/swizzles.h"

#include <optional>
#include <span>
#include <vector>

namespace libtile::passes {

// How a register layout reads or writes a buffer. Vector: each lane its own elements. Matrix, MatrixTransposed: matrices of 8 x 8
// (MatrixReads::EightRows). Turned: what e lanes want lies side by side, and the e elements of one lane far apart. Of sixteen lanes
// lane l gets as its element j the element l mod e of those whose place lane 16 j / e + l / e names (MatrixReads::SixteenLanes).
enum class AccessKind : uint8_t { Vector, Matrix, MatrixTransposed, Turned };
struct BufferAccess {
  AccessKind kind = AccessKind::Vector;
  // Elements that one thread takes at once, side by side in the buffer: a power of two.
  int32_t elements = 1;
  // Bits of the register index that count these elements, lowest first (Vector and Matrix: the
  // 32-bit unit's elements; MatrixTransposed: the one bit that makes pairs; Turned: those of a lane).
  std::vector<int32_t> registerBits;
};
// The best way to read: by the target's instructions for matrices where the layouts divide into them.
[[nodiscard]] BufferAccess readAccess(const ir::Layout &registers, const ir::Layout &buffer, int32_t elementBytes,
                                      const ir::SharedReads &reads);
// What the bits of its number add to the offset that a lane names in one read: elements. Of matrices the bits count their rows.
[[nodiscard]] std::vector<int32_t> namedOffsets(const ir::Layout &registers, const ir::Layout &buffer, const BufferAccess &access);
[[nodiscard]] BufferAccess writeAccess(const ir::Layout &registers, const ir::Layout &buffer,
                                       int32_t elementBytes, int32_t maxBytes = 16);
// The way to write by matrices, where the target has it and the layouts divide into them. nullopt: each lane writes its own elements.
[[nodiscard]] std::optional<BufferAccess> matrixWriteAccess(const ir::Layout &registers, const ir::Layout &buffer, int32_t elementBytes,
                                                            const ir::SharedReads &reads);

// Parts in which one access of a warp is served: each lane takes `bytes` bytes at its byte address.
[[nodiscard]] int32_t bankParts(std::span<const int32_t> addresses, int32_t bytes, int32_t banks = 32);
// Parts of one access of a warp beyond the least that its bytes need; 0: no bank conflict. Of a write the reads are the plain ones.
[[nodiscard]] int32_t bankConflicts(const ir::Layout &registers, const ir::Layout &buffer, int32_t elementBytes, const BufferAccess &access,
                                    const ir::SharedReads &reads = {});
// Parts of all accesses of a warp for the whole tile, with the reads as above.
[[nodiscard]] int64_t accessCost(const ir::Layout &registers, const ir::Layout &buffer,
                                 int32_t elementBytes, const BufferAccess &access, const ir::SharedReads &reads = {});

// The buffer that the writers and readers reach in fewest parts, and of such in fewest accesses and words that writers have to put
// together from registers that are no neighbours. `minUnitBytes`: bytes that stay together (an asynchronous copy's width). order: the axis to lie side by side, -1: free.
struct BufferUse {
  std::span<const ir::Layout> writers, readers;
  int32_t elementBytes = 4;
  int32_t minUnitBytes = 0;
  int32_t fastAxis = -1;
  ir::SharedReads reads = {};
};
[[nodiscard]] ir::Layout chooseBuffer(std::span<const int32_t> shape, const BufferUse &use);

} // namespace libtile::passes
