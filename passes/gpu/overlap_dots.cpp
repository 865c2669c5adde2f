// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/overlap_dots.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/gpu/allocate_shared.h"
#include "passes/gpu/carry_place.h"
#include "passes/gpu/live_tiles.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/plan_dots.h"
#include "passes/gpu/shared_accesses.h"
#include "passes/op_properties.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::BlockId;
using ir::Builder;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

// Where dots end: all but the last `count` of those that have started, in front of an op.
struct End {
  OpId before;
  std::vector<OpId> dots;
  int64_t count;
};

struct Schedule {
  std::vector<OpId> order;                         // of the body's ops
  std::vector<OpId> dots;                          // in that order
  std::vector<End> ends;                           // in that order
  std::map<OpId, std::set<OpId>> dotsBeforeArrive; // in the order of the text
};

class Scheduler {
public:
  Scheduler(const ir::Function &fn, OpId loop, const ir::Target &target)
      : fn_(fn), target_(target), body_(fn.region(loop)) {
    made_.order = fn.opsIn(body_);
  }

  std::optional<Schedule> run(int64_t registers) {
    if (!findDots()) {
      return std::nullopt;
    }
    // Beside these a thread has addresses and what its work needs; more of that while two dots are under way as it begins.
    constexpr int64_t kBeside = 32, kBesideEarly = 40;
    if (held() + kBeside > registers) {
      return std::nullopt;
    }
    for (const OpId dot : std::vector(made_.dots)) {
      if (held() + kBesideEarly <= registers) {
        startEarly(dot);
      }
    }
    for (const OpId dot : std::vector(made_.dots)) {
      startLater(dot);
    }
    std::ranges::sort(made_.dots, {}, [&](OpId dot) { return positionOf(dot); });
    return endDots() ? std::optional(std::move(made_)) : std::nullopt;
  }

private:
  // All of the unit that reads by itself, into sums that are there before the first one starts.
  bool findDots() {
    for (const OpId op : made_.order) {
      if (fn_.opcode(op) == Opcode::Arrive) {
        made_.dotsBeforeArrive[op].insert(made_.dots.begin(), made_.dots.end());
      }
      if (byItself(op)) {
        if (!mayGoOn(op)) {
          return false;
        }
        made_.dots.push_back(op);
      }
      for (const BlockId region : fn_.regions(op)) {
        const auto ops = fn_.walk(region);
        if (isLoop(fn_.opcode(op)) || std::ranges::any_of(ops, [&](OpId inner) { return byItself(inner) || isSlotOp(inner); })) {
          return false;
        }
      }
    }
    return made_.dots.size() >= 2;
  }

  [[nodiscard]] bool byItself(OpId op) const {
    return fn_.opcode(op) == Opcode::Dot && readsByItself(unitOf(fn_, op, target_));
  }
  [[nodiscard]] bool isSlotOp(OpId op) const {
    const Opcode opcode = fn_.opcode(op);
    return opcode == Opcode::ArrivalsWait || opcode == Opcode::Arrive || opcode == Opcode::CopyBox || opcode == Opcode::AsyncCopy;
  }
  [[nodiscard]] bool mayGoOn(OpId dot) const {
    const ValueId acc = fn_.operand(dot, 2);
    const bool isThere = fn_.isDefinedOutside(acc, body_) || fn_.isArg(acc);
    return isThere && !startsDot(fn_, dot) && !fn_.hasAttr(dot, Attr::behind);
  }

  [[nodiscard]] size_t positionOf(OpId op) const {
    return static_cast<size_t>(std::ranges::find(made_.order, op) - made_.order.begin());
  }
  [[nodiscard]] bool isDot(OpId op) const { return std::ranges::find(made_.dots, op) != made_.dots.end(); }

  // What threads do that takes them time.
  [[nodiscard]] bool isWork(OpId op) const {
    constexpr std::array kNames = {Opcode::Constant, Opcode::Splat,  Opcode::Arange, Opcode::ExpandDims,
                                   Opcode::Broadcast, Opcode::Trans, Opcode::PtrAdd};
    const auto isTile = [&](ValueId value) { return fn_.type(value).isTile(); };
    return std::ranges::find(kNames, fn_.opcode(op)) == kNames.end() && !isDot(op) &&
           (std::ranges::any_of(fn_.operands(op), isTile) || std::ranges::any_of(fn_.results(op), isTile));
  }

