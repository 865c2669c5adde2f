// SPDX-License-Identifier: Apache-2.0
// Instructions between lanes, or between lanes and scalar registers.
#include "tests/amd/vector_step.h"
#include "tests/amd/vector_table.h"

namespace emulator {

namespace {

Step makeReadLane(const Instruction &in, const Machine &) {
  const bool isFirst = in.name == "v_readfirstlane_b32";
  const ScalarSource which(isFirst ? "0" : in.operands[2], 32);
  return [=, source = registerOf(in.operands[1]), destination = ScalarDestination(in.operands[0], 32)](Wave &wave) {
    const unsigned lane = !isFirst ? static_cast<unsigned>(which.read(wave)) % wave.lanes
                          : wave.exec == 0 ? 0 : static_cast<unsigned>(std::countr_zero(wave.exec));
    destination.write(wave, source.isVector ? wave.vector(source.index)[lane] : wave.scalar(source.index));
  };
}

Step makeWriteLane(const Instruction &in, const Machine &) {
  return [value = ScalarSource(in.operands[1], 32), which = ScalarSource(in.operands[2], 32),
          index = registerOf(in.operands[0]).index](Wave &wave) {
    wave.vector(index)[which.read(wave) % wave.lanes] = static_cast<uint32_t>(value.read(wave));
  };
}

// Bits of a mask below each lane.
Step makeCountBelow(const Instruction &in, const Machine &machine) {
  const bool isUpper = in.name == "v_mbcnt_hi_u32_b32";
  return [isUpper, sources = Sources(in, machine, 1, {typeOf<uint32_t>(), typeOf<uint32_t>()}),
          destination = Destination(in.operands[0], typeOf<uint32_t>())](Wave &wave) {
    std::array<Lanes, 2> values;
    const Mask mask = sources.read(wave, values.data());
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      const unsigned first = isUpper ? 32 : 0;
      const unsigned below = lane <= first ? 0 : std::min(lane - first, 32U);
      const uint64_t bits = below == 32 ? 0xffffffff : (uint64_t{1} << below) - 1;
      values[0][lane] = values[1][lane] + static_cast<uint64_t>(std::popcount(values[0][lane] & bits));
    }
    destination.write(wave, values[0], mask);
  };
}

// Within rows of 16 lanes, or from the other row of two; four bits of two scalars choose each lane's source.
Step makePermuteRows(const Instruction &in, const Machine &) {
  const unsigned other = in.name == "v_permlanex16_b32" ? 16 : 0;
  return [other, source = Source(in.operands[1], typeOf<uint32_t>()), low = ScalarSource(in.operands[2], 32),
          high = ScalarSource(in.operands[3], 32), destination = Destination(in.operands[0], typeOf<uint32_t>())](Wave &wave) {
    Lanes values, out;
    source.read(wave, values);
    const uint64_t choice = low.read(wave) | high.read(wave) << 32;
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      out[lane] = values[((lane & ~15U) ^ other) | (choice >> (4 * (lane & 15)) & 15)];
    }
    destination.write(wave, out, wave.exec);
  };
}

// The odd groups of 16 or 32 lanes of one register, exchanged with the even ones of another.
Step makeSwapGroups(const Instruction &in, const Machine &) {
  const unsigned group = in.name == "v_permlane32_swap_b32" ? 32 : 16;
  return [group, a = registerOf(in.operands[0]).index, b = registerOf(in.operands[1]).index](Wave &wave) {
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      if ((lane & group) == 0) {
        std::swap(wave.vector(a)[lane + group], wave.vector(b)[lane]);
      }
    }
  };
}

Step makeSwap(const Instruction &in, const Machine &) {
  return [a = registerOf(in.operands[0]).index, b = registerOf(in.operands[1]).index](Wave &wave) {
    eachLane(wave.exec, [&](unsigned lane) { std::swap(wave.vector(a)[lane], wave.vector(b)[lane]); });
  };
}

// Of two halves of registers.
Step makeSwapHalves(const Instruction &in, const Machine &) {
  const Register a = registerOf(in.operands[0]), b = registerOf(in.operands[1]);
  return [a, b, shiftA = a.isHigh ? 16 : 0, shiftB = b.isHigh ? 16 : 0](Wave &wave) {
    eachLane(wave.exec, [&](unsigned lane) {
      uint32_t &x = wave.vector(a.index)[lane], &y = wave.vector(b.index)[lane];
      const uint32_t difference = (x >> shiftA ^ y >> shiftB) & 0xffff;
      x ^= difference << shiftA;
      y ^= difference << shiftB;
    });
  };
}

// Any function of three bits: its table of eight is an operand.
Step makeAnyLogic(const Instruction &in, const Machine &machine) {
  const auto table = static_cast<unsigned>(in.number("bitop3").value_or(0));
  const Type type = in.name.ends_with("16") ? typeOf<uint16_t>() : typeOf<uint32_t>();
  return [=, sources = Sources(in, machine, 1, {type, type, type}), result = Result(in, machine, type)](Wave &wave) {
    std::array<Lanes, 3> values;
    const Mask mask = sources.read(wave, values.data());
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      uint64_t out = 0;
      for (unsigned i = 0; i < 8; ++i) {
        if ((table >> i & 1) != 0) {
          out |= ((i & 4) != 0 ? values[0][lane] : ~values[0][lane]) & ((i & 2) != 0 ? values[1][lane] : ~values[1][lane]) &
                 ((i & 1) != 0 ? values[2][lane] : ~values[2][lane]);
        }
      }
      values[0][lane] = out;
    }
    result.write(wave, values[0], mask);
  };
}

// v_s_exp_f32 and its like: a function of one number, on scalar registers.
Step makeScalarFunction(const Instruction &in, const Machine &) {
  const VectorOp *op = vectorTable().find("v_" + in.name.substr(4));
  if (op == nullptr) {
    return {};
  }
  return [op, source = ScalarSource(in.operands[1], 32), destination = ScalarDestination(in.operands[0], 32)](Wave &wave) {
    Lanes value, out;
    value[0] = source.read(wave);
    op->run(&value, out, 1);
    destination.write(wave, out[0]);
  };
}

} // namespace

Step makeAcrossLanes(const Instruction &in, const Machine &machine) {
  const std::string &name = in.name;
  return name == "v_readlane_b32" || name == "v_readfirstlane_b32"           ? makeReadLane(in, machine)
         : name == "v_writelane_b32"                                         ? makeWriteLane(in, machine)
         : name.starts_with("v_mbcnt_")                                      ? makeCountBelow(in, machine)
         : name == "v_permlane16_b32" || name == "v_permlanex16_b32"         ? makePermuteRows(in, machine)
         : name == "v_permlane16_swap_b32" || name == "v_permlane32_swap_b32" ? makeSwapGroups(in, machine)
         : name == "v_swap_b16"                                              ? makeSwapHalves(in, machine)
         : name == "v_swap_b32"                                              ? makeSwap(in, machine)
         : name.starts_with("v_bitop3_b")                                    ? makeAnyLogic(in, machine)
         : name.starts_with("v_s_")                                          ? makeScalarFunction(in, machine)
                                                                             : Step();
}

} // namespace emulator
