// SPDX-License-Identifier: Apache-2.0
// Matrix instructions: MFMA (CDNA) and WMMA (RDNA), by where their elements lie (AMD's matrix instruction calculator and the ISA
// documents). Products are summed in double, or in integers, and rounded once: hardware's order of sums is not known, so that
// results are to be compared with a tolerance.
#include "tests/amd/matrix_step.h"

#include <cctype>
#include <cmath>

namespace emulator {

namespace {

enum class Elem { F16, Bf16, F32, F64, I8, U8, Fp8, Bf8 };

unsigned bitsOf(Elem elem) {
  return elem == Elem::F64 ? 64 : elem == Elem::F32 ? 32 : elem == Elem::F16 || elem == Elem::Bf16 ? 16 : 8;
}

double valueOf(uint64_t bits, Elem elem, bool isOcp) {
  switch (elem) {
  case Elem::F16: return fromHalf(static_cast<uint16_t>(bits));
  case Elem::Bf16: return fromBfloat(static_cast<uint16_t>(bits));
  case Elem::F32: return fromBits<float>(bits);
  case Elem::F64: return fromBits<double>(bits);
  case Elem::I8: return static_cast<int8_t>(bits);
  case Elem::U8: return static_cast<uint8_t>(bits);
  case Elem::Fp8: return fromFp8(static_cast<uint8_t>(bits), isOcp);
  case Elem::Bf8: return fromBf8(static_cast<uint8_t>(bits), isOcp);
  }
  return 0;
}

// Element `i` of those that a lane has from a register on.
uint64_t elementAt(const Wave &wave, unsigned first, unsigned lane, unsigned i, unsigned bits) {
  const unsigned bit = i * bits;
  const uint32_t *word = wave.vector(first + bit / 32);
  return bits == 64   ? word[lane] | uint64_t{wave.vector(first + bit / 32 + 1)[lane]} << 32
         : bits == 32 ? word[lane] : word[lane] >> (bit % 32) & ((1U << bits) - 1);
}

std::optional<Elem> elemOf(std::string_view name) {
  constexpr std::pair<std::string_view, Elem> kNames[] = {{"f16", Elem::F16}, {"bf16", Elem::Bf16}, {"f32", Elem::F32},
                                                         {"xf32", Elem::F32}, {"f64", Elem::F64},   {"i8", Elem::I8},
                                                         {"fp8", Elem::Fp8},  {"bf8", Elem::Bf8}};
  for (const auto &[known, elem] : kNames) {
    if (name == known) {
      return elem;
    }
  }
  return std::nullopt;
}

// What an instruction multiplies: `blocks` products of m x k and k x n.
struct Shape {
  unsigned m, n, k, blocks;
  Elem a, b;
  Elem accumulator; // I8 stands for integers of 32 bits
};

unsigned sumBits(Elem accumulator) { return accumulator == Elem::I8 ? 32 : bitsOf(accumulator); }

// The places of an instruction's elements. `lane` and `i`, an element of that lane: row, column, block.
struct Place {
  unsigned row, column, block;
};

std::vector<std::string> wordsOf(const std::string &name) {
  std::vector<std::string> words;
  for (size_t from = 0; from <= name.size();) {
    const size_t end = std::min(name.find('_', from), name.size());
    words.push_back(name.substr(from, end - from));
    from = end + 1;
  }
  return words;
}

// "v_mfma_f32_32x32x8_f16", "v_mfma_f32_4x4x4_16b_f16", "v_mfma_f32_16x16x32_fp8_bf8", "v_mfma_f32_32x32x8_bf16_1k"
std::optional<Shape> parseShape(const std::string &name) {
  std::vector<std::string> words = wordsOf(name);
  // CDNA 2 writes the type right behind the shape: 32x32x8f16.
  if (words.size() >= 4) {
    const size_t end = words[3].find_first_not_of("0123456789x");
    if (end != words[3].npos) {
      words.insert(words.begin() + 4, words[3].substr(end));
      words[3].resize(end);
    }
  }
  if (words.size() < 5) {
    return std::nullopt;
  }
  Shape shape = {.m = 0, .n = 0, .k = 0, .blocks = 1, .a = Elem::F32, .b = Elem::F32, .accumulator = Elem::I8};
  if (words[2] != "i32") {
    shape.accumulator = elemOf(words[2]).value_or(Elem::F32);
  }
  if (std::sscanf(words[3].c_str(), "%ux%ux%u", &shape.m, &shape.n, &shape.k) != 3) {
    return std::nullopt;
  }
  size_t at = 4;
  if (words[at].ends_with("b") && std::isdigit(static_cast<unsigned char>(words[at][0])) != 0) {
    shape.blocks = static_cast<unsigned>(std::stoi(words[at++]));
  }
  if (words[at] == "f8f6f4") { // the caller says which
    return shape;
  }
  const std::string first = words[at] == "iu8" ? "i8" : words[at], second = at + 1 < words.size() && words[at + 1] != "1k" ? words[at + 1] : first;
  const auto a = elemOf(first), b = elemOf(second);
  if (!a || !b) {
    return std::nullopt;
  }
  shape.a = *a;
  shape.b = *b;
  return shape;
}

// The sums that an instruction starts with, and ends with: in registers, or one constant for all.
class Accumulator {
public:
  Accumulator(const Instruction &in, Elem type) : type_(type), bits_(sumBits(type)) {
    to_ = registerOf(in.operands[0]).index;
    const std::string &text = in.operands.size() > 3 ? in.operands[3] : in.operands[0];
    if (const auto found = parseRegister(text)) {
      from_ = found->index;
    } else {
      constant_ = constantBits(text, {static_cast<uint8_t>(bits_), Kind::Bits});
    }
  }
  [[nodiscard]] double read(const Wave &wave, unsigned lane, unsigned i) const {
    const uint64_t bits = from_ ? bitsAt(wave, lane, i) : constant_;
    const double number = type_ == Elem::I8 ? static_cast<int32_t>(bits) : valueOf(bits, type_, true);
    return isNegated ? -number : number;
  }
  void write(Wave &wave, unsigned lane, unsigned i, double sum) const {
    if (bits_ == 64) {
      const uint64_t out = toBits(sum);
      wave.vector(to_ + 2 * i)[lane] = static_cast<uint32_t>(out);
      wave.vector(to_ + 2 * i + 1)[lane] = static_cast<uint32_t>(out >> 32);
    } else if (bits_ == 32) {
      wave.vector(to_ + i)[lane] = type_ == Elem::F32 ? static_cast<uint32_t>(toBits(static_cast<float>(sum)))
                                                      : static_cast<uint32_t>(static_cast<int64_t>(sum));
    } else {
      const unsigned place = packs ? i / 2 : i, shift = packs ? 16 * (i & 1) : isHigh ? 16 : 0;
      uint32_t &word = wave.vector(to_ + place)[lane];
      const uint32_t half = type_ == Elem::F16 ? toHalf(sum) : toBfloat(static_cast<float>(sum));
      word = (word & ~(0xffffU << shift)) | half << shift;
    }
  }
  bool packs = false;  // two numbers of 16 bits a register (gfx12)
  bool isHigh = false; // the upper halves of registers (gfx11)
  bool isNegated = false; // what is added to

private:
  [[nodiscard]] uint64_t bitsAt(const Wave &wave, unsigned lane, unsigned i) const {
    if (bits_ == 16) {
      const unsigned place = packs ? i / 2 : i, shift = packs ? 16 * (i & 1) : isHigh ? 16 : 0;
      return wave.vector(*from_ + place)[lane] >> shift & 0xffff;
    }
    return elementAt(wave, *from_, lane, i, bits_);
  }

