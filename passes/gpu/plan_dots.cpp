// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/plan_dots.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/analysis/facts.h"
#include "passes/expand_functions.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/multiply_codes.h"
#include "passes/gpu/operand_sources.h"
#include "passes/gpu/propose_layouts.h"
#include "passes/gpu/split_dots.h"
#include "passes/gpu/sums_together.h"

#include <algorithm>
#include <bit>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::DotUnit;
using ir::Elem;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

// dot(a, b, acc: f16) -> fptrunc(dot(a, b, fpext(acc) to f32))
OpId widenAccumulator(ir::Function &fn, OpId op) {
  const Type narrow = fn.type(fn.result(op));
  if (narrow.elem() != Elem::F16 && narrow.elem() != Elem::BF16) {
    return op;
  }
  ir::Builder builder(fn, op);
  const Type wide = narrow.withElement(Elem::F32);
  const ValueId acc = builder.make(Opcode::FpExt, {fn.operand(op, 2)}, wide);
  const ValueId operands[] = {fn.operand(op, 0), fn.operand(op, 1), acc};
  const OpId dot = builder.op(Opcode::Dot, operands, {&wide, 1});
  fn.copyAttrs(op, dot);
  const ValueId result = builder.make(Opcode::FpTrunc, {fn.result(dot)}, narrow);
  fn.replaceAllUses(fn.result(op), result);
  fn.erase(op);
  return dot;
}

// What a launch asks of its dots' units.
struct Wish {
  int32_t rows = 0, groups = 0; // 0: any
};

// What a dot asks of a unit.
struct Demand {
  Elem a, b, acc;
  int32_t m, n, k;
  ir::Precision precision;
  std::optional<ir::Float8> formatA, formatB; // a and b are codes
  bool imprecise;                             // its k products may be summed in fewer bits than acc has
  uint32_t rank;
  int32_t warps; // of the program
  int64_t sums, room; // registers of a thread that its accumulators take, and that there are for them
  OperandSource fromA, fromB;
  ir::SumsOf sumsOf{};                // that what reads its sums wants together; found out if a unit asks
  bool alongA = false, alongB = false; // neighbours along k lie side by side where it is loaded; found out if a unit asks
  Wish wish = {};
};

constexpr int64_t kRunBytes = 16; // that a copy takes at once

// What is loaded lies with neighbours along `axis` side by side; what is there before the loop is written as the unit
// wants it.
bool liesAlong(const ir::Function &fn, OpId dot, ValueId operand, unsigned axis, const Facts &facts) {
  const OpId op = fn.def(operand);
  if (op.valid() && fn.opcode(op) == Opcode::Trans) {
    return liesAlong(fn, dot, fn.operand(op, 0), *throughTrans(fn, op, axis), facts);
  }
  const bool isLoaded = op.valid() && fn.opcode(op) == Opcode::Load && fn.block(op) == fn.block(dot);
  return !isLoaded || facts.access().run(fn.operand(op, 0), axis).elements * fn.type(operand).elementBytes() >= kRunBytes;
}

std::optional<ir::Float8> formatOf(const ir::Function &fn, OpId dot, Attr attr) {
  return fn.hasAttr(dot, attr) ? std::optional(fn.getEnum<ir::Float8>(dot, attr)) : std::nullopt;
}

// Registers of a thread that may be accumulators of a unit that reads its operands by itself: the assembler cannot spill
// these, and needs others for addresses, descriptors and numbers of slots.
int64_t roomForSums(const ir::Target &target, int64_t threads) {
  constexpr int64_t most = 128, others = 40;
  return std::min({most, target.registersPerThread - others, target.registers / threads - others});
}

Demand demandOf(const ir::Function &fn, OpId dot, const ir::Target &target, int32_t warps) {
  const int64_t threads = int64_t{warps} * target.warpSize;
  const Type a = fn.type(fn.operand(dot, 0)), acc = fn.type(fn.result(dot));
  return {.a = a.elem(),
          .b = fn.type(fn.operand(dot, 1)).elem(),
          .acc = acc.elem(),
          .m = acc.dim(acc.rank() - 2),
          .n = acc.dim(acc.rank() - 1),
          .k = a.dim(a.rank() - 1),
          .precision = fn.getEnum<ir::Precision>(dot, Attr::precision),
          .formatA = formatOf(fn, dot, Attr::format_a),
          .formatB = formatOf(fn, dot, Attr::format_b),
          .imprecise = fn.getInt(dot, Attr::imprecise) >= a.dim(a.rank() - 1),
          .rank = static_cast<uint32_t>(acc.rank()),
          .warps = warps,
          .sums = acc.numElements() / std::max<int64_t>(threads, 1),
          .room = roomForSums(target, std::max<int64_t>(threads, 1)),
          .fromA = operandSource(fn, dot, fn.operand(dot, 0)),
          .fromB = operandSource(fn, dot, fn.operand(dot, 1))};
}

