// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/propose_layouts.h"

#include "ir/ops.h"
#include "passes/gpu/access_layouts.h"
#include "passes/gpu/live_tiles.h"
#include "passes/gpu/plan_dots.h"
#include "passes/gpu/row_copies.h"
#include "passes/gpu/separate_accesses.h"
#include "passes/op_properties.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::BlockId;
using ir::Layout;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

// The lowest id of a set stands for it.
class UnionFind {
public:
  explicit UnionFind(uint32_t size) : parent_(size) {
    std::iota(parent_.begin(), parent_.end(), 0U);
  }
  uint32_t find(uint32_t x) {
    while (parent_[x] != x) {
      x = parent_[x] = parent_[parent_[x]];
    }
    return x;
  }
  void unite(uint32_t a, uint32_t b) {
    a = find(a), b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

private:
  std::vector<uint32_t> parent_;
};

class Components {
public:
  Components(const ir::Function &fn, const ir::IndexMap<OpId, bool> &across) : fn_(fn), across_(across), sets_(fn.numValues()) {
    const std::vector<OpId> ops = fn.walk();
    for (const OpId op : ops) {
      tie(op);
    }
    tieStores(ops);
  }
  uint32_t of(ValueId value) { return sets_.find(value.index); }

private:
  void unite(ValueId a, ValueId b) {
    if (fn_.type(a).isTile() && fn_.type(b).isTile()) {
      sets_.unite(a.index, b.index);
    }
  }
  void uniteAll(std::span<const ValueId> values) {
    for (size_t i = 1; i < values.size(); ++i) {
      unite(values[0], values[i]);
    }
  }
  void uniteEach(std::span<const ValueId> a, std::span<const ValueId> b) {
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      unite(a[i], b[i]);
    }
  }
  [[nodiscard]] std::span<const ValueId> yielded(BlockId block, bool stop) const {
    return fn_.operands(fn_.last(block)).subspan(stop ? 1 : 0);
  }

  void tie(OpId op) {
    const Opcode opcode = fn_.opcode(op);
    const auto operands = fn_.operands(op);
    const auto results = fn_.results(op);
    const bool stop = fn_.getBool(op, Attr::stop);
    if (ir::isElementwise(opcode) || opcode == Opcode::Load || opcode == Opcode::Hint ||
        opcode == Opcode::AtomicRmw || opcode == Opcode::AtomicCas) {
      uniteAll(operands);
      unite(operands[0], results[0]);
    } else if (fn_.opInfo(op).rule == ir::TypeRule::Map) {
      uniteAll(operands);
      uniteAll(results);
      uniteEach(operands, results.first(std::min<size_t>(operands.size(), 1)));
    } else if (opcode == Opcode::Gather) {
      unite(operands[1], results[0]);
    } else if (opcode == Opcode::Histogram) {
      uniteAll(operands);
    } else if (opcode == Opcode::Store && operands.size() > 2) {
      unite(operands[0], operands[2]);
    } else if (opcode == Opcode::Dot) {
      unite(operands[2], results[0]);
    } else if (opcode == Opcode::Reduce) {
      uniteAll(operands);
      uniteAll(results);
    } else if (opcode == Opcode::Scan) {
      uniteAll(operands);
      uniteEach(operands, results);
    } else if (opcode == Opcode::For) {
      uniteEach(operands.subspan(3), results);
      uniteEach(fn_.args(fn_.region(op)).subspan(1), results);
      uniteEach(yielded(fn_.region(op), stop), results);
    } else if (opcode == Opcode::While) {
      uniteEach(operands, results);
      uniteEach(fn_.args(fn_.region(op, 0)), results);
      uniteEach(fn_.args(fn_.region(op, 1)), results);
      uniteEach(yielded(fn_.region(op, 1), stop), results);
    } else if (opcode == Opcode::If) {
      uniteEach(yielded(fn_.region(op, 0), false), results);
      uniteEach(yielded(fn_.region(op, 1), false), results);
    }
  }

