// SPDX-License-Identifier: Apache-2.0
// What the CPU's nests cost: the one place with numbers. The unit is about one vector instruction
// for each vector of elements.
#pragma once

#include "ir/opcode.h"

namespace libtile::passes {

struct NestCosts {
  // A value with several consumers that costs more than this to compute again goes to scratch.
  int32_t recompute = 8;
  // A vector's share of the loop around it.
  int32_t vectorOfLoop = 2;
  int32_t contiguousAccess = 2;
  int32_t uniformAccess = 1;
  // An access whose lanes are not consecutive in memory, for each lane.
  int32_t gatherPerLane = 2;
  // Joining the lanes of a fold at its end.
  int32_t joinLanes = 12;
  // An expression deeper than this, or with more nodes, is cut by scratch: bounds recursion and code.
  int32_t maxDepth = 160;
  int32_t maxNodes = 600;
  // A loop that is sunk carries at most so many tiles and has at most so many ops in its body.
  int32_t sunkTiles = 6;
  int32_t sunkOps = 80;
  // Vectors at once around a sunk loop: as many as find registers for what they carry, when so many
  // registers are left for the rest; at most so many, and so many ops in all of them.
  int32_t sunkOtherRegisters = 8;
  int32_t sunkVectors = 8;
  int32_t sunkUnrolledOps = 160;
  // Nests with at most this many ops take four vectors at once, with twice as many two.
  int32_t opsForUnroll4 = 24;
  // A text may pin at most so many.
  int32_t pinnedVectors = 16;
  // Rows in which a histogram counts, at most; and counts for each bin of a row, at least.
  int32_t histogramRows = 8;
  int32_t countsPerBin = 2;
  // Register blocks of a contract: vectors of b and broadcasts of a, of which a multiply-add is one; and the most of
  // both that are tried.
  double blockLoad = 0.3;
  int32_t blockVectors = 6;
  int32_t blockRows = 14;
  // Of register blocks that leave columns over, to others: zeros are packed there, and packed columns stay with no program.
  double raggedColumns = 1.05;
  // Rows of a register block, at most, whose addresses in memory find registers.
  int32_t rowsInPlace = 8;
  // Elements of the reduction that one contract of a chunk takes, at least and at most; by tiles, whose sums go through memory from
  // chunk to chunk beside little else, more.
  int32_t chunkLeast = 128;
  int32_t chunkMost = 512;
  int32_t chunkMostOfTiles = 1024;
  // Packed chunks that are kept for the next program take so many bytes, at most: a core's share of the last cache.
  int32_t panelBytes = 2 << 20;
  // A text may pin at most so many.
  int32_t pinnedChunk = 1 << 14;
};
inline constexpr NestCosts kNestCosts;

// Of one element-by-element op; shape ops and constants are free.
[[nodiscard]] int32_t opCost(ir::Opcode opcode);

} // namespace libtile::passes
