// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/rotate_dots.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/plan_dots.h"
#include "passes/gpu/shared_accesses.h"
#include "passes/op_properties.h"

#include <algorithm>
#include <array>
#include <set>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::BlockId;
using ir::Builder;
using ir::CmpPred;
using ir::Effects;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

constexpr unsigned kBounds = 3; // operands of a for in front of what it carries

// What stands where in a loop that can be rotated.
struct Rotation {
  OpId loop, early, late;           // the dots
  unsigned carried = 0;             // position of the late dot's sums among what the loop carries
  std::vector<OpId> waits, arrives; // of the late dot's slots
  std::set<OpId> behind;            // ops that need the sums of the iteration before
  std::vector<unsigned> before;     // arguments of the body that the late slots follow from
};

class Finder {
public:
  Finder(const ir::Function &fn, const ir::Target &target) : fn_(fn), target_(target) {}

  std::optional<Rotation> find(OpId loop, int64_t registers) {
    found_ = {};
    found_.loop = loop;
    body_ = fn_.region(loop);
    const auto step = fn_.constantInt(fn_.operand(loop, 2));
    const bool rises = step && *step > 0 && !fn_.getBool(loop, Attr::stop);
    if (!rises || !findDots() || !isLate() || !findSlots() || !fits(registers)) {
      return std::nullopt;
    }
    return found_;
  }

private:
  // Two dots of the unit that reads by itself, nobody else that reads slots, no place where warps meet.
  bool findDots() {
    for (const OpId op : fn_.walk(body_)) {
      const Opcode opcode = fn_.opcode(op);
      const Effects effects = fn_.ownEffects(op);
      const bool isDot = opcode == Opcode::Dot;
      const bool touches = effects.has(Effects::WritesBuffer) || effects.has(Effects::ReadsBuffer);
      if (isLoop(opcode) || meetsInside(fn_, op) || effects.has(Effects::Synchronises) || (touches && !isDot && !isSlotOp(op))) {
        return false;
      }
      if (isDot) {
        const bool fits = fn_.block(op) == body_ && !startsDot(fn_, op) && readsByItself(unitOf(fn_, op, target_));
        if (!fits || found_.late.valid()) {
          return false;
        }
        (found_.early.valid() ? found_.late : found_.early) = op;
      } else if (isSlotOp(op) && fn_.block(op) != body_) {
        return false;
      }
    }
    return found_.late.valid();
  }

  // It can stand further down, and twice.
  [[nodiscard]] bool isPure(OpId op) const {
    const Effects effects = fn_.effects(op);
    return effects.removable() && !effects.reads();
  }

  [[nodiscard]] bool isSlotOp(OpId op) const {
    return fn_.opcode(op) == Opcode::ArrivalsWait || fn_.opcode(op) == Opcode::Arrive;
  }

  // The late dot's sums go to the next iteration alone, it is fed by the early one, and that one needs no sums.
  bool isLate() {
    const OpId late = found_.late;
    const ValueId sums = fn_.result(late);
    if (fn_.uses(sums).size() != 1 || fn_.uses(sums)[0].op != fn_.last(body_) || !fn_.type(fn_.operand(late, 0)).isTile() ||
        (fn_.hasAttr(late, Attr::behind) && fn_.getInt(late, Attr::behind) == 0)) {
      return false;
    }
    found_.carried = fn_.uses(sums)[0].operand;
    found_.behind = dependents(fn_.arg(body_, 1 + found_.carried));
    const std::set<OpId> fed = dependents(fn_.result(found_.early));
    const auto pure = [&](OpId op) {
      return op == late || isPure(op);
    };
    const OpId operand = fn_.def(fn_.operand(late, 0));
    const ValueId acc = fn_.operand(late, 2);
    const bool accIsCarried = acc == fn_.arg(body_, 1 + found_.carried) || found_.behind.contains(fn_.def(acc));
    return operand.valid() && fed.contains(operand) && !found_.behind.contains(operand) && accIsCarried &&
           !found_.behind.contains(found_.early) && std::ranges::all_of(found_.behind, pure);
  }

