// SPDX-License-Identifier: Apache-2.0
// Precompiled for the C++ tests: pch/core_pch.h, GoogleTest and what random tests use.
#include "core_pch.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>
