// SPDX-License-Identifier: Apache-2.0
#include "codegen/nvidia/wgmma.h"

#include "ir/ops.h"
#include "passes/gpu/matrix_buffers.h"

#include <algorithm>
#include <bit>
#include <map>

namespace libtile::codegen::nvidia {
namespace {

using ir::Coords;
using ir::HwDim;
using ir::Layout;

constexpr int32_t kWidest = 256; // columns of one instruction
constexpr int32_t kWords = 4;    // of a that one instruction takes from registers

// How an instruction is written for operands of a type. Those of two formats differ in the names alone.
struct Kind {
  ir::Elem operand;
  std::optional<ir::Float8> format; // that the operand holds codes of
  const char *operandName, *sumName;
  bool turns = false;  // has bits that say which axis of an operand is the fast one
  bool scales = false; // has factors of 1 or -1
  int32_t many = 8;    // beyond 32 columns their number is a multiple of this
};
constexpr Kind kKinds[] = {
    {ir::Elem::F16, {}, "f16", "f32", true, true},
    {ir::Elem::BF16, {}, "bf16", "f32", true, true},
    {ir::Elem::I8, {}, "s8", "s32", false, false, 16},
    {ir::Elem::F32, {}, "tf32", "f32", false, true}, // of which it ignores the last 13 bits
    {ir::Elem::I8, ir::Float8::e4nv, "e4m3", "f32", false, true},
    {ir::Elem::I8, ir::Float8::e5, "e5m2", "f32", false, true},
};

const Kind &kindOf(const ir::DotPart &part) {
  const auto *found = std::ranges::find_if(
      kKinds, [&](const Kind &kind) { return kind.operand == part.elem && kind.format == part.format; });
  ir::check(found != std::end(kKinds), "wgmma takes the operands of its unit");
  return *found;
}

// The fields of a descriptor but for the address: `leading` from bit 16, `stride` from bit 32, both in units of
// 16 bytes, and from bit 62 what is swizzled: 1 for rows of 128 bytes, 2 for 64, 3 for 32.
int64_t descriptorOf(const passes::MatrixWalk &walk) {
  const uint64_t mode = walk.rowBytes == 128 ? 1 : walk.rowBytes == 64 ? 2 : 3;
  const auto units = [](int32_t bytes) { return static_cast<uint64_t>(bytes / 16); };
  return static_cast<int64_t>(units(walk.leading) << 16 | units(walk.stride) << 32 | mode << 62);
}

using Registers = std::map<Coords, int32_t>;

// The register of thread 0's element.
Registers registersOf(const Layout &layout) {
  Registers result;
  for (int32_t reg = 0; reg < layout.size(HwDim::Reg); ++reg) {
    result.try_emplace(layout.applyOne(HwDim::Reg, reg), reg);
  }
  return result;
}

class Writer {
public:
  Writer(const ir::Function &fn, ir::OpId dot, const ir::DotUnit &unit, const std::string &place)
      : fn_(fn), dot_(dot), unit_(unit), kind_(kindOf(unit.a)), place_(place), fromZero_(startsFromZero(fn, dot)), sums_(layoutOf(fn.result(dot))), acc_(registersOf(sums_)) {
    const ir::Type acc = fn.type(fn.result(dot)), a = fn.type(fn.operand(dot, 0));
    m_ = acc.dim(0);
    n_ = acc.dim(1);
    k_ = a.dim(1);
    rows_ = unit_.m / passes::warpsTogether(unit_);
    for (const Coords &basis : sums_.bases(HwDim::Warp)) {
      rows_ *= basis[0] != 0 ? 2 : 1;
      n_ /= basis[1] != 0 ? 2 : 1;
    }
    // Of a thread: the accumulators that the text takes, and the words of a.
    const int32_t sums = m_ / rows_ * n_ / 2;
    words_ = !place.empty() ? 0 : fromZero_ ? sums : 2 * sums;
    addresses_ = words_ + (unit_.a.inShared ? 0 : m_ / rows_ * (k_ / unit_.k) * kWords);
    if (!unit_.a.inShared) {
      a_ = registersOf(layoutOf(fn.operand(dot, 0)));
    }
  }

