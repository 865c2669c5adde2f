// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/shared_layouts.h"

#include "ir/diagnostic.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/Support/MathExtras.h>

#include <algorithm>
#include <bit>
#include <limits>

namespace libtile::passes {
namespace {

using ir::Coords;
using ir::HwDim;
using ir::Layout;

// Offsets of a register layout's bases. The threads' part of an offset is linear: it lies inside
// the subtile.
struct Columns {
  using List = llvm::SmallVector<int32_t, 8>; // choosing a buffer looks at hundreds of them
  List regs, lanes, warps;
  // Of repeats: the buffer's subtile may hold several of the registers'.
  List repeats;
  int32_t subtileSize = 1; // elements of the buffer's subtile

  template <class Map> [[nodiscard]] Columns mapped(Map map) const {
    Columns result = *this;
    for (List *list : {&result.regs, &result.lanes, &result.warps, &result.repeats}) {
      std::transform(list->begin(), list->end(), list->begin(), map);
    }
    return result;
  }
};

template <class OffsetOf>
Columns columnsOf(const Layout &registers, int32_t subtileSize, OffsetOf offsetOf) {
  Columns result;
  result.subtileSize = subtileSize;
  const std::pair<HwDim, Columns::List *> lists[] = {
      {HwDim::Reg, &result.regs}, {HwDim::Lane, &result.lanes}, {HwDim::Warp, &result.warps}};
  for (const auto &[dim, list] : lists) {
    for (const Coords &basis : registers.bases(dim)) {
      list->push_back(offsetOf(basis));
    }
  }
  for (unsigned axis = 0; axis < registers.rank(); ++axis) {
    for (int32_t step = 1; step < registers.repeats()[axis]; step *= 2) {
      Coords coords(registers.rank(), 0);
      coords[axis] = step * registers.subtile()[axis];
      result.repeats.push_back(offsetOf(coords));
    }
  }
  return result;
}

Columns columnsOf(const Layout &registers, const Layout &buffer) {
  const ir::LayoutInverse inverse(buffer);
  return columnsOf(registers, buffer.subtileSize(HwDim::Offset),
                   [&](const Coords &basis) { return inverse.offsetOf(basis); });
}

// XOR of the entries that the bits of `value` choose.
int32_t combine(std::span<const int32_t> columns, int32_t value) {
  int32_t result = 0;
  for (size_t bit = 0; bit < columns.size(); ++bit) {
    result ^= (value >> bit & 1) != 0 ? columns[bit] : 0;
  }
  return result;
}

// The register bits whose offsets are 1, 2, 4, ...: as many as there are, at most `limit`.
std::vector<int32_t> contiguousBits(std::span<const int32_t> regs, unsigned limit) {
  std::vector<int32_t> result;
  while (result.size() < limit) {
    const auto found = std::find(regs.begin(), regs.end(), 1 << result.size());
    if (found == regs.end()) {
      break;
    }
    result.push_back(static_cast<int32_t>(found - regs.begin()));
  }
  return result;
}

// No other part of the coordinate touches the low bits: each group starts at a multiple of its
// size.
bool aligned(const Columns &columns, std::span<const int32_t> group) {
  const int32_t low = (1 << group.size()) - 1;
  for (size_t bit = 0; bit < columns.regs.size(); ++bit) {
    if (std::find(group.begin(), group.end(), static_cast<int32_t>(bit)) == group.end() &&
        (columns.regs[bit] & low) != 0) {
      return false;
    }
  }
  const auto outside = [&](int32_t offset) { return (offset & low) == 0; };
  return std::all_of(columns.lanes.begin(), columns.lanes.end(), outside) &&
         std::all_of(columns.warps.begin(), columns.warps.end(), outside) &&
         std::all_of(columns.repeats.begin(), columns.repeats.end(), outside) &&
         columns.subtileSize > low;
}

// Lane bits 0.. hold the offset bits from `first` on: lanes[i] == 1 << (first + i) for `count` bits
// starting at lane bit `from`.
bool lanesCount(std::span<const int32_t> lanes, unsigned from, unsigned count, unsigned first) {
  for (unsigned i = 0; i < count; ++i) {
    if (lanes.size() <= from + i || lanes[from + i] != 1 << (first + i)) {
      return false;
    }
  }
  return true;
}

std::optional<BufferAccess> matrixAccess(const Columns &columns, int32_t elementBytes) {
  const auto &[regs, lanes, warps, repeats, subtileSize] = columns;
  if (elementBytes > 4 || lanes.size() != 5) {
    return std::nullopt;
  }
  const unsigned unitBits = llvm::Log2_64(4 / elementBytes);
  const int32_t rowMask = 16 / elementBytes - 1;
  // Rows of 16 bytes: apart from the bits that count inside a row nothing may touch it.
  const auto outsideRow = [&](int32_t offset) { return (offset & rowMask) == 0; };
  if (!std::all_of(warps.begin(), warps.end(), outsideRow) ||
      !std::all_of(repeats.begin(), repeats.end(), outsideRow)) {
    return std::nullopt;
  }
  const std::vector<int32_t> unit = contiguousBits(regs, unitBits);
  const auto othersOutside = [&](std::span<const int32_t> except) {
    for (size_t bit = 0; bit < regs.size(); ++bit) {
      if (std::find(except.begin(), except.end(), static_cast<int32_t>(bit)) == except.end() &&
          !outsideRow(regs[bit])) {
        return false;
      }
    }
    return true;
  };
  if (unit.size() == unitBits && lanesCount(lanes, 0, 2, unitBits) && outsideRow(lanes[2]) &&
      outsideRow(lanes[3]) && outsideRow(lanes[4]) && othersOutside(unit)) {
    return BufferAccess{AccessKind::Matrix, 1 << unitBits, unit};
  }
  if (elementBytes == 2 && !regs.empty() && lanesCount(lanes, 2, 3, 0) && outsideRow(lanes[0]) &&
      outsideRow(lanes[1]) && othersOutside({})) {
    return BufferAccess{AccessKind::MatrixTransposed, 2, {0}};
  }
  return std::nullopt;
}

// Lanes whose elements lie side by side, and elements of a lane that lie a multiple of 8 bytes apart.
std::optional<BufferAccess> turnedAccess(const Columns &columns, int32_t elementBytes) {
  constexpr int32_t kBytes = 8, kWidest = 2; // of a lane, of an element
  const int32_t elements = kBytes / elementBytes;
  const auto bits = llvm::Log2_64(elements);
  const auto isApart = [&](int32_t offset) { return (offset & (elements - 1)) == 0; };
  if (elementBytes > kWidest || columns.lanes.size() < 4 || columns.regs.size() < bits || columns.subtileSize < elements ||
      !lanesCount(columns.lanes, 0, bits, 0) || !std::ranges::all_of(std::span(columns.lanes).subspan(bits), isApart) ||
      !std::ranges::all_of(columns.regs, isApart) || !std::ranges::all_of(columns.warps, isApart) ||
      !std::ranges::all_of(columns.repeats, isApart)) {
    return std::nullopt;
  }
  BufferAccess access{AccessKind::Turned, elements, {}};
  for (unsigned bit = 0; bit < bits; ++bit) {
    access.registerBits.push_back(static_cast<int32_t>(bit));
  }
  return access;
}

// Offsets that bits of the lane's number add to what one access reaches. Vectors: the lanes; matrices: the eight rows of one.
Columns::List laneColumns(const Columns &columns, const BufferAccess &access) {
  const Columns::List &lanes = columns.lanes;
  switch (access.kind) {
  case AccessKind::Vector: return lanes;
  case AccessKind::Turned: {
    const size_t bits = access.registerBits.size();
    Columns::List named(lanes.begin() + static_cast<int64_t>(bits), lanes.begin() + 4);
    for (const int32_t bit : access.registerBits) {
      named.push_back(columns.regs[static_cast<size_t>(bit)]);
    }
    named.append(lanes.begin() + 4, lanes.end());
    return named;
  }
  case AccessKind::Matrix: return {lanes[2], lanes[3], lanes[4]};
  case AccessKind::MatrixTransposed: return {columns.regs[static_cast<size_t>(access.registerBits[0])], lanes[0], lanes[1]};
  }
  throw ir::InternalError("a kind of access");
}

int32_t accessBytes(const BufferAccess &access, int32_t elementBytes) {
  const bool isMatrix = access.kind == AccessKind::Matrix || access.kind == AccessKind::MatrixTransposed;
  return isMatrix ? 16 : access.elements * elementBytes;
}

BufferAccess writeAccess(const Columns &columns, int32_t elementBytes, int32_t maxBytes) {
  std::vector<int32_t> group = contiguousBits(columns.regs, llvm::Log2_64(std::max(1, maxBytes / elementBytes)));
  while (!group.empty() && !aligned(columns, group)) {
    group.pop_back();
  }
  return {AccessKind::Vector, 1 << group.size(), std::move(group)};
}

BufferAccess readAccess(const Columns &columns, int32_t elementBytes, const ir::SharedReads &reads) {
  BufferAccess vector = writeAccess(columns, elementBytes, 16);
  std::optional<BufferAccess> together;
  switch (reads.matrices) {
  case ir::MatrixReads::None: break;
  case ir::MatrixReads::EightRows: together = vector.elements * elementBytes < 16 ? matrixAccess(columns, elementBytes) : std::nullopt; break;
  case ir::MatrixReads::SixteenLanes: together = turnedAccess(columns, elementBytes); break;
  }
  return together ? std::move(*together) : std::move(vector);
}

constexpr int32_t kWriteBanks = 32, kBankBytes = 4;

// Of the space that the columns span over F2.
int32_t rankOf(std::span<const int32_t> columns) {
  llvm::SmallVector<uint32_t, 12> pivots;
  for (const int32_t column : columns) {
    auto rest = static_cast<uint32_t>(column);
    for (const uint32_t pivot : pivots) {
      rest = std::min(rest, rest ^ pivot);
    }
    if (rest != 0) {
      pivots.push_back(rest);
    }
  }
  return static_cast<int32_t>(pivots.size());
}

// What `bankParts` counts, from the columns: lanes that are served at once reach a space of words, or the same moved, whose image
// are the banks, and of each bank as many words as that map takes to nothing.
int32_t partsOf(const Columns &columns, int32_t elementBytes, const BufferAccess &access, int32_t banks = kWriteBanks) {
  const Columns::List lanes = laneColumns(columns, access);
  const int32_t bytes = std::max(kBankBytes, accessBytes(access, elementBytes));
  const size_t atOnce = std::min<size_t>(lanes.size(), llvm::Log2_64(kBankBytes * banks / bytes));
  Columns::List words, inBanks;
  for (const int32_t lane : std::span(lanes).first(atOnce)) {
    words.push_back(lane * elementBytes / kBankBytes);
  }
  for (int32_t word = 1; word < bytes / kBankBytes; word *= 2) {
    words.push_back(word);
  }
  std::ranges::transform(words, std::back_inserter(inBanks), [&](int32_t word) { return word & (banks - 1); });
  return 1 << (static_cast<int32_t>(lanes.size() - atOnce) + rankOf(words) - rankOf(inBanks));
}

// With the lanes as such a read is served.
Columns inOrder(const Columns &columns, int32_t elementBytes, const BufferAccess &access, const ir::SharedReads &reads) {
  Columns result = columns;
  if (access.kind == AccessKind::Vector && accessBytes(access, elementBytes) == 16) {
    for (size_t i = 0; i < columns.lanes.size(); ++i) {
      result.lanes[i] = combine(columns.lanes, reads.order[i]);
    }
  }
  return result;
}

// Axes of a buffer from the one side by side to the outermost.
std::vector<int32_t> axisOrder(size_t rank, size_t fast) {
  std::vector<int32_t> order = {static_cast<int32_t>(fast)};
  for (size_t d = rank; d-- > 0;) {
    if (d != fast) {
      order.push_back(static_cast<int32_t>(d));
    }
  }
  return order;
}

int32_t positionOf(const Coords &coords, std::span<const int32_t> subtile,
                   std::span<const int32_t> order) {
  int32_t position = 0, stride = 1;
  for (const int32_t axis : order) {
    position += coords[static_cast<size_t>(axis)] % subtile[static_cast<size_t>(axis)] * stride;
    stride *= subtile[static_cast<size_t>(axis)];
  }
  return position;
}

// Subtiles as large as the layouts' and as the shape allows without more padding.
std::vector<int32_t> chooseSubtile(std::span<const int32_t> shape, const BufferUse &use) {
  std::vector<int32_t> subtile(shape.size(), 1);
  for (const auto &list : {use.writers, use.readers}) {
    for (const Layout &layout : list) {
      for (size_t d = 0; d < shape.size(); ++d) {
        subtile[d] = std::max(subtile[d], layout.subtile()[d]);
      }
    }
  }
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto padded = [&](int32_t unit) { return (shape[d] + unit - 1) / unit * unit; };
    while (subtile[d] < shape[d] && padded(2 * subtile[d]) <= padded(subtile[d])) {
      subtile[d] *= 2;
    }
  }
  return subtile;
}

class BufferCost {
public:
  BufferCost(const BufferUse &use, std::span<const int32_t> subtile, std::span<const int32_t> order)
      : use_(use) {
    int32_t size = 1;
    for (const int32_t extent : subtile) {
      size *= extent;
    }
    const auto position = [&](const Coords &basis) { return positionOf(basis, subtile, order); };
    for (const Layout &layout : use.writers) {
      writers_.push_back(columnsOf(layout, size, position));
    }
    for (const Layout &layout : use.readers) {
      readers_.push_back(columnsOf(layout, size, position));
    }
  }
  // What an access adds is less than what a part does. From `most` on it may be less than all.
  [[nodiscard]] int64_t of(const Swizzle &swizzle, int64_t most) const {
    const auto map = [&](int32_t position) { return swizzle.apply(position); };
    int64_t cost = 0;
    for (size_t i = 0; i < writers_.size(); ++i) {
      const Columns columns = writers_[i].mapped(map);
      const BufferAccess access = writeAccess(columns, use_.elementBytes, 16);
      cost += accessCost(columns, use_.writers[i], access, kWriteBanks) + wordsJoined(use_.writers[i], access);
      // A copy in parts smaller than its width is no copy.
      cost += access.elements * use_.elementBytes < use_.minUnitBytes ? int64_t{1} << 60 : 0;
    }
    for (size_t i = 0; i < readers_.size() && cost < most; ++i) {
      const Columns columns = readers_[i].mapped(map);
      const BufferAccess access = readAccess(columns, use_.elementBytes, use_.reads);
      cost += accessCost(inOrder(columns, use_.elementBytes, access, use_.reads), use_.readers[i], access, use_.reads.banks);
    }
    return cost;
  }