  [[nodiscard]] std::set<OpId> buffersOf(OpId dot) const {
    std::set<OpId> buffers;
    for (const SharedAccess &access : sharedAccesses(fn_, dot)) {
      buffers.insert(access.owner);
    }
    return buffers;
  }
  [[nodiscard]] bool writes(OpId op, const std::set<OpId> &buffers) const {
    const auto writesOne = [&](OpId each) {
      return std::ranges::any_of(sharedAccesses(fn_, each), [&](const SharedAccess &access) { return access.write && buffers.contains(access.owner); });
    };
    return writesOne(op) || std::ranges::any_of(fn_.regions(op), [&](BlockId region) { return std::ranges::any_of(fn_.walk(region), writesOne); });
  }
  [[nodiscard]] bool uses(OpId op, ValueId value) const {
    return std::ranges::any_of(fn_.uses(value), [&](ir::Use use) {
      return use.op == op || std::ranges::any_of(fn_.regions(op), [&](BlockId region) { return fn_.isInside(fn_.block(use.op), region); });
    });
  }

  // Behind the first dot between which and this one no thread's work is needed, together with what is needed.
  void startEarly(OpId dot) {
    const std::set<OpId> buffers = buffersOf(dot);
    std::vector<OpId> moved = {dot}; // the last one first
    std::vector<OpId> movedToBest;
    OpId best;
    bool passedWork = false;
    for (size_t i = positionOf(dot); i-- > 0;) {
      const OpId op = made_.order[i];
      const bool isNeeded = std::ranges::any_of(fn_.results(op), [&](ValueId result) {
        return std::ranges::any_of(moved, [&](OpId each) { return uses(each, result); });
      });
      if (isDot(op) && !isNeeded) {
        if (passedWork) {
          best = op;
          movedToBest = moved;
        }
      } else if (isNeeded || fn_.opcode(op) == Opcode::ArrivalsWait) {
        if (isWork(op) || isDot(op) || (!fn_.effects(op).pure() && fn_.opcode(op) != Opcode::ArrivalsWait)) {
          break;
        }
        moved.push_back(op);
      } else if (writes(op, buffers) || fn_.opcode(op) == Opcode::AsyncWait || fn_.opcode(op) == Opcode::Barrier) {
        break;
      }
      passedWork |= isWork(op);
    }
    if (best.valid()) {
      for (const OpId op : movedToBest) {
        moveBehind(op, best);
      }
    }
  }

  // Registers of a thread for the sums that the loop carries, for two others at once, and for the operand of a dot under way.
  [[nodiscard]] int64_t held() const {
    const auto words = [&](ValueId tile) {
      const Type type = fn_.type(tile);
      return type.isTile() ? fn_.layout(type.layout()).size(ir::HwDim::Reg) * int64_t{type.elementBytes()} / 4 : 0;
    };
    int64_t carried = 0, operand = 0;
    std::vector<int64_t> others = {0, 0};
    for (const OpId dot : made_.dots) {
      (isCarried(dot) ? carried : others.emplace_back()) += words(fn_.result(dot));
      operand = std::max(operand, words(fn_.operand(dot, 0)));
    }
    std::ranges::sort(others, std::greater());
    return carried + others[0] + others[1] + operand;
  }
  // The loop hands its sums on, and nobody else looks at them.
  [[nodiscard]] bool isCarried(OpId dot) const {
    const auto users = fn_.uses(fn_.result(dot));
    return users.size() == 1 && users[0].op == fn_.last(body_);
  }

  // Behind the next dot, if somebody waits for that one and stands close to it.
  void startLater(OpId dot) {
    if (!isCarried(dot)) {
      return;
    }
    const std::set<OpId> buffers = buffersOf(dot);
    for (size_t i = positionOf(dot) + 1; i < made_.order.size(); ++i) {
      const OpId op = made_.order[i];
      if (isDot(op)) {
        if (!isCarried(op)) {
          moveBehind(dot, op);
        }
        return;
      }
      if (writes(op, buffers) || (isWork(op) && fn_.opcode(op) != Opcode::BufferWrite)) {
        return;
      }
    }
  }

  void moveBehind(OpId op, OpId place) {
    std::erase(made_.order, op);
    made_.order.insert(made_.order.begin() + static_cast<std::ptrdiff_t>(positionOf(place) + 1), op);
  }

  // False: nothing stands between a dot and its end.
  bool endDots() {
    std::vector<OpId> underWay;
    bool hides = false;
    for (const OpId op : made_.order) {
      size_t ended = 0;
      for (size_t i = 0; i < underWay.size(); ++i) {
        const bool ends = op == fn_.last(body_) || uses(op, fn_.result(underWay[i])) || writes(op, buffersOf(underWay[i]));
        ended = ends ? i + 1 : ended;
      }
      const auto middle = underWay.begin() + static_cast<std::ptrdiff_t>(ended);
      if (ended > 0) {
        made_.ends.push_back({op, {underWay.begin(), middle}, static_cast<int64_t>(underWay.size() - ended)});
        underWay.erase(underWay.begin(), middle);
      }
      hides = hides || (!underWay.empty() && (isWork(op) || isDot(op)));
      if (isDot(op)) {
        underWay.push_back(op);
      }
    }
    return hides;
  }

