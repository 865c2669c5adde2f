// SPDX-License-Identifier: Apache-2.0
// The entry points: a function of a text, and a kernel as tile IR for one signature.
#include "frontend/syntax/parser.h"
#include "frontend/semantics/blocks.h"
#include "frontend/specialise/walker.h"
#include "ir/ops.h"

#include <algorithm>

namespace libtile::frontend {

namespace {

// "*fp32", "*const fp32", "const float*", "i32", "tl.int32": an annotation's type, if it names one.
std::optional<DType> annotatedType(std::string name, bool &isConst) {
  if (name.starts_with("*k")) {
    name.erase(1, 1);
    isConst = true;
  }
  for (const std::string_view word : {"*const ", "const "}) {
    if (name.starts_with(word)) {
      name = (word[0] == '*' ? "*" : "") + name.substr(word.size());
      isConst = true;
    }
  }
  if (name.ends_with('*') && name.size() > 1) {
    name = "*" + name.substr(0, name.size() - 1);
  }
  static const std::map<std::string, std::string> kLong = {
      {"float16", "fp16"}, {"bfloat16", "bf16"}, {"float32", "fp32"}, {"float64", "fp64"}};
  const std::string stars = name.substr(0, std::min(name.find_first_not_of('*'), name.size()));
  const std::string base = name.substr(stars.size());
  const auto it = kLong.find(base);
  return DType::byName(stars + (it != kLong.end() ? it->second : base));
}

} // namespace

std::string annotationName(const Ast &ast, ExprId annotation) {
  if (!annotation.valid()) {
    return {};
  }
  const Expr &expr = ast[annotation];
  if (expr.kind == ExprKind::Name || expr.kind == ExprKind::Attribute) {
    return ast[expr.name];
  }
  if (expr.kind == ExprKind::Constant) {
    if (const auto *text = std::get_if<std::string>(&ast.constants[expr.index])) {
      const size_t dot = text->find_last_of('.');
      return dot == std::string::npos ? *text : text->substr(dot + 1);
    }
  }
  return {};
}

std::shared_ptr<const FunctionSource> makeFunction(std::shared_ptr<const Ast> ast,
                                                   const AstFunction &fn,
                                                   std::shared_ptr<HostObject> host) {
  auto made = std::make_shared<FunctionSource>();
  made->name = (*ast)[fn.name];
  made->file = ast->file;
  made->host = std::move(host);
  for (const AstParam &param : fn.params) {
    ParameterSource source;
    source.name = (*ast)[param.name];
    const std::string annotation = annotationName(*ast, param.annotation);
    source.isConstexpr = annotation == "constexpr";
    source.isConst = annotation == "const";
    if (!source.isConstexpr && !source.isConst && !annotation.empty()) {
      source.forcedType = annotatedType(annotation, source.isConst);
    }
    source.hasDefault = param.deflt.valid();
    source.kind = param.kind == AstParam::VarArgs       ? ParameterSource::VarArgs
                  : param.kind == AstParam::KeywordOnly ? ParameterSource::KeywordOnly
                                                        : ParameterSource::Normal;
    made->params.push_back(std::move(source));
  }
  made->ast = std::move(ast);
  return made;
}

// The only function with @jit, or the only one.
static const AstFunction *onlyFunction(const Ast &ast) {
  std::vector<const AstFunction *> candidates;
  for (const AstFunction &fn : ast.functions) {
    if (fn.isJit) {
      candidates.push_back(&fn);
    }
  }
  if (candidates.empty() && ast.functions.size() == 1) {
    candidates.push_back(&ast.functions[0]);
  }
  if (candidates.size() == 1) {
    return candidates[0];
  }
  throw ir::UserError(ast.functions.empty() ? "no function in the source text"
                                            : "several functions in the source text: name one",
                      {ast.file, 1, 1, 1, nullptr});
}

std::shared_ptr<const FunctionSource> parseFunction(std::shared_ptr<const ir::SourceFile> file,
                                                    const std::string &name,
                                                    std::shared_ptr<HostObject> host) {
  const std::shared_ptr<const Ast> ast = parse(std::move(file));
  const ir::Location top{ast->file, 1, 1, 1, nullptr};
  const AstFunction *fn = name.empty() ? onlyFunction(*ast) : ast->find(name);
  if (fn == nullptr) {
    throw ir::UserError("no function `" + name + "` at the top level of the source text", top);
  }
  if (fn->error) {
    throw ir::UserError(*fn->error);
  }
  for (const AstParam &param : fn->params) {
    if (param.kind == AstParam::KeywordArgs) {
      throw ir::UserError("`**` parameters are not allowed", ast->location(param.range));
    }
  }
  return makeFunction(ast, *fn, std::move(host));
}

Walker::Walker(ir::Function &fn, Host &host, std::vector<HostAnswer> *answers)
    : fn_(fn), builder_(fn), sem_(builder_), host_(host), answers_(answers),
      stackBase_(static_cast<const char *>(__builtin_frame_address(0))) {
  sem_.callFunction = [this](const Value &callee, const Arguments &arguments) {
    return callValue(callee, arguments);
  };
  sem_.print = [this](const std::string &text) { host_.print(text); };
}

void Walker::kernel(const FunctionSource &source, const Signature &signature) {
  const AstFunction *fn = source.ast->find(source.name);
  ir::check(fn != nullptr, "a kernel is in its tree");
  Frame frame;
  frame.source = &source;
  frame.ast = source.ast.get();
  frame.isKernel = true;
  sem_.target = signature.target;
  sem_.warps = [this, warps = signature.numWarps] {
    askOnce({HostAnswer::Warps, nullptr, nullptr, "", {}}, [&] { return Value::integer(warps); });
    return warps;
  };
  sem_.debug = signature.debug;
  sem_.sanitizesOverflow = signature.debug && signature.sanitizesOverflow;
  sem_.dotPrecision = signature.dotPrecision;
  sem_.impreciseSums = signature.impreciseSums;
  sem_.portable = signature.portable;
  const FrameGuard guard(*this, frame);
  if (signature.arguments.size() != source.params.size()) {
    fail(fn->range, "`" + source.name + "` has " + std::to_string(source.params.size()) +
                        " parameters and is given " + std::to_string(signature.arguments.size()) +
                        " arguments");
  }
  for (size_t i = 0; i < source.params.size(); ++i) {
    const ParameterSource &param = source.params[i];
    const AstParam &tree = fn->params[i];
    const Argument &argument = signature.arguments[i];
    at(tree.range);
    Value value;
    if (argument.dtype || argument.items || argument.constant.bound()) {
      value = argumentValue(param, argument, param.name, tree.range);
    } else if (param.hasDefault) {
      value = defaultOf(source.shared_from_this(), tree);
    }
    if (!value.bound()) {
      fail(tree.range, "`" + source.name + "` needs a value for `" + param.name + "`");
    }
    scope().set(tree.name, std::move(value), tree.range);
  }
  statements(fn->body);
  dropUnused(flow().returned);
  at(fn->range);
  builder_.op(ir::Opcode::Return, {});
}

Value Walker::argumentValue(const ParameterSource &param, const Argument &argument,
                            const std::string &name, SourceRange range) {
  if (argument.items) {
    std::vector<Value> fields;
    for (const Argument &item : *argument.items) {
      const std::string index = "[" + std::to_string(fields.size()) + "]";
      fields.push_back(argumentValue(param, item, name + index, range));
    }
    const Value made = Value::aggregate(argument.itemsClass(), std::move(fields));
    return isDescriptor(made) ? hostDescriptor(sem_, *made.aggregate()) : made;
  }
  if (!argument.dtype) {
    return argument.constant;
  }
  if (param.isConstexpr) {
    fail(range, "`" + name + "` is constexpr and needs a constant");
  }
  if (argument.divisible < 1) {
    fail(range, "`" + name + "` cannot be a multiple of " + std::to_string(argument.divisible));
  }
  DType type = *argument.dtype;
  if (name == param.name && param.forcedType && !param.forcedType->isPointer() && !type.isPointer()) {
    type = *param.forcedType;
  }
  type.isConst = type.isConst || (type.isPointer() && param.isConst);
  const ir::ValueId id =
      fn_.addParam(type.irType(), {name, argument.divisible, type.isConst}, builder_.loc);
  return {Tensor{id, type, {}}};
}

void Walker::scalarBody(const FunctionSource &source, std::span<const DType> parameters,
                        DType wanted) {
  const AstFunction *fn = source.ast->find(source.name);
  ir::check(fn != nullptr, "a function is in its tree");
  Frame frame;
  frame.source = &source;
  frame.ast = source.ast.get();
  const FrameGuard guard(*this, frame);
  at(fn->range);
  if (parameters.size() != fn->params.size()) {
    fail(fn->range, "`" + source.name + "` needs a parameter for each operand of its op");
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ir::ValueId id = fn_.addParam(parameters[i].irType(), {source.params[i].name}, builder_.loc);
    scope().set(fn->params[i].name, Value(Tensor{id, parameters[i], {}}), fn->params[i].range);
  }
  statements(fn->body);
  at(fn->range);
  const Value result = functionResult(*fn);
  const Tensor *tensor = result.tensor();
  if (tensor == nullptr || !tensor->isScalar() || tensor->dtype != wanted) {
    fail(fn->range, "`" + source.name + "` returns " + result.describe() + " and not a scalar " +
                        wanted.name());
  }
  builder_.op(ir::Opcode::Yield, {&tensor->id, 1});
}

Value Walker::defaultValue(const FunctionSource &source, size_t parameter) {
  const AstFunction *fn = source.ast->find(source.name);
  ir::check(fn != nullptr && fn->params[parameter].deflt.valid(), "the parameter has a default");
  return defaultOf(source.shared_from_this(), fn->params[parameter]);
}

Value defaultValue(const FunctionSource &fn, size_t parameter, Host &host) {
  ir::Function nothing(fn.name);
  Value value = Walker(nothing, host, nullptr).defaultValue(fn, parameter);
  if (hasTensors(value)) {
    throw ir::UserError("the default of `" + fn.params[parameter].name + "` is no constant");
  }
  return value;
}

ir::Function specialise(const FunctionSource &fn, const Signature &signature, Host &host,
                        std::vector<HostAnswer> *answers) {
  ir::Function made(fn.name);
  made.numWarps = signature.numWarps;
  made.numStages = signature.numStages;
  Walker(made, host, answers).kernel(fn, signature);
  return made;
}

} // namespace libtile::frontend
