// SPDX-License-Identifier: Apache-2.0
#include "tests/ir/random_function.h"

#include "ir/ops.h"

#include <algorithm>
#include <limits>

namespace libtile::test {

using namespace libtile::ir;

namespace {

class Maker {
public:
  explicit Maker(uint64_t seed)
      : random_(seed), fn_("f" + std::to_string(seed % 100)), builder_(fn_) {}

  Function run() {
    const Elem elems[] = {Elem::I8,   Elem::I32, Elem::I64, Elem::F16,
                          Elem::BF16, Elem::F32, Elem::F64};
    for (int i = 0; i < 3; ++i) {
      const Elem elem = elems[below(7)];
      live_.push_back(fn_.addParam(Type::pointer(elem),
                                   {"p" + std::to_string(i), int64_t{1} << below(6), flip()}));
    }
    live_.push_back(fn_.addParam(Type::scalar(Elem::I32), {"n", 16, false}));
    live_.push_back(fn_.addParam(Type::scalar(Elem::F32), {flip() ? "x.y" : "", 1, false}));
    fn_.guards.push_back({Guard::Kind::Below, 3, int64_t{1} << below(40)});
    fn_.guards.push_back({Guard::Kind::Disjoint, 0, 1});
    fn_.guards.push_back({Guard::Kind::Above, 3, -static_cast<int64_t>(below(9))});
    fn_.maps.push_back({0, Elem::F16, {{{1, 3}, {int64_t{16} << below(9), flip() ? 3 : -1}, 128}, {{4096, -1}, {2, -1}, 32}}});
    fn_.fallbacks.push_back("why \"not\"\n\\ \x01");
    ops(12 + below(20), 0);
    keepAlive();
    builder_.op(Opcode::Return, {});
    return std::move(fn_);
  }

private:
  // Stores some of the values, through null pointers: such functions are compiled, never run.
  void keepAlive() {
    for (size_t i = 0; i < std::min<size_t>(6, live_.size()); ++i) {
      const ValueId value = live_[live_.size() - 1 - i];
      if (!fn_.type(value).isPointer()) {
        builder_.op(Opcode::Store, {{builder_.zero(fn_.type(value).pointerTo()), value}});
      }
    }
  }

  uint64_t below(uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n - 1)(random_); }
  bool flip() { return below(2) == 0; }

  void place() {
    Location location;
    location.file = file_;
    location.line = 1 + below(9);
    location.column = 1 + below(40);
    location.endColumn = location.column + below(10);
    if (below(3) == 0) {
      auto caller = std::make_shared<Location>(location);
      caller->caller = caller_;
      caller_ = caller;
    }
    location.caller = flip() ? caller_ : nullptr;
    builder_.loc = below(5) == 0 ? LocationId{} : fn_.internLocation(location);
  }

  // A live value that fits; makes a constant if there is none.
  template <class Fits> ValueId pick(Fits fits, Type fallback) {
    std::vector<ValueId> choices;
    std::copy_if(live_.begin(), live_.end(), std::back_inserter(choices),
                 [&](ValueId value) { return fits(fn_.type(value)); });
    return choices.empty() || below(8) == 0 ? constant(fallback) : choices[below(choices.size())];
  }

  ValueId constant(Type type) {
    const double special[] = {0.0,
                              -0.0,
                              1e300,
                              -1e-310,
                              std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::quiet_NaN(),
                              0.1,
                              3.0};
    if (type.isFloating()) {
      return keep(builder_.constFloat(type, special[below(8)]));
    }
    return keep(builder_.constInt(type, type.isPointer() ? 0 : static_cast<int64_t>(random_())));
  }

  ValueId keep(ValueId value) {
    live_.push_back(value);
    return value;
  }

  Type someType() {
    const Elem elems[] = {Elem::I1,  Elem::I8,   Elem::I16, Elem::I32, Elem::I64,
                          Elem::F16, Elem::BF16, Elem::F32, Elem::F64};
    const Type element = Type::scalar(elems[below(9)]);
    switch (below(3)) {
    case 0:
      return element;
    case 1:
      return Type::tile({static_cast<int32_t>(1 + below(100))}, element);
    }
    return Type::tile({static_cast<int32_t>(1 + below(32)), 16}, element);
  }

  void ops(uint64_t count, int depth) {
    for (uint64_t i = 0; i < count; ++i) {
      place();
      op(depth);
    }
  }

