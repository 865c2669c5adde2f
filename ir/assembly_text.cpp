// SPDX-License-Identifier: Apache-2.0
#include "ir/assembly_text.h"

#include <algorithm>
#include <cctype>

namespace libtile::ir {

namespace {

bool isDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

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

AssemblyWord assemblyWord(unsigned elementBits, unsigned pack) {
  const unsigned bits = std::max(8U, elementBits);
  const unsigned elements = bits < 32 ? std::min(pack, 32 / bits) : 1;
  return {elements, elements * bits};
}

} // namespace libtile::ir
