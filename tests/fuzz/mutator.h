// SPDX-License-Identifier: Apache-2.0
// Random edits of a text: bytes, pieces of the language, lines and words. The text stays text-like, so
// that it gets deep into the compiler.
#pragma once

#include <algorithm>
#include <cctype>
#include <random>
#include <span>
#include <string>
#include <utility>

namespace libtile::test {

class Mutator {
public:
  Mutator(uint64_t seed, std::span<const char *const> pieces) : random_(seed), pieces_(pieces) {}
  std::string operator()(std::string text) {
    for (size_t left = 1 + pick(4); left > 0; --left) {
      mutate(text);
    }
    return text;
  }
  size_t pick(size_t below) { return std::uniform_int_distribution<size_t>(0, below - 1)(random_); }

private:
  void mutate(std::string &text) {
    const size_t at = pick(text.size() + 1);
    const size_t length = std::min(1 + pick(pick(4) == 0 ? 80 : 6), text.size() - at);
    switch (pick(8)) {
    case 0:
      text.erase(at, length);
      break;
    case 1:
      text.insert(at, pieces_[pick(pieces_.size())]);
      break;
    case 2:
      text.replace(at, length, pieces_[pick(pieces_.size())]);
      break;
    case 3:
      text.insert(pick(text.size() + 1), text.substr(at, length));
      break;
    case 4:
      if (at < text.size()) {
        text[at] = static_cast<char>(pick(256));
      }
      break;
    case 5:
      swapLines(text);
      break;
    case 6:
      replaceDigit(text, at);
      break;
    default:
      replaceWord(text);
      break;
    }
  }
  // Another number or name in place of one.
  void replaceDigit(std::string &text, size_t at) {
    const size_t digit = text.find_first_of("0123456789", at);
    if (digit != std::string::npos) {
      text[digit] = static_cast<char>('0' + pick(10));
    }
  }
  // One word of the text by another: names meet where they do not belong.
  void replaceWord(std::string &text) {
    const auto word = [&] {
      size_t begin = pick(text.size() + 1);
      const auto part = [&](size_t i) {
        return i < text.size() &&
               (std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_');
      };
      while (begin < text.size() && !part(begin)) {
        ++begin;
      }
      size_t end = begin;
      while (part(end)) {
        ++end;
      }
      while (begin > 0 && part(begin - 1)) {
        --begin;
      }
      return std::pair(begin, end - begin);
    };
    const auto [from, count] = word();
    const std::string other = text.substr(from, count);
    const auto [to, length] = word();
    text.replace(to, length, other);
  }
  void swapLines(std::string &text) {
    const size_t a = text.find('\n', pick(text.size() + 1));
    if (a == std::string::npos) {
      return;
    }
    const size_t b = text.find('\n', a + 1);
    if (b != std::string::npos) {
      const std::string line = text.substr(a, b - a);
      text.erase(a, b - a);
      text.insert(std::min(text.find('\n', pick(text.size() + 1)), text.size()), line);
    }
  }
  std::mt19937_64 random_;
  std::span<const char *const> pieces_;
};

} // namespace libtile::test