bool takes(const ir::DotPart &part, Elem elem, std::optional<ir::Float8> format = {}) {
  return part.format == format && (part.elem == Elem::Void || part.elem == elem);
}
bool asksForOrder(const DotUnit &unit) { return unit.a.alongK || unit.b.alongK; }
bool takesTypes(const DotUnit &unit, const Demand &dot) {
  return takes(unit.a, dot.a, dot.formatA) && takes(unit.b, dot.b, dot.formatB) && takes(unit.acc, dot.acc);
}


// The grid of warps for a unit that reads its operands by itself: as many along the rows as these have room for,
// the others along the columns. Empty: they do not divide.
WarpGrid gridTogether(const DotUnit &unit, const Demand &dot) {
  const int32_t together = warpsTogether(unit);
  for (int32_t along = dot.warps; along >= together && along % together == 0; along /= 2) {
    const int32_t others = dot.warps / along, columns = dot.n / others;
    // The warps of a group have all of its columns side by side.
    const bool isSplit = dot.n % others == 0 && std::has_single_bit(static_cast<uint32_t>(columns));
    if (dot.m % (unit.m / together * along) == 0 && columns % unit.n == 0 && (others == 1 || isSplit)) {
      return {along, others};
    }
  }
  return {};
}

// Registers hold the unit's left operand as they hold its sums.
bool continuesSums(const DotUnit &unit) { return !unit.a.inShared && unit.a.lanes == unit.acc.lanes; }

// Why a unit that reads its operands by itself is not planned for the dot; empty: it may be. What it reads is copied
// there from memory, or had to be transposed by way of it; what it takes from registers is there: sums, if all warps
// stand along the rows; or threads read it where it was copied to.
std::string misfitTogether(const DotUnit &unit, const Demand &dot) {
  const WarpGrid grid = dot.rank == 2 ? gridTogether(unit, dot) : WarpGrid();
  if (dot.rank != 2) {
    return "it has more than two axes";
  }
  if (grid.empty()) {
    return "the tile of " + std::to_string(dot.m) + " x " + std::to_string(dot.n) + " does not divide among " +
           std::to_string(dot.warps) + " warps, " + std::to_string(warpsTogether(unit)) + " of them together";
  }
  if (dot.sums > dot.room) {
    return "its accumulators need " + std::to_string(dot.sums) + " registers of a thread, which has " +
           std::to_string(dot.room) + " for them";
  }
  const bool isThere = dot.fromA == OperandSource::Sums && grid[1] == 1;
  if ((unit.a.alongK && !dot.alongA) || (unit.b.alongK && !dot.alongB)) {
    return "it reads neighbours along k side by side, and memory has them along the other axis";
  }
  if (!unit.a.inShared) {
    const bool isHeld = continuesSums(unit) ? isThere : dot.fromA == OperandSource::Memory;
    return isHeld && dot.fromB == OperandSource::Memory ? "" : "its left operand is not what it takes from registers";
  }
  return dot.fromA != OperandSource::Other && !isThere && dot.fromB == OperandSource::Memory
             ? ""
             : "what it reads from shared memory is not loaded for it in the loop around it, or before";
}

// Why a unit of the dot's types would not be right; empty: it is.
std::string misfit(const DotUnit &unit, const Demand &dot) {
  if (unit.precision != ir::Precision::ieee && unit.precision != dot.precision) {
    const auto name =
        ir::enumeratorName(ir::AttrKind::Precision, static_cast<int64_t>(unit.precision));
    return std::string(ir::elemName(dot.a)) + " operands need input_precision " + std::string(name);
  }
  if (unit.imprecise && !dot.imprecise) {
    return "it sums in fewer bits than the dot allows";
  }
  if (dot.k % unit.k != 0) {
    return "k = " + std::to_string(dot.k) + " is no multiple of " + std::to_string(unit.k);
  }
  return "";
}

std::string misfitPlanned(const DotUnit &unit, const Demand &dot) {
  const std::string why = misfit(unit, dot);
  return why.empty() && readsByItself(unit) ? misfitTogether(unit, dot) : why;
}