  // What is stored takes the layout of the access, unless a dot decides it or the store goes across.
  void tieStores(std::span<const OpId> ops) {
    std::vector<uint32_t> dots;
    for (const OpId op : ops) {
      if (fn_.opcode(op) == Opcode::Dot) {
        dots.push_back(fn_.result(op).index);
      }
    }
    for (const OpId op : ops) {
      if (fn_.opcode(op) != Opcode::Store) {
        continue;
      }
      const uint32_t value = sets_.find(fn_.operand(op, 1).index);
      const bool fixed = std::any_of(dots.begin(), dots.end(),
                                     [&](uint32_t dot) { return sets_.find(dot) == value; });
      if (!fixed && !across_[op]) {
        unite(fn_.operand(op, 0), fn_.operand(op, 1));
      }
    }
  }

  const ir::Function &fn_;
  const ir::IndexMap<OpId, bool> &across_;
  UnionFind sets_;
};

int32_t ceilPowerOfTwo(int64_t x) {
  return x < 1 ? 1 : static_cast<int32_t>(std::bit_ceil(static_cast<uint64_t>(x)));
}

// A reduction or scan, of which a thread, or else a warp, best has whole rows.
bool isAlongAxis(const ir::Function &fn, OpId op) {
  const Opcode opcode = fn.opcode(op);
  return (opcode == Opcode::Reduce || opcode == Opcode::Scan) &&
         fn.type(fn.operand(op, 0)).isTile();
}

// Bytes of an element as it lies in memory somewhere: the widest tile of numbers of the component.
int64_t tileBytes(const Type &type) { return type.numElements() * type.elementBytes(); }

class Proposer {
public:
  Proposer(const ir::Function &fn, const Facts &facts, const PassContext &context, int32_t warps)
      : fn_(fn), facts_(facts), context_(context), warps_(warps) {}

  LayoutProblem run() {
    const std::vector<OpId> ops = fn_.walk();
    for (const OpId op : ops) {
      if (goesAcross(fn_, facts_, op)) {
        problem_.across.set(op, true);
      }
    }
    Components components(fn_, problem_.across);
    const auto place = [&](ValueId value) {
      if (!fn_.type(value).isTile()) {
        return;
      }
      const ValueId root{components.of(value)};
      if (problem_.componentOf[root] < 0) {
        problem_.componentOf.set(root, static_cast<int32_t>(problem_.components.size()));
        problem_.components.emplace_back();
      }
      const int32_t index = problem_.componentOf[root];
      problem_.componentOf.set(value, index);
      problem_.components[static_cast<size_t>(index)].values.push_back(value);
    };
    for (const OpId op : ops) {
      for (const BlockId block : fn_.regions(op)) {
        std::for_each(fn_.args(block).begin(), fn_.args(block).end(), place);
      }
      std::for_each(fn_.results(op).begin(), fn_.results(op).end(), place);
    }
    for (const OpId op : ops) {
      if (isAlongAxis(fn_, op)) {
        reducedAxis_.set(componentIndex(fn_.operand(op, 0)),
                         static_cast<int32_t>(fn_.getInt(op, Attr::axis)));
      }
    }
    for (const OpId op : ops) {
      if (fn_.opcode(op) == Opcode::Dot) {
        proposeDot(op);
      }
    }
    for (const OpId op : ops) {
      propose(op);
    }
    for (const OpId op : ops) {
      if (fn_.opcode(op) == Opcode::For) {
        takeRows(fn_.region(op));
      }
    }
    return std::move(problem_);
  }

private:
  ir::Id<struct ComponentTag> componentIndex(ValueId value) const {
    return {static_cast<uint32_t>(problem_.componentOf[value])};
  }
  LayoutComponent &component(ValueId value) {
    return problem_.components[static_cast<size_t>(problem_.componentOf[value])];
  }

