// error.hpp: the one exception of the core, with the exit status a program should end with.
#pragma once

#include <stdexcept>
#include <string>

namespace tenon {

enum class ErrorKind {
  kUsage,       // wrong arguments: exit 2
  kFile,        // a file is missing, malformed or unsupported: exit 3
  kCapacity,    // memory, pages, context: exit 4
  kRuntime,     // anything else that failed while running: exit 1
  kInterrupted  // exit 130
};

// Messages name the thing, what was expected, what was found and the next step.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }
  int exit_status() const {
    switch (kind_) {
      case ErrorKind::kUsage: return 2;
      case ErrorKind::kFile: return 3;
      case ErrorKind::kCapacity: return 4;
      case ErrorKind::kInterrupted: return 130;
      case ErrorKind::kRuntime: break;
    }
    return 1;
  }

 private:
  ErrorKind kind_;
};

}  // namespace tenon
