// SPDX-License-Identifier: Apache-2.0
#include "tests/amd/operand.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

namespace emulator {

namespace {

struct Named {
  std::string_view name;
  unsigned index, count;
};
constexpr Named kNamed[] = {
    {"vcc", kVcc, 2},    {"vcc_lo", kVcc, 1},  {"vcc_hi", kVcc + 1, 1},        {"exec", kExec, 2},
    {"exec_lo", kExec, 1}, {"exec_hi", kExec + 1, 1}, {"m0", kM0, 1},          {"null", kNull, 1},
    {"flat_scratch", kFlatScratch, 2}, {"flat_scratch_lo", kFlatScratch, 1}, {"flat_scratch_hi", kFlatScratch + 1, 1},
    {"xnack_mask", 104, 2}, {"xnack_mask_lo", 104, 1}, {"xnack_mask_hi", 105, 1}};

unsigned toIndex(std::string_view text) {
  unsigned value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

bool isInteger(std::string_view text) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  return digits.starts_with("0x") || (!digits.empty() && digits.find_first_not_of("0123456789") == digits.npos);
}

uint64_t floatBits(double value, unsigned bits) {
  constexpr double kInverseTwoPi = 0.15915494309189532;
  if (std::fabs(std::fabs(value) - kInverseTwoPi) < 1e-6) {
    const uint64_t pattern = bits == 64 ? 0x3fc45f306dc9c882 : bits == 32 ? 0x3e22f983 : 0x3118;
    return value < 0 ? pattern | uint64_t{1} << (bits - 1) : pattern;
  }
  return bits == 64 ? std::bit_cast<uint64_t>(value) : bits == 32 ? std::bit_cast<uint32_t>(static_cast<float>(value)) : toHalf(value);
}

// The smallest normal number's bits.
uint64_t leastNormal(unsigned bits) { return bits == 64 ? uint64_t{1} << 52 : bits == 32 ? uint64_t{1} << 23 : uint64_t{1} << 10; }

uint64_t lowBits(unsigned bits) { return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1; }

} // namespace

std::optional<Register> parseRegister(std::string_view text) {
  for (const Named &named : kNamed) {
    if (text == named.name) {
      return Register{.isVector = false, .index = named.index, .count = named.count, .isHigh = false, .hasHalf = false};
    }
  }
  const bool isTrap = text.starts_with("ttmp");
  const char file = text.empty() ? ' ' : text[0];
  if (!isTrap && file != 's' && file != 'v' && file != 'a') {
    return std::nullopt;
  }
  std::string_view rest = text.substr(isTrap ? 4 : 1);
  if (rest.empty() || (rest[0] != '[' && (rest[0] < '0' || rest[0] > '9'))) {
    return std::nullopt;
  }
  Register result = {.isVector = file == 'v' || file == 'a', .index = 0, .count = 1, .isHigh = false, .hasHalf = false};
  if (rest[0] == '[') {
    const size_t colon = rest.find(':');
    result.index = toIndex(rest.substr(1));
    result.count = colon == rest.npos ? 1 : toIndex(rest.substr(colon + 1)) - result.index + 1;
  } else {
    result.index = toIndex(rest);
  }
  result.isHigh = rest.ends_with(".h");
  result.hasHalf = result.isHigh || rest.ends_with(".l");
  result.index += isTrap ? kTrap : file == 'a' ? kFirstAcc : 0;
  return result;
}

Register registerOf(std::string_view text) {
  if (const auto found = parseRegister(text)) {
    return *found;
  }
  throw Fault("no register: " + std::string(text));
}

uint64_t constantBits(std::string_view text, Type type) {
  if (text.starts_with("lit(") || text.starts_with("lit64(")) { // that it is no inline constant
    text = text.substr(text.find('(') + 1, text.size() - text.find('(') - 2);
  }
  const std::string copy(text);
  char *end = nullptr;
  if (isInteger(text)) {
    uint64_t value = text.starts_with('-') ? static_cast<uint64_t>(std::strtoll(copy.c_str(), &end, 0)) : std::strtoull(copy.c_str(), &end, 0);
    // A literal has 32 bits: the upper half of a double.
    if (type == typeOf<double>() && (static_cast<int64_t>(value) > 64 || static_cast<int64_t>(value) < -16) && value >> 32 == 0) {
      value <<= 32;
    }
    return value & lowBits(type.bits);
  }
  const double value = std::strtod(copy.c_str(), &end);
  if (end == copy.c_str()) {
    throw Fault("neither a register nor a number: " + copy);
  }
  return floatBits(value, type.bits);
}

Part parsePart(std::string_view name) {
  const unsigned number = name.empty() ? 0 : static_cast<unsigned>(name.back() - '0');
  return name.starts_with("BYTE_") ? Part{8 * number, 8} : name.starts_with("WORD_") ? Part{16 * number, 16} : Part{};
}

Source::Source(std::string_view text, Type type, bool isHigh, Part part) : type_(type), isHigh_(isHigh), part_(part) {
  if (text.starts_with("sext(")) {
    isExtended_ = true;
    text = text.substr(5, text.size() - 6);
  }
  if (text.starts_with("neg(") || text.starts_with("-|") || (text.starts_with('-') && parseRegister(text.substr(1)))) {
    isNegative_ = true;
    text = text.starts_with("neg(") ? text.substr(4, text.size() - 5) : text.substr(1);
  }
  if (text.starts_with('|')) {
    isAbsolute_ = true;
    text = text.substr(1, text.size() - 2);
  }
  register_ = parseRegister(text);
  isScc_ = text == "scc" || text == "src_scc";
  if (register_) {
    isHigh_ = register_->hasHalf ? register_->isHigh : isHigh;
  } else if (text == "src_shared_base" || text == "src_private_base") {
    // Apertures: addresses that no array has.
    constant_ = text == "src_shared_base" ? uint64_t{1} << 48 : uint64_t{1} << 49;
  } else if (!isScc_) {
    constant_ = constantBits(text, type);
  }
}

void Source::readVector(const Wave &wave, Lanes &out) const {
  const uint32_t *low = wave.vector(register_->index);
  if (type_.bits == 64) {
    const uint32_t *high = wave.vector(register_->index + 1);
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      out[lane] = low[lane] | uint64_t{high[lane]} << 32;
    }
  } else if (part_.bits < 32) {
    const uint64_t mask = lowBits(part_.bits), sign = uint64_t{1} << (part_.bits - 1);
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      const uint64_t value = low[lane] >> part_.shift & mask;
      out[lane] = (isExtended_ ? (value ^ sign) - sign : value) & lowBits(type_.bits);
    }
  } else {
    const unsigned shift = type_.bits == 16 && isHigh_ ? 16 : 0;
    const uint32_t mask = type_.bits == 16 ? 0xffff : 0xffffffff;
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      out[lane] = low[lane] >> shift & mask;
    }
  }
}

