#include "communicator.hpp"

#include <algorithm>
#include <cstring>
#include <list>
#include <thread>

namespace tenon::threads {
namespace {

// While it lives its box is looked at.
class Look {
 public:
  explicit Look(Mailbox& box) : box_(box) { box.look(true); }
  ~Look() { box_.look(false); }
  Look(const Look&) = delete;
  Look& operator=(const Look&) = delete;

 private:
  Mailbox& box_;
};

}  // namespace

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
  calls_.push_back({true, data, bytes, to, !collects_ && bytes <= Mailbox::kMostCopiedBytes});
  if (!collects_) run();
}

void Communicator::recv(tenon_addr data, uint64_t bytes, uint32_t from, void*) {
  check_peer(from);
  calls_.push_back({false, data, bytes, from});
  if (!collects_) run();
}

void Communicator::await(const std::function<uint32_t()>& late) {
  uint32_t peer = rank_;
  const bool done = boxes_->wait([&] { return (peer = late()) == size(); }, limit_);
  if (!done && !boxes_->has_ended())
    boxes_->end(sdk::text("rank %u: rank %u did not answer within %lld s", rank_, peer, static_cast<long long>(limit_.count() / 1000)));
  if (!done) poll();
}

void Communicator::run() {
  try {
    await([this] { return advance(); });
  } catch (...) {
    withdraw();
    throw;
  }
  calls_.clear();
}

void Communicator::withdraw() {
  calls_.clear();
  for (uint32_t peer = 0; peer < size(); ++peer)
    while (peer != rank_ && boxes_->between(rank_, peer).is_looked_at()) std::this_thread::yield();
}

// Does what can be done now; answers the first rank that has calls left, or size(). Calls with one peer keep their order.
uint32_t Communicator::advance() {
  uint32_t late = size();
  bool moved = false;
  for (size_t i = 0; i < calls_.size(); ++i) {
    Call& call = calls_[i];
    if (call.is_done) continue;
    const auto earlier = [&](const Call& other) {
      return other.is_send == call.is_send && other.peer == call.peer && !(other.is_send ? other.is_posted : other.is_done);
    };
    const bool waits = std::any_of(calls_.begin(), calls_.begin() + static_cast<std::ptrdiff_t>(i), earlier);
    if (call.is_send) {
      Mailbox& box = boxes_->between(rank_, call.peer);
      if (!call.is_posted && !waits && !box.is_full() && (!call.may_copy || box.may_copy())) {
        call.ticket = box.posted();
        const Mailbox::Message message = {reinterpret_cast<const void*>(call.data), call.bytes};
        if (call.may_copy) {
          box.post_copy(message);
        } else {
          box.post(message);
        }
        call.is_posted = moved = true;
      }
      call.is_done = call.is_posted && (call.may_copy || box.taken() > call.ticket);
    } else if (Mailbox& box = boxes_->between(call.peer, rank_); !waits && !box.is_empty()) {
      take(call, box);
      moved = true;
    }
    if (!call.is_done && late == size()) late = call.peer;
  }
  if (moved) boxes_->changed();
  return late;
}

void Communicator::check_size(const Mailbox::Message& message, uint32_t from, uint64_t bytes) {
  if (message.bytes == bytes) return;
  boxes_->end(sdk::text("rank %u sends %llu bytes where rank %u expects %llu", from, static_cast<unsigned long long>(message.bytes), rank_,
                        static_cast<unsigned long long>(bytes)));
  poll();
}

void Communicator::take(Call& call, Mailbox& box) {
  const Look look(box);
  poll();
  const Mailbox::Message message = box.front();
  check_size(message, call.peer, call.bytes);
  std::memcpy(reinterpret_cast<void*>(call.data), message.data, message.bytes);
  box.pop();
  call.is_done = true;
}

void Communicator::all_reduce(tenon_addr in, tenon_addr out, uint64_t n, void*) {
  if (collects_) throw sdk::Error(TENON_INVALID_ARGUMENT, "threads: all_reduce inside a group of calls");
  try {
    add_up(in, out, n);
  } catch (...) {
    withdraw();
    throw;
  }
}

// Every rank shows its values to every other and adds all of them up, ascending by rank.
void Communicator::add_up(tenon_addr in, tenon_addr out, uint64_t n) {
  const uint64_t bytes = n * sizeof(float);
  std::vector<const float*> values(size(), reinterpret_cast<const float*>(in));
  std::vector<uint64_t> tickets(size());
  const auto first_peer = [this](const auto& is_late) {
    uint32_t peer = 0;
    while (peer < size() && (peer == rank_ || !is_late(peer))) ++peer;
    return peer;
  };
  for (uint32_t peer = 0; peer < size(); ++peer) {  // no box is full: earlier calls have returned
    if (peer == rank_) continue;
    tickets[peer] = boxes_->between(rank_, peer).posted();
    boxes_->between(rank_, peer).post({values[rank_], bytes});
  }
  boxes_->changed();
  await([&] { return first_peer([&](uint32_t peer) { return boxes_->between(peer, rank_).is_empty(); }); });
  std::list<Look> looks;
  for (uint32_t peer = 0; peer < size(); ++peer)
    if (peer != rank_) looks.emplace_back(boxes_->between(peer, rank_));
  poll();
  for (uint32_t peer = 0; peer < size(); ++peer) {
    if (peer == rank_) continue;
    const Mailbox::Message message = boxes_->between(peer, rank_).front();
    check_size(message, peer, bytes);
    values[peer] = static_cast<const float*>(message.data);
  }
  const bool overlaps = in < out + bytes && out < in + bytes;  // the others still read what is there
  if (overlaps && sums_.size() < n) sums_.resize(n);
  float* const sums = overlaps ? sums_.data() : reinterpret_cast<float*>(out);
  std::memcpy(sums, values[0], bytes);
  for (uint32_t rank = 1; rank < size(); ++rank)
    for (uint64_t i = 0; i < n; ++i) sums[i] += values[rank][i];
  for (uint32_t peer = 0; peer < size(); ++peer)
    if (peer != rank_) boxes_->between(peer, rank_).pop();
  looks.clear();
  boxes_->changed();
  await([&] { return first_peer([&](uint32_t peer) { return boxes_->between(rank_, peer).taken() <= tickets[peer]; }); });
  if (overlaps) std::memcpy(reinterpret_cast<void*>(out), sums, bytes);
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
