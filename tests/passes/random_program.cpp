// SPDX-License-Identifier: Apache-2.0
#include "tests/passes/random_program.h"

#include "tests/passes/random_elements.h"

namespace libtile::test {

using ir::Attr;
using ir::AttrValue;
using ir::BlockId;
using ir::Builder;
using ir::Elem;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

namespace {

// Memory: 4 KiB of input, then a region for each output.
constexpr int64_t kInput = 4096, kOutput = 32768;
// Elements of a tile that fit into the input, from any start.
constexpr int64_t kLargest = 512;

class Generator : RandomElements {
public:
  using RandomElements::RandomElements;

  RandomProgram run() {
    addParams();
    fill(options_.ops, 0);
    storeAll();
    b_.op(Opcode::Return, {});
    return std::move(out_);
  }

private:
  using RandomValues::arange;

  void addParams() {
    ir::Function &fn = out_.fn;
    const auto param = [&](const char *name, Type type, int64_t divisible, int64_t value) {
      const ValueId id = fn.addParam(type, {name, divisible});
      out_.arguments.push_back({value, 0});
      return id;
    };
    input_ = param("x", Type::pointer(Elem::I32), 16, 16 * (4 + pick(8)));
    outI32_ = param("o", Type::pointer(Elem::I32), 16, kInput);
    outI64_ = param("w", Type::pointer(Elem::I64), 16, kInput + kOutput);
    outF32_ = param("f", Type::pointer(Elem::F32), 16, kInput + 2 * kOutput);
    const int64_t unit = oneOf<int64_t>({1, 4, 16});
    const int64_t lowest = oneOf<int64_t>({-4, -4, -30});
    pool_.push_back(
        param("n", Type::scalar(Elem::I32), unit, unit * (static_cast<int64_t>(pick(40)) + lowest)));
    pool_.push_back(param("m", Type::scalar(Elem::I32), 1, static_cast<int64_t>(pick(100))));
    pool_.push_back(param("k", Type::scalar(Elem::I64), unit, unit * pick(30)));
    out_.machine.program[0] = static_cast<int32_t>(pick(5));
    out_.machine.grid[0] = 5;
    out_.machine.memory.resize(static_cast<size_t>(kInput + 3 * kOutput));
    for (int64_t i = 0; i < kInput; ++i) {
      out_.machine.memory[static_cast<size_t>(i)] = static_cast<uint8_t>(random_());
    }
    const ValueId pid = b_.make(Opcode::ProgramId, {}, Type::scalar(Elem::I32));
    fn.setAttr(fn.def(pid), Attr::axis, AttrValue(int64_t{0}));
    pool_.push_back(pid);
    for (int i = 0; i < 3; ++i) {
      arange();
    }
  }

  // Where the order of stores is looked at, more than a vector.
  [[nodiscard]] std::vector<std::vector<int32_t>> shapes() const {
    if (options_.stores) {
      return {{40}, {24}, {5, 8}, {40, 1}, {1, 8}};
    }
    return {{8}, {12}, {48}, {4, 8}, {8, 1}, {1, 8}, {8, 4}};
  }

  void arange() {
    const int32_t extent =
        options_.stores ? oneOf<int32_t>({40, 24, 40}) : oneOf<int32_t>({8, 12, 4, 48});
    pool_.push_back(arange(extent, oneOf<int64_t>({0, 0, 0, 4, 7, -3, -16})));
  }
  // Runs of equal or consecutive numbers, as long as a hint says and no analysis can know.
  void hinted() {
    const int64_t run = oneOf<int64_t>({3, 4, 5, 6, 12, 12});
    const ValueId index = arange(oneOf<int32_t>({12, 24, 48}), run * pick(3));
    const bool equal = chance(50);
    const ValueId divisor = b_.constInt(type(index), run);
    const ValueId value = b_.make(equal ? Opcode::SDiv : Opcode::SRem, {index, divisor});
    const ValueId hint = b_.make(Opcode::Hint, {b_.make(Opcode::SMin, {value, b_.constInt(type(index), 99)})});
    out_.fn.setAttr(out_.fn.def(hint), equal ? Attr::constant : Attr::contiguous,
                    AttrValue(std::vector<int64_t>{run}));
    pool_.push_back(hint);
  }

