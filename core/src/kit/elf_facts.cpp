#include "elf_facts.hpp"

#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>

namespace tenon::kit {
namespace {

class File {
 public:
  explicit File(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
    if (!in) throw std::runtime_error(path + ": cannot be read");
  }
  template <typename T>
  std::vector<T> table(uint64_t offset, uint64_t count) const {
    if (offset > bytes_.size() || count > (bytes_.size() - offset) / sizeof(T))
      throw std::runtime_error("its headers lead past the end of the file");
    std::vector<T> out(count);
    if (count) std::memcpy(out.data(), bytes_.data() + offset, count * sizeof(T));
    return out;
  }

 private:
  std::vector<char> bytes_;
};

std::string text_at(const std::vector<char>& names, uint64_t offset) {
  if (offset >= names.size()) throw std::runtime_error("a name lies past the end of its table");
  return {names.data() + offset, strnlen(names.data() + offset, names.size() - offset)};
}

void add_paths(std::vector<std::string>& out, const std::string& text) {
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(':', begin), text.size());
    if (end > begin) out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

}  // namespace

ElfFacts read_elf_facts(const std::string& path) {
  const File file(path);
  const Elf64_Ehdr header = file.table<Elf64_Ehdr>(0, 1)[0];
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64)
    throw std::runtime_error("not a 64-bit ELF file");
  ElfFacts out;
  for (const Elf64_Phdr& segment : file.table<Elf64_Phdr>(header.e_phoff, header.e_phnum))
    if (segment.p_type == PT_GNU_STACK && (segment.p_flags & PF_X)) out.executable_stack = true;
  const auto sections = file.table<Elf64_Shdr>(header.e_shoff, header.e_shnum);
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNSYM && section.sh_type != SHT_DYNAMIC) continue;
    if (section.sh_link >= sections.size()) throw std::runtime_error("a section without its names");
    const Elf64_Shdr& text = sections[section.sh_link];
    const auto names = file.table<char>(text.sh_offset, text.sh_size);
    if (section.sh_type == SHT_DYNSYM) {
      for (const Elf64_Sym& symbol : file.table<Elf64_Sym>(section.sh_offset, section.sh_size / sizeof(Elf64_Sym))) {
        if (symbol.st_name == 0) continue;
        const bool is_local = ELF64_ST_BIND(symbol.st_info) == STB_LOCAL;
        if (symbol.st_shndx == SHN_UNDEF)
          out.imports.push_back(text_at(names, symbol.st_name));
        else if (!is_local && symbol.st_shndx != SHN_ABS)
          out.exports.push_back(text_at(names, symbol.st_name));
      }
      continue;
    }
    for (const Elf64_Dyn& entry : file.table<Elf64_Dyn>(section.sh_offset, section.sh_size / sizeof(Elf64_Dyn))) {
      if (entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_NEEDED) out.needed.push_back(text_at(names, entry.d_un.d_val));
      if (entry.d_tag == DT_RPATH || entry.d_tag == DT_RUNPATH)
        add_paths(out.run_paths, text_at(names, entry.d_un.d_val));
      if (entry.d_tag == DT_TEXTREL || (entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_TEXTREL)))
        out.text_relocations = true;
    }
  }
  return out;
}

}  // namespace tenon::kit
