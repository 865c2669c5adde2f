// SPDX-License-Identifier: Apache-2.0
// LDS, and the instructions that move numbers between lanes by its crossbar.
#include "tests/amd/banks.h"
#include "tests/amd/counts.h"
#include "tests/amd/memory_step.h"

#include <algorithm>
#include <charconv>

namespace emulator {

namespace {

uint32_t offsetOf(const Instruction &in, std::string_view word) { return static_cast<uint32_t>(in.number(word).value_or(0)); }

Step makePermute(const Instruction &in) {
  const bool pulls = in.name == "ds_bpermute_b32";
  return [=, to = registerOf(in.operands[0]).index, at = registerOf(in.operands[1]).index, data = registerOf(in.operands[2]).index,
          offset = offsetOf(in, "offset")](Wave &wave) {
    std::array<uint32_t, kMostLanes> out = {};
    eachLane(wave.exec, [&](unsigned lane) {
      const unsigned other = (wave.vector(at)[lane] + offset) / 4 % wave.lanes;
      if (!pulls) {
        out[other] = wave.vector(data)[lane];
      } else if ((wave.exec >> other & 1) != 0) {
        out[lane] = wave.vector(data)[other];
      }
    });
    eachLane(wave.exec, [&](unsigned lane) { wave.vector(to)[lane] = out[lane]; });
  };
}

// Where lane `lane` reads (DS_SWIZZLE_B32): four lanes in any order, or masks of the lane's five bits.
unsigned swizzled(const std::string &text, uint32_t offset, unsigned lane) {
  const size_t open = text.find("swizzle(");
  std::vector<unsigned> numbers;
  std::string mode;
  if (open != text.npos) {
    const size_t comma = text.find(',', open);
    mode = text.substr(open + 8, comma - open - 8);
    for (size_t at = comma; at < text.size() && text[at] == ','; at = text.find_first_of(",)", at + 1)) {
      unsigned value = 0;
      std::from_chars(text.data() + at + 1, text.data() + text.size(), value);
      numbers.push_back(value);
    }
  }
  const auto within = [&](unsigned group) { return lane & ~(group - 1); };
  if (mode == "QUAD_PERM") {
    return within(4) | numbers[lane & 3];
  }
  if (mode == "SWAP") {
    return lane ^ numbers[0];
  }
  if (mode == "REVERSE") {
    return within(numbers[0]) | (numbers[0] - 1 - (lane & (numbers[0] - 1)));
  }
  if (mode == "BROADCAST") {
    return within(numbers[0]) | numbers[1];
  }
  if (!mode.empty()) {
    throw Fault("unknown swizzle: " + text);
  }
  if ((offset & 0x8000) != 0) {
    return within(4) | (offset >> (2 * (lane & 3)) & 3);
  }
  return (lane & ~31U) | ((((lane & offset & 31) | (offset >> 5 & 31)) ^ (offset >> 10 & 31)) & 31);
}

Step makeSwizzle(const Instruction &in, unsigned lanes) {
  std::array<uint8_t, kMostLanes> from = {};
  for (unsigned lane = 0; lane < lanes; ++lane) {
    from[lane] = static_cast<uint8_t>(swizzled(in.modifiers, offsetOf(in, "offset"), lane));
  }
  return [from, to = registerOf(in.operands[0]).index, data = registerOf(in.operands[1]).index](Wave &wave) {
    std::array<uint32_t, kMostLanes> out = {};
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      out[lane] = (wave.exec >> from[lane] & 1) != 0 ? wave.vector(data)[from[lane]] : 0;
    }
    eachLane(wave.exec, [&](unsigned lane) { wave.vector(to)[lane] = out[lane]; });
  };
}

// An access to one place, or to two of the same size.
struct Access {
  unsigned address; // register
  std::vector<uint32_t> offsets;
  std::vector<Data> data;
};

Access parseAccess(const Instruction &in, const DataFormat &format, bool isLoad, bool isDouble, unsigned step) {
  Access access = {.address = registerOf(in.operands[isLoad ? 1 : 0]).index, .offsets = {}, .data = {}};
  if (!isDouble) {
    access.offsets = {offsetOf(in, "offset")};
    access.data.emplace_back(in.operands[isLoad ? 0 : 1], format);
    return access;
  }
  const Register first = registerOf(in.operands[isLoad ? 0 : 1]);
  for (unsigned i = 0; i < 2; ++i) {
    access.offsets.push_back(offsetOf(in, i == 0 ? "offset0" : "offset1") * step);
    const unsigned index = isLoad ? first.index + i * format.bytes / 4 : registerOf(in.operands[1 + i]).index;
    access.data.emplace_back(index < kFirstAcc ? "v" + std::to_string(index) : "a" + std::to_string(index - kFirstAcc), format);
  }
  return access;
}

// The same access, counted where one asks for it. Each of two places is an access.
Step counted(Step step, const Access &access, const Banks &banks) {
  return [=, step = std::move(step)](Wave &wave) {
    for (size_t i = 0; wave.group.counts != nullptr && i < access.data.size(); ++i) {
      std::array<uint32_t, kMostLanes> addresses;
      std::ranges::transform(wave.vector(access.address), wave.vector(access.address) + kMostLanes, addresses.begin(),
                             [&](uint32_t address) { return address + access.offsets[i]; });
      const unsigned conflicts = banks.conflicts(addresses, wave.exec);
      wave.group.counts->access(banks.cycles() + conflicts, conflicts);
    }
    step(wave);
  };
}

Step makeAccess(const Access &access, bool isLoad) {
  if (!isLoad) {
    return [access](Wave &wave) {
      for (size_t i = 0; i < access.data.size(); ++i) {
        eachLane(wave.exec, [&](unsigned lane) {
          const uint32_t address = wave.vector(access.address)[lane] + access.offsets[i];
          std::array<uint8_t, 16> bytes;
          access.data[i].store(wave, lane, bytes.data());
          std::memcpy(wave.group.shared.write(address, access.data[i].bytes()), bytes.data(), access.data[i].bytes());
        });
      }
    };
  }
  return [access](Wave &wave) {
    std::array<uint32_t, kMostLanes> addresses; // the address' register may be one of the data
    std::memcpy(addresses.data(), wave.vector(access.address), sizeof addresses);
    for (size_t i = 0; i < access.data.size(); ++i) {
      eachLane(wave.exec, [&](unsigned lane) {
        const uint32_t address = addresses[lane] + access.offsets[i];
        access.data[i].load(wave, lane, wave.group.shared.read(address, access.data[i].bytes()));
      });
    }
  };
}

// What a comparing store takes first, its own number or the one to compare with, changed with its name.
Step makeAtomic(const Instruction &in, const AtomicKind &kind) {
  const bool returns = in.name.find("_rtn_") != in.name.npos, comparesFirst = in.name.starts_with("ds_cmpst_");
  const size_t shift = returns ? 1 : 0;
  const unsigned old = registerOf(in.operands[0]).index, at = registerOf(in.operands[shift]).index, words = kind.bytes / 4;
  unsigned data = registerOf(in.operands[shift + 1]).index, compared = kind.compares ? registerOf(in.operands[shift + 2]).index : 0;
  if (comparesFirst) {
    std::swap(data, compared);
  }
  return [=, offset = offsetOf(in, "offset")](Wave &wave) {
    const auto number = [&](unsigned index, unsigned lane) {
      return wave.vector(index)[lane] | (words == 2 ? uint64_t{wave.vector(index + 1)[lane]} << 32 : 0);
    };
    Lanes before;
    eachLane(wave.exec, [&](unsigned lane) {
      const uint32_t address = wave.vector(at)[lane] + offset;
      before[lane] = 0;
      std::memcpy(&before[lane], wave.group.shared.read(address, kind.bytes), kind.bytes);
      const uint64_t own = number(data, lane);
      const uint64_t after = !kind.compares ? kind.f(before[lane], own) : before[lane] == number(compared, lane) ? own : before[lane];
      std::memcpy(wave.group.shared.write(address, kind.bytes), &after, kind.bytes);
    });
    for (unsigned word = 0; returns && word < words; ++word) {
      eachLane(wave.exec, [&](unsigned lane) { wave.vector(old + word)[lane] = static_cast<uint32_t>(before[lane] >> (32 * word)); });
    }
  };
}

// Eight bytes a lane, transposed within groups of 16 lanes (DS_READ_B64_TR_B16, DS_READ_B64_TR_B8): lane l's element j, of e, is the
// element l mod e of the lane 16 j / e + l / e.
template <class Element> Step makeTransposedRead(unsigned to, const Access &access) {
  constexpr unsigned kElements = 8 / sizeof(Element);
  return [=, at = access.address, offset = access.offsets[0]](Wave &wave) {
    std::array<std::array<Element, kElements>, kMostLanes> read, out;
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      std::memcpy(read[lane].data(), wave.group.shared.read(wave.vector(at)[lane] + offset, 8), 8);
    }
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      for (unsigned i = 0; i < kElements; ++i) {
        out[lane][i] = read[(lane & ~15U) + 16 / kElements * i + (lane & 15) / kElements][lane % kElements];
      }
    }
    eachLane(wave.exec, [&](unsigned lane) {
      std::memcpy(&wave.vector(to)[lane], out[lane].data(), 4);
      std::memcpy(&wave.vector(to + 1)[lane], &out[lane][kElements / 2], 4);
    });
  };
}

} // namespace

