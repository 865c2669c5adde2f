// SPDX-License-Identifier: Apache-2.0
// The library of functions as the process has it: asked by several threads at once, and by a child.
#include "ir/ops.h"
#include "runtime/cache/function_library.h"

#include "runtime/fork.h"
#include "tests/function_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace libtile::runtime {
namespace {

std::vector<const ir::Function *> askAll() {
  const CompileScope scope;
  std::vector<const ir::Function *> bodies;
  for (const ir::FunctionKey &key : test::functionKeys()) {
    bodies.push_back(functionLibrary().body(key));
  }
  return bodies;
}

TEST(FunctionLibrary, ThreadsGetTheSameBodies) {
  std::vector<std::vector<const ir::Function *>> seen(8);
  std::vector<std::thread> threads;
  for (auto &mine : seen) {
    threads.emplace_back([&mine] { mine = askAll(); });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  for (const auto &mine : seen) {
    EXPECT_EQ(mine, seen[0]);
    EXPECT_EQ(std::ranges::count(mine, nullptr), 0);
  }
}

TEST(FunctionLibrary, WhatIsNoFunctionHasNoBody) {
  EXPECT_EQ(functionLibrary().body({ir::Opcode::FDiv, ir::Elem::F32}), nullptr);
  EXPECT_EQ(functionLibrary().body({ir::Opcode::Load, ir::Elem::F32}), nullptr);
}

// A child of a process whose threads ask all the time finds the lock free.
TEST(FunctionLibrary, WorksInAChild) {
  installForkHandlers();
  std::atomic<bool> done = false;
  std::thread asking([&] {
    while (!done) {
      askAll();
    }
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      _exit(askAll().size() >= 12 ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  done = true;
  asking.join();
}

} // namespace
} // namespace libtile::runtime
