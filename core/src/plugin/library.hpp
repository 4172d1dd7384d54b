// library.hpp: opens plugin libraries. A library is opened and initialised once in a process and stays open until its
// end, since the tables it registered, and the dtype ids it was given, live as long.
#pragma once

#include <string>

#include "manifest.hpp"
#include "registry.hpp"

namespace tenon::plugin {

// Why a library may not be opened; "" = it may. Looks at owner and mode of the file and its directory, at links, the
// hash and the ELF headers; nothing of the library runs. `library` is the path that the manifest in `directory` gives.
std::string library_fault(const std::string& directory, const std::string& library, const std::string& sha256);

struct Library {
  bool opened = false;  // the system's loader has taken it
  std::string fault;    // why it is not used; "" = it is
  std::string licence;
  Registry contents;  // what it registered; empty after a fault
};

// Opens the library, checks its entry against the manifest and runs its init(). `known`: names that are taken. A
// library that this process has opened before answers what it registered then. Any thread; one library at a time.
Library open_library(const std::string& path, const Manifest& manifest, const Registry& known);

}  // namespace tenon::plugin
