// message.hpp: each thread's message slot, which plugins fill through host->fail(), and what a status is called.
#pragma once

#include <tenon/abi.h>

#include <string>
#include <string_view>

namespace tenon::plugin {

// Puts the message into this thread's slot, as host->fail() does, and returns `status`. For the core's own tables.
tenon_status set_message(tenon_status status, std::string_view text) noexcept;
std::string take_message();  // this thread's message; the slot is empty afterwards
const char* status_name(tenon_status status);

}  // namespace tenon::plugin
