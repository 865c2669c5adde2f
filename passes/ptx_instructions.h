// SPDX-License-Identifier: Apache-2.0
// What PTX instructions compute, as ops on tiles: a table of those that are one op, and a function for
// each of the others.
#pragma once

#include "ir/builder.h"
#include "passes/cpu/ptx_text.h"

#include <map>

namespace libtile::passes {

// The registers of one piece of assembly. Each holds bits, in the form that was written last; who
// reads them says as what.
class PtxRegisters {
public:
  // `shape` and element of a tile, or of a scalar.
  PtxRegisters(ir::Builder &builder, ir::Type like) : builder_(builder), like_(like) {}

  void write(const std::string &name, ir::ValueId value) { values_[name] = value; }
  // The low bits of a register, or a number, as that element; invalid: never written.
  ir::ValueId read(const std::string &name, ir::Elem elem);
  // The low bits of the value, above which zeros come, as that element.
  ir::ValueId bitsAs(ir::ValueId value, ir::Elem elem);

  ir::ValueId constant(ir::Elem elem, int64_t bits);
  ir::ValueId make(ir::Opcode opcode, std::initializer_list<ir::ValueId> operands) {
    return builder_.make(opcode, operands);
  }
  ir::ValueId cast(ir::Opcode opcode, ir::ValueId value, ir::Elem elem);
  [[nodiscard]] ir::Builder &builder() { return builder_; }

private:
  ir::Builder &builder_;
  const ir::Type like_;
  std::map<std::string, ir::ValueId> values_;
};

// Runs the instruction on the registers; false: there is no row for it.
bool runPtx(PtxRegisters &registers, const PtxInstruction &instruction);

} // namespace libtile::passes
