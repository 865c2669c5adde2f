// SPDX-License-Identifier: Apache-2.0
// clang-format off
// The verifier. Its invariants, by number:
//
// Structure (this file)
//   1  The body ends in `return`, every region in `yield`; neither stands anywhere else.
//   2  Links agree: an op knows its block and neighbours, a region its op, a value its definition;
//      the uses of a value are exactly the operands that name it.
//   3  The number of operands fits the row of ops.def.
//   4  The number of regions is the row's.
//   5  Attributes: all that the row requires, none that it does not name, each of its kind.
//   6  The number of results fits the type rule.
//   7  A value is defined before it is used, in the same block or in one around it.
//   8  The op is legal in the function's stage.
//   9  Types are well formed: extents >= 1, at most kMaxElements, no element of type void but
//      behind a pointer, layouts that the function has; no value without a type.
// Type rules (verify_types.cpp)
//  10  Operands and result follow the row's rule: Same, SameInt, SameFloat, Compare, Select,
//      PtrAdd; the predicate of a comparison fits its operands.
//  11  Load rule: pointee of the first operand; mask and other values have its shape and layout.
//  12  Casts keep shape and layout and go between the right sorts and widths.
// Ops (verify_ops.cpp)
//  13  constant: a number of the result's sort, in its canonical form; a pointer only 0.
//  14  program_id, num_programs: axis 0 to 2, an i32; worker, num_workers: an i32.
//  15  arange: a 1-D i32 tile whose numbers fit i32.
//  16  splat and broadcast: from a scalar; from extents that are 1 or the result's.
//  17  expand_dims, reshape, trans, slice: the result's shape follows from operand and attribute.
//      resize: one element, rank and layout.
//  18  hint: one positive entry an axis (one for a scalar). assume, assert: a scalar i1. print: values
//      of 32 and 64 bits, a format for each that fits; buffers in the nested stage, no others.
//  19  Atomics: an element type that the kind is defined on; deferred: a row of integers is added to, and the
//      result unused; a load or store with an order has a scope, is
//      volatile, and the order is one of reading or writing. A clock is an i64.
//  20  dot: MxK, KxN, MxN (equal leading axes); one operand type; integers into integers, floats
//      or the codes of 8-bit floats into floats; acc a tile, or from LaidOut on a place. sort, compare_exchange: integers of at least 8 bits, with that axis.
// Control (verify_control.cpp)
//  21  reduce: inputs of one shape, each result an input without the axis, combine takes lefts and
//      rights as scalars and yields one of each. scan: the same, each result of its input's type.
//      map, assembly: tiles of one shape, or scalars; body takes and yields their elements and has no
//      effects.
//  22  for: scalar integer bounds of one type; body takes the index and what is carried, yields it
//      (with `stop` after an i1); results are what is carried.
//  23  while: cond yields an i1; body as in `for` without the index.
//  24  if: a scalar i1; neither region has arguments; both yield the results.
// Buffers and nests (verify_ops.cpp; nest and fold: verify_control.cpp)
//  25  alloc: a buffer; offset >= 0; align a power of two. buffer_slot: the buffer without its
//      leading axis, chosen by an i32. recall: an i1 of an i32 slot and of integers and addresses; slots >= 1.
//      call_sums: a buffer with one axis of i32 or i64, of a parameter that points to such; start, offset >= 0.
//  26  buffer_read, buffer_write: a tile of the buffer's shape and element; with more axes than one its
//      padding lies within the buffer's.
//      buffer_gather, buffer_count: a buffer with one axis; as gather, slice and histogram.
//  27  async_copy: pointers to the buffer's element in its shape. async_wait: count >= 0.
//  40  map: of a pointer parameter, up to 5 dimensions of positive numbers and boxes, rows of 32, 64 or 128
//      bytes; a row by itself: a multiple of 16. arrivals_init, arrivals_wait, arrive, arrivals_end: counters of
//      i64. copy_box: the element of one of the function's maps, an i32 a dimension; its buffer has a multiple of
//      128 bytes. store_box: the same, f32 where it adds; no copy_box of that array. store_wait: a buffer.
//  41  producer: count >= 1, two numbers of registers, 24, 32, ..., 256; at most one, in the kernel's body; in front of it only scalar code, allocs, arrivals_init, grid_wait
//      and launch_dependents; its body is scalar code, loads of scalars, for, buffer_slot, copy_box, arrivals_wait and grid_wait, and yields nothing.
//  28  nest: extents and lanes >= 1, one i32 argument an extent, nothing yielded. fold: extent, lanes
//      and sets >= 1, element takes an i32, combine pairs of what it yields; results are those. The
//      ends of both are i32, one of a fold, of a nest at most one an extent. prefix: as fold; write takes an i32 and the tuple.
//  29  element_read, element_write: one i32 index an axis, the buffer's element.
//  30  contract: rank-2 buffers MxK, KxN (or i32 words of 8 or 16 bits, fewer rows), MxN, an i32 k,
//      no rows or M addresses as i64 and an i32, no ends or two i32, positive blocks. sort_rows: rows of integers, a power of two.
//      least_of_rows: rows of integers, of the other buffer a power of two that divides those.
// Across elements (verify_ops.cpp)
//  37  gather: shapes equal outside of the axis, i32 indices in the result's shape. histogram: i32
//      indices and a mask of one shape; a 1-D tile of i32.
// Places (verify_places.cpp)
//  38  A place has one use, by a dot that accumulates in it, by a for that carries it or the yield of
//      that, which yields the same one, or by place_read. place_write, place_read: a tile of the
//      place's shape, element and layout. dot_wait: count >= 0.
//  39  On every path a dot_wait stands between the last dot into a place and its place_read, with a
//      count of at most the dots that have started since.
// Stages (verify_stages.cpp)
//  31  One Param an argument of the body, all scalars; guards name parameters of the right sort,
//      `within` pointers; numWarps a power of two up to 64; arenaBytes and resident >= 0.
//  32  Tile: no type has a layout.
//  33  LaidOut and Staged: every tile and place has a layout that covers its shape; its lanes are those
//      of the target's warps, 32 or 64, and its warps are numWarps.
//  34  LaidOut and Staged: a buffer's layout, if any, maps offsets only and covers its shape.
//  35  Staged and Nested: every alloc has an offset, aligned and inside the arena, after
//      allocation (arenaBytes > 0).
//  36  Nested: no tile types, no layouts.
//
// All violations are collected in one walk; cost is linear in the function.
// clang-format on
#include "ir/ops.h"
#include "ir/verifier_impl.h"

