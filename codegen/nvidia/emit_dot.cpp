// SPDX-License-Identifier: Apache-2.0
// Dots by matrix instructions.
//
// mma.sync: operands and accumulator are fragments (codegen/gpu/fragment_dot.h).
//
// wgmma: operands lie in shared memory (passes/gpu/matrix_buffers.h), or a in registers, and one text (wgmma.h) has
// the instructions of the whole dot. Into a place it starts them only: the place's registers are declared and named
// by PTX text, so that LLVM has nothing to copy while they are under way.
#include "codegen/nvidia/nvidia_emitter.h"

#include "codegen/gpu/fragment_dot.h"
#include "codegen/nvidia/wgmma.h"
#include "codegen/require_pass.h"
#include "ir/ops.h"
#include "ir/places.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/plan_dots.h"

#include <algorithm>
#include <map>

namespace libtile::codegen::nvidia {

using ir::HwDim;

namespace {

struct MmaInstruction {
  std::string_view unit;
  const char *shape;
  int32_t depth; // along k: one or several steps of the unit
  int32_t capability = 80; // from which one on
};

// Not given a word of b that ptxas may know: one that ldmatrix has not just read.
constexpr const char *kHalvesBy8 = "m16n8k8.row.col.f32.f16.f16.f32";

const MmaInstruction &instructionOf(const ir::DotUnit &unit, int32_t capability) {
  static constexpr MmaInstruction kInstructions[] = {
      {"mma_m16n8k16_f16", "m16n8k16.row.col.f32.f16.f16.f32", 16},
      {"mma_m16n8k16_bf16", "m16n8k16.row.col.f32.bf16.bf16.f32", 16},
      {"mma_m16n8k32_i8", "m16n8k32.row.col.s32.s8.s8.s32", 32},
      {"mma_m16n8k8_tf32", "m16n8k8.row.col.f32.tf32.tf32.f32", 8},
      // Of twice the depth, for two steps or one with zeros: ptxas (12.9 to 13.5) takes a constant b of m16n8k8 for a
      // float when it negates it, so that one of its two elements keeps the wrong sign.
      {"mma_m16n8k8_f16", "m16n8k16.row.col.f32.f16.f16.f32", 16},
      {"mma_m16n8k8_bf16", "m16n8k16.row.col.f32.bf16.bf16.f32", 16},
      {"mma_m16n8k16_i8", "m16n8k16.row.col.s32.s8.s8.s32", 16},
      {"mma_m16n8k4_tf32", "m16n8k4.row.col.f32.tf32.tf32.f32", 4},
      {"mma_m8n8k4_f64", "m8n8k4.row.col.f64.f64.f64.f64", 4},
      {"mma_m16n8k8_f16", kHalvesBy8, 8, 75},
      {"mma_m8n8k16_i8", "m8n8k16.row.col.s32.s8.s8.s32", 16, 75},
  };
  for (const MmaInstruction &each : kInstructions) {
    if (each.unit == unit.name && each.capability <= capability) {
      return each;
    }
  }
  throw ir::InternalError("no instruction for the unit " + unit.name);
}

// What the registers of a place are called in PTX text, but for their number.
std::string placeName(const ir::Function &fn, ir::ValueId place) {
  return "place" + std::to_string(ir::placeOf(fn, place).index) + "_";
}

// Between a place's registers and operands: one text for all, since each costs the back end as much as an instruction of many.
std::string movesOf(const std::string &place, size_t count, bool writes) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    const std::string number = std::to_string(i), name = place + number;
    text += (i == 0 ? "mov.b32 " : "\n\tmov.b32 ") + (writes ? name + ", $" + number : "$" + number + ", " + name) + ";";
  }
  return text;
}

std::string commaSeparated(size_t count, const char *constraint) {
  std::string list;
  for (size_t i = 0; i < count; ++i) {
    list += (i == 0 ? "" : ",") + std::string(constraint);
  }
  return list;
}

} // namespace

