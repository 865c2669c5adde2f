// SPDX-License-Identifier: Apache-2.0
// Loads, stores and atomics of global memory, scratch and buffers. A flat address may be one of LDS.
#include "tests/amd/memory_step.h"

namespace emulator {

namespace {

constexpr uint64_t kAddressBits = (uint64_t{1} << 48) - 1;
constexpr uint64_t kSharedAperture = 1, kPrivateAperture = 2; // what src_shared_base has from bit 48 on

enum class Space { Global, Flat, Scratch, Buffer };

// Where each lane's bytes lie.
class Addresses {
public:
  Addresses(const Instruction &in, Space space, size_t vector, size_t scalar)
      : space_(space), offset_(static_cast<uint64_t>(in.number("offset").value_or(0))), hasIndex_(in.has("idxen")),
        hasOffset_(in.has("offen")) {
    const std::string &lanes = in.operands[vector];
    lanes_ = lanes == "off" ? std::nullopt : std::optional(registerOf(lanes).index);
    const bool hasScalar = scalar < in.operands.size() && in.operands[scalar] != "off";
    if (space == Space::Buffer) {
      resource_ = registerOf(in.operands[scalar]).index;
      start_.emplace(in.operands[scalar + 1], 32);
    } else if (hasScalar && space != Space::Flat) {
      start_.emplace(in.operands[scalar], space == Space::Scratch ? 32 : 64);
    }
  }

  // The bytes of one lane; nullptr: outside of the buffer.
  uint8_t *at(Wave &wave, unsigned lane, unsigned bytes, bool writes) const {
    switch (space_) {
    case Space::Global: {
      const uint64_t base = start_ ? start_->read(wave) + wave.vector(*lanes_)[lane] : pair(wave, lane);
      return wave.group.memory.at(base + offset_, bytes);
    }
    case Space::Flat: {
      const uint64_t address = pair(wave, lane) + offset_;
      if (address >> 48 == kSharedAperture) {
        return shared(wave, address & 0xffffffff, bytes, writes);
      }
      return address >> 48 == kPrivateAperture ? scratch(wave, lane, address & 0xffffffff, bytes) : wave.group.memory.at(address, bytes);
    }
    case Space::Scratch:
      return scratch(wave, lane, (start_ ? start_->read(wave) : 0) + (lanes_ ? wave.vector(*lanes_)[lane] : 0) + offset_, bytes);
    case Space::Buffer: return buffer(wave, lane, bytes);
    }
    return nullptr;
  }

private:
  uint64_t pair(const Wave &wave, unsigned lane) const {
    return wave.vector(*lanes_)[lane] | uint64_t{wave.vector(*lanes_ + 1)[lane]} << 32;
  }
  static uint8_t *shared(Wave &wave, uint64_t address, unsigned bytes, bool writes) {
    SharedMemory &memory = wave.group.shared;
    return writes ? memory.write(address, bytes) : const_cast<uint8_t *>(memory.read(address, bytes));
  }
  static uint8_t *scratch(Wave &wave, unsigned lane, uint64_t offset, unsigned bytes) {
    if (offset + bytes > wave.scratchBytes) {
      throw Fault("scratch access out of bounds: " + std::to_string(bytes) + " bytes at " + std::to_string(offset) + " of " +
                  std::to_string(wave.scratchBytes));
    }
    return &wave.scratch[lane * wave.scratchBytes + offset];
  }
  uint8_t *buffer(Wave &wave, unsigned lane, unsigned bytes) const {
    const uint64_t base = wave.scalarPair(resource_) & kAddressBits;
    const uint64_t records = wave.scalar(resource_ + 2), stride = wave.scalar(resource_ + 1) >> 16 & 0x3fff;
    uint64_t place = offset_;
    if (hasIndex_) {
      place += stride * wave.vector(*lanes_)[lane];
    }
    if (hasOffset_) {
      place += wave.vector(*lanes_ + (hasIndex_ ? 1 : 0))[lane];
    }
    if (base == kPrivateBuffer) {
      return scratch(wave, lane, start_->read(wave) + place, bytes);
    }
    const uint64_t extent = stride != 0 ? records * stride : records;
    return place + bytes > extent ? nullptr : wave.group.memory.at(base + start_->read(wave) + place, bytes);
  }

