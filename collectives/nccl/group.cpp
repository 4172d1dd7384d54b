#include "group.hpp"

#include <algorithm>

#include "communicator.hpp"

namespace tenon::nccl {

void Group::add(Communicator& member) {
  const std::lock_guard lock(mutex_);
  if (ended_) throw sdk::Error(TENON_CANCELLED, "the group of ranks has ended: " + why_);
  members_.push_back(&member);
}

void Group::remove(Communicator& member) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(members_, &member);
}

void Group::end(const std::string& why) noexcept {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  try {
    why_ = why;
  } catch (...) {
  }
  ended_ = true;
  for (Communicator* member : members_) member->stop();
}

std::string Group::why() const {
  const std::lock_guard lock(mutex_);
  return why_;
}

}  // namespace tenon::nccl
