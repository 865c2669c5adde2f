// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch.h"

#include "ir/float8.h"
#include "runtime/float_environment.h"
#include "runtime/fork.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <map>
#include <mutex>

namespace libtile::runtime {

namespace {

using Kind = CallArgument::Kind;

bool guardHolds(const ir::Guard &guard, std::span<const uint64_t> slots,
                std::span<const Extent> extents) noexcept {
  switch (guard.kind) {
  case ir::Guard::Kind::Divisible:
    return guard.value != 0 && static_cast<int64_t>(slots[guard.param]) % guard.value == 0;
  case ir::Guard::Kind::Below:
    return static_cast<int64_t>(slots[guard.param]) < guard.value;
  case ir::Guard::Kind::Above:
    return static_cast<int64_t>(slots[guard.param]) > guard.value;
  case ir::Guard::Kind::Disjoint: {
    if (extents.empty()) {
      return false;
    }
    const Extent &a = extents[guard.param];
    const Extent &b = extents[static_cast<size_t>(guard.value)];
    return a.begin < a.end && b.begin < b.end && (a.end <= b.begin || b.end <= a.begin);
  }
  case ir::Guard::Kind::Positive: {
    const auto number = std::bit_cast<float>(static_cast<uint32_t>(slots[guard.param]));
    return number >= std::ldexp(1.0f, -ir::kGuardedExponent) && number <= std::ldexp(1.0f, ir::kGuardedExponent);
  }
  case ir::Guard::Kind::Within:
    return static_cast<int64_t>(slots[guard.param]) > 0 && static_cast<int64_t>(slots[guard.param]) <= guard.value;
  }
  return false;
}

bool guardsHold(const Variant &variant, std::span<const uint64_t> slots, std::span<const Extent> extents) noexcept {
  return std::ranges::all_of(variant.guards, [&](const ir::Guard &guard) { return guardHolds(guard, slots, extents); });
}

// i1 takes 0 and 1.
bool fitsInteger(const frontend::DType &dtype, const CallArgument &value) noexcept {
  const unsigned bits = ir::bitWidth(dtype.elem);
  const bool isSigned = dtype.isSigned && bits > 1;
  const auto number = static_cast<int64_t>(value.bits);
  if (value.kind == Kind::UInt || number >= 0) {
    const unsigned positive = isSigned ? bits - 1 : bits;
    return positive >= 64 || value.bits >> positive == 0;
  }
  return isSigned && number >> (bits - 1) == -1;
}

double toDouble(const CallArgument &value) noexcept {
  return value.kind == Kind::Float  ? std::bit_cast<double>(value.bits)
         : value.kind == Kind::UInt ? static_cast<double>(value.bits)
                                    : static_cast<double>(static_cast<int64_t>(value.bits));
}

// For a second rounding to fewer bits: an integer that a double does not hold becomes the neighbour whose
// last bit is odd, so that the second rounding sees that something was dropped.
double toDoubleByOdd(const CallArgument &value) noexcept {
  const bool isNegative = value.kind == Kind::Int && static_cast<int64_t>(value.bits) < 0;
  const uint64_t size = isNegative ? 0 - value.bits : value.bits;
  const int dropped = 11 - std::countl_zero(size);
  if (value.kind == Kind::Float || dropped <= 0) {
    return toDouble(value);
  }
  const uint64_t rest = size & ((uint64_t{1} << dropped) - 1);
  const uint64_t kept = size >> dropped | (rest != 0 ? 1 : 0);
  const double rounded = std::ldexp(static_cast<double>(kept), dropped);
  return isNegative ? -rounded : rounded;
}

} // namespace

uint16_t roundToBfloat(double value) noexcept {
  // To float by rounding to odd, so that the second rounding sees what the first dropped.
  auto narrow = static_cast<float>(value);
  auto bits = std::bit_cast<uint32_t>(narrow);
  if (std::isnan(value)) {
    return static_cast<uint16_t>((bits >> 16) | 0x40);
  }
  if (std::isfinite(narrow) && static_cast<double>(narrow) != value) {
    if (std::abs(static_cast<double>(narrow)) > std::abs(value)) {
      --bits;
    }
    bits |= 1;
  }
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

uint16_t roundToHalf(double value) noexcept {
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const double size = std::abs(value);
  if (std::isnan(value)) {
    return static_cast<uint16_t>(sign | 0x7E00);
  }
  if (size >= 65520) {
    return static_cast<uint16_t>(sign | 0x7C00);
  }
  if (size < 0x1p-14) {
    // Subnormal: a multiple of 2^-24; 1024 of them are the least normal number.
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(size * 0x1p24)));
  }
  int exponent = 0;
  const double fraction = std::frexp(size, &exponent); // [0.5, 1)
  const auto mantissa = static_cast<uint32_t>(std::nearbyint(fraction * 2048)); // 1024 .. 2048
  // A mantissa that rounds up to 2048 carries into the exponent by itself.
  return static_cast<uint16_t>(sign | ((exponent + 13) * 1024 + mantissa));
}

