// faulty.hpp: a collective's end with delays of random length, a failure at a call that the test names, and bytes that arrive
// changed. The configuration values faulty.rank, faulty.fail_at (calls of that rank before the failure, -1 = none),
// faulty.stall_ms (before it fails), faulty.delay_us, faulty.lies_to (a rank, -1 = none) and faulty.lies_from (bytes of the
// shortest message that is changed; host memory only) are read when a rank joins, and so are
//   faulty.reverse              the calls of a group come in reverse, as far as the order of one pair's messages allows
//   faulty.ahead, faulty.sends  who receives a message by itself from a lower rank waits until that one has sent so many more, or
//                               faulty.sends of them in all: a pipeline in lockstep cannot go on then
#pragma once

#include <tenon/sdk/collective.hpp>
#include <tenon/sdk/plugin.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace tenon::parallel_test {

inline int64_t configured(const char* key, int64_t otherwise) {
  tenon_value value = {};
  const tenon_status status = sdk::host().config(sdk::host().self, sdk::to_str(key), &value);
  return status == TENON_OK && value.type == TENON_VALUE_I64 ? value.integer : otherwise;
}

using Sent = std::vector<std::atomic<int64_t>>;  // messages by themselves, by sender

class Faulty final : public sdk::Communicator {
 public:
  // `sent` is the group's, where ranks are to wait for each other.
  explicit Faulty(std::unique_ptr<sdk::Communicator> inner, std::shared_ptr<Sent> sent = nullptr)
      : inner_(std::move(inner)), sent_(std::move(sent)), n_received_(inner_->size()), ahead_(configured("faulty.ahead", 0)),
        n_sends_(configured("faulty.sends", 0)), reverse_(configured("faulty.reverse", 0)), delay_us_(configured("faulty.delay_us", 0)), stall_ms_(configured("faulty.stall_ms", 0)), random_(inner_->rank() + 1) {
    const uint32_t rank = inner_->rank();
    if (configured("faulty.rank", 0) == int64_t(rank)) fail_at_ = configured("faulty.fail_at", -1);
    if (configured("faulty.lies_to", -1) == int64_t(rank)) lies_from_ = uint64_t(configured("faulty.lies_from", 0));
  }
  uint32_t rank() const override { return inner_->rank(); }
  uint32_t size() const override { return inner_->size(); }
  void group(bool begin) override {
    step();
    if (!begin) give_in_reverse();
    inner_->group(begin);
    collects_ = begin;
    if (!begin) lie();
  }
  void send(tenon_addr data, uint64_t bytes, uint32_t to, void* stream) override {
    step();
    if (collects_ && reverse_) return kept_.push_back({true, data, bytes, to, stream});
    inner_->send(data, bytes, to, stream);
    if (!collects_ && sent_) ++(*sent_)[rank()];
  }
  void recv(tenon_addr data, uint64_t bytes, uint32_t from, void* stream) override {
    step();
    if (!collects_) wait_for_more(from);
    if (collects_ && reverse_) kept_.push_back({false, data, bytes, from, stream});
    else inner_->recv(data, bytes, from, stream);
    if (bytes >= lies_from_) changed_.push_back(reinterpret_cast<uint8_t*>(data) + bytes - 5);
  }
  void poll() override { inner_->poll(); }
  void abort() noexcept override { inner_->abort(); }

  void all_reduce(tenon_addr in, tenon_addr out, uint64_t n, void* stream) override {
    step();
    inner_->all_reduce(in, out, n, stream);
  }

 private:
  struct Call {
    bool is_send;
    tenon_addr data;
    uint64_t bytes;
    uint32_t peer;
    void* stream;
  };
  void give_in_reverse() {
    std::stable_sort(kept_.begin(), kept_.end(), [](const Call& a, const Call& b) { return a.peer > b.peer; });
    for (const Call& call : kept_)
      if (!call.is_send) inner_->recv(call.data, call.bytes, call.peer, call.stream);
    for (const Call& call : kept_)
      if (call.is_send) inner_->send(call.data, call.bytes, call.peer, call.stream);
    kept_.clear();
  }
  void wait_for_more(uint32_t from) {
    if (!ahead_ || !sent_ || from > rank()) return;
    const int64_t wanted = std::min(n_received_[from]++ + 1 + ahead_, n_sends_);
    for (int i = 0; (*sent_)[from] < wanted; ++i) {
      poll();
      if (i == 20000) throw sdk::Error(TENON_DEVICE_LOST, "the rank before this one does not go on with its next chunk");
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
  }
  void lie() {
    for (uint8_t* byte : changed_) *byte ^= 0x10;
    changed_.clear();
  }
  void step() {
    if (delay_us_) std::this_thread::sleep_for(std::chrono::microseconds(random_() % uint64_t(delay_us_)));
    if (fail_at_ < 0 || calls_++ != fail_at_) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(stall_ms_));
    throw sdk::Error(TENON_DEVICE_LOST, "an injected failure");
  }
  std::unique_ptr<sdk::Communicator> inner_;
  std::shared_ptr<Sent> sent_;
  std::vector<int64_t> n_received_;
  std::vector<Call> kept_;
  bool collects_ = false;
  int64_t ahead_, n_sends_, reverse_;
  int64_t delay_us_, stall_ms_, fail_at_ = -1, calls_ = 0;
  uint64_t lies_from_ = UINT64_MAX;
  std::vector<uint8_t*> changed_;  // when the group of calls has run
  std::mt19937_64 random_;
};

}  // namespace tenon::parallel_test