  void propose(OpId op) {
    const Opcode opcode = fn_.opcode(op);
    const bool memory = opcode == Opcode::Load || opcode == Opcode::Store ||
                        opcode == Opcode::AtomicRmw || opcode == Opcode::AtomicCas;
    if (memory && fn_.type(fn_.operand(op, 0)).isTile()) {
      const ValueId pointers = fn_.operand(op, 0);
      const Type accessed = fn_.type(pointers).pointee();
      const bool isAtomic = opcode == Opcode::AtomicRmw || opcode == Opcode::AtomicCas;
      const auto run = opcode == Opcode::Load ? operandRun(fn_, fn_.result(op), longestRun(pointers), context_.target) : std::nullopt;
      // An atomic takes one element of each lane: neighbours in neighbouring lanes share what memory does once
      // for 32 bytes. Where a load's lanes have several each, that costs more instructions and no more traffic.
      const int32_t widest = isAtomic ? static_cast<int32_t>(accessed.elementBytes())
                                      : context_.target.maxVectorBytes;
      // What is not turned in registers all warps read from shared memory element by element; other loads are as fast.
      const double cost = run || (isAtomic && facts_.access().run(pointers, longestRun(pointers)).elements > 1) ? 4 : 1;
      const auto inWarps = opcode == Opcode::Store ? layoutInWarps(op) : std::nullopt;
      Layout plain = inWarps ? *inWarps
                             : memoryLayout(fn_, pointers, facts_,
                                            {.warps = warps_,
                                             .warpSize = context_.target.warpSize,
                                             .maxVectorBytes = widest,
                                             .reducedAxis = reducedAxis_[componentIndex(pointers)],
                                             .run = run});
      if (auto byRows = opcode == Opcode::Load ? rowCopyLayout(fn_, op, facts_, context_, plain, warps_) : std::nullopt) {
        rows_.emplace(op, std::move(*byRows));
      }
      component(pointers).proposals.push_back({std::move(plain), cost * static_cast<double>(tileBytes(accessed)) * frequency(fn_, op)});
    } else if (isAlongAxis(fn_, op)) {
      proposeAlongAxis(op);
    }
  }

  // All loads of the loop, whose pointers no other access shares, are copied as rows, or none.
  void takeRows(BlockId body) {
    std::vector<OpId> loads;
    int64_t bytes = 0;
    for (const OpId op : fn_.opsIn(body)) {
      if (fn_.opcode(op) == Opcode::Load && fn_.type(fn_.result(op)).isTile()) {
        loads.push_back(op);
        bytes += tileBytes(fn_.type(fn_.result(op)));
      }
    }
    const auto isAlone = [&](OpId load) { return rows_.contains(load) && component(fn_.operand(load, 0)).proposals.size() == 1; };
    if (rowsHaveRoom(bytes, context_.target) && std::ranges::all_of(loads, isAlone)) {
      for (const OpId load : loads) {
        component(fn_.operand(load, 0)).proposals[0].layout = rows_.at(load);
      }
    }
  }

  [[nodiscard]] unsigned longestRun(ValueId pointers) const {
    return static_cast<unsigned>(axesByRuns(fn_, pointers, facts_)[0]);
  }

  // Where a dot decides how the stored value is held.
  std::optional<Layout> layoutInWarps(OpId store) {
    const std::vector<LayoutProposal> &proposals = component(fn_.operand(store, 1)).proposals;
    const auto dot = std::ranges::find_if(proposals, [](const LayoutProposal &each) { return each.strict; });
    return dot == proposals.end() ? std::nullopt : passes::layoutInWarps(fn_, store, facts_, dot->layout, context_.target);
  }

  void proposeDot(OpId op) {
    const Type acc = fn_.type(fn_.result(op));
    const ir::DotUnit &unit = unitOf(fn_, op, context_.target);
    const WarpGrid grid = warpGridOf(fn_, op, warps_);
    component(fn_.result(op))
        .proposals.push_back({accumulatorLayout(unit, acc.shape(), grid, warps_),
                              static_cast<double>(tileBytes(acc)) * frequency(fn_, op),
                              unit.together});
  }

  void proposeAlongAxis(OpId op) {
    const Type type = fn_.type(fn_.operand(op, 0));
    const auto axis = static_cast<int32_t>(fn_.getInt(op, Attr::axis));
    std::vector<int32_t> order = {axis}, others;
    for (int32_t d = static_cast<int32_t>(type.rank()); d-- > 0;) {
      if (d != axis) {
        order.push_back(d);
        others.push_back(d);
      }
    }
    others.push_back(axis);
    const int64_t perThread = type.numElements() / (int64_t{warps_} * context_.target.warpSize);
    const int32_t vector = floorPowerOfTwo(std::min<int64_t>(perThread, 4));
    component(fn_.operand(op, 0))
        .proposals.push_back(
            {Layout::blocked(type.shape(), order, vector, warps_, others, context_.target.warpSize),
             1.0});
  }

  const ir::Function &fn_;
  const Facts &facts_;
  const PassContext &context_;
  const int32_t warps_;
  LayoutProblem problem_;
  std::map<OpId, Layout> rows_; // of loads that may be copied as rows
  ir::IndexMap<ir::Id<struct ComponentTag>, int32_t> reducedAxis_{-1};
};

