// SPDX-License-Identifier: Apache-2.0
#include "codegen/amd/code_object.h"

#include "ir/diagnostic.h"

#include <llvm/BinaryFormat/ELF.h>
#include <llvm/Object/ELF.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

namespace libtile::codegen::amd {

namespace {

namespace elf = llvm::ELF;
using Elf = llvm::object::ELF64LE;
using File = llvm::object::ELFFile<Elf>;

constexpr uint64_t kPage = 4096;

template <class T> T orThrow(llvm::Expected<T> value) {
  if (!value) {
    throw ir::InternalError("LLVM's object is not understood: " + llvm::toString(value.takeError()));
  }
  return *value;
}
uint64_t aligned(uint64_t offset, uint64_t alignment) { return (offset + alignment - 1) / alignment * alignment; }

// A section of the result. Its bytes lie in the file at `offset`, in memory at `address`.
struct Section {
  std::string name;
  uint32_t type = 0;
  uint64_t flags = 0, alignment = 1, entry = 0;
  std::string bytes;
  uint32_t link = 0, info = 0;
  uint64_t memory = 0; // bytes in memory, if they are more than those in the file
  uint64_t offset = 0, address = 0;
};

// Sections by number, as the headers name each other: those in memory in the order of their segments, the rest behind.
class Linker {
public:
  explicit Linker(std::string_view object) : file_(orThrow(File::create({object.data(), object.size()}))) {}

  std::string run() {
    sections_.emplace_back();
    takeSections(elf::SHT_NOTE, 0);
    const size_t symbols = add({".dynsym", elf::SHT_DYNSYM, elf::SHF_ALLOC, 8, sizeof(Elf::Sym), {}});
    const size_t hash = add({".hash", elf::SHT_HASH, elf::SHF_ALLOC, 4, 4, {}});
    const size_t names = add({".dynstr", elf::SHT_STRTAB, elf::SHF_ALLOC, 1, 0, {}});
    takeSections(elf::SHT_PROGBITS, 0);
    takeSections(elf::SHT_PROGBITS, elf::SHF_EXECINSTR);
    takeSections(elf::SHT_PROGBITS, elf::SHF_WRITE);
    const size_t dynamic =
        add({".dynamic", elf::SHT_DYNAMIC, elf::SHF_ALLOC | elf::SHF_WRITE, 8, sizeof(Elf::Dyn), std::string(6 * sizeof(Elf::Dyn), 0)});
    takeSections(elf::SHT_NOBITS, elf::SHF_WRITE);
    inMemory_ = sections_.size();
    collectSymbols();
    sections_[symbols].bytes.resize((exported_.size() + 1) * sizeof(Elf::Sym));
    sections_[symbols].link = static_cast<uint32_t>(names);
    sections_[symbols].info = 1;
    sections_[hash].link = static_cast<uint32_t>(symbols);
    sections_[dynamic].link = static_cast<uint32_t>(names);
    sections_[names].bytes = nameTable();
    sections_[hash].bytes = hashTable();
    layOut();
    writeSymbols(sections_[symbols]);
    relocate();
    writeDynamic(sections_[dynamic], sections_[symbols], sections_[hash], sections_[names]);
    addSymbolTable(sections_[symbols], sections_[names]);
    return write(dynamic);
  }

private:
  struct Symbol {
    std::string name;
    Elf::Sym symbol;
    uint32_t nameAt = 0;
  };

  size_t add(Section section) {
    sections_.push_back(std::move(section));
    return sections_.size() - 1;
  }

  // The object's sections of a kind, of which the ones in memory have bytes or room.
  void takeSections(uint32_t type, uint64_t kind) {
    constexpr uint64_t kKinds = elf::SHF_EXECINSTR | elf::SHF_WRITE;
    const auto all = orThrow(file_.sections());
    for (size_t i = 0; i < all.size(); ++i) {
      const auto &from = all[i];
      if (from.sh_type != type || (from.sh_flags & elf::SHF_ALLOC) == 0 || (from.sh_flags & kKinds) != kind || from.sh_size == 0) {
        continue;
      }
      Section section = {orThrow(file_.getSectionName(from)).str(), type, from.sh_flags, from.sh_addralign, from.sh_entsize, {}};
      if (type == elf::SHT_NOBITS) {
        section.memory = from.sh_size;
      } else {
        const auto bytes = orThrow(file_.getSectionContents(from));
        section.bytes.assign(reinterpret_cast<const char *>(bytes.data()), bytes.size());
      }
      placed_[i] = add(std::move(section));
    }
  }

  const Elf::Shdr &symbolTable() {
    for (const auto &section : orThrow(file_.sections())) {
      if (section.sh_type == elf::SHT_SYMTAB) {
        return section;
      }
    }
    throw ir::InternalError("LLVM's object has no symbols");
  }

  void collectSymbols() {
    const auto &table = symbolTable();
    const llvm::StringRef names = orThrow(file_.getStringTableForSymtab(table));
    for (const auto &symbol : orThrow(file_.symbols(&table))) {
      if (symbol.getBinding() == elf::STB_GLOBAL && placed_.contains(symbol.st_shndx)) {
        exported_.push_back({orThrow(symbol.getName(names)).str(), symbol});
      }
    }
  }

