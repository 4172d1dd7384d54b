// faulty.hpp: a collective's end with delays of random length, a failure at a call that the test names, and bytes that arrive
// changed. The configuration values faulty.rank, faulty.fail_at (calls of that rank before the failure, -1 = none),
// faulty.stall_ms (before it fails), faulty.delay_us, faulty.lies_to (a rank, -1 = none) and faulty.lies_from (bytes of the
// shortest message that is changed; host memory only) are read when a rank joins.
#pragma once

#include <tenon/sdk/collective.hpp>
#include <tenon/sdk/plugin.hpp>

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

class Faulty final : public sdk::Communicator {
 public:
  explicit Faulty(std::unique_ptr<sdk::Communicator> inner)
      : inner_(std::move(inner)), delay_us_(configured("faulty.delay_us", 0)), stall_ms_(configured("faulty.stall_ms", 0)), random_(inner_->rank() + 1) {
    const uint32_t rank = inner_->rank();
    if (configured("faulty.rank", 0) == int64_t(rank)) fail_at_ = configured("faulty.fail_at", -1);
    if (configured("faulty.lies_to", -1) == int64_t(rank)) lies_from_ = uint64_t(configured("faulty.lies_from", 0));
  }
  uint32_t rank() const override { return inner_->rank(); }
  uint32_t size() const override { return inner_->size(); }
  void group(bool begin) override {
    step();
    inner_->group(begin);
    if (!begin) lie();
  }
  void send(tenon_addr data, uint64_t bytes, uint32_t to, void* stream) override {
    step();
    inner_->send(data, bytes, to, stream);
  }
  void recv(tenon_addr data, uint64_t bytes, uint32_t from, void* stream) override {
    step();
    inner_->recv(data, bytes, from, stream);
    if (bytes >= lies_from_) changed_.push_back(reinterpret_cast<uint8_t*>(data) + bytes - 5);
  }
  void poll() override { inner_->poll(); }
  void abort() noexcept override { inner_->abort(); }

  void all_reduce(tenon_addr in, tenon_addr out, uint64_t n, void* stream) override {
    step();
    inner_->all_reduce(in, out, n, stream);
  }

 private:
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
  int64_t delay_us_, stall_ms_, fail_at_ = -1, calls_ = 0;
  uint64_t lies_from_ = UINT64_MAX;
  std::vector<uint8_t*> changed_;  // when the group of calls has run
  std::mt19937_64 random_;
};

}  // namespace tenon::parallel_test
