// SPDX-License-Identifier: Apache-2.0
#include "passes/expand_assembly.h"

#include "ir/assembly_text.h"
#include "ir/ops.h"
#include "passes/ptx_instructions.h"

#include <algorithm>

namespace libtile::passes {

namespace {

using ir::Attr;
using ir::Elem;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

class Expansion {
public:
  Expansion(ir::Function &fn, OpId op, const ir::Target &target)
      : fn_(fn), op_(op), target_(target), builder_(fn, op), registers_(builder_, fn.type(fn.result(op))),
        pack_(static_cast<unsigned>(fn.getInt(op, Attr::pack))),
        constraints_(ir::parseConstraints(fn.getText(op, Attr::constraints)).value()) {}

  void run() {
    readInputs();
    std::string wrong;
    const auto instructions = readPtx(fn_.getText(op_, Attr::text), wrong);
    if (!instructions) {
      refuse(wrong, "is no instruction");
    }
    for (const PtxInstruction &instruction : *instructions) {
      if (!runPtx(registers_, instruction)) {
        refuse(instruction.text, "is an instruction that is not known there");
      }
    }
    for (unsigned i = 0, at = 0; i < fn_.results(op_).size(); ++i) {
      const ValueId result = fn_.result(op_, i);
      const Type type = fn_.type(result);
      const ValueId word = registers_.read("$" + std::to_string(at), wordOf(type));
      if (!word.valid()) {
        refuse("$" + std::to_string(at), "is written by no instruction");
      }
      fn_.replaceAllUses(result, registers_.bitsAs(word, type.elem()));
      at += pack_ / ir::assemblyWord(type.elementBits(), pack_).elements;
    }
    fn_.erase(op_);
  }

private:
  [[noreturn]] void refuse(const std::string &text, const std::string &what) const {
    throw ir::Unsupported("inline assembly on " + (target_.laysOut ? target_.name : "a CPU") + ": `" + text + "` " + what, fn_.locationOf(op_));
  }

  // Integers in which elements lie side by side.
  [[nodiscard]] Elem wordOf(const Type &type) const {
    const unsigned bits = ir::assemblyWord(type.elementBits(), pack_).bits;
    return bits <= 8 ? Elem::I8 : bits <= 16 ? Elem::I16 : bits <= 32 ? Elem::I32 : Elem::I64;
  }

  // All elements of a word are one.
  ValueId wordFor(ValueId value) {
    const Type type = fn_.type(value);
    const ir::AssemblyWord word = ir::assemblyWord(type.elementBits(), pack_);
    const Elem elem = wordOf(type);
    const ValueId one = registers_.bitsAs(value, elem);
    ValueId all = one;
    for (unsigned i = 1; i < word.elements; ++i) {
      const ValueId shift = registers_.constant(elem, int64_t{i} * word.bits / word.elements);
      all = registers_.make(Opcode::Or, {all, registers_.make(Opcode::Shl, {one, shift})});
    }
    return all;
  }

  void readInputs() {
    size_t at = 0;
    for (const ValueId operand : fn_.operands(op_)) {
      const ValueId word = wordFor(operand);
      const unsigned count = pack_ / ir::assemblyWord(fn_.type(operand).elementBits(), pack_).elements;
      for (unsigned i = 0; i < count; ++i, ++at) {
        registers_.write("$" + std::to_string(constraints_.results.size() + at), word);
        const std::string &name = constraints_.inputs[at];
        if (name[0] >= '0' && name[0] <= '9') {
          registers_.write("$" + name, word);
        }
      }
    }
  }

  ir::Function &fn_;
  const OpId op_;
  const ir::Target &target_;
  ir::Builder builder_;
  PtxRegisters registers_;
  const unsigned pack_;
  const ir::AssemblyConstraints constraints_;
};

// Whether constraints name registers as PTX does.
bool isPtx(std::string_view constraints) {
  const auto parsed = ir::parseConstraints(constraints);
  const auto ofPtx = [](const std::string &name) { return name.size() == 1 && std::string_view("bhrlfd0123456789").find(name[0]) != name.npos; };
  return parsed && std::ranges::all_of(parsed->results, ofPtx) && std::ranges::all_of(parsed->inputs, ofPtx);
}

} // namespace

bool namesRegisters(const ir::Function &fn, OpId op) {
  return fn.opcode(op) == Opcode::Assembly && fn.getText(op, ir::Attr::text).find('%') != std::string_view::npos;
}

bool expandAssembly(ir::Function &fn, const PassContext &context) {
  bool changed = false;
  if (context.target.runsPtx) {
    return changed;
  }
  for (const OpId op : fn.walk()) {
    if (fn.opcode(op) == Opcode::Assembly && (!context.target.laysOut || isPtx(fn.getText(op, Attr::constraints)))) {
      Expansion(fn, op, context.target).run();
      changed = true;
    }
  }
  return changed;
}

} // namespace libtile::passes
