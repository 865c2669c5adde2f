// SPDX-License-Identifier: Apache-2.0
// Law of turn_dots: a chain of dots that is turned, and a function that the pass changes, computes what it did. Chains are
// random, among dots, transpositions, casts, comparisons, loads, stores and carried sums.
#include "codegen/codegen.h"
#include "ir/parser.h"
#include "ir/verifier.h"
#include "passes/gpu/turn_dots.h"
#include "tests/passes/random_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace libtile::test {
namespace {

constexpr int64_t kInputBytes = 2048;

class ChainGenerator : RandomValues {
public:
  explicit ChainGenerator(uint64_t seed) : RandomValues(seed, {}) {}

  RandomProgram run() {
    input_ = param(Type::pointer(Elem::F32), 0);
    output_ = param(Type::pointer(Elem::F32), kInputBytes);
    fillMemory();
    iv_ = b_.i32(3);
    fill(4);
    loop();
    b_.op(Opcode::Return, {});
    out_.machine.memory.resize(static_cast<size_t>(end_));
    return std::move(out_);
  }

private:
  ValueId param(Type type, int64_t value) {
    out_.arguments.push_back({value, 0});
    return out_.fn.addParam(type, {type.isFloating() ? "f" : "p" + std::to_string(value), 16});
  }

  // Few of them, so that sums of products of sums are numbers mostly.
  void fillMemory() {
    out_.machine.memory.resize(kInputBytes);
    for (int64_t i = 0; i < kInputBytes / 4; ++i) {
      const float number = static_cast<float>(pick(5)) - 2.0F;
      std::memcpy(&out_.machine.memory[static_cast<size_t>(4 * i)], &number, 4);
    }
  }

  static Type f32(int32_t rows, int32_t columns) { return Type::tile({rows, columns}, Type::scalar(Elem::F32)); }
  int32_t extent() { return oneOf<int32_t>({2, 4, 8}); }

  ValueId alongAxis(ValueId numbers, unsigned axis, Type to) {
    const int32_t n = type(numbers).dim(0);
    const ValueId made = b_.make(Opcode::ExpandDims, {numbers}, type(numbers).withShape(axis == 0 ? std::array{n, 1} : std::array{1, n}));
    out_.fn.setAttr(out_.fn.def(made), Attr::axis, AttrValue(int64_t{1} - axis));
    return b_.make(Opcode::Broadcast, {made}, type(numbers).withShape(to.shape()));
  }

  ValueId pointers(ValueId base, Type tile, int64_t first) {
    const Type indices = tile.withElement(Elem::I32);
    const ValueId stride = b_.constInt(indices, tile.dim(1));
    const ValueId rows = b_.make(Opcode::Mul, {alongAxis(arange(tile.dim(0), 0), 0, tile), stride});
    const ValueId offsets = b_.make(Opcode::Add, {rows, alongAxis(arange(tile.dim(1), 0), 1, tile)});
    const ValueId shifted = b_.make(Opcode::Add, {offsets, b_.constInt(indices, first)});
    return b_.make(Opcode::PtrAdd, {b_.splat(base, tile.shape()), shifted});
  }

  ValueId load(Type tile) { return b_.make(Opcode::Load, {pointers(input_, tile, pick(200))}); }

  void store(ValueId tile) {
    b_.op(Opcode::Store, std::array{pointers(output_, type(tile), (end_ - kInputBytes) / 4), tile});
    end_ += 4 * type(tile).numElements();
  }

  ValueId anyMatrix() {
    const ValueId found = any([](Type t) { return t.isTile() && t.rank() == 2 && t.isFloating(); });
    return found.valid() ? found : load(f32(extent(), extent()));
  }

  // Numbers along an axis that depend on the iteration.
  ValueId axisNumbers() {
    const Type to = f32(extent(), extent());
    const unsigned axis = pick(2);
    const ValueId indices = arange(to.dim(axis), 0);
    const ValueId sums = b_.make(Opcode::Add, {indices, b_.splat(iv_, type(indices).shape())});
    return alongAxis(b_.make(Opcode::SIToFp, {sums}, type(sums).withElement(Elem::F32)), axis, to);
  }

  ValueId transposed(ValueId a) {
    const ValueId made = b_.make(Opcode::Trans, {a}, type(a).withShape(std::array{type(a).dim(1), type(a).dim(0)}));
    out_.fn.setAttr(out_.fn.def(made), Attr::order, AttrValue(std::vector<int64_t>{1, 0}));
    return made;
  }

