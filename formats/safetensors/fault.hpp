// fault.hpp: messages about a file: its name, what is wrong in it and the byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tenon/sdk/base.hpp>
#include <vector>

namespace tenon::safetensors {

// "text" in single quotes, with control bytes escaped and cut after 128 bytes: names come from the file.
std::string quoted(std::string_view text);

// "3 tensors (a, b, c)", the first few names alone when there are many.
std::string listed(const std::vector<std::string>& names, const char* what);

[[noreturn]] void fail(std::string_view file, const std::string& message, tenon_status status = TENON_CORRUPT);
[[noreturn]] void fail_at(std::string_view file, const std::string& field, uint64_t offset, const std::string& message,
                          tenon_status status = TENON_CORRUPT);

}  // namespace tenon::safetensors
