// SPDX-License-Identifier: Apache-2.0
// Boxes of accesses: what they look like, and by brute force that addresses and masks are what a box says.
#include "passes/analysis/access_box.h"

#include "ir/ops.h"
#include "ir/parser.h"
#include "tests/passes/evaluate.h"

#include <gtest/gtest.h>

namespace libtile::test {
namespace {

using ir::ValueId;
using passes::AccessBox;
using passes::Polynomial;

std::string replaced(std::string text, const std::string &what, const std::string &by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

// A tile of 4 x 8 that a loop loads; OFFSETS gives %rows (4x1) and %cols (1x8) and the mask MASK.
std::string text(const std::string &offsets, const std::string &mask, const std::string &pointers) {
  const std::string frame = R"(
func @f stage=tile warps=4 stages=3 (%a: ptr<i16>, %m: i32, %k: i32, %lda: i32, %batch: i32) {
  %zero = constant {value=0} : i32
  %one = constant {value=1} : i32
  %three = constant {value=3} : i32
  %four = constant {value=4} : i32
  %eight = constant {value=8} : i32
  %zero64 = constant {value=0} : i64
  %eight64 = constant {value=8} : i64
  %pid = program_id {axis=0} : i32
  %pid1 = program_id {axis=1} : i32
  %start = mul %pid, %four : i32
  %i = arange {start=0} : tile<4xi32>
  %j = arange {start=0} : tile<8xi32>
  %starts = splat %start : tile<4xi32>
  %row = add %i, %starts : tile<4xi32>
  %rows = expand_dims %row {axis=1} : tile<4x1xi32>
  %cols = expand_dims %j {axis=0} : tile<1x8xi32>
  %ldas = splat %lda : tile<4x1xi32>
  %far = mul %rows, %ldas : tile<4x1xi32>
  %fars = broadcast %far : tile<4x8xi32>
  %colsb = broadcast %cols : tile<4x8xi32>
  %there = add %fars, %colsb : tile<4x8xi32>
  %as = splat %a : tile<4x8xptr<i16>>
  %first = ptr_add %as, %there : tile<4x8xptr<i16>>
  %ms = splat %m : tile<4x1xi32>
  %inm = cmp %rows, %ms {predicate=slt} : tile<4x1xi1>
  %inms = broadcast %inm : tile<4x8xi1>
  %last = for %zero, %three, %one, %zero64 : i64 {
  ^(%n: i32, %carried: i64):
    OFFSETS
    %left = mul %n, %eight : i32
    %rest = sub %k, %left : i32
    MASK
    POINTERS
    %x = load %p, %mask : tile<4x8xi16>
    %next = add %carried, %eight64 : i64
    yield %next
  }
  return
}
)";
  return replaced(replaced(replaced(frame, "OFFSETS", offsets), "MASK", mask), "POINTERS", pointers);
}

const std::string kMoves = R"(%moved = splat %carried : tile<4x8xi64>
    %p = ptr_add %first, %moved : tile<4x8xptr<i16>>)";
const std::string kInside = R"(%rests = splat %rest : tile<1x8xi32>
    %ink = cmp %cols, %rests {predicate=slt} : tile<1x8xi1>
    %inks = broadcast %ink : tile<4x8xi1>
    %mask = and %inms, %inks : tile<4x8xi1>)";

// Every load's box, with the names of the text.
std::vector<std::string> boxes(const std::string &text) {
  const ir::Function fn = ir::parse(text);
  const passes::Facts facts = passes::computeFacts(fn);
  std::vector<std::string> found;
  for (const ir::OpId op : fn.walk()) {
    if (fn.opcode(op) == ir::Opcode::Load) {
      const auto box = passes::accessBox(fn, fn.operand(op, 0), fn.operand(op, 1), facts);
      found.push_back(box ? box->str() : "none");
    }
  }
  return found;
}