class MatrixDot : gpu::FragmentDot {
public:
  MatrixDot(NvidiaEmitter &emitter, ir::OpId op, const ir::DotUnit &unit)
      : FragmentDot(emitter, op, unit), e_(emitter),
        perRegister_(std::max(1, 32 / static_cast<int32_t>(ir::bitWidth(unit.a.elem)))),
        instruction_(instructionOf(unit, capabilityOf(emitter.target_))),
        offsets_{offsetsOf(unit.a.regs, perRegister_), offsetsOf(unit.b.regs, perRegister_), offsetsOf(unit.acc.regs, 1)} {}

  void run() {
    Regs out = e_.regs(fn().operand(op_, 2));
    addProducts(out, instruction_.depth);
    e_.set(fn().result(op_), std::move(out));
  }

  // By wgmma.
  static void runTogether(NvidiaEmitter &e, ir::OpId op, const ir::DotUnit &unit) {
    const ir::ValueId acc = e.fn_.operand(op, 2);
    const bool starts = e.fn_.type(acc).isPlace();
    const WgmmaCode code = wgmmaCode(e.fn_, op, unit, starts ? placeName(e.fn_, acc) : "");
    const bool fromZero = startsFromZero(e.fn_, op);
    Regs out = e.regs(acc);
    llvm::SmallVector<llvm::Value *, 132> operands;
    const bool isFloating = e.fn_.type(acc).isFloating();
    llvm::SmallVector<llvm::Type *, 128> types(code.registers.size(), isFloating ? e.builder_.getFloatTy()
                                                                                 : e.builder_.getInt32Ty());
    std::string results, inputs;
    for (size_t i = 0; i < code.registers.size(); ++i) {
      results += isFloating ? "=f," : "=r,";
      if (!fromZero) {
        operands.push_back(out[static_cast<size_t>(code.registers[i])]);
        inputs += std::to_string(i) + ",";
      }
    }
    std::string others;
    const auto perWord = 32 / ir::bitWidth(unit.a.elem);
    for (auto left = llvm::ArrayRef(code.fragments); !left.empty(); left = left.drop_front(perWord)) {
      operands.push_back(wordOf(e, e.fn_.operand(op, 0), left.take_front(perWord)));
      others += "r,";
    }
    for (const unsigned operand : {0U, 1U}) {
      if (operand == 0 && !unit.a.inShared) {
        continue;
      }
      others += "l,";
      llvm::Value *address = e.sharedAddress(e.scalar(e.fn_.operand(op, operand)));
      if (std::ranges::any_of(code.warps[operand], [](int32_t bytes) { return bytes != 0; })) {
        address = e.builder_.CreateAdd(address, e.linear(e.warpNumber(), code.warps[operand]));
      }
      // Of a program of a cluster an address has its rank in the upper bits, where a descriptor has fields.
      if (e.inCluster_) {
        address = e.builder_.CreateAnd(address, 0x3ffff);
      }
      llvm::Value *units = e.builder_.CreateZExt(e.builder_.CreateLShr(address, 4), e.builder_.getInt64Ty());
      operands.push_back(
          e.builder_.CreateOr(units, e.builder_.getInt64(static_cast<uint64_t>(code.descriptors[operand]))));
    }
    others.pop_back();
    llvm::Type *type = starts ? e.builder_.getVoidTy() : llvm::StructType::get(e.context_, types);
    llvm::Value *sums = e.assembly(code.text, results + inputs + others, type, operands, true, true);
    e.startCopiesBefore(op);
    if (!starts) {
      e.waitForDots(0);
    }
    for (size_t i = 0; i < code.registers.size(); ++i) {
      out[static_cast<size_t>(code.registers[i])] = e.builder_.CreateExtractValue(sums, static_cast<unsigned>(i));
    }
    e.set(e.fn_.result(op), std::move(out));
  }

private:
  // The fragments from k to `end`, and zeros behind it if the instruction is deeper.
  void multiply(Regs &out, const ir::Coords &corner, int32_t k, int32_t end) override {
    AssemblyOperands operands;
    const bool isDouble = unit_.acc.elem == ir::Elem::F64;
    const std::string sum = isDouble ? "d" : unit_.acc.elem == ir::Elem::F32 ? "f" : "r", word = isDouble ? "d" : "r";
    std::string lists[4]; // the sums that come out, a, b, the sums that go in
    const auto append = [](std::string &list, const std::string &name) { list += (list.empty() ? "" : ", ") + name; };
    llvm::SmallVector<int32_t, 4> sums;
    llvm::SmallVector<llvm::Type *, 4> types;
    for (const ir::Coords &offset : offsets_[2]) {
      sums.push_back(registerAt(2, at(corner, corner[row_] + offset[0], corner[row_ + 1] + offset[1])));
      types.push_back(out[static_cast<size_t>(sums.back())]->getType());
      append(lists[0], operands.result(("=" + sum).c_str()));
    }
    const auto read = [&](unsigned operand, auto &&coordsAt) {
      for (int32_t step = k; step < k + instruction_.depth; step += unit_.k) {
        for (const ir::Coords &offset : offsets_[operand]) {
          llvm::Value *value = step < end ? operandAt(operand, coordsAt(offset, step)) : llvm::Constant::getNullValue(wordType());
          const bool hides = operand == 1 && instruction_.shape == kHalvesBy8 && !e_.units_.contains(fn().operand(op_, 1).index);
          append(lists[1 + operand], operands.use(hides ? e_.holdWord(value) : value, word.c_str()));
        }
      }
    };
    read(0, [&](const ir::Coords &offset, int32_t step) { return leftAt(corner, step, offset); });
    read(1, [&](const ir::Coords &offset, int32_t step) { return rightAt(corner, step, offset); });
    for (const int32_t each : sums) {
      append(lists[3], operands.use(out[static_cast<size_t>(each)], sum.c_str()));
    }
    const std::string text = std::string("mma.sync.aligned.") + instruction_.shape + " {" + lists[0] + "}, {" + lists[1] + "}, {" +
                             lists[2] + "}, {" + lists[3] + "};";
    llvm::Value *results = e_.assembly(text, operands.constraints(), llvm::StructType::get(e_.context_, types), operands.values(), false, true);
    for (unsigned i = 0; i < sums.size(); ++i) {
      out[static_cast<size_t>(sums[i])] = e_.builder_.CreateExtractValue(results, i);
    }
  }