  ValueId dot() {
    const ValueId a = anyMatrix();
    ValueId b = any([&](Type t) { return t.isTile() && t.rank() == 2 && t.elem() == type(a).elem() && t.dim(0) == type(a).dim(1); });
    b = b.valid() && chance(80) ? b : cast(load(f32(type(a).dim(1), extent())), type(a).elem());
    const Type sums = f32(type(a).dim(0), type(b).dim(1));
    return b_.make(Opcode::Dot, {a, b, chance(50) ? b_.zero(sums) : operandOf(sums)});
  }

  ValueId cast(ValueId a, Elem to) {
    if (type(a).elem() == to) {
      return a;
    }
    return b_.make(to == Elem::F16 ? Opcode::FpTrunc : Opcode::FpExt, {a}, type(a).withElement(to));
  }

  ValueId byElement() {
    const ValueId a = anyMatrix(), b = operandOf(type(a));
    if (chance(30)) {
      const ValueId isBelow = b_.cmp(oneOf({ir::CmpPred::olt, ir::CmpPred::oge}), a, b);
      return b_.make(Opcode::Select, {isBelow, operandOf(type(a)), a});
    }
    return b_.make(oneOf({Opcode::Add, Opcode::Sub, Opcode::Mul, Opcode::FMax}), {a, b});
  }

  // What a region below uses.
  void storeInside(ValueId tile) {
    const ValueId isFirst = b_.cmp(ir::CmpPred::ne, iv_, b_.i32(1));
    const ir::OpId op = b_.op(Opcode::If, std::array{isFirst});
    const auto point = b_.point();
    b_.setEnd(out_.fn.region(op, 0));
    store(tile);
    b_.yield({});
    b_.setEnd(out_.fn.region(op, 1));
    b_.yield({});
    b_.setPoint(point);
  }

  void fill(unsigned ops) {
    for (unsigned i = 0; i < ops; ++i) {
      const uint32_t what = pick(100);
      const ValueId a = what < 30 ? dot() : what < 55 ? byElement() : what < 65 ? axisNumbers() : anyMatrix();
      pool_.push_back(what < 65   ? a
                      : what < 80 ? transposed(a)
                      : what < 90 ? cast(a, type(a).elem() == Elem::F32 ? Elem::F16 : Elem::F32)
                                  : load(f32(extent(), extent())));
      if (chance(20)) {
        const ValueId stored = any([](Type t) { return t.isTile() && t.rank() == 2 && t.elem() == Elem::F32; });
        stored.valid() && chance(30) ? storeInside(stored) : stored.valid() ? store(stored) : void();
      }
    }
  }

  void loop() {
    const Type sums[] = {f32(extent(), extent()), f32(extent(), extent())};
    ir::Values operands = {b_.i32(0), b_.i32(2), b_.i32(1), b_.zero(sums[0]), operandOf(sums[1])};
    const ir::OpId op = b_.op(Opcode::For, operands, sums);
    const ir::BlockId body = out_.fn.region(op);
    iv_ = out_.fn.addArg(body, Type::scalar(Elem::I32));
    pool_.push_back(out_.fn.addArg(body, sums[0]));
    pool_.push_back(out_.fn.addArg(body, sums[1]));
    const size_t before = pool_.size();
    b_.setEnd(body);
    fill(4 + pick(16));
    b_.yield(std::array{operandOf(sums[0]), operandOf(sums[1])});
    pool_.resize(before - 2);
    b_.setEnd(out_.fn.body());
    store(out_.fn.result(op, 0));
    store(out_.fn.result(op, 1));
  }

  ValueId input_, output_, iv_;
  int64_t end_ = kInputBytes;
};

std::string problems(const ir::Function &fn) {
  std::string text;
  for (const ir::Violation &violation : ir::verify(fn)) {
    text += "[" + std::to_string(violation.invariant) + "] " + violation.message + "\n";
  }
  return text;
}

// What is stored, a NaN like any other.
std::vector<float> numbersAfter(const ir::Function &fn, const std::vector<Element> &arguments, Machine machine) {
  machine.budget = 1U << 20U;
  evaluate(fn, arguments, machine);
  std::vector<float> numbers(machine.memory.size() / 4);
  std::memcpy(numbers.data(), machine.memory.data(), 4 * numbers.size());
  std::ranges::replace_if(numbers, [](float x) { return std::isnan(x); }, 12345.0F);
  return numbers;
}

ir::OpId loopOf(const ir::Function &fn) {
  const auto ops = fn.walk();
  return *std::ranges::find(ops, ir::Opcode::For, [&](ir::OpId op) { return fn.opcode(op); });
}

TEST(TurnDots, AnyChainComputesWhatItDid) {
  unsigned turned = 0, ofSeveralDots = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    RandomProgram program = ChainGenerator(seed).run();
    ir::Function &fn = program.fn;
    ASSERT_EQ(problems(fn), "") << fn.str();
    const std::string before = fn.str();
    const auto want = numbersAfter(fn, program.arguments, program.machine);
    const ir::BlockId body = fn.region(loopOf(fn));
    uint64_t choice = seed;
    for (const auto &chain : passes::dotChains(fn, body)) {
      choice = choice * 6364136223846793005U + 1442695040888963407U;
      if (choice >> 62U == 0) {
        continue;
      }
      ofSeveralDots += std::ranges::count(chain, ir::Opcode::Dot, [&](ir::OpId op) { return fn.opcode(op); }) > 1 ? 1 : 0;
      passes::turnChain(fn, chain);
      ++turned;
      ASSERT_EQ(problems(fn), "") << seed << "\n" << before << fn.str();
    }
    ASSERT_EQ(numbersAfter(fn, program.arguments, program.machine), want) << seed << "\n" << before << fn.str();
  }
  EXPECT_GT(turned, 2000U);
  EXPECT_GT(ofSeveralDots, 200U);
}

