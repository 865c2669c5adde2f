// SPDX-License-Identifier: Apache-2.0
#include "codegen/cpu/error_function.h"

#include "codegen/cpu/elementwise.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace libtile::codegen::cpu {

namespace {

using llvm::Value;

constexpr int kIntervals = 16;
using Row = std::array<float, kIntervals>;

// Interval k begins at (k - 0.1) / 3.75, where the first one is 0.24 long; the last ends at 4, from where on erf is 1.
constexpr float kLast = 4, kPerUnit = 3.75, kOffset = -0.4F, kFirstEnds = 0.5;
// Where each interval's distances count from; then the coefficients of their powers, from 0 on.
constexpr std::array<Row, 7> kTables = {{
    Row{0.0F, 0.372844726F, 0.640451849F, 0.906335056F, 1.17485631F, 1.44065368F, 1.70893884F, 1.97506273F,
     2.2354424F, 2.50885439F, 2.77215767F, 3.03868413F, 3.30965066F, 3.57810187F, 3.83523178F, 4.0F},
    Row{0.0F, 0.402002275F, 0.634924233F, 0.800070107F, 0.903386474F, 0.958389223F, 0.984342575F,
     0.994780421F, 0.998429835F, 0.999611914F, 0.999911606F, 0.999982715F, 0.999997139F, 0.999999583F,
     0.99999994F, 1.0F},
    Row{0.128379136F, 0.981934309F, 0.74871546F, 0.496257186F, 0.283794433F, 0.141606838F, 0.0608289205F,
     0.0228206217F, 0.00762425223F, 0.00208378956F, 0.000518756511F, 0.000110243556F, 1.97374775e-05F,
     3.10647283e-06F, 4.61777773e-07F, 0.0F},
    Row{5.72024737e-06F, -0.366102219F, -0.479510784F, -0.449774414F, -0.333420187F, -0.204009265F,
     -0.103954382F, -0.0450723171F, -0.0170432106F, -0.00522754528F, -0.00143786229F, -0.000334908109F,
     -6.5296008e-05F, -1.15814782e-05F, -1.38825578e-06F, 0.0F},
    Row{-0.376301646F, -0.236331284F, -0.0448501669F, 0.106338993F, 0.16654858F, 0.148735911F,
     0.0981611609F, 0.0517414883F, 0.0228600763F, 0.00804867782F, 0.00248476374F, 0.000641846796F,
     0.000137446128F, 2.52049103e-05F, 4.17009915e-06F, 0.0F},
    Row{0.00179443066F, 0.16485697F, 0.173214734F, 0.101574928F, 0.0137580028F, -0.0386151634F,
     -0.0489555486F, -0.0360434614F, -0.0199370775F, -0.00842296239F, -0.00300336722F, -0.000879402156F,
     -0.000210814949F, -1.91738764e-05F, -2.74203521e-05F, 0.0F},
    Row{0.106477119F, 0.0469751097F, -0.0301132984F, -0.0681444183F, -0.0561912358F, -0.022295557F,
     0.00383222778F, 0.0128357206F, 0.0108045936F, 0.00602482958F, 0.00255259615F, 0.000864019559F,
     0.000239542511F, 7.98465553e-05F, 3.12103512e-05F, 0.0F}}};

// The bits of a float plus this number end in the integer nearest to it.
constexpr float kToInteger = 1.5F * (1 << 23);

Value *ofRegister(llvm::IRBuilder<> &builder, Value *x) {
  namespace I = llvm::Intrinsic;
  auto *words = llvm::FixedVectorType::get(builder.getInt32Ty(), kIntervals);
  const auto all = [&](float number) { return llvm::ConstantFP::get(x->getType(), number); };
  const auto multiplyAdd = [&](Value *a, Value *b, Value *c) {
    return builder.CreateIntrinsic(I::fma, {x->getType()}, {a, b, c});
  };
  // NaN stays: it is not above the last number.
  Value *size = builder.CreateUnaryIntrinsic(I::fabs, x);
  size = builder.CreateSelect(builder.CreateFCmpOLT(all(kLast), size), all(kLast), size);
  Value *place = multiplyAdd(size, all(kPerUnit), all(kOffset));
  Value *interval = builder.CreateBitCast(builder.CreateFAdd(place, all(kToInteger)), words);
  const auto entry = [&](size_t table) {
    Value *row = llvm::ConstantDataVector::get(builder.getContext(), kTables[table]);
    return builder.CreateIntrinsic(I::x86_avx512_permvar_sf_512, {}, {row, interval});
  };
  Value *t = builder.CreateFSub(size, entry(0));
  Value *p = entry(kTables.size() - 1);
  for (size_t i = kTables.size() - 2; i > 1; --i) {
    p = multiplyAdd(p, t, entry(i));
  }
  Value *isBeyondFirst = builder.CreateFCmpOGT(place, all(kFirstEnds));
  Value *whole = multiplyAdd(p, t, builder.CreateSelect(isBeyondFirst, entry(1), t));
  Value *sign = builder.CreateAnd(builder.CreateBitCast(x, words), llvm::ConstantInt::get(words, uint64_t{1} << 31));
  return builder.CreateBitCast(builder.CreateOr(builder.CreateBitCast(whole, words), sign), x->getType());
}

} // namespace

float errorFunction(float x) {
  const float size = kLast < std::fabs(x) ? kLast : std::fabs(x);
  const float place = std::fma(size, kPerUnit, kOffset);
  const size_t interval = std::bit_cast<uint32_t>(place + kToInteger) % kIntervals;
  const float t = size - kTables[0][interval];
  float p = kTables.back()[interval];
  for (size_t i = kTables.size() - 2; i > 1; --i) {
    p = std::fma(p, t, kTables[i][interval]);
  }
  return std::copysign(std::fma(p, t, place > kFirstEnds ? kTables[1][interval] : t), x);
}

Value *errorFunction(llvm::IRBuilder<> &builder, Value *x) {
  return inRegisters(builder, {x}, kIntervals,
                     [&](llvm::ArrayRef<Value *> parts) { return ofRegister(builder, parts[0]); });
}

} // namespace libtile::codegen::cpu
