// processes.hpp: several processes of this program, as mpirun starts them. Rank 0 alone reads, prints and writes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::launcher {

struct Processes {
  uint32_t n = 1, rank = 0;
};

// Variables in which what has started them says how many there are, and which one this is.
bool is_process_variable(std::string_view name);

// Where each of several processes is held to fewer cores than its share of the machine: how many, and what to do; else "".
std::string binding_note(const Processes& processes);

class Arguments;
// What a process other than rank 0 does: serves the model that rank 0 loads, or nothing where the verb needs no model's ranks.
// Answers the exit status.
int follow(const Arguments& arguments);

}  // namespace tenon::launcher
