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
    const Type type = fn_.type(fn_.result(op));
    const Elem elem = type.elem() == Elem::F64 ? Elem::F64 : Elem::F32;
    const ir::NativeFunction wanted{fn_.opcode(op), elem};
    if (std::ranges::find(context_.target.functions, wanted) != context_.target.functions.end()) {
      return;
    }
    const Function *body =
        context_.library != nullptr ? context_.library->body(wanted.opcode, elem) : nullptr;
    if (body == nullptr) {
      throw ir::Unsupported(std::string(fn_.opInfo(op).mnemonic) + " of " + ir::elemName(elem) +
                                " is not there yet on " + context_.target.name,
                            fn_.locationOf(op));
    }
    ir::check(depth < kMostDepth, "library functions do not need themselves");
    replace(op, *body, type.withElement(elem), depth);
    changed_ = true;
  }

  // f(x) -> the body on x in the type, converted back to the op's.
  void replace(OpId op, const Function &body, Type type, unsigned depth) {
    ir::Builder builder(fn_, op);
    ir::check(body.params.size() == fn_.numOperands(op), "a body has a parameter for each operand");
    std::vector<ValueId> values(body.numValues());
    for (unsigned i = 0; i < fn_.numOperands(op); ++i) {
      const ValueId operand = fn_.operand(op, i);
      const bool narrow = fn_.type(operand) != type;
      values[body.arg(body.body(), i).index] =
          narrow ? builder.make(Opcode::FpExt, {operand}, type) : operand;
    }
    std::vector<OpId> made;
    for (OpId inner = body.first(body.body()); inner != body.last(body.body());
         inner = body.next(inner)) {
      made.push_back(copy(body, inner, builder, values, type));
    }
    ValueId result = values[body.operand(body.last(body.body()), 0).index];
    const Type wanted = fn_.type(fn_.result(op));
    if (wanted != type) {
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

bool expandFunctions(Function &fn, const PassContext &context) {
  return Expansion(fn, context).run();
}

} // namespace libtile::passes
