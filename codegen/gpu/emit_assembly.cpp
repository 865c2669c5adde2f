// SPDX-License-Identifier: Apache-2.0
// The user's assembly, for as many registers of a tile at a time as it packs.
#include "codegen/gpu/emitter.h"
#include "ir/assembly_text.h"
#include "ir/ops.h"

#include <llvm/IR/InlineAsm.h>

#include <algorithm>

namespace libtile::codegen::gpu {

class AssemblyEmitter {
public:
  AssemblyEmitter(Emitter &emitter, ir::OpId op)
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

  llvm::Type *registerType(const std::string &name, unsigned bits) {
    const bool isTied = name[0] >= '0' && name[0] <= '9';
    return e_.assemblyRegister(op_, isTied ? names_.results[std::stoul(name)] : name, bits);
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
    llvm::Type *type = registerType(names_.inputs[index], word.bits);
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
      types.push_back(registerType(names_.results[i], results_[i].bits));
    }
    llvm::Type *all = types.size() == 1 ? types[0] : llvm::StructType::get(e_.context_, types);
    llvm::Value *call = e_.assembly(text_, constraints_, all, operands, fn_.getBool(op_, ir::Attr::is_volatile));
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

  Emitter &e_;
  const ir::Function &fn_;
  const ir::OpId op_;
  const unsigned pack_;
  const std::string text_, constraints_;
  ir::AssemblyConstraints names_;
  std::vector<Word> results_, inputs_;
};

void Emitter::lowerAssembly(ir::OpId op) { AssemblyEmitter(*this, op).run(); }

llvm::Value *Emitter::assembly(const std::string &text, const std::string &constraints, llvm::Type *result,
                               llvm::ArrayRef<llvm::Value *> operands, bool effects, bool convergent) {
  llvm::SmallVector<llvm::Type *, 16> types;
  for (llvm::Value *operand : operands) {
    types.push_back(operand->getType());
  }
  auto *type = llvm::FunctionType::get(result, types, false);
  const std::string all = effects ? constraints + (constraints.empty() ? "~{memory}" : ",~{memory}") : constraints;
  llvm::CallInst *call = builder_.CreateCall(type, llvm::InlineAsm::get(type, text, all, effects), operands);
  call->addFnAttr(llvm::Attribute::NoUnwind);
  if (convergent) {
    call->addFnAttr(llvm::Attribute::Convergent);
    call->addFnAttr(llvm::Attribute::NoDuplicate);
  }
  return call;
}

} // namespace libtile::codegen::gpu