// The target has units whose lanes have sums of a row, and such of a column.
bool givesEither(const ir::Target &target) {
  return std::ranges::any_of(target.units, [](const DotUnit &unit) { return unit.sumsOf != ir::SumsOf::Either; });
}

bool heeds(const DotUnit &unit, const Wish &wish) {
  return (wish.groups == 0 || unit.groups == wish.groups) && (wish.rows == 0 || (unit.together && unit.m == wish.rows));
}

// Why another unit that heeds the wish would be faster; empty: there is no reason.
std::string drawback(const DotUnit &unit, const Demand &dot, const Wish &wish) {
  if (unit.sumsOf != ir::SumsOf::Either && dot.sumsOf != ir::SumsOf::Either && unit.sumsOf != dot.sumsOf) {
    return "its sums are read along the other axis";
  }
  const WarpGrid grid = readsByItself(unit) ? gridTogether(unit, dot) : WarpGrid{1, 1};
  if (wish.rows != 0 || (dot.m >= unit.leastM && dot.n / grid[1] >= unit.leastN)) {
    return "";
  }
  return "the tile of " + std::to_string(dot.m) + " x " + std::to_string(dot.n) +
         " is below the instruction's " + std::to_string(unit.m) + " x " + std::to_string(unit.n);
}

[[noreturn]] void fail(const ir::Function &fn, OpId dot, const std::string &message) {
  throw ir::UserError(message, fn.locationOf(dot));
}

// The unit that the dot names, which has this demand. `planned`: the dot has been planned.
const DotUnit &namedUnit(const ir::Function &fn, OpId dot, const ir::Target &target, const Demand &demand, bool planned) {
  const std::string name(fn.getText(dot, Attr::unit));
  const auto unit = std::ranges::find(target.units, name, &DotUnit::name);
  if (unit == target.units.end()) {
    fail(fn, dot, target.name + " has no unit " + name);
  }
  const std::string why = !takesTypes(*unit, demand) ? "it takes other types"
                          : planned                  ? misfit(*unit, demand)
                                                     : misfitPlanned(*unit, demand);
  if (!why.empty()) {
    fail(fn, dot, "the unit " + name + " does not fit this dot: " + why);
  }
  return *unit;
}

// The first unit that fits and heeds the wish; `last` gets the reason against the last one that does not fit.
const DotUnit *findHeeding(const ir::Target &target, const Demand &demand, const Wish &wish, std::string &last) {
  const auto found = std::ranges::find_if(target.units, [&](const DotUnit &unit) {
    if (!takesTypes(unit, demand) || !heeds(unit, wish)) {
      return false;
    }
    std::string reason = misfitPlanned(unit, demand);
    reason = reason.empty() ? drawback(unit, demand, wish) : reason;
    last = reason.empty() ? last : reason;
    return reason.empty();
  });
  return found != target.units.end() ? &*found : nullptr;
}

// The first unit that fits and heeds what is wished, or of that what units can; for codes maybe none. `why` gets the reason against
// the last one of these types that does not fit, unless it has one.
const DotUnit *find(const ir::Target &target, const Demand &demand, std::string &why) {
  std::string last;
  const DotUnit *found = nullptr;
  const Wish &all = demand.wish;
  for (const Wish &wish : {all, Wish{.rows = all.rows}, Wish{.groups = all.groups}, Wish{}}) {
    found = found != nullptr ? found : findHeeding(target, demand, wish, last);
  }
  why = why.empty() ? last : why;
  return found;
}

const DotUnit &search(const ir::Target &target, const Demand &demand, std::string &why) {
  const DotUnit *found = find(target, demand, why);
  ir::check(found != nullptr, "the last unit fits every dot");
  return *found;
}

std::optional<DotSplit> splitFor(const Demand &demand) {
  return demand.a == Elem::F32 ? splitOf(demand.precision) : std::nullopt;
}
Demand partOf(Demand demand, const DotSplit &split) {
  demand.a = demand.b = split.elem;
  demand.precision = split.precision;
  return demand;
}

// In parts, if these have a faster unit: the dots that stand there then.
std::vector<OpId> inParts(ir::Function &fn, OpId dot, const ir::Target &target, int32_t warps) {
  const Demand demand = demandOf(fn, dot, target, warps);
  const auto split = fn.hasAttr(dot, Attr::unit) ? std::nullopt : splitFor(demand);
  std::string why;
  if (!split || &search(target, partOf(demand, *split), why) == &target.units.back()) {
    return {dot};
  }
  return splitDot(fn, dot, *split);
}

