// SPDX-License-Identifier: Apache-2.0
// A dot by a unit whose operands and accumulator are fragments (passes/gpu/fragments.h): every instruction takes registers of
// this thread. The accumulator's registers are cut into m x n tiles of the unit, and each tile meets the fragments of its rows
// and columns, step by step along k, in its slice. What an instruction is, a vendor says.
#pragma once

#include "codegen/gpu/emitter.h"
#include "ir/target.h"

#include <array>
#include <map>

namespace libtile::codegen::gpu {

class FragmentDot {
public:
  virtual ~FragmentDot() = default;
  FragmentDot(const FragmentDot &) = delete;
  FragmentDot &operator=(const FragmentDot &) = delete;

protected:
  FragmentDot(Emitter &emitter, ir::OpId op, const ir::DotUnit &unit);

  // Adds the products of all fragments to the accumulator's registers. `depth`: of an instruction along k.
  void addProducts(Regs &sums, int32_t depth);
  // Of one instruction: the tile whose first element is at `corner`, the operands' elements from k to `end`.
  virtual void multiply(Regs &sums, const ir::Coords &corner, int32_t k, int32_t end) = 0;

  // The element of the slice that `from` lies in.
  [[nodiscard]] ir::Coords at(const ir::Coords &from, int32_t row, int32_t col) const;
  // The register of the first thread's element, of a (0), b (1) or the accumulator (2). Throws UserError if it has none.
  [[nodiscard]] int32_t registerAt(unsigned part, const ir::Coords &coords) const;
  // Where the registers of one instruction lie from its first element; of `perWord` that are one word, the first.
  [[nodiscard]] static std::vector<ir::Coords> offsetsOf(const ir::Layout::Bases &regs, int32_t perWord);
  // The element of a, and of b, that is `offset` from the first one of an instruction.
  [[nodiscard]] ir::Coords leftAt(const ir::Coords &corner, int32_t k, const ir::Coords &offset) const {
    return at(corner, corner[row_] + offset[0], k + offset[1]);
  }
  [[nodiscard]] ir::Coords rightAt(const ir::Coords &corner, int32_t k, const ir::Coords &offset) const {
    return at(corner, k + offset[0], corner[row_ + 1] + offset[1]);
  }

  // What of the emitter its own dots see.
  [[nodiscard]] const ir::Function &fn() const { return emitter_.fn_; }
  [[nodiscard]] llvm::IRBuilder<> &builder() const { return emitter_.builder_; }

  Emitter &emitter_;
  const ir::OpId op_;
  const ir::DotUnit &unit_;
  const unsigned row_; // the axis before the last

private:
  using Registers = std::map<ir::Coords, int32_t>;
  Registers registersOf(ir::ValueId value) const;
  [[nodiscard]] std::vector<ir::Coords> cornersOf(const ir::Layout &layout) const;

  std::array<Registers, 3> registers_;
};

} // namespace libtile::codegen::gpu
