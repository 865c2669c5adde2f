// SPDX-License-Identifier: Apache-2.0
// Random programs of loops, branches, break, continue, return and calls: the IR that the walker
// makes, run by an interpreter, stores what the program means.
#include "scalar_interpreter.h"
#include "syntax_fixture.h"

#include <functional>
#include <random>

namespace libtile::frontend {
namespace {

// One program: its text, and its meaning as a closure tree over an environment.
class Program {
public:
  using Env = std::map<std::string, int32_t>;
  enum class Left : uint8_t { No, Break, Continue, Return };
  using Expr = std::pair<std::string, std::function<int32_t(const Env &)>>;
  using Action = std::function<Left(Env &)>;

  explicit Program(uint32_t seed) : random_(seed) {
    for (int i = 0; i < 3; ++i) {
      helpers_.push_back(function("f" + std::to_string(i)));
    }
    body_ = kernel();
  }
  [[nodiscard]] const std::string &text() const { return text_; }
  std::vector<ScalarInterpreter::Written> run(int32_t n) {
    trace_.clear();
    Env env = {{"n", n}};
    body_(env);
    return trace_;
  }

private:
  uint32_t pick(uint32_t below) {
    return std::uniform_int_distribution<uint32_t>(0, below - 1)(random_);
  }
  static int32_t wrap(int64_t value) { return static_cast<int32_t>(value); }

  Expr expression(int depth) {
    const uint32_t kind = pick(depth > 0 ? 8 : 3);
    if (kind == 0) {
      const auto value = static_cast<int32_t>(pick(10));
      return {std::to_string(value), [value](const Env &) { return value; }};
    }
    if (kind <= 2) {
      const std::string name = names_[pick(static_cast<uint32_t>(names_.size()))];
      return {name, [name](const Env &env) { return env.at(name); }};
    }
    const Expr a = expression(depth - 1);
    const Expr b = expression(depth - 1);
    const auto x = a.second;
    const auto y = b.second;
    switch (kind) {
    case 3:
      return {"(" + a.first + " + " + b.first + ")",
              [x, y](const Env &e) { return wrap(int64_t{x(e)} + y(e)); }};
    case 4:
      return {"(" + a.first + " - " + b.first + ")",
              [x, y](const Env &e) { return wrap(int64_t{x(e)} - y(e)); }};
    case 5:
      return {"(" + a.first + " & " + b.first + ")", [x, y](const Env &e) { return x(e) & y(e); }};
    case 6:
      return {"(" + a.first + " ^ " + b.first + ")", [x, y](const Env &e) { return x(e) ^ y(e); }};
    default: {
      const Expr c = condition();
      const auto z = c.second;
      // A plain number on both sides would be a constant of the language; + n makes it a tensor.
      return {
          "((" + a.first + " + n) if " + c.first + " else (" + b.first + " + n))",
          [x, y, z](const Env &e) { return wrap(int64_t{z(e) != 0 ? x(e) : y(e)} + e.at("n")); }};
    }
    }
  }
  Expr condition() {
    static constexpr const char *kOps[] = {"<", ">", "==", "!="};
    const uint32_t op = pick(4);
    const Expr a = expression(1);
    const Expr b = expression(0);
    const auto x = a.second;
    const auto y = b.second;
    const Expr one = {a.first + " " + kOps[op] + " " + b.first, [x, y, op](const Env &e) {
                        const int32_t l = x(e) & 3;
                        const int32_t r = y(e) & 3;
                        return op == 0 ? l < r : op == 1 ? l > r : op == 2 ? l == r : l != r;
                      }};
    // Two bits of each side, so that all outcomes are frequent.
    return {"(" + a.first + " & 3) " + kOps[op] + " (" + b.first + " & 3)", one.second};
  }

  void line(int indent, const std::string &text) {
    text_ += std::string(static_cast<size_t>(indent) * 2, ' ') + text + "\n";
  }