// Attention backward without its exponentials, all of 64 x 64: p of q's and k's sums, d of e's and v's, each with a right
// to be transposed for a dot of its own.
struct Backward {
  bool along = false;  // rows of p have a number each; else columns
  bool masked = false; // a part of p is 0
  bool second = false; // d is there, and tied to p
  bool direct = false; // what a dot reads transposed another one reads as it is
  bool stored = false; // p is
};

std::string textOf(const Backward &kind) {
  const std::string f16 = " : tile<64x64xf16>\n", f32 = " : tile<64x64xf32>\n", one = kind.along ? "64x1" : "1x64";
  std::string text = R"(
func @backward stage=tile warps=4 stages=3 (%a: ptr<f16> {divisible=16}, %out: ptr<f32> {divisible=16}) {
  %i = arange {start=0} : tile<64xi32>
  %r = expand_dims %i {axis=1} : tile<64x1xi32>
  %c = expand_dims %i {axis=0} : tile<1x64xi32>
  %w = constant {value=64} : tile<64x1xi32>
  %rw = mul %r, %w : tile<64x1xi32>
  %rb = broadcast %rw : tile<64x64xi32>
  %cb = broadcast %c : tile<64x64xi32>
  %off = add %rb, %cb : tile<64x64xi32>
  %as = splat %a : tile<64x64xptr<f16>>
  %outs = splat %out : tile<64x64xptr<f32>>
  %ap = ptr_add %as, %off : tile<64x64xptr<f16>>
  %to = ptr_add %outs, %off : tile<64x64xptr<f32>>
  %zero = constant {value=0.0} : tile<64x64xf32>
  %lo = constant {value=0} : i32
  %hi = constant {value=128} : i32
  %step = constant {value=64} : i32
)";
  const auto load = [](const std::string &name, int at, const std::string &from) {
    return "  %n" + name + " = constant {value=" + std::to_string(4096 * at) + "} : tile<64x64xi32>\n  %p" + name + " = ptr_add " + from +
           ", %n" + name + " : tile<64x64xptr<f16>>\n  %" + name + " = load %p" + name + " : tile<64x64xf16>\n";
  };
  const auto stored = [](const std::string &name, const std::string &at) {
    return "  %o" + name + " = constant {value=" + at + "} : tile<64x64xi32>\n  %u" + name + " = ptr_add %to, %o" + name +
           " : tile<64x64xptr<f32>>\n  store %u" + name + ", %" + name + "\n";
  };
  text += load("k", 0, "%ap") + "  %kt = trans %k {order=[1, 0]}" + f16 + load("v", 1, "%ap") + "  %vt = trans %v {order=[1, 0]}" + f16;
  text += "  %x, %y, %z = for %lo, %hi, %step, %zero, %zero, %zero : tile<64x64xf32>, tile<64x64xf32>, tile<64x64xf32> {\n"
          "  ^(%n: i32, %accx: tile<64x64xf32>, %accy: tile<64x64xf32>, %accz: tile<64x64xf32>):\n"
          "  %ns = splat %n : tile<64x64xi32>\n  %pn = ptr_add %ap, %ns : tile<64x64xptr<f16>>\n";
  text += load("q", 2, "%pn") + load("e", 4, "%pn") + "  %s = dot %q, %kt, %zero" + f32;
  text += "  %n1 = splat %n : tile<64xi32>\n  %in = add %i, %n1 : tile<64xi32>\n  %f1 = sitofp %in : tile<64xf32>\n  %f2 = expand_dims %f1 {axis=" +
          std::string(kind.along ? "1" : "0") + "} : tile<" + one + "xf32>\n  %f = broadcast %f2" + f32 + "  %s1 = sub %s, %f" + f32;
  text += "  %late = add %cb, %ns : tile<64x64xi32>\n  %seen = cmp %rb, %late {predicate=" + std::string(kind.masked ? "slt" : "sge") +
          "} : tile<64x64xi1>\n  %p = select " + (kind.masked ? "%seen, %s1, %zero" : "%seen, %s1, %s1") + f32;
  text += "  %h = fptrunc %p" + f16 + "  %ht = trans %h {order=[1, 0]}" + f16 + "  %dx = dot %ht, %e, %accx" + f32;
  text += kind.second ? "  %dp = dot %e, %vt, %zero" + f32 + "  %m = mul %p, %dp" + f32 + "  %g = fptrunc %m" + f16 +
                            "  %gt = trans %g {order=[1, 0]}" + f16 + "  %dy = dot %gt, %q, %accy" + f32
                      : "  %dy = add %accy, %zero" + f32;
  text += kind.direct ? std::string("  %dz = dot ") + (kind.second ? "%g" : "%h") + ", %k, %accz" + f32 : "  %dz = add %accz, %zero" + f32;
  text += (kind.stored ? stored("p", "12288") : "") + "  yield %dx, %dy, %dz\n  }\n";
  return text + stored("x", "0") + stored("y", "4096") + stored("z", "8192") + "  return\n}\n";
}

