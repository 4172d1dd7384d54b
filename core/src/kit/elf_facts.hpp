// elf_facts.hpp: what a library's file says about itself, read without opening it.
#pragma once

#include <string>
#include <vector>

namespace tenon::kit {

struct ElfFacts {
  std::vector<std::string> exports, imports, needed, run_paths;  // run_paths: RPATH and RUNPATH, cut at colons
  bool text_relocations = false, executable_stack = false;
};

// Throws std::runtime_error for a file that is no ELF library or ends early.
ElfFacts read_elf_facts(const std::string& path);

}  // namespace tenon::kit