uint64_t Source::readScalar(const Wave &wave) const {
  if (isScc_) {
    return wave.scc ? 1 : 0;
  }
  if (!register_) {
    return constant_;
  }
  if (type_.bits == 64) {
    return wave.scalarPair(register_->index);
  }
  uint64_t value = wave.scalar(register_->index);
  if (part_.bits < 32) {
    const uint64_t sign = uint64_t{1} << (part_.bits - 1);
    value = value >> part_.shift & lowBits(part_.bits);
    value = isExtended_ ? (value ^ sign) - sign : value;
  }
  return (type_.bits == 16 && isHigh_ ? value >> 16 : value) & lowBits(type_.bits);
}

void Source::modify(const Wave &wave, Lanes &out) const {
  const bool flushes = type_.kind == Kind::Float && (type_.bits == 32 ? wave.mode.flushes32() : wave.mode.flushes1664());
  const uint64_t sign = uint64_t{1} << (type_.bits - 1);
  for (unsigned lane = 0; lane < wave.lanes; ++lane) {
    uint64_t &value = out[lane];
    value = flushes && (value & ~sign) < leastNormal(type_.bits) ? value & sign : value;
    value = isAbsolute_ ? value & ~sign : value;
    value = !isNegative_ ? value : type_.kind == Kind::Float || type_.kind == Kind::Bits ? value ^ sign : (0 - value) & lowBits(type_.bits);
  }
}

void Source::read(const Wave &wave, Lanes &out) const {
  if (isVector()) {
    readVector(wave, out);
  } else {
    out.fill(readScalar(wave));
  }
  const bool mayFlush = type_.kind == Kind::Float && (wave.mode.flushes32() || wave.mode.flushes1664());
  if (mayFlush || isNegative_ || isAbsolute_) {
    modify(wave, out);
  }
}

Destination::Destination(std::string_view text, Type type, bool isHigh, bool clearsRest)
    : index_(registerOf(text).index), type_(type), isHigh_(isHigh || registerOf(text).isHigh),
      clearsRest_(clearsRest && !isHigh_ && !registerOf(text).hasHalf) {}

void Destination::write(Wave &wave, const Lanes &values, Mask mask) const {
  uint32_t *low = wave.vector(index_);
  if (type_.bits == 64) {
    uint32_t *high = wave.vector(index_ + 1);
    eachLane(mask, [&](unsigned lane) {
      low[lane] = static_cast<uint32_t>(values[lane]);
      high[lane] = static_cast<uint32_t>(values[lane] >> 32);
    });
  } else if (type_.bits == 32) {
    if (mask == ~Mask{0} || (wave.lanes == 32 && mask == wave.allLanes())) {
      for (unsigned lane = 0; lane < wave.lanes; ++lane) {
        low[lane] = static_cast<uint32_t>(values[lane]);
      }
      return;
    }
    eachLane(mask, [&](unsigned lane) { low[lane] = static_cast<uint32_t>(values[lane]); });
  } else {
    const uint32_t keep = clearsRest_ ? 0 : isHigh_ ? 0xffff : 0xffff0000;
    const unsigned shift = isHigh_ ? 16 : 0;
    eachLane(mask, [&](unsigned lane) {
      low[lane] = (low[lane] & keep) | static_cast<uint32_t>(values[lane] & 0xffff) << shift;
    });
  }
}

ScalarSource::ScalarSource(std::string_view text, unsigned bits) : bits_(bits) {
  if (const auto found = parseRegister(text)) {
    index_ = static_cast<int>(found->index);
  } else if (text == "scc" || text == "src_scc") {
    isScc_ = true;
  } else if (text == "src_shared_base" || text == "src_private_base") {
    constant_ = text == "src_shared_base" ? uint64_t{1} << 48 : uint64_t{1} << 49;
    constant_ = bits == 32 ? constant_ >> 32 : constant_;
  } else {
    constant_ = constantBits(text, bits == 64 ? typeOf<uint64_t>() : typeOf<uint32_t>());
  }
}

} // namespace emulator
