// SPDX-License-Identifier: Apache-2.0
// Functions with overloads by element type, as those of libdevice have: "fp32 int32 -> fp32; ...".
//
// An overload is taken that has the arguments' types; else one that has them in the type in which all
// meet. Of integers the width alone counts where no overload has the sign; int1 and integers below 32
// bits count as 32 bits wide; narrower floats go through fp32 and are rounded once (Triton refuses them).
#include "frontend/semantics/operations.h"

#include <algorithm>
#include <functional>

namespace libtile::frontend {

namespace {

struct Overload {
  std::vector<DType> operands;
  DType result;
};

std::vector<Overload> readOverloads(std::string_view text) {
  std::vector<Overload> overloads(1);
  bool isResult = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool isLast = word.ends_with(';');
    word.remove_suffix(isLast ? 1 : 0);
    if (word == "->") {
      isResult = true;
      continue;
    }
    const std::optional<DType> dtype = DType::byName(word);
    ir::check(dtype.has_value(), "overloads name element types");
    if (isResult) {
      overloads.back().result = *dtype;
    } else {
      overloads.back().operands.push_back(*dtype);
    }
    if (isLast) {
      overloads.emplace_back();
      isResult = false;
    }
  }
  return overloads;
}

bool isNarrow(const DType &dtype) { return dtype.isFloat() && ir::bitWidth(dtype.elem) < 32; }

// The type that an overload can have for it.
DType widened(const DType &dtype) {
  if (isNarrow(dtype)) {
    return {ir::Elem::F32, true};
  }
  const bool isSmall = dtype.isInt() && ir::bitWidth(dtype.elem) < 32;
  return isSmall ? DType{ir::Elem::I32, dtype.isSigned && !dtype.isBool()} : dtype;
}

const Overload *fitting(std::span<const Overload> overloads, std::span<const DType> types) {
  for (const bool anySign : {false, true}) {
    for (const Overload &overload : overloads) {
      const auto same = [&](const DType &a, const DType &b) {
        return a == b || (anySign && a.isInt() && b.isInt() && a.elem == b.elem);
      };
      if (std::ranges::equal(overload.operands, types, same)) {
        return &overload;
      }
    }
  }
  return nullptr;
}

std::string typesText(std::span<const DType> types) {
  std::string text;
  for (const DType &dtype : types) {
    text += (text.empty() ? "" : ", ") + dtype.name();
  }
  return "(" + text + ")";
}

[[noreturn]] void noOverload(const Semantics &s, const Operation &operation,
                             std::span<const Overload> overloads, std::span<const DType> types) {
  std::string taken;
  for (const Overload &overload : overloads) {
    taken += (taken.empty() ? "" : " or ") + typesText(overload.operands);
  }
  s.fail(std::string(operation.name) + " takes " + taken + ", got " + typesText(types));
}

} // namespace

Value callOverload(Semantics &s, const Operation &operation, const Value &function,
                   std::span<const Value> arguments) {
  std::vector<Tensor> tensors;
  std::vector<DType> types, wide;
  for (const Value &argument : arguments) {
    tensors.push_back(s.toTensor(argument));
    types.push_back(tensors.back().dtype);
    wide.push_back(widened(types.back()));
  }
  const std::vector<Overload> overloads = readOverloads(operation.overloads);
  const Overload *chosen = fitting(overloads, wide);
  if (chosen == nullptr && std::ranges::none_of(types, &DType::isPointer)) {
    DType common = wide.front();
    for (const DType &dtype : wide) {
      common = s.computationType(common, false, dtype, false, false);
    }
    chosen = fitting(overloads, std::vector<DType>(wide.size(), common));
  }
  if (chosen == nullptr) {
    noOverload(s, operation, overloads, types);
  }
  Arguments given;
  Tensor whole = tensors.front();
  for (const Tensor &tensor : tensors) {
    whole = s.broadcastBoth(whole, tensor).first;
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor shaped = s.broadcastBoth(tensors[i], whole).first;
    given.positional.emplace_back(s.cast(shaped, chosen->operands[i]));
  }
  const Value result = s.callFunction(function, given);
  const Tensor *made = result.tensor();
  ir::check(made != nullptr && made->dtype == chosen->result, "the prelude gives what its row says");
  const auto floats = std::ranges::find_if(types, &DType::isFloat);
  const bool allNarrow = floats != types.end() && std::ranges::all_of(types, [&](const DType &dtype) {
                           return !dtype.isFloat() || (isNarrow(dtype) && dtype == *floats);
                         });
  return allNarrow && made->dtype.isFloat() ? Value(s.cast(*made, *floats)) : result;
}

} // namespace libtile::frontend
