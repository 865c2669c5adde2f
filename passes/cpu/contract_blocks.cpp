// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/contract_blocks.h"

#include <algorithm>

namespace libtile::passes {

using ir::ContractRule;
using ir::Elem;

namespace {

// What the choice weighs: multiply-adds count 1, vectors of b and broadcasts of a this much.
constexpr double kLoadCost = 0.6;
// Fewer accumulators than this wait for each other: latency times multiply-adds in a cycle.
constexpr int32_t kAccumulatorsInFlight = 8;
constexpr int32_t kMaxVectors = 6;
constexpr int32_t kMaxRows = 14;
// Elements of the reduction that one contract of a chunk takes, at least and at most.
constexpr int32_t kChunkLeast = 128;
constexpr int32_t kChunkMost = 512;
constexpr int32_t kLineBytes = 64;

int32_t roundUp(int32_t value, int32_t to) { return (value + to - 1) / to * to; }

// A row's bytes as an odd number of cache lines, so that rows spread over all sets.
int32_t spreadRow(int32_t elements, int32_t elementBytes) {
  int32_t lines = roundUp(elements * elementBytes, kLineBytes) / kLineBytes;
  lines += lines % 2 == 0 ? 1 : 0;
  return lines * kLineBytes / elementBytes;
}

double blockCost(int32_t m, int32_t n, int32_t rows, int32_t vectors, int32_t lanes) {
  const int32_t blocks =
      (roundUp(m, rows) / rows) * (roundUp(n, vectors * lanes) / (vectors * lanes));
  const int32_t adds = std::max(rows * vectors, kAccumulatorsInFlight);
  return blocks * (adds + kLoadCost * (rows + vectors));
}

} // namespace

int32_t ContractShape::rowA(int32_t k) const {
  return spreadRow(packedK(k), int32_t(ir::byteSize(rule.packed)));
}

int32_t ContractShape::rowB() const {
  return spreadRow(paddedN, rule.pairs ? 4 : int32_t(ir::byteSize(rule.packed)));
}

std::optional<ContractShape> contractShape(const ir::Target &target, Elem operand,
                                           Elem accumulator, int32_t m, int32_t n) {
  const auto rule = std::ranges::find_if(target.contract, [&](const ContractRule &r) {
    return r.operand == operand && r.accumulator == accumulator;
  });
  if (rule == target.contract.end() || rule->lanes < 1) {
    return std::nullopt;
  }
  ContractShape shape;
  shape.rule = *rule;
  shape.m = m;
  shape.n = n;
  // Integers without an instruction that multiplies and adds: the product takes a register too.
  const bool fused = isFloat(rule->packed) || target.features.find("vnni") != std::string::npos;
  const int32_t product = fused ? 0 : 1;
  double least = 0;
  for (int32_t vectors = 1; vectors <= kMaxVectors; ++vectors) {
    for (int32_t rows = 1; rows <= kMaxRows; ++rows) {
      const bool fits = rows * vectors + vectors + 1 + product <= target.vectorRegisters;
      const double cost = blockCost(m, n, rows, vectors, rule->lanes);
      if ((fits && cost < least) || shape.blockM == 0) {
        least = cost;
        shape.blockM = rows;
        shape.blockN = vectors * rule->lanes;
      }
    }
  }
  shape.paddedM = roundUp(m, shape.blockM);
  shape.paddedN = roundUp(n, shape.blockN);
  return shape;
}

int32_t iterationsPerChunk(const ir::Target &target, const ContractShape &shape, int32_t k) {
  const int32_t bytes = int32_t(ir::byteSize(shape.rule.packed));
  const int32_t packed = shape.packedK(k);
  // A panel of b, one register block wide, is read once for each block of rows: it should be near L1.
  const int64_t panel = 2 * int64_t{target.l1Bytes} / (int64_t{shape.blockN} * bytes);
  const int64_t both =
      int64_t{target.l2Bytes} / 2 / (int64_t{shape.paddedM + shape.paddedN} * bytes);
  const int64_t wanted =
      std::clamp<int64_t>(std::min(panel, both), kChunkLeast, kChunkMost);
  return int32_t(std::max<int64_t>(1, wanted / packed));
}

} // namespace libtile::passes