  void op(int depth) {
    const auto any = [](const Type &type) { return !type.isPointer(); };
    switch (below(depth < 3 ? 11 : 8)) {
    case 0:
      constant(someType());
      return;
    case 1:
      arithmetic();
      return;
    case 2: {
      const ValueId a = pick(any, Type::scalar(Elem::I32));
      const Type type = fn_.type(a);
      const ValueId b = pick([&](const Type &other) { return other == type; }, type);
      const uint64_t predicate = type.isFloating() ? 10 + below(7) : below(10);
      keep(builder_.cmp(static_cast<CmpPred>(predicate), a, b));
      return;
    }
    case 3: {
      const int32_t shape[] = {static_cast<int32_t>(1 + below(64))};
      keep(builder_.splat(
          pick([](const Type &type) { return type.isScalar(); }, Type::scalar(Elem::F16)), shape));
      return;
    }
    case 4:
      memory();
      return;
    case 5:
      shape();
      return;
    case 6:
      keep(builder_.make(Opcode::Bitcast,
                         {pick([](const Type &t) { return t.isInteger() && t.elem() == Elem::I32; },
                               Type::scalar(Elem::I32))},
                         Type::scalar(Elem::F32)));
      fixBitcast();
      return;
    case 7:
      reduce();
      return;
    case 8:
      loop(depth);
      return;
    case 9:
      branch(depth);
      return;
    default:
      whileLoop(depth);
      return;
    }
  }

  void fixBitcast() {
    const ValueId value = live_.back();
    fn_.setType(value, fn_.type(fn_.operand(fn_.def(value), 0)).withElement(Elem::F32));
  }

  void arithmetic() {
    const Opcode ints[] = {Opcode::Add, Opcode::Mul, Opcode::SDiv,
                           Opcode::Xor, Opcode::Shl, Opcode::UMax};
    const Opcode floats[] = {Opcode::Add, Opcode::Sub, Opcode::FDiv, Opcode::FMax, Opcode::FRem};
    const ValueId a =
        pick([](const Type &type) { return type.isInteger() || type.isFloating(); }, someType());
    const Type type = fn_.type(a);
    const ValueId b = pick([&](const Type &other) { return other == type; }, type);
    const ValueId result =
        builder_.make(type.isFloating() ? floats[below(5)] : ints[below(6)], {a, b});
    if (fn_.opcode(fn_.def(result)) == Opcode::FMax && flip()) {
      fn_.setAttr(fn_.def(result), Attr::nan, AttrValue(int64_t{1}));
    }
    if (fn_.opcode(fn_.def(result)) == Opcode::FDiv && flip()) {
      fn_.setAttr(fn_.def(result), Attr::rounded, AttrValue(int64_t{1}));
    }
    keep(result);
  }

  void memory() {
    const ValueId pointer =
        pick([](const Type &type) { return type.isPointer(); }, Type::pointer(Elem::F32));
    if (fn_.type(pointer).isScalar() && flip()) {
      const int32_t shape[] = {static_cast<int32_t>(1 + below(50))};
      const ValueId tile = builder_.splat(pointer, shape);
      const ValueId offset =
          keep(builder_.make(Opcode::Arange, {}, Type::tile(shape, Type::scalar(Elem::I32))));
      fn_.setAttr(fn_.def(offset), Attr::start, AttrValue(static_cast<int64_t>(below(5))));
      keep(builder_.make(Opcode::PtrAdd, {tile, offset}));
      return;
    }
    const ValueId loaded = keep(builder_.make(Opcode::Load, {pointer}));
    if (flip()) {
      fn_.setAttr(fn_.def(loaded), Attr::cache, static_cast<CacheHint>(below(5)));
    }
    if (flip()) {
      builder_.op(Opcode::Store, {{pointer, loaded}});
    }
  }

  void shape() {
    const ValueId a = pick([](const Type &type) { return type.isTile(); },
                           Type::tile({8, 4}, Type::scalar(Elem::I16)));
    const Type type = fn_.type(a);
    std::vector<int32_t> shape(type.shape().begin(), type.shape().end());
    if (flip() && flip()) {
      const ValueId result = keep(builder_.make(Opcode::Slice, {a}, type));
      fn_.setAttr(fn_.def(result), Attr::axis, AttrValue(int64_t{0}));
      fn_.setAttr(fn_.def(result), Attr::start, AttrValue(int64_t{shape[0]} - 1));
      fn_.setAttr(fn_.def(result), Attr::step, AttrValue(int64_t{-1}));
      return;
    }
    if (shape.size() == 2) {
      const ValueId result = keep(builder_.make(
          Opcode::Trans, {a}, type.withShape(std::vector<int32_t>{shape[1], shape[0]})));
      fn_.setAttr(fn_.def(result), Attr::order, AttrValue(std::vector<int64_t>{1, 0}));
      return;
    }
    shape.insert(shape.begin(), 1);
    const ValueId result = keep(builder_.make(Opcode::ExpandDims, {a}, type.withShape(shape)));
    fn_.setAttr(fn_.def(result), Attr::axis, AttrValue(int64_t{0}));
  }

