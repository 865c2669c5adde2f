// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/sums_together.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/gpu/matrix_buffers.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::Opcode;
using ir::OpId;
using ir::SumsOf;
using ir::Type;
using ir::ValueId;

// Sums element by element, maybe transposed.
struct Tile {
  ValueId value;
  bool isTransposed;
  bool operator==(const Tile &) const = default;
};

// The axis of the tile along which the op wants elements together.
std::optional<int64_t> axisTogether(const ir::Function &fn, ir::Use use) {
  const int64_t rank = fn.type(fn.operand(use.op, use.operand)).rank();
  const Opcode opcode = fn.opcode(use.op);
  if (opcode == Opcode::Reduce || opcode == Opcode::Scan) {
    return fn.getInt(use.op, Attr::axis);
  }
  if (opcode == Opcode::AtomicRmw) {
    return rank - 2;
  }
  return opcode == Opcode::Dot && use.operand < 2 ? std::optional(rank - 1 - int64_t{use.operand}) : std::nullopt;
}

// What the op makes of the tile, if each of its elements is of one of the tile's.
std::optional<Tile> madeOf(const ir::Function &fn, const Tile &tile, OpId op) {
  const unsigned rank = fn.type(tile.value).rank();
  if (fn.opcode(op) == Opcode::Trans) {
    const bool swaps = throughTrans(fn, op, rank - 1) == rank - 2;
    return Tile{fn.result(op), tile.isTransposed != swaps};
  }
  return ir::isElementwise(fn.opcode(op)) && fn.results(op).size() == 1 ? std::optional(Tile{fn.result(op), tile.isTransposed})
                                                                        : std::nullopt;
}

// The tile is another times a number of each row.
bool isOfRowsAnew(const ir::Function &fn, ValueId tile) {
  const OpId op = fn.def(tile);
  return op.valid() && ir::isElementwise(fn.opcode(op)) && std::ranges::any_of(fn.operands(op), [&](ValueId operand) {
           const OpId from = fn.def(operand);
           return from.valid() && fn.opcode(from) == Opcode::Broadcast && fn.type(fn.operand(from, 0)).shape().back() == 1;
         });
}

} // namespace

SumsOf sumsTogether(const ir::Function &fn, OpId dot) {
  const int64_t rank = fn.type(fn.result(dot)).rank();
  std::vector<Tile> tiles = {{fn.result(dot), false}};
  int32_t rows = isOfRowsAnew(fn, fn.operand(dot, 2)) ? 1 : 0, columns = 0;
  for (size_t i = 0; i < tiles.size(); ++i) {
    const Tile tile = tiles[i];
    for (const ir::Use use : fn.uses(tile.value)) {
      if (const auto axis = axisTogether(fn, use)) {
        columns += *axis == (tile.isTransposed ? rank - 1 : rank - 2) ? 1 : 0;
        rows += *axis == (tile.isTransposed ? rank - 2 : rank - 1) ? 1 : 0;
      } else if (const auto next = madeOf(fn, tile, use.op); next && std::ranges::find(tiles, *next) == tiles.end()) {
        tiles.push_back(*next);
      }
    }
  }
  return rows > columns ? SumsOf::Row : columns > 0 ? SumsOf::Column : SumsOf::Either;
}

void beginApart(ir::Function &fn) {
  for (const OpId op : fn.walk()) {
    const Opcode opcode = fn.opcode(op);
    const unsigned first = opcode == Opcode::Dot ? 2 : 3;
    for (unsigned i = first; (opcode == Opcode::Dot || opcode == Opcode::For) && i < fn.operands(op).size(); ++i) {
      const OpId number = fn.def(fn.operand(op, i));
      if (!number.valid() || fn.opcode(number) != Opcode::Constant || fn.uses(fn.result(number)).size() == 1) {
        continue;
      }
      ir::Builder builder(fn, op);
      const Type type = fn.type(fn.result(number));
      const OpId own = builder.op(Opcode::Constant, {}, {&type, 1});
      fn.copyAttrs(number, own);
      fn.setOperand(op, i, fn.result(own));
    }
  }
}

} // namespace libtile::passes
