// SPDX-License-Identifier: Apache-2.0
// Prints, line by line.
#include "codegen/gpu/emitter.h"
#include "ir/ops.h"
#include "ir/source_text.h"

namespace libtile::codegen::gpu {

using ir::Attr;

Regs Emitter::programIndices() {
  return {programIndex(0), programIndex(1), programIndex(2)};
}

void Emitter::printElements(ir::ValueId value, const ir::PrintFormat &format, const std::string &text) {
  const ir::Type &type = fn_.type(value);
  std::string indices;
  for (const int32_t extent : type.shape()) {
    indices += (indices.empty() ? "" : ", ") + ir::indexFormat(extent);
  }
  const std::string line = "pid (%d, %d, %d) idx (" + indices + ")" + ir::escapePercents(text) +
                           ir::valueFormat(format, type.element()) + "\n";
  llvm::Value *all = constantText(line);
  const Regs program = programIndices();
  const Regs elements = regs(value);
  for (size_t i = 0; i < elements.size(); ++i) {
    const auto reg = static_cast<int32_t>(i);
    Regs arguments = program;
    llvm::Value *predicate = isFirstThread();
    if (type.isTile()) {
      const ir::Layout &layout = layoutOf(value);
      llvm::Value *inside = inTile(type, reg);
      if (firstReplica(layout, reg) != reg || inside == builder_.getFalse()) {
        continue;
      }
      predicate = both(isCanonicalThread(layout), inside);
      for (unsigned axis = 0; axis < type.rank(); ++axis) {
        arguments.push_back(coord(layout, reg, axis));
      }
    }
    arguments.push_back(elements[i]);
    printLine(all, std::move(arguments), predicate);
  }
}

void Emitter::lowerPrint(ir::OpId op) {
  const std::string text(fn_.getText(op, Attr::text));
  const auto formats = ir::readPrintFormats(fn_.getText(op, Attr::formats));
  const unsigned count = fn_.numOperands(op);
  if (count == 0) {
    const std::string line = "pid (%d, %d, %d)" + ir::escapePercents(text) + "\n";
    printLine(constantText(line), programIndices(), isFirstThread());
  }
  for (unsigned i = 0; i < count; ++i) {
    printElements(fn_.operand(op, i), (*formats)[i], ir::textBeforeValue(text, i, count));
  }
  // What follows may need all threads of the warp at once.
  warpBarrier();
}

} // namespace libtile::codegen::gpu