  // What no swizzle goes below: a word of each bank at a time, each lane's elements once, in accesses as wide as without one.
  [[nodiscard]] int64_t least() const {
    int64_t cost = 0;
    const auto add = [&](const Layout &layout, const BufferAccess &access, int32_t banks) {
      const int64_t lanes = int64_t{1} << std::popcount(static_cast<uint32_t>(layout.canonicalBits(HwDim::Lane)));
      cost += lanes * use_.elementBytes * layout.size(HwDim::Reg) / (int64_t{banks} * 4) * kPart + layout.size(HwDim::Reg) / access.elements;
    };
    for (size_t i = 0; i < writers_.size(); ++i) {
      add(use_.writers[i], writeAccess(writers_[i], use_.elementBytes, 16), kWriteBanks);
    }
    for (size_t i = 0; i < readers_.size(); ++i) {
      add(use_.readers[i], readAccess(readers_[i], use_.elementBytes, use_.reads), use_.reads.banks);
    }
    return cost;
  }

private:
  static constexpr int64_t kPart = int64_t{1} << 20;
  // Words whose elements are no neighbours in registers: an instruction for each, as an access is one.
  [[nodiscard]] int64_t wordsJoined(const Layout &layout, const BufferAccess &access) const {
    const int32_t perWord = std::min(access.elements, std::max(1, kBankBytes / use_.elementBytes));
    return perWord == 1 || access.registerBits[0] == 0 ? 0 : layout.size(HwDim::Reg) / perWord;
  }
  [[nodiscard]] int64_t accessCost(const Columns &columns, const Layout &layout, const BufferAccess &access, int32_t banks) const {
    const int64_t accesses = layout.size(HwDim::Reg) / access.elements;
    return accesses * (partsOf(columns, use_.elementBytes, access, banks) * kPart + 1);
  }
  const BufferUse &use_;
  std::vector<Columns> writers_, readers_;
};

} // namespace

