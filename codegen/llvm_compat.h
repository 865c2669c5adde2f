// SPDX-License-Identifier: Apache-2.0
// What differs between the LLVM versions that libtile builds with (19 and newer). The only file
// that asks for LLVM's version; include it in .cpp files only.
#pragma once

#include <llvm/ADT/MapVector.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsAMDGPU.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/OptBisect.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Triple.h>

#include <memory>
#include <string>

namespace libtile::codegen::compat {

inline constexpr int kLlvmMajor = LLVM_VERSION_MAJOR;

inline void setTriple(llvm::Module &module, const std::string &triple) {
#if LLVM_VERSION_MAJOR >= 21
  module.setTargetTriple(llvm::Triple(triple));
#else
  module.setTargetTriple(triple);
#endif
}

// Null with `error` set where this LLVM lacks the target.
inline const llvm::Target *lookupTarget(const std::string &triple, std::string &error) {
#if LLVM_VERSION_MAJOR >= 22
  return llvm::TargetRegistry::lookupTarget(llvm::Triple(triple), error);
#else
  return llvm::TargetRegistry::lookupTarget(triple, error);
#endif
}

inline std::unique_ptr<llvm::TargetMachine>
createTargetMachine(const llvm::Target &target, const std::string &triple, const std::string &cpu,
                    const std::string &features, const llvm::TargetOptions &options,
                    llvm::CodeGenOptLevel level) {
#if LLVM_VERSION_MAJOR >= 21
  const llvm::Triple name(triple);
#else
  const std::string &name = triple;
#endif
  return std::unique_ptr<llvm::TargetMachine>(
      target.createTargetMachine(name, cpu, features, options, llvm::Reloc::PIC_,
                                 llvm::CodeModel::Small, level, /*JIT=*/false));
}

inline llvm::Function *intrinsic(llvm::Module &module, llvm::Intrinsic::ID id,
                                 llvm::ArrayRef<llvm::Type *> types = {}) {
#if LLVM_VERSION_MAJOR >= 20
  return llvm::Intrinsic::getOrInsertDeclaration(&module, id, types);
#else
  return llvm::Intrinsic::getDeclaration(&module, id, types);
#endif
}

// AMD: so many bytes behind `base` as buffer instructions take them; `word` is the descriptor's last one.
inline llvm::Value *bufferResource(llvm::IRBuilderBase &builder, llvm::Module &module, llvm::Value *base, int64_t bytes,
                                   uint32_t word) {
#if LLVM_VERSION_MAJOR >= 21
  constexpr unsigned kResource = 8; // address space
  const llvm::SmallVector<llvm::Type *, 2> types = {builder.getPtrTy(kResource), base->getType()};
#else
  const llvm::SmallVector<llvm::Type *, 2> types = {base->getType()};
#endif
  llvm::Function *make = intrinsic(module, llvm::Intrinsic::amdgcn_make_buffer_rsrc, types);
  llvm::Type *count = make->getFunctionType()->getParamType(2); // wider in newer ones
  return builder.CreateCall(make, {base, builder.getInt16(0), llvm::ConstantInt::get(count, static_cast<uint64_t>(bytes)), builder.getInt32(word)});
}

// NVIDIA: the kernel's arguments `first` to `end` are memory of the launch, which nobody copies.
inline void markGridConstants(llvm::Function &kernel, unsigned first, unsigned end) {
  llvm::LLVMContext &context = kernel.getContext();
#if LLVM_VERSION_MAJOR >= 21
  for (unsigned i = first; i < end; ++i) {
    kernel.addParamAttr(i, llvm::Attribute::get(context, "nvvm.grid_constant"));
  }
#else
  llvm::SmallVector<llvm::Metadata *, 4> numbers; // from 1
  for (unsigned i = first; i < end; ++i) {
    numbers.push_back(llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), i + 1)));
  }
  if (!numbers.empty()) {
    kernel.getParent()
        ->getOrInsertNamedMetadata("nvvm.annotations")
        ->addOperand(llvm::MDNode::get(context, {llvm::ValueAsMetadata::get(&kernel),
                                                 llvm::MDString::get(context, "grid_constant"),
                                                 llvm::MDNode::get(context, numbers)}));
  }
#endif
}

// What GEPOperator::collectOffset finds: indices and what each is multiplied with.
#if LLVM_VERSION_MAJOR >= 20
using OffsetScales = llvm::SmallMapVector<llvm::Value *, llvm::APInt, 4>;
#else
using OffsetScales = llvm::MapVector<llvm::Value *, llvm::APInt>;
#endif

// Leaves one pass of LLVM's own pipeline out; give it to LLVMContext::setOptPassGate.
class WithoutPass final : public llvm::OptPassGate {
public:
  explicit WithoutPass(llvm::StringRef name) : name_(name) {}
  bool isEnabled() const override { return true; }
  // One of the two overrides: the member became const on the way from 19 to 22.
  bool shouldRunPass(llvm::StringRef name, llvm::StringRef) const { return name != name_; }
  bool shouldRunPass(llvm::StringRef name, llvm::StringRef) { return name != name_; }

private:
  llvm::StringRef name_;
};

} // namespace libtile::codegen::compat