  // Ops of the body's own list that need the value.
  [[nodiscard]] std::set<OpId> dependents(ValueId value) const {
    std::set<uint32_t> values = {value.index};
    std::set<OpId> ops;
    for (const OpId op : fn_.opsIn(body_)) {
      const auto uses = [&](OpId user) {
        return std::ranges::any_of(fn_.operands(user), [&](ValueId operand) { return values.contains(operand.index); });
      };
      bool any = uses(op);
      for (const BlockId region : fn_.regions(op)) {
        any = any || std::ranges::any_of(fn_.walk(region), uses);
      }
      if (any) {
        ops.insert(op);
        for (const ValueId result : fn_.results(op)) {
          values.insert(result.index);
        }
      }
    }
    ops.erase(fn_.last(body_));
    return ops;
  }

  // Waits between the dots are for what the late one reads, since nobody else reads slots; it frees what is freed behind it.
  bool findSlots() {
    enum class Part : uint8_t { Front, Between, Behind } part = Part::Front;
    for (const OpId op : fn_.opsIn(body_)) {
      part = op == found_.early ? Part::Between : op == found_.late ? Part::Behind : part;
      if (fn_.opcode(op) == Opcode::ArrivalsWait && part != Part::Front) {
        found_.waits.push_back(op);
      } else if (fn_.opcode(op) == Opcode::Arrive && part == Part::Behind) {
        found_.arrives.push_back(op);
      }
    }
    std::set<unsigned> args;
    bool known = addArgs(fn_.operand(found_.late, 1), args);
    for (const auto *ops : {&found_.waits, &found_.arrives}) {
      for (const OpId op : *ops) {
        known = known && std::ranges::all_of(fn_.operands(op), [&](ValueId operand) { return addArgs(operand, args); });
      }
    }
    found_.before.assign(args.begin(), args.end());
    return known && !found_.arrives.empty();
  }

  // The arguments of the body that the value follows from by numbers and views of buffers; false: by something else.
  [[nodiscard]] bool addArgs(ValueId value, std::set<unsigned> &args) const {
    if (fn_.isDefinedOutside(value, body_)) {
      return true;
    }
    if (fn_.type(value).isTile()) {
      return false;
    }
    if (fn_.isArg(value)) {
      args.insert(fn_.defIndex(value));
      return true;
    }
    const OpId op = fn_.def(value);
    return isPure(op) && fn_.regions(op).empty() &&
           std::ranges::all_of(fn_.operands(op), [&](ValueId operand) { return addArgs(operand, args); });
  }

  // Registers of a thread: both dots' sums, the operand that waits, and what threads need beside.
  [[nodiscard]] bool fits(int64_t registers) const {
    constexpr int64_t kBeside = 48;
    const auto words = [&](ValueId tile) {
      const Type type = fn_.type(tile);
      return fn_.layout(type.layout()).size(ir::HwDim::Reg) * int64_t{type.elementBytes()} / 4;
    };
    return words(fn_.result(found_.early)) + words(fn_.result(found_.late)) + words(fn_.operand(found_.late, 0)) + kBeside <= registers;
  }

  const ir::Function &fn_;
  const ir::Target &target_;
  BlockId body_;
  Rotation found_;
};

class Rotator {
public:
  Rotator(ir::Function &fn, const Rotation &rotation)
      : fn_(fn), r_(rotation), body_(fn.region(rotation.loop)), end_(fn.last(body_)) {}

  void run() {
    Builder before(fn_, r_.loop);
    std::vector<Type> types;
    for (const ValueId result : fn_.results(r_.loop)) {
      types.push_back(fn_.type(result));
    }
    const OpId branch = before.op(Opcode::If, std::array{any(before)}, types);
    Builder then(fn_, fn_.region(branch, 0)), otherwise(fn_, fn_.region(branch, 1));
    then.loc = otherwise.loc = before.loc;
    makeFirst(then);
    makeLoop(then);
    makeLast(then);
    otherwise.yield(fn_.operands(r_.loop).subspan(kBounds));
    for (unsigned i = 0; i < types.size(); ++i) {
      fn_.replaceAllUses(fn_.result(r_.loop, i), fn_.result(branch, i));
    }
    fn_.erase(r_.loop);
  }

private:
  using Map = ir::IndexMap<ValueId, ValueId>;

