// store_cases.hpp: cases of the ops that read or write stores.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "cases.hpp"
#include "transactions.hpp"

namespace tenon::kit {

// As kernel_cases(). Sequences of several rows: row r depends on rows of its own sequence before it, and on no other.
std::vector<KernelCase> store_cases(std::string_view op);

// States to play transactions on, for the ops that have one.
std::vector<std::pair<std::string, StateOp>> state_ops(std::string_view op);

}  // namespace tenon::kit
