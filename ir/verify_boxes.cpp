// SPDX-License-Identifier: Apache-2.0
// Invariants 40 and 41: boxes are those of the function's maps, and arrive at counters; what a warp of its own may
// copy (the list is in verifier.cpp).
#include "ir/ops.h"
#include "ir/verifier_impl.h"

#include <algorithm>

namespace libtile::ir {

namespace {

bool isScalarCode(const Function &fn, OpId op) {
  const auto isScalar = [&](ValueId value) { return fn.type(value).isScalar(); };
  return fn.regions(op).empty() && fn.effects(op).pure() && std::ranges::all_of(fn.results(op), isScalar) &&
         std::ranges::all_of(fn.operands(op), isScalar);
}

void requireCluster(Checker &c, OpId op, Attr attr) {
  const int64_t programs = c.fn.hasAttr(op, attr) ? c.fn.getInt(op, attr) : 2;
  c.require(programs == 2 || programs == 4 || programs == 8, 40, op, "a cluster has 2, 4 or 8 programs");
  const auto meets = [&](OpId other) { return c.fn.opcode(other) == Opcode::ClusterBarrier && c.fn.getInt(other, Attr::count) == programs; };
  c.require(!c.fn.hasAttr(op, attr) || std::ranges::any_of(c.fn.walk(), meets), 40, op, "programs that meet nowhere are no cluster");
}

} // namespace

void verifyClusterBarrier(Checker &c, OpId op) {
  requireCluster(c, op, Attr::count);
  c.require(c.fn.block(op) == c.fn.body(), 40, op, "programs of a cluster meet in the kernel's body");
}

void verifyArrivalsInit(Checker &c, OpId op) {
  requireCluster(c, op, Attr::cluster);
  const Type buffer = c.operandType(op, 0);
  c.require(buffer.isBuffer() && buffer.elem() == Elem::I64 && c.fn.getInt(op, Attr::count) >= 1, 40, op,
            "arrivals are a buffer of i64, and at least one is counted");
}

void verifyCopyBox(Checker &c, OpId op) {
  requireCluster(c, op, Attr::cluster);
  const Type buffer = c.operandType(op, 0), arrivals = c.operandType(op, 1);
  const int64_t number = c.fn.getInt(op, Attr::map);
  if (!c.require(number >= 0 && number < static_cast<int64_t>(c.fn.maps.size()), 40, op, "there is no such map")) {
    return;
  }
  const TensorMap &map = c.fn.maps[static_cast<size_t>(number)];
  bool ok = buffer.isBuffer() && buffer.elem() == map.elem && buffer.rank() <= map.dims.size() &&
            arrivals.isBuffer() && arrivals.elem() == Elem::I64 && arrivals.numElements() == 1 &&
            c.operandType(op, 2) == Type::scalar(Elem::I1) && c.fn.numOperands(op) == 3 + map.dims.size();
  for (unsigned i = 3; i < c.fn.numOperands(op); ++i) {
    ok = ok && c.operandType(op, i) == Type::scalar(Elem::I32);
  }
  c.require(ok, 40, op, "a buffer of the map's element, one counter, an i1 and an i32 for each of its dimensions");
  // The machine's copies start at multiples of 128 bytes, in each slot of a ring.
  const bool isWhole = !ok || !buffer.layout().valid() ||
                       int64_t{c.fn.layout(buffer.layout()).size(HwDim::Offset)} * buffer.elementBytes() % 128 == 0;
  c.require(isWhole, 40, op, "a buffer that copy_box fills has a multiple of 128 bytes");
}

void verifyStoreBox(Checker &c, OpId op) {
  const Type buffer = c.operandType(op, 0);
  const int64_t number = c.fn.getInt(op, Attr::map);
  if (!c.require(number >= 0 && number < static_cast<int64_t>(c.fn.maps.size()), 40, op, "there is no such map")) {
    return;
  }
  const TensorMap &map = c.fn.maps[static_cast<size_t>(number)];
  bool ok = buffer.isBuffer() && buffer.elem() == map.elem && (!c.fn.getBool(op, Attr::adds) || map.elem == Elem::F32) &&
            buffer.rank() <= map.dims.size() && c.fn.numOperands(op) == 1 + map.dims.size();
  for (unsigned i = 1; i < c.fn.numOperands(op); ++i) {
    ok = ok && c.operandType(op, i) == Type::scalar(Elem::I32);
  }
  c.require(ok, 40, op, "a buffer of the map's element, f32 where it adds, and an i32 for each of its dimensions");
  const auto isOther = [&](OpId other) {
    return c.fn.opcode(other) == Opcode::CopyBox && c.fn.maps[static_cast<size_t>(c.fn.getInt(other, Attr::map))].param == map.param;
  };
  c.require(std::ranges::none_of(c.fn.walk(), isOther), 40, op, "the kernel copies boxes of the array that it stores to");
}

void verifyStoreWait(Checker &c, OpId op) { c.require(c.operandType(op, 0).isBuffer(), 40, op, "a buffer"); }

void verifyArrivalsWait(Checker &c, OpId op) {
  const Type buffer = c.operandType(op, 0);
  c.require(buffer.isBuffer() && buffer.elem() == Elem::I64 && buffer.numElements() == 1 &&
                c.operandType(op, 1) == Type::scalar(Elem::I32),
            40, op, "one counter, an i64, and an i32");
}

void verifyArrive(Checker &c, OpId op) {
  requireCluster(c, op, Attr::cluster);
  const Type buffer = c.operandType(op, 0);
  c.require(buffer.isBuffer() && buffer.elem() == Elem::I64 && buffer.numElements() == 1 &&
                c.operandType(op, 1) == Type::scalar(Elem::I1),
            40, op, "one counter, an i64, and an i1");
}

void verifyProducer(Checker &c, OpId op) {
  const Function &fn = c.fn;
  const auto isProducer = [&](OpId other) { return fn.opcode(other) == Opcode::Producer; };
  const BlockId body = fn.region(op);
  const auto registers = fn.getInts(op, Attr::registers);
  const auto isBudget = [](int64_t number) { return number >= 24 && number <= 256 && number % 8 == 0; };
  c.require(fn.getInt(op, Attr::count) >= 1 && registers.size() == 2 && std::ranges::all_of(registers, isBudget), 41, op,
            "a number of warps, and two of registers, multiples of 8 from 24 to 256");
  if (!c.require(fn.block(op) == fn.body() && std::ranges::count_if(fn.opsIn(fn.body()), isProducer) == 1 &&
                     fn.args(body).empty() && fn.numOperands(fn.last(body)) == 0,
                 41, op, "one producer, in the kernel's body, which takes and yields nothing")) {
    return;
  }
  // All warps run what stands in front: it must not depend on which thread it is.
  for (OpId before = fn.first(fn.body()); before != op; before = fn.next(before)) {
    const Opcode opcode = fn.opcode(before);
    const bool isForAll = opcode == Opcode::GridWait || opcode == Opcode::LaunchDependents || opcode == Opcode::ClusterBarrier;
    c.require(isScalarCode(fn, before) || isForAll || opcode == Opcode::Alloc || opcode == Opcode::ArrivalsInit, 41, before,
              "more than scalar code in front of a producer");
  }
  for (const OpId inside : fn.walk(body)) {
    const Opcode opcode = fn.opcode(inside);
    const bool copies = opcode == Opcode::BufferSlot || opcode == Opcode::CopyBox || opcode == Opcode::ArrivalsWait || opcode == Opcode::GridWait;
    c.require(copies || opcode == Opcode::For || opcode == Opcode::Yield || opcode == Opcode::Load || isScalarCode(fn, inside), 41,
              inside, "a producer runs scalar code and copies boxes");
  }
}

} // namespace libtile::ir
