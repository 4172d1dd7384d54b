// communicator.hpp: one rank's place in a group, over whichever collective plugin moves the bytes.
#pragma once

#include "program/device.hpp"

#include <tenon/abi.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace tenon::parallel {

// Borrows the collective's record. One thread, but for abort() and poll().
class Communicator {
 public:
  using GroupId = std::array<uint8_t, 128>;
  // For memory of the device. Has not joined yet: Programs can be planned, not run.
  Communicator(const tenon_collective& collective, const GroupId& group, uint32_t n_ranks, uint32_t rank, const program::Device& device)
      : collective_(collective), group_(group), n_ranks_(n_ranks), rank_(rank), device_(device) {}
  // For memory of the host.
  Communicator(const tenon_collective& collective, const GroupId& group, uint32_t n_ranks, uint32_t rank)
      : collective_(collective), group_(group), n_ranks_(n_ranks), rank_(rank) {}
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  // Waits until all ranks have joined. Throws Error(kRuntime) with the plugin's message.
  void join();

  uint32_t rank() const { return rank_; }
  uint32_t size() const { return n_ranks_; }
  const program::Device& device() const { return *device_; }  // where it was given
  bool is_capturable() const { return collective_.flags & TENON_COLLECTIVE_CAPTURABLE; }
  // Whether the plugin adds up by itself, in an order of its own.
  bool adds() const { return collective_.all_reduce; }
  // For kernels: the plugin's status, its message in the thread's slot.
  tenon_status send(tenon_addr data, uint64_t bytes, uint32_t to, void* stream) const {
    sent_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    return seen(collective_.send(comm_, data, bytes, to, stream));
  }
  tenon_status recv(tenon_addr data, uint64_t bytes, uint32_t from, void* stream) const { return seen(collective_.recv(comm_, data, bytes, from, stream)); }
  tenon_status poll() const { return collective_.poll(comm_); }  // any thread
  tenon_status group(bool begin) const { return seen(collective_.group(comm_, begin)); }
  // n values of f32; where adds().
  tenon_status all_reduce(tenon_addr in, tenon_addr out, uint64_t n, void* stream) const {
    sent_bytes_.fetch_add(n * sizeof(float) * (n_ranks_ - 1), std::memory_order_relaxed);
    return seen(collective_.all_reduce(comm_, in, out, n, TENON_ENC_F32, stream));
  }
  // Throws Error(kRuntime) with the plugin's message where a call of this class has failed.
  void require(tenon_status status, const char* what) const;
  // Waits until the work on a stream of the device is done, which needs the other ranks. Throws Error(kRuntime) when one of them
  // has failed or is silent for longer than `limit`; then nothing is under way any more.
  void wait(void* stream, std::chrono::milliseconds limit) const;
  // To other ranks, since the group began or this was forgotten. Any thread.
  uint64_t sent_bytes() const { return sent_bytes_.load(std::memory_order_relaxed); }
  void forget_sent_bytes() const { sent_bytes_.store(0, std::memory_order_relaxed); }
  // Whether the first call that failed did so because another rank had ended the group.
  bool was_cancelled() const { return first_failure_.load() == TENON_CANCELLED; }
  // Every rank's calls fail from now on, those that wait too: over devices, of the ranks of this process. Any thread; nothing
  // before join().
  void abort() const noexcept;

 private:
  tenon_status seen(tenon_status status) const {
    tenon_status none = TENON_OK;
    if (status != TENON_OK) first_failure_.compare_exchange_strong(none, status);
    return status;
  }
  const tenon_collective& collective_;
  GroupId group_;
  uint32_t n_ranks_, rank_;
  std::optional<program::Device> device_;
  std::atomic<void*> comm_ = nullptr;
  mutable std::atomic<uint64_t> sent_bytes_ = 0;
  mutable std::atomic<tenon_status> first_failure_ = TENON_OK;
};

}  // namespace tenon::parallel
