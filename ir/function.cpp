// SPDX-License-Identifier: Apache-2.0
#include "ir/function.h"

#include "ir/ops.h"
#include "ir/printer.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cmath>

namespace libtile::ir {

Function::Function(std::string name) : name(std::move(name)) { blocks_.emplace_back(); }
Function::~Function() = default;
Function::Function(Function &&) noexcept = default;
Function &Function::operator=(Function &&) noexcept = default;
Function::Function(const Function &) = default;
Function Function::clone() const { return *this; }

ValueId Function::addParam(Type type, Param param, LocationId loc) {
  params.push_back(std::move(param));
  return addArg(body(), type);
}

// ---- uses

void Function::addUse(ValueId value, Use use) { values_[value.index].uses.push_back(use); }

void Function::dropUse(ValueId value, Use use) {
  auto &uses = values_[value.index].uses;
  for (size_t i = uses.size(); i-- > 0;) {
    if (uses[i].op == use.op && uses[i].operand == use.operand) {
      uses[i] = uses.back();
      uses.pop_back();
      return;
    }
  }
  throw InternalError("a use is missing from its value");
}

void Function::replaceAllUses(ValueId from, ValueId to) {
  if (from == to) {
    return;
  }
  auto &uses = values_[from.index].uses;
  for (const Use &use : uses) {
    ops_[use.op.index].operands[use.operand] = to;
    values_[to.index].uses.push_back(use);
  }
  uses.clear();
}

// ---- ops

OpId Function::createOp(Opcode opcode, std::span<const ValueId> operands,
                        std::span<const Type> results, LocationId loc) {
  const OpId op{static_cast<uint32_t>(ops_.size())};
  OpData &data = ops_.emplace_back();
  data.opcode = opcode;
  data.loc = loc;
  data.operands.assign(operands.begin(), operands.end());
  for (uint32_t i = 0; i < operands.size(); ++i) {
    addUse(operands[i], {op, i});
  }
  for (const Type &type : results) {
    addResult(op, type);
  }
  return op;
}

void Function::append(BlockId block, OpId op) {
  BlockData &data = blocks_[block.index];
  OpData &node = ops_[op.index];
  check(!node.block.valid(), "op is already in a block");
  node.block = block;
  node.prev = data.last;
  node.next = {};
  if (data.last.valid()) {
    ops_[data.last.index].next = op;
  } else {
    data.first = op;
  }
  data.last = op;
}

void Function::insertBefore(OpId position, OpId op) {
  OpData &at = ops_[position.index];
  OpData &node = ops_[op.index];
  check(at.block.valid() && !node.block.valid(), "insert a free op at an op in a block");
  node.block = at.block;
  node.prev = at.prev;
  node.next = position;
  if (at.prev.valid()) {
    ops_[at.prev.index].next = op;
  } else {
    blocks_[at.block.index].first = op;
  }
  at.prev = op;
}

void Function::insertAfter(OpId position, OpId op) {
  const OpId after = next(position);
  if (after.valid()) {
    insertBefore(after, op);
  } else {
    append(block(position), op);
  }
}

void Function::unlink(OpId op) {
  OpData &node = ops_[op.index];
  if (!node.block.valid()) {
    return;
  }
  BlockData &data = blocks_[node.block.index];
  (node.prev.valid() ? ops_[node.prev.index].next : data.first) = node.next;
  (node.next.valid() ? ops_[node.next.index].prev : data.last) = node.prev;
  node.block = {};
  node.prev = node.next = {};
}

void Function::erase(OpId op) {
  for (ValueId value : results(op)) {
    check(unused(value), "erasing an op whose results have uses");
  }
  unlink(op);
  eraseContents(op);
}

void Function::eraseContents(OpId op) {
  OpData &node = ops_[op.index];
  for (uint32_t i = 0; i < node.operands.size(); ++i) {
    dropUse(node.operands[i], {op, i});
  }
  node.operands.clear();
  node.erased = true;
  for (BlockId region : node.regions) {
    eraseBlockContents(region);
  }
}

void Function::eraseBlockContents(BlockId block) {
  for (OpId op = last(block); op.valid();) {
    const OpId before = prev(op);
    unlink(op);
    eraseContents(op);
    op = before;
  }
}

void Function::setOperand(OpId op, unsigned i, ValueId value) {
  ValueId &slot = ops_[op.index].operands[i];
  if (slot == value) {
    return;
  }
  dropUse(slot, {op, i});
  slot = value;
  addUse(value, {op, i});
}

void Function::addOperand(OpId op, ValueId value) {
  auto &operands = ops_[op.index].operands;
  addUse(value, {op, static_cast<uint32_t>(operands.size())});
  operands.push_back(value);
}

void Function::eraseOperand(OpId op, unsigned i) {
  auto &operands = ops_[op.index].operands;
  dropUse(operands[i], {op, i});
  for (uint32_t j = i + 1; j < operands.size(); ++j) {
    for (Use &use : values_[operands[j].index].uses) {
      if (use.op == op && use.operand == j) {
        use.operand = j - 1;
        break;
      }
    }
  }
  operands.erase(operands.begin() + i);
}

ValueId Function::addResult(OpId op, Type type) {
  const ValueId value{static_cast<uint32_t>(values_.size())};
  ValueData &data = values_.emplace_back();
  data.type = type;
  data.op = op;
  data.position = ops_[op.index].results.size();
  ops_[op.index].results.push_back(value);
  return value;
}

void Function::eraseResult(OpId op, unsigned i) {
  auto &results = ops_[op.index].results;
  check(unused(results[i]), "erasing a result that has uses");
  results.erase(results.begin() + i);
  for (unsigned j = i; j < results.size(); ++j) {
    values_[results[j].index].position = j;
  }
}

Effects Function::ownEffects(OpId op) const {
  Effects own = opInfo(op).effects;
  // A dot may read operands from buffers: the second one then.
  if (opcode(op) == Opcode::Dot && type(operand(op, 1)).isBuffer()) {
    own = own | Effects(Effects::ReadsBuffer);
  }
  // With a place it only starts.
  if (opcode(op) == Opcode::Dot && type(operand(op, 2)).isPlace()) {
    own = own | Effects(Effects::Async | Effects::Ordered);
  }
  // What waits until the call ends is written to the thread's sums meanwhile.
  if (opcode(op) == Opcode::AtomicRmw && getBool(op, Attr::deferred)) {
    own = Effects::ReadsBuffer | Effects::WritesBuffer;
  }
  // With addresses of rows a contract reads where they point.
  if (opcode(op) == Opcode::Contract && numOperands(op) > 6 && type(operand(op, 5)).isBuffer() &&
      type(operand(op, 6)).elem() == Elem::I32) {
    own = own | Effects(Effects::ReadsGlobal);
  }
  return getBool(op, Attr::is_volatile) ? own | Effects(Effects::Ordered) : own;
}

Effects Function::effects(OpId op) const {
  Effects all = ownEffects(op);
  for (BlockId region : regions(op)) {
    for (OpId inner = first(region); inner.valid(); inner = next(inner)) {
      const Effects below = effects(inner);
      // A yield ends its own region, not the op around it.
      if (!below.has(Effects::Terminator)) {
        all = all | below;
      }
    }
  }
  return all;
}

// ---- attributes: kept in the order of the Attr enumeration, so equal sets compare equal

const AttrValue *Function::findAttr(OpId op, Attr attr) const {
  for (const auto &[key, value] : ops_[op.index].attrs) {
    if (key == attr) {
      return &value;
    }
  }
  return nullptr;
}

OpId Function::copyOp(OpId op, IndexMap<ValueId, ValueId> &map) {
  Values operands;
  for (const ValueId operand : this->operands(op)) {
    operands.push_back(map[operand].valid() ? map[operand] : operand);
  }
  std::vector<Type> types;
  for (const ValueId result : results(op)) {
    types.push_back(type(result));
  }
  const OpId copy = createOp(opcode(op), operands, types, loc(op));
  copyAttrs(op, copy);
  for (unsigned i = 0; i < types.size(); ++i) {
    map.set(result(op, i), result(copy, i));
  }
  for (unsigned i = 0; i < regions(op).size(); ++i) {
    const BlockId from = region(op, i), to = addRegion(copy);
    for (unsigned arg = 0; arg < args(from).size(); ++arg) {
      const ValueId value = this->arg(from, arg);
      map.set(value, addArg(to, type(value)));
    }
    copyOps(from, to, map);
  }
  return copy;
}

void Function::copyOps(BlockId from, BlockId to, IndexMap<ValueId, ValueId> &map) {
  for (const OpId op : opsIn(from)) {
    append(to, copyOp(op, map));
  }
}

int64_t Function::getInt(OpId op, Attr attr) const {
  const AttrValue *value = findAttr(op, attr);
  const int64_t *number = value != nullptr ? std::get_if<int64_t>(value) : nullptr;
  return number != nullptr ? *number : 0;
}

std::span<const int64_t> Function::getInts(OpId op, Attr attr) const {
  const AttrValue *value = findAttr(op, attr);
  const auto *list = value != nullptr ? std::get_if<std::vector<int64_t>>(value) : nullptr;
  return list != nullptr ? std::span<const int64_t>(*list) : std::span<const int64_t>();
}

std::string_view Function::getText(OpId op, Attr attr) const {
  const AttrValue *value = findAttr(op, attr);
  const auto *text = value != nullptr ? std::get_if<std::string>(value) : nullptr;
  return text != nullptr ? std::string_view(*text) : std::string_view();
}

void Function::setAttr(OpId op, Attr attr, AttrValue value) {
  auto &attrs = ops_[op.index].attrs;
  auto it = attrs.begin();
  while (it != attrs.end() && it->first < attr) {
    ++it;
  }
  if (it != attrs.end() && it->first == attr) {
    it->second = std::move(value);
  } else {
    attrs.insert(it, {attr, std::move(value)});
  }
}

void Function::eraseAttr(OpId op, Attr attr) {
  llvm::erase_if(ops_[op.index].attrs, [&](const auto &entry) { return entry.first == attr; });
}

// ---- blocks and regions

BlockId Function::addRegion(OpId op) {
  const BlockId block{static_cast<uint32_t>(blocks_.size())};
  blocks_.emplace_back().parent = op;
  ops_[op.index].regions.push_back(block);
  return block;
}

ValueId Function::addArg(BlockId block, Type type) {
  const ValueId value{static_cast<uint32_t>(values_.size())};
  ValueData &data = values_.emplace_back();
  data.type = type;
  data.block = block;
  data.position = blocks_[block.index].args.size();
  blocks_[block.index].args.push_back(value);
  return value;
}

void Function::eraseArg(BlockId block, unsigned i) {
  auto &args = blocks_[block.index].args;
  check(unused(args[i]), "erasing an argument that has uses");
  args.erase(args.begin() + i);
  for (unsigned j = i; j < args.size(); ++j) {
    values_[args[j].index].position = j;
  }
}

std::vector<OpId> Function::opsIn(BlockId block) const {
  std::vector<OpId> out;
  for (OpId op = first(block); op.valid(); op = next(op)) {
    out.push_back(op);
  }
  return out;
}

std::vector<OpId> Function::walk(BlockId block) const {
  std::vector<OpId> out;
  std::vector<OpId> stack; // ops still to be visited, each followed by its successors
  if (first(block).valid()) {
    stack.push_back(first(block));
  }
  while (!stack.empty()) {
    const OpId op = stack.back();
    stack.pop_back();
    out.push_back(op);
    if (next(op).valid()) {
      stack.push_back(next(op));
    }
    const std::span<const BlockId> below = regions(op);
    for (size_t i = below.size(); i-- > 0;) {
      if (first(below[i]).valid()) {
        stack.push_back(first(below[i]));
      }
    }
  }
  return out;
}

bool Function::isInside(BlockId block, BlockId ancestor) const {
  while (block.valid() && block != ancestor) {
    const OpId parent = parentOp(block);
    block = parent.valid() ? this->block(parent) : BlockId{};
  }
  return block.valid();
}

bool Function::isDefinedOutside(ValueId value, BlockId block) const {
  return !isInside(defBlock(value), block);
}

void Function::spliceBefore(OpId position, BlockId from) {
  for (OpId op = first(from); op.valid();) {
    const OpId after = next(op);
    unlink(op);
    insertBefore(position, op);
    op = after;
  }
}

// ---- values

BlockId Function::defBlock(ValueId value) const {
  const ValueData &data = values_[value.index];
  return data.op.valid() ? block(data.op) : data.block;
}

std::optional<Opcode> Function::defOpcode(ValueId value) const {
  const OpId op = def(value);
  return op.valid() ? std::optional(opcode(op)) : std::nullopt;
}

std::optional<int64_t> Function::constantInt(ValueId value) const {
  const OpId op = def(value);
  if (!op.valid() || opcode(op) != Opcode::Constant) {
    return std::nullopt;
  }
  const AttrValue *number = findAttr(op, Attr::value);
  const int64_t *held = number != nullptr ? std::get_if<int64_t>(number) : nullptr;
  return held != nullptr ? std::optional(*held) : std::nullopt;
}

std::optional<double> Function::constantFloat(ValueId value) const {
  const OpId op = def(value);
  if (!op.valid() || opcode(op) != Opcode::Constant) {
    return std::nullopt;
  }
  const AttrValue *number = findAttr(op, Attr::value);
  const double *held = number != nullptr ? std::get_if<double>(number) : nullptr;
  return held != nullptr ? std::optional(*held) : std::nullopt;
}

bool Function::isZero(ValueId value) const {
  const std::optional<double> number = constantFloat(value);
  return constantInt(value) == 0 || (number == 0.0 && !std::signbit(*number));
}

// ---- interned side tables

LayoutId Function::internLayout(const Layout &layout) {
  const auto it = std::find(layouts_.begin(), layouts_.end(), layout);
  const LayoutId id{static_cast<uint32_t>(it - layouts_.begin())};
  if (it == layouts_.end()) {
    layouts_.push_back(layout);
  }
  return id;
}

LocationId Function::internLocation(const Location &location) {
  if (!location.known()) {
    return {};
  }
  // Files and callers are shared objects: the same one is the same address for as long as it is
  // held here. The hash decides only where to look.
  size_t hash = std::hash<const void *>()(location.file.get());
  for (size_t part : {size_t{location.line}, size_t{location.column}, size_t{location.endColumn},
                      std::hash<const void *>()(location.caller.get())}) {
    hash = (hash ^ part) * 0x9E3779B97F4A7C15ull;
    hash ^= hash >> 29;
  }
  const auto [begin, end] = locationIndex_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const Location &known = locations_[it->second];
    if (known.file == location.file && known.line == location.line &&
        known.column == location.column && known.endColumn == location.endColumn &&
        known.caller == location.caller) {
      return {it->second};
    }
  }
  const LocationId id{static_cast<uint32_t>(locations_.size())};
  locations_.push_back(location);
  locationIndex_.emplace(hash, id.index);
  return id;
}

const Location &Function::location(LocationId id) const {
  static const Location unknown;
  return id.valid() ? locations_[id.index] : unknown;
}

std::string Function::str() const { return print(*this); }

} // namespace libtile::ir
