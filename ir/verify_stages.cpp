// SPDX-License-Identifier: Apache-2.0
// Invariants 31 to 36: what holds of a function as a whole and in its stage (the list is in
// verifier.cpp).
#include "ir/ops.h"
#include "ir/verifier_impl.h"

namespace libtile::ir {

namespace {

std::string lanesFault(int32_t lanes, int32_t ofWarp) {
  if (lanes != 32 && lanes != 64) {
    return "the layout has neither 32 nor 64 lanes";
  }
  const bool fits = ofWarp == 0 || lanes == ofWarp;
  return fits ? "" : "the layout has " + std::to_string(lanes) + " lanes, a warp of the target " + std::to_string(ofWarp);
}

// Empty: there is none.
std::string layoutFault(const Function &fn, const Type &type, int32_t lanes) {
  if (!type.layout().valid()) {
    return "a tile without a layout";
  }
  const Layout &layout = fn.layout(type.layout());
  if (layout.rank() != type.rank() || !layout.covers(type.shape())) {
    return "the layout does not cover the tile";
  }
  if (std::string fault = lanesFault(layout.subtileSize(HwDim::Lane), lanes); !fault.empty()) {
    return fault;
  }
  if (layout.subtileSize(HwDim::Warp) != fn.numWarps) {
    return "the layout does not have the function's warps";
  }
  return layout.bases(HwDim::Offset).empty() ? "" : "a tile in a memory layout";
}

void verifyValue(Checker &c, OpId at, const Type &type) {
  const Function &fn = c.fn;
  switch (fn.stage) {
  case Stage::Tile:
    c.require(!type.layout().valid(), 32, at, "a layout in the tile stage");
    return;
  case Stage::LaidOut:
  case Stage::Staged:
    if (type.isTile() || type.isPlace()) {
      if (std::string fault = layoutFault(fn, type, c.lanes); !fault.empty()) {
        c.fail(33, at, std::move(fault));
      }
    } else if (type.isBuffer() && type.layout().valid()) {
      const Layout &layout = fn.layout(type.layout());
      c.require(layout.bases(HwDim::Reg).empty() && layout.bases(HwDim::Lane).empty() &&
                    layout.bases(HwDim::Warp).empty() && layout.rank() <= type.rank() &&
                    layout.covers(type.shape().subspan(type.rank() - layout.rank())),
                34, at, "the buffer's layout does not map offsets onto its shape");
    }
    return;
  case Stage::Nested:
    c.require(!type.isTile() && !type.isPlace(), 36, at, "a tile in the nested stage");
    c.require(!type.layout().valid(), 36, at, "a layout in the nested stage");
    return;
  }
}

void verifyAlloc(Checker &c, OpId op) {
  const Function &fn = c.fn;
  if ((fn.stage != Stage::Staged && fn.stage != Stage::Nested) || fn.arenaBytes == 0) {
    return;
  }
  if (!c.require(fn.hasAttr(op, Attr::offset), 35, op,
                 "alloc without an offset after allocation")) {
    return;
  }
  const Type type = c.resultType(op);
  const int64_t bytes = type.numElements() * type.elementBytes();
  const int64_t offset = fn.getInt(op, Attr::offset);
  const int64_t align =
      fn.hasAttr(op, Attr::align) ? fn.getInt(op, Attr::align) : type.elementBytes();
  c.require(align > 0 && offset % align == 0 && bytes <= fn.arenaBytes &&
                offset <= fn.arenaBytes - bytes,
            35, op, "the buffer is not aligned inside the arena");
}

// What an access lies within.
void verifyArrays(Checker &c, OpId op) {
  const Function &fn = c.fn;
  const std::span<const ValueId> args = fn.args(fn.body());
  const std::span<const int64_t> arrays = fn.getInts(op, Attr::within);
  c.require(!arrays.empty(), 31, op, "an access within no array");
  for (const int64_t array : arrays) {
    c.require(array >= 0 && array < static_cast<int64_t>(args.size()) && fn.type(args[array]).isPointer(),
              31, op, "an access within what is no pointer parameter");
  }
}

} // namespace

void verifyStage(Checker &checker, OpId op) {
  const Function &fn = checker.fn;
  for (ValueId value : fn.results(op)) {
    verifyValue(checker, op, fn.type(value));
  }
  for (BlockId region : fn.regions(op)) {
    for (ValueId value : fn.args(region)) {
      verifyValue(checker, op, fn.type(value));
    }
  }
  if (fn.opcode(op) == Opcode::Alloc) {
    verifyAlloc(checker, op);
  }
  if (fn.hasAttr(op, Attr::within)) {
    verifyArrays(checker, op);
  }
}

namespace {

void verifyMap(Checker &c, const TensorMap &map) {
  const std::span<const ValueId> args = c.fn.args(c.fn.body());
  const auto typeOf = [&](int64_t param) {
    return param >= 0 && param < static_cast<int64_t>(args.size()) ? c.fn.type(args[static_cast<size_t>(param)])
                                                                   : Type();
  };
  const auto isNumber = [&](const LaunchNumber &number) {
    return number.factor >= 1 && (number.param < 0 || typeOf(number.param).isInteger());
  };
  bool ok = typeOf(map.param).isPointer() && map.elem != Elem::Void && map.elem != Elem::I1 &&
            !map.dims.empty() && map.dims.size() <= TensorMap::kMostDims;
  for (const TensorMap::Dim &dim : map.dims) {
    const bool isLast = &dim == &map.dims.back();
    ok = ok && isNumber(dim.extent) && isNumber(dim.stride) && dim.box >= 1 && dim.box <= TensorMap::kWidestBox &&
         (!isLast || dim.stride == LaunchNumber{static_cast<int64_t>(byteSize(map.elem)), -1});
  }
  const int64_t row = ok ? map.rowBytes() : 0;
  c.require(ok && (map.isRow() ? row % 16 == 0 : row == 32 || row == 64 || row == 128), 40, {}, "a map that no array has");
}

} // namespace

void verifyFunction(Checker &c) {
  const Function &fn = c.fn;
  const std::span<const ValueId> args = fn.args(fn.body());
  c.require(args.size() == fn.params.size(), 31, {},
            "params and arguments of the body differ in number");
  for (ValueId value : args) {
    c.require(fn.type(value).isScalar(), 31, {}, "a parameter that is no scalar");
  }
  for (const Param &param : fn.params) {
    c.require(param.divisible >= 1, 31, {}, "a parameter divisible by less than 1");
  }
  for (const Guard &guard : fn.guards) {
    const auto typeOf = [&](uint64_t param) {
      return param < args.size() ? fn.type(args[param]) : Type();
    };
    const Type type = typeOf(guard.param);
    bool ok = false;
    switch (guard.kind) {
    case Guard::Kind::Divisible:
      ok = (type.isPointer() || type.isInteger()) && guard.value >= 1;
      break;
    case Guard::Kind::Below:
    case Guard::Kind::Above:
      ok = type.isInteger();
      break;
    case Guard::Kind::Disjoint:
      ok = type.isPointer() && typeOf(guard.value).isPointer();
      break;
    case Guard::Kind::Positive:
      ok = type == Type::scalar(Elem::F32) && guard.value == 0;
      break;
    case Guard::Kind::Within:
      ok = type.isInteger() && guard.value >= 1;
      break;
    }
    c.require(ok, 31, {}, "a guard on a parameter that it does not fit");
  }
  for (const TensorMap &map : fn.maps) {
    verifyMap(c, map);
  }
  const int32_t warps = fn.numWarps;
  c.require(warps >= 1 && warps <= 64 && (warps & (warps - 1)) == 0, 31, {},
            "the number of warps is a power of two up to 64");
  c.require(fn.arenaBytes >= 0 && fn.numStages >= 0 && fn.resident >= 0, 31, {}, "a negative size");
}

} // namespace libtile::ir