Step makeSharedStep(const Instruction &in, const Machine &machine) {
  if (!in.name.starts_with("ds_")) {
    return {};
  }
  std::string rest = in.name.substr(3);
  if (rest == "bpermute_b32" || rest == "permute_b32") {
    return makePermute(in);
  }
  if (rest == "swizzle_b32") {
    return makeSwizzle(in, machine.lanes);
  }
  if (rest == "read_b64_tr_b16" || rest == "read_b64_tr_b8") {
    const Access access = parseAccess(in, parseFormat("b64"), true, false, 1);
    const unsigned to = registerOf(in.operands[0]).index;
    Step step = rest.ends_with("b16") ? makeTransposedRead<uint16_t>(to, access) : makeTransposedRead<uint8_t>(to, access);
    return counted(std::move(step), access, Banks(machine, 8, true));
  }
  for (const std::string verb : {"load_", "read_", "store_", "write_", "read2_", "write2_", "load_2addr_", "store_2addr_", "read2st64_",
                                 "write2st64_", "load_2addr_stride64_", "store_2addr_stride64_"}) {
    if (!rest.starts_with(verb)) {
      continue;
    }
    const DataFormat format = parseFormat(rest.substr(verb.size()));
    if (format.bytes != 0) {
      const bool isLoad = verb[0] == 'l' || verb[0] == 'r', isDouble = verb.find('2') != verb.npos;
      const unsigned step = format.bytes * (verb.find("64") != verb.npos ? 64 : 1);
      const Access access = parseAccess(in, format, isLoad, isDouble, step);
      return counted(makeAccess(access, isLoad), access, Banks(machine, format.bytes, isLoad));
    }
  }
  const AtomicKind kind = parseAtomic(rest);
  return kind.bytes == 0 ? Step() : makeAtomic(in, kind);
}

} // namespace emulator
