// SPDX-License-Identifier: Apache-2.0
// Edits keep uses, parents and positions right: checked by the verifier's structural part (2) and
// by the text.
#include "tests/ir/random_function.h"

#include "ir/ops.h"
#include "ir/printer.h"
#include "ir/verifier.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace libtile::test {
namespace {

using namespace libtile::ir;

const Type kI32 = Type::scalar(Elem::I32);

// Structural violations only: what an edit must never cause.
std::string structure(const Function &fn) {
  std::string out;
  for (const Violation &violation : verify(fn)) {
    out += violation.invariant == 2 ? violation.message + "\n" : "";
  }
  return out;
}

TEST(Function, RandomEditsKeepLinks) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Function fn = randomFunction(seed);
    std::mt19937_64 random(seed);
    for (int edit = 0; edit < 60; ++edit) {
      const std::vector<OpId> ops = fn.walk();
      const OpId op = ops[random() % ops.size()];
      const unsigned operands = fn.numOperands(op);
      switch (random() % 6) {
      case 0:
        if (operands != 0) {
          fn.setOperand(op, random() % operands, fn.arg(fn.body(), 0));
        }
        break;
      case 1:
        if (operands != 0) {
          fn.eraseOperand(op, random() % operands);
        }
        break;
      case 2:
        fn.addOperand(op, fn.arg(fn.body(), 1));
        break;
      case 3:
        if (!fn.results(op).empty()) {
          fn.replaceAllUses(fn.result(op), fn.arg(fn.body(), 2));
        }
        break;
      case 4:
        if (std::ranges::all_of(fn.results(op), [&](ValueId value) { return fn.unused(value); })) {
          fn.erase(op);
          EXPECT_TRUE(fn.isErased(op));
        }
        break;
      default:
        if (!fn.isInside(fn.block(ops[0]), fn.block(op)) || fn.regions(ops[0]).empty()) {
          fn.unlink(op);
          fn.insertAfter(fn.first(fn.body()).valid() ? fn.first(fn.body()) : op, op);
        }
        break;
      }
      ASSERT_EQ(structure(fn), "") << "seed " << seed << " edit " << edit;
    }
  }
}

TEST(Function, CloneIsEqualAndApart) {
  Function fn = randomFunction(3);
  const std::string before = fn.str();
  Function copy = fn.clone();
  EXPECT_EQ(copy.str(), before);
  EXPECT_EQ(structure(copy), "");
  Builder(copy).i32(7);
  copy.name = "other";
  EXPECT_EQ(fn.str(), before);
}

TEST(Function, ViewsStayValidWhileOpsAreMade) {
  Function fn("f");
  Builder builder(fn);
  const ValueId first = builder.i32(1);
  const ValueId sum = builder.make(Opcode::Add, {first, first});
  const Type &type = fn.type(sum);
  const std::span<const ValueId> operands = fn.operands(fn.def(sum));
  for (int i = 0; i < 1000; ++i) {
    builder.i32(i);
  }
  EXPECT_EQ(type, kI32);
  EXPECT_EQ(operands[1], first);
}

TEST(Function, ErasingALoopErasesItsBody) {
  Function fn("f");
  Builder builder(fn);
  const ValueId zero = builder.i32(0);
  const ValueId operands[] = {zero, zero, zero};
  const OpId loop = builder.op(Opcode::For, operands);
  fn.addArg(fn.region(loop), kI32);
  Builder inner(fn, fn.region(loop));
  const ValueId value = inner.make(Opcode::Add, {zero, fn.arg(fn.region(loop), 0)});
  inner.yield({});
  EXPECT_EQ(fn.uses(zero).size(), 4u);
  fn.erase(loop);
  EXPECT_TRUE(fn.unused(zero));
  EXPECT_TRUE(fn.isErased(fn.def(value)));
  EXPECT_EQ(fn.walk().size(), 1u);
}

TEST(Function, ErasingAUsedOpThrows) {
  Function fn("f");
  Builder builder(fn);
  const ValueId one = builder.i32(1);
  builder.make(Opcode::Add, {one, one});
  EXPECT_THROW(fn.erase(fn.def(one)), InternalError);
}

TEST(Function, SpliceMovesAllOps) {
  Function fn("f");
  Builder builder(fn);
  const ValueId flag = builder.constInt(Type::scalar(Elem::I1), 1);
  const OpId branch = builder.op(Opcode::If, {&flag, 1});
  Builder inner(fn, fn.region(branch, 0));
  const ValueId a = inner.i32(1);
  const ValueId b = inner.i32(2);
  fn.spliceBefore(branch, fn.region(branch, 0));
  EXPECT_EQ(fn.next(fn.def(a)), fn.def(b));
  EXPECT_EQ(fn.next(fn.def(b)), branch);
  EXPECT_FALSE(fn.first(fn.region(branch, 0)).valid());
  EXPECT_EQ(fn.defBlock(a), fn.body());
}

TEST(Function, EffectsOfALoopAreThoseOfItsBody) {
  Function fn("f");
  const ValueId pointer = fn.addParam(Type::pointer(Elem::I32), {"p"});
  Builder builder(fn);
  const ValueId zero = builder.i32(0);
  const ValueId operands[] = {zero, zero, zero};
  const OpId loop = builder.op(Opcode::For, operands);
  Builder inner(fn, fn.region(loop));
  const ValueId loaded = inner.make(Opcode::Load, {pointer});
  EXPECT_TRUE(fn.effects(loop).has(Effects::ReadsGlobal));
  EXPECT_TRUE(fn.effects(loop).removable());
  fn.setAttr(fn.def(loaded), Attr::is_volatile, AttrValue(int64_t{1}));
  EXPECT_FALSE(fn.effects(loop).removable());
  inner.yield({});
  EXPECT_FALSE(fn.effects(loop).has(Effects::Terminator));
}

TEST(Function, LocationsAreInternedOnce) {
  Function fn("f");
  Location location;
  location.file = std::make_shared<SourceFile>(SourceFile{"f.py", "a\nbc\n", 10});
  location.line = 2;
  location.column = 1;
  location.endColumn = 3;
  const LocationId id = fn.internLocation(location);
  EXPECT_EQ(fn.internLocation(location), id);
  location.column = 2;
  EXPECT_NE(fn.internLocation(location), id);
  EXPECT_FALSE(fn.internLocation(Location{}).valid());
  EXPECT_EQ(fn.location(id).str(), "f.py:11:1");
  EXPECT_EQ(fn.location(id).render("oh no"), "f.py:11:1: error: oh no\n  11 | bc\n     | ^~");
}

TEST(Builder, ConstantsAreCanonical) {
  Function fn("f");
  Builder builder(fn);
  const auto held = [&](Elem elem, int64_t value) {
    return *fn.constantInt(builder.constInt(Type::scalar(elem), value));
  };
  EXPECT_EQ(held(Elem::I1, -1), 1);
  EXPECT_EQ(held(Elem::I8, 255), -1);
  EXPECT_EQ(held(Elem::I32, int64_t{1} << 31), -(int64_t{1} << 31));
  EXPECT_EQ(*fn.constantFloat(builder.constFloat(Type::scalar(Elem::F16), 0.1)), 0.0999755859375);
  EXPECT_EQ(*fn.constantFloat(builder.constFloat(Type::scalar(Elem::BF16), 1.00390625)), 1.0);
  EXPECT_THROW(
      builder.make(Opcode::Add, {builder.i32(1), builder.constFloat(Type::scalar(Elem::F32), 1)}),
      InternalError);
}

} // namespace
} // namespace libtile::test
