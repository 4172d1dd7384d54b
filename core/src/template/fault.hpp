// fault.hpp: how parsing and rendering end early. Caught at the border, where lines are added and Error is thrown.
#pragma once

#include <stdexcept>
#include <string>

namespace tenon::templating {

// The source is no template. Position in bytes of the source with its line ends normalised.
struct SyntaxFault : std::runtime_error {
  SyntaxFault(size_t position, const std::string& message) : std::runtime_error(message), position(position) {}
  size_t position;
};

enum class FaultKind {
  kValue,   // a type or value does not fit, or something is undefined
  kRaised,  // the template called raise_exception()
  kLimit,   // beyond a limit
};

struct Fault : std::runtime_error {
  explicit Fault(const std::string& message, FaultKind kind = FaultKind::kValue)
      : std::runtime_error(message), kind(kind) {}
  FaultKind kind;
};

}  // namespace tenon::templating
