// SPDX-License-Identifier: Apache-2.0
// The prelude: functions of the library in the kernel language, from the files frontend/prelude/*.py and
// those of its folders, whose text lies in the program. A function is parsed when it is used first, once in a
// process, by any thread. Errors in them point at their lines, as in a user's file.
//
// A function of the prelude serves in one of two ways:
//   - a LIBRARY row of language.def names it (LIBDEVICE: in the folder libdevice/): `tl.name` inlines it
//     where it is called;
//   - it bears the mnemonic of a FUNCTION of ops.def, or that of a CAST_FUNCTION and its format:
//     `scalarBody` is the op's code for targets without an instruction for it (ir/function_library.h).
// Names in it are `tl`, those of its file, and those of the files that lie in no folder; no Host is asked.
// A name is unique among the files of a folder.
#pragma once

#include "frontend/syntax/source.h"

namespace libtile::frontend {

// Of that name ("cdiv"); of one with dots ("extra.libdevice.pow") what lies behind the last two, a folder
// and a name in it. nullptr: there is none.
[[nodiscard]] std::shared_ptr<const FunctionSource> preludeFunction(std::string_view name);
// What `user`, a function of the prelude, means by a name. nullptr: there is none.
[[nodiscard]] std::shared_ptr<const FunctionSource> preludeFunction(std::string_view name,
                                                                    const FunctionSource &user);

// The function as tile IR on run-time scalars of these types, one a parameter; it ends in a `yield` of
// what the function returns, a scalar of the result's type, by default that of the first parameter.
[[nodiscard]] ir::Function scalarBody(const FunctionSource &function,
                                      std::span<const DType> parameters,
                                      std::optional<DType> result = {});

} // namespace libtile::frontend