class DotPlanner {
public:
  DotPlanner(ir::Function &fn, const PassContext &context)
      : fn_(fn), target_(context.target), wish_{context.unitRows, context.unitGroups}, warps_(chooseWarps(fn, context)) {
    for (const OpId op : fn.walk()) {
      if (fn.opcode(op) == Opcode::Reduce && fn.type(fn.operand(op, 0)).isTile()) {
        reduces_.push_back(op);
      }
    }
  }

  // A dot of codes that is not pinned, and no unit takes it.
  bool isLeft(OpId dot) {
    std::string why;
    return !fn_.hasAttr(dot, Attr::unit) && find(target_, demandWithOrder(dot), why) == nullptr;
  }

  void plan(OpId dot) {
    const bool pinned = fn_.hasAttr(dot, Attr::unit);
    const Demand demand = demandWithOrder(dot);
    const DotUnit &unit = pinned ? namedUnit(fn_, dot, target_, demand, false) : chooseUnit(dot, demand);
    fn_.setAttr(dot, Attr::unit, ir::AttrValue(unit.name));
    const WarpGrid grid =
        fn_.hasAttr(dot, Attr::warps) ? warpGridOf(fn_, dot, warps_) : chooseGrid(dot, unit);
    fn_.setAttr(dot, Attr::warps, ir::AttrValue(std::vector<int64_t>(grid.begin(), grid.end())));
  }

private:
  Demand demandWithOrder(OpId dot) {
    Demand demand = demandOf(fn_, dot, target_, warps_);
    const bool isLoaded = comesFromMemory(fn_, fn_.operand(dot, 0)) && comesFromMemory(fn_, fn_.operand(dot, 1));
    const bool takesOne = demand.fromA == OperandSource::Sums || (wish_.groups == 0 && !isLoaded);
    demand.wish = {.rows = wish_.rows, .groups = takesOne ? 1 : wish_.groups};
    if (givesEither(target_)) {
      demand.sumsOf = sumsTogether(fn_, dot);
    }
    if (std::ranges::any_of(target_.units, [&](const DotUnit &unit) {
          return asksForOrder(unit) && takesTypes(unit, demand) && misfit(unit, demand).empty();
        })) {
      facts_ = facts_ ? std::move(facts_) : std::optional(computeFacts(fn_));
      demand.alongA = liesAlong(fn_, dot, fn_.operand(dot, 0), demand.rank - 1, *facts_);
      demand.alongB = liesAlong(fn_, dot, fn_.operand(dot, 1), demand.rank - 2, *facts_);
    }
    return demand;
  }

  // The reason against the last unit is that against the parts, where a dot may be split.
  const DotUnit &chooseUnit(OpId dot, const Demand &demand) {
    std::string why;
    if (const auto split = splitFor(demand)) {
      search(target_, partOf(demand, *split), why);
    }
    const DotUnit &unit = search(target_, demand, why);
    if (&unit == &target_.units.back()) {
      noteFallback(dot, why);
    } else {
      noteUnheeded(dot, demand, unit);
    }
    return unit;
  }

  void noteFallback(OpId dot, std::string why) {
    if (why.empty()) {
      why = std::string("no matrix instruction multiplies ") +
            ir::elemName(fn_.type(fn_.operand(dot, 0)).elem()) + " into " +
            ir::elemName(fn_.type(fn_.result(dot)).elem());
    }
    note(dot, "fused multiply-adds: " + why);
  }

  // What the launch wished, and the unit is not.
  void noteUnheeded(OpId dot, const Demand &demand, const DotUnit &unit) {
    if (demand.wish.rows != 0 && unit.m != demand.wish.rows) {
      note(dot, unit.name + ": for this dot " + target_.name + " has no unit of matrix_instr_nonkdim=" + std::to_string(demand.wish.rows));
    }
    if (wish_.groups != 0 && unit.groups != wish_.groups) {
      note(dot, unit.name + ": kpack=" + std::to_string(wish_.groups) + " changes nothing, since " +
                    (demand.fromA == OperandSource::Sums ? "its left operand is sums of another dot, as these lie"
                                                  : "for this dot " + target_.name + " has no unit of as many instructions"));
    }
  }

  void note(OpId dot, const std::string &by) {
    const ir::Location &location = fn_.locationOf(dot);
    fn_.fallbacks.push_back((location.known() ? location.place().str() + ": " : "") + "dot by " + by);
  }

