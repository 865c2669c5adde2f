// SPDX-License-Identifier: Apache-2.0
// Precompiled: what most files include, of the standard library, LLVM's ADT and ir/. A header that
// changes when an op is added has no place here, and one that few files need costs the others time.
// Each file includes what it uses all the same: with -Db_pch=false, as `./dev test --all-llvm`
// builds for the oldest LLVM, everything compiles too.
#include "ir/function.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/ADT/StringRef.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>
