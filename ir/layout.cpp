// SPDX-License-Identifier: Apache-2.0
// Bases are kept as coordinates; where equations over F2 have to be solved, a coordinate tuple
// becomes one 64-bit word, the axes' bits side by side.
#include "ir/layout.h"

#include "ir/diagnostic.h"

#include <bit>
#include <charconv>

namespace libtile::ir {
namespace {

bool isPowerOfTwo(int32_t x) { return x > 0 && std::has_single_bit(static_cast<uint32_t>(x)); }
unsigned log2Of(int32_t x) { return std::bit_width(static_cast<uint32_t>(x)) - 1; }

uint64_t pack(std::span<const int32_t> coords, std::span<const int32_t> subtile) {
  uint64_t word = 0;
  unsigned shift = 0;
  for (size_t d = 0; d < subtile.size(); ++d) {
    word |= static_cast<uint64_t>(coords[d]) << shift;
    shift += log2Of(subtile[d]);
  }
  return word;
}

// Gaussian elimination over F2 with the combination of columns kept beside each reduced column.
class Elimination {
public:
  // Returns whether the column is independent of those before it.
  bool add(uint64_t column) {
    auto [rest, combination] = reduce(column);
    const unsigned index = count_++;
    if (rest == 0) {
      return false;
    }
    rows_.push_back({rest, combination ^ (uint64_t{1} << index)});
    return true;
  }
  struct Row {
    uint64_t value, combination;
  };
  [[nodiscard]] std::span<const Row> rows() const { return rows_; }

private:
  [[nodiscard]] std::pair<uint64_t, uint64_t> reduce(uint64_t value) const {
    uint64_t combination = 0;
    for (const Row &row : rows_) {
      if ((value & std::bit_floor(row.value)) != 0) {
        value ^= row.value;
        combination ^= row.combination;
      }
    }
    return {value, combination};
  }
  std::vector<Row> rows_;
  unsigned count_ = 0;
};

int64_t product(std::span<const int32_t> factors) {
  int64_t result = 1;
  for (const int32_t factor : factors) {
    result *= factor;
  }
  return result;
}

constexpr std::array<HwDim, kNumHwDims> kDims = {HwDim::Reg, HwDim::Lane, HwDim::Warp, HwDim::Block,
                                                 HwDim::Offset};
constexpr std::array<std::string_view, kNumHwDims> kDimNames = {"regs", "lanes", "warps", "blocks",
                                                                "offsets"};

Elimination eliminate(const Layout &layout) {
  Elimination elimination;
  for (const HwDim dim : kDims) {
    for (const Coords &basis : layout.bases(dim)) {
      elimination.add(pack(basis, layout.subtile()));
    }
  }
  return elimination;
}

// nullptr, or what is wrong.
const char *violation(std::span<const int32_t> subtile, std::span<const int32_t> repeats,
                      const std::array<Layout::Bases, kNumHwDims> &bases) {
  if (subtile.size() != repeats.size()) {
    return "a layout's subtile and repeats have one rank";
  }
  unsigned bits = 0;
  int64_t elements = 1;
  for (size_t d = 0; d < subtile.size(); ++d) {
    if (!isPowerOfTwo(subtile[d]) || repeats[d] < 1) {
      return "a layout's subtile is made of powers of two, its repeats are positive";
    }
    bits += log2Of(subtile[d]);
    elements *= int64_t{subtile[d]} * repeats[d];
    if (elements > int64_t{1} << 30) {
      return "a layout has at most 2^30 elements";
    }
  }
  size_t columns = 0;
  for (const Layout::Bases &list : bases) {
    columns += list.size();
  }
  if (columns > 60) {
    return "a layout has at most 60 bases";
  }
  Elimination elimination;
  unsigned spanned = 0;
  for (const Layout::Bases &list : bases) {
    for (const Coords &basis : list) {
      if (basis.size() != subtile.size()) {
        return "a basis has one entry for each axis";
      }
      for (size_t d = 0; d < subtile.size(); ++d) {
        if (basis[d] < 0 || basis[d] >= subtile[d]) {
          return "a basis lies inside the subtile";
        }
      }
      spanned += elimination.add(pack(basis, subtile)) ? 1 : 0;
    }
  }
  return spanned == bits ? nullptr : "a layout's bases span its subtile";
}

} // namespace

Layout::Layout(std::vector<int32_t> subtile, std::vector<int32_t> repeats,
               std::array<Bases, kNumHwDims> bases)
    : subtile_(std::move(subtile)), repeats_(std::move(repeats)), bases_(std::move(bases)) {
  if (const char *wrong = violation(subtile_, repeats_, bases_)) {
    throw InternalError(std::string(wrong) + ": " + str());
  }
}

Layout Layout::coveringShape(std::span<const int32_t> shape) const {
  Layout result = *this;
  for (size_t d = 0; d < shape.size(); ++d) {
    result.repeats_[d] = (shape[d] + subtile_[d] - 1) / subtile_[d];
  }
  return result;
}

int32_t Layout::size(HwDim dim) const {
  const bool repeated = dim == HwDim::Offset || (dim == HwDim::Reg && bases(HwDim::Offset).empty());
  return subtileSize(dim) * static_cast<int32_t>(repeated ? product(repeats_) : 1);
}

bool Layout::hasRoomFor(const Layout &other) const {
  for (size_t d = 0; d < rank(); ++d) {
    if (subtile_[d] * repeats_[d] < other.subtile_[d] * other.repeats_[d]) {
      return false;
    }
  }
  return true;
}

bool Layout::covers(std::span<const int32_t> shape) const {
  if (shape.size() != rank()) {
    return false;
  }
  for (size_t d = 0; d < shape.size(); ++d) {
    if (int64_t{subtile_[d]} * repeats_[d] < shape[d] ||
        int64_t{subtile_[d]} * (repeats_[d] - 1) >= shape[d]) {
      return false;
    }
  }
  return true;
}

Coords Layout::applyOne(HwDim dim, int32_t value) const {
  Coords coords(rank(), 0);
  const Bases &list = bases(dim);
  for (size_t bit = 0; bit < list.size(); ++bit) {
    if ((value >> bit & 1) != 0) {
      for (size_t d = 0; d < rank(); ++d) {
        coords[d] ^= list[bit][d];
      }
    }
  }
  int32_t repeat = value >> list.size();
  for (size_t d = rank(); d-- > 0;) {
    coords[d] += repeat % repeats_[d] * subtile_[d];
    repeat /= repeats_[d];
  }
  return coords;
}

Coords Layout::apply(int32_t reg, int32_t lane, int32_t warp) const {
  Coords coords = applyOne(HwDim::Reg, reg);
  const Coords ofLane = applyOne(HwDim::Lane, lane);
  const Coords ofWarp = applyOne(HwDim::Warp, warp);
  for (size_t d = 0; d < rank(); ++d) {
    // The parts of lane and warp lie inside the subtile, below the bits of the repeats.
    coords[d] ^= ofLane[d] ^ ofWarp[d];
  }
  return coords;
}

LayoutInverse::LayoutInverse(const Layout &layout) : layout_(layout) {
  const Elimination elimination = eliminate(layout);
  for (const auto &[value, combination] : elimination.rows()) {
    rows_.push_back({std::bit_floor(value), value, combination});
  }
}

std::pair<uint64_t, int32_t> LayoutInverse::split(std::span<const int32_t> coords) const {
  uint64_t rest = 0;
  unsigned shift = 0;
  int32_t repeat = 0;
  for (size_t d = 0; d < layout_.rank(); ++d) {
    const int32_t extent = layout_.subtile()[d]; // a power of two
    rest |= static_cast<uint64_t>(coords[d] & (extent - 1)) << shift;
    shift += log2Of(extent);
    repeat = repeat * layout_.repeats()[d] + (coords[d] >> log2Of(extent));
  }
  uint64_t bits = 0;
  for (const Row &row : rows_) {
    if ((rest & row.lead) != 0) {
      rest ^= row.value;
      bits ^= row.combination;
    }
  }
  return {bits, repeat};
}

std::optional<Holder> LayoutInverse::holderOf(std::span<const int32_t> coords) const {
  for (size_t d = 0; d < layout_.rank(); ++d) {
    if (coords[d] < 0 || coords[d] >= layout_.subtile()[d] * layout_.repeats()[d]) {
      return std::nullopt;
    }
  }
  const auto [bits, repeat] = split(coords);
  const size_t regs = layout_.bases(HwDim::Reg).size();
  const size_t lanes = layout_.bases(HwDim::Lane).size();
  const auto field = [&, all = bits](size_t first, size_t count) {
    return static_cast<int32_t>(all >> first & ((uint64_t{1} << count) - 1));
  };
  return Holder{field(0, regs) + repeat * layout_.subtileSize(HwDim::Reg), field(regs, lanes),
                field(regs + lanes, layout_.bases(HwDim::Warp).size())};
}

int32_t LayoutInverse::offsetOf(std::span<const int32_t> coords) const {
  const auto [bits, repeat] = split(coords);
  return repeat * layout_.subtileSize(HwDim::Offset) + static_cast<int32_t>(bits);
}

int32_t Layout::offsetOf(std::span<const int32_t> coords) const {
  check(canonicalBits(HwDim::Offset) == subtileSize(HwDim::Offset) - 1,
        "a buffer's layout is injective");
  return LayoutInverse(*this).offsetOf(coords);
}

std::optional<Holder> Layout::holderOf(std::span<const int32_t> coords) const {
  return LayoutInverse(*this).holderOf(coords);
}

int32_t Layout::canonicalBits(HwDim dim) const {
  Elimination elimination;
  for (const HwDim other : kDims) {
    int32_t mask = 0;
    const Bases &list = bases(other);
    for (size_t bit = 0; bit < list.size(); ++bit) {
      mask |= elimination.add(pack(list[bit], subtile_)) ? 1 << bit : 0;
    }
    if (other == dim) {
      return mask;
    }
  }
  return 0;
}

Layout Layout::trans(std::span<const int64_t> order) const {
  const auto permute = [&](const auto &list) {
    std::vector<int32_t> result;
    for (const int64_t axis : order) {
      result.push_back(list[static_cast<size_t>(axis)]);
    }
    return result;
  };
  // The repeat index counts row-major in the result's axes, so registers are renumbered when more
  // than one axis repeats.
  Layout result;
  result.subtile_ = permute(subtile_);
  result.repeats_ = permute(repeats_);
  for (const HwDim dim : kDims) {
    for (const Coords &basis : bases(dim)) {
      result.bases_[unsigned(dim)].push_back(permute(basis));
    }
  }
  return result;
}

Layout Layout::expandDims(unsigned axis) const {
  Layout result = *this;
  result.subtile_.insert(result.subtile_.begin() + axis, 1);
  result.repeats_.insert(result.repeats_.begin() + axis, 1);
  for (Bases &list : result.bases_) {
    for (Coords &basis : list) {
      basis.insert(basis.begin() + axis, 0);
    }
  }
  return result;
}

Layout Layout::slice(unsigned axis) const {
  Layout result = *this;
  result.subtile_.erase(result.subtile_.begin() + axis);
  result.repeats_.erase(result.repeats_.begin() + axis);
  for (Bases &list : result.bases_) {
    for (Coords &basis : list) {
      basis.erase(basis.begin() + axis);
    }
  }
  return result;
}

Layout Layout::withoutReplicatedRegs() const {
  Layout result = *this;
  Bases &regs = result.bases_[unsigned(HwDim::Reg)];
  regs.clear();
  Elimination elimination;
  for (const Coords &basis : bases(HwDim::Reg)) {
    if (elimination.add(pack(basis, subtile_))) {
      regs.push_back(basis);
    }
  }
  return result;
}

// ---- text

namespace {

void print(std::string &out, std::span<const int32_t> list) {
  out += '[';
  for (size_t i = 0; i < list.size(); ++i) {
    out += (i == 0 ? "" : ",") + std::to_string(list[i]);
  }
  out += ']';
}

class Scanner {
public:
  explicit Scanner(std::string_view text) : text_(text) {}
  bool take(std::string_view token) {
    skipBlanks();
    if (!text_.starts_with(token)) {
      return false;
    }
    text_.remove_prefix(token.size());
    return true;
  }
  bool atEnd() {
    skipBlanks();
    return text_.empty();
  }
  // "[1,2,3]"
  std::optional<std::vector<int32_t>> list() {
    std::vector<int32_t> result;
    if (!take("[")) {
      return std::nullopt;
    }
    while (!take("]")) {
      skipBlanks();
      int32_t value = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
      if (error != std::errc() || result.size() >= 64) {
        return std::nullopt;
      }
      text_.remove_prefix(end - text_.data());
      result.push_back(value);
      if (!take(",") && !text_.starts_with("]")) {
        return std::nullopt;
      }
    }
    return result;
  }
  // "[[0,1],[0,2]]"
  std::optional<Layout::Bases> bases() {
    Layout::Bases result;
    if (!take("[")) {
      return std::nullopt;
    }
    while (!take("]")) {
      auto basis = list();
      if (!basis || result.size() >= 64) {
        return std::nullopt;
      }
      result.push_back(std::move(*basis));
      if (!take(",") && !text_.starts_with("]")) {
        return std::nullopt;
      }
    }
    return result;
  }

private:
  void skipBlanks() {
    while (!text_.empty() && text_.front() == ' ') {
      text_.remove_prefix(1);
    }
  }
  std::string_view text_;
};

} // namespace

std::string Layout::str() const {
  std::string out;
  for (const HwDim dim : kDims) {
    const bool always = dim == HwDim::Reg || dim == HwDim::Lane || dim == HwDim::Warp;
    if (bases(HwDim::Offset).empty() ? !always && bases(dim).empty() : bases(dim).empty()) {
      continue;
    }
    out += std::string(kDimNames[unsigned(dim)]) + "=[";
    for (size_t i = 0; i < bases(dim).size(); ++i) {
      out += i == 0 ? "" : ",";
      print(out, bases(dim)[i]);
    }
    out += "] ";
  }
  out += "subtile=";
  print(out, subtile_);
  out += " repeats=";
  print(out, repeats_);
  return out;
}

std::optional<Layout> Layout::parse(std::string_view text) {
  Scanner scanner(text);
  std::array<Bases, kNumHwDims> bases;
  for (const HwDim dim : kDims) {
    if (scanner.take(kDimNames[unsigned(dim)])) {
      auto list = scanner.take("=") ? scanner.bases() : std::nullopt;
      if (!list) {
        return std::nullopt;
      }
      bases[unsigned(dim)] = std::move(*list);
    }
  }
  auto subtile = scanner.take("subtile=") ? scanner.list() : std::nullopt;
  auto repeats = scanner.take("repeats=") ? scanner.list() : std::nullopt;
  if (!subtile || !repeats || !scanner.atEnd() || violation(*subtile, *repeats, bases) != nullptr) {
    return std::nullopt;
  }
  return Layout(std::move(*subtile), std::move(*repeats), std::move(bases));
}

} // namespace libtile::ir
