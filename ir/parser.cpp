// SPDX-License-Identifier: Apache-2.0
// A recursive-descent reader without a separate lexer. Nothing in the text makes it allocate more
// than the text is long: counts are counted as they are read, extents are only numbers. Nesting of
// regions is limited, since printer, verifier and passes recurse over it too. A line's end matters
// in one place: operands start on the line of their op.
#include "ir/parser.h"

#include "ir/arity.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/source_text.h"
#include "ir/table_reader.h"

namespace libtile::ir {

namespace {

constexpr unsigned kDeepestNesting = 200;
constexpr unsigned kDeepestPointer = 8;
constexpr int64_t kMaxBufferElements = int64_t{1} << 30;

class Parser : public TableReader {
public:
  using TableReader::TableReader;

  std::vector<Reading> run() {
    std::vector<Reading> out;
    while (skipSpace(), pos_ < text_.size()) {
      out.push_back(function());
    }
    return out;
  }

private:
  // ---- types

  Type type() {
    skipSpace();
    const size_t start = pos_;
    const std::string_view name = word();
    if (name == "token") {
      return Type::token();
    }
    if (name != "tile" && name != "buffer" && name != "place") {
      pos_ = start;
      return scalarType();
    }
    expect("<");
    llvm::SmallVector<int32_t, 6> shape;
    int64_t elements = 1;
    const int64_t most = name == "buffer" ? kMaxBufferElements : Type::kMaxElements;
    while (skipSpace(), peek() >= '0' && peek() <= '9') {
      shape.push_back(smallInteger(1));
      elements *= shape.back();
      if (elements > most) {
        fail("a " + std::string(name) + " of more than " + std::to_string(most) + " elements",
             start);
      }
      if (shape.size() > Type::kMaxRank) {
        fail("more than 6 axes", start);
      }
      expect("x");
    }
    if (shape.empty()) {
      fail("expected an extent");
    }
    const Type element = scalarType();
    LayoutId layout;
    if (accept(",")) {
      layout = layoutReference();
    }
    expect(">");
    if (name == "tile") {
      return Type::tile(shape, element, layout);
    }
    if (element.isPointer()) {
      fail("a " + std::string(name) + " of pointers", start);
    }
    return name == "buffer" ? Type::buffer(shape, element.elem(), layout)
                            : Type::place(shape, element.elem(), layout);
  }

  LayoutId layoutReference() {
    expect("#");
    const std::string_view name = expectWord("a name");
    const auto row = tables_.layouts.find(llvm::StringRef(name.data(), name.size()));
    if (row == tables_.layouts.end()) {
      fail("unknown layout");
    }
    const LayoutId layout = fn_->internLayout(row->second);
    names_.set(layout, std::string(name));
    return layout;
  }

  Type scalarType() {
    unsigned depth = 0;
    while (acceptWord("ptr")) {
      expect("<");
      if (++depth > kDeepestPointer) {
        fail("too many levels of pointers");
      }
    }
    skipSpace();
    const size_t start = pos_;
    const std::string_view name = word();
    Elem elem = Elem::Void;
    for (unsigned e = unsigned(Elem::I1); e <= unsigned(Elem::F64); ++e) {
      if (name == elemName(Elem(e))) {
        elem = Elem(e);
      }
    }
    if (elem == Elem::Void && !(depth > 0 && name == "void")) {
      fail("expected a type", start);
    }
    for (unsigned i = 0; i < depth; ++i) {
      expect(">");
    }
    return Type::scalar(elem, depth);
  }

  // ---- functions

  Reading function() {
    values_.clear();
    names_ = {};
    offsets_.clear();
    Function fn("");
    fn_ = &fn;
    readTables();
    if (!acceptWord("func")) {
      fail("expected 'func'");
    }
    expect("@");
    fn.name = peek() == '"' ? string() : std::string(expectWord("a name"));
    options(fn);
    expect("(");
    while (!accept(")")) {
      if (!fn.params.empty()) {
        expect(",");
      }
      parameter(fn);
    }
    head(fn);
    expect("{");
    block(fn.body(), 0);
    fn_ = nullptr;
    return {std::move(fn), std::move(names_), file_, std::move(offsets_)};
  }

  void options(Function &fn) {
    for (;;) {
      if (acceptWord("stage")) {
        expect("=");
        fn.stage = stage();
      } else if (acceptWord("warps")) {
        expect("=");
        fn.numWarps = smallInteger(0);
      } else if (acceptWord("stages")) {
        expect("=");
        fn.numStages = smallInteger(0);
      } else if (acceptWord("resident")) {
        expect("=");
        fn.resident = smallInteger(0);
      } else if (acceptWord("arena")) {
        expect("=");
        fn.arenaBytes = integer(0);
      } else {
        return;
      }
    }
  }

  Stage stage() {
    for (Stage stage : {Stage::Tile, Stage::LaidOut, Stage::Staged, Stage::Nested}) {
      const std::string_view name = stageName(stage);
      skipSpace();
      if (text_.substr(pos_, name.size()) == name) {
        pos_ += name.size();
        return stage;
      }
    }
    fail("expected a stage: tile, laid-out, staged or nested");
  }

