// SPDX-License-Identifier: Apache-2.0
// Invariants 21 to 24 and 28: ops with regions (the list is in verifier.cpp).
#include "ir/assembly_text.h"
#include "ir/ops.h"
#include "ir/verifier_impl.h"

#include <algorithm>

namespace libtile::ir {

namespace {

using Types = std::vector<Type>;

const Type kI1 = Type::scalar(Elem::I1);
const Type kI32 = Type::scalar(Elem::I32);

Types concatenate(Types a, const Types &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string text(const Types &types) {
  std::string out;
  for (const Type &type : types) {
    out += (out.empty() ? "" : ", ") + type.str();
  }
  return "(" + out + ")";
}

struct ControlChecks {
  Checker &c;
  const Function &fn = c.fn;

  bool same(int invariant, OpId op, const char *what, const Types &is, const Types &wanted) {
    if (is != wanted) {
      c.fail(invariant, op, std::string(what) + " " + text(is) + ", not " + text(wanted));
    }
    return is == wanted;
  }

  // Tiles of one shape, a result for each, and a region that combines two tuples of their elements.
  bool combines(OpId op) {
    const Types inputs = c.types(fn.operands(op));
    const int64_t axis = fn.getInt(op, Attr::axis);
    const bool tiles = !inputs.empty() && std::ranges::all_of(inputs, [&](const Type &type) {
      return type.isTile() && type.sameShape(inputs[0]) && !type.isPointer();
    });
    if (!c.require(tiles && axis >= 0 && axis < int64_t{inputs[0].rank()} &&
                       fn.results(op).size() == inputs.size(),
                   21, op,
                   "it takes tiles of one shape with that axis and gives one result each")) {
      return false;
    }
    Types elements;
    for (const Type &input : inputs) {
      elements.push_back(input.element());
    }
    same(21, op, "combine takes", c.argTypes(op, 0), concatenate(elements, elements));
    same(21, op, "combine yields", c.yieldedTypes(op, 0), elements);
    return true;
  }

  void scan(OpId op) {
    if (combines(op)) {
      same(21, op, "the results are", c.types(fn.results(op)), c.types(fn.operands(op)));
    }
  }

  void reduce(OpId op) {
    if (!combines(op)) {
      return;
    }
    const Types inputs = c.types(fn.operands(op));
    const Types results = c.types(fn.results(op));
    const int64_t axis = fn.getInt(op, Attr::axis);
    std::vector<int32_t> shape(inputs[0].shape().begin(), inputs[0].shape().end());
    shape.erase(shape.begin() + axis);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Type wanted = inputs[i].withShape(shape);
      c.require(results[i].withLayout({}) == wanted, 21, op,
                "a result is not its input without the axis");
    }
  }

  void assembly(OpId op, const Types &inputs, const Types &results) {
    std::vector<unsigned> in, out;
    std::ranges::transform(inputs, std::back_inserter(in), &Type::elementBits);
    std::ranges::transform(results, std::back_inserter(out), &Type::elementBits);
    const AssemblyFault fault = findFault(fn.getText(op, Attr::text), fn.getText(op, Attr::constraints),
                                          fn.getInt(op, Attr::pack), out, in);
    if (fault.part != AssemblyFault::None) {
      c.fail(21, op, fault.message);
    }
  }

  void map(OpId op) {
    const Types inputs = c.types(fn.operands(op));
    const Types results = c.types(fn.results(op));
    Types from, to;
    for (const Type &type : inputs) {
      from.push_back(type.element());
    }
    for (const Type &type : results) {
      to.push_back(type.element());
    }
    const Type like = results.empty() ? Type() : results[0];
    const auto fits = [&](const Type &type) {
      return (type.isScalar() || type.isTile()) && type == like.withElement(type.element());
    };
    c.require(!results.empty() && std::ranges::all_of(inputs, fits) &&
                  std::ranges::all_of(results, fits),
              21, op, "operands and results are no tiles of one shape and layout");
    if (fn.opcode(op) == Opcode::Assembly) {
      return assembly(op, from, to);
    }
    c.require(like.isTile(), 21, op, "a map of scalars");
    same(21, op, "body takes", c.argTypes(op, 0), from);
    same(21, op, "body yields", c.yieldedTypes(op, 0), to);
    for (const OpId inner : fn.walk(fn.region(op))) {
      const bool scalars = std::ranges::all_of(
          fn.results(inner), [&](ValueId value) { return fn.type(value).isScalar(); });
      c.require(scalars && (fn.ownEffects(inner).removable() || fn.opInfo(inner).isTerminator()) &&
                    !fn.ownEffects(inner).reads(),
                21, op, "body is no scalar code without effects");
    }
  }

  // A loop's body yields the stop flag, if any, and what is carried.
  void carried(int invariant, OpId op, unsigned region, const Types &carried) {
    const Types yielded = fn.getBool(op, Attr::stop) ? concatenate({kI1}, carried) : carried;
    same(invariant, op, "the body yields", c.yieldedTypes(op, region), yielded);
    same(invariant, op, "the results are", c.types(fn.results(op)), carried);
  }

  void forLoop(OpId op) {
    const Types all = c.types(fn.operands(op));
    const Type index = all[0];
    c.require(index.isScalar() && index.isInteger() && all[1] == index && all[2] == index, 22, op,
              "bounds and step are scalar integers of one type");
    const Types inits(all.begin() + 3, all.end());
    same(22, op, "the body takes", c.argTypes(op, 0), concatenate({index}, inits));
    carried(22, op, 0, inits);
    const auto stages = fn.getInt(op, Attr::num_stages);
    c.require(stages >= 0 && stages <= 64, 22, op, "num_stages lies between 0 and 64");
  }

  void whileLoop(OpId op) {
    const Types inits = c.types(fn.operands(op));
    same(23, op, "cond takes", c.argTypes(op, 0), inits);
    same(23, op, "cond yields", c.yieldedTypes(op, 0), {kI1});
    same(23, op, "the body takes", c.argTypes(op, 1), inits);
    carried(23, op, 1, inits);
  }

  void ifElse(OpId op) {
    c.require(c.operandType(op, 0) == kI1, 24, op, "the condition is a scalar i1");
    for (unsigned region : {0u, 1u}) {
      same(24, op, "a branch takes", c.argTypes(op, region), {});
      same(24, op, "a branch yields", c.yieldedTypes(op, region), c.types(fn.results(op)));
    }
  }

  void steps(OpId op) {
    const auto isI32 = [&](ValueId end) { return fn.type(end) == kI32; };
    c.require(std::ranges::all_of(fn.operands(op), isI32), 28, op, "ends are i32");
    c.require(fn.getInt(op, Attr::lanes) >= 1, 28, op, "lanes is at least 1");
    c.require(!fn.hasAttr(op, Attr::unroll) || fn.getInt(op, Attr::unroll) >= 1, 28, op,
              "unroll is at least 1");
  }

  void nest(OpId op) {
    const std::span<const int64_t> extents = fn.getInts(op, Attr::extents);
    constexpr int64_t kLimit = int64_t{1} << 31;
    const bool ok = !extents.empty() && std::ranges::all_of(extents, [](int64_t extent) {
      return extent >= 1 && extent < kLimit;
    });
    c.require(ok, 28, op, "extents are at least 1");
    c.require(fn.numOperands(op) <= extents.size(), 28, op, "each end is of a dimension");
    steps(op);
    same(28, op, "the body takes", c.argTypes(op, 0), Types(extents.size(), kI32));
    same(28, op, "the body yields", c.yieldedTypes(op, 0), {});
  }

  void fold(OpId op) {
    const int64_t extent = fn.getInt(op, Attr::extent);
    c.require(extent >= 1 && extent < (int64_t{1} << 31), 28, op, "extent is at least 1");
    steps(op);
    c.require(!fn.hasAttr(op, Attr::sets) || fn.getInt(op, Attr::sets) >= 1, 28, op,
              "sets is at least 1");
    const Types tuple = c.types(fn.results(op));
    same(28, op, "element takes", c.argTypes(op, 0), {kI32});
    same(28, op, "element yields", c.yieldedTypes(op, 0), tuple);
    same(28, op, "combine takes", c.argTypes(op, 1), concatenate(tuple, tuple));
    same(28, op, "combine yields", c.yieldedTypes(op, 1), tuple);
  }

  void prefix(OpId op) {
    const int64_t extent = fn.getInt(op, Attr::extent);
    c.require(extent >= 1 && extent < (int64_t{1} << 31), 28, op, "extent is at least 1");
    c.require(fn.getInt(op, Attr::lanes) >= 1, 28, op, "lanes is at least 1");
    const Types tuple = c.yieldedTypes(op, 0);
    same(28, op, "element takes", c.argTypes(op, 0), {kI32});
    same(28, op, "combine takes", c.argTypes(op, 1), concatenate(tuple, tuple));
    same(28, op, "combine yields", c.yieldedTypes(op, 1), tuple);
    same(28, op, "write takes", c.argTypes(op, 2), concatenate({kI32}, tuple));
    same(28, op, "write yields", c.yieldedTypes(op, 2), {});
  }
};

} // namespace

void verifyControl(Checker &checker, OpId op) {
  ControlChecks checks{checker};
  const Opcode opcode = checker.fn.opcode(op);
  switch (info(opcode).rule) {
  case TypeRule::Reduce:
    return checks.reduce(op);
  case TypeRule::Map:
    return checks.map(op);
  case TypeRule::Scan:
    return checks.scan(op);
  case TypeRule::Nest:
    return opcode == Opcode::Nest ? checks.nest(op) : checks.prefix(op);
  case TypeRule::Fold:
    return checks.fold(op);
  case TypeRule::Region:
    if (opcode == Opcode::For) {
      return checks.forLoop(op);
    }
    return opcode == Opcode::While ? checks.whileLoop(op) : checks.ifElse(op);
  case TypeRule::None:
  case TypeRule::Explicit:
  case TypeRule::Same:
  case TypeRule::SameInt:
  case TypeRule::SameFloat:
  case TypeRule::Compare:
  case TypeRule::Select:
  case TypeRule::Cast:
  case TypeRule::PtrAdd:
  case TypeRule::Load:
  case TypeRule::Dot:
    return;
  }
}

} // namespace libtile::ir