// Another dot goes on in the accumulator, and nobody else looks at it.
bool isOnlyContinued(const ir::Function &fn, OpId dot) {
  const auto uses = fn.uses(fn.result(dot));
  return uses.size() == 1 && fn.opcode(uses[0].op) == Opcode::Dot && uses[0].operand == 2;
}

// What a kernel's registers go to.
struct Sizes {
  int64_t dot = 0, allDots = 0; // registers of the largest accumulator, and of all
  int64_t row = 0;              // elements of the largest tile that is reduced, scanned or sorted
  int64_t widest = 0;           // bytes of the largest tile that is loaded or stored
  int64_t read = 0;             // bytes of all tiles that are loaded
  int64_t live = 0;             // registers of the tiles that are live at once
  bool carried = false;         // a reduced tile holds partial results of a loop
  bool repeated = false;        // one is made in each iteration of a loop
  std::vector<int64_t> loaded;  // elements of the tiles that are loaded

  // As large as the row.
  [[nodiscard]] int64_t loadedRows() const {
    return std::ranges::count_if(loaded, [&](int64_t each) { return each >= row; });
  }

  explicit Sizes(const ir::Function &fn) : live(liveRegisters(fn)) {
    for (const OpId op : fn.walk()) {
      const Opcode opcode = fn.opcode(op);
      if (opcode == Opcode::Dot) {
        const Type acc = fn.type(fn.result(op));
        const int64_t registers = acc.numElements() * (acc.elementBytes() > 4 ? 2 : 1);
        dot = std::max(dot, registers);
        allDots += isOnlyContinued(fn, op) ? 0 : registers;
      } else if (opcode == Opcode::Load && fn.type(fn.result(op)).isTile()) {
        widest = std::max(widest, tileBytes(fn.type(fn.result(op))));
        read += tileBytes(fn.type(fn.result(op)));
        loaded.push_back(fn.type(fn.result(op)).numElements());
      } else if (opcode == Opcode::Store && fn.type(fn.operand(op, 1)).isTile()) {
        widest = std::max(widest, tileBytes(fn.type(fn.operand(op, 1))));
      } else if (isAlongAxis(fn, op) || opcode == Opcode::Sort) {
        // A scan or sort makes elements beside those that it still takes: wide ones, of two registers,
        // count three times.
        const Type type = fn.type(fn.operand(op, 0));
        const bool isWide = opcode != Opcode::Reduce && type.elementBytes() > 4;
        row = std::max(row, type.numElements() * (isWide ? 3 : 1));
        carried |= fn.defOpcode(fn.operand(op, 0)) == Opcode::For;
        repeated |= fn.block(op) != fn.body();
      }
    }
  }
};

// Elements of less than a word come as words of several: each load's neighbours lie side by side.
bool loadsWords(const ir::Function &fn, const Facts &facts) {
  return std::ranges::all_of(fn.walk(), [&](OpId op) {
    if (fn.opcode(op) != Opcode::Load || !fn.type(fn.result(op)).isTile()) {
      return true;
    }
    int64_t most = 1;
    for (unsigned axis = 0; axis < fn.type(fn.result(op)).rank(); ++axis) {
      most = std::max(most, facts.access().maxVectorElements(fn.operand(op, 0), axis));
    }
    return most * fn.type(fn.result(op)).elementBytes() >= 4;
  });
}

} // namespace

double frequency(const ir::Function &fn, OpId op) {
  double result = 1;
  for (OpId owner = fn.parentOp(fn.block(op)); owner.valid();
       owner = fn.parentOp(fn.block(owner))) {
    const Opcode opcode = fn.opcode(owner);
    result *= isLoop(opcode) ? 10 : 1;
  }
  return std::min(result, 1e6);
}

