// SPDX-License-Identifier: Apache-2.0
// Instructions that read or write a mask of lanes beside numbers: sums with carries, and the steps of a division.
#include "tests/amd/float_ops.h"
#include "tests/amd/vector_step.h"

namespace emulator {

namespace {

Step makeSum(const Instruction &in, const Machine &machine, bool subtracts, bool isReversed, bool takesCarry) {
  const MaskOperand carryOut(in.operands[1]), carryIn(takesCarry ? in.operands[4] : "vcc");
  return [=, sources = Sources(in, machine, 2, {typeOf<uint32_t>(), typeOf<uint32_t>()}),
          result = Result(in, machine, typeOf<uint32_t>())](Wave &wave) {
    std::array<Lanes, 2> values;
    const Mask mask = sources.read(wave, values.data()), carries = takesCarry ? carryIn.read(wave) : 0;
    Mask out = 0;
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      const uint64_t a = values[isReversed ? 1 : 0][lane], b = values[isReversed ? 0 : 1][lane], carry = carries >> lane & 1;
      const uint64_t sum = subtracts ? a - b - carry : a + b + carry;
      out |= Mask{sum >> 32 != 0} << lane;
      values[0][lane] = sum & 0xffffffff;
    }
    result.write(wave, values[0], mask);
    carryOut.write(wave, out & mask);
  };
}

// 32 x 32 + 64 bits, and the carry.
Step makeWideProduct(const Instruction &in, const Machine &machine, bool isSigned) {
  const MaskOperand carryOut(in.operands[1]);
  return [=, sources = Sources(in, machine, 2, {typeOf<uint32_t>(), typeOf<uint32_t>(), typeOf<uint64_t>()}),
          result = Result(in, machine, typeOf<uint64_t>())](Wave &wave) {
    std::array<Lanes, 3> values;
    const Mask mask = sources.read(wave, values.data());
    Mask out = 0;
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      const uint64_t product = isSigned ? static_cast<uint64_t>(int64_t{static_cast<int32_t>(values[0][lane])} *
                                                                static_cast<int32_t>(values[1][lane]))
                                        : values[0][lane] * values[1][lane];
      const uint64_t sum = product + values[2][lane];
      const bool overflows =
          isSigned ? (static_cast<int64_t>((sum ^ product) & (sum ^ values[2][lane])) < 0) : sum < product;
      out |= Mask{overflows} << lane;
      values[0][lane] = sum;
    }
    result.write(wave, values[0], mask);
    carryOut.write(wave, out & mask);
  };
}

// The numbers of a type that divisions are scaled by (V_DIV_SCALE, V_DIV_FMAS).
template <class T> struct Scale;
template <> struct Scale<float> {
  static constexpr int kBias = 127, kFraction = 23, kFar = 96, kBy = 64, kLeast = 23;
};
template <> struct Scale<double> {
  static constexpr int kBias = 1023, kFraction = 52, kFar = 768, kBy = 128, kLeast = 53;
};
template <class T> int biased(T value) {
  return static_cast<int>(toBits(value) >> Scale<T>::kFraction & (sizeof(T) == 4 ? 255 : 2047));
}
template <class T> bool isSubnormal(T value) { return std::fpclassify(value) == FP_SUBNORMAL; }

// A numerator or denominator `a`, scaled so that quotients neither over- nor underflow; whether the quotient is to be scaled back.
template <class T> std::pair<T, bool> scale(T a, T denominator, T numerator) {
  using S = Scale<T>;
  if (numerator == 0 || denominator == 0) {
    return {std::numeric_limits<T>::quiet_NaN(), false};
  }
  const int gap = biased(numerator) - biased(denominator);
  const bool isDenominator = toBits(a) == toBits(denominator), isNumerator = toBits(a) == toBits(numerator);
  const long double quotient = static_cast<long double>(numerator) / denominator, reciprocal = 1.0L / denominator;
  const auto least = static_cast<long double>(std::numeric_limits<T>::min());
  const bool quotientIsTiny = quotient != 0 && std::fabs(quotient) < least;
  const bool reciprocalIsTiny = reciprocal != 0 && std::fabs(reciprocal) < least;
  if (gap >= S::kFar) {
    return {isDenominator ? std::ldexp(a, S::kBy) : a, true};
  }
  if (isSubnormal(denominator)) {
    return {std::ldexp(a, S::kBy), false};
  }
  // The documents scale the denominator up here, which overflows; a quotient that is scaled back needs it scaled down.
  if (reciprocalIsTiny && quotientIsTiny) {
    return {isDenominator ? std::ldexp(a, -S::kBy) : a, true};
  }
  if (reciprocalIsTiny) {
    return {std::ldexp(a, -S::kBy), false};
  }
  if (quotientIsTiny) {
    return {isNumerator ? std::ldexp(a, S::kBy) : a, true};
  }
  return {biased(numerator) <= S::kLeast ? std::ldexp(a, S::kBy) : a, false};
}

