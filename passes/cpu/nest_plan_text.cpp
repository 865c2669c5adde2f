// SPDX-License-Identifier: Apache-2.0
#include "ir/ops.h"
#include "ir/printer.h"
#include "passes/cpu/pack_ahead.h"
#include "passes/cpu/plan_nests.h"

#include <algorithm>

namespace libtile::passes {

using namespace ir;

namespace {

std::string_view reason(KeptFor why) {
  switch (why) {
  case KeptFor::Nothing:
    return "";
  case KeptFor::SeveralNests:
    return "several nests need it";
  case KeptFor::InnerLoop:
    return "a loop needs it that it does not lie in";
  case KeptFor::Repeats:
    return "a nest reads its elements many times";
  case KeptFor::Depth:
    return "it ends a long expression";
  case KeptFor::AnyOrder:
    return "a gather reads it in any order";
  case KeptFor::Pin:
    return "pinned";
  }
  return "";
}

std::string text(const KeptTile &tile) {
  const char *place = tile.keep == Keep::first_use ? "stored by the first nest that computes it: "
                                                  : "stored where it is defined: ";
  return place + std::string(reason(tile.why));
}

std::string sizeText(std::span<const int32_t> shape, Elem elem) {
  return std::to_string(shape[0]) + "x" + std::to_string(shape[1]) + " " + std::string(elemName(elem));
}

std::string text(const NestShape &shape) {
  std::string extents;
  for (const int32_t extent : shape.extents) {
    extents += (extents.empty() ? "" : "x") + std::to_string(extent);
  }
  return "nest " + extents + " {lane_axis=" + std::to_string(shape.laneAxis) + ", lanes=" + std::to_string(shape.lanes) +
         ", unroll=" + std::to_string(shape.unroll) + "}";
}

void addLine(std::string &text, const std::string &line) {
  text += text.empty() || line.empty() ? line : "\n" + line;
}

class PlanText {
public:
  PlanText(const Function &fn, const CpuPlan &plan) : fn_(fn), plan_(plan) {}

  std::string of(OpId op) const {
    std::string text = fn_.opcode(op) == Opcode::Dot ? ofDot(op) : ofTiles(op);
    if (const auto nests = plan_.nests.find(op); nests != plan_.nests.end()) {
      for (const NestShape &shape : nests->second) {
        addLine(text, passes::text(shape));
      }
    }
    return text;
  }

private:
  std::string ofTiles(OpId op) const {
    std::string text = plan_.sunk[op] ? "sunk: it runs inside the nests that need its results" : "";
    if (const auto chunks = plan_.chunks.find(op); chunks != plan_.chunks.end()) {
      text = "chunks of " + std::to_string(chunks->second.iterations) + " iterations";
    }
    for (const ValueId result : fn_.results(op)) {
      if (plan_.tiles[result].keep != Keep::inline_) { // of a sunk loop all are stored together
        addLine(text, passes::text(plan_.tiles[result]));
        break;
      }
    }
    return text;
  }

  static std::string keptText(const std::map<OpId, int32_t> &kept, OpId dot) {
    const auto slots = kept.find(dot);
    return slots == kept.end() ? "" : ", b of " + std::to_string(slots->second) + (slots->second == 1 ? " chunk" : " chunks") + " kept for the next program";
  }

  std::string aheadText(OpId dot, bool inChunks) const {
    if (inChunks || fn_.type(fn_.result(dot)).rank() > 2) {
      return "";
    }
    const IndexMap<ValueId, ValueId> nothingStored{ValueId{}};
    const PackingPlaces places = packingPlaces({fn_, plan_.sunk, nothingStored}, plan_, dot);
    const bool a = places.a != dot, b = places.b != dot;
    return a || b ? std::string(a && b ? ", both" : a ? ", a" : ", b") + " in front of the loop" : "";
  }

  static std::string transposedText(const ContractShape &shape) {
    const bool a = shape.transposesA, b = shape.transposesB;
    return a || b ? std::string(a && b ? ", both" : a ? ", a" : ", b") + " transposed in registers" : "";
  }

  static std::string blocksText(const ContractShape &shape) {
    const auto of = [&](int32_t rows) { return std::to_string(rows) + "x" + std::to_string(shape.blockN); };
    const auto blocks = rowBlocks(shape.unit, shape.paddedM, shape.blockM);
    return of(shape.blockM) + (blocks->rest != shape.blockM ? " and " + of(blocks->rest) : "");
  }

  // Of dots in one chunk each is packed as often.
  std::string ofDot(OpId dot) const {
    const auto found = plan_.contracts.find(dot);
    if (found == plan_.contracts.end()) {
      return "no unit: multiply-adds in a fold";
    }
    const ContractShape &shape = found->second;
    const auto chunks = plan_.chunks.find(fn_.parentOp(fn_.block(dot)));
    const bool inChunks = chunks != plan_.chunks.end();
    const int32_t k = fn_.type(fn_.operand(dot, 0)).shape().back();
    const int32_t columns = shape.packedK(k) * (inChunks ? chunks->second.iterations : 1);
    const PackedShapes packed = packedShapes(shape, columns);
    return shape.unit.name + ": blocks of " + blocksText(shape) + "; a " +
           sizeText(packed.a, shape.unit.packed) + " and b " + sizeText(packed.b, packed.elemB) +
           " packed for each " + (inChunks ? "chunk" : fn_.type(fn_.result(dot)).rank() > 2 ? "slice" : "run") +
           transposedText(shape) + aheadText(dot, inChunks) + keptText(inChunks ? chunks->second.kept : std::map<OpId, int32_t>{}, dot) +
           (plan_.inPlace[dot] ? ", rows of a in place where nothing is masked off" : "") +
           (inChunks && chunks->second.findings.contains(dot) ? ", findings about a remembered" : "") +
           (inChunks && chunks->second.stores.contains(dot) ? ", where sums go asked for ahead" : "");
  }

  const Function &fn_;
  const CpuPlan &plan_;
};

} // namespace

std::string CpuPlan::str(const Function &fn, const PrintOptions &options) const {
  const PlanText text(fn, *this);
  PrintOptions print = options;
  print.note = [&](OpId op) { return text.of(op); };
  return ir::print(fn, print);
}

std::string nestPlanText(const Function &fn, const PassContext &context, const PrintOptions &options) {
  return planNests(fn, computeFacts(fn), context.target).str(fn, options);
}

} // namespace libtile::passes
