// SPDX-License-Identifier: Apache-2.0
// Vector instructions as steps: what their encodings share (sources with modifiers, op_sel, DPP, SDWA; clamp and omod of results),
// and the instructions that a row of vector_table.h cannot say.
#pragma once

#include "tests/amd/dpp.h"
#include "tests/amd/operand.h"

namespace emulator {

// What instructions' meaning depends on, of the GPU.
struct Machine {
  std::string target;
  unsigned lanes;   // of a wave
  bool isCdna;      // gfx9: results of 16 bits clear the upper half
  bool isGfx12;
  [[nodiscard]] bool hasOcpFloats() const { return isGfx12 || target == "gfx950"; }
};

// The sources of one instruction, from operand `first` on.
class Sources {
public:
  Sources(const Instruction &instruction, const Machine &machine, size_t first, const std::vector<Type> &types);
  // Of each source the numbers; the lanes that DPP lets write, which EXEC has.
  Mask read(const Wave &wave, Lanes *out) const;
  void negate(size_t source) { sources_[source].negate(); }

private:
  std::vector<Source> sources_;
  std::optional<Dpp> dpp_;
};

// The result of one instruction, with what is done to it on its way.
class Result {
public:
  Result(const Instruction &instruction, const Machine &machine, Type type, bool isHigh = false);
  void write(Wave &wave, Lanes &values, Mask mask) const;

private:
  void finish(const Wave &wave, Lanes &values) const;

  Destination destination_;
  Type type_;
  Part part_;
  bool preserves_ = false, extends_ = false, clamps_, flushes_;
  double factor_ = 1;
  unsigned index_;
};

// The step of a vector instruction; empty: there is no such one here. Throws Fault for one in a form that is not emulated.
[[nodiscard]] Step makeVectorStep(const Instruction &instruction, const Machine &machine);

// Parts of it, each empty for what it does not know.
[[nodiscard]] Step makeComparison(const Instruction &instruction, const Machine &machine);
[[nodiscard]] Step makeCarry(const Instruction &instruction, const Machine &machine);
[[nodiscard]] Step makeDivision(const Instruction &instruction, const Machine &machine);
[[nodiscard]] Step makePacked(const Instruction &instruction, const Machine &machine);
[[nodiscard]] Step makeMixed(const Instruction &instruction, const Machine &machine);
[[nodiscard]] Step makeSmallFloat(const Instruction &instruction, const Machine &machine);
[[nodiscard]] Step makeAcrossLanes(const Instruction &instruction, const Machine &machine);

} // namespace emulator
