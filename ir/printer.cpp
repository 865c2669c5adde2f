// SPDX-License-Identifier: Apache-2.0
// The writer of the text form. Without shared names numbering is by position in the text, so equal
// functions print equally whatever their ids are. Layouts print only when used, in the order of use.
#include "ir/printer.h"

#include "ir/ops.h"
#include "ir/source_text.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/DenseSet.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <sstream>

namespace libtile::ir {

namespace {

// Can stand behind % or @ as it is, and is no number.
bool isPlainName(std::string_view name) {
  for (char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) == 0 && c != '_' && byte < 0x80) {
      return false;
    }
  }
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9');
}

} // namespace

std::string quote(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7F) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string formatFloat(double value) {
  char buffer[40];
  if (!std::isfinite(value)) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, bits, 16);
    return "0x" + std::string(16 - (end - buffer), '0') + std::string(buffer, end);
  }
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  std::string out(buffer, end);
  return out.find_first_of(".e") == std::string::npos ? out + ".0" : out;
}

namespace {

class Printer {
public:
  Printer(const Function &fn, const PrintOptions &options)
      : fn_(fn), options_(options), names_(options.names != nullptr ? *options.names : own_) {}

  std::string run() {
    header();
    block(fn_.body(), 1);
    out_ += "}\n";
    return preamble() + out_;
  }

private:
  void header() {
    out_ += "func @" + (isPlainName(fn_.name) ? fn_.name : quote(fn_.name)) +
            " stage=" + stageName(fn_.stage) + " warps=" + std::to_string(fn_.numWarps) +
            " stages=" + std::to_string(fn_.numStages);
    if (fn_.resident != 0) {
      out_ += " resident=" + std::to_string(fn_.resident);
    }
    if (fn_.arenaBytes != 0) {
      out_ += " arena=" + std::to_string(fn_.arenaBytes);
    }
    out_ += " (";
    for (size_t i = 0; i < fn_.args(fn_.body()).size(); ++i) {
      const ValueId value = fn_.arg(fn_.body(), i);
      const Param param = i < fn_.params.size() ? fn_.params[i] : Param{};
      const bool plain = isPlainName(param.name);
      const std::string &name = names_.give(value, plain ? param.name : "");
      const bool named = plain && name == param.name;
      out_ += (i == 0 ? "%" : ", %") + name + ": " + type(fn_.type(value));
      std::string attributes;
      if (!named && !param.name.empty()) {
        attributes += ", name=" + quote(param.name);
      }
      if (param.divisible != 1) {
        attributes += ", divisible=" + std::to_string(param.divisible);
      }
      if (param.readOnly) {
        attributes += ", readonly";
      }
      if (!attributes.empty()) {
        out_ += " {" + attributes.substr(2) + "}";
      }
    }
    out_ += ")";
    for (const Guard &guard : fn_.guards) {
      out_ += "\n  guard " + guardText(guard);
    }
    for (const TensorMap &map : fn_.maps) {
      out_ += "\n  map " + mapText(map);
    }
    for (const std::string &fallback : fn_.fallbacks) {
      out_ += "\n  fallback " + quote(fallback);
    }
    out_ += " {\n";
  }

  std::string guardText(const Guard &guard) const {
    const std::string text = std::string(Guard::kWords[static_cast<size_t>(guard.kind)]) + " " + parameter(guard.param);
    switch (guard.kind) {
    case Guard::Kind::Divisible:
    case Guard::Kind::Below:
    case Guard::Kind::Above:
    case Guard::Kind::Within:
      return text + " " + std::to_string(guard.value);
    case Guard::Kind::Disjoint:
      return text + " " + parameter(guard.value);
    case Guard::Kind::Positive:
      return text;
    }
    return {};
  }

  // %a f16 [%m, 2*%stride, 64] [%k, 2, 64]: extent, stride and box of each dimension.
  std::string mapText(const TensorMap &map) const {
    std::string text = parameter(map.param) + " " + std::string(elemName(map.elem));
    for (const TensorMap::Dim &dim : map.dims) {
      text += " [" + numberText(dim.extent) + ", " + numberText(dim.stride) + ", " + std::to_string(dim.box) + "]";
    }
    return text;
  }
  std::string numberText(const LaunchNumber &number) const {
    const std::string factor = std::to_string(number.factor);
    return number.param < 0 ? factor : (number.factor == 1 ? "" : factor + "*") + parameter(number.param);
  }