  void reduce() {
    const ValueId a = pick([](const Type &type) { return type.isTile() && !type.isPointer(); },
                           Type::tile({8, 4}, Type::scalar(Elem::F32)));
    const Type type = fn_.type(a);
    std::vector<int32_t> shape(type.shape().begin(), type.shape().end() - 1);
    const Type result = type.withShape(shape);
    const OpId op = builder_.op(Opcode::Reduce, {&a, 1}, {&result, 1});
    fn_.setAttr(op, Attr::axis, AttrValue(int64_t{type.rank()} - 1));
    const BlockId region = fn_.region(op);
    const ValueId left = fn_.addArg(region, type.element());
    const ValueId right = fn_.addArg(region, type.element());
    Builder inner(fn_, region);
    const ValueId sum = inner.make(Opcode::Add, {left, right});
    inner.yield({&sum, 1});
    keep(fn_.result(op));
  }

  // Runs `body` in the region; what it defines goes out of sight after it.
  template <class Body> void inside(BlockId region, Body body) {
    const size_t before = live_.size();
    const Builder outer = builder_;
    builder_.setEnd(region);
    live_.insert(live_.end(), fn_.args(region).begin(), fn_.args(region).end());
    body();
    live_.resize(before);
    builder_.setEnd(outer.block());
  }

  void loop(int depth) {
    const Type i32 = Type::scalar(Elem::I32);
    const auto bound = [&] { return pick([&](const Type &type) { return type == i32; }, i32); };
    const auto any = [](const Type &) { return true; };
    const ValueId operands[] = {bound(), bound(), builder_.i32(1 + below(3)), pick(any, i32)};
    const Type carried = fn_.type(operands[3]);
    const OpId op = builder_.op(Opcode::For, operands, {&carried, 1});
    const bool stop = flip();
    if (stop) {
      fn_.setAttr(op, Attr::stop, AttrValue(int64_t{1}));
    }
    const BlockId region = fn_.region(op);
    fn_.addArg(region, i32);
    fn_.addArg(region, carried);
    inside(region, [&] {
      ops(1 + below(4), depth + 1);
      Values yielded;
      const Type flag = Type::scalar(Elem::I1);
      if (stop) {
        yielded.push_back(pick([&](const Type &type) { return type == flag; }, flag));
      }
      yielded.push_back(pick([&](const Type &type) { return type == carried; }, carried));
      builder_.yield(yielded);
    });
    keep(fn_.result(op));
  }

  void branch(int depth) {
    const Type flag = Type::scalar(Elem::I1);
    const ValueId condition = pick([&](const Type &type) { return type == flag; }, flag);
    const Type type = someType();
    const OpId op = builder_.op(Opcode::If, {&condition, 1}, {&type, 1});
    for (unsigned region : {0u, 1u}) {
      inside(fn_.region(op, region), [&] {
        ops(below(4), depth + 1);
        const ValueId value = pick([&](const Type &other) { return other == type; }, type);
        builder_.yield({&value, 1});
      });
    }
    keep(fn_.result(op));
  }

  void whileLoop(int depth) {
    const OpId op = builder_.op(Opcode::While, {});
    inside(fn_.region(op, 0), [&] {
      const ValueId flag = constant(Type::scalar(Elem::I1));
      builder_.yield({&flag, 1});
    });
    inside(fn_.region(op, 1), [&] {
      ops(below(3), depth + 1);
      builder_.yield({});
    });
  }

  std::mt19937_64 random_;
  Function fn_;
  Builder builder_;
  std::vector<ValueId> live_;
  std::shared_ptr<const SourceFile> file_ =
      std::make_shared<SourceFile>(SourceFile{"a \"b\".py", "def f():\n\tpass\n", 7});
  std::shared_ptr<const Location> caller_;
};

} // namespace

Function randomFunction(uint64_t seed) { return Maker(seed).run(); }

std::string mutateText(std::string text, std::mt19937_64 &random) {
  constexpr std::string_view kPieces[] = {"%",      "{",      "}",
                                          "(",      ")",      "<",
                                          ">",      "-1",     "99999999999999999999",
                                          "0x",     "tile<",  "ptr<",
                                          ":",      "=",      ",",
                                          "#0",     "loc(0)", "\"",
                                          "yield",  "for",    "\xff",
                                          "\n",     "^(",     "func @f () {",
                                          "return", "1e400",  "//",
                                          "i1"};
  const auto at = [&] { return text.empty() ? 0 : random() % text.size(); };
  for (uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
    switch (random() % 5) {
    case 0:
      text.erase(at(), 1 + random() % 8);
      break;
    case 1:
      text.insert(at(), kPieces[random() % std::size(kPieces)]);
      break;
    case 2:
      if (!text.empty()) {
        text[at()] = static_cast<char>(random());
      }
      break;
    case 3: {
      const std::string piece = text.substr(at(), random() % 80);
      text.insert(at(), piece);
      break;
    }
    default: {
      // Another number or name in place of one.
      const size_t digit = text.find_first_of("0123456789", at());
      if (digit != std::string::npos) {
        text[digit] = static_cast<char>('0' + random() % 10);
      }
    }
    }
  }
  return text;
}

} // namespace libtile::test