std::string readTypeText(std::string_view text, CallArgument &made) {
  made = {};
  made.kind = CallArgument::Kind::Type;
  made.bits = 1;
  std::string_view name = text;
  if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    const char *last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data() + colon + 1, last, made.bits);
    if (error != std::errc() || end != last || made.bits == 0 || made.bits > UINT32_MAX) {
      return "'" + std::string(text) + "' says no multiple behind the colon";
    }
    name = text.substr(0, colon);
  }
  const auto dtype = frontend::DType::byName(name);
  if (!dtype) {
    return "there is no type '" + std::string(name) + "'";
  }
  made.dtype = encodeType(*dtype);
  return "";
}

bool encodeSlot(const frontend::DType &dtype, const CallArgument &value, uint64_t &slot) noexcept {
  if (dtype.isPointer()) {
    slot = value.bits;
    return value.kind == Kind::Pointer;
  }
  if (value.kind == Kind::None || value.kind >= Kind::Pointer) {
    return false;
  }
  if (dtype.isInt()) {
    slot = value.bits;
    return value.kind != Kind::Float && fitsInteger(dtype, value);
  }
  if (dtype.isFloat8()) {
    slot = ir::encodeFloat8(*dtype.float8, toDoubleByOdd(value));
  } else if (dtype.elem == ir::Elem::F64) {
    slot = std::bit_cast<uint64_t>(toDouble(value));
  } else if (dtype.elem == ir::Elem::F32) {
    slot = std::bit_cast<uint32_t>(static_cast<float>(toDoubleByOdd(value)));
  } else if (dtype.elem == ir::Elem::F16) {
    slot = roundToHalf(toDoubleByOdd(value));
  } else {
    slot = roundToBfloat(toDoubleByOdd(value));
  }
  return dtype.isFloat();
}

std::string describeMisfit(const frontend::DType &dtype, const CallArgument &value) {
  std::string what;
  switch (value.kind) {
  case Kind::None:
  case Kind::Constant:
  case Kind::Tuple:
    what = "a constant";
    break;
  case Kind::Type:
    what = "the type " + decodeType(value.dtype).name();
    break;
  case Kind::Bool:
    what = value.bits != 0 ? "True" : "False";
    break;
  case Kind::Int:
    what = "the integer " + std::to_string(static_cast<int64_t>(value.bits));
    break;
  case Kind::UInt:
    what = "the integer " + std::to_string(value.bits);
    break;
  case Kind::Float:
    what = "the float " + frontend::constantText(frontend::Constant(std::bit_cast<double>(value.bits)));
    break;
  case Kind::Pointer:
    what = "an array of " + decodeType(value.dtype).name();
    break;
  }
  return what + " does not fit " + dtype.name();
}

std::string describeRefusal(const RuntimeParameter &parameter, const CallArgument &value) {
  uint64_t slot = 0;
  return encodeSlot(parameter.dtype, value, slot)
             ? " is a read-only array, and the kernel stores to it"
             : ": " + describeMisfit(parameter.dtype, value);
}

const RuntimeParameter *fillSlots(const Compiled &kernel, const CallArgument *arguments,
                                  uint64_t *slots) noexcept {
  const FloatEnvironment standard;
  const std::vector<RuntimeParameter> &parameters = kernel.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const CallArgument &argument = arguments[parameters[i].argument];
    const bool isRefused = (argument.flags & CallArgument::kReadOnly) != 0 && kernel.written()[i];
    if (!encodeSlot(parameters[i].dtype, argument, slots[i]) || isRefused) {
      return &parameters[i];
    }
  }
  return nullptr;
}

std::span<const Extent> gatherExtents(const Executable &executable, const Extent *byArgument,
                                      Extent *storage) noexcept {
  if (!executable.needsExtents() || byArgument == nullptr) {
    return {};
  }
  const std::vector<RuntimeParameter> &parameters = executable.kernel().parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    storage[i] = byArgument[parameters[i].argument];
  }
  return {storage, parameters.size()};
}

bool checkGrid(const int64_t grid[3], LaunchShape &shape) {
  bool any = true;
  __int128 programs = 1;
  for (int i = 0; i < 3; ++i) {
    if (grid[i] < 0 || grid[i] > INT32_MAX) {
      throw ir::UserError("extent " + std::to_string(grid[i]) + " of the grid is not in 0 .. 2147483647");
    }
    shape.grid[i] = static_cast<int32_t>(grid[i]);
    any = any && grid[i] != 0;
    programs *= grid[i];
  }
  if (programs > INT64_MAX) {
    throw ir::UserError("a grid of " + std::to_string(grid[0]) + " x " + std::to_string(grid[1]) + " x " +
                        std::to_string(grid[2]) + " is more programs than 64 bits can count");
  }
  return any;
}

