// SPDX-License-Identifier: Apache-2.0
// Instructions of which a lane's operand holds several numbers: two halves, two floats in neighbouring registers, floats of 8 bits.
#include "tests/amd/float_ops.h"
#include "tests/amd/vector_step.h"
#include "tests/amd/vector_table.h"

namespace emulator {

namespace {

// The text of a register's neighbour: "v[2:3]" -> "v2" or "v3". Constants are the same for both.
std::string halfOf(const std::string &text, unsigned which) {
  const auto found = parseRegister(text);
  if (!found) {
    return text;
  }
  if (!found->isVector) {
    const unsigned index = found->index + which;
    return index == kVcc ? "vcc_lo" : index == kVcc + 1 ? "vcc_hi" : "s" + std::to_string(index);
  }
  const unsigned index = found->index + which;
  return index < kFirstAcc ? "v" + std::to_string(index) : "a" + std::to_string(index - kFirstAcc);
}

// v_pk_*_f32 and v_pk_mov_b32: op_sel and op_sel_hi choose the registers that the two results are made of.
Step makeTwoFloats(const Instruction &in, const Machine &machine, const VectorOp &op) {
  const size_t count = op.sources.size();
  const char *choices[] = {"op_sel", "op_sel_hi"}, *negations[] = {"neg_lo", "neg_hi"};
  std::vector<Source> sources[2];
  std::vector<Destination> destinations;
  for (unsigned part = 0; part < 2; ++part) {
    const auto chosen = in.list(choices[part], count, static_cast<int>(part)), negated = in.list(negations[part], count, 0);
    for (size_t i = 0; i < count; ++i) {
      sources[part].emplace_back(halfOf(in.operands[i + 1], static_cast<unsigned>(chosen[i])), op.sources[i]);
      if (negated[i] != 0) {
        sources[part].back().negate();
      }
    }
    destinations.emplace_back(halfOf(in.operands[0], part), op.result);
  }
  return [op = &op, low = sources[0], high = sources[1], destinations](Wave &wave) {
    std::array<Lanes, 3> values;
    Lanes out[2];
    for (unsigned part = 0; part < 2; ++part) {
      const std::vector<Source> &from = part == 0 ? low : high;
      for (size_t i = 0; i < from.size(); ++i) {
        from[i].read(wave, values[i]);
      }
      op->run(values.data(), out[part], wave.lanes);
    }
    destinations[0].write(wave, out[0], wave.exec);
    destinations[1].write(wave, out[1], wave.exec);
  };
}

// v_pk_*_f16 and those of integers of 16 bits.
Step makeTwoHalves(const Instruction &in, const Machine &machine, const VectorOp &op) {
  const size_t count = op.sources.size();
  const char *choices[] = {"op_sel", "op_sel_hi"}, *negations[] = {"neg_lo", "neg_hi"};
  std::vector<Source> sources[2];
  for (unsigned part = 0; part < 2; ++part) {
    const auto chosen = in.list(choices[part], count, static_cast<int>(part)), negated = in.list(negations[part], count, 0);
    for (size_t i = 0; i < count; ++i) {
      sources[part].emplace_back(in.operands[i + 1], op.sources[i], chosen[i] != 0);
      if (negated[i] != 0) {
        sources[part].back().negate();
      }
    }
  }
  if (in.has("clamp") && op.result.kind != Kind::Float) {
    throw Fault("clamp is not emulated for integers: " + in.text);
  }
  const bool clamps = in.has("clamp");
  return [op = &op, low = sources[0], high = sources[1], clamps, destination = Destination(in.operands[0], typeOf<uint32_t>())](Wave &wave) {
    std::array<Lanes, 3> values;
    Lanes out[2];
    const Rounding rounding(wave.mode.round1664());
    for (unsigned part = 0; part < 2; ++part) {
      const std::vector<Source> &from = part == 0 ? low : high;
      for (size_t i = 0; i < from.size(); ++i) {
        from[i].read(wave, values[i]);
      }
      op->run(values.data(), out[part], wave.lanes);
    }
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      for (Lanes &part : out) {
        const double value = clamps ? fromHalf(static_cast<uint16_t>(part[lane])) : 0;
        part[lane] = !clamps ? part[lane] : value > 0 ? toHalf(std::min(value, 1.0)) : 0;
      }
      out[0][lane] |= out[1][lane] << 16;
    }
    destination.write(wave, out[0], wave.exec);
  };
}

// Sums of products of two halves, into a float.
Step makeDot(const Instruction &in, const Machine &machine, bool isBfloat) {
  const std::string accumulator = in.operands.size() > 3 ? in.operands[3] : in.operands[0];
  return [isBfloat, a = Source(in.operands[1], typeOf<uint32_t>()), b = Source(in.operands[2], typeOf<uint32_t>()),
          c = Source(accumulator, typeOf<float>()), destination = Destination(in.operands[0], typeOf<float>())](Wave &wave) {
    Lanes x, y, z;
    a.read(wave, x);
    b.read(wave, y);
    c.read(wave, z);
    const auto part = [&](uint64_t word, unsigned shift) {
      const auto bits = static_cast<uint16_t>(word >> shift);
      return isBfloat ? double{fromBfloat(bits)} : fromHalf(bits);
    };
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      const double sum = part(x[lane], 0) * part(y[lane], 0) + part(x[lane], 16) * part(y[lane], 16);
      z[lane] = toBits(static_cast<float>(sum + fromBits<float>(z[lane])));
    }
    destination.write(wave, z, wave.exec);
  };
}

