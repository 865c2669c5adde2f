// SPDX-License-Identifier: Apache-2.0
#include "ir/assembly_text.h"

#include <algorithm>
#include <cctype>

namespace libtile::ir {

namespace {

bool isDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// What is wrong with a `$` in the instructions, which have so many registers; empty: nothing.
std::string wrongRegister(std::string_view text, size_t registers) {
  for (size_t at = text.find('$'); at != std::string_view::npos; at = text.find('$', at + 1)) {
    if (at + 1 < text.size() && text[at + 1] == '$') {
      ++at;
      continue;
    }
    const bool braces = at + 1 < text.size() && text[at + 1] == '{';
    size_t end = at + (braces ? 2 : 1);
    const size_t first = end;
    while (end < text.size() && isDigit(text[end])) {
      ++end;
    }
    const std::string name(text.substr(at, std::min(end + (braces ? 1 : 0), text.size()) - at));
    const bool number = end > first && end - first < 6 && (!braces || name.back() == '}');
    if (!number) {
      return "`" + name + "` names no register; a dollar sign is `$$`";
    }
    if (std::stoul(std::string(text.substr(first, end - first))) >= registers) {
      return "`" + name + "` is none of the " + std::to_string(registers) + " registers";
    }
  }
  return "";
}

// Registers of elements of these widths, `pack` of each; nullopt: they fill no whole ones.
std::optional<size_t> countRegisters(std::span<const unsigned> widths, int64_t pack) {
  size_t count = 0;
  for (const unsigned bits : widths) {
    const AssemblyWord word = assemblyWord(bits, static_cast<unsigned>(pack));
    if (pack % word.elements != 0) {
      return std::nullopt;
    }
    count += static_cast<size_t>(pack) / word.elements;
  }
  return count;
}

std::string wrongCount(size_t given, size_t wanted, const char *what) {
  return given == wanted ? ""
                         : "the constraints name " + std::to_string(given) + " registers of " + what +
                               ", which take " + std::to_string(wanted);
}

} // namespace

std::optional<AssemblyConstraints> parseConstraints(std::string_view text) {
  AssemblyConstraints out;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    std::string_view part = text.substr(at, end - at);
    at = end + 1;
    while (!part.empty() && part.front() == ' ') {
      part.remove_prefix(1);
    }
    while (!part.empty() && part.back() == ' ') {
      part.remove_suffix(1);
    }
    if (part.starts_with("~{") && part.ends_with("}")) {
      continue;
    }
    const bool result = part.starts_with("=");
    part.remove_prefix(result ? 1 : 0);
    part.remove_prefix(result && part.starts_with("&") ? 1 : 0);
    const bool letter = part.size() == 1 && std::isalpha(static_cast<unsigned char>(part[0])) != 0;
    const bool number = !result && !part.empty() && part.size() < 4 && std::ranges::all_of(part, isDigit);
    const bool tied = number && std::stoul(std::string(part)) < out.results.size();
    if ((!letter && !tied) || (result && !out.inputs.empty())) {
      return std::nullopt;
    }
    (result ? out.results : out.inputs).emplace_back(part);
  }
  return out;
}

AssemblyWord assemblyWord(unsigned elementBits, unsigned pack) {
  const unsigned bits = std::max(8U, elementBits);
  const unsigned elements = bits < 32 ? std::min(pack, 32 / bits) : 1;
  return {elements, elements * bits};
}

AssemblyFault findFault(std::string_view text, std::string_view constraints, int64_t pack,
                        std::span<const unsigned> results, std::span<const unsigned> inputs) {
  if (pack < 1 || pack > 64) {
    return {AssemblyFault::Pack, "pack lies between 1 and 64, got " + std::to_string(pack)};
  }
  const auto outs = countRegisters(results, pack), ins = countRegisters(inputs, pack);
  if (!outs || !ins) {
    return {AssemblyFault::Pack,
            std::to_string(pack) + " elements of one of the types fill no whole registers"};
  }
  const auto parsed = parseConstraints(constraints);
  if (!parsed) {
    return {AssemblyFault::Constraints,
            "expected constraints such as '=r,r', got '" + std::string(constraints) + "'"};
  }
  for (const std::string &wrong : {wrongCount(parsed->results.size(), *outs, "results"),
                                   wrongCount(parsed->inputs.size(), *ins, "arguments")}) {
    if (!wrong.empty()) {
      return {AssemblyFault::Constraints, wrong};
    }
  }
  const std::string wrong = wrongRegister(text, *outs + *ins);
  return {wrong.empty() ? AssemblyFault::None : AssemblyFault::Text, wrong};
}

} // namespace libtile::ir