#include "ir/arity.h"
#include "ir/printer.h"

#include <llvm/ADT/DenseSet.h>

namespace libtile::ir {

std::vector<Type> Checker::types(std::span<const ValueId> values) const {
  std::vector<Type> out;
  for (ValueId value : values) {
    out.push_back(fn.type(value));
  }
  return out;
}

std::vector<Type> Checker::yieldedTypes(OpId op, unsigned region) const {
  const OpId last = fn.last(fn.region(op, region));
  return last.valid() ? types(fn.operands(last)) : std::vector<Type>();
}

std::vector<Type> Checker::argTypes(OpId op, unsigned region) const {
  return types(fn.args(fn.region(op, region)));
}

namespace {

class Structure {
public:
  explicit Structure(Checker &checker) : checker_(checker), fn_(checker.fn) {}

  void run() {
    block(fn_.body(), Opcode::Return);
    uses();
  }

private:
  void block(BlockId block, Opcode terminator) {
    const std::span<const ValueId> args = fn_.args(block);
    for (unsigned i = 0; i < args.size(); ++i) {
      checker_.require(fn_.isArg(args[i]) && fn_.defBlock(args[i]) == block &&
                           fn_.defIndex(args[i]) == i,
                       2, fn_.parentOp(block), "an argument does not know its place");
      define(args[i], fn_.parentOp(block));
    }
    if (!fn_.last(block).valid() || fn_.opcode(fn_.last(block)) != terminator) {
      checker_.fail(1, fn_.parentOp(block),
                    std::string("a block does not end in ") + info(terminator).mnemonic);
    }
    llvm::SmallVector<ValueId, 16> defined(args.begin(), args.end());
    OpId before;
    for (OpId op = fn_.first(block); op.valid(); op = fn_.next(op)) {
      checker_.require(fn_.block(op) == block && fn_.prev(op) == before && !fn_.isErased(op), 2, op,
                       "an op does not know its place");
      this->op(op);
      defined.append(fn_.results(op).begin(), fn_.results(op).end());
      before = op;
    }
    checker_.require(fn_.last(block) == before, 2, fn_.parentOp(block),
                     "a block's last op is wrong");
    for (ValueId value : defined) {
      visible_.set(value, false);
    }
  }