  WgmmaCode run() {
    const int32_t columns = widest();
    // Rows of all warps: in the next ones each warp has its next registers.
    for (int32_t row = 0; row < m_; row += rows_) {
      std::vector<std::string> fragments;
      for (int32_t k = 0; k < k_ && !unit_.a.inShared; k += unit_.k) {
        fragments.push_back(fragmentOf(row, k));
      }
      for (int32_t column = 0; column < n_; column += columns) {
        const std::string accumulators = accumulatorsOf(row, column, columns);
        for (int32_t k = 0; k < k_; k += unit_.k) {
          const std::string a = unit_.a.inShared ? describe(0, "a", {row, k}, {unit_.m, unit_.k})
                                                 : fragments[static_cast<size_t>(k / unit_.k)];
          const std::string b = describe(1, "b", {k, column}, {unit_.k, columns});
          multiply(accumulators, a, b, columns, fromZero_ && k == 0 ? "starts" : "adds");
        }
      }
    }
    moveWarps();
    code_.text = "{ .reg .b64 a, b;\n\t.reg .pred adds, starts;\n\tsetp.eq.b32 adds, 0, 0;\n\t" +
                 std::string(fromZero_ ? "setp.ne.b32 starts, 0, 0;\n\t" : "") + "wgmma.fence.sync.aligned;\n\t" +
                 steps_ + "wgmma.commit_group.sync.aligned; }";
    return std::move(code_);
  }

private:
  [[nodiscard]] const Layout &layoutOf(ir::ValueId value) const { return fn_.layout(fn_.type(value).layout()); }
  [[nodiscard]] std::optional<passes::MatrixWalk> walkOf(unsigned operand, const Coords &first,
                                                         const Coords &extents) const {
    return passes::matrixWalk(layoutOf(fn_.operand(dot_, operand)), first, extents,
                              static_cast<int32_t>(ir::byteSize(unit_.a.elem)));
  }

  // The columns that one instruction takes: as many as a descriptor reaches, wherever they start.
  [[nodiscard]] int32_t widest() const {
    for (int32_t columns = std::min(n_, kWidest); columns >= unit_.n; --columns) {
      const int32_t step = columns > 32 ? kind_.many : unit_.n;
      if (columns % step == 0 && n_ % columns == 0 && reaches(columns)) {
        return columns;
      }
    }
    fail();
  }