int32_t bankParts(std::span<const int32_t> addresses, int32_t bytes, int32_t banks) {
  constexpr size_t kMostBanks = 64;
  const auto count = static_cast<size_t>(banks);
  const size_t lanesAtOnce = std::min<size_t>(addresses.size(), 4 * count / static_cast<size_t>(std::max(bytes, 4)));
  int32_t total = 0;
  // Of one bank after the other; a lane's words lie side by side.
  const size_t room = lanesAtOnce * ((static_cast<size_t>(bytes) / 4 + 2) / count + 1);
  llvm::SmallVector<int32_t, kMostBanks * 32> words;
  words.resize_for_overwrite(count * room);
  for (size_t first = 0; first < addresses.size(); first += lanesAtOnce) {
    std::array<size_t, kMostBanks> counts = {}; // of different words
    for (size_t i = first; i < std::min(first + lanesAtOnce, addresses.size()); ++i) {
      for (int32_t word = addresses[i] / 4; word <= (addresses[i] + bytes - 1) / 4; ++word) {
        const size_t bank = static_cast<size_t>(word) % count;
        int32_t *begin = words.data() + bank * room, *end = begin + counts[bank];
        if (std::find(begin, end, word) == end) {
          *end = word;
          ++counts[bank];
        }
      }
    }
    total += static_cast<int32_t>(std::max<size_t>(1, *std::ranges::max_element(counts)));
  }
  return total;
}