std::shared_ptr<Executable> executableFor(std::shared_ptr<const Compiled> kernel, std::shared_ptr<Driver> driver) {
  using Key = std::pair<const Compiled *, const Driver *>;
  struct Known {
    std::mutex mutex;
    std::map<Key, std::weak_ptr<Executable>> executables;
    size_t sweepAt = 64; // so many: those that are gone leave, which is no search through all for each new one
  };
  // Threads may still launch while the process ends.
  static Known &known = *new Known;
  const std::lock_guard lock(known.mutex);
  if (known.executables.size() >= known.sweepAt) {
    std::erase_if(known.executables, [](const auto &entry) { return entry.second.expired(); });
    known.sweepAt = std::max(known.sweepAt, 2 * known.executables.size());
  }
  std::weak_ptr<Executable> &kept = known.executables[{kernel.get(), driver.get()}];
  std::shared_ptr<Executable> executable = kept.lock();
  if (executable == nullptr) {
    executable = std::make_shared<Executable>(std::move(kernel), std::move(driver));
    kept = executable;
  }
  return executable;
}

Executable::Executable(std::shared_ptr<const Compiled> kernel, std::shared_ptr<Driver> driver)
    : kernel_(std::move(kernel)), driver_(std::move(driver)) {
  if (!driver_->runs(kernel_->target())) {
    throw ir::UserError("the kernel is compiled for " + kernel_->target().name + ", which " +
                        driver_->name() + " (" + driver_->target() + ") does not run");
  }
  // The general variant's recipe is the run-time parameters in order; tensor maps behind them are the driver's.
  for (const RecipeSlot &slot : kernel_->preferred().recipe) {
    if (slot.kind != RecipeSlot::Kind::Argument && slot.kind != RecipeSlot::Kind::TensorMap) {
      throw ir::Unsupported("the kernel's code takes a value that launches do not make");
    }
  }
  entries_[0].variant.store(&kernel_->preferred());
  needsExtents_ = kernel_->checksAccesses();
  for (const ir::Guard &guard : kernel_->preferred().guards) {
    needsExtents_ = needsExtents_ || guard.kind == ir::Guard::Kind::Disjoint;
  }
}

LoadedCode *Executable::select(std::span<const uint64_t> slots,
                           std::span<const Extent> extents) const noexcept {
  for (const Entry &entry : entries_) {
    const Variant *variant = entry.variant.load(std::memory_order_acquire);
    if (variant == nullptr) {
      return nullptr;
    }
    if (guardsHold(*variant, slots, extents)) {
      return entry.code.load(std::memory_order_acquire);
    }
  }
  return nullptr; // the last one relies on nothing
}

void Executable::prepare(std::span<const uint64_t> slots, std::span<const Extent> extents) {
  using passes::Reliance;
  constexpr Reliance kOrder[] = {Reliance::Numbers, Reliance::Arguments, Reliance::Inputs, Reliance::Nothing};
  static_assert(std::size(kOrder) == std::tuple_size<decltype(entries_)>());
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Variant &variant = kernel_->variant(kOrder[i]);
    entries_[i].variant.store(&variant, std::memory_order_release);
    if (guardsHold(variant, slots, extents)) {
      return load(entries_[i]);
    }
  }
}

void Executable::load(Entry &entry) {
  const CompileScope scope;
  const std::lock_guard lock(mutex_);
  if (entry.owned == nullptr) {
    entry.owned = driver_->load(entry.variant.load(std::memory_order_acquire)->code);
    entry.code.store(entry.owned.get(), std::memory_order_release);
  }
}

void Executable::run(std::span<const uint64_t> slots, std::span<const Extent> extents,
                     const int64_t grid[3], void *stream) {
  LaunchShape shape{};
  if (!checkGrid(grid, shape)) {
    return;
  }
  LoadedCode *code = select(slots, extents);
  if (code == nullptr) {
    prepare(slots, extents);
    code = select(slots, extents);
  }
  Findings findings{extents.data()};
  const char *message = driver_->launch(*code, shape, slots.data(), slots.size(), stream, {},
                                        kernel_->reports() ? &findings : nullptr);
  throwFindings(*kernel_, slots, findings);
  if (message != nullptr) {
    throw DeviceError(message);
  }
}

std::vector<std::pair<std::string, int64_t>> Executable::properties() const {
  const LoadedCode *module = entries_[0].code.load(std::memory_order_acquire);
  return module != nullptr ? module->properties() : std::vector<std::pair<std::string, int64_t>>{};
}

} // namespace libtile::runtime
