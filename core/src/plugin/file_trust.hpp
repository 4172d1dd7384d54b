// file_trust.hpp: may a file or directory give this process code to run?
#pragma once

#include <sys/stat.h>

#include <string>

namespace tenon::plugin {

// "" when only root and the current user can change it; else why not. Others can write what is world-writable, or
// group-writable with a group that is not its owner's own.
std::string trust_fault(const std::string& path, const struct stat& status);
std::string trust_fault(const std::string& path);  // follows links; names a missing file too

}  // namespace tenon::plugin
