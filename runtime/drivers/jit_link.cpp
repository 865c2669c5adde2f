// SPDX-License-Identifier: Apache-2.0
#include "runtime/drivers/jit_link.h"

#include "runtime/drivers/cuda_api.h"

#include <cstdint>

namespace libtile::runtime {

bool canLink(std::string_view ptx) { return ptx.find("setmaxnreg") == std::string_view::npos; }

std::string linkPtx(const std::string &ptx, bool lines) {
  const cuda::Api &api = cuda::api();
  int options[] = {cuda::kJitLineInfo};
  void *values[] = {reinterpret_cast<void *>(size_t{lines})};
  cuda::LinkState state = nullptr;
  if (api.cuLinkCreate_v2(1, options, values, &state) != 0) {
    return "";
  }
  void *code = nullptr;
  size_t bytes = 0;
  // The text with the 0 at its end.
  const bool isThere = api.cuLinkAddData_v2(state, cuda::kJitInputPtx, const_cast<char *>(ptx.c_str()), ptx.size() + 1, "", 0,
                                            nullptr, nullptr) == 0 &&
                       api.cuLinkComplete(state, &code, &bytes) == 0;
  std::string made = isThere ? std::string(static_cast<const char *>(code), bytes) : "";
  api.cuLinkDestroy(state); // and the code with it
  return made;
}

} // namespace libtile::runtime