  [[nodiscard]] ValueId low() const { return fn_.operand(r_.loop, 0); }
  [[nodiscard]] ValueId high() const { return fn_.operand(r_.loop, 1); }
  [[nodiscard]] ValueId step() const { return fn_.operand(r_.loop, 2); }
  [[nodiscard]] static ValueId mapped(const Map &map, ValueId value) { return map[value].valid() ? map[value] : value; }

  ValueId any(Builder &builder) {
    return builder.cmp(fn_.getBool(r_.loop, Attr::is_unsigned) ? CmpPred::ult : CmpPred::slt, low(), high());
  }

  [[nodiscard]] bool isLate(OpId op) const {
    return op == r_.late || op == end_ || std::ranges::count(r_.waits, op) != 0 || std::ranges::count(r_.arrives, op) != 0;
  }

  void copy(Builder &builder, OpId op, Map &map) { builder.insert(fn_.copyOp(op, map)); }

  // The first iteration, but for the late dot.
  void makeFirst(Builder &builder) {
    first_.set(fn_.arg(body_, 0), low());
    for (unsigned i = kBounds; i < fn_.numOperands(r_.loop); ++i) {
      first_.set(fn_.arg(body_, i - kBounds + 1), fn_.operand(r_.loop, i));
    }
    for (const OpId op : fn_.opsIn(body_)) {
      if (!isLate(op)) {
        copy(builder, op, first_);
      }
    }
  }

  // What an iteration hands to the next one; for the late dot its operand and its sums, and what its slots follow from.
  [[nodiscard]] std::vector<ValueId> handedOn(const Map &map) const {
    std::vector<ValueId> values;
    for (const ValueId value : fn_.operands(end_)) {
      values.push_back(mapped(map, value));
    }
    values[r_.carried] = mapped(map, fn_.operand(r_.late, 2));
    values.push_back(mapped(map, fn_.operand(r_.late, 0)));
    for (const unsigned arg : r_.before) {
      values.push_back(mapped(map, fn_.arg(body_, arg)));
    }
    return values;
  }

  // The second iteration's index, without overflow.
  ValueId second(Builder &builder) {
    const ValueId left = builder.make(Opcode::Sub, {high(), low()});
    const ValueId next = builder.make(Opcode::Add, {low(), step()});
    return builder.make(Opcode::Select, {builder.cmp(CmpPred::ugt, left, step()), next, high()});
  }

  void makeLoop(Builder &builder) {
    std::vector<ValueId> operands = {second(builder), high(), step()};
    const std::vector<ValueId> inits = handedOn(first_);
    operands.insert(operands.end(), inits.begin(), inits.end());
    std::vector<Type> types;
    for (const ValueId init : inits) {
      types.push_back(fn_.type(init));
    }
    loop_ = builder.op(Opcode::For, operands, types);
    fn_.copyAttrs(r_.loop, loop_);
    const BlockId body = fn_.region(loop_);
    Map map;
    map.set(fn_.arg(body_, 0), fn_.addArg(body, fn_.type(low())));
    std::vector<ValueId> carried;
    for (unsigned i = 0; i < types.size(); ++i) {
      carried.push_back(fn_.addArg(body, types[i]));
      if (i < fn_.args(body_).size() - 1) {
        map.set(fn_.arg(body_, 1 + i), carried.back());
      }
    }
    Builder inside(fn_, body);
    inside.loc = builder.loc;
    makeBody(inside, map, carried);
  }

