#include "failure.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>

#include <new>

namespace tenon::parallel {

bool is_alike(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return e.kind() == ErrorKind::kUsage || e.kind() == ErrorKind::kCapacity || e.kind() == ErrorKind::kInterrupted || e.kind() == ErrorKind::kFile;
  } catch (...) {
    return false;
  }
}

std::exception_ptr of_rank(uint32_t rank, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    if (is_alike(error)) return error;
    const std::string text = e.what(), name = fmt::format("rank {} ", rank);
    // A rank that did not answer is named by those that wait for it.
    return std::make_exception_ptr(Error(e.kind(), text.starts_with(name) ? text : fmt::format("rank {}: {}", rank, text)));
  } catch (const std::bad_alloc&) {
    return std::make_exception_ptr(Error(ErrorKind::kCapacity, fmt::format("rank {}: out of memory", rank)));
  } catch (const std::exception& e) {
    return std::make_exception_ptr(Error(ErrorKind::kRuntime, fmt::format("rank {}: {}", rank, e.what())));
  }
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace tenon::parallel
