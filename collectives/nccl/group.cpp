#include "group.hpp"

#include <chrono>

#include "communicator.hpp"

namespace tenon::nccl {

void Group::add(Communicator& member) {
  const std::lock_guard lock(mutex_);
  if (ended_) throw sdk::Error(TENON_CANCELLED, "the group of ranks has ended: " + why_);
  members_.push_back(&member);
}

void Group::remove(Communicator& member) noexcept {
  std::vector<std::shared_ptr<Abort>> aborts;
  {
    const std::lock_guard lock(mutex_);
    std::erase(members_, &member);
    if (members_.empty()) aborts.swap(aborts_);
  }
  for (const auto& abort : aborts) finish(*abort);
}

std::shared_ptr<Group::Abort> Group::begin_abort(ncclComm_t comm, int device) {
  auto abort = std::make_shared<Abort>();
  abort->thread = std::thread([comm, device, abort] {
    cudaSetDevice(device);
    ncclCommAbort(comm);
    const std::lock_guard lock(abort->mutex);
    abort->is_done = true;
    abort->condition.notify_all();
  });
  return abort;
}

// Not for ever: what hangs then is NCCL's.
void Group::finish(Abort& abort) noexcept {
  constexpr std::chrono::seconds kAtMost(10);
  bool is_done = false;
  {
    std::unique_lock lock(abort.mutex);
    is_done = abort.condition.wait_for(lock, kAtMost, [&] { return abort.is_done; });
  }
  if (is_done) {
    abort.thread.join();
  } else {
    abort.thread.detach();
  }
}

void Group::end(const std::string& why) noexcept {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  try {
    why_ = why;
  } catch (...) {
  }
  ended_ = true;
  for (Communicator* member : members_) {
    const ncclComm_t comm = member->stop();
    if (!comm) continue;
    try {
      aborts_.push_back(begin_abort(comm, member->device()));
    } catch (...) {
      sdk::log(TENON_LOG_ERROR, "nccl: no thread to abort with: the communicator is left as it is");
    }
  }
}

std::string Group::why() const {
  const std::lock_guard lock(mutex_);
  return why_;
}

}  // namespace tenon::nccl