  Elem type_;
  unsigned bits_, to_ = 0;
  std::optional<unsigned> from_;
  uint64_t constant_ = 0;
};

using PlaceOf = std::function<Place(unsigned lane, unsigned i)>;

// One matrix instruction, with the places of all elements that lanes have: `perLane` of a and of b, and sums. Rows of a, and
// columns of b, lie side by side while it runs.
class Product {
public:
  Product(const Shape &shape, const Instruction &in, const Machine &machine, unsigned perLane, unsigned sumsPerLane)
      : shape_(shape), a_(registerOf(in.operands[1]).index), b_(registerOf(in.operands[2]).index), lanes_(machine.lanes),
        perLane_(perLane), sumsPerLane_(sumsPerLane), isOcp_(machine.hasOcpFloats()) {}

  // a: row, k; b: k, column.
  void place(const PlaceOf &ofA, const PlaceOf &ofB, const PlaceOf &ofSum) {
    const auto [m, n, k, blocks, elemA, elemB, type] = shape_;
    for (unsigned lane = 0; lane < lanes_; ++lane) {
      for (unsigned i = 0; i < perLane_; ++i) {
        const Place p = ofA(lane, i), q = ofB(lane, i);
        left_.push_back((p.block * m + p.row) * k + p.column);
        right_.push_back((q.block * n + q.column) * k + q.row);
      }
      for (unsigned i = 0; i < sumsPerLane_; ++i) {
        const Place p = ofSum(lane, i);
        rows_.push_back((p.block * m + p.row) * k);
        columns_.push_back((p.block * n + p.column) * k);
      }
    }
  }

