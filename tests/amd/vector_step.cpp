// SPDX-License-Identifier: Apache-2.0
#include "tests/amd/vector_step.h"

#include "tests/amd/float_ops.h"
#include "tests/amd/vector_table.h"

#include <algorithm>
#include <cfenv>

namespace emulator {

namespace {

constexpr size_t kMostSources = 4;

double toDouble(uint64_t bits, unsigned width) {
  return width == 64 ? fromBits<double>(bits) : width == 32 ? fromBits<float>(bits) : fromHalf(static_cast<uint16_t>(bits));
}
uint64_t ofDouble(double value, unsigned width) {
  return width == 64 ? toBits(value) : width == 32 ? toBits(static_cast<float>(value)) : toHalf(value);
}

// Of the integers that saturate, the sum or difference of two; nothing: no such instruction.
std::function<int64_t(int64_t, int64_t)> saturating(const std::string &name) {
  const std::string base = name.substr(2, name.find('_', 2) - 2);
  if (base == "add") {
    return [](int64_t a, int64_t b) { return a + b; };
  }
  if (base == "sub" || base == "subrev") {
    const bool isReversed = base == "subrev";
    return [isReversed](int64_t a, int64_t b) { return isReversed ? b - a : a - b; };
  }
  return {};
}

Step makeSaturating(const Instruction &in, const Machine &machine) {
  const auto f = saturating(in.name);
  const bool isSigned = in.name.find("_i") != in.name.npos, isShort = in.name.ends_with("16");
  if (!f) {
    throw Fault("clamp is not emulated for integers: " + in.text);
  }
  const Type type = {static_cast<uint8_t>(isShort ? 16 : 32), isSigned ? Kind::Signed : Kind::Bits};
  const int bits = type.bits;
  const int64_t most = isSigned ? (int64_t{1} << (bits - 1)) - 1 : (int64_t{1} << bits) - 1, least = isSigned ? -most - 1 : 0;
  return [f, isSigned, bits, most, least, sources = Sources(in, machine, 1, {type, type}),
          result = Result(in, machine, {type.bits, Kind::Bits})](Wave &wave) {
    std::array<Lanes, 2> values;
    Lanes out;
    const Mask mask = sources.read(wave, values.data());
    const auto extend = [&](uint64_t x) {
      return isSigned ? static_cast<int64_t>(x << (64 - bits)) >> (64 - bits) : static_cast<int64_t>(x);
    };
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      out[lane] = static_cast<uint64_t>(std::clamp(f(extend(values[0][lane]), extend(values[1][lane])), least, most));
    }
    result.write(wave, out, mask);
  };
}

// Instructions whose result is added to what the destination holds.
bool addsToDestination(const std::string &name) { return name.starts_with("v_fmac_") || name.starts_with("v_mac_"); }

Step makeFromTable(const Instruction &in, const Machine &machine) {
  const VectorOp *op = vectorTable().find(in.name);
  if (op == nullptr) {
    return {};
  }
  if (op->result.kind != Kind::Float && in.has("clamp")) {
    return makeSaturating(in, machine);
  }
  Instruction whole = in;
  if (addsToDestination(in.name) && whole.operands.size() == 3) {
    whole.operands.push_back(whole.operands[0]);
  }
  if (whole.operands.size() < 1 + op->sources.size()) {
    throw Fault("operands are missing: " + in.text);
  }
  const bool isHigh = in.list("op_sel", op->sources.size() + 1, 0).back() != 0 && op->result.bits == 16;
  return [op, sources = Sources(whole, machine, 1, op->sources), result = Result(in, machine, op->result, isHigh)](Wave &wave) {
    std::array<Lanes, kMostSources> values;
    Lanes out;
    const Mask mask = sources.read(wave, values.data());
    const int rounding = op->result.bits == 32 ? wave.mode.round32() : wave.mode.round1664();
    if (rounding == FE_TONEAREST) {
      op->run(values.data(), out, wave.lanes);
    } else {
      const Rounding directed(rounding);
      op->run(values.data(), out, wave.lanes);
    }
    result.write(wave, out, mask);
  };
}

} // namespace

