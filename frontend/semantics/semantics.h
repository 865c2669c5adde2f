// SPDX-License-Identifier: Apache-2.0
// The typed operations of the kernel language over Values: the only place where its meaning lives.
// The walker of the syntax tree calls it, and so do Python's tl.* functions while Python code runs
// inside a specialisation. docs/semantics.md says in words what is done here.
//
// Errors are UserError or Unsupported at `location()`.
#pragma once

#include "frontend/semantics/value.h"
#include "ir/builder.h"
#include "ir/ops.h"

#include <functional>
#include <utility>

namespace libtile::frontend {

enum class BinaryOp : uint8_t {
  Add,
  Sub,
  Mul,
  TrueDiv,
  FloorDiv,
  Mod,
  Pow,
  MatMul,
  BitAnd,
  BitOr,
  BitXor,
  LShift,
  RShift
};
enum class CompareOp : uint8_t { Eq, Ne, Lt, Le, Gt, Ge, Is, IsNot, In, NotIn };
enum class UnaryOp : uint8_t { Not, Invert, Neg, Pos };

class Semantics;

// A parameter of an operation, read from the signature of its row.
struct OperationParam {
  std::string name;
  Value deflt; // unbound: required
  enum Form : uint8_t { Normal, VarArgs, KeywordOnly } form = Normal;
};
// A row of language.def.
struct Operation {
  enum Kind : uint8_t {
    Function,   // tl.name(...)
    Member,     // also x.name(...), with x as the first argument
    MemberOnly, // x.name(...) alone
    TypeMember, // dtype.name(...) of types
    PointerMember,    // as Member, also of block pointers
    DescriptorMember, // x.name(...) of tensor descriptors alone
    Construct,  // carried out by the walker (tl.range)
    Internal,   // tl.name(...) in the prelude alone
  };
  const char *name;
  Kind kind;
  const char *signature; // "pointer, mask=None, *, volatile=False", as the user reads it
  std::vector<OperationParam> params;
  // One argument a parameter, in order; nullptr: the body is the prelude's function of that name.
  Value (*fn)(Semantics &, std::span<const Value> arguments);
  const char *doc;
  // Of a LIBDEVICE row: the types that the prelude's function takes and gives.
  const char *overloads = nullptr;

  // tl.name is it.
  [[nodiscard]] bool isPublic() const {
    return kind == Function || kind == Member || kind == PointerMember || kind == Construct;
  }
  // What has it as x.name.
  enum class Receiver : uint8_t { Tensor, Type, BlockPointer, Descriptor };
  [[nodiscard]] bool isMemberOf(Receiver receiver) const;
};

class Semantics {
public:
  // Operations are added where `builder` stands.
  explicit Semantics(ir::Builder &builder) : builder(builder) {}

  ir::Builder &builder;
  // Calls a jit function on arguments (the combine function of a reduce, a function of the prelude):
  // set by the specialiser.
  std::function<Value(const Value &callee, const Arguments &)> callFunction;

  // Where errors point and what new ops are given.
  void setLocation(const ir::Location &location);
  [[nodiscard]] const ir::Location &location() const { return location_; }
  [[noreturn]] void fail(const std::string &message) const; // UserError
  // The same at the argument's place, if the value is one that BoundArguments hold, or a part of one
  // (that very object: helpers pass on the reference they got).
  [[noreturn]] void fail(const Value &argument, const std::string &message) const;
  [[noreturn]] void unsupported(const std::string &message) const; // Unsupported

  // ---- operators. Constants follow Python, anything with a tensor follows Triton's promotion.
  Value binary(BinaryOp op, const Value &a, const Value &b);
  Value compare(CompareOp op, const Value &a, const Value &b);
  Value unary(UnaryOp op, const Value &a);
  // `a and b` / `a or b` when one is a tensor: logical, no short circuit.
  Value logical(bool isAnd, const Value &a, const Value &b);
  // x[index]: tuples by constants and slices; tensors by None and full slices.
  Value subscript(const Value &object, const Value &index);
  // The text of a value in an f-string: Python's format() of a constant; what has none takes no
  // specification.
  [[nodiscard]] std::string format(const Value &value, const std::string &specification) const;
  // x.name for tensors, types, aggregates (fields), constants and parts of the language; unbound if
  // there is none. A member function comes back as BoundMethod.
  Value attribute(const Value &object, const std::string &name);
  // The error for x.name where attribute() gives none: Unsupported for what is not there yet, else a
  // UserError that names the nearest attribute there is.
  [[noreturn]] void noAttribute(const Value &object, const std::string &name) const;

  // ---- calls of operations (language.def): binds arguments to parameters, fills defaults.
  Value call(const Operation &operation, const Arguments &arguments);
  // Every row of language.def, in its order.
  static std::span<const Operation> operations();
  // The operation of that public name ("load", "sum"); nullptr if there is none.
  static const Operation *find(std::string_view name);
  // The operation of that name that only the prelude may use.
  static const Operation *findInternal(std::string_view name);
  // What a member that carries out an operator returns where it does not take the other operand:
  // Python's NotImplemented.
  static const Operation *notImplemented();
  // `tl`, the whole language.
  static const LanguagePart *language();
  // What `tl.name` is: an operation, a type, a part; unbound for an unknown one and for one that is
  // not there yet.
  static Value languageName(std::string_view name);
  // What `part.name` is: a constant of an enumeration, else languageName() of the part's name.
  static Value partName(const LanguagePart &part, std::string_view name);
  // A name of the language that is not there yet.
  static bool isLater(std::string_view name);
  // The member function x.name; nullptr if there is none.
  static const Operation *findMember(std::string_view name, Operation::Receiver receiver);
  // Of the language where languageName() gives none, as noAttribute() does.
  [[noreturn]] void unknownName(const std::string &name) const;

