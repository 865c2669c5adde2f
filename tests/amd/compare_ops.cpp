// SPDX-License-Identifier: Apache-2.0
// Comparisons: a bit a lane, into a mask or EXEC; and what chooses by a mask.
#include "tests/amd/float_ops.h"
#include "tests/amd/vector_step.h"

namespace emulator {

namespace {

using Test = std::function<bool(uint64_t, uint64_t)>;

template <class T> auto ordered(uint64_t bits) {
  if constexpr (std::is_same_v<T, Half> || std::is_floating_point_v<T>) {
    return wide(fromBits<T>(bits));
  } else {
    return fromBits<T>(bits);
  }
}

template <class T> Test testOf(std::string_view condition) {
#define TEST(name, expression)                                                                     \
  if (condition == name) {                                                                         \
    return [](uint64_t x, uint64_t y) {                                                            \
      const auto a = ordered<T>(x), b = ordered<T>(y);                                             \
      return expression;                                                                           \
    };                                                                                             \
  }
  TEST("lt", a < b)
  TEST("eq", a == b)
  TEST("le", a <= b)
  TEST("gt", a > b)
  TEST("ge", a >= b)
  TEST("ne", a != b)
  TEST("neq", a != b)
  TEST("lg", a < b || a > b)
  TEST("o", a == a && b == b)
  TEST("u", a != a || b != b)
  TEST("nlt", !(a < b))
  TEST("nle", !(a <= b))
  TEST("ngt", !(a > b))
  TEST("nge", !(a >= b))
  TEST("nlg", !(a < b || a > b))
#undef TEST
  if (condition == "t" || condition == "tru" || condition == "f") {
    const bool value = condition != "f";
    return [value](uint64_t, uint64_t) { return value; };
  }
  return {};
}

// Whether the class of a number is one of the mask's (V_CMP_CLASS).
template <class T> bool isOfClass(uint64_t bits, uint64_t mask) {
  const double value = wide(fromBits<T>(bits));
  const unsigned width = sizeof(T) * 8, fraction = width == 64 ? 52 : width == 32 ? 23 : 10;
  const bool isNegative = (bits >> (width - 1) & 1) != 0;
  const uint64_t magnitude = bits & ((uint64_t{1} << (width - 1)) - 1);
  unsigned kind = 0;
  if (std::isnan(value)) {
    kind = (bits >> (fraction - 1) & 1) != 0 ? 1 : 0;
  } else if (std::isinf(value)) {
    kind = isNegative ? 2 : 9;
  } else if (magnitude == 0) {
    kind = isNegative ? 5 : 6;
  } else if (magnitude >> fraction == 0) {
    kind = isNegative ? 4 : 7;
  } else {
    kind = isNegative ? 3 : 8;
  }
  return (mask >> kind & 1) != 0;
}

struct Comparison {
  Test test;
  Type type;
};

Comparison comparisonOf(std::string_view condition, std::string_view type) {
  const bool isClass = condition == "class";
  if (type == "f16") {
    return {isClass ? isOfClass<Half> : testOf<Half>(condition), typeOf<Half>()};
  }
  if (type == "f32") {
    return {isClass ? isOfClass<float> : testOf<float>(condition), typeOf<float>()};
  }
  if (type == "f64") {
    return {isClass ? isOfClass<double> : testOf<double>(condition), typeOf<double>()};
  }
  return type == "i16"   ? Comparison{testOf<int16_t>(condition), typeOf<int16_t>()}
         : type == "u16" ? Comparison{testOf<uint16_t>(condition), typeOf<uint16_t>()}
         : type == "i32" ? Comparison{testOf<int32_t>(condition), typeOf<int32_t>()}
         : type == "u32" ? Comparison{testOf<uint32_t>(condition), typeOf<uint32_t>()}
         : type == "i64" ? Comparison{testOf<int64_t>(condition), typeOf<int64_t>()}
                         : Comparison{testOf<uint64_t>(condition), typeOf<uint64_t>()};
}

Step makeChoice(const Instruction &in, const Machine &machine) {
  const Type type = in.name.ends_with("16") ? typeOf<uint16_t>() : typeOf<uint32_t>();
  const MaskOperand choice(in.operands.size() > 3 ? in.operands[3] : "vcc");
  return [choice, sources = Sources(in, machine, 1, {type, type}), result = Result(in, machine, type)](Wave &wave) {
    std::array<Lanes, 2> values;
    const Mask mask = sources.read(wave, values.data()), chosen = choice.read(wave);
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      values[0][lane] = values[chosen >> lane & 1][lane];
    }
    result.write(wave, values[0], mask);
  };
}

} // namespace

Step makeComparison(const Instruction &in, const Machine &machine) {
  if (in.name.starts_with("v_cndmask_b")) {
    return makeChoice(in, machine);
  }
  if (!in.name.starts_with("v_cmp")) {
    return {};
  }
  const bool toExec = in.name.starts_with("v_cmpx_");
  const std::string_view rest = std::string_view(in.name).substr(toExec ? 7 : 6);
  const size_t underscore = rest.rfind('_');
  const auto [test, type] = comparisonOf(rest.substr(0, underscore), rest.substr(underscore + 1));
  if (!test) {
    throw Fault("unknown comparison: " + in.text);
  }
  const bool hasDestination = in.operands.size() == 3;
  const MaskOperand destination(hasDestination ? in.operands[0] : toExec ? "exec" : "vcc");
  const Type second = rest.starts_with("class") ? (type.bits == 16 ? typeOf<uint16_t>() : typeOf<uint32_t>()) : type;
  return [test, toExec, destination, sources = Sources(in, machine, hasDestination ? 1 : 0, {type, second})](Wave &wave) {
    std::array<Lanes, 2> values;
    const Mask mask = sources.read(wave, values.data());
    Mask result = 0;
    eachLane(mask, [&](unsigned lane) { result |= Mask{test(values[0][lane], values[1][lane])} << lane; });
    destination.write(wave, result);
    if (toExec) {
      wave.setExec(result);
    }
  };
}

} // namespace emulator