// Runs the function, and at each load holds pointers and mask against the box.
class BoxChecker {
public:
  explicit BoxChecker(const ir::Function &fn) : fn_(fn), facts_(passes::computeFacts(fn)) {
    for (const ir::OpId op : fn.walk()) {
      load_ = fn.opcode(op) == ir::Opcode::Load ? op : load_;
    }
    box_ = passes::accessBox(fn, fn.operand(load_, 0), fn.operand(load_, 1), facts_);
  }

  int run(int32_t program, int32_t m, int32_t k) {
    Machine machine;
    machine.program[0] = program;
    machine.program[1] = 2;
    machine.memory.resize(1 << 16);
    machine.observe = [&](ValueId value, const Elements &elements) {
      values_.set(value, elements);
      if (value == fn_.result(load_)) {
        check();
      }
    };
    evaluate(fn_, {{1024}, {m}, {k}, {40}, {300}}, machine);
    return checked_;
  }

private:
  [[nodiscard]] int64_t numberOf(const Polynomial &polynomial) const {
    int64_t sum = polynomial.constant();
    for (const passes::Monomial &monomial : polynomial.monomials()) {
      int64_t product = monomial.coefficient;
      for (const ValueId factor : monomial.factors) {
        product *= values_[factor][0].i;
      }
      sum += product;
    }
    return sum;
  }

  void check() {
    ASSERT_TRUE(box_) << fn_.str();
    const Elements &pointers = values_[fn_.operand(load_, 0)], &mask = values_[fn_.operand(load_, 1)];
    for (int32_t i = 0; i < 4; ++i) {
      for (int32_t j = 0; j < 8; ++j) {
        int64_t address = values_[box_->base][0].i;
        bool inside = true;
        for (const passes::BoxDim &dim : box_->dims) {
          const int64_t at = numberOf(dim.coordinate) + (!dim.axis ? 0 : *dim.axis == 0 ? i : j);
          address += numberOf(dim.stride) * at;
          inside = inside && (at >= 0 || !dim.startsAtZero) && (!dim.extent || at < numberOf(*dim.extent));
        }
        const auto at = static_cast<size_t>(i * 8 + j);
        EXPECT_EQ(address, pointers[at].i) << box_->str() << " at " << i << ", " << j;
        EXPECT_EQ(inside, mask[at].i != 0) << box_->str() << " at " << i << ", " << j;
        ++checked_;
      }
    }
  }

  const ir::Function &fn_;
  const passes::Facts facts_;
  ir::OpId load_;
  std::optional<AccessBox> box_;
  ir::IndexMap<ValueId, Elements> values_;
  int checked_ = 0;
};

void expectHolds(const std::string &text) {
  const ir::Function fn = ir::parse(text);
  BoxChecker checker(fn);
  for (const int32_t program : {0, 1, 2}) {
    for (const int32_t m : {0, 1, 7, 12, 100}) {
      for (const int32_t k : {0, 5, 16, 23, 24, 100}) {
        EXPECT_GT(checker.run(program, m, k), 0);
      }
    }
  }
}

TEST(AccessBox, PointersThatALoopAdvances) {
  const std::string plain = text("", kInside, kMoves);
  EXPECT_EQ(boxes(plain), std::vector<std::string>{"%0 [axis 0: 4*%12 of %1 by 2*%3] [axis 1: 8*%32 of %2 by 2]"});
  expectHolds(plain);
}

TEST(AccessBox, ABatchIsADimension) {
  const std::string batch = text(R"(%far2 = mul %pid1, %batch : i32
    %a2 = ptr_add %first, %far3 : tile<4x8xptr<i16>>)", kInside, replaced(kMoves, "%first", "%a2"));
  const std::string before = replaced(batch, "%a2 = ptr", "%far3 = splat %far2 : tile<4x8xi32>\n    %a2 = ptr");
  EXPECT_EQ(boxes(before),
            std::vector<std::string>{"%0 [%13 of any by 2*%4] [axis 0: 4*%12 of %1 by 2*%3] [axis 1: 8*%32 of %2 by 2]"});
  expectHolds(before);
}

