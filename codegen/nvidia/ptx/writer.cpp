// SPDX-License-Identifier: Apache-2.0
#include "codegen/nvidia/ptx/writer.h"

#include "codegen/nvidia/ptx/function.h"
#include "ir/diagnostic.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/Support/Path.h>

#include <cctype>

namespace libtile::codegen::nvidia::ptx {

// ---- source files

unsigned SourceFiles::numberOf(const llvm::DIFile *file) {
  const llvm::StringRef name = file->getFilename(), folder = file->getDirectory();
  const bool isWhole = folder.empty() || llvm::sys::path::is_absolute(name);
  const std::string path = isWhole ? name.str() : (folder + "/" + name).str();
  const auto found = llvm::find(paths_, path);
  if (found != paths_.end()) {
    return static_cast<unsigned>(found - paths_.begin()) + 1;
  }
  paths_.push_back(path);
  return static_cast<unsigned>(paths_.size());
}

std::string SourceFiles::directives() const {
  std::string out;
  for (size_t i = 0; i < paths_.size(); ++i) {
    out += "\t.file " + std::to_string(i + 1) + " \"";
    for (const char c : paths_[i]) {
      out += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    }
    out += "\"\n";
  }
  return out;
}

std::string nameOf(const llvm::GlobalValue &global) {
  std::string name;
  for (const char c : global.getName()) {
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' ? std::string(1, c) : "_$_";
  }
  return name;
}

namespace {

// ---- what is declared

std::string variable(const llvm::GlobalVariable &variable, const llvm::DataLayout &layout) {
  const bool isShared = variable.getAddressSpace() == 3;
  std::string out = std::string(variable.isDeclaration() ? ".extern " : "") + (isShared ? ".shared" : ".global") + " .align " +
                    std::to_string(variable.getAlign().valueOrOne().value()) + " .b8 " + nameOf(variable);
  const uint64_t bytes = layout.getTypeAllocSize(variable.getValueType()).getFixedValue();
  out += bytes == 0 ? "[]" : "[" + std::to_string(bytes) + "]";
  if (variable.hasInitializer() && !llvm::isa<llvm::UndefValue>(variable.getInitializer())) {
    const auto *data = llvm::dyn_cast<llvm::ConstantDataSequential>(variable.getInitializer());
    if (data == nullptr || !data->getElementType()->isIntegerTy(8)) {
      throw ir::Unsupported("no PTX is known for constants in memory that are no bytes");
    }
    std::string list;
    for (unsigned i = 0; i < data->getNumElements(); ++i) {
      list += (i == 0 ? "" : ", ") + std::to_string(data->getElementAsInteger(i));
    }
    out += " = {" + list + "}";
  }
  return out + ";\n";
}

bool isKernel(const llvm::Function &fn) { return fn.getCallingConv() == llvm::CallingConv::PTX_Kernel; }

std::string parameter(const llvm::Argument &argument, const llvm::DataLayout &layout) {
  llvm::Type *type = argument.getType();
  const std::string name = nameOf(*argument.getParent()) + "_param_" + std::to_string(argument.getArgNo());
  if (argument.hasByValAttr()) {
    llvm::Type *held = argument.getParamByValType();
    return ".param .align " + std::to_string(argument.getParamAlign().valueOrOne().value()) + " .b8 " + name + "[" +
           std::to_string(layout.getTypeAllocSize(held).getFixedValue()) + "]";
  }
  if (type->isPointerTy()) {
    return ".param .u64 .ptr " + std::string(type->getPointerAddressSpace() == 1 ? ".global " : "") + ".align 1 " + name;
  }
  const bool isFloat = type->isFloatTy() || type->isDoubleTy();
  return std::string(".param .") + (isFloat ? "f" : "u") + std::to_string(std::max(8U, bitsOf(type))) + " " + name;
}

// Behind the parameters: how many threads a block has, and what registers they may have.
std::string bounds(const llvm::Function &kernel) {
  constexpr std::pair<const char *, const char *> kBounds[] = {
      {"nvvm.maxntid", ".maxntid "}, {"nvvm.minctasm", ".minnctapersm "}, {"nvvm.maxnreg", ".maxnreg "}};
  std::string out;
  for (const auto &[attribute, directive] : kBounds) {
    if (kernel.hasFnAttribute(attribute)) {
      out += directive + kernel.getFnAttribute(attribute).getValueAsString().str() + "\n";
    }
  }
  return out;
}

std::string listOf(const llvm::Function &fn, llvm::function_ref<std::string(const llvm::Argument &)> each) {
  std::string out;
  for (const llvm::Argument &argument : fn.args()) {
    out += (argument.getArgNo() == 0 ? "\n\t" : ",\n\t") + each(argument);
  }
  return out.empty() ? "()" : "(" + out + "\n)";
}

std::string heading(const llvm::Function &fn, const llvm::DataLayout &layout) {
  if (isKernel(fn)) {
    return ".visible .entry " + nameOf(fn) + listOf(fn, [&](const llvm::Argument &it) { return parameter(it, layout); });
  }
  const auto bits = [](const llvm::Type *type) { return ".param .b" + std::to_string(std::max(32U, bitsOf(type))) + " "; };
  const llvm::Type *result = fn.getReturnType();
  return (fn.isDeclaration() ? ".extern .func " : ".func ") + (result->isVoidTy() ? "" : "(" + bits(result) + "result) ") + nameOf(fn) +
         listOf(fn, [&](const llvm::Argument &it) {
           return bits(it.getType()) + nameOf(fn) + "_param_" + std::to_string(it.getArgNo());
         });
}

} // namespace

std::string write(const llvm::Module &module, const Version &version) {
  const llvm::DataLayout &layout = module.getDataLayout();
  std::string out = "\n.version " + version.isa + "\n.target " + version.target + "\n.address_size 64\n\n";
  for (const llvm::GlobalVariable &each : module.globals()) {
    out += variable(each, layout);
  }
  SourceFiles files;
  std::string code;
  // What is called stands before who calls it.
  for (const bool kernels : {false, true}) {
    for (const llvm::Function &fn : module) {
      if (fn.isIntrinsic() || isKernel(fn) != kernels) {
        continue;
      }
      code += "\n" + heading(fn, layout);
      code += fn.isDeclaration() ? ";\n" : "\n" + bounds(fn) + "{\n" + FunctionWriter(fn, files).body() + "}\n";
    }
  }
  return out + code + files.directives();
}

} // namespace libtile::codegen::nvidia::ptx