  Action store(int indent) {
    const int64_t id = nextStore_++;
    const Expr value = expression(2);
    line(indent, "tl.store(out + " + std::to_string(id) + ", " + value.first + ")");
    return [this, id, f = value.second](Env &env) {
      trace_.push_back({id, f(env)});
      return Left::No;
    };
  }
  Action assign(int indent) {
    const std::string name = "v" + std::to_string(pick(4));
    if (!helpers_.empty() && pick(4) == 0) {
      const uint32_t which = pick(static_cast<uint32_t>(helpers_.size()));
      const Expr a = expression(1);
      const Expr b = expression(1);
      line(indent, name + " = f" + std::to_string(which) + "(out, " + a.first + " + n, " + b.first +
                       " + n)");
      return [this, name, which, x = a.second, y = b.second](Env &env) {
        Env inner = {{"n", wrap(int64_t{x(env)} + env.at("n"))},
                     {"m", wrap(int64_t{y(env)} + env.at("n"))}};
        helpers_[which](inner);
        env[name] = returned_;
        return Left::No;
      };
    }
    const Expr value = expression(2);
    const bool augmented = pick(2) == 0;
    line(indent, name + (augmented ? " += " : " = ") + value.first);
    return [name, augmented, f = value.second](Env &env) {
      const int32_t now = f(env);
      env[name] = augmented ? wrap(int64_t{env.at(name)} + now) : now;
      return Left::No;
    };
  }
  Action branch(int indent, int depth, bool inLoop) {
    const Expr test = condition();
    line(indent, "if " + test.first + ":");
    const Action yes = block(indent + 1, depth - 1, inLoop, 1 + pick(3));
    Action no = [](Env &) { return Left::No; };
    if (pick(2) == 0) {
      line(indent, "else:");
      no = block(indent + 1, depth - 1, inLoop, 1 + pick(3));
    }
    return [yes, no, f = test.second](Env &env) { return f(env) != 0 ? yes(env) : no(env); };
  }
  static Left afterBody(Left left) { return left == Left::Continue ? Left::No : left; }

