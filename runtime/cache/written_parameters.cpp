// SPDX-License-Identifier: Apache-2.0
// Which pointers a kernel may write through, by following pointers forward from the parameters: a
// result points where the pointers among its operands do; a loop's carried values join what enters
// and what the body yields. Integers are followed too, from ptrtoint to inttoptr.
#include "ir/ops.h"
#include "passes/op_properties.h"
#include "runtime/cache/compile.h"

#include <algorithm>

namespace libtile::runtime {

namespace {

using ir::Opcode;
using ir::OpId;
using ir::ValueId;

class Tracer {
public:
  explicit Tracer(const ir::Function &fn) : fn_(fn), words_((fn.params.size() + 63) / 64) {}

  std::vector<bool> run() {
    for (unsigned i = 0; i < fn_.params.size(); ++i) {
      Bits own(words_);
      own[i / 64] |= uint64_t{1} << (i % 64);
      join(fn_.arg(fn_.body(), i), own);
    }
    do {
      changed_ = false;
      for (const OpId op : fn_.walk()) {
        visit(op);
      }
    } while (changed_);
    return written();
  }

private:
  using Bits = std::vector<uint64_t>;

  void join(ValueId into, const Bits &bits) {
    Bits &old = origins_.at(into);
    old.resize(words_);
    for (size_t i = 0; i < bits.size(); ++i) {
      changed_ = changed_ || (bits[i] & ~old[i]) != 0;
      old[i] |= bits[i];
    }
  }
  void join(ValueId into, ValueId from) {
    const Bits bits = origins_[from];
    join(into, bits);
  }

  void visit(OpId op) {
    const Opcode opcode = fn_.opcode(op);
    if (opcode == Opcode::Load || opcode == Opcode::AtomicRmw || opcode == Opcode::AtomicCas) {
      return;
    }
    if (!fn_.regions(op).empty()) {
      visitRegions(op, opcode);
      return;
    }
    for (const ValueId result : fn_.results(op)) {
      for (const ValueId operand : fn_.operands(op)) {
        join(result, operand);
      }
    }
  }

  // Initial values, carried arguments, yields and results correspond from the end: bounds, induction
  // variables and stop flags stand in front.
  void visitRegions(OpId op, Opcode opcode) {
    const auto results = fn_.results(op);
    const bool isLoop = passes::isLoop(opcode);
    if (!isLoop && opcode != Opcode::If) {
      return; // combines numbers
    }
    if (isLoop) {
      for (const ir::BlockId region : fn_.regions(op)) {
        joinLast(fn_.args(region), fn_.operands(op), results.size());
      }
      joinLast(results, fn_.operands(op), results.size());
    }
    for (unsigned i = opcode == Opcode::While ? 1 : 0; i < fn_.regions(op).size(); ++i) {
      const OpId last = fn_.last(fn_.region(op, i));
      if (!last.valid() || fn_.opcode(last) != Opcode::Yield) {
        continue;
      }
      joinLast(results, fn_.operands(last), results.size());
      for (const ir::BlockId region : isLoop ? fn_.regions(op) : std::span<const ir::BlockId>{}) {
        joinLast(fn_.args(region), fn_.operands(last), results.size());
      }
    }
  }

  void joinLast(std::span<const ValueId> into, std::span<const ValueId> from, size_t count) {
    count = std::min({count, into.size(), from.size()});
    for (size_t i = 1; i <= count; ++i) {
      join(into[into.size() - i], from[from.size() - i]);
    }
  }

  std::vector<bool> written() const {
    std::vector<bool> flags(fn_.params.size());
    for (const OpId op : fn_.walk()) {
      const Opcode opcode = fn_.opcode(op);
      if (opcode != Opcode::Store && opcode != Opcode::AtomicRmw && opcode != Opcode::AtomicCas) {
        continue;
      }
      const Bits &origin = origins_[fn_.operand(op, 0)];
      for (unsigned i = 0; i < flags.size() && !origin.empty(); ++i) {
        if (((origin[i / 64] >> (i % 64)) & 1) != 0 && fn_.type(fn_.arg(fn_.body(), i)).isPointer()) {
          flags[i] = true;
        }
      }
    }
    return flags;
  }

  const ir::Function &fn_;
  const size_t words_;
  ir::IndexMap<ValueId, Bits> origins_;
  bool changed_ = false;
};

} // namespace

std::vector<bool> writtenParameters(const ir::Function &fn) { return Tracer(fn).run(); }

} // namespace libtile::runtime
