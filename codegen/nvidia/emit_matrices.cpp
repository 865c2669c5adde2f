// SPDX-License-Identifier: Apache-2.0
// Tiles of matrix instructions, read from shared memory by ldmatrix and written by stmatrix.
#include "codegen/nvidia/nvidia_emitter.h"

#include "ir/ops.h"
#include "passes/gpu/shared_layouts.h"

#include <algorithm>

namespace libtile::codegen::nvidia {

using ir::HwDim;
using ir::Opcode;

// ldmatrix and stmatrix: the lane 8 j + i names row i of matrix j; each lane has one 32-bit unit of each
// matrix. The matrices differ in up to two bits of the register index.
NvidiaEmitter::Matrices NvidiaEmitter::matricesOf(const ir::Layout &registers, const ir::Layout &buffer, unsigned elementBytes,
                                                  const passes::BufferAccess &access) {
  const std::vector<int32_t> &unitBits = access.registerBits;
  std::vector<int32_t> columns = passes::namedOffsets(registers, buffer, access);
  Matrices matrices{.bits = unitBits, .offsets = {}};
  const ir::LayoutInverse inverse(buffer);
  const auto &regBases = registers.bases(HwDim::Reg);
  for (int32_t bit = 0; bit < static_cast<int32_t>(regBases.size()) && matrices.count < 4; ++bit) {
    if (std::ranges::find(unitBits, bit) == unitBits.end()) {
      matrices.bits.push_back(bit);
      columns.push_back(inverse.offsetOf(regBases[bit]));
      matrices.count *= 2;
    }
  }
  columns.resize(5, 0);
  matrices.offsets = bufferOffsets(registers, buffer, elementBytes, columns);
  return matrices;
}

void NvidiaEmitter::readMatrices(ir::OpId op, const passes::BufferAccess &access) {
  const bool transposed = access.kind == passes::AccessKind::MatrixTransposed;
  const ir::ValueId result = fn_.result(op), buffer = fn_.operand(op, 0);
  const ir::Type element = fn_.type(result).element();
  auto [count, bits, offsets] = matricesOf(layoutOf(result), layoutOf(buffer), element.elementBytes(), access);
  const bool dotsOnly = std::ranges::all_of(fn_.uses(result), [&](ir::Use use) {
    return fn_.opcode(use.op) == Opcode::Dot && use.operand < 2;
  });
  Regs out(numRegs(result));
  for (const RegGroup &group : groupsOf(layoutOf(result).size(HwDim::Reg), bits)) {
    const Regs units = loadMatrices(bufferPointer(scalar(buffer), offsets, group[0]), count, transposed);
    const size_t perUnit = group.size() / count;
    for (unsigned matrix = 0; matrix < count; ++matrix) {
      const int32_t *members = &group[matrix * perUnit];
      units_[result.index][members[0]] = units[matrix];
      if (!dotsOnly) {
        const Regs elements =
            unpackWords(element, {units[matrix]}, 4, static_cast<unsigned>(perUnit));
        for (size_t i = 0; i < perUnit; ++i) {
          out[members[i]] = elements[i];
        }
      }
    }
  }
  set(result, std::move(out));
}

void NvidiaEmitter::writeMatrices(ir::OpId op, const passes::BufferAccess &access) {
  const ir::ValueId buffer = fn_.operand(op, 0), value = fn_.operand(op, 1);
  const ir::Type element = fn_.type(value).element();
  auto [count, bits, offsets] = matricesOf(layoutOf(value), layoutOf(buffer), element.elementBytes(), access);
  for (const RegGroup &group : groupsOf(layoutOf(value).size(HwDim::Reg), bits)) {
    Regs elements;
    for (const int32_t reg : group) {
      elements.push_back(regs(value)[reg]);
    }
    storeMatrices(bufferPointer(scalar(buffer), offsets, group[0]), packWords(element, elements, 4),
                  access.kind == passes::AccessKind::MatrixTransposed);
  }
}

Regs NvidiaEmitter::loadMatrices(llvm::Value *pointer, unsigned count, bool transposed) {
  AssemblyOperands operands;
  std::string units;
  for (unsigned i = 0; i < count; ++i) {
    units += (i == 0 ? "" : ", ") + operands.result("=r");
  }
  const std::string text = "ldmatrix.sync.aligned.m8n8.x" + std::to_string(count) + (transposed ? ".trans" : "") + ".shared.b16 {" + units +
                           "}, [" + operands.use(sharedAddress(pointer), "r") + "];";
  llvm::Type *word = builder_.getInt32Ty();
  llvm::Type *type = count == 1 ? word : llvm::StructType::get(context_, llvm::SmallVector<llvm::Type *, 4>(count, word));
  llvm::Value *loaded = assembly(text, operands, type);
  if (count == 1) {
    return {loaded};
  }
  Regs parts;
  for (unsigned i = 0; i < count; ++i) {
    parts.push_back(builder_.CreateExtractValue(loaded, i));
  }
  return parts;
}

void NvidiaEmitter::storeMatrices(llvm::Value *pointer, const Regs &units, bool transposed) {
  AssemblyOperands operands;
  const std::string address = operands.use(sharedAddress(pointer), "r");
  std::string list;
  for (llvm::Value *unit : units) {
    list += (list.empty() ? "" : ", ") + operands.use(unit, "r");
  }
  assembly("stmatrix.sync.aligned.m8n8.x" + std::to_string(units.size()) + (transposed ? ".trans" : "") + ".shared.b16 [" + address + "], {" +
               list + "};",
           operands, builder_.getVoidTy());
}

} // namespace libtile::codegen::nvidia
