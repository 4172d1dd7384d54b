// failure.hpp: what a rank's failure means for the others.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

namespace tenon::parallel {

// What every rank refuses alike where one does: wrong use, no room, a file, an interruption.
bool is_alike(const std::exception_ptr& error);
// The same failure with the rank's name; what is refused alike has none.
std::exception_ptr of_rank(uint32_t rank, const std::exception_ptr& error);
std::string text_of(const std::exception_ptr& error);

}  // namespace tenon::parallel