int32_t chooseWarps(const ir::Function &fn, const PassContext &context) {
  const int32_t most = std::max(1, context.target.maxWarps);
  if (context.numWarps > 0) {
    return context.spreadsWarps ? fn.numWarps : std::min(ceilPowerOfTwo(context.numWarps), floorPowerOfTwo(most));
  }
  const Sizes sizes(fn);
  const auto share = [&](int64_t elements, int64_t registers) {
    const int64_t ofWarp = context.target.warpSize * registers;
    return ceilPowerOfTwo((elements + ofWarp - 1) / ofWarp);
  };
  int64_t warps = 0;
  if (sizes.dot > 0) {
    // All accumulators in 128 registers a thread, with what is live beside them in 192; four warps where
    // each has 64 of the largest.
    const int32_t held = std::max(share(sizes.allDots, 128), share(sizes.live, 192));
    return std::min(std::clamp(held, std::min(share(sizes.dot, 64), 4), 8), floorPowerOfTwo(most));
  }
  if (sizes.row > 0) {
    // 32 elements to a thread, counted as f32, but beyond a few warps as many as 64 registers hold: what a warp does once for a
    // row (shuffles, waiting for the others) then counts less, and there is room to compute several of them at a time. A row
    // alone is held as narrow as memory has it (hold_rows.h); partial results, and what is loaded beside it, such as weights,
    // take registers of their own.
    const int64_t elements = std::max(sizes.widest, sizes.row * 4) / (4 * context.target.warpSize);
    const int64_t few = sizes.carried ? 8 : 4;
    const bool isAlone = !sizes.carried && sizes.loadedRows() <= 1;
    const int64_t held = isAlone ? std::max(sizes.widest / (4 * context.target.warpSize), elements / 2) : elements;
    // Two warps of a row that is worked on with others wait half as long for their sums, and meet once for each.
    const int64_t least = isAlone || sizes.carried || sizes.repeated ? 1 : std::clamp<int64_t>(ceilPowerOfTwo(elements / 8), 1, 2);
    warps = std::clamp<int64_t>(ceilPowerOfTwo(elements / 32), least, few);
    warps = std::clamp<int64_t>(ceilPowerOfTwo(held / 64), warps, 16);
    // Two programs of eight warps leave a thread 128 registers: where a row of f32 and all that is loaded are more, sixteen have
    // half of it each, and are as many again to wait for memory.
    const bool isTight = !isAlone && sizes.row + sizes.read / 4 > warps * context.target.warpSize * 128;
    warps = warps == 8 && isTight ? 16 : warps;
  } else {
    // 32 bytes to a thread, of all that is loaded, but 16 of the widest; beyond eight warps eight times as many, which its
    // registers hold.
    const int64_t read = std::max(sizes.widest, sizes.read) / (32 * context.target.warpSize);
    warps = std::min(ceilPowerOfTwo(read), ceilPowerOfTwo(sizes.widest / 512));
    warps = std::clamp<int64_t>(warps, 1, 8);
    warps = std::clamp<int64_t>(ceilPowerOfTwo(sizes.widest / 8192), warps, 16);
  }
  warps = std::clamp<int64_t>(share(sizes.live, 128), warps, 16);
  return static_cast<int32_t>(std::min<int64_t>(warps, floorPowerOfTwo(most)));
}

int32_t chooseResident(const ir::Function &fn, const Facts &facts, const PassContext &context, int32_t warps) {
  const Sizes sizes(fn);
  if (sizes.dot > 0 || sizes.row == 0) {
    return 0;
  }
  const int32_t threads = warps * context.target.warpSize;
  // Beside the row: addresses, what is being computed. A loop holds partial results and the next elements, or elements,
  // what they are multiplied by and what is added to them; without a loop all rows may be loaded at once. A tile that is larger than any row needs its registers too.
  const int64_t elements = std::max(sizes.row, sizes.widest / 4) / threads;
  const int64_t loaded = loadsWords(fn, facts) ? std::min(sizes.widest / 4 / threads, elements) : elements;
  const int64_t beside = sizes.loadedRows() > 1 ? 48 : 40;
  const int64_t row = sizes.carried ? std::max(elements + loaded, 3 * loaded) + 32 : std::max(elements + beside, sizes.loadedRows() * loaded + 32);
  const int64_t live = sizes.live / threads + 16;
  const auto resident = [&](int64_t registers) { return context.target.registers / (threads * std::max(registers, live)); };
  // Nobody computes while one that is alone waits: the second one is worth loading what goes with the row late.
  const int64_t least = !sizes.carried && resident(elements + 32) >= 2 ? 2 : 1;
  return static_cast<int32_t>(std::clamp<int64_t>(resident(row), least, 24));
}

LayoutProblem proposeLayouts(const ir::Function &fn, const Facts &facts, const PassContext &context,
                             int32_t warps) {
  return Proposer(fn, facts, context, warps).run();
}

} // namespace libtile::passes