  [[nodiscard]] std::string parameter(uint64_t index) const {
    const std::span<const ValueId> args = fn_.args(fn_.body());
    return use(index < args.size() ? args[index] : ValueId());
  }

  std::string type(const Type &type) {
    const LayoutId layout = type.layout();
    if (layout.valid() && used_.insert(layout.index).second) {
      const bool known = layout.index < fn_.layouts().size();
      const bool forms = options_.names != nullptr && known;
      names_.give(layout, forms ? formOf(fn_.layout(layout)) : "");
      layoutOrder_.push_back(layout);
    }
    return names_.type(type);
  }

  [[nodiscard]] std::string use(ValueId value) const {
    const std::string &text = names_.of(value);
    return "%" + (text.empty() ? "<undefined>" : text);
  }

  void block(BlockId block, unsigned depth) {
    for (OpId op = fn_.first(block); op.valid(); op = fn_.next(op)) {
      this->op(op, depth);
    }
  }

  void op(OpId op, unsigned depth) {
    if (options_.source) {
      sourceComment(fn_.locationOf(op), depth);
    }
    const size_t start = out_.size();
    out_.append(2 * depth, ' ');
    const std::span<const ValueId> results = fn_.results(op);
    for (size_t i = 0; i < results.size(); ++i) {
      out_ += i == 0 ? "%" : ", %";
      out_ += names_.give(results[i]);
    }
    out_ += results.empty() ? "" : " = ";
    out_ += fn_.opInfo(op).mnemonic;
    for (size_t i = 0; i < fn_.numOperands(op); ++i) {
      out_ += i == 0 ? " " : ", ";
      out_ += use(fn_.operand(op, i));
    }
    attributes(op);
    for (size_t i = 0; i < results.size(); ++i) {
      out_ += i == 0 ? " : " : ", ";
      out_ += type(fn_.type(results[i]));
    }
    if (options_.locations && fn_.loc(op).valid()) {
      out_ += " ";
      // Locations stand in one column where the lines are short.
      const size_t width = out_.size() - start;
      out_.append(width < 60 ? 60 - width : 0, ' ');
      out_ += "loc(" + std::to_string(location(fn_.loc(op))) + ")";
    }
    if (options_.note) {
      std::istringstream lines(options_.note(op));
      for (std::string line; std::getline(lines, line);) {
        note_ += std::string(2 * depth, ' ') + "// " + line + "\n";
      }
    }
    for (BlockId region : fn_.regions(op)) {
      this->region(region, depth);
    }
    endLine();
  }

  // "// add.py:5: m = i < n", where the line is another than that of the last op. A place inside of a
  // function that was inlined comes with that of the call in the kernel: "// math.py:9 in add.py:5: ...".
  void sourceComment(const Location &location, unsigned depth) {
    if (!location.known()) {
      return;
    }
    const auto place = [](const Location &at) {
      const std::string name = quote(at.file->name.substr(at.file->name.rfind('/') + 1));
      return name.substr(1, name.size() - 2) + ":" +
             std::to_string(at.file->firstLine + at.line - 1);
    };
    std::string comment = place(location);
    const Location *kernel = &location;
    while (kernel->caller != nullptr && kernel->caller->known()) {
      kernel = kernel->caller.get();
    }
    comment += kernel == &location ? "" : " in " + place(*kernel);
    if (comment != lastComment_) {
      lastComment_ = comment;
      const std::string_view line = lineOf(location.file->text, location.line);
      const size_t start = std::min(line.find_first_not_of(" \t"), line.size());
      out_ += std::string(2 * depth, ' ') + "// " + comment + ": " +
              std::string(line.substr(start)) + "\n";
    }
  }

  void endLine() {
    out_ += '\n';
    out_ += note_;
    note_.clear();
  }

  void region(BlockId region, unsigned depth) {
    out_ += " {";
    endLine();
    const std::span<const ValueId> args = fn_.args(region);
    if (!args.empty()) {
      out_.append(2 * depth, ' ');
      out_ += "^(";
      for (size_t i = 0; i < args.size(); ++i) {
        out_ += i == 0 ? "%" : ", %";
        out_ += names_.give(args[i]) + ": " + type(fn_.type(args[i]));
      }
      out_ += "):\n";
    }
    block(region, depth + 1);
    out_.append(2 * depth, ' ');
    out_ += "}";
  }