Sources::Sources(const Instruction &instruction, const Machine &machine, size_t first, const std::vector<Type> &types) {
  constexpr const char *kParts[] = {"src0_sel", "src1_sel"};
  const std::vector<int> high = instruction.list("op_sel", types.size() + 1, 0);
  for (size_t i = 0; i < types.size(); ++i) {
    const Part part = instruction.hasSdwa && i < 2 ? parsePart(instruction.value(kParts[i])) : Part{};
    sources_.emplace_back(instruction.operands[first + i], types[i], high[i] != 0, part);
  }
  if (instruction.hasDpp) {
    dpp_.emplace(instruction, machine.lanes);
  }
}

Mask Sources::read(const Wave &wave, Lanes *out) const {
  for (size_t i = 0; i < sources_.size(); ++i) {
    sources_[i].read(wave, out[i]);
  }
  return dpp_ ? dpp_->apply(wave, out[0]) : wave.exec;
}

Result::Result(const Instruction &instruction, const Machine &machine, Type type, bool isHigh)
    : destination_(instruction.operands[0], instruction.hasSdwa ? Type{32, Kind::Bits} : type, isHigh, machine.isCdna), type_(type),
      clamps_(instruction.has("clamp") && type.kind == Kind::Float), flushes_(type.kind == Kind::Float),
      index_(registerOf(instruction.operands[0]).index) {
  if (instruction.hasSdwa) {
    part_ = parsePart(instruction.value("dst_sel"));
    preserves_ = instruction.value("dst_unused") == "UNUSED_PRESERVE";
    extends_ = instruction.value("dst_unused") == "UNUSED_SEXT";
  }
  const auto times = instruction.number("mul"), by = instruction.number("div");
  factor_ = times ? static_cast<double>(*times) : by ? 1 / static_cast<double>(*by) : 1;
}

void Result::finish(const Wave &wave, Lanes &values) const {
  for (unsigned lane = 0; lane < wave.lanes; ++lane) {
    double value = toDouble(values[lane], type_.bits) * factor_;
    value = clamps_ ? (value > 0 ? std::min(value, 1.0) : 0) : value;
    if (factor_ != 1 || clamps_) {
      values[lane] = ofDouble(value, type_.bits);
    }
  }
}

void Result::write(Wave &wave, Lanes &values, Mask mask) const {
  if (clamps_ || factor_ != 1) {
    finish(wave, values);
  }
  if (flushes_ && (type_.bits == 32 ? wave.mode.flushes32() : wave.mode.flushes1664())) {
    const uint64_t sign = uint64_t{1} << (type_.bits - 1);
    const uint64_t least = type_.bits == 64 ? uint64_t{1} << 52 : type_.bits == 32 ? 1U << 23 : 1U << 10;
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      values[lane] = (values[lane] & (sign - 1)) < least ? values[lane] & sign : values[lane];
    }
  }
  if (part_.bits < 32) {
    const uint64_t field = ((uint64_t{1} << part_.bits) - 1) << part_.shift, sign = uint64_t{1} << (part_.bits - 1);
    const uint32_t *old = wave.vector(index_);
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      const uint64_t value = values[lane] & (field >> part_.shift);
      values[lane] = preserves_ ? (old[lane] & ~field) | value << part_.shift
                     : extends_ ? ((value ^ sign) - sign) << part_.shift : value << part_.shift;
    }
  }
  destination_.write(wave, values, mask);
}

Step makeVectorStep(const Instruction &instruction, const Machine &machine) {
  for (const auto make : {makeComparison, makeCarry, makeDivision, makePacked, makeMixed, makeSmallFloat, makeAcrossLanes}) {
    if (Step step = make(instruction, machine)) {
      return step;
    }
  }
  return makeFromTable(instruction, machine);
}

} // namespace emulator
