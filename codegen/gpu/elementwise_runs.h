// SPDX-License-Identifier: Apache-2.0
// Elementwise ops that stand one behind the other, and the order in which their instructions come.
//
// Op by op, each op is made for all registers of its tile before the next one begins: neighbours are
// independent, and whole tiles share a divisor. What is under way then needs registers for every element of a
// thread. Where that is more than a thread has, or an op is a call in machine code, across which registers are
// saved, the run goes by groups of registers instead: all its ops for a few elements, then for the next few.
#pragma once

#include "codegen/gpu/emitter.h"

#include <unordered_map>
#include <vector>

namespace libtile::codegen::gpu {

class ElementwiseRun {
public:
  explicit ElementwiseRun(Emitter &emitter) : e_(emitter), fn_(emitter.fn_) {}
  // The op is the run's last now, or is emitted, as it needs nothing of the run; false: neither can be.
  bool take(ir::OpId op);
  // Emits the run, and begins an empty one.
  void finish();

private:
  [[nodiscard]] bool isOfTiles(ir::OpId op) const;
  [[nodiscard]] bool needs(ir::OpId op) const; // an operand of it is a result of the run
  // Registers of a tile that go through the run together; all of them: op by op.
  [[nodiscard]] size_t groupSize() const;
  // 32-bit registers that results of the run take for one register of each tile, at most at once.
  [[nodiscard]] size_t pressure() const;
  void emitByGroups(size_t size);

  Emitter &e_;
  const ir::Function &fn_;
  std::vector<ir::OpId> ops_;
  std::unordered_map<uint32_t, size_t> placeOf_; // in them, by op
  size_t registers_ = 0; // of each tile of the run; 0: it has none yet
};

} // namespace libtile::codegen::gpu
