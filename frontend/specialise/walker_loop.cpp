// SPDX-License-Identifier: Apache-2.0
// Loops of the walker.
//
// A dynamic loop carries the names that its text binds and that have a value before it; numbers
// become tensors first. The body is walked once, then each carried value must have kept its type;
// those that never change are taken out again. A name first bound inside is unknown afterwards. The
// loop variable is carried only where the text reads it after the loop.
#include "frontend/specialise/walker.h"
#include "ir/ops.h"

#include <algorithm>

namespace libtile::frontend {

struct Walker::Loop {
  ir::OpId op;
  ir::BlockId body, cond; // cond: `while` only
  std::vector<NameId> names;
  std::vector<Value> values; // an each name: before the loop, then inside
  std::vector<SourceRange> where;
  // One a tensor in `values`, in order; then the slots of a returned value.
  std::vector<ir::ValueId> inits, args, condArgs, yields;
  // In finish: what each leaf is after the loop, where it is not a result.
  std::vector<ir::ValueId> unchanged;
  std::vector<NameId> carriedOutside;
  Flow flow; // at the end of the body
  [[nodiscard]] unsigned firstInit() const { return cond.valid() ? 0 : 3; }
  [[nodiscard]] unsigned firstArg() const { return cond.valid() ? 0 : 1; }
};

void Walker::forStatement(const Stmt &stmt) {
  if (stmt.orelse.count != 0) {
    fail(stmt.range, "`else` after a loop is not allowed in a kernel");
  }
  const Expr &target = ast()[stmt.target];
  if (target.kind == ExprKind::Refused) {
    refused(target.range, target.index);
  }
  const Expr &iterable = ast()[stmt.value];
  if (iterable.kind == ExprKind::Refused) {
    refused(iterable.range, iterable.index);
  }
  const Value callee = iterable.kind == ExprKind::Call ? eval(iterable.a) : Value();
  const auto *operation = callee.as<const Operation *>();
  const std::string name = operation != nullptr ? (*operation)->name : "";
  const bool isConstruct = operation != nullptr && (*operation)->kind == Operation::Construct;
  if (!isConstruct || (name != "range" && name != "static_range")) {
    fail(iterable.range,
         "a `for` runs over range(...), tl.range(...) or tl.static_range(...) only");
  }
  const Arguments given = arguments(iterable);
  at(iterable.range);
  if (name == "range") {
    forRange(stmt, **operation, given);
  } else {
    staticRange(stmt, **operation, given);
  }
}

// ---- unrolled

void Walker::staticRange(const Stmt &stmt, const Operation &operation, const Arguments &given) {
  const BoundArguments bound(sem_, operation, given);
  const bool hasEnd = !bound[1].isNone();
  const int64_t from = hasEnd ? sem_.constantInt(bound[0], "the start of static_range") : 0;
  const int64_t to = sem_.constantInt(bound[hasEnd ? 1 : 0], "the end of static_range");
  const int64_t by = bound[2].isNone() ? 1 : sem_.constantInt(bound[2], "the step of static_range");
  if (by == 0) {
    sem_.fail(bound[2], "the step of static_range is 0");
  }
  std::vector<NameId> outside = frame_->carried;
  for (uint32_t i = 0; i < stmt.assigned.count; ++i) {
    frame_->carried.push_back(ast().name(stmt.assigned, i));
  }
  ++frame_->loops;
  staticSteps(stmt, from, to, by);
  --frame_->loops;
  frame_->carried = std::move(outside);
  settle(flow(), flow().broke);
}

void Walker::staticSteps(const Stmt &stmt, int64_t from, int64_t to, int64_t by) {
  const Expr &target = ast()[stmt.target];
  for (int64_t i = from; (by > 0 ? i < to : i > to) && !flow().dead;) {
    step(stmt.range);
    if (++unrolled_ > kMostUnrolled) {
      fail(stmt.range, "more than " + std::to_string(kMostUnrolled) + " iterations to unroll");
    }
    const auto body = [&] {
      scope().set(target.name, Value::integer(i), target.range);
      statements(stmt.body);
      settle(flow(), flow().continued);
    };
    if (flow().maybeLeft()) {
      at(stmt.range);
      guarded(body);
    } else {
      body();
    }
    if (__builtin_add_overflow(i, by, &i)) {
      return;
    }
  }
}

// ---- for

void Walker::forRange(const Stmt &stmt, const Operation &operation, const Arguments &given) {
  const BoundArguments bound(sem_, operation, given);
  const Value zero = Value::integer(0);
  const Value one = Value::integer(1);
  const bool hasEnd = !bound[1].isNone();
  const Value &start = hasEnd ? bound[0] : zero;
  const Value &step = bound[2].isNone() ? one : bound[2];
  if (step.constant() != nullptr && sem_.constantTruth(step) == false) {
    sem_.fail(step, "the step of range is 0");
  }
  const auto bounded = [&](const Value &value) {
    Tensor tensor = sem_.toTensor(value);
    if (!tensor.isScalar() || !tensor.dtype.isInt()) {
      sem_.fail(value, "range needs integers, not " + value.describe());
    }
    return tensor.dtype.isBool() ? sem_.cast(tensor, *DType::byName("int32")) : tensor;
  };
  auto [lo, hi] =
      sem_.promoteBoth(Value(bounded(start)), Value(bounded(bound[hasEnd ? 1 : 0])), false);
  Tensor by;
  std::tie(lo, by) = sem_.promoteBoth(Value(lo), Value(bounded(step)), false);
  hi = sem_.cast(hi, lo.dtype);

  const Expr &target = ast()[stmt.target];
  Loop loop;
  prepare(loop, stmt);
  if (stmt.targetEscapes) {
    const Binding *before = scope().find(target.name);
    const Tensor *tensor = before != nullptr ? before->value.tensor() : nullptr;
    const bool fits = tensor != nullptr && tensor->isScalar() && tensor->dtype == lo.dtype;
    addName(loop, target.name, fits ? before->value : Value(lo), target.range);
  }
  at(stmt.range);
  std::vector<ir::ValueId> operands = {lo.id, hi.id, by.id};
  operands.insert(operands.end(), loop.inits.begin(), loop.inits.end());
  Path before = frame_->path;
  {
    const RegionGuard guard(*this);
    loop.op = builder_.op(ir::Opcode::For, operands);
    if (!lo.dtype.isSigned) {
      fn_.setAttr(loop.op, ir::Attr::is_unsigned, ir::AttrValue(int64_t{1}));
    }
    for (size_t i = 0; i < operation.params.size(); ++i) {
      if (operation.params[i].name == "num_stages" && !bound[i].isNone()) {
        const int64_t stages = sem_.constantInt(bound[i], "num_stages");
        fn_.setAttr(loop.op, ir::Attr::num_stages, ir::AttrValue(stages));
      }
    }
    loop.body = fn_.region(loop.op);
    Tensor induction = lo;
    induction.id = fn_.addArg(loop.body, fn_.type(lo.id));
    walkBody(loop, stmt, &induction);
  }
  finish(loop, std::move(before));
}

// ---- while

void Walker::whileStatement(const Stmt &stmt) {
  if (stmt.orelse.count != 0) {
    fail(stmt.range, "`else` after a loop is not allowed in a kernel");
  }
  Loop loop;
  prepare(loop, stmt);
  at(stmt.range);
  Path before = frame_->path;
  {
    const RegionGuard guard(*this);
    loop.op = builder_.op(ir::Opcode::While, loop.inits);
    loop.cond = fn_.region(loop.op, 0);
    loop.body = fn_.region(loop.op, 1);
    const std::vector<Value> initial = loop.values;
    loop.condArgs = enter(loop, loop.cond);
    const size_t names = scope().bindings.size();
    const Value test = eval(stmt.test);
    const SourceRange range = ast()[stmt.test].range;
    for (size_t i = 0; i < loop.names.size(); ++i) {
      if (!sameValue(scope().find(loop.names[i])->value, loop.values[i])) {
        throw ir::Unsupported("`:=` in the condition of a `while` is not there yet",
                              location(range));
      }
    }
    if (scope().bindings.size() != names) {
      throw ir::Unsupported("`:=` in the condition of a `while` is not there yet", location(range));
    }
    at(range);
    const auto truth = sem_.constantTruth(test);
    if (truth == false) {
      fn_.erase(loop.op);
      frame_->path = std::move(before);
      return;
    }
    const ir::ValueId holds = truth ? flagValue({Flag::Always, {}}) : sem_.condition(test).id;
    builder_.yield(std::array{holds});
    loop.values = initial;
    walkBody(loop, stmt, nullptr);
  }
  finish(loop, std::move(before));
}

// ---- what loops carry

Value Walker::decayAll(const Value &value) {
  if (const Aggregate *tuple = value.tuple()) {
    std::vector<Value> items = tuple->fields;
    for (Value &item : items) {
      item = decayAll(item);
    }
    return tuple->with(std::move(items));
  }
  return sem_.decay(value);
}

void Walker::prepare(Loop &loop, const Stmt &stmt) {
  at(stmt.range);
  const bool isFor = stmt.kind == StmtKind::For;
  for (uint32_t i = 0; i < stmt.assigned.count; ++i) {
    const NameId name = ast().name(stmt.assigned, i);
    const Binding *binding = scope().find(name);
    const bool isTarget = isFor && ast()[stmt.target].name == name;
    if (binding == nullptr || !binding->value.bound() || isTarget) {
      continue;
    }
    // A constant would lose what it is: only where it is bound for certain.
    if (binding->value.constant() == nullptr || mayBind(stmt, stmt.body, name)) {
      addName(loop, name, binding->value, binding->where);
    }
  }
}

void Walker::addName(Loop &loop, NameId name, const Value &value, SourceRange where) {
  loop.names.push_back(name);
  loop.values.push_back(decayAll(value));
  loop.where.push_back(where);
  flatten(loop.values.back(), loop.inits);
}

std::vector<ir::ValueId> Walker::enter(Loop &loop, ir::BlockId block) {
  std::vector<ir::ValueId> args;
  for (const ir::ValueId init : loop.inits) {
    args.push_back(fn_.addArg(block, fn_.type(init)));
  }
  size_t next = 0;
  for (size_t i = 0; i < loop.names.size(); ++i) {
    loop.values[i] = rebuild(loop.values[i], args, next);
    scope().set(loop.names[i], loop.values[i], loop.where[i]);
  }
  builder_.setEnd(block);
  return args;
}

void Walker::walkBody(Loop &loop, const Stmt &stmt, const Tensor *induction) {
  if (loop.cond.valid()) {
    // What the condition bound is not seen here.
    flow() = Flow();
  }
  loop.args = enter(loop, loop.body);
  if (induction != nullptr) {
    const Expr &target = ast()[stmt.target];
    scope().set(target.name, Value(*induction), target.range);
  }
  flow() = Flow();
  std::vector<NameId> outside = std::exchange(frame_->carried, loop.names);
  ++frame_->loops;
  statements(stmt.body);
  --frame_->loops;
  frame_->carried = std::move(outside);
  at(stmt.range);

  loop.flow = flow();
  const bool alwaysStops = loop.flow.dead && loop.flow.continued.kind == Flag::Never;
  const bool stops = loop.flow.broke.kind != Flag::Never || loop.flow.returned.kind != Flag::Never;
  dropUnused(loop.flow.continued);
  if (alwaysStops && loop.flow.broke.kind == Flag::Never) {
    // Every path returns: what is carried is never read.
    loop.yields = loop.args;
  } else {
    for (size_t i = 0; i < loop.names.size(); ++i) {
      const Binding *binding = scope().find(loop.names[i]);
      loop.where[i] = binding->where;
      matchValue(loop, loop.values[i], binding->value, i, binding->value);
    }
  }
  dropUnchanged(loop);
  carryReturn(loop);
  std::vector<ir::ValueId> yields;
  if (stops) {
    fn_.setAttr(loop.op, ir::Attr::stop, ir::AttrValue(int64_t{1}));
    yields.push_back(alwaysStops ? flagValue({Flag::Always, {}})
                                 : anyOf({loop.flow.broke, loop.flow.returned}));
  }
  for (size_t i = 0; i < loop.yields.size(); ++i) {
    if (!loop.unchanged[i].valid()) {
      yields.push_back(loop.yields[i]);
    }
  }
  builder_.yield(yields);
}

void Walker::matchValue(Loop &loop, const Value &entry, const Value &end, size_t name, const Value &whole) {
  if (const Tensor *before = entry.tensor()) {
    const auto after = asTensor(end);
    if (after && after->dtype == before->dtype && after->shape == before->shape) {
      loop.yields.push_back(after->id);
      return;
    }
  } else if (const Aggregate *before = entry.aggregate()) {
    const Aggregate *after = end.aggregate();
    if (after != nullptr && after->fields.size() == before->fields.size() &&
        after->cls->is(*before->cls)) {
      for (size_t i = 0; i < before->fields.size(); ++i) {
        matchValue(loop, before->fields[i], after->fields[i], name, whole);
      }
      return;
    }
  } else if (sameValue(entry, end)) {
    return;
  }
  // Where the whole values are described alike, it is a part that differs.
  const auto text = [](const Value &value) { return value.bound() ? value.describe() : "undefined"; };
  const std::string first = text(loop.values[name]), last = text(whole);
  fail(loop.where[name], "`" + ast()[loop.names[name]] + "` " +
                             (first != last ? "is " + first : "holds " + text(entry)) + " before the loop and " +
                             (first != last ? last : text(end)) +
                             " after its body; what a loop carries must keep its type");
}

// A leaf that the body hands on as it got it, or as it was before the loop, is no leaf.
void Walker::dropUnchanged(Loop &loop) {
  loop.unchanged.resize(loop.yields.size());
  std::vector<ir::ValueId> returned;
  flatten(loop.flow.returnValue, returned);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t k = 0; k < loop.yields.size(); ++k) {
      const ir::ValueId arg = loop.args[k];
      const ir::ValueId init = loop.inits[k];
      if (loop.unchanged[k].valid() || (loop.yields[k] != arg && loop.yields[k] != init)) {
        continue;
      }
      changed = true;
      loop.unchanged[k] = init;
      std::replace(loop.yields.begin(), loop.yields.end(), arg, init);
      std::replace(returned.begin(), returned.end(), arg, init);
      for (Flag *flag : {&loop.flow.broke, &loop.flow.returned}) {
        if (flag->value == arg) { // the condition under which the body leaves
          flag->value = init;
        }
      }
      fn_.replaceAllUses(arg, init);
      if (loop.cond.valid()) {
        fn_.replaceAllUses(loop.condArgs[k], init);
      }
    }
  }
  for (size_t k = loop.yields.size(); k-- > 0;) {
    if (loop.unchanged[k].valid()) {
      const auto leaf = static_cast<unsigned>(k);
      fn_.eraseArg(loop.body, loop.firstArg() + leaf);
      if (loop.cond.valid()) {
        fn_.eraseArg(loop.cond, leaf);
      }
      fn_.eraseOperand(loop.op, loop.firstInit() + leaf);
    }
  }
  size_t next = 0;
  loop.flow.returnValue = rebuild(loop.flow.returnValue, returned, next);
}