  void op(OpId op) {
    const OpInfo &row = fn_.opInfo(op);
    const bool last = !fn_.next(op).valid();
    checker_.require(!row.isTerminator() || last, 1, op,
                     "a terminator before the end of its block");
    for (ValueId value : fn_.operands(op)) {
      operandUses_ += 1;
      checker_.require(visible_[value], 7, op, "an operand is not defined before its use");
    }
    checker_.require(row.legalIn(fn_.stage), 8, op, "illegal in this stage");
    const bool shaped =
        operandCount(op, row) & regionCount(op, row) & attributes(op, row) & resultCount(op, row);
    for (BlockId region : fn_.regions(op)) {
      checker_.require(fn_.parentOp(region) == op, 2, op, "a region does not know its op");
      block(region, Opcode::Yield);
    }
    const std::span<const ValueId> results = fn_.results(op);
    bool typed = true;
    for (unsigned i = 0; i < results.size(); ++i) {
      checker_.require(fn_.def(results[i]) == op && fn_.defIndex(results[i]) == i, 2, op,
                       "a result does not know its place");
      typed = define(results[i], op) && typed;
    }
    if (shaped && typed) {
      verifyTypeRule(checker_, op);
      verifyOp(checker_, op);
      verifyControl(checker_, op);
      verifyStage(checker_, op);
    }
  }

  // Makes the value visible and checks its type.
  bool define(ValueId value, OpId at) {
    visible_.set(value, true);
    const Type &type = fn_.type(value);
    bool ok = !type.isNone();
    int64_t elements = 1;
    for (int32_t extent : type.shape()) {
      ok = ok && extent >= 1;
      elements *= std::max(extent, 1);
      ok = ok && (!type.isTile() || elements <= Type::kMaxElements) &&
           elements <= (int64_t{1} << 40);
    }
    ok = ok && (type.isToken() || type.isPointer() || type.elem() != Elem::Void);
    ok = ok && (!type.layout().valid() || type.layout().index < fn_.layouts().size());
    if (!ok) {
      checker_.fail(9, at, "a malformed type: " + type.str());
    }
    return ok;
  }

  bool operandCount(OpId op, const OpInfo &row) {
    return checker_.require(operandCountFits(row, fn_.numOperands(op)), 3, op,
                            "a wrong number of operands");
  }

  bool regionCount(OpId op, const OpInfo &row) {
    return checker_.require(fn_.regions(op).size() == row.regions.size(), 4, op,
                            "a wrong number of regions");
  }

  static bool kindFits(Attr attr, const AttrValue &value) {
    const AttrKind kind = attrKind(attr);
    if (kind == AttrKind::Scalar) {
      return std::holds_alternative<int64_t>(value) || std::holds_alternative<double>(value);
    }
    if (kind == AttrKind::Text) {
      return std::holds_alternative<std::string>(value);
    }
    if (kind == AttrKind::Ints) {
      return std::holds_alternative<std::vector<int64_t>>(value);
    }
    const auto *number = std::get_if<int64_t>(&value);
    if (number == nullptr || kind == AttrKind::Int) {
      return number != nullptr;
    }
    return kind == AttrKind::Bool ? *number == 0 || *number == 1
                                  : !enumeratorName(kind, *number).empty();
  }