  const ir::Function &fn_;
  const ir::Target &target_;
  const BlockId body_;
  Schedule made_;
};

class ScheduleRewriter {
public:
  ScheduleRewriter(ir::Function &fn, const Schedule &schedule) : fn_(fn), s_(schedule) {}

  void run() {
    const OpId end = s_.order.back();
    for (const OpId op : s_.order) {
      if (op != end) {
        fn_.unlink(op);
        fn_.insertBefore(end, op);
      }
    }
    // The assembler lets no dot be under way while sums of another one are written.
    Builder front(fn_, s_.dots.front());
    for (const OpId dot : s_.dots) {
      start(front, dot);
    }
    for (const End &each : s_.ends) {
      wait(each);
    }
    moveArrives();
  }

private:
  void start(Builder &front, OpId dot) {
    if (carriesSums(fn_, dot)) {
      const OpId loop = fn_.parentOp(fn_.block(dot));
      Builder before(fn_, loop), after(fn_, fn_.next(loop));
      return carryPlace(fn_, dot, before, after);
    }
    const Type sums = fn_.type(fn_.result(dot));
    front.loc = fn_.loc(dot);
    const ValueId place = front.make(Opcode::PlaceWrite, {fn_.operand(dot, 2)}, Type::place(sums.shape(), sums.elem(), sums.layout()));
    fn_.setOperand(dot, 2, place);
    fn_.setType(fn_.result(dot), fn_.type(place));
  }

  void wait(const End &end) {
    Builder builder(fn_, end.before);
    const OpId wait = builder.op(Opcode::DotWait, {});
    fn_.setAttr(wait, Attr::count, ir::AttrValue(end.count));
    last_ = wait;
    for (const OpId dot : end.dots) {
      const ValueId place = fn_.result(dot);
      if (fn_.isArg(fn_.operand(dot, 2))) {
        continue; // the loop carries it
      }
      const Type type = fn_.type(place);
      builder.loc = fn_.loc(dot);
      // The read itself takes the place's name last, so that it keeps its use of it.
      const OpId read = fn_.createOp(Opcode::PlaceRead, {}, std::array{Type::tile(type.shape(), type.element(), type.layout())}, builder.loc);
      fn_.replaceAllUses(place, fn_.result(read));
      fn_.addOperand(read, place);
      builder.insert(read);
      last_ = read;
    }
    behindEnd_.emplace_back(std::set<OpId>(end.dots.begin(), end.dots.end()), last_);
  }

  // Behind the ends of the dots that stood in front of it.
  void moveArrives() {
    for (const auto &[arrive, dots] : s_.dotsBeforeArrive) {
      std::set<OpId> left = dots;
      if (left.empty()) {
        continue;
      }
      for (const auto &[ended, last] : behindEnd_) {
        std::erase_if(left, [&](OpId dot) { return ended.contains(dot); });
        if (left.empty() && isInFront(arrive, last)) {
          fn_.unlink(arrive);
          fn_.insertAfter(last, arrive);
        }
        if (left.empty()) {
          break;
        }
      }
    }
  }
  [[nodiscard]] bool isInFront(OpId op, OpId other) const {
    for (OpId each = op; each.valid(); each = fn_.next(each)) {
      if (each == other) {
        return true;
      }
    }
    return false;
  }

  ir::Function &fn_;
  const Schedule &s_;
  OpId last_;
  std::vector<std::pair<std::set<OpId>, OpId>> behindEnd_; // of dots, and the last op of their end
};

} // namespace

bool overlapDots(ir::Function &fn, const PassContext &context) {
  const int64_t registers = threadRegisters(fn, context.target);
  std::optional<ir::Function> before;
  for (const OpId op : fn.walk()) {
    if (fn.opcode(op) != Opcode::For || producerAround(fn, op).valid()) {
      continue;
    }
    if (const auto schedule = Scheduler(fn, op, context.target).run(registers)) {
      before = before ? std::move(before) : std::optional(fn.clone());
      ScheduleRewriter(fn, *schedule).run();
    }
  }
  // What dots read lives until they have ended, and may have no room then.
  if (before && sharedBytes(fn) > context.target.sharedMemory) {
    fn = std::move(*before);
    return false;
  }
  return before.has_value();
}

} // namespace libtile::passes