BufferAccess writeAccess(const Layout &registers, const Layout &buffer, int32_t elementBytes,
                         int32_t maxBytes) {
  return writeAccess(columnsOf(registers, buffer), elementBytes, maxBytes);
}

std::optional<BufferAccess> matrixWriteAccess(const Layout &registers, const Layout &buffer, int32_t elementBytes,
                                              const ir::SharedReads &reads) {
  const Columns columns = columnsOf(registers, buffer);
  const bool isWide = writeAccess(columns, elementBytes, 16).elements * elementBytes == 16;
  return isWide || !reads.writesMatrices ? std::nullopt : matrixAccess(columns, elementBytes);
}

BufferAccess readAccess(const Layout &registers, const Layout &buffer, int32_t elementBytes, const ir::SharedReads &reads) {
  return readAccess(columnsOf(registers, buffer), elementBytes, reads);
}

std::vector<int32_t> namedOffsets(const Layout &registers, const Layout &buffer, const BufferAccess &access) {
  const Columns::List lanes = laneColumns(columnsOf(registers, buffer), access);
  return {lanes.begin(), lanes.end()};
}

int32_t bankConflicts(const Layout &registers, const Layout &buffer, int32_t elementBytes, const BufferAccess &access,
                      const ir::SharedReads &reads) {
  const Columns columns = inOrder(columnsOf(registers, buffer), elementBytes, access, reads);
  const int32_t lanes = 1 << laneColumns(columns, access).size();
  const int32_t least = std::max(1, lanes * accessBytes(access, elementBytes) / (4 * reads.banks));
  return std::max(0, partsOf(columns, elementBytes, access, reads.banks) - least);
}

