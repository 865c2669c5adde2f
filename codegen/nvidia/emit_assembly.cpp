// SPDX-License-Identifier: Apache-2.0
// The user's PTX, for as many registers of a tile at a time as it packs.
#include "codegen/nvidia/nvidia_emitter.h"
#include "ir/assembly_text.h"
#include "ir/ops.h"

#include <algorithm>

namespace libtile::codegen::nvidia {

namespace {

// The registers that a constraint names, by their letter.
struct RegisterKind {
  char letter;
  unsigned bits;
  bool isFloat;
};
constexpr RegisterKind kKinds[] = {{'b', 1, false},  {'h', 16, false}, {'r', 32, false},
                                   {'l', 64, false}, {'f', 32, true},  {'d', 64, true}};

// A word of so many bits goes into the register: as it is, or below zeros.
const RegisterKind &kindOf(const ir::Function &fn, ir::OpId op, const std::string &constraint,
                           unsigned bits) {
  const auto *kind = std::ranges::find(kKinds, constraint[0], &RegisterKind::letter);
  if (kind == std::end(kKinds)) {
    throw ir::Unsupported("the constraint `" + constraint + "` of inline assembly on an NVIDIA target",
                          fn.locationOf(op));
  }
  const bool fits = kind->bits == 1 ? bits == 8 : kind->isFloat ? kind->bits == bits : kind->bits >= bits;
  if (!fits) {
    throw ir::UserError("a register `" + constraint + "` of inline assembly has " +
                            std::to_string(kind->bits) + " bits, but its elements have " +
                            std::to_string(bits),
                        fn.locationOf(op));
  }
  return *kind;
}

} // namespace

class AssemblyEmitter {
public:
  AssemblyEmitter(NvidiaEmitter &emitter, ir::OpId op)
      : e_(emitter), fn_(emitter.fn_), op_(op),
        pack_(static_cast<unsigned>(fn_.getInt(op, ir::Attr::pack))),
        text_(fn_.getText(op, ir::Attr::text)), constraints_(fn_.getText(op, ir::Attr::constraints)) {
    const auto parsed = ir::parseConstraints(constraints_);
    ir::check(parsed.has_value(), "constraints that the front end has read");
    names_ = *parsed;
    for (const ir::ValueId value : fn_.results(op_)) {
      addWords(value, results_);
    }
    for (const ir::ValueId value : fn_.operands(op_)) {
      addWords(value, inputs_);
    }
    ir::check(results_.size() == names_.results.size() && inputs_.size() == names_.inputs.size(),
              "as many registers as constraints");
  }

  void run() {
    std::vector<Regs> inputs, outputs(fn_.results(op_).size());
    for (const ir::ValueId value : fn_.operands(op_)) {
      inputs.push_back(e_.regs(value));
    }
    const unsigned registers = e_.numRegs(fn_.result(op_));
    for (unsigned first = 0; first < registers; first += pack_) {
      group(first, registers, inputs, outputs);
    }
    for (unsigned i = 0; i < outputs.size(); ++i) {
      outputs[i].resize(registers);
      e_.set(fn_.result(op_, i), std::move(outputs[i]));
    }
  }

private:
  // A register of the assembly: elements of one value.
  struct Word {
    unsigned value, elements, bits;
  };

  void addWords(ir::ValueId value, std::vector<Word> &words) {
    const ir::AssemblyWord word = ir::assemblyWord(fn_.type(value).elementBits(), pack_);
    const unsigned number = words.empty() ? 0 : words.back().value + 1;
    for (unsigned i = 0; i < pack_; i += word.elements) {
      words.push_back({number, word.elements, word.bits});
    }
  }

  const RegisterKind &kind(const std::string &name, unsigned bits) {
    const bool tied = name[0] >= '0' && name[0] <= '9';
    return kindOf(fn_, op_, tied ? names_.results[std::stoul(name)] : name, bits);
  }

  llvm::Type *registerType(const RegisterKind &kind) {
    llvm::IRBuilder<> &b = e_.builder_;
    return !kind.isFloat ? b.getIntNTy(kind.bits) : kind.bits == 32 ? b.getFloatTy() : b.getDoubleTy();
  }

  // Elements of `pack_` registers from `first` on; behind the last one that again.
  llvm::Value *input(size_t index, unsigned first, unsigned registers, const Regs &from) {
    const Word &word = inputs_[index];
    const unsigned place = placeOf(inputs_, index);
    llvm::SmallVector<llvm::Value *, 4> elements;
    for (unsigned i = 0; i < word.elements; ++i) {
      elements.push_back(from[std::min(first + place + i, registers - 1)]);
    }
    const ir::Type element = fn_.type(fn_.operand(op_, word.value)).element();
    llvm::Value *bits = e_.packWords(element, elements, word.bits / 8)[0];
    llvm::Type *type = registerType(kind(names_.inputs[index], word.bits));
    return type->isIntegerTy() ? e_.builder_.CreateZExtOrTrunc(bits, type)
                               : e_.builder_.CreateBitCast(bits, type);
  }

  // Position of the word's first element in the group.
  static unsigned placeOf(const std::vector<Word> &words, size_t index) {
    unsigned place = 0;
    for (size_t i = index; i > 0 && words[i - 1].value == words[index].value; --i) {
      place += words[i - 1].elements;
    }
    return place;
  }

  void group(unsigned first, unsigned registers, const std::vector<Regs> &from, std::vector<Regs> &to) {
    llvm::IRBuilder<> &b = e_.builder_;
    llvm::SmallVector<llvm::Value *, 8> operands;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      operands.push_back(input(i, first, registers, from[inputs_[i].value]));
    }
    llvm::SmallVector<llvm::Type *, 4> types;
    for (size_t i = 0; i < results_.size(); ++i) {
      types.push_back(registerType(kind(names_.results[i], results_[i].bits)));
    }
    llvm::Type *all = types.size() == 1 ? types[0] : llvm::StructType::get(e_.context_, types);
    llvm::Value *call = e_.assembly(text_, constraints_, all, operands,
                                    fn_.getBool(op_, ir::Attr::is_volatile));
    for (unsigned i = 0; i < results_.size(); ++i) {
      const Word &word = results_[i];
      llvm::Value *part = types.size() == 1 ? call : b.CreateExtractValue(call, i);
      llvm::Type *whole = b.getIntNTy(word.bits);
      part = types[i]->isIntegerTy() ? b.CreateZExtOrTrunc(part, whole) : b.CreateBitCast(part, whole);
      const ir::Type element = fn_.type(fn_.result(op_, word.value)).element();
      const Regs elements = e_.unpackWords(element, {part}, word.bits / 8, word.elements);
      to[word.value].insert(to[word.value].end(), elements.begin(), elements.end());
    }
  }

  NvidiaEmitter &e_;
  const ir::Function &fn_;
  const ir::OpId op_;
  const unsigned pack_;
  const std::string text_, constraints_;
  ir::AssemblyConstraints names_;
  std::vector<Word> results_, inputs_;
};

void NvidiaEmitter::lowerAssembly(ir::OpId op) { AssemblyEmitter(*this, op).run(); }

} // namespace libtile::codegen::nvidia
