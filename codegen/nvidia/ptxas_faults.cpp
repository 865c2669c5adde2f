// SPDX-License-Identifier: Apache-2.0
#include "codegen/nvidia/ptxas_faults.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringSet.h>

#include <optional>
#include <vector>

namespace libtile::codegen::nvidia {

namespace {

constexpr llvm::StringLiteral kNegations[] = {"neg.s16", "abs.s16", "sub.s16"};
constexpr llvm::StringLiteral kMinima[] = {"min.s32", "max.s32"};

// Of a line that is one, as LLVM writes them: `\tname \toperand, operand;`.
struct Instruction {
  explicit Instruction(llvm::StringRef line) {
    line = line.trim();
    name = line.take_front(line.find_first_of(" \t"));
    line.drop_front(name.size()).rtrim(';').split(operands, ',');
    for (llvm::StringRef &operand : operands) {
      operand = operand.trim();
    }
  }

  llvm::StringRef name;
  llvm::SmallVector<llvm::StringRef, 4> operands;
};

// Alone: most lines are none of those that matter.
llvm::StringRef nameIn(llvm::StringRef line) {
  const auto isSpace = [](char c) { return c == ' ' || c == '\t'; };
  return line.drop_while(isSpace).take_until(isSpace);
}

bool isRegister(llvm::StringRef operand) { return operand.starts_with("%"); }

// The registers that ptxas may take for negations of others. It follows constants through moves and unrolled
// loops, so that a difference is one where it finds a 0 and a product where it finds a -1.
class PossibleNegations {
public:
  explicit PossibleNegations(llvm::StringRef text) {
    while (!text.empty()) {
      const auto [statement, rest] = text.split(';');
      text = rest;
      read(statement);
    }
    for (bool grows = true; grows;) {
      grows = false;
      for (const Move &move : moves_) {
        grows |= contains(move.sources) && insert(move.results);
      }
    }
  }

  [[nodiscard]] bool contains(llvm::ArrayRef<llvm::StringRef> names) const {
    return llvm::any_of(names, [&](llvm::StringRef name) { return found_.contains(name); });
  }

private:
  using Names = llvm::SmallVector<llvm::StringRef, 4>;
  struct Move {
    Names results, sources;
  };

  // `{ @%p1 name a, b` or `name {a, b}, c`, behind labels and comments of lines of their own.
  void read(llvm::StringRef statement) {
    statement = statement.rtrim();
    statement = statement.substr(statement.rfind('\n') + 1).ltrim(" \t{}");
    if (statement.consume_front("@")) {
      statement = statement.drop_until([](char c) { return c == ' ' || c == '\t'; }).ltrim();
    }
    const size_t end = statement.find_first_of(" \t");
    const llvm::StringRef name = statement.take_front(end).split('.').first;
    llvm::StringRef list = statement.substr(end).trim();
    // What loads, what compares bits and what picks bits yields no negation of a register.
    if (list.empty() || llvm::is_contained({"ld", "st", "shfl", "min", "max", "and", "or", "xor", "not",
                                            "shl", "shr", "prmt", "clz", "popc", "brev", "setp", "bra"},
                                           name)) {
      return;
    }
    const size_t split = list.starts_with("{") ? list.find('}') : list.find(',');
    const Move move{names(list.take_front(split)), names(list.substr(split))};
    if (llvm::is_contained({"mov", "cvt", "selp", "add"}, name)) {
      moves_.push_back(move);
    } else {
      insert(move.results);
    }
  }

  static Names names(llvm::StringRef list) {
    Names found;
    while (!(list = list.ltrim(" \t{}[],|+!")).empty()) {
      found.push_back(list.take_front(list.find_first_of(" \t{}[],|+")));
      list = list.drop_front(found.back().size());
    }
    return found;
  }

  bool insert(const Names &names) {
    bool grows = false;
    for (const llvm::StringRef name : names) {
      grows |= found_.insert(name).second;
    }
    return grows;
  }