// To and from floats of 8 bits: which byte or half of a register is op_sel's or SDWA's.
Step makeFromByte(const Instruction &in, const Machine &machine, bool isBf8) {
  const bool isOcp = machine.hasOcpFloats();
  const auto selected = in.list("op_sel", 2, 0);
  const unsigned byte = in.hasSdwa ? parsePart(in.value("src0_sel")).shift
                        : in.number("byte_sel") ? static_cast<unsigned>(8 * *in.number("byte_sel"))
                                                : static_cast<unsigned>(8 * (selected[0] * 2 + selected[1]));
  return [=, source = Source(in.operands[1], typeOf<uint32_t>()), destination = Destination(in.operands[0], typeOf<float>())](Wave &wave) {
    Lanes values;
    source.read(wave, values);
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      const auto bits = static_cast<uint8_t>(values[lane] >> byte);
      values[lane] = toBits(isBf8 ? fromBf8(bits, isOcp) : fromFp8(bits, isOcp));
    }
    destination.write(wave, values, wave.exec);
  };
}

Step makeFromTwoBytes(const Instruction &in, const Machine &machine, bool isBf8) {
  const bool isOcp = machine.hasOcpFloats();
  const unsigned shift = in.hasSdwa ? parsePart(in.value("src0_sel")).shift : in.list("op_sel", 1, 0)[0] != 0 ? 16 : 0;
  return [=, source = Source(in.operands[1], typeOf<uint32_t>()), destination = Destination(in.operands[0], typeOf<uint64_t>())](Wave &wave) {
    Lanes values;
    source.read(wave, values);
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      const auto value = [&](unsigned at) {
        const auto bits = static_cast<uint8_t>(values[lane] >> (shift + at));
        return toBits(isBf8 ? fromBf8(bits, isOcp) : fromFp8(bits, isOcp));
      };
      values[lane] = value(0) | value(8) << 32;
    }
    destination.write(wave, values, wave.exec);
  };
}

Step makeToTwoBytes(const Instruction &in, const Machine &machine, bool isBf8) {
  const bool isOcp = machine.hasOcpFloats();
  const bool isHigh = registerOf(in.operands[0]).isHigh || in.list("op_sel", 3, 0)[2] != 0;
  return [=, sources = Sources(in, machine, 1, {typeOf<float>(), typeOf<float>()}),
          destination = Destination(in.operands[0], typeOf<uint16_t>(), isHigh)](Wave &wave) {
    std::array<Lanes, 2> values;
    const Mask mask = sources.read(wave, values.data());
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      const auto code = [&](unsigned i) {
        const auto value = fromBits<float>(values[i][lane]);
        return uint64_t{isBf8 ? toBf8(value, isOcp, false) : toFp8(value, isOcp, false)};
      };
      values[0][lane] = code(0) | code(1) << 8;
    }
    destination.write(wave, values[0], mask);
  };
}

} // namespace

