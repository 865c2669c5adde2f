// SPDX-License-Identifier: Apache-2.0
// Lists by hash that only grow at their heads: a reader follows pointers that never change.
#include "runtime/capi/constants.h"

#include <array>
#include <atomic>

namespace libtile::capi {

namespace {

struct Known {
  ConstantSort sort;
  std::string bytes;
  frontend::Value value;
  uint64_t number;
  const Known *next;
};
constexpr size_t kLists = 1024;
constinit std::array<std::atomic<const Known *>, kLists> lists{};
constinit std::atomic<uint64_t> lastNumber{0};

// Between `from` and `until`, which is not looked at.
const Known *find(ConstantSort sort, std::string_view bytes, const Known *from, const Known *until) {
  while (from != until && (from->sort != sort || from->bytes != bytes)) {
    from = from->next;
  }
  return from != until ? from : nullptr;
}

const Known &known(ConstantSort sort, std::string_view bytes,
                   llvm::function_ref<frontend::Value()> make) {
  std::atomic<const Known *> &list = lists[std::hash<std::string_view>()(bytes) % kLists];
  const Known *head = list.load(std::memory_order_acquire);
  if (const Known *found = find(sort, bytes, head, nullptr)) {
    return *found;
  }
  auto made = std::make_unique<Known>(Known{sort, std::string(bytes), make(), nextConstant(), head});
  while (!list.compare_exchange_weak(head, made.get(), std::memory_order_acq_rel)) {
    if (const Known *found = find(sort, bytes, head, made->next)) { // another thread was faster
      return *found;
    }
    made->next = head;
  }
  return *made.release();
}

} // namespace

uint64_t nextConstant() noexcept { return lastNumber.fetch_add(1, std::memory_order_relaxed) + 1; }

runtime::CallArgument constant(ConstantSort sort, std::string_view bytes,
                               llvm::function_ref<frontend::Value()> make) {
  const Known &found = known(sort, bytes, make);
  runtime::CallArgument argument;
  argument.kind = runtime::CallArgument::Kind::Constant;
  argument.bits = found.number;
  argument.value = &found.value;
  return argument;
}

} // namespace libtile::capi