  Space space_;
  uint64_t offset_;
  bool hasIndex_, hasOffset_;
  std::optional<unsigned> lanes_;
  std::optional<ScalarSource> start_;
  unsigned resource_ = 0;
};

bool returnsOld(const Instruction &in) {
  return in.has("glc") || in.has("sc0") || in.modifiers.find("TH_ATOMIC_RETURN") != std::string::npos;
}

Step makeLoad(const Instruction &in, Space space, const DataFormat &format) {
  const size_t scalar = 2;
  return [data = Data(in.operands[0], format), from = Addresses(in, space, 1, scalar)](Wave &wave) {
    // A register of the address may be one of the data.
    std::array<uint8_t, size_t{kMostLanes} * 16> bytes = {};
    eachLane(wave.exec, [&](unsigned lane) {
      if (const uint8_t *place = from.at(wave, lane, data.bytes(), false)) {
        std::memcpy(&bytes[size_t{lane} * 16], place, data.bytes());
      }
    });
    eachLane(wave.exec, [&](unsigned lane) { data.load(wave, lane, &bytes[size_t{lane} * 16]); });
  };
}

// From memory straight to LDS, where M0 says: the lanes' words lie side by side. Its documents have 16 bits of M0; CDNA 4, whose LDS is
// larger, is taken to use as many as that needs, since Triton's products copy beyond 64 KiB there.
Step makeLoadToShared(const Instruction &in, Space space, const DataFormat &format, const Machine &machine) {
  const unsigned bytes = format.bytes;
  const uint32_t used = machine.target == "gfx950" ? 0x3ffff : 0xffff;
  const auto offset = static_cast<uint32_t>(in.number("offset").value_or(0));
  const unsigned pitch = std::max(bytes, 4U);
  return [=, from = Addresses(in, space, 0, 1)](Wave &wave) {
    const uint64_t begin = (wave.scalar(kM0) & used) + offset;
    wave.group.shared.beginCopy(&wave, begin, begin + uint64_t{pitch} * static_cast<unsigned>(std::bit_width(wave.exec)));
    eachLane(wave.exec, [&](unsigned lane) {
      const uint64_t to = begin + lane * pitch;
      const uint8_t *place = from.at(wave, lane, bytes, false);
      uint8_t *shared = wave.group.shared.write(to, bytes);
      place != nullptr ? std::memcpy(shared, place, bytes) : std::memset(shared, 0, bytes);
    });
  };
}

Step makeStore(const Instruction &in, Space space, const DataFormat &format) {
  const bool isBuffer = space == Space::Buffer;
  return [data = Data(in.operands[isBuffer ? 0 : 1], format), to = Addresses(in, space, isBuffer ? 1 : 0, 2)](Wave &wave) {
    eachLane(wave.exec, [&](unsigned lane) {
      std::array<uint8_t, 16> bytes;
      data.store(wave, lane, bytes.data());
      if (uint8_t *place = to.at(wave, lane, data.bytes(), true)) {
        std::memcpy(place, bytes.data(), data.bytes());
      }
    });
  };
}

Step makeAtomic(const Instruction &in, Space space, const AtomicKind &kind) {
  const bool isBuffer = space == Space::Buffer, returns = returnsOld(in);
  const size_t shift = returns && !isBuffer ? 1 : 0; // the destination comes first
  const unsigned data = registerOf(in.operands[isBuffer ? 0 : shift + 1]).index, old = registerOf(in.operands[0]).index;
  const unsigned words = kind.bytes / 4;
  return [=, at = Addresses(in, space, isBuffer ? 1 : shift, shift + 2)](Wave &wave) {
    const auto number = [&](unsigned index, unsigned lane) {
      return wave.vector(index)[lane] | (words == 2 ? uint64_t{wave.vector(index + 1)[lane]} << 32 : 0);
    };
    Lanes before;
    eachLane(wave.exec, [&](unsigned lane) {
      before[lane] = 0;
      uint8_t *place = at.at(wave, lane, kind.bytes, true);
      if (place == nullptr) {
        return;
      }
      std::memcpy(&before[lane], place, kind.bytes);
      const uint64_t own = number(data, lane);
      const uint64_t after = !kind.compares ? kind.f(before[lane], own) : before[lane] == number(data + words, lane) ? own : before[lane];
      std::memcpy(place, &after, kind.bytes);
    });
    for (unsigned word = 0; returns && word < words; ++word) {
      eachLane(wave.exec, [&](unsigned lane) { wave.vector(old + word)[lane] = static_cast<uint32_t>(before[lane] >> (32 * word)); });
    }
  };
}

} // namespace

Step makeMemoryStep(const Instruction &in, const Machine &machine) {
  constexpr std::pair<std::string_view, Space> kSpaces[] = {
      {"global_", Space::Global}, {"flat_", Space::Flat}, {"scratch_", Space::Scratch}, {"buffer_", Space::Buffer}};
  for (const auto &[prefix, space] : kSpaces) {
    if (!in.name.starts_with(prefix)) {
      continue;
    }
    const std::string rest = in.name.substr(prefix.size());
    if (in.has("lds") || rest.starts_with("load_lds_")) {
      const DataFormat format = parseFormat(rest.substr(rest.starts_with("load_lds_") ? 9 : 5));
      return format.bytes == 0 ? Step() : makeLoadToShared(in, space, format, machine);
    }
    if (rest.starts_with("load_") || rest.starts_with("store_")) {
      const bool isLoad = rest.starts_with("load_");
      const DataFormat format = parseFormat(rest.substr(isLoad ? 5 : 6));
      return format.bytes == 0 ? Step() : isLoad ? makeLoad(in, space, format) : makeStore(in, space, format);
    }
    if (rest.starts_with("atomic_")) {
      const AtomicKind kind = parseAtomic(rest.substr(7));
      return kind.bytes == 0 ? Step() : makeAtomic(in, space, kind);
    }
  }
  return {};
}

} // namespace emulator