  void parameter(Function &fn) {
    expect("%");
    const size_t start = pos_;
    const std::string_view name = expectWord("a name");
    expect(":");
    const Type type = this->type();
    Param param;
    const bool numbered = name[0] >= '0' && name[0] <= '9';
    param.name = numbered ? "" : std::string(name);
    if (accept("{")) {
      while (!accept("}")) {
        accept(",");
        if (acceptWord("divisible")) {
          expect("=");
          param.divisible = integer(1);
        } else if (acceptWord("readonly")) {
          param.readOnly = true;
        } else if (acceptWord("name")) {
          expect("=");
          param.name = string();
        } else {
          fail("expected divisible, readonly or name");
        }
      }
    }
    define(name, fn.addParam(type, std::move(param)), start);
  }

  // Guards, maps and fallbacks.
  void head(Function &fn) {
    for (;;) {
      if (acceptWord("guard")) {
        const auto word = std::ranges::find_if(Guard::kWords, [&](std::string_view each) { return acceptWord(each); });
        const auto kind = word != Guard::kWords.end() ? Guard::Kind(word - Guard::kWords.begin()) : (fail("expected a guard"), Guard::Kind());
        const uint32_t param = parameterNumber();
        const int64_t value = kind == Guard::Kind::Positive   ? 0
                              : kind == Guard::Kind::Disjoint ? parameterNumber()
                                                              : integer();
        fn.guards.push_back({kind, param, value});
      } else if (acceptWord("map")) {
        fn.maps.push_back(tensorMap());
      } else if (acceptWord("fallback")) {
        fn.fallbacks.push_back(string());
      } else {
        return;
      }
    }
  }

  TensorMap tensorMap() {
    TensorMap map;
    map.param = parameterNumber();
    map.elem = type().elem();
    while (accept("[")) {
      TensorMap::Dim dim;
      dim.extent = launchNumber();
      expect(",");
      dim.stride = launchNumber();
      expect(",");
      dim.box = smallInteger(1);
      expect("]");
      map.dims.push_back(dim);
    }
    return map;
  }

  LaunchNumber launchNumber() {
    skipSpace();
    const bool isParameter = peek() == '%';
    const int64_t factor = isParameter ? 1 : integer();
    return {factor, isParameter || accept("*") ? static_cast<int32_t>(parameterNumber()) : -1};
  }

  // A parameter by its name. Nothing else has one yet.
  uint32_t parameterNumber() {
    expect("%");
    const size_t start = pos_;
    const std::string_view name = expectWord("a parameter");
    const auto it = values_.find(llvm::StringRef(name.data(), name.size()));
    if (it == values_.end()) {
      fail("%" + std::string(name) + " is no parameter", start);
    }
    return fn_->defIndex(it->second);
  }

  // ---- ops

  void define(std::string_view name, ValueId value, size_t at) {
    if (!values_.try_emplace(llvm::StringRef(name.data(), name.size()), value).second) {
      fail("%" + std::string(name) + " is defined twice", at);
    }
    names_.set(value, std::string(name));
  }

  // Ops up to the closing brace, which is taken too.
  void block(BlockId block, unsigned depth) {
    if (depth > kDeepestNesting) {
      fail("regions nested too deeply");
    }
    if (depth > 0 && accept("^")) {
      expect("(");
      for (bool first = true; !accept(")"); first = false) {
        if (!first) {
          expect(",");
        }
        expect("%");
        const size_t start = pos_;
        const std::string_view name = expectWord("a name");
        expect(":");
        define(name, fn_->addArg(block, type()), start);
      }
      expect(":");
    }
    while (!accept("}")) {
      op(block, depth);
    }
  }

  struct Name {
    std::string_view text;
    size_t at;
  };

  void op(BlockId block, unsigned depth) {
    llvm::SmallVector<Name, 2> names;
    while (accept("%")) {
      const size_t start = pos_;
      names.push_back({expectWord("a name"), start});
      if (accept("=")) {
        break;
      }
      expect(",");
    }
    skipSpace();
    const size_t start = pos_;
    const std::string_view mnemonic = expectWord("an op");
    const std::optional<Opcode> opcode = opcodeByMnemonic(mnemonic);
    if (!opcode) {
      fail("unknown op " + std::string(mnemonic), start);
    }
    const OpInfo &row = info(*opcode);
    const Values operands = this->operands();
    if (!operandCountFits(row, operands.size())) {
      fail(std::string(mnemonic) + " with " + std::to_string(operands.size()) + " operands", start);
    }
    const OpId op = fn_->createOp(*opcode, operands, {}, {});
    fn_->append(block, op);
    offsets_.set(op, start);
    attributes(op, row, start);
    resultTypes(op, row, names.size(), start);
    canonicalise(op, start);
    if (acceptWord("loc")) {
      expect("(");
      const auto index = uint64_t(integer(0));
      if (index >= tables_.locations.size()) {
        fail("unknown location");
      }
      fn_->setLoc(op, fn_->internLocation(*tables_.locations[index]));
      expect(")");
    }
    for (size_t i = 0; i < row.regions.size(); ++i) {
      expect("{");
      this->block(fn_->addRegion(op), depth + 1);
    }
    for (size_t i = 0; i < names.size(); ++i) {
      define(names[i].text, fn_->result(op, i), names[i].at);
    }
  }