  Action forLoop(int indent, int depth) {
    const std::string name = "i" + std::to_string(nextLoop_++);
    const bool isStatic = pick(3) == 0;
    const bool escapes = !isStatic && pick(3) == 0;
    if (escapes) {
      line(indent, name + " = n");
    }
    const Expr bound = expression(1);
    const auto fixed = static_cast<int32_t>(pick(6));
    line(indent, "for " + name + " in " +
                     (isStatic ? "tl.static_range(" + std::to_string(fixed) + ")"
                               : "range(" + bound.first + " & 3)") +
                     ":");
    names_.push_back(name);
    const Action body = block(indent + 1, depth - 1, true, 1 + pick(4));
    names_.pop_back();
    if (escapes) {
      line(indent, "v0 += " + name);
    }
    return [=, f = bound.second](Env &env) {
      if (escapes) {
        env[name] = env.at("n");
      }
      const int32_t trips = isStatic ? fixed : f(env) & 3;
      for (int32_t i = 0; i < trips; ++i) {
        env[name] = i;
        const Left left = afterBody(body(env));
        if (left == Left::Return) {
          return left;
        }
        if (left == Left::Break) {
          break;
        }
      }
      if (escapes) {
        env["v0"] = wrap(int64_t{env.at("v0")} + env.at(name));
      }
      return Left::No;
    };
  }
  Action whileLoop(int indent, int depth) {
    const std::string name = "w" + std::to_string(nextLoop_++);
    const Expr bound = expression(1);
    line(indent, name + " = 0");
    const bool endless = pick(4) == 0;
    line(indent, endless ? "while True:" : "while " + name + " < (" + bound.first + " & 3):");
    line(indent + 1, name + " += 1");
    if (endless) {
      line(indent + 1, "if " + name + " > 3: break");
    }
    const Action body = block(indent + 1, depth - 1, true, 1 + pick(4));
    return [=, f = bound.second](Env &env) {
      int32_t &counter = env[name] = 0;
      while (endless || counter < (f(env) & 3)) {
        ++counter;
        if (endless && counter > 3) {
          break;
        }
        const Left left = afterBody(body(env));
        if (left == Left::Return) {
          return left;
        }
        if (left == Left::Break) {
          break;
        }
      }
      return Left::No;
    };
  }
  Action leave(int indent, bool inLoop) {
    const uint32_t kind = pick(inLoop ? 3 : 1);
    if (kind == 0) {
      const Expr value = expression(1);
      line(indent, "return " + value.first + " + n");
      return [this, f = value.second](Env &env) {
        returned_ = wrap(int64_t{f(env)} + env.at("n"));
        return Left::Return;
      };
    }
    line(indent, kind == 1 ? "break" : "continue");
    const Left left = kind == 1 ? Left::Break : Left::Continue;
    return [left](Env &) { return left; };
  }
  Action statement(int indent, int depth, bool inLoop) {
    const uint32_t kind = pick(depth > 0 ? 9 : 4);
    switch (kind) {
    case 0:
    case 1:
      return store(indent);
    case 2:
      return assign(indent);
    case 3:
      return depth < kDepth ? leave(indent, inLoop) : assign(indent);
    case 4:
    case 5:
    case 6:
      return branch(indent, depth, inLoop);
    case 7:
      return forLoop(indent, depth);
    default:
      return whileLoop(indent, depth);
    }
  }
  Action block(int indent, int depth, bool inLoop, uint32_t count) {
    std::vector<Action> actions;
    for (uint32_t i = 0; i < count; ++i) {
      actions.push_back(statement(indent, depth, inLoop));
    }
    return [actions](Env &env) {
      for (const Action &action : actions) {
        if (const Left left = action(env); left != Left::No) {
          return left;
        }
      }
      return Left::No;
    };
  }
  Action variables(int indent) {
    for (int i = 0; i < 4; ++i) {
      line(indent, "v" + std::to_string(i) + " = n + " + std::to_string(i));
    }
    names_ = {"n", "v0", "v1", "v2", "v3"};
    return [](Env &env) {
      for (int i = 0; i < 4; ++i) {
        env["v" + std::to_string(i)] = wrap(int64_t{env.at("n")} + i);
      }
      return Left::No;
    };
  }
  Action function(const std::string &name) {
    line(0, "def " + name + "(out, n, m):");
    const Action init = variables(1);
    const Action body = block(1, kDepth, false, 3);
    const Expr value = expression(1);
    line(1, "return " + value.first + " + m");
    return [=, this, f = value.second](Env &env) {
      init(env);
      if (body(env) != Left::Return) {
        returned_ = wrap(int64_t{f(env)} + env.at("m"));
      }
      return Left::No;
    };
  }
  Action kernel() {
    line(0, "def k(out, n):");
    const Action init = variables(1);
    const Action body = block(1, kDepth, false, 6);
    const Action last = store(1);
    return [=](Env &env) {
      init(env);
      return body(env) == Left::No ? last(env) : Left::No;
    };
  }

  static constexpr int kDepth = 3;
  std::mt19937 random_;
  std::string text_;
  std::vector<std::string> names_;
  std::vector<Action> helpers_;
  Action body_;
  int64_t nextStore_ = 0;
  int nextLoop_ = 0;
  int32_t returned_ = 0;
  std::vector<ScalarInterpreter::Written> trace_;
};

TEST(ControlFlow, RandomProgramsMeanWhatTheySay) {
  size_t stores = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    Program program(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + program.text());
    TableHost host;
    const auto fn = parseFunction(sourceFile(program.text()), "k");
    const ir::Function made = specialise(*fn, signatureOf({"*i32", "i32"}), host);
    ASSERT_NO_THROW(ir::verifyOrThrow(made, "specialise"));
    for (const int32_t n : {0, 1, 2, 3, 7, -5}) {
      ScalarInterpreter interpreter(made);
      interpreter.run({0, n});
      const auto expected = program.run(n);
      ASSERT_EQ(interpreter.trace.size(), expected.size()) << "n = " << n << "\n"
                                                           << ir::print(made);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(interpreter.trace[i].offset, expected[i].offset)
            << "store " << i << ", n = " << n;
        ASSERT_EQ(interpreter.trace[i].value, expected[i].value) << "store " << i << ", n = " << n;
      }
      stores += expected.size();
    }
  }
  EXPECT_GT(stores, 5000U);
}

} // namespace
} // namespace libtile::frontend