  void shape() {
    const ValueId a = any([](Type t) { return t.isTile(); });
    if (!a.valid()) {
      return arange();
    }
    const Type t = type(a);
    const auto result = [&](std::vector<int32_t> dims) { return t.withShape(dims); };
    if (chance(36)) {
      pool_.push_back(chance(50) ? slice(a) : gather(a));
    } else if (t.rank() == 1 && chance(70)) {
      const bool front = chance(50);
      const int32_t n = t.dim(0);
      const ValueId made =
          b_.make(Opcode::ExpandDims, {a}, front ? result({1, n}) : result({n, 1}));
      out_.fn.setAttr(out_.fn.def(made), Attr::axis, AttrValue(int64_t{front ? 0 : 1}));
      pool_.push_back(made);
    } else if (t.rank() == 2 && (t.dim(0) == 1 || t.dim(1) == 1) && chance(70)) {
      const bool rows = t.dim(0) == 1;
      pool_.push_back(
          b_.make(Opcode::Broadcast, {a}, rows ? result({4, t.dim(1)}) : result({t.dim(0), 4})));
    } else if (t.rank() == 2 && chance(60)) {
      const ValueId made = b_.make(Opcode::Trans, {a}, result({t.dim(1), t.dim(0)}));
      out_.fn.setAttr(out_.fn.def(made), Attr::order, AttrValue(std::vector<int64_t>{1, 0}));
      pool_.push_back(made);
    } else {
      const auto n = static_cast<int32_t>(t.numElements());
      pool_.push_back(b_.make(Opcode::Reshape, {a}, chance(50) ? result({n}) : result({n / 4, 4})));
    }
  }

  void splat() {
    const ValueId a = any([](Type t) { return t.isScalar(); });
    const auto all = shapes();
    pool_.push_back(b_.splat(a, all[pick(all.size())]));
  }

  ValueId pointerTo(ValueId index) {
    const Type t = type(index);
    return b_.make(Opcode::PtrAdd, {t.isTile() ? b_.splat(input_, t.shape()) : input_, index});
  }
  // An address that nobody accesses: of any integers, or of an index that wraps as the program says.
  void address() {
    const ValueId index =
        chance(40) ? any([](Type t) { return t.isInteger() && !t.isBool(); }) : wrapped();
    pool_.push_back(chance(70) ? pointerTo(index) : index);
  }
  // The low bits of a wide index, or narrow arithmetic, near the ends of the type.
  ValueId wrapped() {
    const ValueId index = arange(oneOf<int32_t>({8, 12, 48}), 4 * pick(3));
    const Type narrow = type(index).withElement(oneOf({Elem::I8, Elem::I16, Elem::I32}));
    const Type wide = type(index).withElement(Elem::I64);
    const int64_t all = int64_t{1} << narrow.elementBits();
    const int64_t room = oneOf<int64_t>({-8, 3, 4, 7, 8, 47, 64});
    if (narrow.elem() == Elem::I32 || chance(30)) {
      const ValueId far = b_.constInt(wide, all - room);
      const ValueId sum = b_.make(Opcode::Add, {b_.make(Opcode::SExt, {index}, wide), far});
      return b_.make(Opcode::Trunc, {sum}, narrow);
    }
    const ValueId offset = b_.constInt(narrow, all / 2 - 1 - room);
    return b_.make(Opcode::Add, {b_.make(Opcode::Trunc, {index}, narrow), offset});
  }

  // An index of a program's block, divided: where the start is negative too.
  void dividedIndex() {
    const ValueId index = arange(oneOf<int32_t>({8, 12, 48}), oneOf<int64_t>({0, 0, 4, -16}));
    const Type t = type(index);
    const ValueId start = any([](Type x) { return x == Type::scalar(Elem::I32); });
    const ValueId sum = b_.make(Opcode::Add, {b_.splat(start, t.shape()), index});
    const ValueId divisor = b_.constInt(t, oneOf<int64_t>({2, 3, 4, 8, 12, 16, 16, -8}));
    using enum Opcode;
    pool_.push_back(b_.make(oneOf({SDiv, SRem, UDiv, URem}), {sum, divisor}));
  }

