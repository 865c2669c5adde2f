// SPDX-License-Identifier: Apache-2.0
#include "tests/amd/float_ops.h"
#include "tests/amd/memory_step.h"

namespace emulator {

namespace {

bool take(std::string &name, const std::string &part) {
  const size_t at = name.find(part);
  if (at == name.npos) {
    return false;
  }
  name.erase(at, part.size());
  return true;
}

constexpr std::pair<std::string_view, unsigned> kBytes[] = {
    {"dwordx4", 16}, {"dwordx3", 12}, {"dwordx2", 8}, {"dword", 4}, {"b128", 16}, {"b96", 12}, {"b64", 8}, {"b32", 4}, {"ubyte", 1},
    {"sbyte", 1},    {"byte", 1},     {"ushort", 2},  {"sshort", 2}, {"short", 2}, {"u8", 1},  {"i8", 1},  {"b8", 1},  {"u16", 2},
    {"i16", 2},      {"b16", 2}};

template <class T> std::function<uint64_t(uint64_t, uint64_t)> typed(T (*f)(T, T)) {
  return [f](uint64_t old, uint64_t data) { return toBits(f(fromBits<T>(old), fromBits<T>(data))); };
}

template <class T> AtomicKind integerKind(const std::string &operation) {
  using Signed = std::make_signed_t<T>;
  const auto with = [](auto f) { return AtomicKind{.bytes = sizeof(T), .compares = false, .f = f}; };
  if (operation == "add") return with(typed<T>([](T a, T b) { return static_cast<T>(a + b); }));
  if (operation == "sub") return with(typed<T>([](T a, T b) { return static_cast<T>(a - b); }));
  if (operation == "rsub") return with(typed<T>([](T a, T b) { return static_cast<T>(b - a); }));
  if (operation == "and") return with(typed<T>([](T a, T b) { return static_cast<T>(a & b); }));
  if (operation == "or") return with(typed<T>([](T a, T b) { return static_cast<T>(a | b); }));
  if (operation == "xor") return with(typed<T>([](T a, T b) { return static_cast<T>(a ^ b); }));
  if (operation == "umin") return with(typed<T>([](T a, T b) { return std::min(a, b); }));
  if (operation == "umax") return with(typed<T>([](T a, T b) { return std::max(a, b); }));
  if (operation == "smin") return with(typed<Signed>([](Signed a, Signed b) { return std::min(a, b); }));
  if (operation == "smax") return with(typed<Signed>([](Signed a, Signed b) { return std::max(a, b); }));
  if (operation == "inc") return with(typed<T>([](T a, T b) { return static_cast<T>(a >= b ? 0 : a + 1); }));
  if (operation == "dec") return with(typed<T>([](T a, T b) { return static_cast<T>(a == 0 || a > b ? b : a - 1); }));
  if (operation == "swap" || operation == "wrxchg" || operation == "storexchg") return with(typed<T>([](T, T b) { return b; }));
  if (operation == "cmpswap" || operation == "cmpst" || operation == "cmpstore") return {sizeof(T), true, {}};
  return {};
}

template <class T> AtomicKind floatKind(const std::string &operation) {
  const auto with = [](auto f) { return AtomicKind{.bytes = sizeof(T), .compares = false, .f = f}; };
  if (operation == "add") return with(typed<T>([](T a, T b) { return a + b; }));
  if (operation == "min" || operation == "min_num" || operation == "fmin") return with(typed<T>([](T a, T b) { return lesser(a, b); }));
  if (operation == "max" || operation == "max_num" || operation == "fmax") return with(typed<T>([](T a, T b) { return greater(a, b); }));
  return {};
}

AtomicKind packedSum(bool isBfloat) {
  return {4, false, [isBfloat](uint64_t old, uint64_t data) {
            uint64_t out = 0;
            for (const unsigned shift : {0U, 16U}) {
              const auto a = static_cast<uint16_t>(old >> shift), b = static_cast<uint16_t>(data >> shift);
              out |= uint64_t{isBfloat ? toBfloat(fromBfloat(a) + fromBfloat(b)) : toHalf(fromHalf(a) + fromHalf(b))} << shift;
            }
            return out;
          }};
}

} // namespace

DataFormat parseFormat(std::string_view text) {
  std::string name(text);
  DataFormat format;
  format.isHigh = take(name, "_d16_hi") || take(name, "d16_hi_");
  format.keepsOther = format.isHigh || take(name, "_d16") || take(name, "d16_");
  for (const auto &[known, bytes] : kBytes) {
    if (name == known) {
      format.bytes = bytes;
      format.isSigned = known[0] == 'i' || (known[0] == 's' && known != "short");
    }
  }
  return format;
}

Data::Data(std::string_view registers, DataFormat format) : index_(registerOf(registers).index), format_(format) {
  const Register found = registerOf(registers);
  format_.keepsOther |= found.hasHalf;
  format_.isHigh |= found.isHigh;
}

void Data::load(Wave &wave, unsigned lane, const uint8_t *bytes) const {
  if (format_.bytes >= 4) {
    for (unsigned i = 0; i < format_.bytes / 4; ++i) {
      std::memcpy(&wave.vector(index_ + i)[lane], bytes + 4 * i, 4);
    }
    return;
  }
  uint32_t value = 0;
  std::memcpy(&value, bytes, format_.bytes);
  const unsigned unused = 32 - 8 * format_.bytes;
  value = format_.isSigned ? static_cast<uint32_t>(static_cast<int32_t>(value << unused) >> unused) : value;
  uint32_t &whole = wave.vector(index_)[lane];
  const unsigned shift = format_.isHigh ? 16 : 0;
  whole = format_.keepsOther ? (whole & ~(0xffffU << shift)) | (value & 0xffff) << shift : value;
}

void Data::store(const Wave &wave, unsigned lane, uint8_t *bytes) const {
  for (unsigned i = 0; i < (format_.bytes + 3) / 4; ++i) {
    const uint32_t value = wave.vector(index_ + i)[lane] >> (format_.isHigh ? 16 : 0);
    std::memcpy(bytes + 4 * i, &value, std::min(4U, format_.bytes));
  }
}

AtomicKind parseAtomic(std::string name) {
  take(name, "_rtn");
  if (name.starts_with("pk_add")) {
    return packedSum(name.ends_with("bf16"));
  }
  const bool isDouble = take(name, "_x2");
  for (const std::string type : {"_u32", "_i32", "_b32", "_f32", "_u64", "_i64", "_b64", "_f64"}) {
    if (!name.ends_with(type)) {
      continue;
    }
    std::string operation = name.substr(0, name.size() - 4);
    if (type[1] == 'f') {
      return type == "_f32" ? floatKind<float>(operation) : floatKind<double>(operation);
    }
    if (operation == "min" || operation == "max") {
      operation = (type[1] == 'u' ? "u" : "s") + operation;
    }
    return type.ends_with("64") ? integerKind<uint64_t>(operation) : integerKind<uint32_t>(operation);
  }
  if (name == "fmin" || name == "fmax") {
    return isDouble ? floatKind<double>(name) : floatKind<float>(name);
  }
  return isDouble ? integerKind<uint64_t>(name) : integerKind<uint32_t>(name);
}

} // namespace emulator
