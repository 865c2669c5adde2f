// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/build_id.h"

#include <cstdint>
#include <link.h>

namespace libtile::runtime {

namespace {

// The note of that type and owner "GNU" in a segment of notes.
std::string_view findNote(const char *notes, size_t bytes, uint32_t type) {
  const auto padded = [](size_t size) { return (size + 3) / 4 * 4; };
  while (bytes >= sizeof(ElfW(Nhdr))) {
    const auto &head = *reinterpret_cast<const ElfW(Nhdr) *>(notes);
    const char *name = notes + sizeof head;
    const size_t all = sizeof head + padded(head.n_namesz) + padded(head.n_descsz);
    if (all > bytes) {
      break;
    }
    if (head.n_type == type && std::string_view(name, head.n_namesz) == std::string_view("GNU", 4)) {
      return {name + padded(head.n_namesz), head.n_descsz};
    }
    notes += all;
    bytes -= all;
  }
  return {};
}

// Asked for each file that is loaded: the answer of that which this code is in. 0: go on.
int visitFile(dl_phdr_info *file, size_t, void *answer) {
  const auto here = reinterpret_cast<uintptr_t>(&visitFile);
  std::string_view note;
  bool isThis = false;
  for (int i = 0; i < file->dlpi_phnum; ++i) {
    const ElfW(Phdr) &segment = file->dlpi_phdr[i];
    const uintptr_t begin = file->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && here >= begin && here - begin < segment.p_memsz) {
      isThis = true;
    } else if (segment.p_type == PT_NOTE && note.empty()) {
      note = findNote(reinterpret_cast<const char *>(begin), segment.p_memsz, NT_GNU_BUILD_ID);
    }
  }
  if (isThis) {
    *static_cast<std::string_view *>(answer) = note;
  }
  return isThis ? 1 : 0;
}

} // namespace

std::string_view buildId() {
  static const std::string_view id = [] {
    std::string_view found;
    dl_iterate_phdr(visitFile, &found);
    return found;
  }();
  return id;
}

} // namespace libtile::runtime
