// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/operand_sources.h"

#include "ir/ops.h"
#include "passes/gpu/matrix_buffers.h"

#include <algorithm>
#include <vector>

namespace libtile::passes {
namespace {

using ir::BlockId;
using ir::Opcode;
using ir::OpId;
using ir::ValueId;

// All that looks at the tile is dots, maybe at it transposed.
bool feedsDots(const ir::Function &fn, ValueId tile) {
  return std::ranges::all_of(fn.uses(tile), [&](ir::Use use) {
    return fn.opcode(use.op) == Opcode::Dot ? use.operand < 2
                                            : fn.opcode(use.op) == Opcode::Trans && feedsDots(fn, fn.result(use.op));
  });
}

bool comesFromSums(const ir::Function &fn, BlockId body, ValueId tile) {
  std::vector<ValueId> tiles = {tile};
  for (size_t i = 0; i < tiles.size(); ++i) {
    const OpId op = fn.def(tiles[i]);
    if (!op.valid() || fn.block(op) != body) {
      continue;
    }
    if (fn.opcode(op) == Opcode::Dot) {
      return true;
    }
    for (const ValueId operand : fn.operands(op)) {
      if (ir::isElementwise(fn.opcode(op)) && std::ranges::find(tiles, operand) == tiles.end()) {
        tiles.push_back(operand);
      }
    }
  }
  return false;
}

} // namespace

OperandSource operandSource(const ir::Function &fn, OpId dot, ValueId operand) {
  const BlockId body = fn.block(dot);
  const OpId loop = fn.parentOp(body);
  if (!loop.valid() || fn.opcode(loop) != Opcode::For) {
    return OperandSource::Other;
  }
  const ValueId tile = untransposed(fn, operand);
  const OpId op = fn.def(tile);
  const bool isLoaded = op.valid() && fn.opcode(op) == Opcode::Load && fn.block(op) == body && feedsDots(fn, tile);
  if (isLoaded || fn.isDefinedOutside(tile, body)) {
    return OperandSource::Memory;
  }
  return !comesFromSums(fn, body, tile) ? OperandSource::Other : tile == operand ? OperandSource::Sums : OperandSource::Turned;
}

bool comesFromMemory(const ir::Function &fn, ValueId operand) {
  std::vector<ValueId> tiles = {operand};
  bool isLoaded = false;
  for (size_t i = 0; i < tiles.size(); ++i) {
    const OpId op = fn.def(tiles[i]);
    if (!op.valid() || !fn.type(tiles[i]).isTile()) {
      continue;
    }
    if (fn.opcode(op) == Opcode::Load) {
      isLoaded = true;
      continue;
    }
    if (!ir::isElementwise(fn.opcode(op)) && fn.opcode(op) != Opcode::Trans) {
      return false;
    }
    for (const ValueId each : fn.operands(op)) {
      if (std::ranges::find(tiles, each) == tiles.end()) {
        tiles.push_back(each);
      }
    }
  }
  return isLoaded;
}

} // namespace libtile::passes