  [[nodiscard]] llvm::Type *wordType() const {
    return unit_.acc.elem == ir::Elem::F64 ? e_.builder_.getDoubleTy() : static_cast<llvm::Type *>(e_.builder_.getInt32Ty());
  }

  // The register of operand 0 or 1 whose first element is at `start`, neighbours along k.
  llvm::Value *operandAt(unsigned operand, const ir::Coords &start) {
    const int32_t first = registerAt(operand, start);
    llvm::Value *&known = known_[operand][first];
    if (known == nullptr) {
      known = e_.builder_.CreateBitCast(rounded(packed(operand, start)), wordType());
    }
    return known;
  }

  llvm::Value *packed(unsigned operand, const ir::Coords &start) {
    llvm::SmallVector<int32_t, 4> neighbours;
    for (int32_t i = 0; i < perRegister_; ++i) {
      ir::Coords coords = start;
      coords[operand == 0 ? row_ + 1 : row_] += i;
      neighbours.push_back(registerAt(operand, coords));
    }
    return wordOf(e_, fn().operand(op_, operand), neighbours);
  }

  // One word of these registers of the value.
  static llvm::Value *wordOf(NvidiaEmitter &e, ir::ValueId value, llvm::ArrayRef<int32_t> registers) {
    if (const auto read = e.units_.find(value.index); read != e.units_.end()) {
      return read->second.at(registers[0]);
    }
    llvm::SmallVector<llvm::Value *, 4> elements;
    for (const int32_t reg : registers) {
      elements.push_back(e.regs(value)[static_cast<size_t>(reg)]);
    }
    const ir::Type element = e.fn_.type(value).element();
    return e.packWords(element, elements, std::max(4u, static_cast<unsigned>(element.elementBytes())))[0];
  }

