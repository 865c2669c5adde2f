// SPDX-License-Identifier: Apache-2.0
// Where paths meet: names, flags and returned values of the two sides of an `if` become its
// results.
#include "frontend/specialise/walker.h"
#include "ir/ops.h"

#include <algorithm>

namespace libtile::frontend {

void flatten(const Value &value, std::vector<ir::ValueId> &out) {
  if (const Tensor *tensor = value.tensor()) {
    out.push_back(tensor->id);
  } else if (const Aggregate *aggregate = value.aggregate()) {
    for (const Value &field : aggregate->fields) {
      flatten(field, out);
    }
  }
}

bool hasTensors(const Value &value) {
  std::vector<ir::ValueId> ids;
  flatten(value, ids);
  return !ids.empty();
}

Value rebuild(const Value &value, std::span<const ir::ValueId> ids, size_t &next) {
  if (const Tensor *tensor = value.tensor()) {
    Tensor made = *tensor;
    made.id = ids[next++];
    return Value(std::move(made));
  }
  if (const Aggregate *aggregate = value.aggregate()) {
    std::vector<Value> fields = aggregate->fields;
    for (Value &field : fields) {
      field = rebuild(field, ids, next);
    }
    return aggregate->with(std::move(fields));
  }
  return value;
}

Walker::RegionGuard::RegionGuard(Walker &walker)
    : walker(walker), parent(walker.builder().block()) {
  if (walker.regions_ >= kMostRegions) {
    throw ir::UserError("`if`s and loops nested more than " + std::to_string(kMostRegions) +
                            " deep after inlining",
                        walker.sem_.location());
  }
  ++walker.regions_;
}

bool Walker::branch(const Tensor &condition, llvm::function_ref<void()> first,
                    llvm::function_ref<void()> second, llvm::function_ref<void()> rest) {
  const RegionGuard guard(*this);
  const ir::OpId op = builder_.op(ir::Opcode::If, std::array{condition.id});
  const Path before = frame_->path;
  std::array<Path, 2> paths;
  std::array<ir::BlockId, 2> ends;
  const auto walk = [&](int side, llvm::function_ref<void()> body) {
    builder_.setEnd(ends[side]);
    body();
    paths[side] = std::move(frame_->path);
  };
  for (const int side : {0, 1}) {
    ends[side] = fn_.region(op, side);
    frame_->path = before;
    walk(side, side == 0 ? first : second);
  }
  const bool absorbs = rest && paths[0].flow.dead != paths[1].flow.dead;
  if (absorbs) {
    const int alive = paths[0].flow.dead ? 1 : 0;
    frame_->path = std::move(paths[alive]);
    walk(alive, rest);
  }
  merge(op, paths[0], paths[1]);
  return absorbs;
}

void Walker::guarded(llvm::function_ref<void()> rest) {
  const Flow now = flow();
  const ir::ValueId left = anyOf({now.broke, now.continued, now.returned});
  const Tensor condition = sem_.makeTensor(left, *DType::byName("int1"));
  branch(
      condition, [&] { flow().dead = true; },
      [&] {
        flow() = Flow();
        rest();
      });
}

void Walker::merge(ir::OpId op, Path &a, Path &b) {
  Merge merging{op, {}};
  const ir::LocationId here = builder_.loc;
  Path out;
  for (const Binding &binding : a.scope.bindings) {
    mergeName(merging, a, b, binding.name, out.scope);
  }
  for (const Binding &binding : b.scope.bindings) {
    if (a.scope.find(binding.name) == nullptr) {
      mergeName(merging, a, b, binding.name, out.scope);
    }
  }
  out.flow.dead = a.flow.dead && b.flow.dead;
  out.flow.broke = mergeFlag(merging, a.flow.broke, b.flow.broke);
  out.flow.continued = mergeFlag(merging, a.flow.continued, b.flow.continued);
  out.flow.returned = mergeFlag(merging, a.flow.returned, b.flow.returned);
  mergeReturns(merging, a, b, out.flow);
  builder_.loc = here;
  const auto isEmpty = [&](int side) { return !fn_.first(fn_.region(op, side)).valid(); };
  if (fn_.results(op).empty() && isEmpty(0) && isEmpty(1)) {
    fn_.erase(op);
  } else {
    for (const int side : {0, 1}) {
      builder_.setEnd(fn_.region(op, side));
      builder_.yield(merging.yields[side]);
    }
  }
  frame_->path = std::move(out);
}

void Walker::mergeName(Merge &merge, const Path &a, const Path &b, NameId name, Scope &out) {
  const std::array<const Binding *, 2> found = {a.scope.find(name), b.scope.find(name)};
  const auto bound = [&](int side) { return found[side] != nullptr && found[side]->value.bound(); };
  if (!bound(0) && !bound(1)) {
    out.bindings.push_back(found[0] != nullptr ? *found[0] : *found[1]);
    return;
  }
  if (bound(0) && bound(1) && sameValue(found[0]->value, found[1]->value)) {
    out.bindings.push_back(*found[0]);
    return;
  }
  // A dead side takes part only in what its loop hands on.
  const bool handedOn =
      std::find(frame_->carried.begin(), frame_->carried.end(), name) != frame_->carried.end();
  const auto ignored = [&](const Path &path) {
    return path.flow.dead && (!handedOn || (path.flow.broke.kind == Flag::Never &&
                                            path.flow.continued.kind == Flag::Never));
  };
  const bool ignoreFirst = ignored(a);
  const bool ignoreSecond = ignored(b);
  const int side = bound(0) && (!ignoreFirst || !bound(1)) ? 0 : 1;
  const Binding &kept = *found[side];
  if (ignoreFirst && ignoreSecond) {
    out.bindings.push_back({name, Value(), kept.where, Why::OneBranch});
    return;
  }
  if (bound(0) && bound(1)) {
    if (const auto value = mergeValue(merge, found[0]->value, found[1]->value)) {
      out.bindings.push_back({name, *value, kept.where});
      return;
    }
  }
  if (ignoreFirst || ignoreSecond) {
    const int alive = ignoreFirst ? 1 : 0;
    if (bound(alive)) {
      out.bindings.push_back(
          {name, mergeFilled(merge, found[alive]->value, alive), found[alive]->where});
    } else {
      out.bindings.push_back({name, Value(), kept.where, Why::OneBranch});
    }
    return;
  }
  if (!bound(0) || !bound(1)) {
    out.bindings.push_back({name, Value(), kept.where, Why::OneBranch});
    return;
  }
  failTypes(*found[0], *found[1]);
}

void Walker::failTypes(const Binding &a, const Binding &b) const {
  const bool isName = a.name.index < ast().names.size();
  const std::string what = isName ? "`" + ast()[a.name] + "`" : "a conditional expression";
  fail(a.where.line > b.where.line ? a.where : b.where, what + " would be " + a.value.describe() +
                                                            " on one side of the condition and " +
                                                            b.value.describe() + " on the other");
}

// A scalar that a value can be carried as.
std::optional<Tensor> Walker::asTensor(const Value &value) {
  if (const Tensor *tensor = value.tensor()) {
    return *tensor;
  }
  const Constant *constant = value.constant();
  if (constant == nullptr || std::holds_alternative<None>(*constant) ||
      std::holds_alternative<std::string>(*constant)) {
    return std::nullopt;
  }
  return sem_.toTensor(value);
}

std::optional<Value> Walker::mergeValue(Merge &merge, const Value &a, const Value &b) {
  if (sameValue(a, b)) {
    return a;
  }
  const Aggregate *left = a.aggregate();
  const Aggregate *right = b.aggregate();
  if (left != nullptr && right != nullptr && left->fields.size() == right->fields.size() &&
      left->cls->is(*right->cls)) {
    std::vector<Value> fields;
    for (size_t i = 0; i < left->fields.size(); ++i) {
      const auto field = mergeValue(merge, left->fields[i], right->fields[i]);
      if (!field) {
        return std::nullopt;
      }
      fields.push_back(*field);
    }
    return left->with(std::move(fields));
  }
  builder_.setEnd(fn_.region(merge.op, 0));
  const auto x = asTensor(a);
  builder_.setEnd(fn_.region(merge.op, 1));
  const auto y = asTensor(b);
  if (!x || !y || x->dtype != y->dtype || x->shape != y->shape) {
    return std::nullopt;
  }
  Tensor made = *x;
  made.id = addMerged(merge, x->id, y->id);
  return Value(std::move(made));
}

ir::ValueId Walker::addMerged(Merge &merge, ir::ValueId a, ir::ValueId b) {
  merge.yields[0].push_back(a);
  merge.yields[1].push_back(b);
  return fn_.addResult(merge.op, fn_.type(a));
}

Value Walker::mergeFilled(Merge &merge, const Value &value, int side) {
  std::vector<ir::ValueId> ids;
  flatten(value, ids);
  for (ir::ValueId &id : ids) {
    if (fn_.isDefinedOutside(id, fn_.region(merge.op, side))) {
      continue;
    }
    builder_.setEnd(fn_.region(merge.op, 1 - side));
    const ir::ValueId zero = builder_.zero(fn_.type(id));
    id = side == 0 ? addMerged(merge, id, zero) : addMerged(merge, zero, id);
  }
  size_t next = 0;
  return rebuild(value, ids, next);
}

// ---- flags

Flag Walker::mergeFlag(Merge &merge, Flag a, Flag b) {
  if (a.kind == b.kind && a.kind != Flag::Sometimes) {
    return a;
  }
  if (a.kind == Flag::Sometimes && b.kind == Flag::Sometimes && a.value == b.value) {
    return a;
  }
  if (a.kind == Flag::Always && b.kind == Flag::Never) {
    return {Flag::Sometimes, fn_.operand(merge.op, 0)};
  }
  builder_.setEnd(fn_.region(merge.op, 0));
  const ir::ValueId x = flagValue(a);
  builder_.setEnd(fn_.region(merge.op, 1));
  const ir::ValueId y = flagValue(b);
  const ir::ValueId merged = addMerged(merge, x, y);
  isFlag_.set(merged, 1);
  return {Flag::Sometimes, merged};
}

ir::ValueId Walker::flagValue(Flag flag) {
  if (flag.kind == Flag::Sometimes) {
    return flag.value;
  }
  const int64_t value = flag.kind == Flag::Always ? 1 : 0;
  const ir::ValueId made = builder_.constInt(ir::Type::scalar(ir::Elem::I1), value);
  isFlag_.set(made, 1);
  return made;
}

ir::ValueId Walker::anyOf(std::initializer_list<Flag> flags) {
  ir::ValueId any;
  for (const Flag flag : flags) {
    if (flag.kind == Flag::Always) {
      return flagValue(flag);
    }
    if (flag.kind == Flag::Sometimes) {
      any = any.valid() ? builder_.make(ir::Opcode::Or, {any, flag.value}) : flag.value;
    }
  }
  return any.valid() ? any : flagValue({});
}

void Walker::mergeReturns(Merge &merge, const Path &a, const Path &b, Flow &out) {
  const std::array<const Flow *, 2> flows = {&a.flow, &b.flow};
  const auto returns = [&](int side) { return flows[side]->returned.kind != Flag::Never; };
  if (!returns(0) && !returns(1)) {
    return;
  }
  const int side = returns(0) ? 0 : 1;
  out.returnedAt = flows[side]->returnedAt;
  if (!returns(0) || !returns(1)) {
    out.returnValue = mergeFilled(merge, flows[side]->returnValue, side);
    return;
  }
  const auto value = mergeValue(merge, a.flow.returnValue, b.flow.returnValue);
  if (!value) {
    const SourceRange later =
        a.flow.returnedAt.line > b.flow.returnedAt.line ? a.flow.returnedAt : b.flow.returnedAt;
    fail(later, "a function must return one type: " + a.flow.returnValue.describe() +
                    " on one path, " + b.flow.returnValue.describe() + " on another");
  }
  out.returnValue = *value;
}

void Walker::dropUnused(Flag flag) {
  std::vector<ir::ValueId> work;
  if (flag.kind == Flag::Sometimes) {
    work.push_back(flag.value);
  }
  while (!work.empty()) {
    const ir::ValueId value = work.back();
    work.pop_back();
    if (isFlag_[value] == 0 || !fn_.unused(value)) {
      continue;
    }
    const ir::OpId op = fn_.def(value);
    if (fn_.opcode(op) == ir::Opcode::If) {
      const unsigned index = fn_.defIndex(value);
      for (const ir::BlockId region : fn_.regions(op)) {
        const ir::OpId yield = fn_.last(region);
        work.push_back(fn_.operand(yield, index));
        fn_.eraseOperand(yield, index);
      }
      fn_.eraseResult(op, index);
    } else {
      fn_.erase(op);
    }
  }
}

// The paths that left by `flag` go on.
void Walker::settle(Flow &flow, Flag &flag) {
  if (flag.kind != Flag::Never) {
    flow.dead = false;
  }
  flag = Flag();
}

} // namespace libtile::frontend