  std::string nameTable() {
    std::string table(1, '\0');
    for (Symbol &symbol : exported_) {
      symbol.nameAt = static_cast<uint32_t>(table.size());
      table += symbol.name + '\0';
    }
    return table;
  }

  // One bucket, of which each symbol leads to the next.
  std::string hashTable() {
    const auto count = static_cast<uint32_t>(exported_.size());
    std::vector<uint32_t> words = {1, count + 1, count > 0 ? 1U : 0U, 0};
    for (uint32_t i = 1; i <= count; ++i) {
      words.push_back(i < count ? i + 1 : 0);
    }
    return {reinterpret_cast<const char *>(words.data()), 4 * words.size()};
  }

  // Of the sections in memory, headers in front. Segments begin on pages of their own: in memory, not in the file.
  void layOut() {
    uint64_t offset = sizeof(Elf::Ehdr) + kHeaders * sizeof(Elf::Phdr), shift = 0;
    uint64_t before = 0;
    for (size_t i = 1; i < sections_.size(); ++i) {
      Section &section = sections_[i];
      const uint64_t kind = section.flags & (elf::SHF_EXECINSTR | elf::SHF_WRITE);
      if (kind != before) {
        shift += kPage;
        before = kind;
      }
      offset = aligned(offset, std::max<uint64_t>(section.alignment, 1));
      section.offset = offset;
      section.address = offset + shift;
      offset += section.bytes.size();
      shift += section.memory;
    }
    end_ = offset;
  }

  uint64_t addressOf(const Elf::Sym &symbol) const {
    const auto found = placed_.find(symbol.st_shndx);
    if (symbol.st_shndx == elf::SHN_ABS) {
      return symbol.st_value;
    }
    if (found == placed_.end()) {
      throw ir::InternalError("LLVM's object has an undefined symbol");
    }
    return sections_[found->second].address + symbol.st_value;
  }

  void writeSymbols(Section &table) {
    for (size_t i = 0; i < exported_.size(); ++i) {
      Elf::Sym symbol = exported_[i].symbol;
      symbol.st_name = exported_[i].nameAt;
      symbol.st_value = addressOf(symbol);
      symbol.st_shndx = static_cast<uint16_t>(placed_.at(exported_[i].symbol.st_shndx));
      std::memcpy(&table.bytes[(i + 1) * sizeof symbol], &symbol, sizeof symbol);
    }
  }

  void relocate() {
    const auto &table = symbolTable();
    const auto symbols = orThrow(file_.symbols(&table));
    for (const auto &section : orThrow(file_.sections())) {
      const auto target = placed_.find(section.sh_info);
      if (section.sh_type != elf::SHT_RELA || target == placed_.end()) {
        continue;
      }
      for (const auto &entry : orThrow(file_.relas(section))) {
        apply(sections_[target->second], entry, addressOf(symbols[entry.getSymbol(false)]));
      }
    }
  }

  static void apply(Section &section, const Elf::Rela &entry, uint64_t symbol) {
    const uint64_t value = symbol + static_cast<uint64_t>(int64_t{entry.r_addend}) - (section.address + entry.r_offset);
    const uint32_t type = entry.getType(false);
    const bool isKnown = type == elf::R_AMDGPU_REL64 || type == elf::R_AMDGPU_REL32 || type == elf::R_AMDGPU_REL32_LO ||
                         type == elf::R_AMDGPU_REL32_HI || type == elf::R_AMDGPU_REL16;
    if (!isKnown) {
      throw ir::InternalError("LLVM's object has a relocation that the linker does not do: " + std::to_string(type));
    }
    const size_t bytes = type == elf::R_AMDGPU_REL64 ? 8 : type == elf::R_AMDGPU_REL16 ? 2 : 4;
    // 16 bits count instruction words, from the next one on.
    const uint64_t written = type == elf::R_AMDGPU_REL32_HI ? value >> 32
                             : type == elf::R_AMDGPU_REL16  ? static_cast<uint64_t>((static_cast<int64_t>(value) - 4) / 4)
                                                            : value;
    if (entry.r_offset + bytes > section.bytes.size()) {
      throw ir::InternalError("LLVM's object has a relocation outside of its section");
    }
    std::memcpy(&section.bytes[entry.r_offset], &written, bytes);
  }

  static void writeDynamic(Section &dynamic, const Section &symbols, const Section &hash, const Section &names) {
    const std::pair<int64_t, uint64_t> entries[] = {{elf::DT_SYMTAB, symbols.address},
                                                    {elf::DT_SYMENT, sizeof(Elf::Sym)},
                                                    {elf::DT_STRTAB, names.address},
                                                    {elf::DT_STRSZ, names.bytes.size()},
                                                    {elf::DT_HASH, hash.address},
                                                    {elf::DT_NULL, 0}};
    std::memcpy(dynamic.bytes.data(), entries, sizeof entries);
  }

