// SPDX-License-Identifier: Apache-2.0
// The walker: runs a function's syntax tree over Values and leaves tile IR behind.
//
// Constants are computed, tensors become ops; `if` on a constant walks the taken side alone, calls
// are inlined, `static_range` is unrolled. Every loop body is walked once: the names that a loop
// may carry are in the tree. No operation of the language lives here (semantics.h).
//
// break, continue, return. A path that has left (its loop's iteration, the loop, the function)
// is *dead*: nothing more is walked on it. Where paths meet, a flag for each way of leaving is
// merged like a variable; while some flag may be set, the statements that follow are put into an
// `if` on its absence (of an unrolled loop each step into one of its own, so that they do not nest).
// When one side of an `if` is dead, what follows goes into the other side instead, which needs no flag.
// Loops turn the flags into the `stop` of their yield, and carry `returned` and the returned value out.
// Values on paths that never use them are zeros.
//
// Budgets (ops, steps, iterations unrolled, inlining depth, nesting of regions, stack) make every
// walk end; exceeding one is a UserError at the place.
#pragma once

#include "frontend/syntax/ast.h"
#include "frontend/specialise/host.h"
#include "frontend/specialise/path.h"
#include "frontend/semantics/semantics.h"
#include "frontend/syntax/source.h"

#include <llvm/ADT/STLFunctionalExtras.h>

#include <array>
#include <map>
#include <tuple>

namespace libtile::frontend {

class Walker {
public:
  Walker(ir::Function &fn, Host &host, std::vector<HostAnswer> *answers);
  ~Walker() { host_.ended(sem_); }
  Walker(const Walker &) = delete;
  Walker &operator=(const Walker &) = delete;
  void kernel(const FunctionSource &source, const Signature &signature);
  void scalarBody(const FunctionSource &source, std::span<const DType> parameters,
                  DType wanted);
  Value defaultValue(const FunctionSource &source, size_t parameter);

private:
  // ---- specialise.cpp
  // The value of a kernel's parameter, or of an item of a tuple, whose name has its index: "x[2]".
  Value argumentValue(const ParameterSource &param, const Argument &argument, const std::string &name,
                      SourceRange range);
  // ---- state
  struct Frame {
    const FunctionSource *source = nullptr;
    const Ast *ast = nullptr;
    std::shared_ptr<const ir::Location> caller;
    bool isKernel = false;
    Path path;
    std::vector<NameId> declaredConstexpr;
    // What the innermost loop hands on: a conflict of types in these cannot be ignored.
    std::vector<NameId> carried;
    int loops = 0;
  };
  // Restores the frame when a call ends, also by an exception that a Host swallows.
  struct FrameGuard {
    Walker &walker;
    Frame *saved;
    Semantics::Wrapping wrapping; // the library's arithmetic is right as it is
    FrameGuard(Walker &walker, Frame &frame)
        : walker(walker), saved(walker.frame_), wrapping(walker.sem_, frame.ast->isPrelude()) {
      walker.frame_ = &frame;
      ++walker.inlined_;
    }
    ~FrameGuard() {
      walker.frame_ = saved;
      --walker.inlined_;
    }
    FrameGuard(const FrameGuard &) = delete;
    FrameGuard &operator=(const FrameGuard &) = delete;
  };
  // One region deeper; afterwards ops are added behind the owner again.
  struct RegionGuard {
    Walker &walker;
    ir::BlockId parent;
    explicit RegionGuard(Walker &walker);
    ~RegionGuard() {
      walker.builder().setEnd(parent);
      --walker.regions_;
    }
    RegionGuard(const RegionGuard &) = delete;
    RegionGuard &operator=(const RegionGuard &) = delete;
  };
  // An `if` whose paths are being merged.
  struct Merge {
    ir::OpId op;
    std::array<ir::Values, 2> yields;
  };
  // A loop being built; walker_loop.cpp.
  struct Loop;

  ir::Builder &builder() { return builder_; }
  [[nodiscard]] const Ast &ast() const { return *frame_->ast; }
  [[nodiscard]] Scope &scope() { return frame_->path.scope; }
  [[nodiscard]] Flow &flow() { return frame_->path.flow; }

  // ---- places and budgets
  [[nodiscard]] ir::Location location(SourceRange range) const;
  void at(SourceRange range) { sem_.setLocation(location(range)); }
  [[noreturn]] void fail(SourceRange range, const std::string &message) const;
  [[noreturn]] void refused(SourceRange range, uint32_t text) const;
  void step(SourceRange range);
  // Constants that would fill the memory.
  void checkSize(const Value &value, SourceRange range);