  // ---- used by the walker
  // A number, bool or tensor as a tensor (i32, or i64/u32/u64 by size, f32); others fail.
  Tensor toTensor(const Value &value);
  // toTensor, cast to the type.
  Tensor toTensor(const Value &value, DType dtype);
  // A plain assignment of a number decays it to a tensor; other values stay.
  Value decay(const Value &value);
  // Scalar i1 of an `if`/`while` condition; fails for tiles of more than one element.
  Tensor condition(const Value &value);
  // Truth of a constant (bool, int, None only); nullopt for a tensor.
  std::optional<bool> constantTruth(const Value &value) const;
  // Constant int, or fails saying that `what` must be a constant integer.
  int64_t constantInt(const Value &value, const std::string &what) const;

  // ---- typed pieces, shared by the operations
  Tensor cast(const Tensor &x, DType to, bool bitcast = false);
  Tensor broadcastTo(const Tensor &x, std::span<const int32_t> shape);
  // Both in their common shape.
  std::pair<Tensor, Tensor> broadcastBoth(const Tensor &a, const Tensor &b);
  // Both in their common type (Triton's computation_type) and shape.
  std::pair<Tensor, Tensor> promoteBoth(const Value &a, const Value &b, bool isDivOrMod);
  // The type in which values of these types meet; a `...IsConstant` type is that of a constant
  // beside a tensor, which does not take part if its kind (bool < int < float) is not higher.
  DType computationType(DType a, bool aIsConstant, DType b, bool bIsConstant,
                        bool isDivOrMod) const;
  // A constant or tensor in that type; constants that it does not hold fail. A constant gets the
  // shape, a tensor keeps its own.
  Tensor toComputation(const Value &value, DType dtype, std::span<const int32_t> shape = {});
  // A tensor (id of this type) with its shape taken from the IR.
  Tensor makeTensor(ir::ValueId id, DType dtype);
  // The name of the target that is compiled for ("sm_90a", "avx512"); empty: none is known.
  std::string target;
  // The warps of a program: who asks for it has it. None: there is no launch.
  std::function<int32_t()> warps;
  // The options: device_assert checks; so do + - * of integers.
  bool debug = false, sanitizesOverflow = false;
  std::optional<ir::Precision> dotPrecision; // of dots of fp32 that ask for none; none: ieee
  int64_t impreciseSums = 0; // of dots of 8-bit floats that do not say
  bool portable = false; // descriptors reduce what Triton's do
  // While one lives, arithmetic may wrap: in the library, and where no assertion may stand.
  class Wrapping {
  public:
    explicit Wrapping(Semantics &semantics, bool wraps = true)
        : semantics_(semantics), saved_(std::exchange(semantics.sanitizesOverflow,
                                                      semantics.sanitizesOverflow && !wraps)) {}
    ~Wrapping() { semantics_.sanitizesOverflow = saved_; }
    Wrapping(const Wrapping &) = delete;
    Wrapping &operator=(const Wrapping &) = delete;

  private:
    Semantics &semantics_;
    bool saved_;
  };
  // Shows what static_print prints; none: nobody listens.
  std::function<void(const std::string &)> print;

private:
  friend class BoundArguments;
  // An argument of a running operation, and where it stands.
  struct Place {
    const Value *argument;
    SourceRange range;
  };
  [[noreturn]] void failAt(SourceRange range, const std::string &message) const;

  ir::Location location_;
  std::vector<Place> places_;
};

// `tl`, or a name of it that has names of its own.
struct LanguagePart {
  const char *name; // "tl", "tl.math"
  // Of an enumeration: its constants. Of others none.
  std::vector<std::string> members;
  // "extra.libdevice.": its names are those of the language that begin so. Empty: those without a dot.
  std::string prefix;
};

// The arguments of a call in the order of the operation's parameters, defaults filled; a `*name`
// parameter gets a tuple. While they live, errors about one of them point at it.
class BoundArguments {
public:
  // Fails if the arguments do not fit the parameters.
  BoundArguments(Semantics &semantics, const Operation &operation, const Arguments &arguments);
  ~BoundArguments() { semantics_.places_.resize(outside_); }
  BoundArguments(const BoundArguments &) = delete;
  BoundArguments &operator=(const BoundArguments &) = delete;
  const Value &operator[](size_t parameter) const { return values_[parameter]; }
  [[nodiscard]] std::span<const Value> values() const { return values_; }

private:
  void bindPositional(const Operation &operation, const Arguments &arguments);
  void bindKeywords(const Operation &operation, const Arguments &arguments);

  Semantics &semantics_;
  size_t outside_; // places of calls around this one
  std::vector<Value> values_;
};

// "; did you mean `x`?" with the candidate nearest to a mistyped name; empty if none is near.
std::string didYouMean(std::string_view name, std::span<const std::string> candidates);
// "1 argument", "3 arguments".
std::string countText(size_t number, const std::string &what);

} // namespace libtile::frontend
