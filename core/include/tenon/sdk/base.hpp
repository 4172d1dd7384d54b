// base.hpp: what every plugin's C++ needs at the boundary: strings, errors, the host, and the guard that stops exceptions.
// Header-only; compiled into the plugin. Nothing of it crosses.
#pragma once

#include <tenon/abi.h>

#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace tenon::sdk {

inline tenon_str to_str(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view to_view(tenon_str text) { return {text.data, static_cast<size_t>(text.size)}; }

// A failure with the status it becomes at the boundary.
class Error : public std::runtime_error {
 public:
  Error(tenon_status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  tenon_status status() const { return status_; }

 private:
  tenon_status status_;
};

// The host's table; set before init() runs. One copy a plugin, since every plugin is built with hidden visibility.
inline const tenon_host*& host_slot() {
  static const tenon_host* slot = nullptr;
  return slot;
}
inline const tenon_host& host() { return *host_slot(); }

inline tenon_status fail(tenon_status status, std::string_view message) noexcept {
  const tenon_host* table = host_slot();
  return table ? table->fail(table->self, status, to_str(message)) : status;
}

// Throws what a host call answered; its message already lies in the host's slot and is kept by guard().
class HostFailure : public std::exception {
 public:
  explicit HostFailure(tenon_status status) : status_(status) {}
  tenon_status status() const { return status_; }
  const char* what() const noexcept override { return "a host call failed"; }

 private:
  tenon_status status_;
};
inline void check(tenon_status status) {
  if (status != TENON_OK) throw HostFailure(status);
}

// Runs `body` and turns every exception into a status, so that none leaves the plugin.
template <typename Body>
tenon_status guard(Body&& body) noexcept {
  try {
    if constexpr (std::is_same_v<decltype(body()), tenon_status>) {
      return body();
    } else {
      body();
      return TENON_OK;
    }
  } catch (const HostFailure& failure) {
    return failure.status();
  } catch (const Error& error) {
    return fail(error.status(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(TENON_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return fail(TENON_INTERNAL, error.what());
  } catch (...) {
    return fail(TENON_INTERNAL, "unknown exception");
  }
}

// printf-style text; GCC 12 has no std::format and plugins must not need fmt.
template <typename... Args>
std::string text(const char* format, Args... args) {
  const int size = std::snprintf(nullptr, 0, format, args...);
  std::string out(size > 0 ? size_t(size) : 0, '\0');
  if (size > 0) std::snprintf(out.data(), out.size() + 1, format, args...);
  return out;
}
inline std::string text(const char* plain) { return plain; }

inline void log(uint32_t level, std::string_view message) {
  if (const tenon_host* table = host_slot()) table->log(table->self, level, to_str(message));
}

}  // namespace tenon::sdk
