// communicator.hpp: one rank's place in a group, over whichever collective plugin moves the bytes.
#pragma once

#include "program/device.hpp"

#include <tenon/abi.h>

#include <atomic>
#include <cstdint>

namespace tenon::parallel {

// Borrows the collective's record. One thread, but for abort().
class Communicator {
 public:
  // Waits until all ranks have joined. Throws Error(kRuntime) with the plugin's message.
  Communicator(const tenon_collective& collective, const uint8_t id[128], uint32_t n_ranks, uint32_t rank, const program::Device& device);
  // The same for memory of the host.
  Communicator(const tenon_collective& collective, const uint8_t id[128], uint32_t n_ranks, uint32_t rank);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  uint32_t rank() const { return rank_; }
  uint32_t size() const { return n_ranks_; }
  bool is_capturable() const { return collective_.flags & TENON_COLLECTIVE_CAPTURABLE; }
  // For kernels: the plugin's status, its message in the thread's slot.
  tenon_status send(tenon_addr data, uint64_t bytes, uint32_t to, void* stream) const {
    sent_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    return seen(collective_.send(comm_, data, bytes, to, stream));
  }
  tenon_status recv(tenon_addr data, uint64_t bytes, uint32_t from, void* stream) const { return seen(collective_.recv(comm_, data, bytes, from, stream)); }
  tenon_status poll() const { return collective_.poll(comm_); }  // any thread
  tenon_status group(bool begin) const { return seen(collective_.group(comm_, begin)); }
  // To other ranks, since the group began. Any thread.
  uint64_t sent_bytes() const { return sent_bytes_.load(std::memory_order_relaxed); }
  // Whether the first call that failed did so because another rank had ended the group.
  bool was_cancelled() const { return first_failure_.load() == TENON_CANCELLED; }
  // Every rank's calls fail from now on, those that wait too. Any thread.
  void abort() const noexcept { collective_.abort(comm_); }

 private:
  void join(const uint8_t id[128], tenon_str backend, uint32_t device);
  tenon_status seen(tenon_status status) const {
    tenon_status none = TENON_OK;
    if (status != TENON_OK) first_failure_.compare_exchange_strong(none, status);
    return status;
  }
  const tenon_collective& collective_;
  uint32_t n_ranks_, rank_;
  void* comm_ = nullptr;
  mutable std::atomic<uint64_t> sent_bytes_ = 0;
  mutable std::atomic<tenon_status> first_failure_ = TENON_OK;
};

}  // namespace tenon::parallel