  // input[index % 64], or a run of it, sometimes masked.
  void load() {
    const ValueId index = any([](Type t) {
      return t.isInteger() && !t.isBool() && t.numElements() <= kLargest;
    });
    const Type t = type(index).withElement(Elem::I32);
    const ValueId pointer =
        options_.stores && chance(50)
            ? runOfInput(t)
            : pointerTo(b_.make(Opcode::URem, {index, b_.constInt(type(index), 64)}));
    if (chance(50)) {
      const ValueId mask = operandOf(t.withElement(Elem::I1));
      pool_.push_back(chance(50) ? b_.make(Opcode::Load, {pointer, mask})
                                 : b_.make(Opcode::Load, {pointer, mask, operandOf(t)}));
    } else {
      pool_.push_back(b_.make(Opcode::Load, {pointer}));
    }
  }

  // The addresses of the tile's elements one behind the other, from input[start % 64] on.
  ValueId runOfInput(Type t) {
    ValueId start = b_.i32(oneOf<int32_t>({0, 0, 1, 4, 17}));
    if (chance(40)) {
      const ValueId scalar = any([](Type x) { return x == Type::scalar(Elem::I32); });
      start = b_.make(Opcode::URem, {scalar, b_.i32(64)});
    }
    return runFrom(b_.make(Opcode::PtrAdd, {input_, start}), t);
  }

  // A pointer, or as many one behind the other as the tile has elements.
  ValueId runFrom(ValueId pointer, Type t) {
    if (!t.isTile()) {
      return pointer;
    }
    ValueId index = arange(static_cast<int32_t>(t.numElements()), 0);
    if (t.rank() > 1) {
      index = b_.make(Opcode::Reshape, {index}, t.withElement(Elem::I32));
    }
    return b_.make(Opcode::PtrAdd, {b_.splat(pointer, t.shape()), index});
  }

  void store() {
    const ValueId value = any([](Type t) {
      return t.elem() == Elem::I32 && t.isInteger() && t.numElements() <= kLargest;
    });
    ir::Values operands = {runOfInput(type(value)), value};
    if (chance(40)) {
      operands.push_back(operandOf(type(value).withElement(Elem::I1)));
    }
    b_.op(Opcode::Store, operands);
  }

  void loop(unsigned depth) {
    const Type i32 = Type::scalar(Elem::I32);
    ir::Values operands = {b_.constInt(i32, pick(3)), chance(50) ? operandOf(i32) : b_.i32(pick(4)),
                           b_.constInt(i32, oneOf<int64_t>({1, 2, 16}))};
    operands[1] = b_.make(Opcode::SMin, {operands[1], b_.i32(20)});
    std::vector<Type> types;
    for (unsigned i = 0; i < 1 + pick(3); ++i) {
      const ValueId init = any([](Type t) { return t.isInteger(); });
      operands.push_back(init);
      types.push_back(type(init));
    }
    const OpId op = b_.op(Opcode::For, operands, types);
    const bool stops = chance(25);
    if (stops) {
      out_.fn.setAttr(op, Attr::stop, AttrValue(int64_t{1}));
    }
    const BlockId body = out_.fn.region(op);
    const size_t before = pool_.size();
    const BlockId outer = b_.block();
    pool_.push_back(out_.fn.addArg(body, i32));
    std::vector<ValueId> args;
    for (Type t : types) {
      args.push_back(out_.fn.addArg(body, t));
      pool_.push_back(args.back());
    }
    b_.setEnd(body);
    fill(2 + pick(6), depth + 1);
    ir::Values yields = nextValues(args, types);
    if (stops) {
      yields.insert(yields.begin(), operandOf(Type::scalar(Elem::I1)));
    }
    b_.yield(yields);
    pool_.resize(before);
    b_.setEnd(outer);
    const auto results = out_.fn.results(op);
    pool_.insert(pool_.end(), results.begin(), results.end());
  }

  // What a loop's arguments become: advanced by the same amount everywhere, unchanged, or anything.
  ir::Values nextValues(const std::vector<ValueId> &args, const std::vector<Type> &types) {
    ir::Values next;
    for (size_t i = 0; i < types.size(); ++i) {
      const bool advance = chance(40) && !types[i].isBool();
      next.push_back(advance      ? b_.make(Opcode::Add, {args[i], uniform(types[i])})
                     : chance(20) ? args[i]
                                  : operandOf(types[i]));
    }
    return next;
  }

