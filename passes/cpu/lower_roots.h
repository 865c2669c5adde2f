// SPDX-License-Identifier: Apache-2.0
// The nests of single roots: an op on tiles that is not computed inline gets its nests before itself,
// and its tile results get buffers. The op itself stays until form_nests sweeps.
#pragma once

#include "passes/cpu/nest_state.h"

namespace libtile::passes {

// store, with operands staged as memory order asks (memory_order.h).
void lowerStore(NestState &state, ir::OpId op);
// Volatile load and atomics on tiles: each element once, in order.
void lowerOrderedAccess(NestState &state, ir::OpId op);
// print: its tiles written to scratch, and a print of these (lower_access.cpp).
void lowerPrint(NestState &state, ir::OpId op);
// reduce: a fold for one axis, else a nest over the other axes around a fold (lower_reduce.cpp).
void lowerReduce(NestState &state, ir::OpId op);
// histogram and map: a nest of single elements that counts, or runs the map's body (lower_across.cpp).
void lowerHistogram(NestState &state, ir::OpId op);
void lowerMap(NestState &state, ir::OpId op);
// scan: a prefix, or a nest over the other axes around one (lower_scan.cpp).
void lowerScan(NestState &state, ir::OpId op);
// sort: rows of keys in scratch, sorted in place, and a nest that takes the least (lower_sort.cpp).
void lowerSort(NestState &state, ir::OpId op);
// dot: operands packed and a contraction, or plain multiply-adds (lower_dot.cpp). `home`: the result
// is to be accumulated in this buffer (of lower_dot's shape); invalid: in a new one.
void lowerDot(NestState &state, ir::OpId op, ir::ValueId home);

} // namespace libtile::passes
