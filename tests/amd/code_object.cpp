// SPDX-License-Identifier: Apache-2.0
#include "tests/amd/code_object.h"

#include <llvm/BinaryFormat/ELF.h>
#include <llvm/BinaryFormat/MsgPackDocument.h>
#include <llvm/Object/ELFObjectFile.h>

#include <cstring>

namespace emulator {

namespace {

namespace elf = llvm::ELF;
using File = llvm::object::ELFFile<llvm::object::ELF64LE>;

template <class T> T orFault(llvm::Expected<T> value) {
  if (!value) {
    throw Fault("no code object: " + llvm::toString(value.takeError()));
  }
  return *value;
}

template <class T> T at(const std::vector<uint8_t> &image, uint64_t offset) {
  if (offset + sizeof(T) > image.size()) {
    throw Fault("a descriptor lies outside of the code object");
  }
  T value;
  std::memcpy(&value, image.data() + offset, sizeof value);
  return value;
}

std::string targetOf(uint32_t flags) {
  switch (flags & elf::EF_AMDGPU_MACH) {
  case elf::EF_AMDGPU_MACH_AMDGCN_GFX90A: return "gfx90a";
  case elf::EF_AMDGPU_MACH_AMDGCN_GFX942: return "gfx942";
  case elf::EF_AMDGPU_MACH_AMDGCN_GFX1100: return "gfx1100";
  case elf::EF_AMDGPU_MACH_AMDGCN_GFX1101: return "gfx1101";
  case elf::EF_AMDGPU_MACH_AMDGCN_GFX1102: return "gfx1102";
  case elf::EF_AMDGPU_MACH_AMDGCN_GFX1150: return "gfx1150";
  case elf::EF_AMDGPU_MACH_AMDGCN_GFX1151: return "gfx1151";
  case elf::EF_AMDGPU_MACH_AMDGCN_GFX1200: return "gfx1200";
  case elf::EF_AMDGPU_MACH_AMDGCN_GFX1201: return "gfx1201";
  case 0x04f: return "gfx950"; // LLVM 20 has its name
  }
  throw Fault("a code object for a GPU that is not emulated: machine " + std::to_string(flags & elf::EF_AMDGPU_MACH));
}

uint32_t number(llvm::msgpack::MapDocNode &map, const char *key) {
  llvm::msgpack::DocNode node = map[key];
  return node.getKind() == llvm::msgpack::Type::UInt ? static_cast<uint32_t>(node.getUInt())
         : node.getKind() == llvm::msgpack::Type::Int ? static_cast<uint32_t>(node.getInt())
                                                      : 0;
}

// The metadata of the kernels, by their names.
void readMetadata(CodeObject &object, llvm::StringRef note) {
  llvm::msgpack::Document document;
  if (!document.readFromBlob(note, false)) {
    throw Fault("no code object: its metadata are not MessagePack");
  }
  for (llvm::msgpack::DocNode node : document.getRoot().getMap(true)["amdhsa.kernels"].getArray(true)) {
    llvm::msgpack::MapDocNode &map = node.getMap();
    const auto found = object.kernels.find(map[".name"].getString().str());
    if (found == object.kernels.end()) {
      continue;
    }
    Kernel &kernel = found->second;
    kernel.vgprs = number(map, ".vgpr_count");
    kernel.sgprs = number(map, ".sgpr_count");
    kernel.agprs = number(map, ".agpr_count");
    kernel.maxThreads = number(map, ".max_flat_workgroup_size");
    for (llvm::msgpack::DocNode argument : map[".args"].getArray(true)) {
      llvm::msgpack::MapDocNode &fields = argument.getMap();
      kernel.arguments.push_back({.offset = number(fields, ".offset"),
                                  .bytes = number(fields, ".size"),
                                  .kind = fields[".value_kind"].getString().str()});
    }
  }
}

Kernel readDescriptor(const std::vector<uint8_t> &image, std::string name, uint64_t place) {
  Kernel kernel;
  kernel.name = std::move(name);
  kernel.sharedBytes = at<uint32_t>(image, place);
  kernel.scratchBytes = at<uint32_t>(image, place + 4);
  kernel.argumentBytes = at<uint32_t>(image, place + 8);
  kernel.entry = place + static_cast<uint64_t>(at<int64_t>(image, place + 16));
  kernel.rsrc1 = at<uint32_t>(image, place + 48);
  kernel.rsrc2 = at<uint32_t>(image, place + 52);
  kernel.properties = at<uint16_t>(image, place + 56);
  kernel.preload = at<uint16_t>(image, place + 58);
  return kernel;
}

void loadSegments(CodeObject &object, const File &file) {
  for (const auto &segment : orFault(file.program_headers())) {
    if (segment.p_type != elf::PT_LOAD) {
      continue;
    }
    if (segment.p_offset + segment.p_filesz > file.getBufSize() || segment.p_memsz > (1U << 30)) {
      throw Fault("no code object: a segment lies outside of the file");
    }
    object.image.resize(std::max<size_t>(object.image.size(), segment.p_vaddr + segment.p_memsz));
    std::memcpy(object.image.data() + segment.p_vaddr, file.base() + segment.p_offset, segment.p_filesz);
    if ((segment.p_flags & elf::PF_X) != 0) {
      object.textBegin = segment.p_vaddr;
      object.textEnd = segment.p_vaddr + segment.p_filesz;
    }
  }
}

void relocate(CodeObject &object, const File &file, const File::Elf_Shdr &section) {
  for (const auto &entry : orFault(file.relas(section))) {
    if (entry.getType(false) != elf::R_AMDGPU_RELATIVE64 || entry.r_offset + 8 > object.image.size()) {
      throw Fault("a relocation that no loader does: kind " + std::to_string(entry.getType(false)));
    }
    const uint64_t address = reinterpret_cast<uint64_t>(object.image.data()) + static_cast<uint64_t>(int64_t{entry.r_addend});
    std::memcpy(object.image.data() + entry.r_offset, &address, sizeof address);
  }
}

void readKernels(CodeObject &object, const File &file, const File::Elf_Shdr &section) {
  const llvm::StringRef names = orFault(file.getStringTableForSymtab(section));
  for (const auto &symbol : orFault(file.symbols(&section))) {
    const llvm::StringRef name = orFault(symbol.getName(names));
    if (name.ends_with(".kd")) {
      const std::string kernel = name.drop_back(3).str();
      object.kernels[kernel] = readDescriptor(object.image, kernel, symbol.st_value);
    } else if (symbol.getType() == elf::STT_OBJECT) {
      object.variables[name.str()] = {symbol.st_value, symbol.st_size};
    }
  }
}

} // namespace

CodeObject readCodeObject(std::string_view bytes) {
  const File file = orFault(File::create({bytes.data(), bytes.size()}));
  if (file.getHeader().e_machine != elf::EM_AMDGPU || file.getHeader().e_type != elf::ET_DYN) {
    throw Fault("no code object: not a shared object for AMD's GPUs");
  }
  CodeObject object;
  object.target = targetOf(file.getHeader().e_flags);
  loadSegments(object, file);
  const auto sections = orFault(file.sections());
  for (const auto &section : sections) {
    if (section.sh_type == elf::SHT_DYNSYM) {
      readKernels(object, file, section);
    } else if (section.sh_type == elf::SHT_RELA) {
      relocate(object, file, section);
    }
  }
  for (const auto &section : sections) {
    if (section.sh_type != elf::SHT_NOTE) {
      continue;
    }
    llvm::Error error = llvm::Error::success();
    for (const auto &note : file.notes(section, error)) {
      if (note.getName() == "AMDGPU" && note.getType() == elf::NT_AMDGPU_METADATA) {
        readMetadata(object, note.getDescAsStringRef(section.sh_addralign));
      }
    }
    if (error) {
      throw Fault("no code object: " + llvm::toString(std::move(error)));
    }
  }
  return object;
}

} // namespace emulator