  llvm::StringSet<> found_;
  std::vector<Move> moves_;
};

//   neg.s16 %rs2, %rs1;  ->  { .reg .b32 a; cvt.s32.s16 a, %rs1; neg.s32 a, a; cvt.u16.u32 %rs2, a; }
std::string inWords(const Instruction &it) {
  std::string out = "\t{ .reg .b32 a, b; ";
  for (size_t i = 1; i < it.operands.size(); ++i) {
    out += isRegister(it.operands[i]) ? "cvt.s32.s16 " : "mov.b32 ";
    out += std::string(i == 1 ? "a, " : "b, ") + it.operands[i].str() + "; ";
  }
  return out + it.name.take_front(3).str() + ".s32 a, a" + (it.operands.size() > 2 ? ", b" : "") +
         "; cvt.u16.u32 " + it.operands[0].str() + ", a; }\n";
}

// Numbers with their sign bits turned are in the order of unsigned ones.
std::string amongUnsigned(const Instruction &it) {
  const auto turned = [](const std::string &to, const std::string &from) {
    return "xor.b32 " + to + ", " + from + ", 0x80000000; ";
  };
  return "\t{ .reg .b32 a, b; " + turned("a", it.operands[1].str()) + turned("b", it.operands[2].str()) +
         it.name.take_front(3).str() + ".u32 a, a, b; " + turned(it.operands[0].str(), "a") + "}\n";
}

bool isFloatFrom64(llvm::StringRef name) {
  if (!name.ends_with("64") || !name.consume_front("cvt.")) {
    return false;
  }
  const auto [rest, from] = name.rsplit('.');
  const llvm::StringRef to = rest.rsplit('.').second.empty() ? rest : rest.rsplit('.').second;
  return !to.ends_with("64") && (from.starts_with("f") || to.contains('f'));
}

bool isSuspect(llvm::StringRef name) {
  return llvm::is_contained(kNegations, name) || llvm::is_contained(kMinima, name) || isFloatFrom64(name);
}

// Zeros of all bits become such, whatever the types.
//   cvt.rn.f32.u64 %r1, %rd1;  ->  { .reg .pred p; setp.ne.b64 p, %rd1, 0; mov.b32 %r1, 0; @p cvt.rn.f32.u64 %r1, %rd1; }
std::string underPredicate(const Instruction &it) {
  const std::string to = it.operands[0].str(), from = it.operands[1].str();
  const std::string word = it.operands[0].starts_with("%rs") || it.operands[0].starts_with("%h") ? "b16 " : "b32 ";
  return "\t{ .reg .pred p; setp.ne.b64 p, " + from + ", 0; mov." + word + to + ", 0; @p " + it.name.str() + " " +
         to + ", " + from + "; }\n";
}

} // namespace

std::string avoidPtxasFaults(llvm::StringRef text) {
  std::optional<PossibleNegations> negations; // of the whole text, once a line asks
  const auto mayBeNegation = [&negations, text](const Instruction &it) {
    if (!negations) {
      negations.emplace(text);
    }
    return negations->contains({it.operands[1], it.operands[2]});
  };
  const auto inPlaceOf = [&](const Instruction &it) -> std::string {
    if (llvm::is_contained(kNegations, it.name)) {
      return inWords(it);
    }
    if (llvm::is_contained(kMinima, it.name)) {
      return isRegister(it.operands[2]) && mayBeNegation(it) ? amongUnsigned(it) : "";
    }
    return isRegister(it.operands[1]) ? underPredicate(it) : "";
  };
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto [line, rest] = text.split('\n');
    text = rest;
    const std::string other = isSuspect(nameIn(line)) ? inPlaceOf(Instruction(line)) : "";
    if (other.empty()) {
      out.append(line).push_back('\n');
    } else {
      out += other;
    }
  }
  return out;
}

} // namespace libtile::codegen::nvidia
