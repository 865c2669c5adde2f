// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/plan_pins.h"

#include "ir/ops.h"

namespace libtile::passes {

using namespace ir;

namespace {

constexpr Attr kPins[] = {Attr::keep, Attr::lane_axis, Attr::lanes, Attr::unroll, Attr::chunk, Attr::sunk};

std::optional<int64_t> pinned(const Function &fn, OpId op, Attr attr) {
  return fn.hasAttr(op, attr) ? std::optional(fn.getInt(op, attr)) : std::nullopt;
}

} // namespace

std::map<OpId, NestPins> nestPins(const Function &fn) {
  std::map<OpId, NestPins> pins;
  for (const OpId op : fn.walk()) {
    const NestPins own{pinned(fn, op, Attr::lane_axis), pinned(fn, op, Attr::lanes), pinned(fn, op, Attr::unroll)};
    if (own.laneAxis || own.lanes || own.unroll) {
      pins.emplace(op, own);
    }
  }
  return pins;
}

void refusePin(const Function &fn, OpId op, Attr pin, const std::string &reason) {
  throw UserError(std::string(info(fn.opcode(op)).mnemonic) + ": " + attrName(pin) + " cannot be pinned: " + reason,
                  fn.locationOf(op));
}

void requireHeeded(const Function &fn, const std::map<OpId, NestPins> &pins) {
  for (const auto &[op, own] : pins) {
    if ((own.lanes || own.laneAxis) && !own.lanesHeeded) {
      refusePin(fn, op, own.lanes ? Attr::lanes : Attr::lane_axis, "it has no nest whose lanes are chosen");
    }
    if (own.unroll && !own.unrollHeeded) {
      refusePin(fn, op, Attr::unroll, "it has no nest that takes several vectors at once");
    }
  }
}

void dropPins(Function &fn) {
  for (const OpId op : fn.walk()) {
    for (const Attr pin : kPins) {
      fn.eraseAttr(op, pin);
    }
  }
}

} // namespace libtile::passes