// As descriptors say it: the ends are moved and cut off, not the indices.
TEST(AccessBox, BoundsThatAreCutOff) {
  const std::string mask = R"(%left64 = sext %left : i64
    %neg = neg %left64 : i64
    %neg0 = smax %neg, %zero64 : i64
    %neg8 = smin %neg0, %eight64 : i64
    %from = trunc %neg8 : i32
    %k64 = sext %k : i64
    %rest64 = sub %k64, %left64 : i64
    %rest0 = smax %rest64, %zero64 : i64
    %rest8 = smin %rest0, %eight64 : i64
    %to = trunc %rest8 : i32
    %froms = splat %from : tile<8xi32>
    %tos = splat %to : tile<8xi32>
    %above = cmp %j, %froms {predicate=sge} : tile<8xi1>
    %below = cmp %j, %tos {predicate=slt} : tile<8xi1>
    %both = and %above, %below : tile<8xi1>
    %ink = expand_dims %both {axis=0} : tile<1x8xi1>
    %inks = broadcast %ink : tile<4x8xi1>
    %mask = and %inms, %inks : tile<4x8xi1>)";
  const std::string cut = text("", mask, kMoves);
  EXPECT_EQ(boxes(cut), boxes(text("", kInside, kMoves)));
  expectHolds(cut);
  // A cut inside of the tile counts.
  const std::string inside = replaced(cut, "smin %rest0, %eight64", "smin %rest0, %zero64");
  EXPECT_NE(boxes(inside), boxes(cut));
  expectHolds(inside);
}

TEST(AccessBox, OtherWaysToSayIt) {
  const std::string plain = boxes(text("", kInside, kMoves))[0];
  for (const auto &[what, by] : std::initializer_list<std::pair<std::string, std::string>>{
           {"cmp %cols, %rests {predicate=slt}", "cmp %rests, %cols {predicate=sgt}"}}) {
    EXPECT_EQ(boxes(replaced(text("", kInside, kMoves), what, by)), std::vector<std::string>{plain}) << by;
  }
  const std::string atMost = replaced(text("", kInside, kMoves), "cmp %cols, %rests {predicate=slt}",
                                      "cmp %cols, %rests {predicate=sle}");
  EXPECT_EQ(boxes(atMost), std::vector<std::string>{replaced(plain, "of %2", "of %2 + 1")});
  expectHolds(atMost);
}

TEST(AccessBox, OthersAreNone) {
  const std::vector<std::string> none = {"none"};
  // Rows that wrap around; a mask that an element's value decides; one of another row; unequal numbers.
  EXPECT_EQ(boxes(replaced(text("", kInside, kMoves), "%row = add %i, %starts : tile<4xi32>",
                           "%row1 = add %i, %starts : tile<4xi32>\n  %mm = splat %m : tile<4xi32>\n  "
                           "%row = srem %row1, %mm : tile<4xi32>")),
            none);
  EXPECT_EQ(boxes(text("", replaced(kInside, "and %inms", "or %inms"), kMoves)), none);
  EXPECT_EQ(boxes(text("", replaced(kInside, "predicate=slt", "predicate=ne"), kMoves)), none);
  EXPECT_EQ(boxes(replaced(text("", kInside, kMoves), "cmp %rows, %ms", "cmp %ldas, %ms")), none);
}

// An end that moves otherwise than the pointers do: no array has such an extent, but a box it is.
TEST(AccessBox, EndsThatMove) {
  const std::string moving = replaced(text("", kInside, kMoves), "add %carried, %eight64", "mul %carried, %eight64");
  EXPECT_EQ(boxes(moving), std::vector<std::string>{"%0 [axis 0: 4*%12 of %1 by 2*%3] [axis 1: %33 of %2 + -8*%32 + %33 by 2]"});
  expectHolds(moving);
}

// What is below 0 is accessed where the mask does not say otherwise.
TEST(AccessBox, ElementsBelowZero) {
  const std::string below = replaced(text("", kInside, kMoves), "mul %pid, %four", "sub %zero, %four");
  const std::string box = boxes(below)[0];
  EXPECT_NE(box.find("-4 of %1 by 2*%3, below 0 too]"), std::string::npos) << box;
}

} // namespace
} // namespace libtile::test