TEST(TurnDots, WhatThePassTurnsComputesWhatItDid) {
  const auto numbers = [](const ir::Function &fn) {
    constexpr uint16_t values[] = {0, 0x3C00, 0xBC00, 0x4000, 0};
    Machine machine;
    machine.memory.resize(65536 + 4 * 16384);
    for (size_t i = 0; i < 32768; ++i) {
      std::memcpy(&machine.memory[2 * i], &values[(i * 2654435761U >> 7U) % 5], 2);
    }
    return numbersAfter(fn, {{0, 0}, {65536, 0}}, machine);
  };
  for (unsigned bits = 0; bits < 32; ++bits) {
    const auto has = [&](unsigned bit) { return (bits >> bit & 1U) != 0; };
    const Backward kind{has(0), has(1), has(2), has(3), has(4)};
    ir::Function fn = ir::parse(textOf(kind));
    ASSERT_EQ(problems(fn), "") << fn.str();
    const ir::Function before = fn.clone();
    const passes::PassContext context{codegen::findTarget("sm_90a"), 4};
    // Written as it is: what is read transposed. Turned: what is read as it is, and what is stored.
    const int kept = kind.second ? 2 : 1, turned = kind.direct + kind.stored;
    ASSERT_EQ(passes::turnDots(fn, context), turned < kept) << fn.str();
    ASSERT_EQ(problems(fn), "") << fn.str();
    ASSERT_FALSE(passes::turnDots(fn, context)) << fn.str();
    if (turned < kept && bits % 2 == bits / 2 % 2) {
      ASSERT_EQ(numbers(fn), numbers(before)) << fn.str();
    }
  }
}

TEST(TurnDots, OtherTargetsKeepTheirDots) {
  const std::string text = textOf({.second = true});
  size_t tried = 0;
  for (const std::string &name : codegen::targetNames()) {
    const ir::Target *target = nullptr;
    try {
      target = &codegen::findTarget(name);
    } catch (const ir::Unsupported &) {
      continue; // it needs a newer LLVM
    }
    if (name == "sm_90a" || !target->laysOut) {
      continue;
    }
    ir::Function fn = ir::parse(text);
    const std::string before = fn.str();
    EXPECT_FALSE(passes::turnDots(fn, {*target})) << name;
    EXPECT_EQ(fn.str(), before);
    ++tried;
  }
  EXPECT_GE(tried, 4U);
}

// Neither what a dot with a pinned unit or grid computes is turned, nor what it reads.
TEST(TurnDots, PinnedDotsStay) {
  const std::string text = textOf({.second = true});
  for (const std::string dot : {"dot %q, %kt, %zero", "dot %gt, %q, %accy"}) {
    for (const std::string pin : {"unit=\"wgmma_m64k16_f16\"", "warps=[4, 1]"}) {
      std::string pinned = text;
      pinned.insert(pinned.find(dot) + dot.size(), " {" + pin + "}");
      ir::Function fn = ir::parse(pinned);
      const std::string before = fn.str();
      EXPECT_FALSE(passes::turnDots(fn, {codegen::findTarget("sm_90a"), 4}));
      EXPECT_EQ(fn.str(), before);
    }
  }
}

} // namespace
} // namespace libtile::test
