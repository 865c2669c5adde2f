// SPDX-License-Identifier: Apache-2.0
#include "runtime/tools/picture.h"

#include "ir/ops.h"
#include "passes/gpu/plan_dots.h"
#include "passes/gpu/plan_producer.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace libtile {

namespace {

using ir::Coords;
using ir::HwDim;
using ir::Layout;
using ir::OpId;
using Font = Svg::Font;

constexpr const char *kColours[] = {"#cfe3fb", "#fbe0c3", "#cdeccf", "#f6cfd4", "#e0d4f5", "#f4ecb8", "#c9ecec", "#e3e3e3"};
constexpr const char *kCopy = "#dbe7f5", *kRead = "#f0b27a";
constexpr double kLine = 16, kGap = 28;

const char *colourOf(int32_t number) { return kColours[number % static_cast<int32_t>(std::size(kColours))]; }

std::string tileText(const ir::Type &type) { return type.withLayout({}).str(); }

std::string place(const ir::Function &fn, OpId op) {
  const ir::Location &location = fn.locationOf(op);
  return location.known() ? " at " + location.place().str() : "";
}

// What reads a load's slot, in words, and until when: iterations from its own.
std::pair<std::string, int32_t> readersOf(const ir::Function &fn, const passes::LoopPlan &plan, const passes::PlannedLoad &load) {
  const auto readers = passes::slotReaders(fn, plan, load);
  if (!readers) {
    return {"several", 0};
  }
  OpId reader = readers->last;
  while (fn.opcode(reader) == ir::Opcode::ConvertLayout && fn.uses(fn.result(reader)).size() == 1) {
    reader = fn.uses(fn.result(reader))[0].op;
  }
  return {fn.opInfo(reader).mnemonic + place(fn, reader), readers->delayed ? 1 : 0};
}

} // namespace

void Picture::after(const passes::PassRun &run, const ir::Function &fn) {
  // Passes in front of pipeline_loops may still change the layouts; the last of them counts.
  if (isDone_ || fn.stage != ir::Stage::LaidOut) {
    return;
  }
  const auto runs = passes::schedule(context_.target);
  const auto here = std::ranges::find_if(runs, [&](const passes::PassRun &each) {
    return std::string_view(each.row.name) == run.row.name && each.nth == run.nth;
  });
  if (here == runs.end() || std::next(here) == runs.end() || std::string_view(std::next(here)->row.name) != "pipeline_loops") {
    return;
  }
  isDone_ = true;
  const passes::Plan plan = passes::planPipeline(fn, passes::computeFacts(fn), context_);
  for (const passes::LoopPlan &loop : plan.loops) {
    drawLoop(fn, loop);
    for (const passes::PlannedLoad &load : loop.loads) {
      drawSlots(fn, loop, load);
    }
  }
  drawDots(fn);
}

std::string Picture::svg() const {
  if (y_ == 0) {
    throw ir::UserError("--draw shows loops that copy ahead and dots of a kernel for a GPU: for " + context_.target.name +
                        " there are none");
  }
  return svg_.str();
}

void Picture::heading(const std::string &title, const std::string &words) {
  svg_.text(0, y_ + 12, title, Font::Title);
  svg_.text(0, y_ + 30, words, Font::Text);
  y_ += 42;
}

