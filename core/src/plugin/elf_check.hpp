// elf_check.hpp: looks at a library's file before the system's loader does, which trusts what it opens.
#pragma once

#include <cstdint>
#include <string>

namespace tenon::plugin {

// "" when the file is a shared library for this machine, lies wholly within its size and exports the plugin entry; else
// why not. Reads only; never fails on hostile bytes.
std::string elf_fault(int fd, uint64_t file_bytes);

}  // namespace tenon::plugin
