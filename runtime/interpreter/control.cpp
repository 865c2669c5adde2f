// SPDX-License-Identifier: Apache-2.0
// Programs, blocks, and the switch over all ops. A value is freed behind its last use, so that a launch needs no
// more memory than what is alive.
#include "runtime/interpreter/evaluator.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>

namespace libtile::runtime::interpreter {

using ir::Attr;
using ir::BlockId;
using ir::Opcode;
using ir::OpId;
using ir::ValueId;

namespace {

// How often the clock is read, and the caller asked.
constexpr uint64_t kElementsBetweenLooks = 20'000, kNanosecondsBetweenPolls = 50'000'000;

std::atomic<bool> &checksPortability() {
  static std::atomic<bool> checks = [] {
    const char *given = std::getenv("LIBTILE_INTERPRETER_PORTABLE");
    return given == nullptr || std::string_view(given) != "0";
  }();
  return checks;
}

uint64_t nanoseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

} // namespace

bool isPortabilityChecked() { return checksPortability().load(std::memory_order_relaxed); }
void checkPortability(bool wanted) { checksPortability().store(wanted, std::memory_order_relaxed); }

Outcome run(const Launch &launch) {
  try {
    Evaluator(launch).run();
  } catch (Finding &finding) {
    return {std::move(finding), false};
  } catch (const Evaluator::Interrupted &) {
    return {std::nullopt, true};
  }
  return {};
}

Evaluator::Evaluator(const Launch &launch) : launch_(launch), fn_(launch.fn) {
  findLastUses();
  prepareCounting();
}

// Of a value that is used inside of an op's regions, that op is the user.
void Evaluator::findLastUses() {
  ir::IndexMap<OpId, uint32_t> position;
  const std::vector<OpId> all = fn_.walk();
  for (uint32_t i = 0; i < all.size(); ++i) {
    position.set(all[i], i);
  }
  const auto note = [&](ValueId value, OpId last) {
    const BlockId home = fn_.defBlock(value);
    for (const ir::Use &use : fn_.uses(value)) {
      OpId user = use.op;
      while (fn_.block(user) != home) {
        user = fn_.parentOp(fn_.block(user));
      }
      last = !last.valid() || position[last] < position[user] ? user : last;
    }
    if (last.valid()) {
      dead_.at(last).push_back(value);
    }
  };
  for (const OpId op : all) {
    for (const ValueId result : fn_.results(op)) {
      note(result, op);
    }
    for (const BlockId region : fn_.regions(op)) {
      for (const ValueId arg : fn_.args(region)) {
        note(arg, {});
      }
    }
  }
}

void Evaluator::run() {
  uint32_t number = 0;
  for (program_[2] = 0; program_[2] < launch_.grid[2]; ++program_[2]) {
    for (program_[1] = 0; program_[1] < launch_.grid[1]; ++program_[1]) {
      for (program_[0] = 0; program_[0] < launch_.grid[0]; ++program_[0]) {
        if (number++ % stride_ == 0) {
          runProgram(number - 1);
        }
      }
    }
  }
}

void Evaluator::runProgram(uint32_t number) {
  races_.beginProgram(number);
  if (work_ != nullptr) {
    ++work_->programs;
  }
  for (unsigned i = 0; i < fn_.params.size(); ++i) {
    const ValueId param = fn_.arg(fn_.body(), i);
    const ir::Type &type = fn_.type(param);
    Value value{{readElement(type, &launch_.arguments[i])}};
    if (type.isPointer()) {
      value.origins = {i + 1};
    }
    values_.set(param, std::move(value));
  }
  runBlock(fn_.body());
}

Evaluator::Values Evaluator::runBlock(BlockId block) {
  Values yielded;
  for (OpId op = fn_.first(block); op.valid(); op = fn_.next(op)) {
    if (fn_.opInfo(op).isTerminator()) {
      for (const ValueId value : fn_.operands(op)) {
        yielded.push_back(of(value));
      }
    } else {
      runOp(op);
    }
    for (const ValueId value : dead_[op]) {
      values_.set(value, {});
    }
  }
  return yielded;
}

void Evaluator::attend(uint64_t elements) {
  looked_ += elements;
  if (looked_ < kElementsBetweenLooks) {
    return;
  }
  looked_ = 0;
  const Caller &caller = launch_.caller;
  const uint64_t now = nanoseconds();
  if (polledAt_ == 0) {
    polledAt_ = now;
    if (caller.lasts != nullptr) {
      caller.lasts(caller.context);
    }
  }
  if (now - polledAt_ >= kNanosecondsBetweenPolls) {
    polledAt_ = now;
    if (caller.isInterrupted != nullptr && caller.isInterrupted(caller.context) != 0) {
      throw Interrupted();
    }
  }
}

size_t Evaluator::count(OpId op) const {
  size_t count = 1;
  for (const ValueId value : fn_.operands(op)) {
    count = std::max(count, of(value).size());
  }
  return count;
}

void Evaluator::defineAll(OpId op, Values values) {
  for (unsigned i = 0; i < values.size(); ++i) {
    values_.set(fn_.result(op, i), std::move(values[i]));
  }
}

bool Evaluator::decide(OpId op, const Value &value) {
  requireDefined(op, "a branch depends on", value, 0);
  return value[0] != 0;
}

void Evaluator::runIf(OpId op) {
  defineAll(op, runBlock(fn_.region(op, decide(op, operand(op, 0)) ? 0 : 1)));
}

void Evaluator::runFor(OpId op) {
  const BlockId body = fn_.region(op);
  const unsigned width = fn_.type(fn_.operand(op, 0)).elementBits();
  const bool isUnsigned = fn_.getBool(op, Attr::is_unsigned), stops = fn_.getBool(op, Attr::stop);
  const auto bound = [&](unsigned i) -> __int128 {
    requireDefined(op, "a loop's bounds depend on", operand(op, i), 0);
    const uint64_t bits = operand(op, i)[0];
    return isUnsigned ? __int128{lowBits(width, bits)} : __int128{static_cast<int64_t>(bits)};
  };
  const __int128 low = bound(0), high = bound(1);
  const __int128 step = isUnsigned ? __int128{lowBits(width, operand(op, 2)[0])} : bound(2);
  Values carried;
  for (unsigned i = 3; i < fn_.numOperands(op); ++i) {
    carried.push_back(operand(op, i));
  }
  bool stop = false;
  for (__int128 index = low; !stop && (step > 0 ? index < high : index > high); index += step) {
    attend(1);
    values_.set(fn_.arg(body, 0), {{wrapped(width, static_cast<uint64_t>(index))}});
    for (unsigned i = 0; i < carried.size(); ++i) {
      values_.set(fn_.arg(body, i + 1), std::move(carried[i]));
    }
    carried = runBlock(body);
    if (stops) {
      stop = decide(op, carried[0]);
      carried.erase(carried.begin());
    }
  }
  defineAll(op, std::move(carried));
}

void Evaluator::runWhile(OpId op) {
  const BlockId cond = fn_.region(op, 0), body = fn_.region(op, 1);
  const bool stops = fn_.getBool(op, Attr::stop);
  Values carried;
  for (const ValueId init : fn_.operands(op)) {
    carried.push_back(of(init));
  }
  for (bool stop = false; !stop;) {
    attend(1);
    const auto enter = [&](BlockId region) {
      for (unsigned i = 0; i < carried.size(); ++i) {
        values_.set(fn_.arg(region, i), carried[i]);
      }
      return runBlock(region);
    };
    if (!decide(op, enter(cond)[0])) {
      break;
    }
    carried = enter(body);
    if (stops) {
      stop = decide(op, carried[0]);
      carried.erase(carried.begin());
    }
  }
  defineAll(op, std::move(carried));
}

// No `default`: an op of ops.def without a case here does not build.
void Evaluator::runOp(OpId op) {
  if (fn_.results(op).size() == 1) {
    attend(static_cast<uint64_t>(fn_.type(fn_.result(op)).numElements()));
  }
  switch (fn_.opcode(op)) {
#define OP(...)
#define ELEMENTWISE(Name, ...) case Opcode::Name:
#include "ir/ops.def"
    return define(op, elementwise(op));
  case Opcode::Constant: return define(op, constant(op));
  case Opcode::ProgramId: return define(op, {{static_cast<uint64_t>(program_[fn_.getInt(op, Attr::axis)])}});
  case Opcode::NumPrograms:
    return define(op, {{static_cast<uint64_t>(launch_.grid[fn_.getInt(op, Attr::axis)])}});
  case Opcode::Arange: return define(op, arange(op));
  case Opcode::Splat: case Opcode::Broadcast: case Opcode::ExpandDims: case Opcode::Reshape:
  case Opcode::Trans: case Opcode::Slice:
    return define(op, moved(op));
  case Opcode::Hint: return runHint(op);
  case Opcode::Assume: return runAssume(op);
  case Opcode::Print: return runPrint(op);
  case Opcode::Assert: return runAssert(op);
  case Opcode::Load: return runLoad(op);
  case Opcode::Store: return runStore(op);
  case Opcode::AtomicRmw: return runAtomicRmw(op);
  case Opcode::AtomicCas: return runAtomicCas(op);
  case Opcode::Clock: return define(op, {{nanoseconds()}});
  case Opcode::Dot: return define(op, dot(op));
  case Opcode::Reduce: return runReduce(op);
  case Opcode::Gather: return define(op, gather(op));
  case Opcode::Histogram: return define(op, histogram(op));
  case Opcode::Map: return runMap(op);
  case Opcode::Scan: return runScan(op);
  case Opcode::Sort: return define(op, sort(op));
  case Opcode::For: return runFor(op);
  case Opcode::While: return runWhile(op);
  case Opcode::If: return runIf(op);
  case Opcode::Yield: case Opcode::Return: return;
  case Opcode::GridWait: case Opcode::LaunchDependents: return; // one launch has ended before the next one starts
  case Opcode::Assembly:
    throw ir::Unsupported("the interpreter does not run inline assembly", fn_.locationOf(op));
  case Opcode::Hold: case Opcode::ConvertLayout: case Opcode::Resize: case Opcode::CompareExchange: case Opcode::Alloc:
  case Opcode::BufferSlot: case Opcode::Recall: case Opcode::CallSums: case Opcode::BufferRead: case Opcode::BufferWrite: case Opcode::BufferGather:
  case Opcode::BufferCount: case Opcode::AsyncCopy: case Opcode::AsyncCommit: case Opcode::AsyncWait:
  case Opcode::ArrivalsInit: case Opcode::CopyBox: case Opcode::StoreBox: case Opcode::StoreWait: case Opcode::ArrivalsWait: case Opcode::Arrive: case Opcode::ArrivalsEnd:
  case Opcode::Producer: case Opcode::BeginTurns: case Opcode::TakeTurn: case Opcode::GiveTurn: case Opcode::PlaceWrite: case Opcode::PlaceRead: case Opcode::DotWait:
  case Opcode::Worker: case Opcode::NumWorkers: case Opcode::Barrier: case Opcode::Nest: case Opcode::Fold: case Opcode::Prefix: case Opcode::SortRows:
  case Opcode::ClusterBarrier: case Opcode::ClusterSize: case Opcode::LeastOfRows: case Opcode::TransposeWords: case Opcode::ElementRead: case Opcode::ElementWrite: case Opcode::Contract:
    throw ir::InternalError("an op of a later stage", fn_.locationOf(op));
  }
}

} // namespace libtile::runtime::interpreter