  // ---- expressions (walker_expr.cpp)
  Value eval(ExprId id);
  Value binary(ExprId id);
  Value boolean(const Expr &expr);
  // Of an operand of `and` and `or`, which take tuples as well.
  [[nodiscard]] bool isTrue(const Value &value) const;
  Value compare(const Expr &expr);
  Value conditional(const Expr &expr);
  Value subscript(const Expr &expr);
  Value slice(const Expr &expr);
  Value tuple(const Expr &expr);
  Value comprehension(const Expr &expr);
  // The values that a comprehension runs over.
  std::vector<Value> items(ExprId iterable);
  Value formatted(const Expr &expr);
  // The value of an item, or the items of the tuple behind a `*`.
  void addItem(ExprId id, std::vector<Value> &values);
  Value attribute(const Value &object, const std::string &name, SourceRange range);
  // Unbound if there is none.
  Value findAttribute(const Value &object, const std::string &name, SourceRange range);
  static Value bindMethod(const Value &self, const Value &member);

  // ---- operators, by the members of objects first (walker_operators.cpp)
  Value applyBinary(BinaryOp op, const Value &a, const Value &b);
  Value applyCompare(CompareOp op, const Value &a, const Value &b);
  Value applyUnary(UnaryOp op, const Value &a);
  Value applyLogical(bool isAnd, const Value &a, const Value &b);
  // By a member of a, or else the reflected one of b. Unbound: neither is an object that has one.
  Value objectOperator(const char *forward, const char *reflected, const Value &a, const Value &b);
  // object.member(arguments); unbound: there is none.
  Value callMember(const Value &object, const char *member, std::vector<Value> arguments);
  // The place of sem_.location().
  [[nodiscard]] SourceRange here() const;

  // ---- names (walker_names.cpp)
  Value name(NameId name, SourceRange range);
  Value global(const FunctionSource &source, const std::string &name);
  Value sameFile(const FunctionSource &source, const std::string &name);
  Value defaultOf(const std::shared_ptr<const FunctionSource> &source, const AstParam &param);
  [[noreturn]] void unknownName(const std::string &name, SourceRange range);
  // What the Host says, asked once and recorded; the owner is the function or the object.
  Value hostGlobal(const FunctionSource &source, const std::string &name);
  Value hostDefault(const std::shared_ptr<HostObject> &callee, const std::string &name);
  Value hostAttribute(const std::shared_ptr<HostObject> &object, const std::string &name);
  Value askOnce(HostAnswer question, llvm::function_ref<Value()> ask);
  // Runs a call of the Host; errors without place get the present one.
  Value ask(llvm::function_ref<Value()> question);
  void bind(NameId name, const Value &value, SourceRange range);
  bool mayBind(const Stmt &loop, List body, NameId name);
  std::optional<bool> fixedTruth(const Stmt &loop, ExprId test);
  bool isFixed(const Stmt &loop, ExprId id, bool identity);

  // ---- calls (walker_call.cpp)
  Value call(const Expr &expr, bool isUsed = true);
  void checkUnused(ExprId called, const Value &callee);
  std::string dottedPath(ExprId id) const;
  Arguments arguments(const Expr &expr);
  Value callValue(const Value &callee, const Arguments &arguments);
  Value callOperation(const Operation &operation, const Arguments &arguments);
  Value callClass(const std::shared_ptr<const Class> &cls, const Arguments &arguments);
  Value fieldValue(const Class &cls, size_t field, const Value &value);
  Value replaceFields(const Arguments &arguments);
  Value callFunction(const std::shared_ptr<const FunctionSource> &callee,
                     const Arguments &arguments);
  void bindArguments(const std::shared_ptr<const FunctionSource> &callee, const AstFunction &fn,
                     const Arguments &arguments, Scope &into);
  // At the argument's place if it is known, else at the call.
  [[noreturn]] void failAt(const Arguments &arguments, size_t index,
                           const std::string &message) const;
  // ---- built-in functions (walker_builtins.cpp)
  Value builtin(const Operation &operation, const Arguments &arguments);
  bool isInstance(const Value &value, const Value &cls);
  // What the annotation of a field asks for: as isInstance, but constexpr is anything without tensors.
  bool fitsField(const Value &value, const Value &type);
  Value toNumber(const Value &value, bool isFloat);
  Value minMax(bool isMin, const std::vector<Value> &values);

  // ---- statements (walker_stmt.cpp)
  void statements(List body, uint32_t from = 0);
  void statement(const Stmt &stmt);
  void assign(const Stmt &stmt);
  void annotated(const Stmt &stmt);
  void augmented(const Stmt &stmt);
  void assignTo(ExprId target, const Value &value);
  void returnStatement(const Stmt &stmt);
  void withStatement(const Stmt &stmt);
  // True if `rest` was walked inside.
  bool ifStatement(const Stmt &stmt, llvm::function_ref<void()> rest);
  Value functionResult(const AstFunction &fn);