  Values operands() {
    Values out;
    const size_t line = lineStart_;
    skipSpace();
    if (peek() != '%' || lineStart_ != line) {
      return out;
    }
    do {
      expect("%");
      const size_t start = pos_;
      const std::string_view name = expectWord("a name");
      const auto it = values_.find(llvm::StringRef(name.data(), name.size()));
      if (it == values_.end()) {
        fail("%" + std::string(name) + " is not defined before its use", start);
      }
      out.push_back(it->second);
    } while (accept(","));
    return out;
  }

  // `{name=value, ...}`; any other brace opens a region.
  bool atAttributes() {
    skipSpace();
    const size_t start = pos_;
    const bool yes = accept("{") && !word().empty() && accept("=");
    pos_ = start;
    return yes;
  }

  void attributes(OpId op, const OpInfo &row, size_t at) {
    if (atAttributes()) {
      expect("{");
      do {
        skipSpace();
        const size_t start = pos_;
        const std::string_view name = expectWord("an attribute");
        const std::optional<Attr> attr = attrByName(name);
        bool known = false;
        for (const AttrSpec &spec : row.attributes) {
          known = known || (attr && spec.attr == *attr);
        }
        if (!known || fn_->hasAttr(op, *attr)) {
          fail(std::string(row.mnemonic) + " takes no " + (known ? "second " : "") +
                   std::string(name),
               start);
        }
        expect("=");
        fn_->setAttr(op, *attr, attributeValue(*attr));
      } while (accept(","));
      expect("}");
    }
    for (const AttrSpec &spec : row.attributes) {
      if (!spec.optional && !fn_->hasAttr(op, spec.attr)) {
        fail(std::string(row.mnemonic) + " needs " + attrName(spec.attr), at);
      }
    }
  }

  AttrValue attributeValue(Attr attr) {
    const AttrKind kind = attrKind(attr);
    if (kind == AttrKind::Int) {
      return integer();
    }
    if (kind == AttrKind::Ints) {
      return integers();
    }
    if (kind == AttrKind::Scalar) {
      double value = 0;
      return acceptFloat(value) ? AttrValue(value) : AttrValue(integer());
    }
    if (kind == AttrKind::Text) {
      skipSpace();
      return string();
    }
    const size_t start = pos_;
    const std::string_view name = expectWord("a value");
    if (kind == AttrKind::Bool) {
      if (name != "true" && name != "false") {
        fail("expected true or false", start);
      }
      return int64_t{name == "true"};
    }
    const std::optional<int64_t> value = enumeratorByName(kind, name);
    if (!value) {
      fail(std::string(name) + " is no " + attrName(attr), start);
    }
    return *value;
  }

  void resultTypes(OpId op, const OpInfo &row, size_t count, size_t at) {
    if (!resultCountFits(row, count)) {
      fail(std::string(row.mnemonic) + " with " + std::to_string(count) + " results", at);
    }
    for (size_t i = 0; i < count; ++i) {
      expect(i == 0 ? ":" : ",");
      fn_->addResult(op, type());
    }
  }

  // A constant's value in the form that its type holds.
  void canonicalise(OpId op, size_t at) {
    if (fn_->opcode(op) != Opcode::Constant) {
      return;
    }
    const Type type = fn_->type(fn_->result(op));
    const AttrValue value = *fn_->findAttr(op, Attr::value);
    const auto *whole = std::get_if<int64_t>(&value);
    const auto *real = std::get_if<double>(&value);
    if (type.isFloating()) {
      const double wanted = whole != nullptr ? static_cast<double>(*whole) : *real;
      fn_->setAttr(op, Attr::value, AttrValue(canonicalFloat(type.elem(), wanted)));
    } else if (whole == nullptr) {
      fail("a float as a constant of type " + type.str(), at);
    } else if (type.isInteger()) {
      fn_->setAttr(op, Attr::value, AttrValue(canonicalInt(type.elem(), *whole)));
    }
  }

  Function *fn_ = nullptr;
  llvm::StringMap<ValueId> values_;
  Names names_;
  IndexMap<OpId, size_t> offsets_;
};

} // namespace

Location Reading::place(OpId op) const { return locationAt(file, offsets[op]); }

Function parse(std::string_view text, const std::string &name) {
  Parser parser(text, name);
  std::vector<Reading> readings = parser.run();
  if (readings.size() != 1) {
    parser.fail("expected one function", 0);
  }
  return std::move(readings[0].fn);
}

std::vector<Reading> parseAll(std::string_view text, const std::string &name) {
  return Parser(text, name).run();
}

} // namespace libtile::ir
