// token_ids.hpp: token ids from the command line, and whole files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::launcher {

// "1,2,3" (commas or white space) or "@FILE" with the same inside. Throws Error(kUsage) that names `flag`, Error(kFile)
// for a file that cannot be read or holds something else.
std::vector<int32_t> parse_ids(const std::string& flag, const std::string& text);

// The same; none at all is an error too.
std::vector<int32_t> parse_some_ids(const std::string& flag, const std::string& text);

// Throws Error(kFile), and Error(kInterrupted) if Ctrl-C comes while it waits for a pipe.
std::string read_file(const std::string& path);

}  // namespace tenon::launcher
