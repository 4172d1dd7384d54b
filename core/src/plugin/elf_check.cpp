#include "elf_check.hpp"

#include <elf.h>
#include <tenon/abi.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <string_view>
#include <vector>

namespace tenon::plugin {
namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
#error "the ELF machine number of this processor is missing here"
#endif
constexpr uint8_t kByteOrder = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;

// The file, read by ranges that are checked against its size.
class ElfFile {
 public:
  ElfFile(int fd, uint64_t bytes) : fd_(fd), bytes_(bytes) {}
  bool holds(uint64_t offset, uint64_t n) const { return n <= bytes_ && offset <= bytes_ - n; }
  bool read(uint64_t offset, void* dst, uint64_t n) const {
    if (!holds(offset, n)) return false;
    for (uint64_t done = 0; done < n;) {
      const ssize_t got = pread(fd_, static_cast<char*>(dst) + done, n - done, off_t(offset + done));
      if (got <= 0) return false;
      done += uint64_t(got);
    }
    return true;
  }
  template <typename T>
  bool table(uint64_t offset, uint64_t n, std::vector<T>& out) const {
    if (n > bytes_ / sizeof(T) || !holds(offset, n * sizeof(T))) return false;
    out.resize(n);
    return read(offset, out.data(), n * sizeof(T));
  }

 private:
  int fd_;
  uint64_t bytes_;
};

std::string header_fault(const Elf64_Ehdr& header) {
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return "not an ELF file";
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return "not a 64-bit library";
  if (header.e_ident[EI_DATA] != kByteOrder) return "its byte order is not this machine's";
  if (header.e_machine != kMachine)
    return "built for machine " + std::to_string(header.e_machine) + ", this one is " + std::to_string(kMachine) +
           " (numbers of ELF)";
  if (header.e_type != ET_DYN) return "not a shared library";
  if (header.e_phentsize != sizeof(Elf64_Phdr)) return "its program headers have an unknown size";
  if (header.e_shnum != 0 && header.e_shentsize != sizeof(Elf64_Shdr))
    return "its section headers have an unknown size";
  return "";
}

bool exports_entry(const ElfFile& file, const std::vector<Elf64_Shdr>& sections) {
  constexpr std::string_view kEntry = TENON_PLUGIN_ENTRY;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections.size()) continue;
    const Elf64_Shdr& text = sections[section.sh_link];
    std::vector<Elf64_Sym> symbols;
    std::vector<char> names;
    if (!file.table(section.sh_offset, section.sh_size / sizeof(Elf64_Sym), symbols)) continue;
    if (!file.table(text.sh_offset, text.sh_size, names)) continue;
    for (const Elf64_Sym& symbol : symbols) {
      if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
      if (symbol.st_name >= names.size() || names.size() - symbol.st_name <= kEntry.size()) continue;
      const char* name = names.data() + symbol.st_name;
      if (std::memcmp(name, kEntry.data(), kEntry.size()) == 0 && name[kEntry.size()] == '\0') return true;
    }
  }
  return false;
}

}  // namespace

std::string elf_fault(int fd, uint64_t file_bytes) {
  const ElfFile file(fd, file_bytes);
  Elf64_Ehdr header{};
  if (!file.read(0, &header, sizeof header)) return "not an ELF file: " + std::to_string(file_bytes) + " bytes";
  if (std::string fault = header_fault(header); !fault.empty()) return fault;

  // The loader maps segments without a look at the file's size: one that reaches past the end is a later SIGBUS.
  std::vector<Elf64_Phdr> segments;
  if (!file.table(header.e_phoff, header.e_phnum, segments)) return "truncated: its program headers lie past the end";
  for (const Elf64_Phdr& segment : segments)
    if (segment.p_type == PT_LOAD && !file.holds(segment.p_offset, segment.p_filesz))
      return "truncated: a segment at " + std::to_string(segment.p_offset) + " of " + std::to_string(segment.p_filesz) +
             " bytes lies past its " + std::to_string(file_bytes) + " bytes";

  std::vector<Elf64_Shdr> sections;
  if (!file.table(header.e_shoff, header.e_shnum, sections)) return "truncated: its section headers lie past the end";
  if (!exports_entry(file, sections)) return "exports no " TENON_PLUGIN_ENTRY "()";
  return "";
}

}  // namespace tenon::plugin
