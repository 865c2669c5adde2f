// SPDX-License-Identifier: Apache-2.0
// Loads into scalar registers, and registers of the hardware.
#include "tests/amd/scalar_step.h"

#include <chrono>

namespace emulator {

namespace {

constexpr uint64_t kAddressBits = (uint64_t{1} << 48) - 1;

// Of "dwordx4", "b128", "i8": bytes, and whether a sign is extended; 0 bytes: no such size.
struct Size {
  unsigned bytes;
  bool isSigned;
};
Size sizeOf(std::string_view name) {
  if (name.starts_with("dword")) {
    return {name.size() > 6 ? 4 * static_cast<unsigned>(std::stoi(std::string(name.substr(6)))) : 4, false};
  }
  const bool isKnown = name.size() > 1 && (name[0] == 'b' || name[0] == 'u' || name[0] == 'i');
  return {isKnown ? static_cast<unsigned>(std::stoi(std::string(name.substr(1)))) / 8 : 0, name[0] == 'i'};
}

// In hundred-millionths of a second, the rate of the hardware's counter.
uint64_t ticks() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()) / 10;
}

struct Field {
  bool isMode;
  unsigned offset, bits;
};
// "hwreg(HW_REG_MODE, 0, 4)"
Field parseField(const std::string &text) {
  Field field = {.isMode = text.find("HW_REG_MODE") != text.npos, .offset = 0, .bits = 32};
  if (const size_t comma = text.find(','); comma != text.npos) {
    field.offset = static_cast<unsigned>(std::stoi(text.substr(comma + 1)));
    field.bits = static_cast<unsigned>(std::stoi(text.substr(text.find(',', comma + 1) + 1)));
  }
  return field;
}

uint32_t insert(uint32_t old, const Field &field, uint32_t value) {
  const auto mask = static_cast<uint32_t>(((uint64_t{1} << field.bits) - 1) << field.offset);
  return (old & ~mask) | (value << field.offset & mask);
}

} // namespace

Step makeScalarLoad(const Instruction &in) {
  const bool isBuffer = in.name.starts_with("s_buffer_load_");
  if (!isBuffer && !in.name.starts_with("s_load_")) {
    return {};
  }
  const auto [bytes, isSigned] = sizeOf(std::string_view(in.name).substr(isBuffer ? 14 : 7));
  if (bytes == 0 || in.operands.size() < 2) {
    return {};
  }
  const unsigned first = registerOf(in.operands[0]).index, base = registerOf(in.operands[1]).index;
  const ScalarSource offset(in.operands.size() > 2 ? in.operands[2] : "0", 32);
  const bool isConstant = in.operands.size() > 2 && !parseRegister(in.operands[2]);
  const int64_t more = in.number("offset").value_or(0);
  return [=, isSigned = isSigned, bytes = bytes](Wave &wave) {
    const uint64_t at = isConstant ? static_cast<uint64_t>(static_cast<int32_t>(offset.read(wave))) : offset.read(wave);
    const uint64_t place = at + static_cast<uint64_t>(more);
    uint64_t address = (isBuffer ? wave.scalarPair(base) & kAddressBits : wave.scalarPair(base)) + place;
    const unsigned extent = isBuffer ? wave.scalar(base + 2) : 0;
    if (bytes < 4) {
      uint32_t value = 0;
      std::memcpy(&value, wave.group.memory.at(address, bytes), bytes);
      const unsigned unused = 32 - 8 * bytes;
      wave.setScalar(first, isSigned ? static_cast<uint32_t>(static_cast<int32_t>(value << unused) >> unused) : value);
      return;
    }
    address &= ~uint64_t{3};
    std::array<uint32_t, 16> words = {};
    for (unsigned i = 0; i < bytes / 4; ++i) {
      if (!isBuffer || place + 4 * i + 4 <= extent) {
        std::memcpy(&words[i], wave.group.memory.at(address + 4 * i, 4), 4);
      }
    }
    for (unsigned i = 0; i < bytes / 4; ++i) {
      wave.setScalar(first + i, words[i]);
    }
  };
}

Step makeHardwareRegister(const Instruction &in) {
  const std::string &name = in.name;
  if (name == "s_getreg_b32") {
    return [field = parseField(in.operands[1]), destination = ScalarDestination(in.operands[0], 32)](Wave &wave) {
      const uint64_t value = field.isMode ? wave.mode.bits : 0;
      destination.write(wave, value >> field.offset & ((uint64_t{1} << field.bits) - 1));
    };
  }
  if (name == "s_setreg_b32" || name == "s_setreg_imm32_b32") {
    return [field = parseField(in.operands[0]), source = ScalarSource(in.operands[1], 32)](Wave &wave) {
      wave.mode.bits = field.isMode ? insert(wave.mode.bits, field, static_cast<uint32_t>(source.read(wave))) : wave.mode.bits;
    };
  }
  if (name == "s_round_mode" || name == "s_denorm_mode") {
    const Field field = {.isMode = true, .offset = name == "s_round_mode" ? 0U : 4U, .bits = 4};
    return [field, source = ScalarSource(in.operands[0], 32)](Wave &wave) {
      wave.mode.bits = insert(wave.mode.bits, field, static_cast<uint32_t>(source.read(wave)));
    };
  }
  if (name == "s_memtime" || name == "s_memrealtime" || name.starts_with("s_sendmsg_rtn_b")) {
    const unsigned bits = name == "s_sendmsg_rtn_b32" ? 32 : 64;
    return [destination = ScalarDestination(in.operands[0], bits)](Wave &wave) { destination.write(wave, ticks()); };
  }
  return {};
}

} // namespace emulator