  // In the precision of the unit.
  llvm::Value *rounded(llvm::Value *number) {
    if (unit_.precision != ir::Precision::tf32) {
      return number;
    }
    number = e_.builder_.CreateBitCast(number, e_.builder_.getFloatTy());
    return e_.assembly("cvt.rna.tf32.f32 $0, $1;", "=r,f", e_.builder_.getInt32Ty(), {number}, false);
  }

  NvidiaEmitter &e_;
  const int32_t perRegister_; // elements of an operand
  const MmaInstruction &instruction_;
  const std::array<std::vector<ir::Coords>, 3> offsets_; // of a, b and the accumulator
  std::map<int32_t, llvm::Value *> known_[2]; // by first register
};

void NvidiaEmitter::lowerDot(ir::OpId op) {
  const ir::DotUnit &unit = passes::unitOf(fn_, op, target_);
  requirePass(fn_.type(fn_.operand(op, 0)).isBuffer() == unit.a.inShared &&
                  fn_.type(fn_.operand(op, 1)).isBuffer() == unit.b.inShared,
              "lower_conversions");
  if (passes::readsByItself(unit)) {
    return MatrixDot::runTogether(*this, op, unit);
  }
  if (unit.a.inShared) {
    return multiplyAddDot(op);
  }
  MatrixDot(*this, op, unit).run();
}

void NvidiaEmitter::lowerPlaceWrite(ir::OpId op) {
  const ir::ValueId value = fn_.operand(op, 0), place = fn_.result(op);
  const std::string name = placeName(fn_, place);
  const Regs &elements = regs(value);
  {
    llvm::IRBuilder<>::InsertPointGuard guard(builder_);
    builder_.SetInsertPoint(prologue_->getTerminator());
    assembly(".reg .b32 " + name + "<" + std::to_string(elements.size()) + ">;", "", builder_.getVoidTy(), {}, true,
             true);
  }
  set(place, Regs());
  const ir::OpId user = fn_.uses(place)[0].op;
  if (fn_.opcode(user) == ir::Opcode::Dot && startsFromZero(fn_, user)) {
    return;
  }
  assembly(movesOf(name, elements.size(), true), commaSeparated(elements.size(), fn_.type(value).isFloating() ? "f" : "r"),
           builder_.getVoidTy(), elements, true, true);
}

void NvidiaEmitter::lowerPlaceRead(ir::OpId op) {
  const ir::ValueId value = fn_.result(op);
  const std::string name = placeName(fn_, fn_.operand(op, 0));
  const unsigned count = numRegs(value);
  llvm::Type *type = llvm::StructType::get(context_, llvm::SmallVector<llvm::Type *, 128>(count, registerType(value)));
  llvm::Value *all = assembly(movesOf(name, count, false), commaSeparated(count, fn_.type(value).isFloating() ? "=f" : "=r"), type, {},
                              true, true);
  Regs elements;
  for (unsigned i = 0; i < count; ++i) {
    elements.push_back(builder_.CreateExtractValue(all, i));
  }
  set(value, std::move(elements));
}

void NvidiaEmitter::lowerDotWait(ir::OpId op) { waitForDots(fn_.getInt(op, ir::Attr::count)); }

// For all but so many. What reads their sums stands behind it, and is written there.
void NvidiaEmitter::waitForDots(int64_t left) {
  assembly("wgmma.wait_group.sync.aligned " + std::to_string(left) + ";", "", builder_.getVoidTy(), {}, true, true);
}

} // namespace libtile::codegen::nvidia