int64_t accessCost(const Layout &registers, const Layout &buffer, int32_t elementBytes,
                   const BufferAccess &access, const ir::SharedReads &reads) {
  const Columns columns = inOrder(columnsOf(registers, buffer), elementBytes, access, reads);
  const int32_t once = partsOf(columns, elementBytes, access, reads.banks);
  return int64_t{once} * registers.size(HwDim::Reg) / access.elements;
}

Layout chooseBuffer(std::span<const int32_t> shape, const BufferUse &use) {
  const std::vector<int32_t> subtile = chooseSubtile(shape, use);
  int32_t positionBits = 0;
  for (const int32_t extent : subtile) {
    positionBits += static_cast<int32_t>(llvm::Log2_64(extent));
  }
  const std::vector<Swizzle> candidates = swizzles(use.elementBytes, positionBits, 4 * use.reads.banks);
  std::vector<int32_t> bestOrder;
  Swizzle best;
  int64_t bestCost = std::numeric_limits<int64_t>::max();
  for (size_t fast = shape.size(); fast-- > 0;) {
    if (use.fastAxis >= 0 && fast != static_cast<size_t>(use.fastAxis)) {
      continue;
    }
    const std::vector<int32_t> order = axisOrder(shape.size(), fast);
    const BufferCost cost(use, subtile, order);
    const int64_t least = cost.least();
    for (const Swizzle &swizzle : candidates) {
      if (const int64_t now = cost.of(swizzle, bestCost); now < bestCost) {
        bestCost = now;
        best = swizzle;
        bestOrder = order;
      }
      if (bestCost <= least) {
        break;
      }
    }
  }
  return bufferLayout(shape, subtile, bestOrder, best);
}

} // namespace libtile::passes