  bool attributes(OpId op, const OpInfo &row) {
    bool ok = true;
    unsigned named = 0;
    for (const AttrSpec &spec : row.attributes) {
      const AttrValue *value = fn_.findAttr(op, spec.attr);
      named += value != nullptr;
      const bool fits = value == nullptr ? spec.optional : kindFits(spec.attr, *value);
      if (!fits) {
        checker_.fail(
            5, op,
            std::string(value == nullptr ? "missing attribute " : "wrong kind of attribute ") +
                attrName(spec.attr));
      }
      ok = ok && fits;
    }
    return checker_.require(named == fn_.attrs(op).size(), 5, op,
                            "an attribute that the op does not have") &&
           ok;
  }

  bool resultCount(OpId op, const OpInfo &row) {
    return checker_.require(resultCountFits(row, fn_.results(op).size()), 6, op,
                            "a wrong number of results");
  }

  // Each recorded use is an operand of an op in the function, none is recorded twice, and there are
  // as many as operands: so the two sets are equal.
  void uses() {
    size_t recorded = 0;
    llvm::DenseSet<uint64_t> seen;
    for (uint32_t index = 0; index < fn_.numValues(); ++index) {
      for (const Use &use : fn_.uses({index})) {
        const bool exists = use.op.index < fn_.numOps() && !fn_.isErased(use.op) &&
                            fn_.block(use.op).valid() && use.operand < fn_.numOperands(use.op) &&
                            fn_.operand(use.op, use.operand) == ValueId{index};
        checker_.require(exists, 2, exists ? use.op : OpId{}, "a recorded use that is no operand");
        const bool fresh = seen.insert((uint64_t{use.op.index} << 32) | use.operand).second;
        checker_.require(fresh, 2, exists ? use.op : OpId{}, "a use recorded twice");
        ++recorded;
      }
    }
    checker_.require(recorded == operandUses_, 2, {},
                     "operands and recorded uses differ in number");
  }

  Checker &checker_;
  const Function &fn_;
  IndexMap<ValueId, bool> visible_{false};
  size_t operandUses_ = 0;
};

} // namespace

std::vector<Violation> verify(const Function &fn, int32_t lanes) {
  Checker checker{fn, lanes, {}};
  verifyFunction(checker);
  Structure(checker).run();
  verifyPlaces(checker);
  return std::move(checker.found);
}

std::string describe(const Function &fn, const Violation &violation, Names &names) {
  std::string out = "[" + std::to_string(violation.invariant) + "] " + violation.message;
  const OpId op = violation.op;
  if (!op.valid()) {
    return out;
  }
  const auto typesOf = [&](std::span<const ValueId> values) {
    std::string text;
    for (ValueId value : values) {
      const LayoutId layout = fn.type(value).layout();
      if (layout.index < fn.layouts().size()) {
        names.give(layout, formOf(fn.layout(layout)));
      }
      text += (text.empty() ? "" : ", ") + names.type(fn.type(value));
    }
    return "(" + text + ")";
  };
  const std::span<const ValueId> results = fn.results(op);
  out += ": " + (results.empty() ? "" : "%" + names.give(results[0]) + " = ") +
         fn.opInfo(op).mnemonic + " " + typesOf(fn.operands(op));
  out += results.empty() ? "" : " -> " + typesOf(results);
  const Location &location = fn.locationOf(op);
  return location.known() ? out + ", from " + location.str() : out;
}

void verifyOrThrow(const Function &fn, const std::string &after, int32_t lanes) {
  const std::vector<Violation> found = verify(fn, lanes);
  if (found.empty()) {
    return;
  }
  Names names;
  PrintOptions options;
  options.names = &names;
  (void)print(fn, options); // gives the names in the order of the text
  IndexMap<OpId, std::string> notes;
  std::string message = "invalid function after " + after + ":";
  for (const Violation &violation : found) {
    message += "\n  " + describe(fn, violation, names);
    if (violation.op.valid()) {
      std::string &note = notes.at(violation.op);
      note += (note.empty() ? "^ [" : "; [") + std::to_string(violation.invariant) + "] " +
              violation.message;
    }
  }
  options.note = [&](OpId op) { return notes[op]; };
  const Location location = found[0].op.valid() ? fn.locationOf(found[0].op) : Location();
  throw InternalError(message + "\n" + print(fn, options), location);
}

} // namespace libtile::ir