void Walker::addSlot(Loop &loop, ir::ValueId yielded) {
  const ir::BlockId block = builder_.block();
  const ir::LocationId here = builder_.loc;
  builder_.setBefore(loop.op);
  const ir::Type type = fn_.type(yielded);
  fn_.addOperand(loop.op, builder_.zero(type));
  builder_.setEnd(block);
  builder_.loc = here;
  fn_.addArg(loop.body, type);
  if (loop.cond.valid()) {
    fn_.addArg(loop.cond, type);
  }
  loop.yields.push_back(yielded);
  loop.unchanged.emplace_back();
}

void Walker::carryReturn(Loop &loop) {
  if (loop.flow.returned.kind == Flag::Never) {
    return;
  }
  addSlot(loop, flagValue(loop.flow.returned));
  std::vector<ir::ValueId> ids;
  flatten(loop.flow.returnValue, ids);
  for (const ir::ValueId id : ids) {
    addSlot(loop, id);
  }
}

// Behind the loop: results for what it carried.
void Walker::finish(Loop &loop, Path before) {
  const Scope inside = std::move(scope());
  frame_->path = std::move(before);
  std::vector<ir::ValueId> after = loop.unchanged;
  for (size_t k = 0; k < after.size(); ++k) {
    if (!after[k].valid()) {
      after[k] = fn_.addResult(loop.op, fn_.type(loop.yields[k]));
    }
  }
  size_t next = 0;
  for (size_t i = 0; i < loop.names.size(); ++i) {
    scope().set(loop.names[i], rebuild(loop.values[i], after, next), loop.where[i]);
  }
  if (loop.flow.returned.kind != Flag::Never) {
    flow().returned = {Flag::Sometimes, after[next++]};
    flow().returnValue = rebuild(loop.flow.returnValue, after, next);
    flow().returnedAt = loop.flow.returnedAt;
  }
  for (const Binding &binding : inside.bindings) {
    if (binding.value.bound() && scope().find(binding.name) == nullptr) {
      scope().bindings.push_back({binding.name, Value(), binding.where, Why::InLoop});
    }
  }
}

} // namespace libtile::frontend
