// SPDX-License-Identifier: Apache-2.0
#include "codegen/cpu/float8_tables.h"

#include "codegen/cpu/elementwise.h"
#include "ir/float8.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <array>
#include <bit>
#include <cmath>

namespace libtile::codegen::cpu {

using llvm::Value;

namespace {

constexpr unsigned kLanes = 32; // of 16 bits
constexpr uint16_t kNaN = 0x7fc0;

uint16_t bf16Of(double number) {
  return std::isnan(number) ? kNaN : uint16_t(std::bit_cast<uint32_t>(float(number)) >> 16);
}

// Codes without sign that are no numbers; they are the last ones.
unsigned codesBeyond(const ir::Float8Format &format) {
  return format.hasInfinities ? 4 : format.oneZero || format.tiesFromZero ? 0 : 1;
}

// Entry i is of the code i - beyond, or where that is below 0 of as many before 128.
llvm::Constant *tableOf(llvm::IRBuilder<> &builder, ir::Float8 format, unsigned beyond) {
  std::array<uint16_t, kLanes> entries{};
  for (unsigned i = 0; i < 16; ++i) {
    entries[i] = bf16Of(ir::decodeFloat8(format, uint8_t((i - beyond) & 0x7f)));
  }
  return llvm::ConstantDataVector::get(builder.getContext(), entries);
}

// Of as many codes as a register has lanes.
Value *decodeRegister(llvm::IRBuilder<> &builder, ir::Float8 name, Value *codes) {
  const ir::Float8Format &format = ir::float8Format(name);
  auto *words = llvm::FixedVectorType::get(builder.getInt16Ty(), kLanes);
  const auto all = [&](uint16_t number) { return llvm::ConstantInt::get(words, number); };
  const unsigned beyond = codesBeyond(format), places = 7 - format.mantissaBits;
  Value *code = builder.CreateZExt(codes, words);
  Value *number = builder.CreateAnd(builder.CreateShl(code, all(places)), all(0x7f << places));
  number = builder.CreateAdd(number, all((127 - format.bias) << 7));
  Value *entry = builder.CreateAdd(code, all(beyond));
  Value *isListed = builder.CreateICmpEQ(builder.CreateAnd(entry, all(0x70)), all(0));
  Value *listed = builder.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_hi_512, {},
                                          {tableOf(builder, name, beyond), entry});
  Value *sign = builder.CreateAnd(builder.CreateShl(code, all(8)), all(0x8000));
  Value *result = builder.CreateOr(builder.CreateSelect(isListed, listed, number), sign);
  return format.oneZero
             ? builder.CreateSelect(builder.CreateICmpEQ(code, all(0x80)), all(kNaN), result)
             : result;
}

} // namespace

Value *float8ToBf16(llvm::IRBuilder<> &builder, ir::Float8 format, Value *codes) {
  return inRegisters(builder, {codes}, kLanes, [&](llvm::ArrayRef<Value *> parts) {
    return decodeRegister(builder, format, parts[0]);
  });
}

} // namespace libtile::codegen::cpu