  void attributes(OpId op) {
    const auto attrs = fn_.attrs(op);
    if (attrs.empty()) {
      return;
    }
    std::string text;
    const auto add = [&](Attr attr, const AttrValue &value) {
      text += text.empty() ? "" : ", ";
      text += std::string(attrName(attr)) + "=" + attributeText(attr, value);
    };
    for (const AttrSpec &spec : fn_.opInfo(op).attributes) {
      if (const AttrValue *value = fn_.findAttr(op, spec.attr)) {
        add(spec.attr, *value);
      }
    }
    // What the row does not name is wrong, but shown.
    for (const auto &[attr, value] : attrs) {
      bool named = false;
      for (const AttrSpec &spec : fn_.opInfo(op).attributes) {
        named = named || spec.attr == attr;
      }
      if (!named) {
        add(attr, value);
      }
    }
    out_ += " {" + text + "}";
  }

  static std::string attributeText(Attr attr, const AttrValue &value) {
    if (const auto *list = std::get_if<std::vector<int64_t>>(&value)) {
      std::string text = "[";
      for (size_t i = 0; i < list->size(); ++i) {
        text += (i == 0 ? "" : ", ") + std::to_string((*list)[i]);
      }
      return text + "]";
    }
    if (const auto *number = std::get_if<double>(&value)) {
      return formatFloat(*number);
    }
    if (const auto *characters = std::get_if<std::string>(&value)) {
      return quote(*characters);
    }
    const int64_t number = std::get<int64_t>(value);
    const AttrKind kind = attrKind(attr);
    if (kind == AttrKind::Bool && (number == 0 || number == 1)) {
      return number == 1 ? "true" : "false";
    }
    if (kind > AttrKind::Text) {
      const std::string_view name = enumeratorName(kind, number);
      if (!name.empty()) {
        return std::string(name);
      }
    }
    return std::to_string(number);
  }

  // ---- locations: numbered in order of first use, callers before those they call

  uint32_t file(const std::shared_ptr<const SourceFile> &file) {
    const auto [it, fresh] = fileNumbers_.try_emplace(file.get(), files_.size());
    if (fresh) {
      files_.push_back(file.get());
    }
    return it->second;
  }

  uint32_t locationNumber(const Location &location) {
    std::string text = std::to_string(file(location.file)) + " " + std::to_string(location.line) +
                       ":" + std::to_string(location.column) + "-" +
                       std::to_string(location.endColumn);
    if (location.caller != nullptr && location.caller->known()) {
      const Location *caller = location.caller.get();
      const auto known = callerNumbers_.find(caller);
      const uint32_t number =
          known != callerNumbers_.end() ? known->second : locationNumber(*caller);
      callerNumbers_[caller] = number;
      text += " from " + std::to_string(number);
    }
    locationTexts_.push_back(std::move(text));
    return locationTexts_.size() - 1;
  }

  uint32_t location(LocationId id) {
    const auto it = locationNumbers_.find(id.index);
    if (it != locationNumbers_.end()) {
      return it->second;
    }
    const uint32_t number = locationNumber(fn_.location(id));
    locationNumbers_[id.index] = number;
    return number;
  }

  std::string preamble() {
    std::string out;
    for (size_t i = 0; i < files_.size(); ++i) {
      out += "file " + std::to_string(i) + " " + quote(files_[i]->name) + " line " +
             std::to_string(files_[i]->firstLine) + " " + quote(files_[i]->text) + "\n";
    }
    for (size_t i = 0; i < locationTexts_.size(); ++i) {
      out += "loc " + std::to_string(i) + " " + locationTexts_[i] + "\n";
    }
    for (size_t i = 0; i < layoutOrder_.size(); ++i) {
      const bool known = layoutOrder_[i].index < fn_.layouts().size();
      out += "#" + names_.of(layoutOrder_[i]) + " = layout " +
             (known ? fn_.layout(layoutOrder_[i]).str() : "<undefined>") + "\n";
    }
    return out;
  }

  const Function &fn_;
  const PrintOptions &options_;
  Names own_;
  Names &names_;
  std::string lastComment_;
  std::string note_; // goes below the line that is being written
  std::string out_;
  llvm::DenseSet<uint32_t> used_; // layouts of this text
  std::vector<LayoutId> layoutOrder_;
  llvm::DenseMap<const SourceFile *, uint32_t> fileNumbers_;
  std::vector<const SourceFile *> files_;
  llvm::DenseMap<uint32_t, uint32_t> locationNumbers_;
  llvm::DenseMap<const Location *, uint32_t> callerNumbers_;
  std::vector<std::string> locationTexts_;
};

} // namespace

std::string print(const Function &fn, const PrintOptions &options) {
  return Printer(fn, options).run();
}

} // namespace libtile::ir