  [[nodiscard]] bool reaches(int32_t columns) const {
    for (int32_t column = 0; column < n_; column += columns) {
      if (!walkOf(1, {0, column}, {unit_.k, columns})) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] int32_t registerAt(const Registers &registers, const Coords &coords) const {
    const auto found = registers.find(coords);
    if (found == registers.end()) {
      throw ir::UserError("the layouts of a dot are not those of its unit", fn_.locationOf(dot_));
    }
    return found->second;
  }

  // What thread 0 has in a register of the instruction whose part starts there.
  static Coords elementOf(const Layout::Bases &registers, int32_t number, int32_t row, int32_t column) {
    Coords coords = {row, column};
    for (const Coords &basis : registers) {
      coords[0] += number % 2 * basis[0];
      coords[1] += number % 2 * basis[1];
      number /= 2;
    }
    return coords;
  }

  // `{$0, $1, ...}` of one instruction: pairs of columns, eight rows below, the next columns.
  std::string accumulatorsOf(int32_t row, int32_t column, int32_t columns) {
    std::string list;
    for (int32_t i = 0; i < columns / 2; ++i) {
      Coords coords = elementOf(unit_.acc.regs, i % 4, row, column);
      coords[1] += i / 4 * unit_.n;
      const int32_t found = registerAt(acc_, coords);
      list += list.empty() ? "{" : ", ";
      list += place_.empty() ? "$" + std::to_string(code_.registers.size()) : place_ + std::to_string(found);
      if (place_.empty()) {
        code_.registers.push_back(found);
      }
    }
    return list + "}";
  }

  // The words of one instruction's part of a.
  std::string fragmentOf(int32_t row, int32_t k) {
    const int32_t elements = (1 << unit_.a.regs.size()) / kWords;
    std::string list;
    for (int32_t word = 0; word < kWords; ++word) {
      list += (list.empty() ? "{$" : ", $") + std::to_string(words_ + code_.fragments.size() / static_cast<size_t>(elements));
      for (int32_t i = word * elements; i < (word + 1) * elements; ++i) {
        code_.fragments.push_back(registerAt(a_, elementOf(unit_.a.regs, i, row, k)));
      }
    }
    return list + "}";
  }

  // `name` takes the operand's descriptor, that of the part at `first`.
  std::string describe(unsigned operand, const std::string &name, const Coords &first, const Coords &extents) {
    const auto walk = walkOf(operand, first, extents);
    const bool isTurned = walk && walk->fastAxis != (operand == 0 ? 1U : 0U);
    if (!walk || (isTurned && !kind_.turns)) {
      fail();
    }
    const int64_t descriptor = descriptorOf(*walk);
    ir::check(code_.descriptors[operand] == 0 || code_.descriptors[operand] == descriptor,
              "parts of an operand lie alike");
    code_.descriptors[operand] = descriptor;
    transposed_[operand] = isTurned;
    const int32_t number = addresses_ + (operand == 1 && unit_.a.inShared ? 1 : 0);
    steps_ += "add.s64 " + name + ", $" + std::to_string(number) + ", " + std::to_string(walk->start / 16) + ";\n\t";
    return name;
  }

  void multiply(const std::string &accumulators, const std::string &a, const std::string &b, int32_t columns, const char *adds) {
    const auto flag = [&](bool asks, bool set) { return std::string(!asks ? "" : set ? ", 1" : ", 0"); };
    steps_ += "wgmma.mma_async.sync.aligned.m64n" + std::to_string(columns) + "k" + std::to_string(unit_.k) + "." +
              kind_.sumName + "." + kind_.operandName + "." + kindOf(unit_.b).operandName + " " + accumulators + ", " + a + ", " + b + ", " + adds +
              flag(kind_.scales, true) + flag(kind_.scales, true) +
              flag(kind_.turns && unit_.a.inShared, transposed_[0]) + flag(kind_.turns, transposed_[1]) + ";\n\t";
  }

  // Of the warps' bits the lower ones name the warp among those that issue together.
  void moveWarps() {
    const int32_t together = passes::warpsTogether(unit_);
    const auto bytes = static_cast<int32_t>(ir::byteSize(unit_.a.elem));
    for (const unsigned operand : {0U, 1U}) {
      if (!(operand == 0 ? unit_.a : unit_.b).inShared) {
        continue;
      }
      const ir::LayoutInverse inverse(layoutOf(fn_.operand(dot_, operand)));
      int32_t warp = 1;
      for (const Coords &basis : sums_.bases(HwDim::Warp)) {
        const Coords part = operand == 0 ? Coords{basis[0], 0} : Coords{0, basis[1]};
        code_.warps[operand].push_back(warp < together ? 0 : inverse.offsetOf(part) * bytes);
        warp *= 2;
      }
    }
  }

  [[noreturn]] void fail() const {
    throw ir::UserError("the buffers of a dot are not laid out for its unit", fn_.locationOf(dot_));
  }

  const ir::Function &fn_;
  const ir::OpId dot_;
  const ir::DotUnit &unit_;
  const Kind &kind_;
  const std::string &place_;
  const bool fromZero_;
  const Layout &sums_;
  const Registers acc_;
  Registers a_;
  int32_t m_ = 0, n_ = 0, k_ = 0;     // n: the columns of a warp
  int32_t rows_ = 0;                  // of all warps at once
  int32_t words_ = 0, addresses_ = 0; // numbers of the first word of a, and of the first descriptor
  std::string steps_;
  bool transposed_[2] = {};
  WgmmaCode code_;
};

} // namespace

bool startsFromZero(const ir::Function &fn, ir::OpId dot) {
  ir::ValueId acc = fn.operand(dot, 2);
  if (fn.defOpcode(acc) == ir::Opcode::PlaceWrite) {
    acc = fn.operand(fn.def(acc), 0);
  }
  return fn.isZero(acc);
}

WgmmaCode wgmmaCode(const ir::Function &fn, ir::OpId dot, const ir::DotUnit &unit, const std::string &place) {
  return Writer(fn, dot, unit, place).run();
}

} // namespace libtile::codegen::nvidia
