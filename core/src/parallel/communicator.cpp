#include "communicator.hpp"

#include "plugin/plugin_host.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace tenon::parallel {
namespace {

std::string name_of(const tenon_collective& collective) { return std::string(collective.name.data, size_t(collective.name.size)); }

// Whatever the plugin says it is: a group that has ended is no interruption, which every rank would see alike.
void check(tenon_status status, const std::string& what) {
  if (status == TENON_OK) return;
  const std::string message = plugin::PluginHost::take_message();
  throw Error(ErrorKind::kRuntime, fmt::format("{}: {}", what, message.empty() ? fmt::format("status {}", status) : message));
}

}  // namespace

void Communicator::join() {
  void* comm = nullptr;
  const tenon_str backend = device_ ? device_->table().backend : tenon_str{"cpu", 3};
  check(seen(collective_.join(collective_.self, group_.data(), n_ranks_, rank_, backend, device_ ? device_->table().index : 0, &comm)),
        fmt::format("collective {}: rank {} of {} cannot join", name_of(collective_), rank_, n_ranks_));
  comm_ = comm;
}

Communicator::~Communicator() {
  if (comm_) collective_.leave(comm_);
}

void Communicator::require(tenon_status status, const char* what) const {
  check(seen(status), fmt::format("collective {}: {}", name_of(collective_), what));
}

void Communicator::wait(void* stream, std::chrono::milliseconds limit) const {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::nanoseconds kLook = std::chrono::milliseconds(100), kAfterwards = std::chrono::seconds(30);
  const tenon_backend& backend = device_->backend();
  const auto begin = Clock::now();
  try {
    for (;;) {
      const tenon_status status = backend.sync(backend.self, stream, uint64_t(kLook.count()));
      require(collective_.poll(comm_), "the group");
      if (status != TENON_CANCELLED) return plugin::check_status(status, "wait for the device");
      if (Clock::now() - begin > limit)
        throw Error(ErrorKind::kRuntime, fmt::format("the other ranks did not answer within {:.3g} s", double(limit.count()) / 1e3));
    }
  } catch (...) {
    abort();
    backend.sync(backend.self, stream, uint64_t(kAfterwards.count()));
    throw;
  }
}

void Communicator::abort() const noexcept {
  if (comm_) collective_.abort(comm_);
}

}  // namespace tenon::parallel
