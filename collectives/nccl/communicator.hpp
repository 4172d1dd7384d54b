// communicator.hpp: one rank's end of a group over NCCL.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <tenon/sdk/collective.hpp>
#include <vector>

#include "group.hpp"

namespace tenon::nccl {

// NCCL's communicator is one that does not block: what needs other ranks is waited for here, so that an abort or a time limit
// ends the wait. All calls between begin and end of a group go to NCCL together.
class Communicator final : public sdk::Communicator {
 public:
  struct Place {
    uint32_t n, rank;
    int device;  // the runtime's number
    std::chrono::milliseconds limit;
  };
  // Waits until all ranks have joined.
  Communicator(std::shared_ptr<Group> group, const ncclUniqueId& id, const Place& place);
  ~Communicator() override;
  uint32_t rank() const override { return place_.rank; }
  uint32_t size() const override { return place_.n; }
  void group(bool begin) override;
  void send(tenon_addr data, uint64_t bytes, uint32_t to, void* stream) override;
  void recv(tenon_addr data, uint64_t bytes, uint32_t from, void* stream) override;
  void all_reduce(tenon_addr in, tenon_addr out, uint64_t n, void* stream) override;
  void poll() override;
  void abort() noexcept override;
  int device() const { return place_.device; }
  // All later calls fail. Answers what is to be aborted, so that what this rank has on its device ends; null = nothing.
  ncclComm_t stop() noexcept;

 private:
  struct Call {
    bool is_send;
    tenon_addr data;
    uint64_t bytes;
    uint32_t peer;
    cudaStream_t stream;
  };
  void collect(const Call& call);
  void run_calls();
  // One call of NCCL, and the wait for it where it is still in progress. What fails ends the group.
  void run(const char* what, const std::function<ncclResult_t()>& call);
  void settle(std::unique_lock<std::mutex>& lock, ncclResult_t result, const char* what);
  void fail_if_stopped() const;
  void release() noexcept;

  std::shared_ptr<Group> group_;
  Place place_;
  bool collects_ = false;
  std::vector<Call> calls_;
  std::mutex mutex_;  // of all below: the group may stop this rank while it waits
  ncclComm_t comm_ = nullptr;
  bool is_stopped_ = false;
};

}  // namespace tenon::nccl
