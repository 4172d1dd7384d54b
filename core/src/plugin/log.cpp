#include "log.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>
#include <optional>

namespace tenon {
namespace {

std::optional<spdlog::level::level_enum> level_of(std::string_view name) {
  if (name == "debug") return spdlog::level::debug;
  if (name == "info") return spdlog::level::info;
  if (name == "warning") return spdlog::level::warn;
  if (name == "error") return spdlog::level::err;
  if (name == "off") return spdlog::level::off;
  return std::nullopt;
}

// Never destroyed: plugins may log while the process ends.
spdlog::logger& logger() {
  static spdlog::logger& instance = *[] {
    auto made = std::make_unique<spdlog::logger>("tenon", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%^%l%$: %v");
    made->flush_on(spdlog::level::debug);
    const char* text = std::getenv("TENON_LOG");
    const auto wanted = level_of(text ? text : "warning");
    made->set_level(wanted.value_or(spdlog::level::warn));
    if (!wanted) made->warn("TENON_LOG: expected debug, info, warning, error or off, found '{}'", text);
    return made.release();
  }();
  return instance;
}

}  // namespace

void log(uint32_t level, std::string_view text) noexcept {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                                   spdlog::level::err};
  try {
    logger().log(kLevels[level <= TENON_LOG_ERROR ? level : uint32_t(TENON_LOG_ERROR)], "{}", text);
  } catch (...) {
    // A log that cannot be written must not stop the work.
  }
}

bool set_log_level(std::string_view name) noexcept {
  const auto wanted = level_of(name);
  if (!wanted) return false;
  try {
    logger().set_level(*wanted);
  } catch (...) {
    return false;
  }
  return true;
}

}  // namespace tenon
