// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/ptx_text.h"

#include <cctype>

namespace libtile::passes {

namespace {

// The text without comments and with single spaces.
std::string plainText(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    const std::string_view rest = text.substr(at);
    if (rest.starts_with("//")) {
      at = std::min(text.find('\n', at), text.size());
    } else if (rest.starts_with("/*")) {
      const size_t end = text.find("*/", at + 2);
      at = end == std::string_view::npos ? text.size() : end + 1;
    }
    const char c = at < text.size() ? text[at] : ' ';
    const bool space = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (!space || (!out.empty() && out.back() != ' ')) {
      out += space ? ' ' : c;
    }
  }
  return out;
}

bool isWord(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '$' ||
         c == '%' || c == '-' || c == '<' || c == '>';
}

class Reader {
public:
  explicit Reader(std::string_view text) : text_(plainText(text)) {}

  std::optional<std::vector<PtxInstruction>> run(std::string &wrong) {
    std::vector<PtxInstruction> out;
    for (skip(); at_ < text_.size(); skip()) {
      if (accept('{') || accept('}') || accept(';')) {
        continue;
      }
      const size_t start = at_;
      const size_t end = std::min(text_.find(';', at_), text_.size());
      if (text_.compare(at_, 4, ".reg") == 0) {
        at_ = end;
        continue;
      }
      PtxInstruction instruction;
      if (!read(instruction)) {
        wrong = text_.substr(start, end - start);
        return std::nullopt;
      }
      instruction.text = text_.substr(start, at_ - start - 1);
      out.push_back(std::move(instruction));
    }
    return out;
  }

private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') {
      ++at_;
    }
  }
  bool accept(char c) {
    skip();
    const bool is = at_ < text_.size() && text_[at_] == c;
    at_ += is ? 1 : 0;
    return is;
  }
  std::string word() {
    skip();
    const size_t first = at_;
    while (at_ < text_.size() && isWord(text_[at_])) {
      ++at_;
    }
    return text_.substr(first, at_ - first);
  }

  bool read(PtxInstruction &out) {
    if (accept('@')) {
      out.negated = accept('!');
      out.predicate = word();
    }
    std::string mnemonic = word();
    for (size_t dot = mnemonic.find('.'); dot != std::string::npos; dot = mnemonic.find('.')) {
      out.parts.push_back(mnemonic.substr(0, dot));
      mnemonic.erase(0, dot + 1);
    }
    out.parts.push_back(mnemonic);
    do {
      PtxOperand operand;
      operand.isVector = accept('{');
      do {
        operand.names.push_back(word());
      } while (operand.isVector && accept(','));
      if ((operand.isVector && !accept('}')) || operand.names.back().empty()) {
        return false;
      }
      out.operands.push_back(std::move(operand));
    } while (accept(','));
    return accept(';') || at_ >= text_.size();
  }

  std::string text_;
  size_t at_ = 0;
};

} // namespace

std::optional<std::vector<PtxInstruction>> readPtx(std::string_view text, std::string &wrong) {
  return Reader(text).run(wrong);
}

} // namespace libtile::passes
