// SPDX-License-Identifier: Apache-2.0
// The loader: RuntimeDyld over one mapping a module. Objects are ours alone (one function,
// constants, a few C functions), so nothing of ORC's sessions, dylibs and lazy stubs is needed; a
// load costs some tens of microseconds.
//
// All sections lie in one mapping, code first, so that 32-bit distances reach; each part begins on
// a page of its own, and no page is ever writable and executable at once.
#include "codegen/cpu/jit.h"

#include <llvm/ExecutionEngine/JITSymbol.h>
#include <llvm/ExecutionEngine/RuntimeDyld.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/Memory.h>
#include <llvm/Support/Process.h>

#include <chrono>
#include <cmath>
#include <cstring>

namespace libtile::codegen::cpu {

namespace {

struct Symbol {
  const char *name;
  void *address;
};

template <class Fn> void *addressOf(Fn *function) { return reinterpret_cast<void *>(function); }

int64_t nanoseconds() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What code may call: memory functions, the functions behind llvm.* intrinsics, the clock.
void *hostSymbol(llvm::StringRef name) {
  static const Symbol symbols[] = {
      {"memcpy", addressOf(&std::memcpy)},
      {"memmove", addressOf(&std::memmove)},
      {"memset", addressOf(&std::memset)},
      {kClock, addressOf(&nanoseconds)},
      {"fma", addressOf(static_cast<double (*)(double, double, double)>(&std::fma))},
      {"fmaf", addressOf(static_cast<float (*)(float, float, float)>(&std::fma))},
  };
  for (const Symbol &symbol : symbols) {
    if (name == symbol.name) {
      return symbol.address;
    }
  }
  return nullptr;
}

class Resolver final : public llvm::LegacyJITSymbolResolver {
public:
  llvm::JITSymbol findSymbol(const std::string &name) override {
    void *address = hostSymbol(name);
    if (address == nullptr) {
      return nullptr;
    }
    return {reinterpret_cast<uintptr_t>(address), llvm::JITSymbolFlags::Exported};
  }
  llvm::JITSymbol findSymbolInLogicalDylib(const std::string &) override { return nullptr; }
};

} // namespace

// One mapping of three parts: code, constants, data.
struct CpuModule::Memory final : llvm::RuntimeDyld::MemoryManager {
  struct Part {
    uint8_t *at = nullptr;
    uint8_t *end = nullptr;
  };
  llvm::sys::MemoryBlock mapping;
  Part code, constants, data;
  bool overflowed = false;

  ~Memory() override {
    if (mapping.base() != nullptr) {
      llvm::sys::Memory::releaseMappedMemory(mapping);
    }
  }

  bool needsToReserveAllocationSpace() override { return true; }

  void reserveAllocationSpace(uintptr_t codeSize, llvm::Align, uintptr_t constantSize, llvm::Align,
                              uintptr_t dataSize, llvm::Align) override {
    const size_t page = llvm::sys::Process::getPageSizeEstimate();
    // Sizes are sums without the padding between sections.
    const auto pages = [&](uintptr_t size) { return (size + 1024) / page * page + page; };
    const size_t sizes[3] = {pages(codeSize), pages(constantSize), pages(dataSize)};
    std::error_code error;
    mapping = llvm::sys::Memory::allocateMappedMemory(
        sizes[0] + sizes[1] + sizes[2], nullptr,
        llvm::sys::Memory::MF_READ | llvm::sys::Memory::MF_WRITE, error);
    if (error) {
      mapping = {};
      return;
    }
    uint8_t *at = static_cast<uint8_t *>(mapping.base());
    Part *const parts[3] = {&code, &constants, &data};
    for (unsigned i = 0; i < 3; ++i, at = parts[i - 1]->end) {
      *parts[i] = {at, at + sizes[i]};
    }
  }

  uint8_t *take(Part &part, uintptr_t size, unsigned alignment) {
    const uintptr_t mask = std::max(alignment, 1u) - 1;
    auto *at = reinterpret_cast<uint8_t *>((reinterpret_cast<uintptr_t>(part.at) + mask) & ~mask);
    if (at == nullptr || at > part.end || size > static_cast<uintptr_t>(part.end - at)) {
      overflowed = true;
      return nullptr;
    }
    part.at = at + size;
    return at;
  }

  uint8_t *allocateCodeSection(uintptr_t size, unsigned alignment, unsigned,
                               llvm::StringRef) override {
    return take(code, size, alignment);
  }
  uint8_t *allocateDataSection(uintptr_t size, unsigned alignment, unsigned, llvm::StringRef,
                               bool isReadOnly) override {
    return take(isReadOnly ? constants : data, size, alignment);
  }
  // Our functions neither throw nor are thrown through.
  void registerEHFrames(uint8_t *, uint64_t, size_t) override {}
  void deregisterEHFrames() override {}

  bool protect(uint8_t *begin, uint8_t *end, unsigned flags) {
    const llvm::sys::MemoryBlock part(begin, end - begin);
    return !llvm::sys::Memory::protectMappedMemory(part, flags);
  }

  bool finalizeMemory(std::string *message) override {
    auto *base = static_cast<uint8_t *>(mapping.base());
    const bool done =
        base != nullptr && !overflowed &&
        protect(base, code.end, llvm::sys::Memory::MF_READ | llvm::sys::Memory::MF_EXEC) &&
        protect(code.end, constants.end, llvm::sys::Memory::MF_READ);
    if (!done && message != nullptr) {
      *message = "no memory for code";
    }
    return !done;
  }
};

CpuModule::CpuModule(std::span<const char> object, const std::string &symbol)
    : memory_(std::make_unique<Memory>()) {
  const llvm::MemoryBufferRef buffer(llvm::StringRef(object.data(), object.size()), symbol);
  llvm::Expected<std::unique_ptr<llvm::object::ObjectFile>> file =
      llvm::object::ObjectFile::createObjectFile(buffer);
  if (!file) {
    throw ir::InternalError("not an object file: " + llvm::toString(file.takeError()));
  }
  Resolver resolver;
  llvm::RuntimeDyld loader(*memory_, resolver);
  loader.loadObject(**file);
  std::string message;
  if (!loader.hasError() && !memory_->overflowed) {
    loader.resolveRelocations();
  }
  if (loader.hasError() || memory_->finalizeMemory(&message)) {
    throw ir::InternalError("loading @" + symbol + " failed: " +
                            (loader.hasError() ? loader.getErrorString().str() : message));
  }
  const uint64_t address = loader.getSymbol(symbol).getAddress();
  ir::check(address != 0, "the object holds its kernel");
  entry_ = reinterpret_cast<Kernel>(address);
}

CpuModule::CpuModule(const Code &code) : CpuModule(code.object, code.info.symbol) {
  if (code.info.frameVersion != LIBTILE_FRAME_VERSION) {
    throw ir::InternalError("@" + code.info.symbol + " is made for version " +
                            std::to_string(code.info.frameVersion) + " of the frame, not " +
                            std::to_string(LIBTILE_FRAME_VERSION));
  }
}
CpuModule::~CpuModule() = default;
CpuModule::CpuModule(CpuModule &&) noexcept = default;
CpuModule &CpuModule::operator=(CpuModule &&) noexcept = default;

size_t CpuModule::bytes() const { return memory_->mapping.allocatedSize(); }

} // namespace libtile::codegen::cpu
