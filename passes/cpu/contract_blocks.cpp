// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/contract_blocks.h"

#include "ir/ops.h"
#include "passes/cpu/nest_costs.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace libtile::passes {

using ir::Attr;
using ir::ContractUnit;
using ir::Elem;

namespace {

constexpr int32_t kLineBytes = 64;
constexpr unsigned kOperandsPacked = 5; // of a contract that has no addresses

int32_t roundUp(int32_t value, int32_t to) { return (value + to - 1) / to * to; }

// A row's bytes as an odd number of cache lines, so that rows spread over all sets.
int32_t spreadRow(int32_t elements, int32_t elementBytes) {
  int32_t lines = roundUp(elements * elementBytes, kLineBytes) / kLineBytes;
  lines += lines % 2 == 0 ? 1 : 0;
  return lines * kLineBytes / elementBytes;
}

// Padded where they are no whole blocks.
int32_t paddedRows(const ContractUnit &unit, int32_t m, int32_t blockM) {
  return rowBlocks(unit, m, blockM) ? m : roundUp(m, blockM);
}

// Of blocks of rows * unit.rows rows.
double blockCost(int32_t m, int32_t n, int32_t rows, int32_t vectors, const ContractUnit &unit) {
  const int32_t blockM = rows * unit.rows;
  const int32_t blockN = vectors * unit.lanes;
  const auto cost = [&](int32_t ofBlock) {
    return std::max(ofBlock * vectors, unit.inFlight) + kNestCosts.blockLoad * (ofBlock + vectors);
  };
  const int32_t padded = paddedRows(unit, m, blockM);
  const RowBlocks blocks = *rowBlocks(unit, padded, blockM);
  const double column = blocks.whole / blockM * cost(rows) + (padded - blocks.whole) / blocks.rest * cost(blocks.rest / unit.rows);
  const double ragged = n % blockN != 0 ? kNestCosts.raggedColumns : 1;
  return ragged * column * (roundUp(n, blockN) / blockN);
}

// That a register block of that many rows and vectors takes: its sums, a row of b, one of a.
int32_t registersOf(int32_t rows, int32_t vectors, const ContractUnit &unit) {
  return rows * vectors + vectors + 1 + unit.temporaries;
}

// The first operand of a contract behind the addresses of rows that it has.
unsigned behindRows(const ir::Function &fn, ir::OpId contract) {
  return kOperandsPacked + (rowsInPlaceOf(fn, contract) ? 2 : 0) + (rowsAheadOf(fn, contract) ? 2 : 0);
}

int32_t registersFor(const ContractUnit &unit, const ir::Target &target) {
  return unit.registers != 0 ? unit.registers : target.vectorRegisters;
}

} // namespace

std::optional<RowBlocks> rowBlocks(const ContractUnit &unit, int32_t rows, int32_t blockM) {
  if (rows % blockM == 0) {
    return RowBlocks{rows, blockM, blockM};
  }
  if (unit.ofTiles()) { // whose rows are what they are
    return std::nullopt;
  }
  // Blocks of less than half as many rows take more loads than padding takes multiply-adds.
  for (int32_t rest = blockM - 1; 2 * rest > blockM; --rest) {
    const int32_t both = std::lcm(blockM, rest), whole = rows - rows % both;
    if (whole != 0 && (rows - whole) % rest == 0) {
      return RowBlocks{whole, rest, both};
    }
  }
  return std::nullopt;
}

int32_t ContractShape::rowA(int32_t k) const {
  return spreadRow(packedK(k), int32_t(ir::byteSize(unit.packed)));
}

int32_t ContractShape::rowB() const {
  return spreadRow(paddedN, unit.group * int32_t(ir::byteSize(unit.packed)));
}

PackedShapes packedShapes(const ContractShape &shape, int32_t columns) {
  const int32_t group = shape.unit.group;
  return {{shape.paddedM, shape.rowA(columns)},
          {columns / group, shape.rowB()},
          group > 1 ? Elem::I32 : shape.unit.packed};
}

std::optional<ContractShape> contractShape(const ir::Target &target, Elem operand,
                                           Elem accumulator, int32_t m, int32_t n, const ContractPins &pins) {
  ContractShape shape;
  const auto unit = std::ranges::find_if(target.contractUnits, [&](const ContractUnit &u) {
    const bool fits = u.operand == operand && u.accumulator == accumulator && m >= u.leastM &&
                      (pins.unit.empty() || pins.unit == u.name);
    if (fits && !u.withheld.empty()) {
      shape.fallback = "dot without " + u.name + ": " + u.withheld;
    }
    return fits && u.withheld.empty();
  });
  if (unit == target.contractUnits.end()) {
    return std::nullopt;
  }
  shape.unit = *unit;
  shape.m = m;
  shape.n = n;
  double least = std::numeric_limits<double>::infinity();
  for (int32_t vectors = 1; vectors <= kNestCosts.blockVectors; ++vectors) {
    for (int32_t rows = 1; rows <= kNestCosts.blockRows; ++rows) {
      const int32_t blockM = rows * unit->rows, blockN = vectors * unit->lanes;
      const bool fits = registersOf(rows, vectors, *unit) <= registersFor(*unit, target) &&
                        (pins.blockM == 0 || pins.blockM == blockM) && (pins.blockN == 0 || pins.blockN == blockN);
      const double cost = blockCost(m, n, rows, vectors, *unit);
      if (fits && cost < least) {
        least = cost;
        shape.blockM = blockM;
        shape.blockN = blockN;
      }
    }
  }
  if (shape.blockM == 0) {
    return std::nullopt;
  }
  shape.paddedM = paddedRows(*unit, m, shape.blockM);
  shape.paddedN = roundUp(n, shape.blockN);
  return shape;
}