  void run(Wave &wave, const Accumulator &sums) const {
    thread_local std::vector<double> left, right, out;
    const auto [m, n, k, blocks, elemA, elemB, type] = shape_;
    left.assign(size_t{blocks} * m * k, 0);
    right.assign(size_t{blocks} * k * n, 0);
    out.resize(rows_.size());
    for (unsigned lane = 0, at = 0; lane < lanes_; ++lane) {
      for (unsigned i = 0; i < perLane_; ++i, ++at) {
        left[left_[at]] = valueOf(elementAt(wave, a_, lane, i, bitsOf(elemA)), elemA, isOcp_);
        right[right_[at]] = valueOf(elementAt(wave, b_, lane, i, bitsOf(elemB)), elemB, isOcp_);
      }
    }
    for (unsigned lane = 0, at = 0; lane < lanes_; ++lane) {
      for (unsigned i = 0; i < sumsPerLane_; ++i, ++at) {
        double sum = sums.read(wave, lane, i);
        const double *x = &left[rows_[at]], *y = &right[columns_[at]];
        for (unsigned j = 0; j < k; ++j) {
          sum = type == Elem::F64 ? std::fma(x[j], y[j], sum) : sum + x[j] * y[j];
        }
        out[at] = sum;
      }
    }
    for (unsigned lane = 0, at = 0; lane < lanes_; ++lane) {
      for (unsigned i = 0; i < sumsPerLane_; ++i, ++at) {
        sums.write(wave, lane, i, out[at]);
      }
    }
  }

private:
  Shape shape_;
  unsigned a_, b_; // registers
  unsigned lanes_, perLane_, sumsPerLane_;
  bool isOcp_;
  std::vector<uint32_t> left_, right_, rows_, columns_; // by lane and element
};

// Of operands whose formats are numbers of the instruction, those of 8 bits.
std::optional<Elem> formatOf(int64_t number) {
  return number == 0 ? std::optional(Elem::Fp8) : number == 1 ? std::optional(Elem::Bf8) : std::nullopt;
}

Step makeMfma(const Instruction &in, const Machine &machine) {
  auto shape = parseShape(in.name);
  const int64_t first = in.number("cbsz").value_or(0), second = in.number("blgp").value_or(0);
  const bool ofFormats = in.name.ends_with("f8f6f4");
  if (!shape || in.number("abid").value_or(0) != 0 || (!ofFormats && (first != 0 || second != 0))) {
    return {};
  }
  if (ofFormats) {
    const auto a = formatOf(first), b = formatOf(second);
    if (!a || !b) {
      return {};
    }
    shape->a = *a;
    shape->b = *b;
    shape->accumulator = Elem::F32;
  }
  const unsigned m = shape->m, k = shape->k, blocks = shape->blocks;
  const unsigned groups = 64 / (m * blocks); // of lanes, along k
  const unsigned perLane = k / groups, run = ofFormats ? 16 : perLane;
  Product product(*shape, in, machine, perLane, m * m * blocks / 64);
  // A lane has one row of one block, and runs along k: lanes go through rows, blocks, then k, and a next run lies behind all lanes'.
  const auto along = [=](unsigned lane, unsigned i) { return i / run * run * groups + lane / (m * blocks) * run + i % run; };
  const PlaceOf ofA = [=](unsigned lane, unsigned i) { return Place{lane % m, along(lane, i), lane / m % blocks}; };
  const PlaceOf ofB = [=](unsigned lane, unsigned i) { return Place{along(lane, i), lane % m, lane / m % blocks}; };
  const bool isDouble = shape->accumulator == Elem::F64;
  product.place(ofA, ofB, [=](unsigned lane, unsigned i) {
    if (isDouble && m == 16) {
      return Place{i * 4 + lane / 16, lane % 16, 0};
    }
    if (m == 4) { // a block a group of four lanes, or in doubles one of sixteen
      return isDouble ? Place{lane / 16, lane % 4, lane / 4 % 4} : Place{i, lane % 4, lane / 4};
    }
    // Runs of four rows: groups of lanes, then registers, then blocks.
    const unsigned sumsOfBlock = m * m / 64, within = i % sumsOfBlock;
    return Place{within / 4 * (4 * (64 / m)) + lane / m * 4 + within % 4, lane % m, i / sumsOfBlock};
  });
  return [product, sums = Accumulator(in, shape->accumulator)](Wave &wave) { product.run(wave, sums); };
}

Step makeWmma(const Instruction &in, const Machine &machine) {
  auto shape = parseShape(in.name);
  if (!shape || machine.lanes != 32 || shape->m != 16 || shape->n != 16) {
    return {};
  }
  // Of integers neg_lo says which are signed. Of floats it negates, of pairs the lower ones and neg_hi the upper ones.
  const auto low = in.list("neg_lo", 3, 0), high = in.list("neg_hi", 3, 0);
  const bool ofIntegers = shape->a == Elem::I8, isNegated = !ofIntegers && low[2] != 0;
  if (ofIntegers) {
    shape->a = low[0] != 0 ? Elem::I8 : Elem::U8;
    shape->b = low[1] != 0 ? Elem::I8 : Elem::U8;
  } else if (low[0] != 0 || low[1] != 0 || high != std::vector<int>{0, 0, isNegated && sumBits(shape->accumulator) == 16 ? 1 : 0}) {
    throw Fault("negated operands are not emulated: " + in.text);
  }
  const unsigned k = shape->k;
  const bool isNew = machine.isGfx12;
  Product product(*shape, in, machine, isNew ? k / 2 : k, 8);
  // gfx11: both halves of a wave hold the same; gfx12: each half has half of the run along k.
  const auto along = [=](unsigned lane, unsigned i) { return isNew ? lane / 16 * (k / 2) + i : i; };
  product.place([=](unsigned lane, unsigned i) { return Place{lane % 16, along(lane, i), 0}; },
                [=](unsigned lane, unsigned i) { return Place{along(lane, i), lane % 16, 0}; },
                [=](unsigned lane, unsigned i) { return Place{isNew ? i + 8 * (lane / 16) : 2 * i + lane / 16, lane % 16, 0}; });
  Accumulator sums(in, shape->accumulator);
  sums.packs = isNew;
  sums.isNegated = isNegated;
  sums.isHigh = in.list("op_sel", 3, 0)[2] != 0;
  return [product, sums](Wave &wave) { product.run(wave, sums); };
}

} // namespace

Step makeMatrixStep(const Instruction &in, const Machine &machine) {
  return in.name.starts_with("v_mfma_")   ? makeMfma(in, machine)
         : in.name.starts_with("v_wmma_") ? makeWmma(in, machine)
                                          : Step();
}

} // namespace emulator
