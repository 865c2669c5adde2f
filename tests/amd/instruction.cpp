// SPDX-License-Identifier: Apache-2.0
#include "tests/amd/instruction.h"

#include <llvm-c/Disassembler.h>
#include <llvm-c/Target.h>
#include <llvm/Config/llvm-config.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>

namespace emulator {

namespace {

constexpr std::string_view kSuffixes[] = {"_e32", "_e64", "_dpp", "_sdwa", "_dpp8"};
// Words that modifiers begin with; what stands in front of the first one are operands.
constexpr std::string_view kModifiers[] = {
    "offset", "op_sel", "neg_lo", "neg_hi", "quad_perm", "row_", "dpp8", "bank_mask", "dst_sel", "src0_sel", "src1_sel", "offen",
    "idxen", "glc", "slc", "dlc", "sc0", "sc1", "nt", "th:", "scope:", "clamp", "mul:", "div:", "cbsz", "blgp", "abid", "bound_ctrl",
    "gds", "lds", "bitop3", "wave_", "fi:", "byte_sel", "swizzle", "format:"};

bool startsModifiers(std::string_view word) {
  return std::ranges::any_of(kModifiers, [&](std::string_view modifier) { return word.starts_with(modifier); });
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Where the modifiers begin: at a word behind a space, outside of brackets.
size_t modifiersOf(std::string_view rest) {
  for (size_t i = 0; i < rest.size(); ++i) {
    if ((i == 0 || rest[i - 1] == ' ') && startsModifiers(rest.substr(i))) {
      return i;
    }
  }
  return rest.size();
}

std::vector<std::string> splitOperands(std::string_view text) {
  std::vector<std::string> operands;
  int depth = 0;
  size_t from = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    depth += c == '[' || c == '(' ? 1 : c == ']' || c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      if (const std::string_view operand = trimmed(text.substr(from, i - from)); !operand.empty()) {
        operands.emplace_back(operand);
      }
      from = i + 1;
    }
  }
  return operands;
}

int64_t toNumber(std::string_view text) {
  const bool isNegative = text.starts_with('-');
  text.remove_prefix(isNegative ? 1 : 0);
  const bool isHex = text.starts_with("0x");
  text.remove_prefix(isHex ? 2 : 0);
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, isHex ? 16 : 10);
  return static_cast<int64_t>(isNegative ? 0 - value : value);
}

} // namespace

bool Instruction::has(std::string_view word) const {
  for (size_t at = modifiers.find(word); at != modifiers.npos; at = modifiers.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || modifiers[at - 1] == ' ') && (end == modifiers.size() || modifiers[end] == ' ' || modifiers[end] == ':')) {
      return true;
    }
  }
  return false;
}

std::string_view Instruction::value(std::string_view word) const {
  const std::string key = std::string(word) + ":";
  for (size_t at = modifiers.find(key); at != modifiers.npos; at = modifiers.find(key, at + 1)) {
    if (at == 0 || modifiers[at - 1] == ' ') {
      const std::string_view rest = std::string_view(modifiers).substr(at + key.size());
      return rest.substr(0, rest.find(' '));
    }
  }
  return {};
}

std::optional<int64_t> Instruction::number(std::string_view word) const {
  const std::string_view text = value(word);
  return text.empty() ? std::nullopt : std::optional(toNumber(text));
}

std::vector<int> Instruction::list(std::string_view word, size_t count, int otherwise) const {
  std::vector<int> numbers;
  for (std::string_view rest = value(word); rest.size() > 1 && numbers.size() < count;) {
    rest.remove_prefix(1); // "[" or ","
    numbers.push_back(static_cast<int>(toNumber(rest)));
    rest.remove_prefix(std::min(rest.size(), rest.find_first_of(",]")));
  }
  numbers.resize(count, numbers.empty() ? otherwise : 0);
  return numbers;
}

Instruction parseInstruction(std::string text) {
  Instruction result;
  result.text = std::string(trimmed(text));
  const std::string_view all = result.text;
  const size_t second = all.find(" :: ");
  if (second != all.npos) {
    result.second = second + 4;
  }
  const std::string_view first = all.substr(0, second);
  const size_t space = first.find(' ');
  result.name = std::string(first.substr(0, space));
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view suffix : kSuffixes) {
      if (result.name.ends_with(suffix) && result.name.starts_with("v_")) {
        result.name.resize(result.name.size() - suffix.size());
        result.hasSdwa |= suffix == "_sdwa";
        result.hasDpp |= suffix.starts_with("_dpp");
        found = true;
      }
    }
  }
  const std::string_view rest = space == first.npos ? "" : trimmed(first.substr(space));
  const size_t modifiers = modifiersOf(rest);
  result.operands = splitOperands(rest.substr(0, modifiers));
  result.modifiers = std::string(rest.substr(modifiers));
  return result;
}

std::vector<Instruction> disassemble(const CodeObject &object, bool isWave32) {
  LLVMInitializeAMDGPUTargetInfo();
  LLVMInitializeAMDGPUTargetMC();
  LLVMInitializeAMDGPUDisassembler();
  const bool isCdna = object.target.starts_with("gfx9");
  // LLVM 19 neither writes halves of registers by name nor reads all that does.
  const std::string halves = LLVM_VERSION_MAJOR >= 20 ? "+real-true16," : "";
  const std::string features = isCdna ? "" : halves + (isWave32 ? "+wavefrontsize32" : "+wavefrontsize64");
  const std::unique_ptr<void, void (*)(LLVMDisasmContextRef)> context(
      LLVMCreateDisasmCPUFeatures("amdgcn-amd-amdhsa", object.target.c_str(), features.c_str(), nullptr, 0, nullptr, nullptr),
      LLVMDisasmDispose);
  if (context == nullptr) {
    throw Fault("LLVM has no disassembler for " + object.target);
  }
  std::vector<Instruction> code;
  std::vector<uint8_t> bytes(object.image.begin() + static_cast<int64_t>(object.textBegin),
                             object.image.begin() + static_cast<int64_t>(object.textEnd));
  std::array<char, 512> text;
  for (size_t at = 0; at < bytes.size();) {
    const size_t size = LLVMDisasmInstruction(context.get(), bytes.data() + at, bytes.size() - at, object.textBegin + at,
                                              text.data(), text.size());
    code.push_back(parseInstruction(size != 0 ? text.data() : "bytes that LLVM takes for no instruction"));
    code.back().address = object.textBegin + at;
    code.back().bytes = static_cast<uint32_t>(size != 0 ? size : 4);
    at += code.back().bytes;
  }
  return code;
}

} // namespace emulator