int32_t iterationsPerChunk(const ir::Target &target, const ContractShape &shape, int32_t k) {
  const int32_t bytes = int32_t(ir::byteSize(shape.unit.packed));
  const int32_t packed = shape.packedK(k);
  // A panel of b, one register block wide, is read once for each block of rows: it should be near L1.
  const int64_t panel = 2 * int64_t{target.l1Bytes} / (int64_t{shape.blockN} * bytes);
  // a passes over each of them: it should stay in half of L2, beside one.
  const int64_t both = int64_t{target.l2Bytes} / 2 / (int64_t{shape.paddedM + shape.blockN} * bytes);
  const int32_t most = shape.unit.ofTiles() ? kNestCosts.chunkMostOfTiles : kNestCosts.chunkMost;
  const auto wanted = std::clamp<int64_t>(std::min(panel, both), kNestCosts.chunkLeast, most);
  return int32_t(std::max<int64_t>(1, wanted / packed));
}

std::optional<unsigned> rowsInPlaceOf(const ir::Function &fn, ir::OpId contract) {
  const bool hasRows = fn.numOperands(contract) > kOperandsPacked + 1 &&
                       fn.type(fn.operand(contract, kOperandsPacked)).isBuffer() &&
                       fn.type(fn.operand(contract, kOperandsPacked + 1)).elem() == Elem::I32;
  return hasRows ? std::optional(kOperandsPacked) : std::nullopt;
}

std::optional<unsigned> rowsAheadOf(const ir::Function &fn, ir::OpId contract) {
  const unsigned place = rowsInPlaceOf(fn, contract) ? kOperandsPacked + 2 : kOperandsPacked;
  const bool hasRows = fn.numOperands(contract) > place && fn.type(fn.operand(contract, place)).isBuffer() &&
                       fn.type(fn.operand(contract, place)).elem() == Elem::I64;
  return hasRows ? std::optional(place) : std::nullopt;
}

std::optional<unsigned> findingsOf(const ir::Function &fn, ir::OpId contract) {
  const unsigned place = behindRows(fn, contract);
  const bool hasFindings = fn.numOperands(contract) > place && fn.type(fn.operand(contract, place)).isBuffer();
  return hasFindings ? std::optional(place) : std::nullopt;
}

unsigned firstEndOf(const ir::Function &fn, ir::OpId contract) {
  return behindRows(fn, contract) + (findingsOf(fn, contract) ? 6 : 0);
}

const ContractUnit &contractUnitOf(const ir::Function &fn, ir::OpId contract,
                                   const ir::Target &target) {
  const auto fail = [&](const std::string &message) {
    throw ir::UserError(message, fn.locationOf(contract));
  };
  const std::string name(fn.getText(contract, Attr::unit));
  const auto unit = std::ranges::find(target.contractUnits, name, &ContractUnit::name);
  if (unit == target.contractUnits.end()) {
    fail(target.name + " has no unit " + name);
  }
  const ir::Type a = fn.type(fn.operand(contract, 0));
  const ir::Type b = fn.type(fn.operand(contract, 1));
  const ir::Type acc = fn.type(fn.operand(contract, 2));
  if (a.elem() != unit->packed || b.elem() != (unit->group == 1 ? unit->packed : Elem::I32) ||
      acc.elem() != unit->accumulator) {
    fail("the unit " + name + " takes other types");
  }
  const int64_t blockM = fn.getInt(contract, Attr::block_m);
  const int64_t blockN = fn.getInt(contract, Attr::block_n);
  if (blockM % unit->rows != 0 || blockN % unit->lanes != 0 || blockM < 1 || !rowBlocks(*unit, acc.dim(0), int32_t(blockM)) || acc.dim(1) % blockN != 0) {
    fail("the buffers of a contract are no whole register blocks of the unit " + name);
  }
  const auto rows = int32_t(blockM / unit->rows), vectors = int32_t(blockN / unit->lanes);
  if (unit->ofTiles() && registersOf(rows, vectors, *unit) > registersFor(*unit, target)) {
    fail("the register blocks of a contract have more tiles than the unit " + name);
  }
  if (rowsInPlaceOf(fn, contract).has_value() && unit->packedBias() != 0) {
    fail("the unit " + name + " reads no rows in place");
  }
  if (const auto findings = findingsOf(fn, contract)) {
    const int32_t columns = fn.type(fn.operand(contract, 2)).dim(1) / unit->lanes;
    const auto table = [&](unsigned which) { return fn.type(fn.operand(contract, *findings + 2 * which)); };
    const auto ofTurns = [](int32_t fields) {
      return ir::Type::buffer(std::array{kContractTurns, kFindingsHead + fields}, Elem::I32);
    };
    if (!unit->flushes || table(0) != ofTurns(1) || table(1) != ofTurns(columns) || table(2) != ir::Type::buffer(std::array{columns}, Elem::I32)) {
      fail("the unit " + name + " has no such findings");
    }
  }
  return *unit;
}

} // namespace libtile::passes