  // Counts to a number below 5, carrying others along.
  void whileLoop(unsigned depth) {
    ir::Values inits = {b_.i32(static_cast<int32_t>(pick(5)))};
    std::vector<Type> types = {Type::scalar(Elem::I32)};
    for (unsigned i = 0; i < 1 + pick(2); ++i) {
      inits.push_back(any([](Type t) { return t.isInteger(); }));
      types.push_back(type(inits.back()));
    }
    const OpId op = b_.op(Opcode::While, inits, types);
    const BlockId outer = b_.block();
    const size_t before = pool_.size();
    for (BlockId region : {out_.fn.region(op, 0), out_.fn.region(op, 1)}) {
      std::vector<ValueId> args;
      for (Type t : types) {
        args.push_back(out_.fn.addArg(region, t));
        pool_.push_back(args.back());
      }
      b_.setEnd(region);
      fill(1 + pick(4), depth + 1);
      if (region == out_.fn.region(op, 0)) {
        const ValueId more = b_.cmp(CmpPred::slt, args[0], b_.i32(4));
        b_.yield({&more, 1});
      } else {
        ir::Values next = nextValues(args, types);
        next[0] = b_.make(Opcode::Add, {args[0], b_.i32(1)});
        b_.yield(next);
      }
      pool_.resize(before);
    }
    b_.setEnd(outer);
    const auto results = out_.fn.results(op);
    pool_.insert(pool_.end(), results.begin(), results.end());
  }

  ValueId uniform(Type t) {
    const ValueId scalar = any([&](Type x) { return x == t.element(); });
    if (!scalar.valid() || chance(40)) {
      return constantOf(t);
    }
    return t.isTile() ? b_.splat(scalar, t.shape()) : scalar;
  }

  void branch(unsigned depth) {
    const ValueId condition = operandOf(Type::scalar(Elem::I1));
    const ValueId like = any([](Type t) { return t.isInteger(); });
    const Type t = type(like);
    const OpId op = b_.op(Opcode::If, {&condition, 1}, {&t, 1});
    const BlockId outer = b_.block();
    for (BlockId region : out_.fn.regions(op)) {
      const size_t before = pool_.size();
      b_.setEnd(region);
      fill(1 + pick(4), depth + 1);
      const ValueId value = operandOf(t);
      b_.yield({&value, 1});
      pool_.resize(before);
    }
    b_.setEnd(outer);
    pool_.push_back(out_.fn.result(op));
  }

  void fill(unsigned count, unsigned depth) {
    for (unsigned i = 0; i < count; ++i) {
      const uint32_t which = pick(100);
      if (options_.stores && chance(20)) {
        chance(50) ? store() : load();
      } else if (which < 4) {
        dividedIndex();
      } else if (which < 40) {
        binary();
      } else if (which < 48) {
        compareOrSelect();
      } else if (which < 54) {
        cast();
      } else if (which < 58) {
        floating();
      } else if (which < 72) {
        shape();
      } else if (which < 78) {
        splat();
      } else if (which < 82) {
        load();
      } else if (which < 85) {
        unary();
      } else if (which < 86) {
        arange();
      } else if (which < 87) {
        hinted();
      } else if (which < 88) {
        address();
      } else if (depth < 2) {
        which < 93 ? loop(depth) : which < 96 ? whileLoop(depth) : branch(depth);
      }
    }
  }

  void storeAll() {
    int64_t at[3] = {0, 0, 0};
    const std::vector<ValueId> values = pool_;
    for (ValueId value : values) {
      Type t = type(value);
      if (chance(50) || t.isPointer()) {
        continue;
      }
      if (t.isInteger() && t.elementBits() < 32) {
        value = b_.make(Opcode::ZExt, {value}, t.withElement(Elem::I32));
        t = type(value);
      }
      const unsigned kind = t.isFloating() ? 2 : t.elementBits() == 64 ? 1 : 0;
      if ((at[kind] + t.numElements()) * 8 > kOutput) {
        continue;
      }
      ValueId pointer = kind == 2 ? outF32_ : kind == 1 ? outI64_ : outI32_;
      pointer = b_.make(Opcode::PtrAdd, {pointer, b_.constInt(Type::scalar(Elem::I64), at[kind])});
      at[kind] += t.numElements();
      const ValueId operands[] = {runFrom(pointer, t), value};
      b_.op(Opcode::Store, operands);
    }
  }

  ValueId input_, outI32_, outI64_, outF32_;
};

} // namespace

RandomProgram randomProgram(uint64_t seed, RandomOptions options) {
  return Generator(seed, options).run();
}

} // namespace libtile::test