  // The exported symbols once more, where tools look for them, and the sections' names.
  void addSymbolTable(const Section &symbols, const Section &names) {
    Section table = {".symtab", elf::SHT_SYMTAB, 0, 8, sizeof(Elf::Sym), symbols.bytes};
    table.info = 1;
    table.link = static_cast<uint32_t>(sections_.size() + 1);
    add(std::move(table));
    add({".strtab", elf::SHT_STRTAB, 0, 1, 0, names.bytes});
    const size_t shstrtab = add({".shstrtab", elf::SHT_STRTAB, 0, 1, 0, std::string(1, '\0')});
    for (const Section &section : sections_) {
      nameAt_.push_back(static_cast<uint32_t>(section.name.empty() ? 0 : sections_[shstrtab].bytes.size()));
      sections_[shstrtab].bytes += section.name.empty() ? "" : section.name + '\0';
    }
    for (size_t i = shstrtab - 2; i <= shstrtab; ++i) {
      sections_[i].offset = end_ = aligned(end_, sections_[i].alignment);
      end_ += sections_[i].bytes.size();
    }
  }

  // A segment of the sections from the first to the last of a kind.
  static Elf::Phdr segment(uint32_t type, uint32_t flags, const Section &first, const Section &last, uint64_t alignment) {
    Elf::Phdr header = {};
    header.p_type = type;
    header.p_flags = flags;
    header.p_offset = first.offset;
    header.p_vaddr = first.address;
    header.p_paddr = first.address;
    header.p_filesz = last.offset + last.bytes.size() - first.offset;
    header.p_memsz = last.address + last.bytes.size() + last.memory - first.address;
    header.p_align = alignment;
    return header;
  }

  std::vector<Elf::Phdr> segments(size_t dynamic) {
    std::vector<Elf::Phdr> headers;
    Section start; // the file's headers are read with what does not change
    const auto load = [&](uint64_t kind, uint32_t flags) {
      const Section *first = kind == 0 ? &start : nullptr, *last = nullptr;
      for (size_t i = 1; i < inMemory_; ++i) {
        if ((sections_[i].flags & (elf::SHF_EXECINSTR | elf::SHF_WRITE)) == kind) {
          first = first == nullptr ? &sections_[i] : first;
          last = &sections_[i];
        }
      }
      if (last != nullptr) {
        headers.push_back(segment(elf::PT_LOAD, flags, *first, *last, kPage));
      }
    };
    load(0, elf::PF_R);
    load(elf::SHF_EXECINSTR, elf::PF_R | elf::PF_X);
    load(elf::SHF_WRITE, elf::PF_R | elf::PF_W);
    headers.push_back(segment(elf::PT_DYNAMIC, elf::PF_R | elf::PF_W, sections_[dynamic], sections_[dynamic], 8));
    for (size_t i = 1; i < inMemory_; ++i) {
      if (sections_[i].type == elf::SHT_NOTE) {
        headers.push_back(segment(elf::PT_NOTE, elf::PF_R, sections_[i], sections_[i], 4));
      }
    }
    ir::check(headers.size() <= kHeaders, "a code object has few segments");
    return headers;
  }

  std::string write(size_t dynamic) {
    const std::vector<Elf::Phdr> headers = segments(dynamic);
    const uint64_t table = aligned(end_, 8);
    std::string out(table + sections_.size() * sizeof(Elf::Shdr), '\0');
    Elf::Ehdr start = file_.getHeader();
    start.e_type = elf::ET_DYN;
    start.e_phoff = sizeof start;
    start.e_phentsize = sizeof(Elf::Phdr);
    start.e_phnum = static_cast<uint16_t>(headers.size());
    start.e_shoff = table;
    start.e_shnum = static_cast<uint16_t>(sections_.size());
    start.e_shstrndx = static_cast<uint16_t>(sections_.size() - 1);
    std::memcpy(out.data(), &start, sizeof start);
    std::memcpy(out.data() + sizeof start, headers.data(), headers.size() * sizeof(Elf::Phdr));
    for (size_t i = 1; i < sections_.size(); ++i) {
      const Section &section = sections_[i];
      std::copy(section.bytes.begin(), section.bytes.end(), out.begin() + static_cast<std::ptrdiff_t>(section.offset));
      Elf::Shdr header = {};
      header.sh_name = nameAt_[i];
      header.sh_type = section.type;
      header.sh_flags = section.flags;
      header.sh_addr = section.address;
      header.sh_offset = section.offset;
      header.sh_size = section.bytes.size() + section.memory;
      header.sh_link = section.link;
      header.sh_info = section.info;
      header.sh_addralign = section.alignment;
      header.sh_entsize = section.entry;
      std::memcpy(out.data() + table + i * sizeof header, &header, sizeof header);
    }
    return out;
  }

  static constexpr size_t kHeaders = 6; // segments, at most

  const File file_;
  std::vector<Section> sections_;
  std::map<size_t, size_t> placed_; // the object's sections to ours
  std::vector<Symbol> exported_;
  std::vector<uint32_t> nameAt_;
  size_t inMemory_ = 0; // sections; those behind them are for tools
  uint64_t end_ = 0;    // of the file, so far
};

} // namespace

std::string linkCodeObject(std::string_view object) { return Linker(object).run(); }

} // namespace libtile::codegen::amd
