// SPDX-License-Identifier: Apache-2.0
#include "runtime/interpreter/evaluator.h"

#include <algorithm>
#include <optional>

namespace libtile::runtime::interpreter {

using ir::Effects;
using ir::Opcode;
using ir::OpId;
using ir::Type;

namespace {

struct Counting {
  Work work;
  uint64_t mostPrograms;
};

std::optional<Counting> &counting() {
  static thread_local std::optional<Counting> own;
  return own;
}

} // namespace

void beginCounting(uint64_t mostPrograms) { counting().emplace(Work{}, mostPrograms); }

bool isCounting() { return counting().has_value(); }

Work endCounting() {
  Work work = counting() ? std::move(counting()->work) : Work{};
  counting().reset();
  return work;
}

// A program of a kernel with atomics may wait for what another one does.
void Evaluator::prepareCounting() {
  if (!counting()) {
    return;
  }
  work_ = &counting()->work;
  work_->arrays.resize(fn_.params.size() + 1);
  for (size_t i = 0; launch_.extents != nullptr && i < fn_.params.size(); ++i) {
    const Extent &extent = launch_.extents[i];
    work_->arrays[i + 1].extent = extent.end == 0 ? 0 : extent.end - extent.begin;
  }
  bool mayWait = false;
  for (const OpId op : fn_.walk()) {
    const Effects effects = fn_.opInfo(op).effects;
    mayWait |= effects.has(Effects::Ordered) && effects.has(Effects::WritesGlobal);
  }
  const uint64_t programs = static_cast<uint64_t>(launch_.grid[0]) * static_cast<uint64_t>(launch_.grid[1]) *
                            static_cast<uint64_t>(launch_.grid[2]);
  const uint64_t most = counting()->mostPrograms;
  stride_ = mayWait || most == 0 ? 1 : (programs + most - 1) / most;
}

void Evaluator::countAccess(const Access &access, size_t i) {
  Work::Bytes &bytes = work_->arrays[access.pointers.origin(i)];
  const Effects effects = fn_.opInfo(access.op).effects;
  bytes.loaded += effects.has(Effects::ReadsGlobal) ? access.element.elementBytes() : 0;
  bytes.stored += effects.has(Effects::WritesGlobal) ? access.element.elementBytes() : 0;
}

// Of a region that runs once for many elements the types are scalars.
void Evaluator::countArithmetic(OpId op, size_t elements) const {
  const Type type = fn_.type(fn_.result(op));
  if (type.isFloating()) {
    const uint64_t all = std::max<uint64_t>(elements, static_cast<uint64_t>(type.numElements()));
    work_->operations[ir::elemName(type.elem())] += all * (fn_.opcode(op) == Opcode::Fma ? 2 : 1);
  }
}

void Evaluator::countDot(OpId op) const {
  using ir::Precision;
  const Type a = fn_.type(fn_.operand(op, 0)), type = fn_.type(fn_.result(op));
  const bool isRounded = fn_.hasAttr(op, ir::Attr::precision) &&
                         fn_.getEnum<Precision>(op, ir::Attr::precision) == Precision::tf32 && a.elem() == ir::Elem::F32;
  const auto products = static_cast<uint64_t>(type.numElements()) * static_cast<uint64_t>(a.dim(a.rank() - 1));
  work_->operations[isRounded ? "tf32" : ir::elemName(a.elem())] += 2 * products;
}

} // namespace libtile::runtime::interpreter
