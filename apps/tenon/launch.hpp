// launch.hpp: from the words of a command line to an exit status.
#pragma once

#include <string>
#include <vector>

#include "arguments.hpp"

namespace tenon::launcher {

// The TENON_… variables of an environment block (an array of NAME=VALUE that ends with a null pointer), and those that tell
// processes that were started together of each other.
Environment read_environment(char** block);

// Runs `tenon WORDS…` and answers its exit status: 0 done, 1 failed at run time, 2 wrong usage, 3 file not usable,
// 4 out of memory or capacity, 130 interrupted. Messages go to standard error. Call once a process.
int launch(const std::vector<std::string>& words, const Environment& environment);

}  // namespace tenon::launcher