  // Where rows of such accumulators are reduced, as in attention, all warps stand along them if there
  // is room, so that a row lies within one warp and the accumulator is the left operand of a next dot.
  WarpGrid chooseGrid(OpId dot, const DotUnit &unit) const {
    const Type acc = fn_.type(fn_.result(dot));
    const unsigned column = acc.rank() - 1;
    if (readsByItself(unit)) {
      return gridTogether(unit, demandOf(fn_, dot, target_, warps_));
    }
    const bool wholeRows = unit.together &&
                           acc.numElements() / acc.dim(column) >= int64_t{unit.m} * warps_ &&
                           std::ranges::any_of(
                               reduces_, [&](OpId op) { return reducesRows(op, acc); });
    return chooseWarpGrid(acc.shape(), warps_, {unit.m, unit.n}, wholeRows);
  }
  bool reducesRows(OpId reduce, const Type &acc) const {
    const Type tile = fn_.type(fn_.operand(reduce, 0));
    return tile.rank() == acc.rank() &&
           fn_.getInt(reduce, Attr::axis) == int64_t{acc.rank()} - 1 &&
           std::equal(tile.shape().begin(), tile.shape().end() - 1, acc.shape().begin());
  }

  ir::Function &fn_;
  const ir::Target &target_;
  const Wish wish_;
  const int32_t warps_;
  std::vector<OpId> reduces_; // of tiles
  std::optional<Facts> facts_;
};

bool multipliesCodes(const ir::Function &fn, OpId op) { return fn.opcode(op) == Opcode::Dot && fn.hasAttr(op, Attr::format_a); }

std::vector<OpId> dotsOfCodes(const ir::Function &fn) {
  std::vector<OpId> dots;
  std::ranges::copy_if(fn.walk(), std::back_inserter(dots), [&](OpId op) { return multipliesCodes(fn, op); });
  return dots;
}

// What no unit takes as codes is decoded, until the others are taken: as many warps as the kernel then has may be others.
void decodeWhatIsLeft(ir::Function &fn, const PassContext &context) {
  for (auto dots = dotsOfCodes(fn); !dots.empty(); dots = dotsOfCodes(fn)) {
    DotPlanner planner(fn, context);
    std::erase_if(dots, [&](OpId dot) { return !planner.isLeft(dot); });
    if (dots.empty()) {
      return;
    }
    for (const OpId dot : dots) {
      decodeOperands(fn, dot);
    }
    expandFunctions(fn, context);
  }
}

} // namespace

bool planDots(ir::Function &fn, const PassContext &context) {
  decodeWhatIsLeft(fn, context);
  std::vector<OpId> dots;
  const int32_t warps = chooseWarps(fn, context);
  for (const OpId op : fn.walk()) {
    if (fn.opcode(op) == Opcode::Dot) {
      const auto parts = inParts(fn, widenAccumulator(fn, op), context.target, warps);
      dots.insert(dots.end(), parts.begin(), parts.end());
    }
  }
  DotPlanner planner(fn, context);
  for (const OpId dot : dots) {
    planner.plan(dot);
  }
  for (const OpId dot : dots) {
    if (unitOf(fn, dot, context.target).imprecise) {
      separateSums(fn, dot);
    }
  }
  if (!dots.empty() && givesEither(context.target)) {
    beginApart(fn);
  }
  return !dots.empty();
}

const DotUnit &unitOf(const ir::Function &fn, OpId dot, const ir::Target &target) {
  if (!fn.hasAttr(dot, Attr::unit) || !fn.hasAttr(dot, Attr::warps)) {
    fail(fn, dot, "a dot has no unit: the pass plan_dots has been left out");
  }
  return namedUnit(fn, dot, target, demandOf(fn, dot, target, 0), true);
}

WarpGrid warpGridOf(const ir::Function &fn, OpId dot, int32_t warps) {
  const auto named = fn.getInts(dot, Attr::warps);
  int64_t left = named.size() == fn.type(fn.result(dot)).rank() ? warps : 0;
  for (const int64_t along : named) {
    left = along >= 1 && std::has_single_bit(static_cast<uint64_t>(along)) ? left / along : 0;
  }
  if (left == 0) {
    fail(fn, dot, "the grid of a dot's warps has one power of two an axis, and of the program's " +
                      std::to_string(warps) + " warps no more");
  }
  return {named.begin(), named.end()};
}

} // namespace libtile::passes
