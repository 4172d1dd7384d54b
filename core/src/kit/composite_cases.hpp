// composite_cases.hpp: nodes of a composite, made from its text, and its parts one after the other.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "cases.hpp"

namespace tenon::kit {

// Cases of a composite by its text. Throws std::runtime_error where the text is malformed or has an op for which there
// are no operands.
std::vector<KernelCase> composite_cases(std::string_view text);

// Sum of the parts' tolerances.
double composite_tolerance(const OpCase& composite);

// Runs the parts of a composite one by one by `run`, on the operands as `like` had them encoded.
RunResult run_parts(const OpCase& composite, const RunResult& like, const std::function<RunResult(const OpCase&)>& run);

}  // namespace tenon::kit
