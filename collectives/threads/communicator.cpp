#include "communicator.hpp"

#include <algorithm>
#include <cstring>

namespace tenon::threads {

void Communicator::group(bool begin) {
  collects_ = begin;
  if (!begin) run();
}

void Communicator::check_peer(uint32_t peer) const {
  if (peer >= size() || peer == rank_)
    throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("threads: rank %u of %u exchanges with rank %u", rank_, size(), peer));
}

void Communicator::send(tenon_addr data, uint64_t bytes, uint32_t to, void*) {
  check_peer(to);
  calls_.push_back({true, data, bytes, to});
  if (!collects_) run();
}

void Communicator::recv(tenon_addr data, uint64_t bytes, uint32_t from, void*) {
  check_peer(from);
  calls_.push_back({false, data, bytes, from});
  if (!collects_) run();
}

void Communicator::run() {
  const bool done = boxes_->wait([this] { return advance(); }, limit_);
  const auto open = std::find_if(calls_.begin(), calls_.end(), [](const Call& call) { return !call.is_done; });
  if (!done && !boxes_->has_ended()) {
    boxes_->end(sdk::text("rank %u: rank %u did not answer within %lld s", rank_, open == calls_.end() ? rank_ : open->peer,
                          static_cast<long long>(limit_.count() / 1000)));
  }
  calls_.clear();
  if (!done) poll();
}

// Does what can be done now; true when all calls are done. Calls with one peer keep their order.
bool Communicator::advance() {
  bool all = true, moved = false;
  for (size_t i = 0; i < calls_.size(); ++i) {
    Call& call = calls_[i];
    if (call.is_done) continue;
    const auto earlier = [&](const Call& other) {
      return other.is_send == call.is_send && other.peer == call.peer && !(other.is_send ? other.is_posted : other.is_done);
    };
    const bool waits = std::any_of(calls_.begin(), calls_.begin() + static_cast<std::ptrdiff_t>(i), earlier);
    if (call.is_send) {
      Mailbox& box = boxes_->between(rank_, call.peer);
      if (!call.is_posted && !waits && !box.is_full()) {
        call.ticket = box.posted();
        box.post({reinterpret_cast<const void*>(call.data), call.bytes});
        call.is_posted = moved = true;
      }
      call.is_done = call.is_posted && box.taken() > call.ticket;
    } else if (Mailbox& box = boxes_->between(call.peer, rank_); !waits && !box.is_empty()) {
      take(call, box);
      moved = true;
    }
    all = all && call.is_done;
  }
  if (moved) boxes_->changed();
  return all;
}

void Communicator::take(Call& call, Mailbox& box) {
  const Mailbox::Message message = box.front();
  if (message.bytes != call.bytes) {
    boxes_->end(sdk::text("rank %u sends %llu bytes where rank %u expects %llu", call.peer, static_cast<unsigned long long>(message.bytes),
                          rank_, static_cast<unsigned long long>(call.bytes)));
    return;
  }
  std::memcpy(reinterpret_cast<void*>(call.data), message.data, message.bytes);
  box.pop();
  call.is_done = true;
}

void Communicator::poll() {
  if (boxes_->has_ended()) throw sdk::Error(TENON_CANCELLED, "the group of ranks has ended: " + boxes_->why());
}

void Communicator::abort() noexcept {
  try {
    boxes_->end(sdk::text("rank %u gave up", rank_));
  } catch (...) {
    boxes_->end({});
  }
}

}  // namespace tenon::threads
