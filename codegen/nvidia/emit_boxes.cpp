// SPDX-License-Identifier: Apache-2.0
// Copies of boxes (TMA) and reductions of them, which one thread of the first warp starts, or of a producer, and the mbarriers
// that count what has arrived. All of it is inline assembly: LLVM has no instruction for it in its older versions, and nothing to learn from one.
#include "codegen/nvidia/nvidia_emitter.h"
#include "ir/ops.h"

#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/plan_boxes.h"
#include "passes/gpu/plan_dots.h"
#include "passes/gpu/shared_accesses.h"

namespace libtile::codegen::nvidia {

using ir::Attr;

namespace {

// What an instruction on boxes takes: the buffer's start; descriptor; coordinates.
struct BoxText {
  std::string start, descriptor;
  std::vector<std::string> coordinates;
};

// An instruction for each part of a buffer, from or to [at]. `before` and `behind` are what stands around
// "[descriptor, {coordinates}]". Of `cluster` programs each has its own parts: the predicate `mine` and a program's rank says whose,
// `first` has the first one.
std::string onParts(const passes::BoxParts &parts, const BoxText &box, bool isRow, const std::string &before, const std::string &behind,
                    int64_t cluster = 1, int64_t first = 0) {
  const size_t rank = box.coordinates.size();
  const auto sum = [](const char *to, const std::string &from, int32_t more) {
    return std::string("add.s32 ") + to + ", " + from + ", " + std::to_string(more) + ";\n\t";
  };
  std::string text;
  int64_t number = first;
  for (const passes::BoxParts::Part &part : parts.parts) {
    text += sum("at", box.start, part.byte) + sum("fast", box.coordinates[rank - 1], part.first[parts.fastAxis]);
    if (!isRow) {
      text += sum("slow", box.coordinates[rank - 2], part.first[1 - parts.fastAxis]);
    }
    text += cluster > 1 ? "@mine" + std::to_string(number++ % cluster) + " " : "";
    text += before + "[" + box.descriptor + ", {fast" + (isRow ? "" : ", slow");
    for (size_t i = rank - (isRow ? 1 : 2); i-- > 0;) {
      text += ", " + box.coordinates[i];
    }
    text += "}]" + behind + ";\n\t";
  }
  return text;
}

// The one thread that the hardware names: the assembler makes a loop over threads of any other condition.
std::string elect(const std::string &on) {
  return ".reg .pred one;\n\telect.sync _|one, 0xffffffff;\n\tand.pred one, one, " + on + ";\n\t";
}

// In a branch of that thread, where `on` is true. `scratch` declares registers.
std::string byOneThread(const std::string &on, const std::string &scratch, const std::string &text) {
  return "{ " + scratch + elect(on) + "@!one bra DONE_${:uid};\n\t" + text + "DONE_${:uid}: }";
}

constexpr const char *kBoxRegisters = ".reg .b32 at, fast, slow;\n\t"; // of onParts

// Predicates of a program's rank, and the mask of all programs.
std::string clusterRegisters(int64_t cluster) {
  std::string text = ".reg .b32 rank;\n\t.reg .b16 programs;\n\t.reg .pred mine<" + std::to_string(cluster) + ">;\n\tmov.u32 rank, %cluster_ctarank;\n\t" +
                     "mov.b16 programs, " + std::to_string((1 << cluster) - 1) + ";\n\t";
  for (int64_t rank = 0; rank < cluster; ++rank) {
    text += "setp.eq.u32 mine" + std::to_string(rank) + ", rank, " + std::to_string(rank) + ";\n\t";
  }
  return text;
}

// The op in front of it or behind it, but for scalars, which take no time.
ir::OpId neighbour(const ir::Function &fn, ir::OpId op, ir::OpId (ir::Function::*step)(ir::OpId) const) {
  const auto isTile = [&](ir::ValueId value) { return fn.type(value).isTile(); };
  do {
    op = (fn.*step)(op);
  } while (op.valid() && fn.effects(op).pure() && llvm::none_of(fn.results(op), isTile));
  return op;
}

// Both begin under one condition.
bool beginTogether(const ir::Function &fn, ir::OpId copy, ir::OpId other) {
  return other.valid() && fn.opcode(other) == ir::Opcode::CopyBox && fn.operand(copy, 2) == fn.operand(other, 2);
}

// The parts of a buffer, if they are the boxes of the map.
std::optional<passes::BoxParts> partsOf(const ir::Layout &layout, const ir::Type &type, const ir::TensorMap &map) {
  auto parts = passes::boxParts(layout, type.shape(), static_cast<int32_t>(type.elementBytes()));
  const size_t rank = map.dims.size();
  const auto isBoxOf = [&](size_t behind, int32_t extent) { return rank >= behind && map.dims[rank - behind].box == extent; };
  const bool fits = parts && isBoxOf(1, parts->fast) && (type.rank() == 1 || isBoxOf(2, parts->slow));
  return fits ? std::move(parts) : std::nullopt;
}

// The instruction on each counter of a buffer: $0 is the first one's address, $1 whether this thread does it.
std::string onCounters(const ir::Type &arrivals, const std::string &instruction, const std::string &behind) {
  std::string text;
  const int64_t bytes = arrivals.numElements() * int64_t{8};
  for (int64_t at = 0; at < bytes; at += 8) {
    text += "@$1 " + instruction + " [$0+" + std::to_string(at) + "]" + behind + ";\n\t";
  }
  return text;
}

} // namespace

void NvidiaEmitter::lowerClusterBarrier(ir::OpId) {
  assembly("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;", "", builder_.getVoidTy(), {}, true, true);
}

void NvidiaEmitter::lowerClusterSize(ir::OpId op) {
  set(fn_.result(op), assembly("mov.u32 $0, %cluster_nctarank;", "=r", builder_.getInt32Ty(), {}, false, false));
}

// The counters are seen by copies behind the next barrier, and so is what all threads have written to shared
// memory: a box may lie where that lay.
void NvidiaEmitter::lowerArrivalsInit(ir::OpId op) {
  const ir::ValueId arrivals = fn_.operand(op, 0);
  const std::string own = std::to_string(fn_.getInt(op, Attr::count));
  const bool ofAll = fn_.hasAttr(op, Attr::cluster);
  const std::string all = "{ .reg .b32 all;\n\tmov.u32 all, %cluster_nctarank;\n\tmul.lo.u32 all, all, " + own + ";\n\t";
  assembly((ofAll ? all : "") + onCounters(fn_.type(arrivals), "mbarrier.init.shared::cta.b64", ofAll ? ", all" : ", " + own) +
               "@$1 fence.mbarrier_init.release.cluster;\n\tfence.proxy.async.shared::cta;" + (ofAll ? " }" : ""),
           "r,b", builder_.getVoidTy(), {sharedAddress(scalar(arrivals)), isFirstThread()}, true);
}

// One lane of each warp, when all of them are there. What arrives elsewhere has no scope of its own: with that of the cluster the
// assembler has a fence of all memory in front of it.
void NvidiaEmitter::lowerArrive(ir::OpId op) {
  std::string text = "@one mbarrier.arrive.shared::cta.b64 _, [$0];";
  if (fn_.hasAttr(op, Attr::cluster)) {
    text = ".reg .b32 size, there;\n\t.reg .pred is;\n\tmov.u32 size, %cluster_nctarank;\n\t";
    for (int64_t rank = 0; rank < fn_.getInt(op, Attr::cluster); ++rank) {
      const std::string number = std::to_string(rank);
      text += "setp.gt.and.u32 is, size, " + number + ", one;\n\t@is mapa.shared::cluster.u32 there, $0, " + number +
              ";\n\t@is mbarrier.arrive.shared::cluster.b64 _, [there];\n\t";
    }
  }
  assembly("{ " + elect("$1") + text + " }",
           "r,b", builder_.getVoidTy(), {sharedAddress(scalar(fn_.operand(op, 0))), scalar(fn_.operand(op, 1))}, true,
           true);
}

// The counters are seen by all behind the barrier.
void NvidiaEmitter::lowerProducer(ir::OpId op) {
  assembly("bar.sync 0;", "", builder_.getVoidTy(), {}, true, true);
  llvm::BasicBlock *body = newBlock("producer");
  llvm::BasicBlock *others = newBlock("consumers");
  llvm::Value *warp = warpNumber();
  llvm::BasicBlock *team = newBlock("producer.team"), *idle = newBlock("producer.end");
  const auto setRegisters = [&](const char *which, int64_t number) {
    assembly("setmaxnreg." + std::string(which) + ".sync.aligned.u32 " + std::to_string(number) + ";", "", builder_.getVoidTy(),
             {}, true, true);
  };
  const auto registers = fn_.getInts(op, Attr::registers);
  builder_.CreateCondBr(builder_.CreateICmpUGE(warp, i32(fn_.numWarps)), team, others);
  builder_.SetInsertPoint(team);
  setRegisters("dec", registers[0]);
  builder_.CreateCondBr(builder_.CreateICmpEQ(warp, i32(fn_.numWarps)), body, idle);
  builder_.SetInsertPoint(body);
  emitBlock(fn_.region(op));
  builder_.CreateBr(idle);
  builder_.SetInsertPoint(idle);
  builder_.CreateRetVoid();
  builder_.SetInsertPoint(others);
  setRegisters("inc", registers[1]);
}

void NvidiaEmitter::lowerArrivalsEnd(ir::OpId op) {
  const ir::ValueId arrivals = fn_.operand(op, 0);
  assembly(onCounters(fn_.type(arrivals), "mbarrier.inval.shared::cta.b64", ""), "r,b", builder_.getVoidTy(),
           {sharedAddress(scalar(arrivals)), isFirstThread()}, true);
}

void NvidiaEmitter::lowerArrivalsWait(ir::OpId op) {
  assembly("{ .reg .pred done;\n\tWAIT_${:uid}:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1;\n\t"
           "@!done bra WAIT_${:uid}; }",
           "r,r", builder_.getVoidTy(), {sharedAddress(scalar(fn_.operand(op, 0))), scalar(fn_.operand(op, 1))}, true,
           true);
}

// Copies that begin one after the other under one condition begin together, in one branch of the thread that starts them: other
// threads go by them at once, and the assembler computes descriptors and counters in uniform registers then. In front of a dot that
// the unit does by itself they wait for its start (emit_dot.cpp): it has what it needs.
void NvidiaEmitter::lowerCopyBox(ir::OpId op) {
  const ir::OpId behind = neighbour(fn_, op, &ir::Function::next);
  const bool isForDot = behind.valid() && fn_.opcode(behind) == ir::Opcode::Dot && passes::readsByItself(passes::unitOf(fn_, behind, target_));
  if (!isForDot && !beginTogether(fn_, op, behind)) {
    startCopies(op);
  }
}

void NvidiaEmitter::startCopiesBefore(ir::OpId dot) {
  const ir::OpId last = neighbour(fn_, dot, &ir::Function::prev);
  if (last.valid() && fn_.opcode(last) == ir::Opcode::CopyBox) {
    startCopies(last);
  }
}

// It and those that begin together with it.
void NvidiaEmitter::startCopies(ir::OpId last) {
  llvm::Value *valid = scalar(fn_.operand(last, 2));
  if (const auto *known = llvm::dyn_cast<llvm::ConstantInt>(valid); known != nullptr && known->isZero()) {
    return; // of a loop with fewer iterations than stages
  }
  std::vector<ir::OpId> copies;
  for (ir::OpId copy = last, before; copy.valid(); copy = beginTogether(fn_, copy, before) ? before : ir::OpId{}) {
    copies.push_back(copy);
    before = neighbour(fn_, copy, &ir::Function::prev);
  }
  AssemblyOperands operands;
  const std::string on = operands.use(passes::producerAround(fn_, last).valid() ? valid : both(isFirstWarp(), valid), "b");
  std::string text;
  for (const ir::OpId copy : llvm::reverse(copies)) {
    text += copyText(copy, operands);
  }
  assembly(byOneThread(on, kBoxRegisters, text), operands.constraints(), builder_.getVoidTy(), operands.values(), true, true);
}

// cp.async.bulk.tensor for each part of the buffer; the counter expects the bytes of all before.
std::string NvidiaEmitter::copyText(ir::OpId op, AssemblyOperands &operands) {
  const ir::ValueId buffer = fn_.operand(op, 0);
  const ir::Type type = fn_.type(buffer);
  const auto index = static_cast<unsigned>(fn_.getInt(op, Attr::map));
  const auto parts = partsOf(layoutOf(buffer), type, fn_.maps[index]);
  if (!parts) {
    throw ir::UserError("the buffer is not laid out as the boxes of its map", fn_.locationOf(op));
  }
  BoxText box;
  const std::string counter = operands.use(sharedAddress(scalar(fn_.operand(op, 1))), "r");
  box.start = operands.use(sharedAddress(scalar(buffer)), "r");
  box.descriptor = operands.use(kernel_->getArg(static_cast<unsigned>(fn_.params.size()) + index), "l");
  for (unsigned i = 3; i < fn_.numOperands(op); ++i) {
    box.coordinates.push_back(operands.use(scalar(fn_.operand(op, i)), "r"));
  }
  const int64_t all = static_cast<int64_t>(parts->parts.size()) * parts->fast * parts->slow * type.elementBytes();
  const int64_t cluster = fn_.hasAttr(op, Attr::cluster) ? fn_.getInt(op, Attr::cluster) : 1;
  const std::string before = "cp.async.bulk.tensor." + std::to_string(box.coordinates.size()) +
                             "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes" + (cluster > 1 ? ".multicast::cluster" : "") + " [at], ";
  const std::string expects = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [" + counter + "], " + std::to_string(all) + ";\n\t";
  const std::string behind = ", [" + counter + "]" + (cluster > 1 ? ", programs" : "");
  const std::string copies = onParts(*parts, box, type.rank() == 1, before, behind, cluster, index);
  return expects + (cluster > 1 ? "{ " + clusterRegisters(cluster) + copies + "}\n\t" : copies);
}

// One group: it is the thread's that waits for it.
void NvidiaEmitter::lowerStoreBox(ir::OpId op) {
  const ir::ValueId buffer = fn_.operand(op, 0);
  const ir::Type type = fn_.type(buffer);
  const auto index = static_cast<unsigned>(fn_.getInt(op, Attr::map));
  const auto parts = partsOf(layoutOf(buffer), type, fn_.maps[index]);
  if (!parts) {
    throw ir::UserError("the buffer is not laid out as the boxes of its map", fn_.locationOf(op));
  }
  AssemblyOperands operands;
  BoxText box;
  const std::string on = operands.use(isFirstWarp(), "b");
  box.start = operands.use(sharedAddress(scalar(buffer)), "r");
  box.descriptor = operands.use(kernel_->getArg(static_cast<unsigned>(fn_.params.size()) + index), "l");
  for (unsigned i = 1; i < fn_.numOperands(op); ++i) {
    box.coordinates.push_back(operands.use(scalar(fn_.operand(op, i)), "r"));
  }
  const bool adds = fn_.getBool(op, Attr::adds);
  const std::string before = std::string("cp.") + (adds ? "reduce." : "") + "async.bulk.tensor." + std::to_string(box.coordinates.size()) +
                             "d.global.shared::cta." + (adds ? "add." : "") + "tile.bulk_group ";
  assembly(byOneThread(on, kBoxRegisters, onParts(*parts, box, type.rank() == 1, before, ", [at]") + "cp.async.bulk.commit_group;\n\t"),
           operands.constraints(), builder_.getVoidTy(), operands.values(), true, true);
}

void NvidiaEmitter::lowerStoreWait(ir::OpId /*op*/) {
  AssemblyOperands operands;
  const std::string on = operands.use(isFirstWarp(), "b");
  assembly(byOneThread(on, "", "cp.async.bulk.wait_group.read 0;\n\t"), operands.constraints(), builder_.getVoidTy(), operands.values(), true, true);
}

} // namespace libtile::codegen::nvidia