  // ---- paths (walker_merge.cpp)
  // if (condition) first() else second(); when one side is dead and `rest` is given, it is walked
  // on the other. Returns whether it was.
  bool branch(const Tensor &condition, llvm::function_ref<void()> first,
              llvm::function_ref<void()> second, llvm::function_ref<void()> rest = nullptr);
  // if (nothing was left) rest().
  void guarded(llvm::function_ref<void()> rest);
  void merge(ir::OpId op, Path &a, Path &b);
  void mergeName(Merge &merge, const Path &a, const Path &b, NameId name, Scope &out);
  [[noreturn]] void failTypes(const Binding &a, const Binding &b) const;
  void mergeReturns(Merge &merge, const Path &a, const Path &b, Flow &out);
  Flag mergeFlag(Merge &merge, Flag a, Flag b);
  std::optional<Value> mergeValue(Merge &merge, const Value &a, const Value &b);
  // The value on `side`, zeros on the other.
  Value mergeFilled(Merge &merge, const Value &value, int side);
  std::optional<Tensor> asTensor(const Value &value);
  ir::ValueId addMerged(Merge &merge, ir::ValueId a, ir::ValueId b);
  ir::ValueId flagValue(Flag flag);
  ir::ValueId anyOf(std::initializer_list<Flag> flags);
  // Takes a flag that nothing uses out of the ifs that pass it on.
  void dropUnused(Flag flag);
  static void settle(Flow &flow, Flag &flag);

  // ---- loops (walker_loop.cpp)
  void forStatement(const Stmt &stmt);
  void forRange(const Stmt &stmt, const Operation &operation, const Arguments &arguments);
  void staticRange(const Stmt &stmt, const Operation &operation, const Arguments &arguments);
  void whileStatement(const Stmt &stmt);
  void staticSteps(const Stmt &stmt, int64_t from, int64_t to, int64_t by);
  // The names that the loop may carry, as tensors, before it.
  void prepare(Loop &loop, const Stmt &stmt);
  void addName(Loop &loop, NameId name, const Value &value, SourceRange where);
  // Adds the arguments of a region and binds the names to them.
  std::vector<ir::ValueId> enter(Loop &loop, ir::BlockId block);
  void walkBody(Loop &loop, const Stmt &stmt, const Tensor *induction);
  void finish(Loop &loop, Path before);
  // The name's value before the loop, or a part of it, and at the end of the body; `whole`, there.
  void matchValue(Loop &loop, const Value &entry, const Value &end, size_t name, const Value &whole);
  void dropUnchanged(Loop &loop);
  void addSlot(Loop &loop, ir::ValueId yielded);
  void carryReturn(Loop &loop);
  Value decayAll(const Value &value);

  static constexpr uint32_t kMostOps = 500'000;
  static constexpr uint64_t kMostSteps = 2'000'000;
  static constexpr int kMostInlined = 100;
  static constexpr int kMostRegions = 100;
  static constexpr int64_t kMostUnrolled = 100'000;
  static constexpr size_t kMostStack = size_t{2} << 20;

  ir::Function &fn_;
  ir::Builder builder_;
  Semantics sem_;
  Host &host_;
  std::vector<HostAnswer> *answers_;
  Frame *frame_ = nullptr;
  int inlined_ = 0;
  int regions_ = 0;
  uint64_t steps_ = 0;
  int64_t unrolled_ = 0;
  const char *stackBase_ = nullptr;
  // Values that exist for flags alone: constants and results of ifs.
  ir::IndexMap<ir::ValueId, char> isFlag_;
  // The Host's answers by what was asked of whom; they keep the owners, so addresses are theirs.
  std::map<std::tuple<HostAnswer::Kind, const void *, std::string>, HostAnswer> asked_;
  std::map<std::pair<const FunctionSource *, std::string>, Value> globals_;
  // Functions found in the file of another one, kept for as long as values refer to them.
  std::map<const AstFunction *, std::shared_ptr<const FunctionSource>> siblings_;
  // Every function called: what is remembered of a function goes by its address.
  std::map<const FunctionSource *, std::shared_ptr<const FunctionSource>> called_;
};

// The function's parameters and flags as FunctionSource has them.
[[nodiscard]] std::shared_ptr<const FunctionSource> makeFunction(std::shared_ptr<const Ast> ast,
                                                                 const AstFunction &fn,
                                                                 std::shared_ptr<HostObject> host);
// The last name of a.b.c or of a text "a.b.c"; empty for other expressions.
[[nodiscard]] std::string annotationName(const Ast &ast, ExprId annotation);
// The ids of the tensors inside, in order; and the same value with other ids.
void flatten(const Value &value, std::vector<ir::ValueId> &out);
[[nodiscard]] bool hasTensors(const Value &value);
[[nodiscard]] Value rebuild(const Value &value, std::span<const ir::ValueId> ids, size_t &next);
// Built-in functions of Python that kernels may call; nullptr for others.
[[nodiscard]] const Operation *findBuiltin(std::string_view name);
[[nodiscard]] std::vector<std::string> builtinNames();

} // namespace libtile::frontend
