// SPDX-License-Identifier: Apache-2.0
// Loads, stores and atomics. Each element is looked at before memory is touched; elements go in ascending order.
#include "runtime/interpreter/evaluator.h"

#include "runtime/interpreter/allocations.h"

#include <cstring>

namespace libtile::runtime::interpreter {

using ir::AtomicKind;
using ir::Attr;
using ir::Effects;
using ir::Elem;
using ir::MemOrder;
using ir::OpId;
using ir::Type;
using Kind = Finding::Kind;

namespace {

bool acquires(const ir::Function &fn, OpId op) {
  const auto order = fn.getEnum<MemOrder>(op, Attr::sem);
  return !fn.hasAttr(op, Attr::sem) || order == MemOrder::acquire || order == MemOrder::acq_rel;
}
bool releases(const ir::Function &fn, OpId op) {
  const auto order = fn.getEnum<MemOrder>(op, Attr::sem);
  return !fn.hasAttr(op, Attr::sem) || order == MemOrder::release || order == MemOrder::acq_rel;
}

bool contains(const Extent &extent, uint64_t address, uint64_t bytes) {
  return address >= extent.begin && address <= extent.end && extent.end - address >= bytes;
}

uint64_t combined(AtomicKind kind, const Type &type, uint64_t old, uint64_t value) {
  const unsigned width = type.elementBits();
  const int64_t a = signedOf(width, old), b = signedOf(width, value);
  const uint64_t ua = lowBits(width, old), ub = lowBits(width, value);
  switch (kind) {
  case AtomicKind::add: return wrapped(width, old + value);
  case AtomicKind::fadd:
    return type.elem() == Elem::F32
               ? bitsOf(Elem::F32, static_cast<float>(numberOf(Elem::F32, old)) + static_cast<float>(numberOf(Elem::F32, value)))
               : bitsOf(type.elem(), numberOf(type.elem(), old) + numberOf(type.elem(), value));
  case AtomicKind::smax: return a > b ? old : value;
  case AtomicKind::umax: return ua > ub ? old : value;
  case AtomicKind::smin: return a < b ? old : value;
  case AtomicKind::umin: return ua < ub ? old : value;
  case AtomicKind::and_: return old & value;
  case AtomicKind::or_: return old | value;
  case AtomicKind::xor_: return old ^ value;
  case AtomicKind::xchg: return value;
  }
  return value;
}

} // namespace

// Without a mask, or where the op has fewer operands, all elements are on.
Evaluator::Access Evaluator::begin(OpId op, unsigned maskOperand) {
  races_.beginAccess(op);
  const Effects effects = fn_.opInfo(op).effects;
  Access access{op, operand(op, 0), fn_.numOperands(op) > maskOperand ? &operand(op, maskOperand) : nullptr,
                fn_.type(fn_.operand(op, 0)).element().pointee(),
                effects.has(Effects::Ordered) || fn_.getBool(op, Attr::is_volatile)};
  if (access.isAtomic && effects.has(Effects::ReadsGlobal) && acquires(fn_, op)) {
    races_.acquire(orderKey(access));
  }
  return access;
}

void Evaluator::finish(const Access &access) {
  const bool writes = fn_.opInfo(access.op).effects.has(Effects::WritesGlobal);
  if (access.isAtomic && writes && releases(fn_, access.op)) {
    races_.release(orderKey(access));
  }
}

uint64_t Evaluator::orderKey(const Access &access) {
  return access.pointers.size() == 1 ? access.pointers[0] : access.pointers.origin(0);
}

bool Evaluator::isOn(const Access &access, size_t i) const {
  if (access.mask == nullptr) {
    return true;
  }
  requireDefined(access.op, "a mask depends on", *access.mask, i);
  return (*access.mask)[i] != 0;
}

Finding Evaluator::findingAt(Kind kind, const Access &access, size_t element) const {
  Finding made = finding(kind, access.op, element);
  made.address = access.pointers[element];
  made.bytes = access.element.elementBytes();
  made.effects = fn_.opInfo(access.op).effects;
  if (const Origin origin = access.pointers.origin(element); origin != 0) {
    made.arrays = {origin - 1};
  }
  return made;
}

void Evaluator::checkPlace(const Access &access, size_t i) const {
  const uint64_t address = access.pointers[i];
  const uint32_t bytes = access.element.elementBytes();
  const Origin origin = access.pointers.origin(i);
  requireDefined(access.op, "an address depends on", access.pointers, i);
  if (const Mark mark = access.pointers.mark(i); mark != 0) {
    Finding overflow = findingAt(Kind::Overflow, access, i);
    overflow.cause = fn_.locationOf(OpId{mark - 1});
    throw overflow;
  }
  if (origin != 0 && launch_.extents != nullptr) {
    const Extent &own = launch_.extents[origin - 1];
    if (own.end != 0 && !contains(own, address, bytes)) {
      throw findingAt(Kind::OutOfBounds, access, i);
    }
  }
  if (address % bytes != 0) {
    throw findingAt(Kind::Misaligned, access, i);
  }
  const bool reads = fn_.opInfo(access.op).effects.has(Effects::ReadsGlobal);
  if (reads && !isWritten(address, bytes)) {
    throw findingAt(Kind::Unwritten, access, i);
  }
}

void Evaluator::checkRaces(const Access &access, size_t i) {
  const bool writes = fn_.opInfo(access.op).effects.has(Effects::WritesGlobal);
  const auto how = access.isAtomic ? Races::How::IsAtomic : writes ? Races::How::Writes : Races::How::Reads;
  const Races::Event *other = races_.touch(access.pointers[i], access.element.elementBytes(), how);
  if (other == nullptr) {
    return;
  }
  Finding race = findingAt(Kind::Race, access, i);
  race.cause = fn_.locationOf(other->op);
  race.otherEffects = fn_.opInfo(other->op).effects;
  const auto x = static_cast<uint32_t>(launch_.grid[0]), y = static_cast<uint32_t>(launch_.grid[1]);
  race.otherProgram[0] = static_cast<int32_t>(other->program % x);
  race.otherProgram[1] = static_cast<int32_t>(other->program / x % y);
  race.otherProgram[2] = static_cast<int32_t>(other->program / x / y);
  throw race;
}

uint8_t *Evaluator::reach(const Access &access, size_t i) {
  checkPlace(access, i);
  if (work_ != nullptr) {
    countAccess(access, i);
  } else {
    checkRaces(access, i);
  }
  if (fn_.opInfo(access.op).effects.has(Effects::WritesGlobal)) {
    noteWritten(access.pointers[i], access.element.elementBytes());
  }
  return reinterpret_cast<uint8_t *>(access.pointers[i]);
}

// A masked-off element without `other` is 0 here, and undefined in Triton.
void Evaluator::runLoad(OpId op) {
  const Access access = begin(op, 1);
  const Value *other = fn_.numOperands(op) > 2 ? &operand(op, 2) : nullptr;
  Value made{std::vector<uint64_t>(count(op))};
  for (size_t i = 0; i < made.size(); ++i) {
    if (isOn(access, i)) {
      made.bits[i] = readElement(access.element, reach(access, i));
    } else if (other != nullptr) {
      made.bits[i] = (*other)[i];
      made.setMark(i, other->mark(i));
    } else if (launch_.portable) {
      made.setMark(i, op.index + 1);
    }
  }
  finish(access);
  define(op, std::move(made));
}

// Where two elements of one store go to the same bytes, they must agree.
void Evaluator::storeElement(const Access &access, const Value &value, size_t i) {
  requireDefined(access.op, "a store writes", value, i);
  checkPlace(access, i);
  const uint64_t address = access.pointers[i];
  const uint32_t bytes = access.element.elementBytes();
  auto *to = reinterpret_cast<uint8_t *>(address);
  if (!access.isAtomic && work_ == nullptr && races_.storedBefore(address, bytes) && std::memcmp(to, &value.bits[value.at(i)], bytes) != 0) {
    Finding conflict = findingAt(Kind::Conflict, access, i);
    for (size_t before = 0; before < i; ++before) {
      const uint64_t there = access.pointers[before];
      if (there < address + bytes && address < there + bytes && isOn(access, before)) {
        conflict.otherElement = finding(Kind::Conflict, access.op, before).element;
      }
    }
    throw conflict;
  }
  writeElement(access.element, value[i], reach(access, i));
}

void Evaluator::runStore(OpId op) {
  const Access access = begin(op, 2);
  const Value &value = operand(op, 1);
  const size_t elements = count(op);
  attend(elements);
  for (size_t i = 0; i < elements; ++i) {
    if (isOn(access, i)) {
      storeElement(access, value, i);
    }
  }
  finish(access);
}

void Evaluator::runAtomicRmw(OpId op) {
  const Access access = begin(op, 2);
  const Value &value = operand(op, 1);
  const auto kind = fn_.getEnum<AtomicKind>(op, Attr::kind);
  Value made{std::vector<uint64_t>(static_cast<size_t>(fn_.type(fn_.result(op)).numElements()))};
  for (size_t i = 0; i < made.size(); ++i) {
    if (isOn(access, i)) {
      requireDefined(op, "an atomic writes", value, i);
      uint8_t *to = reach(access, i);
      made.bits[i] = readElement(access.element, to);
      writeElement(access.element, combined(kind, access.element, made.bits[i], value[i]), to);
    }
  }
  finish(access);
  define(op, std::move(made));
}

void Evaluator::runAtomicCas(OpId op) {
  const Access access = begin(op, 3);
  const Value &compare = operand(op, 1), &value = operand(op, 2);
  Value made{std::vector<uint64_t>(static_cast<size_t>(fn_.type(fn_.result(op)).numElements()))};
  for (size_t i = 0; i < made.size(); ++i) {
    if (isOn(access, i)) {
      requireDefined(op, "an atomic compares with", compare, i);
      requireDefined(op, "an atomic writes", value, i);
      uint8_t *to = reach(access, i);
      made.bits[i] = readElement(access.element, to);
      if (made.bits[i] == compare[i]) {
        writeElement(access.element, value[i], to);
      }
    }
  }
  finish(access);
  define(op, std::move(made));
}

} // namespace libtile::runtime::interpreter