// Rows are slots, columns iterations; the first column is what runs before the loop.
void Picture::drawLoop(const ir::Function &fn, const passes::LoopPlan &plan) {
  constexpr double kName = 60, kColumn = 84, kRow = 22;
  const int32_t slots = plan.slots(), ahead = plan.byProducer ? slots : plan.stages - 1;
  const int32_t shown = std::min(2 * slots + 1, 9);
  std::string words = std::to_string(plan.stages) + " stages in " + std::to_string(slots) + " slots";
  words += plan.byProducer ? "; a producer warp copies as soon as a slot is free"
                           : "; each iteration starts the copies of " + std::to_string(ahead) + " iterations ahead";
  words += plan.underWay.empty() ? "" : "; dots end one iteration later";
  words += plan.noProducer.empty() ? "" : "; no producer warp: " + plan.noProducer;
  heading("Loop" + place(fn, plan.loop), words);
  const auto columnAt = [&](int32_t iteration) { return kName + kColumn * (iteration + 1); };
  for (const passes::PlannedLoad &load : plan.loads) {
    const auto [readers, until] = readersOf(fn, plan, load);
    const std::string way = load.box ? "boxes" : "copies of " + std::to_string(load.vectorBytes) + " bytes by each thread" +
                                               (load.noBox.empty() ? "" : " (no box: " + load.noBox + ")");
    svg_.text(0, y_ + 10, tileText(fn.type(fn.result(load.load))) + place(fn, load.load) + ", " + way + ", read by " + readers, Font::Text);
    y_ += kLine + 4;
    svg_.text(columnAt(-1), y_ + 8, "before", Font::Small);
    for (int32_t iteration = 0; iteration < shown; ++iteration) {
      svg_.text(columnAt(iteration), y_ + 8, "iteration " + std::to_string(iteration), Font::Small);
    }
    y_ += kLine - 2;
    for (int32_t slot = 0; slot < slots; ++slot, y_ += kRow) {
      svg_.text(0, y_ + 14, "slot " + std::to_string(slot), Font::Small);
      for (int32_t iteration = slot; iteration < shown; iteration += slots) {
        const int32_t start = std::max(iteration - ahead, -1);
        // In its iteration a dot comes behind the wait for the copy, and the copy of a later one behind that wait.
        const double from = columnAt(start) + (start < 0 ? 0.05 : plan.byProducer || ahead == slots ? 0.9 : 0.3) * kColumn;
        const double read = columnAt(iteration) + 0.35 * kColumn, end = columnAt(iteration + until) + (until > 0 ? 0.25 : 0.9) * kColumn;
        const double arrived = std::max(from, columnAt(iteration) + 0.1 * kColumn);
        svg_.box(from, y_ + 2, std::max(arrived - from, 2.0), kRow - 5, kCopy);
        svg_.centred((from + arrived) / 2, y_ + 14, "copy " + std::to_string(iteration), Font::Cell);
        svg_.box(read, y_ + 2, std::min(end, columnAt(shown)) - read, kRow - 5, kRead);
        svg_.centred((read + std::min(end, columnAt(shown))) / 2, y_ + 14, "read " + std::to_string(iteration), Font::Cell);
      }
    }
    y_ += 10;
  }
  y_ += kGap - 10;
}

void Picture::drawSlots(const ir::Function &fn, const passes::LoopPlan &plan, const passes::PlannedLoad &load) {
  const ir::Type type = fn.type(fn.result(load.load));
  const std::string title = "A slot of " + tileText(type) + " in shared memory";
  if (type.rank() == 2 && slots_.insert(title + load.slot.str()).second) {
    drawMemory(title + " (" + std::to_string(load.slotBytes) + " bytes, " + std::to_string(plan.slots()) + " of them)", load.slot,
               type.shape(), type.elementBytes());
  }
}

// Tiles of one layout are one part.
void Picture::drawDots(const ir::Function &fn) {
  std::vector<std::pair<ir::Type, std::set<std::string>>> tiles;
  const auto take = [&](const std::string &what, ir::ValueId value) {
    const ir::Type type = fn.type(value);
    if (type.rank() != 2 || !type.isTile() || !type.layout().valid()) {
      return;
    }
    auto found = std::ranges::find_if(tiles, [&](const auto &tile) {
      return tile.first.layout() == type.layout() && tile.first.sameShape(type);
    });
    found = found != tiles.end() ? found : tiles.insert(tiles.end(), {type, {}});
    found->second.insert(what);
  };
  for (const OpId op : fn.walk()) {
    if (fn.opcode(op) != ir::Opcode::Dot) {
      continue;
    }
    const ir::DotUnit &unit = passes::unitOf(fn, op, context_.target);
    take("accumulator of " + unit.name, fn.result(op));
    for (const unsigned operand : {0U, 1U}) {
      if (unit.together && !(operand == 0 ? unit.a : unit.b).inShared) {
        take((operand == 0 ? "left operand of " : "right operand of ") + unit.name, fn.operand(op, operand));
      }
    }
  }
  for (const auto &[type, names] : tiles) {
    std::string others;
    for (auto name = std::next(names.begin()); name != names.end(); ++name) {
      others += (others.empty() ? ", and of the " : ", ") + *name;
    }
    drawHolders("The " + *names.begin() + ": " + tileText(type), others, fn.layout(type.layout()), type.shape());
  }
}

