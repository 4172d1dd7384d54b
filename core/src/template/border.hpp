// border.hpp: where faults inside become Error for the caller.
#pragma once

#include <string>
#include <tenon/error.hpp>

#include "template/fault.hpp"
#include "template/operations.hpp"
#include "template/runtime.hpp"

namespace tenon::templating {

[[noreturn]] inline void throw_error(const Runtime& runtime, const Fault& fault) {
  const ErrorKind kind = fault.kind == FaultKind::kRaised  ? ErrorKind::kUsage
                         : fault.kind == FaultKind::kLimit ? ErrorKind::kCapacity
                                                           : ErrorKind::kRuntime;
  throw Error(kind, "chat template, line " + std::to_string(runtime.line()) + ": " + fault.what());
}

inline std::string rendered(Runtime& runtime, const Value& variables) {
  try {
    return runtime.render(variables);
  } catch (const Fault& fault) {
    throw_error(runtime, fault);
  }
}

// Reads JSON that the caller gave; `what` names it in errors.
inline Value read_input(Runtime& runtime, std::string_view json, const std::string& what, Kind kind) {
  Value value;
  try {
    value = from_json(runtime, json);
  } catch (const Fault& fault) {
    throw Error(fault.kind == FaultKind::kLimit ? ErrorKind::kCapacity : ErrorKind::kUsage,
                what + ": no valid JSON: " + fault.what());
  }
  if (!value.is(kind))
    throw Error(ErrorKind::kUsage, what + ": expected a JSON " + (kind == Kind::kDict ? "object" : "list") +
                                       ", found " + std::string(type_name(value)));
  return value;
}

}  // namespace tenon::templating
