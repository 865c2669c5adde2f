// SPDX-License-Identifier: Apache-2.0
// LLVM IR on standard input, PTX by our own writer on standard output.
//
//   write_ptx sm_90a < kernels.ll
#include "codegen/codegen.h"
#include "codegen/nvidia/ptx/writer.h"
#include "ir/diagnostic.h"

#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>

#include <iostream>
#include <iterator>

namespace {

int write(const std::string &text, const std::string &target) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic problem;
  const auto module = llvm::parseAssemblyString(text, problem, context);
  if (module == nullptr || llvm::verifyModule(*module, &llvm::errs())) {
    problem.print("write_ptx", llvm::errs());
    return 1;
  }
  module->setDataLayout(libtile::codegen::nvidia::ptx::kDataLayout);
  const libtile::ir::Target &row = libtile::codegen::findTarget(target);
  const std::string digits = row.features.substr(std::string("+ptx").size()); // "+ptx81" is version 8.1
  const std::string isa = digits.substr(0, digits.size() - 1) + "." + digits.back();
  std::cout << libtile::codegen::nvidia::ptx::write(*module, {isa, row.cpu});
  return 0;
}

} // namespace

int main(int count, char **arguments) {
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  try {
    return write(text, count > 1 ? arguments[1] : "sm_90a");
  } catch (const std::exception &error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
