// SPDX-License-Identifier: Apache-2.0
// The longest common subsequence of what lies between the equal lines at both ends.
#include "runtime/tools/text_diff.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace libtile {

namespace {

using Lines = std::vector<std::string_view>;

struct Edit {
  char sign; // of diff()
  std::string_view line;
};

Lines linesOf(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Appends the edits that make b of a.
void align(std::span<const std::string_view> a, std::span<const std::string_view> b,
           std::vector<Edit> &out) {
  constexpr size_t kMostCells = size_t{1} << 24;
  const bool small = a.size() * b.size() <= kMostCells;
  const size_t width = b.size() + 1;
  std::vector<uint32_t> common(small ? (a.size() + 1) * width : 0);
  for (size_t i = small ? a.size() : 0; i-- > 0;) {
    for (size_t k = b.size(); k-- > 0;) {
      uint32_t &cell = common[i * width + k];
      cell = a[i] == b[k] ? common[(i + 1) * width + k + 1] + 1
                          : std::max(common[(i + 1) * width + k], common[i * width + k + 1]);
    }
  }
  size_t i = 0, k = 0;
  while (i < a.size() || k < b.size()) {
    if (small && i < a.size() && k < b.size() && a[i] == b[k]) {
      out.push_back({' ', a[i++]});
      ++k;
    } else if (k == b.size() ||
               (i < a.size() &&
                (!small || common[(i + 1) * width + k] >= common[i * width + k + 1]))) {
      out.push_back({'-', a[i++]});
    } else {
      out.push_back({'+', b[k++]});
    }
  }
}

std::string range(size_t line, size_t count) {
  return std::to_string(line) + "," + std::to_string(count);
}

// The edits from `first` up to `last`, of which the first stands on these lines of the two texts.
std::string hunk(std::span<const Edit> edits, size_t lineBefore, size_t lineAfter) {
  const auto added = std::ranges::count(edits, '+', &Edit::sign);
  const auto removed = std::ranges::count(edits, '-', &Edit::sign);
  std::string out = "@@ -" + range(lineBefore, edits.size() - added) + " +" +
                    range(lineAfter, edits.size() - removed) + " @@\n";
  for (const Edit &edit : edits) {
    out += edit.sign;
    out += std::string(edit.line) + "\n";
  }
  return out;
}

} // namespace

std::string diff(std::string_view before, std::string_view after) {
  const Lines a = linesOf(before), b = linesOf(after);
  const size_t shorter = std::min(a.size(), b.size());
  size_t head = 0, tail = 0;
  while (head < shorter && a[head] == b[head]) {
    ++head;
  }
  while (tail < shorter - head && a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) {
    ++tail;
  }
  std::vector<Edit> edits;
  for (size_t i = 0; i < head; ++i) {
    edits.push_back({' ', a[i]});
  }
  align(std::span(a).subspan(head, a.size() - head - tail),
        std::span(b).subspan(head, b.size() - head - tail), edits);
  for (size_t i = a.size() - tail; i < a.size(); ++i) {
    edits.push_back({' ', a[i]});
  }

  constexpr size_t kContext = 3;
  std::string out;
  size_t lineBefore = 1, lineAfter = 1; // of edits[i]
  for (size_t i = 0; i < edits.size();) {
    const auto changed = [&](size_t at) { return edits[at].sign != ' '; };
    // A hunk ends where no difference follows within twice the context.
    size_t end = i, quiet = kContext;
    for (size_t at = i; at < edits.size() && quiet < 2 * kContext + 1; ++at) {
      quiet = changed(at) ? 0 : quiet + 1;
      end = changed(at) ? at + 1 : end;
    }
    if (end > i) {
      end = std::min(end + kContext, edits.size());
      out += hunk(std::span(edits).subspan(i, end - i), lineBefore, lineAfter);
    } else {
      end = i + 1;
    }
    for (; i < end; ++i) {
      lineBefore += edits[i].sign != '+';
      lineAfter += edits[i].sign != '-';
    }
  }
  return out;
}

} // namespace libtile
