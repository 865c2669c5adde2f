// SPDX-License-Identifier: Apache-2.0
// Constants of calls that are no numbers: texts, names of the language, tuples. Each has a number that
// stands for it only, now and later, by which a call's key tells it apart.
#pragma once

#include "runtime/launch.h"

#include <llvm/ADT/STLFunctionalExtras.h>

#include <string_view>

namespace libtile::capi {

// A number that stands for something new.
[[nodiscard]] uint64_t nextConstant() noexcept;

enum class ConstantSort : char { String = 's', Language = 'l', Tuple = 't' };
// The constant that the bytes describe; `make` gives its value when it is asked for the first time. Equal
// bytes of one sort are one constant, which is kept. Takes no lock and allocates nothing for a constant
// that is known.
[[nodiscard]] runtime::CallArgument
constant(ConstantSort sort, std::string_view bytes,
         llvm::function_ref<frontend::Value()> make);

} // namespace libtile::capi
