// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/nest_costs.h"

#include "ir/ops.h"

#include <algorithm>
#include <iterator>

namespace libtile::passes {

namespace {

struct Row {
  ir::Opcode opcode;
  int32_t cost;
};

using enum ir::Opcode;
// A remainder: of one round, as most are (codegen/emit_remainder.cpp), with its division and a call.
constexpr Row kCosts[] = {
    {Exp, 20},   {Exp2, 16},  {Log, 24},  {Log2, 24}, {Sqrt, 10}, {Rsqrt, 14},
    {Sin, 60},   {Cos, 60},   {Erf, 40},  {SMulHi, 4}, {UMulHi, 4}, {Brev, 6},
    {FDiv, 10},  {FRem, 40},  {SDiv, 30}, {UDiv, 30}, {SRem, 30}, {URem, 30},
    {Constant, 0}, {Arange, 0}, {Splat, 0}, {Broadcast, 0}, {ExpandDims, 0}, {Reshape, 0},
    {Trans, 0},  {Slice, 0}, {Gather, 2}, {Hint, 0},   {Bitcast, 0}, {PtrToInt, 0}, {IntToPtr, 0}, {PtrAdd, 0},
};

} // namespace

int32_t opCost(ir::Opcode opcode) {
  const auto *row = std::find_if(std::begin(kCosts), std::end(kCosts),
                                 [&](const Row &r) { return r.opcode == opcode; });
  return row == std::end(kCosts) ? 1 : row->cost;
}

} // namespace libtile::passes