// The corner of the tile element by element, and beside it all of it by warps.
void Picture::drawHolders(const std::string &title, const std::string &others, const Layout &layout, std::span<const int32_t> shape) {
  constexpr double kWide = 38, kHigh = 15;
  constexpr int32_t kRows = 16, kColumns = 16;
  heading(title, "lane:register of each element of the corner" + others + "; beside it all of it, a colour for each warp");
  const ir::LayoutInverse inverse(layout);
  const int32_t rows = std::min(kRows, shape[0]), columns = std::min(kColumns, shape[1]);
  for (int32_t row = 0; row < rows; ++row) {
    for (int32_t column = 0; column < columns; ++column) {
      const ir::Holder at = inverse.holderOf(Coords{row, column}).value();
      svg_.box(column * kWide, y_ + row * kHigh, kWide, kHigh, colourOf(at.warp));
      svg_.centred((column + 0.5) * kWide, y_ + row * kHigh + 11, std::to_string(at.lane) + ":" + std::to_string(at.reg), Font::Cell);
    }
  }
  drawWarps(columns * kWide + kGap, kRows * kHigh, inverse, shape);
  y_ += kRows * kHigh + kGap;
}

// In a square of this extent; neighbours of one warp are one box.
void Picture::drawWarps(double left, double extent, const ir::LayoutInverse &inverse, std::span<const int32_t> shape) {
  constexpr int32_t kParts = 32, kLines = 14;
  const int32_t rows = std::min(kParts, shape[0]), columns = std::min(kParts, shape[1]);
  const double wide = extent / columns, high = extent / rows;
  const auto warpAt = [&](int32_t row, int32_t column) {
    return inverse.holderOf(Coords{row * shape[0] / rows, column * shape[1] / columns}).value().warp;
  };
  std::set<int32_t> warps;
  for (int32_t row = 0; row < rows; ++row) {
    for (int32_t first = 0, column = 1; first < columns; first = column++) {
      const int32_t warp = warpAt(row, first);
      while (column < columns && warpAt(row, column) == warp) {
        ++column;
      }
      svg_.box(left + first * wide, y_ + row * high, (column - first) * wide, high, colourOf(warp));
      warps.insert(warp);
    }
  }
  int32_t line = 0;
  for (const int32_t warp : warps) {
    const double x = left + extent + kGap + line / kLines * 80.0, y = y_ + line % kLines * kLine;
    svg_.box(x, y, 12, 12, colourOf(warp));
    svg_.text(x + 18, y + 10, "warp " + std::to_string(warp), Font::Small);
    ++line;
  }
}

// Rows along the axis whose neighbours lie apart.
void Picture::drawMemory(const std::string &title, const Layout &layout, std::span<const int32_t> shape, int32_t elementBytes) {
  constexpr double kWide = 46, kHigh = 17;
  constexpr int32_t kUnit = 16, kRows = 16, kUnits = 16, kGroups = 8; // bytes; eight units are the 32 banks
  const Layout::Bases &bases = layout.bases(HwDim::Offset);
  const unsigned fast = !bases.empty() && bases[0][1] == 0 && bases[0][0] != 0 ? 0 : 1;
  const int32_t perUnit = std::max(1, kUnit / elementBytes);
  const int32_t units = std::min(kUnits, (shape[fast] + perUnit - 1) / perUnit), rows = std::min(kRows, shape[1 - fast]);
  heading(title, std::string("the number of 16 bytes in the slot, by ") + (fast == 1 ? "rows" : "columns") +
                     " of the tile; one colour: the same banks");
  const ir::LayoutInverse inverse(layout);
  for (int32_t row = 0; row < rows; ++row) {
    svg_.text(0, y_ + row * kHigh + 12, std::to_string(row), Font::Small);
    for (int32_t unit = 0; unit < units; ++unit) {
      Coords at(2);
      at[fast] = unit * perUnit;
      at[1 - fast] = row;
      const int32_t number = inverse.offsetOf(at) * elementBytes / kUnit;
      svg_.box(24 + unit * kWide, y_ + row * kHigh, kWide, kHigh, colourOf(number % kGroups));
      svg_.centred(24 + (unit + 0.5) * kWide, y_ + row * kHigh + 12, std::to_string(number), Font::Cell);
    }
  }
  y_ += rows * kHigh + kGap;
}

} // namespace libtile
