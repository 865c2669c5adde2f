// SPDX-License-Identifier: Apache-2.0
// Ops are visited in text order, and what a body brings is visited after it: a body may use
// functions that are expanded in turn.
#include "passes/expand_functions.h"

#include "ir/builder.h"
#include "ir/function_library.h"
#include "ir/ops.h"

#include <algorithm>

namespace libtile::passes {

using ir::Elem;
using ir::Function;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

namespace {

// Functions that use each other deeper than this have no end.
constexpr unsigned kMostDepth = 8;

bool isNarrow(Elem elem) { return elem == Elem::F16 || elem == Elem::BF16; }

// The function is of that type: its operands', or the result's if they are no floats.
Elem elemOf(const Function &fn, OpId op) {
  const Type &operand = fn.type(fn.operand(op, 0));
  return operand.isFloating() ? operand.elem() : fn.type(fn.result(op)).elem();
}

class Expansion {
public:
  Expansion(Function &fn, const PassContext &context) : fn_(fn), context_(context) {}

  bool run() {
    for (OpId op : fn_.walk()) {
      visit(op, 0);
    }
    return changed_;
  }

private:
  void visit(OpId op, unsigned depth) {
    if (!ir::isFunction(fn_.opcode(op))) {
      return;
    }
    if (fn_.opInfo(op).rule == ir::TypeRule::Cast && isNarrow(elemOf(fn_, op)) &&
        !staysNarrow(fn_, op, context_.target)) {
      op = throughSingle(op);
    }
    ir::FunctionKey wanted = keyOf(op);
    if (isInstruction(wanted)) {
      return;
    }
    wanted.nonpositive = fn_.getBool(op, ir::Attr::nonpositive);
    wanted.scales = wanted.nonpositive && isInstruction({Opcode::Scalb, wanted.elem});
    const Function *body =
        context_.library != nullptr ? context_.library->body(wanted) : nullptr;
    if (body == nullptr) {
      throw ir::Unsupported(std::string(fn_.opInfo(op).mnemonic) + " of " + ir::elemName(wanted.elem) +
                                " is not there yet on " + context_.target.name,
                            fn_.locationOf(op));
    }
    ir::check(depth < kMostDepth, "library functions do not need themselves");
    replace(op, *body, depth);
    changed_ = true;
  }

  bool isInstruction(const ir::FunctionKey &key) const {
    return std::ranges::find(context_.target.functions, key) != context_.target.functions.end();
  }

  ir::FunctionKey keyOf(OpId op) const {
    const Elem elem = elemOf(fn_, op);
    const bool single = isNarrow(elem) && fn_.opInfo(op).rule != ir::TypeRule::Cast;
    ir::FunctionKey key{fn_.opcode(op), single ? Elem::F32 : elem};
    if (fn_.findAttr(op, ir::Attr::format) != nullptr) {
      key.format = fn_.getEnum<ir::Float8>(op, ir::Attr::format);
    }
    return key;
  }

  // The cast from or to a 16-bit float as one of f32 and one that is exact.
  OpId throughSingle(OpId op) {
    ir::Builder builder(fn_, op);
    const ValueId operand = fn_.operand(op, 0);
    const Type to = fn_.type(fn_.result(op));
    const Type single = to.withElement(Type::scalar(Elem::F32));
    const bool narrows = to.isFloating();
    const ValueId wide = narrows ? operand : builder.make(Opcode::FpExt, {operand}, single);
    const Type result = narrows ? single : to;
    const OpId made = builder.op(fn_.opcode(op), {&wide, 1}, {&result, 1});
    fn_.setAttr(made, ir::Attr::format, fn_.getEnum<ir::Float8>(op, ir::Attr::format));
    const ValueId cast = fn_.result(made);
    fn_.replaceAllUses(fn_.result(op), narrows ? builder.make(Opcode::FpTrunc, {cast}, to) : cast);
    fn_.erase(op);
    changed_ = true;
    return made;
  }

  // f(x) -> the body on x in the body's types, converted back to the op's.
  void replace(OpId op, const Function &body, unsigned depth) {
    ir::Builder builder(fn_, op);
    ir::check(body.params.size() == fn_.numOperands(op), "a body has a parameter for each operand");
    std::vector<ValueId> values(body.numValues());
    for (unsigned i = 0; i < fn_.numOperands(op); ++i) {
      const ValueId operand = fn_.operand(op, i);
      const ValueId parameter = body.arg(body.body(), i);
      const Type type = fn_.type(operand).withElement(body.type(parameter));
      const bool narrow = fn_.type(operand) != type;
      values[parameter.index] = narrow ? builder.make(Opcode::FpExt, {operand}, type) : operand;
    }
    const Type wanted = fn_.type(fn_.result(op));
    std::vector<OpId> made;
    for (OpId inner = body.first(body.body()); inner != body.last(body.body());
         inner = body.next(inner)) {
      made.push_back(copy(body, inner, builder, values, wanted));
    }
    ValueId result = values[body.operand(body.last(body.body()), 0).index];
    if (fn_.type(result) != wanted) {
      result = builder.make(Opcode::FpTrunc, {result}, wanted);
    }
    fn_.replaceAllUses(fn_.result(op), result);
    fn_.erase(op);
    for (OpId inner : made) {
      visit(inner, depth + 1);
    }
  }

  // The scalar op on elements of `shape`.
  OpId copy(const Function &body, OpId op, ir::Builder &builder, std::vector<ValueId> &values,
            const Type &shape) {
    ir::check(body.opcode(op) == Opcode::Constant || ir::isElementwise(body.opcode(op)),
              "a body is straight-line code on elements");
    ir::Values operands;
    for (ValueId operand : body.operands(op)) {
      operands.push_back(values[operand.index]);
    }
    const Type result = shape.withElement(body.type(body.result(op)));
    const OpId made = builder.op(body.opcode(op), operands, {&result, 1});
    for (const auto &[attr, value] : body.attrs(op)) {
      fn_.setAttr(made, attr, value);
    }
    values[body.result(op).index] = fn_.result(made);
    return made;
  }

  Function &fn_;
  const PassContext &context_;
  bool changed_ = false;
};

} // namespace

bool staysNarrow(const Function &fn, OpId op, const ir::Target &target) {
  return ir::isFunction(fn.opcode(op)) && fn.opInfo(op).rule == ir::TypeRule::Cast &&
         elemOf(fn, op) == Elem::BF16 && target.vectorBytes > 0;
}

bool expandFunctions(Function &fn, const PassContext &context) {
  return Expansion(fn, context).run();
}

} // namespace libtile::passes