template <class T> Step makeScale(const Instruction &in, const Machine &machine) {
  const MaskOperand scaled(in.operands[1]);
  return [=, sources = Sources(in, machine, 2, {typeOf<T>(), typeOf<T>(), typeOf<T>()}),
          result = Result(in, machine, typeOf<T>())](Wave &wave) {
    std::array<Lanes, 3> values;
    const Mask mask = sources.read(wave, values.data());
    Mask out = 0;
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      const auto [value, isScaled] =
          scale(fromBits<T>(values[0][lane]), fromBits<T>(values[1][lane]), fromBits<T>(values[2][lane]));
      values[0][lane] = toBits(value);
      out |= Mask{isScaled} << lane;
    }
    result.write(wave, values[0], mask);
    scaled.write(wave, out & mask);
  };
}

// a * b + c, times a power of two, rounded once: the result may be subnormal.
float scaledSum(float a, float b, float c, int power) {
  return static_cast<float>(std::ldexp(sumToOdd(double{a} * b, c), power));
}
double scaledSum(double a, double b, double c, int power) {
  const double product = a * b, below = std::fma(a, b, -product);
  if (!std::isfinite(product) || !std::isfinite(c)) {
    return std::ldexp(std::fma(a, b, c), power);
  }
  // Each sum of two, and what it leaves out; then all that was left out at once, which decides ties.
  const long double sum = static_cast<long double>(product) + c, other = sum - product;
  const long double rest = (product - (sum - other)) + (c - other) + below;
  const long double all = sum + rest;
  const long double error = rest - (all - sum);
  const long double scaled = std::ldexp(all, power);
  const auto rounded = static_cast<double>(scaled);
  // A tie that the error breaks goes to the neighbour on its side.
  const double next = std::nextafter(rounded, scaled > rounded ? std::numeric_limits<double>::infinity()
                                                               : -std::numeric_limits<double>::infinity());
  const bool isTie = scaled != rounded && scaled - rounded == next - scaled;
  return isTie && error != 0 && (error > 0) == (next > rounded) ? next : rounded;
}

// A multiply-add, and back what was scaled.
template <class T> Step makeScaledMultiplyAdd(const Instruction &in, const Machine &machine) {
  return [sources = Sources(in, machine, 1, {typeOf<T>(), typeOf<T>(), typeOf<T>()}),
          result = Result(in, machine, typeOf<T>())](Wave &wave) {
    std::array<Lanes, 3> values;
    const Mask mask = sources.read(wave, values.data()), scaled = wave.mask(kVcc);
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      const T addend = fromBits<T>(values[2][lane]);
      const T a = fromBits<T>(values[0][lane]), b = fromBits<T>(values[1][lane]);
      const int power = (scaled >> lane & 1) == 0 ? 0 : biased(addend) > Scale<T>::kBias ? Scale<T>::kBy : -Scale<T>::kBy;
      values[0][lane] = toBits(power == 0 ? std::fma(a, b, addend) : scaledSum(a, b, addend, power));
    }
    result.write(wave, values[0], mask);
  };
}

} // namespace

Step makeCarry(const Instruction &in, const Machine &machine) {
  const std::string &name = in.name;
  if (name == "v_mad_u64_u32" || name == "v_mad_co_u64_u32" || name == "v_mad_i64_i32" || name == "v_mad_co_i64_i32") {
    return makeWideProduct(in, machine, name.ends_with("i32"));
  }
  if (name.find("_co_") == name.npos) {
    return {};
  }
  const bool takesCarry = name.starts_with("v_addc") || name.starts_with("v_subb") || name.find("_ci_") != name.npos;
  return makeSum(in, machine, name.starts_with("v_sub"), name.find("rev") != name.npos, takesCarry);
}

Step makeDivision(const Instruction &in, const Machine &machine) {
  if (in.name == "v_div_scale_f32") {
    return makeScale<float>(in, machine);
  }
  if (in.name == "v_div_scale_f64") {
    return makeScale<double>(in, machine);
  }
  if (in.name == "v_div_fmas_f32") {
    return makeScaledMultiplyAdd<float>(in, machine);
  }
  return in.name == "v_div_fmas_f64" ? makeScaledMultiplyAdd<double>(in, machine) : Step();
}

} // namespace emulator
