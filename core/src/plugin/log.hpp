// log.hpp: the program's log, on stderr.
#pragma once

#include <tenon/abi.h>

#include <cstdint>
#include <string_view>

namespace tenon {

// Writes one line if `level` (TENON_LOG_*) is at least the level in force. Any thread; never throws.
void log(uint32_t level, std::string_view text) noexcept;

// "debug", "info", "warning", "error" or "off". Until it is called, TENON_LOG says the level; without that, warnings
// and errors are shown. False for a name that is none of them; nothing changes then.
bool set_log_level(std::string_view name) noexcept;

}  // namespace tenon