Step makePacked(const Instruction &in, const Machine &machine) {
  if (in.name.starts_with("v_dot2") && in.name.find("_f32_") != in.name.npos) {
    return makeDot(in, machine, in.name.ends_with("bf16"));
  }
  if (!in.name.starts_with("v_pk_")) {
    return {};
  }
  std::string base = "v_" + in.name.substr(5);
  const bool hasHalves = base.ends_with("16");
  Instruction whole = in;
  if (base == "v_fmac_f16" && in.operands.size() == 3) {
    whole.operands.push_back(in.operands[0]);
  }
  const VectorOp *op = vectorTable().find(base);
  if (op == nullptr) {
    return {};
  }
  if (base == "v_mov_b32") {
    // Each result has a source of its own: the first one's is the first operand.
    static const VectorOp first = {typeOf<uint32_t>(), {typeOf<uint32_t>(), typeOf<uint32_t>()},
                                   [](const Lanes *, Lanes &, unsigned) {}};
    const auto low = in.list("op_sel", 2, 0);
    Destination destinations[] = {Destination(halfOf(in.operands[0], 0), first.result), Destination(halfOf(in.operands[0], 1), first.result)};
    return [a = Source(halfOf(in.operands[1], static_cast<unsigned>(low[0])), first.result),
            b = Source(halfOf(in.operands[2], static_cast<unsigned>(low[1])), first.result), x = destinations[0], y = destinations[1]](Wave &wave) {
      Lanes p, q;
      a.read(wave, p);
      b.read(wave, q);
      x.write(wave, p, wave.exec);
      y.write(wave, q, wave.exec);
    };
  }
  return hasHalves ? makeTwoHalves(whole, machine, *op) : makeTwoFloats(whole, machine, *op);
}

// Multiply-adds in floats whose sources may be halves: op_sel_hi says that they are, op_sel which.
Step makeMixed(const Instruction &in, const Machine &machine) {
  const bool toLow = in.name == "v_fma_mixlo_f16", toHigh = in.name == "v_fma_mixhi_f16";
  if (!toLow && !toHigh && in.name != "v_fma_mix_f32") {
    return {};
  }
  const auto isHalf = in.list("op_sel_hi", 3, 0), isHigh = in.list("op_sel", 3, 0);
  std::vector<Source> sources;
  for (size_t i = 0; i < 3; ++i) {
    sources.emplace_back(in.operands[i + 1], isHalf[i] != 0 ? typeOf<Half>() : typeOf<float>(), isHigh[i] != 0);
  }
  const Type type = toLow || toHigh ? typeOf<Half>() : typeOf<float>();
  return [=, result = Result(in, machine, type, toHigh)](Wave &wave) {
    std::array<Lanes, 3> values;
    for (size_t i = 0; i < 3; ++i) {
      sources[i].read(wave, values[i]);
      for (unsigned lane = 0; isHalf[i] != 0 && lane < wave.lanes; ++lane) {
        values[i][lane] = toBits(static_cast<float>(fromHalf(static_cast<uint16_t>(values[i][lane]))));
      }
    }
    for (unsigned lane = 0; lane < wave.lanes; ++lane) {
      const auto number = [&](size_t i) { return fromBits<float>(values[i][lane]); };
      values[0][lane] = type.bits == 16 ? toHalf(sumToOdd(double{number(0)} * number(1), number(2))) : toBits(std::fma(number(0), number(1), number(2)));
    }
    result.write(wave, values[0], wave.exec);
  };
}

Step makeSmallFloat(const Instruction &in, const Machine &machine) {
  const bool isBf8 = in.name.find("bf8") != in.name.npos;
  if (in.name == "v_cvt_f32_fp8" || in.name == "v_cvt_f32_bf8") {
    return makeFromByte(in, machine, isBf8);
  }
  if (in.name == "v_cvt_pk_f32_fp8" || in.name == "v_cvt_pk_f32_bf8") {
    return makeFromTwoBytes(in, machine, isBf8);
  }
  if (in.name == "v_cvt_pk_fp8_f32" || in.name == "v_cvt_pk_bf8_f32") {
    return makeToTwoBytes(in, machine, isBf8);
  }
  return {};
}

} // namespace emulator
