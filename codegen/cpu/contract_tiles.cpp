// SPDX-License-Identifier: Apache-2.0
// The register blocks of a contract whose unit takes tiles (AMX).
//
// Tiles are named by their numbers, which LLVM hands on to the instructions as they are: its own allocation of
// tiles wants them as values of a type of their own, with extents at each use, and differs between its
// versions. Here a block's sums are the first tiles, then come the tiles of a row of b, the rest hold those of a
// by turns. Instructions on tiles are side effects to LLVM, so they keep their order: a tile is loaded just before
// its first use, with the multiply-adds of the tiles before it under way.
//
// A tile's rows lie at equal distances, so rows of a that are read in place (rows_in_place.h) may be any that do; of others, as
// where rows begin anew in the middle of a tile, a copy is made. Either way two addresses of the table say where a tile lies.
//
// The thread has tiles from the beginning of a contract to its end: their configuration is loaded, and
// released so that the operating system saves no tiles when it changes threads.
#include "codegen/cpu/emitter.h"
#include "codegen/cpu/multiply_add.h"
#include "codegen/llvm_compat.h"

#include <llvm/IR/IntrinsicsX86.h>

namespace libtile::codegen::cpu {

using llvm::Value;

namespace {

// What ldtilecfg reads (Intel, Software Developer's Manual, volume 2, LDTILECFG): 64 bytes, the palette first,
// from byte 16 on each tile's bytes in a row as 16 bits, from byte 48 on each tile's rows.
std::array<uint8_t, 64> configuration(const Contraction &plan) {
  std::array<uint8_t, 64> bytes{};
  bytes[0] = 1;
  for (unsigned tile = 0; tile < plan.tileRegisters; ++tile) {
    bytes[16 + 2 * tile] = uint8_t(4 * plan.lanes);
    bytes[48 + tile] = uint8_t(plan.tileRows);
  }
  return bytes;
}

} // namespace

void Emitter::withTiles(const Contraction &plan, llvm::function_ref<void()> body) {
  namespace I = llvm::Intrinsic;
  ir::check(plan.tileRows == plan.tileWords && plan.tileWords == plan.lanes, "tiles are of one shape");
  const auto call = [&](I::ID id, llvm::ArrayRef<Value *> operands) {
    builder_.CreateCall(compat::intrinsic(module_, id), operands);
  };
  constexpr const char *kName = "tiles";
  llvm::GlobalVariable *found = module_.getNamedGlobal(kName);
  if (found == nullptr) {
    const std::array<uint8_t, 64> bytes = configuration(plan);
    llvm::Constant *data = llvm::ConstantDataArray::get(module_.getContext(), llvm::ArrayRef(bytes));
    found = new llvm::GlobalVariable(module_, data->getType(), true, llvm::GlobalValue::InternalLinkage,
                                     data, kName);
    found->setAlignment(llvm::Align(64));
  }
  call(I::x86_ldtilecfg, {found});
  body();
  call(I::x86_tilerelease, {});
}

// Each tile's rows in place are at equal distances behind this: they are so, or are copied to where they would be packed.
void Emitter::evenTiles(const Contraction &plan) {
  llvm::Type *number = builder_.getInt64Ty(), *numbers = Elementwise::widen(number, plan.tileRows);
  std::vector<Value *> none;
  restLoop(builder_.getInt64(0), rowsOf(plan), plan.tileRows, plan.effects, none, [&](Value *m) {
    Value *table = builder_.CreateGEP(number, plan.rowsOfA, m);
    Value *rows = builder_.CreateAlignedLoad(numbers, table, llvm::Align(8));
    Value *first = builder_.CreateExtractElement(rows, uint64_t{0}), *second = builder_.CreateExtractElement(rows, uint64_t{1});
    Value *distance = builder_.CreateVectorSplat(plan.tileRows, builder_.CreateSub(second, first));
    Value *offsets = builder_.CreateMul(builder_.CreateStepVector(numbers), distance);
    Value *even = builder_.CreateAdd(builder_.CreateVectorSplat(plan.tileRows, first), offsets);
    branch(builder_.CreateAndReduce(builder_.CreateICmpEQ(rows, even)), [] {}, [&] {
      Value *end = builder_.CreateAdd(m, builder_.getInt64(plan.tileRows));
      restLoop(m, end, 1, plan.effects, none, [&](Value *row) {
        builder_.CreateStore(packRow(plan, row), builder_.CreateGEP(number, plan.rowsOfA, row));
      });
    });
  });
}

// Of the block of rows, from the top down.
llvm::SmallVector<TilePlace, 4> Emitter::tilesOfA(const Contraction &plan, Value *m) {
  llvm::Type *number = builder_.getInt64Ty();
  llvm::SmallVector<TilePlace, 4> places;
  for (unsigned row = 0; row < plan.blockM; row += plan.tileRows) {
    Value *top = builder_.CreateAdd(m, builder_.getInt64(row));
    if (plan.rowsOfA == nullptr) {
      places.push_back({packedRow(plan, top), builder_.getInt64(plan.rowA)});
      continue;
    }
    Value *table = builder_.CreateGEP(number, plan.rowsOfA, top);
    Value *first = builder_.CreateLoad(builder_.getPtrTy(), table);
    Value *second = builder_.CreateLoad(number, builder_.CreateConstGEP1_64(number, table, 1));
    places.push_back({first, builder_.CreateSub(second, builder_.CreatePtrToInt(first, number))});
  }
  return places;
}

void Emitter::contractTiles(const Contraction &plan, Value *m, Value *n) {
  namespace I = llvm::Intrinsic;
  const unsigned down = plan.blockM / plan.tileRows, across = plan.vectors;
  const unsigned firstOfB = down * across, firstOfA = firstOfB + across;
  const int64_t accBytes = ir::byteSize(plan.accumulator);
  const auto at = [&](Value *base, Value *index, int64_t bytes) {
    Value *offset = builder_.CreateMul(index, builder_.getInt64(bytes));
    return builder_.CreateGEP(builder_.getInt8Ty(), base, offset);
  };
  const auto moveTile = [&](I::ID id, unsigned tile, Value *place, Value *rowBytes) {
    builder_.CreateCall(compat::intrinsic(module_, id), {builder_.getInt8(uint8_t(tile)), place, rowBytes});
  };
  const auto move = [&](I::ID id, unsigned tile, Value *base, int64_t offset, int64_t rowBytes) {
    moveTile(id, tile, builder_.CreateConstGEP1_64(builder_.getInt8Ty(), base, offset), builder_.getInt64(rowBytes));
  };
  Value *corner = at(at(plan.acc, m, plan.columns * accBytes), n, accBytes);
  const auto moveSums = [&](I::ID id) {
    for (unsigned sum = 0; sum < firstOfB; ++sum) {
      const int64_t row = int64_t{sum / across} * plan.tileRows, column = int64_t{sum % across} * plan.lanes;
      move(id, sum, corner, (row * plan.columns + column) * accBytes, plan.columns * accBytes);
    }
  };
  const auto zeroSums = [&] {
    for (unsigned sum = 0; sum < firstOfB; ++sum) {
      builder_.CreateCall(compat::intrinsic(module_, I::x86_tilezero), {builder_.getInt8(uint8_t(sum))});
    }
  };
  const auto loadSums = [&] { moveSums(I::x86_tileloadd64); };
  if (isAlways(plan.empty)) {
    zeroSums();
  } else if (isNever(plan.empty)) {
    loadSums();
  } else {
    branch(plan.empty, zeroSums, loadSums);
  }
  const auto places = tilesOfA(plan, m);
  Value *columnsOfB = at(plan.b, n, plan.groupBytes());
  std::vector<Value *> none;
  // By bytes of a row of a: what the loop ends at is made here, and lives no longer than the loop. A row of b is whole groups.
  Value *end = builder_.CreateMul(plan.steps, builder_.getInt64(plan.groupBytes()));
  restLoop(builder_.getInt64(0), end, plan.tileWords * plan.groupBytes(), plan.effects, none, [&](Value *byte) {
    Value *b = at(columnsOfB, byte, plan.rowB / plan.groupBytes());
    for (unsigned sum = 0; sum < firstOfB; ++sum) {
      const unsigned row = sum / across, column = sum % across;
      const unsigned tileOfA = firstOfA + row % (plan.tileRegisters - firstOfA);
      if (column == 0) {
        moveTile(I::x86_tileloadd64, tileOfA, builder_.CreateGEP(builder_.getInt8Ty(), places[row].first, byte), places[row].rowBytes);
      }
      if (row == 0) {
        move(I::x86_tileloadd64, firstOfB + column, b, int64_t{column} * plan.lanes * plan.groupBytes(),
             plan.rowB);
      }
      multiplyAddTiles(builder_, plan.instruction, tileOfA, firstOfB + column, sum);
    }
  });
  moveSums(I::x86_tilestored64);
}

} // namespace libtile::codegen::cpu