  void makeBody(Builder &builder, Map &map, std::span<const ValueId> carried) {
    Map late = lateMap(carried);
    ValueId sums;
    for (const OpId op : fn_.opsIn(body_)) {
      if (op == r_.early) {
        const ValueId place = builder.make(Opcode::PlaceWrite, {carried[r_.carried]}, placeLike(r_.late));
        const ValueId start = builder.make(Opcode::PlaceWrite, {mapped(map, fn_.operand(op, 2))}, placeLike(op));
        const ValueId begun = startDot(builder, op, map, start);
        copyLate(builder, r_.waits, late);
        copySlice(builder, fn_.operand(r_.late, 1), late);
        sums = startDot(builder, r_.late, late, place);
        wait(builder, 1);
        map.set(fn_.result(op), builder.make(Opcode::PlaceRead, {begun}, fn_.type(fn_.result(op))));
      } else if (!isLate(op) && !r_.behind.contains(op)) {
        copy(builder, op, map);
      }
    }
    // ptxas moves a wait for the unit up to the first instruction of its basic block. One that has begun by then, and
    // has ended long ago, begins a block of its own behind the threads' work.
    copyLate(builder, r_.waits, late);
    wait(builder, 0);
    map.set(fn_.arg(body_, 1 + r_.carried), builder.make(Opcode::PlaceRead, {sums}, fn_.type(fn_.result(r_.late))));
    copyLate(builder, r_.arrives, late);
    for (const OpId op : fn_.opsIn(body_)) {
      if (r_.behind.contains(op) && !isLate(op)) {
        copy(builder, op, map);
      }
    }
    builder.yield(handedOn(map));
  }

  // The late dot of the last iteration, and what the loop gives.
  void makeLast(Builder &builder) {
    const std::span<const ValueId> results = fn_.results(loop_);
    std::vector<ValueId> yielded(results.begin(), results.begin() + fn_.results(r_.loop).size());
    Map late = lateMap(results);
    copyLate(builder, r_.waits, late);
    copySlice(builder, fn_.operand(r_.late, 1), late);
    copy(builder, r_.late, late);
    yielded[r_.carried] = mapped(late, fn_.result(r_.late));
    copyLate(builder, r_.arrives, late);
    builder.yield(yielded);
  }

  // Of the iteration before, from what the loop carries or gives.
  [[nodiscard]] Map lateMap(std::span<const ValueId> carried) const {
    Map map;
    const size_t own = fn_.results(r_.loop).size();
    map.set(fn_.operand(r_.late, 2), carried[r_.carried]);
    map.set(fn_.operand(r_.late, 0), carried[own]);
    for (size_t i = 0; i < r_.before.size(); ++i) {
      map.set(fn_.arg(body_, r_.before[i]), carried[own + 1 + i]);
    }
    return map;
  }

  void copyLate(Builder &builder, const std::vector<OpId> &ops, Map &map) {
    for (const OpId op : ops) {
      for (const ValueId operand : fn_.operands(op)) {
        copySlice(builder, operand, map);
      }
      copy(builder, op, map);
    }
  }

  void copySlice(Builder &builder, ValueId value, Map &map) {
    if (map[value].valid() || fn_.isDefinedOutside(value, body_)) {
      return;
    }
    const OpId op = fn_.def(value);
    for (const ValueId operand : fn_.operands(op)) {
      copySlice(builder, operand, map);
    }
    copy(builder, op, map);
  }

  [[nodiscard]] Type placeLike(OpId dot) const {
    const Type tile = fn_.type(fn_.result(dot));
    return Type::place(tile.shape(), tile.elem(), tile.layout());
  }

  ValueId startDot(Builder &builder, OpId dot, Map &map, ValueId place) {
    const OpId copied = fn_.copyOp(dot, map);
    fn_.setOperand(copied, 2, place);
    fn_.setType(fn_.result(copied), fn_.type(place));
    builder.insert(copied);
    return fn_.result(copied);
  }

  void wait(Builder &builder, int64_t count) {
    fn_.setAttr(builder.op(Opcode::DotWait, {}), Attr::count, ir::AttrValue(count));
  }

  ir::Function &fn_;
  const Rotation &r_;
  const BlockId body_;
  const OpId end_;
  OpId loop_;
  Map first_; // values of the body in the first iteration
};

} // namespace

bool rotateDots(ir::Function &fn, const PassContext &context) {
  bool rotated = false;
  for (const OpId producer : fn.opsIn(fn.body())) {
    if (fn.opcode(producer) != Opcode::Producer) {
      continue;
    }
    const int64_t registers = fn.getInts(producer, Attr::registers)[1];
    for (const OpId op : fn.walk()) {
      if (fn.opcode(op) != Opcode::For || producerAround(fn, op).valid()) {
        continue;
      }
      if (const auto rotation = Finder(fn, context.target).find(op, registers)) {
        Rotator(fn, *rotation).run();
        rotated = true;
      }
    }
  }
  return rotated;
}

} // namespace libtile::passes
