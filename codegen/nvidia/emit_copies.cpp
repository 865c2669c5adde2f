// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies by threads, from global memory to shared memory: cp.async.
#include "codegen/nvidia/nvidia_emitter.h"

#include "ir/ops.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/shared_layouts.h"

#include <algorithm>

namespace libtile::codegen::nvidia {

using ir::Attr;

void NvidiaEmitter::publish() {
  assembly("fence.proxy.async.shared::cta;", "", builder_.getVoidTy(), {}, true);
}

// cp.async of the group's elements, side by side in both memories; masked off, it writes zeros.
// What is below its least width goes through a register. Of replicas one thread copies.
void NvidiaEmitter::copyGroup(ir::OpId op, llvm::ArrayRef<int32_t> group, const AccessAddress &from,
                        std::pair<llvm::Value *, int32_t> to) {
  const ir::ValueId pointers = fn_.operand(op, 0);
  const ir::Type element = fn_.type(pointers).pointee().element();
  const unsigned bytes = element.elementBytes() * static_cast<unsigned>(group.size());
  llvm::Value *predicate = inTile(fn_.type(pointers), group[0]);
  if (fn_.numOperands(op) > 2) {
    predicate = both(predicate, regs(fn_.operand(op, 2))[group[0]]);
  }
  predicate = predicate == nullptr ? builder_.getTrue() : predicate;
  AssemblyOperands operands;
  llvm::Value *canonical = isCanonicalThread(layoutOf(pointers));
  const std::string guard =
      canonical == nullptr ? "" : "@" + operands.use(canonical, "b") + " ";
  const std::string target = "[" + operands.use(sharedAddress(to.first), "r") + "+" +
                             std::to_string(to.second) + "]";
  std::string text;
  const std::string source = operands.address(from, text);
  if (bytes >= 4) {
    const std::string taken =
        operands.use(builder_.CreateSelect(predicate, i32(bytes), i32(0)), "r");
    text += guard + (bytes == 16 ? "cp.async.cg" : "cp.async.ca") + ".shared.global " + target +
            ", " + source + ", " + std::to_string(bytes) + ", " + taken + ";";
  } else {
    const std::string type = ".b" + std::to_string(8 * bytes) + " ";
    text = ".reg .b16 element;\n\t" + text + "mov.b16 element, 0;\n\t@" +
           operands.use(predicate, "b") + " ld.global" + type + "element, " + source + ";\n\t" +
           guard + "st.shared" + type + target + ", element;";
  }
  assembly(text, operands, builder_.getVoidTy());
}

void NvidiaEmitter::lowerAsyncCopy(ir::OpId op) {
  const ir::ValueId pointers = fn_.operand(op, 0);
  const ir::ValueId mask = fn_.numOperands(op) > 2 ? fn_.operand(op, 2) : ir::ValueId{};
  const ir::Layout &layout = layoutOf(pointers);
  const ir::Layout &bufferLayout = layoutOf(fn_.operand(op, 1));
  const unsigned bytes = fn_.type(pointers).pointee().elementBytes();
  BufferOffsets offsets = bufferOffsets(layout, bufferLayout, bytes);
  AccessAddresses addresses(*this, pointers);
  const auto together = static_cast<size_t>(
      passes::writeAccess(layout, bufferLayout, static_cast<int32_t>(bytes)).elements);
  for (const RegGroup &group : accessGroups(pointers, mask, bytes)) {
    const size_t step = std::min(together, group.size());
    for (size_t first = 0; first < group.size(); first += step) {
      const llvm::ArrayRef<int32_t> part = llvm::ArrayRef<int32_t>(group).slice(first, step);
      copyGroup(op, part, addresses.of(part[0]),
                bufferAddress(scalar(fn_.operand(op, 1)), offsets, part[0]));
    }
  }
}

void NvidiaEmitter::lowerAsyncCommit(ir::OpId) {
  assembly("cp.async.commit_group;", "", builder_.getVoidTy(), {}, true);
}

void NvidiaEmitter::lowerAsyncWait(ir::OpId op) {
  // What has arrived is seen by units that read by themselves.
  const std::string published = passes::publishes(fn_, op, target_) ? "\n\tfence.proxy.async.shared::cta;" : "";
  assembly("cp.async.wait_group " + std::to_string(fn_.getInt(op, Attr::count)) + ";" + published, "",
           builder_.getVoidTy(), {}, true);
}

} // namespace libtile::codegen::nvidia
