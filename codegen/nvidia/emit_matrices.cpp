// SPDX-License-Identifier: Apache-2.0
// Tiles that matrix instructions take, read from shared memory by ldmatrix.
#include "codegen/nvidia/nvidia_emitter.h"

#include "ir/ops.h"
#include "passes/gpu/shared_layouts.h"

#include <algorithm>

namespace libtile::codegen::nvidia {

using ir::HwDim;
using ir::Opcode;

// ldmatrix: the lane 8 j + i names row i of matrix j; each lane gets one 32-bit unit of each
// matrix. The matrices differ in up to two bits of the register index.
void NvidiaEmitter::readMatrices(ir::OpId op, const passes::BufferAccess &access) {
  const std::vector<int32_t> &unitBits = access.registerBits;
  const bool transposed = access.kind == passes::AccessKind::MatrixTransposed;
  const ir::ValueId result = fn_.result(op);
  const ir::Layout &layout = layoutOf(result);
  const ir::Layout &bufferLayout = layoutOf(fn_.operand(op, 0));
  const ir::Type element = fn_.type(result).element();
  std::vector<int32_t> columns = passes::namedOffsets(layout, bufferLayout, access);
  std::vector<int32_t> allBits(unitBits.begin(), unitBits.end());
  const ir::LayoutInverse inverse(bufferLayout);
  const auto &regBases = layout.bases(HwDim::Reg);
  unsigned count = 1;
  for (int32_t bit = 0; bit < static_cast<int32_t>(regBases.size()) && count < 4; ++bit) {
    if (std::find(unitBits.begin(), unitBits.end(), bit) == unitBits.end()) {
      allBits.push_back(bit);
      columns.push_back(inverse.offsetOf(regBases[bit]));
      count *= 2;
    }
  }
  columns.resize(5, 0);
  BufferOffsets offsets =
      bufferOffsets(layout, bufferLayout, element.elementBytes(), columns);
  const bool dotsOnly = std::ranges::all_of(fn_.uses(result), [&](ir::Use use) {
    return fn_.opcode(use.op) == Opcode::Dot && use.operand < 2;
  });
  Regs out(numRegs(result));
  for (const RegGroup &group : groupsOf(layout.size(HwDim::Reg), allBits)) {
    const Regs units = loadMatrices(bufferPointer(scalar(fn_.operand(op, 0)), offsets, group[0]),
                                    count, transposed);
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

} // namespace libtile::codegen::nvidia
