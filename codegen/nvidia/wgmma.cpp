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

// The fields of a descriptor but for the address: `leading` from bit 16, `stride` from bit 32, both in units of
// 16 bytes, and from bit 62 what is swizzled: 1 for rows of 128 bytes, 2 for 64, 3 for 32.
int64_t descriptorOf(const passes::MatrixWalk &walk) {
  const uint64_t mode = walk.rowBytes == 128 ? 1 : walk.rowBytes == 64 ? 2 : 3;
  const auto units = [](int32_t bytes) { return static_cast<uint64_t>(bytes / 16); };
  return static_cast<int64_t>(units(walk.leading) << 16 | units(walk.stride) << 32 | mode << 62);
}

class Writer {
public:
  Writer(const ir::Function &fn, ir::OpId dot, const ir::DotUnit &unit)
      : fn_(fn), dot_(dot), unit_(unit), sums_(fn.layout(fn.type(fn.result(dot)).layout())) {
    const ir::Type acc = fn.type(fn.result(dot)), a = fn.type(fn.operand(dot, 0));
    m_ = acc.dim(0);
    n_ = acc.dim(1);
    k_ = a.dim(1);
    for (int32_t reg = 0; reg < sums_.size(HwDim::Reg); ++reg) {
      registerAt_.try_emplace(sums_.applyOne(HwDim::Reg, reg), reg);
    }
  }

  WgmmaCode run() {
    const int32_t columns = widest();
    // Rows of all warps: in the next ones each warp has its next registers.
    const int32_t rows = unit_.m / passes::warpsTogether(unit_) * sums_.size(HwDim::Warp);
    for (int32_t row = 0; row < m_; row += rows) {
      for (int32_t column = 0; column < n_; column += columns) {
        const std::string accumulators = accumulatorsOf(row, column, columns);
        for (int32_t k = 0; k < k_; k += unit_.k) {
          multiply(accumulators, row, column, k, columns);
        }
      }
    }
    moveWarps();
    code_.text = "{ .reg .b64 a, b;\n\t.reg .pred adds;\n\tsetp.eq.b32 adds, 0, 0;\n\t"
                 "wgmma.fence.sync.aligned;\n\t" +
                 numbered() + "wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0; }";
    return std::move(code_);
  }

private:
  [[nodiscard]] const Layout &bufferOf(unsigned operand) const {
    return fn_.layout(fn_.type(fn_.operand(dot_, operand)).layout());
  }
  [[nodiscard]] std::optional<passes::MatrixWalk> walkOf(unsigned operand, const Coords &first,
                                                         const Coords &extents) const {
    return passes::matrixWalk(bufferOf(operand), first, extents,
                              static_cast<int32_t>(ir::byteSize(unit_.a.elem)));
  }

  // The columns that one instruction takes: as many as a descriptor reaches.
  [[nodiscard]] int32_t widest() const {
    for (int32_t columns = std::min(n_, kWidest); columns >= unit_.n; --columns) {
      if (columns % unit_.n == 0 && n_ % columns == 0 && walkOf(1, {0, 0}, {unit_.k, columns})) {
        return columns;
      }
    }
    fail();
  }

  // `{$0, $1, ...}` of one instruction: pairs of columns, eight rows below, the next columns.
  std::string accumulatorsOf(int32_t row, int32_t column, int32_t columns) {
    std::string list;
    for (int32_t i = 0; i < columns / 2; ++i) {
      const auto found = registerAt_.find({row + i / 2 % 2 * 8, column + i / 4 * 8 + i % 2});
      if (found == registerAt_.end()) {
        throw ir::UserError("the layouts of a dot are not those of its unit", fn_.locationOf(dot_));
      }
      list += (list.empty() ? "$" : ", $") + std::to_string(code_.registers.size());
      code_.registers.push_back(found->second);
    }
    return list;
  }

  // `%name` takes the operand's descriptor, that of the part at `first`.
  void describe(unsigned operand, const char *name, const Coords &first, const Coords &extents) {
    const auto walk = walkOf(operand, first, extents);
    if (!walk) {
      fail();
    }
    const int64_t descriptor = descriptorOf(*walk);
    ir::check(code_.descriptors[operand] == 0 || code_.descriptors[operand] == descriptor,
              "parts of an operand lie alike");
    code_.descriptors[operand] = descriptor;
    transposed_[operand] = walk->fastAxis != (operand == 0 ? 1U : 0U);
    steps_.push_back(std::string("add.s64 ") + name + ", #" + name + ", " + std::to_string(walk->start / 16) + ";\n\t");
  }

  void multiply(const std::string &accumulators, int32_t row, int32_t column, int32_t k, int32_t columns) {
    describe(0, "a", {row, k}, {unit_.m, unit_.k});
    describe(1, "b", {k, column}, {unit_.k, columns});
    const std::string type = unit_.a.elem == ir::Elem::F16 ? "f16" : "bf16";
    steps_.push_back("wgmma.mma_async.sync.aligned.m64n" + std::to_string(columns) + "k16.f32." + type + "." + type +
                     " {" + accumulators + "}, a, b, adds, 1, 1, " + (transposed_[0] ? "1" : "0") + ", " +
                     (transposed_[1] ? "1" : "0") + ";\n\t");
  }

  // The steps with the numbers of the descriptors: behind the accumulators, which come twice.
  [[nodiscard]] std::string numbered() const {
    std::string text;
    for (const std::string &step : steps_) {
      const size_t place = step.find('#');
      const size_t number = 2 * code_.registers.size() + (place != std::string::npos && step[place + 1] == 'b' ? 1 : 0);
      text += place == std::string::npos
                  ? step
                  : step.substr(0, place) + "$" + std::to_string(number) + step.substr(place + 2);
    }
    return text;
  }

  // Of the warps' bits the lower ones name the warp among those that issue together.
  void moveWarps() {
    const ir::LayoutInverse inverse(bufferOf(0));
    const int32_t together = passes::warpsTogether(unit_);
    const auto bytes = static_cast<int32_t>(ir::byteSize(unit_.a.elem));
    const Layout::Bases &warps = sums_.bases(HwDim::Warp);
    for (size_t bit = 0; bit < warps.size(); ++bit) {
      code_.warps.push_back(1 << bit < together ? 0 : inverse.offsetOf(Coords{warps[bit][0], 0}) * bytes);
    }
  }

  [[noreturn]] void fail() const {
    throw ir::UserError("the buffers of a dot are not laid out for its unit", fn_.locationOf(dot_));
  }

  const ir::Function &fn_;
  const ir::OpId dot_;
  const ir::DotUnit &unit_;
  const Layout &sums_;
  int32_t m_ = 0, n_ = 0, k_ = 0;
  std::map<Coords, int32_t> registerAt_; // of thread 0's elements
  std::vector<std::string> steps_;
  bool transposed_[2] = {};
  WgmmaCode code_;
};

} // namespace

WgmmaCode wgmmaCode(const ir::Function &fn, ir::OpId dot, const ir::DotUnit &unit) {
  return Writer(fn, dot, unit).run();
}

} // namespace libtile::codegen::nvidia
