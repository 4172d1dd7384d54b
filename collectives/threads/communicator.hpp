// communicator.hpp: one rank's end of a group of threads.
#pragma once

#include <tenon/sdk/collective.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "mailboxes.hpp"

namespace tenon::threads {

// Groups of calls return when the bytes are where they belong: on memory without streams "enqueued" and "done" are the same. A
// send by itself returns when the receiver has the bytes or a copy waits for it; of a few such copies at most.
class Communicator final : public sdk::Communicator {
 public:
  Communicator(std::shared_ptr<Mailboxes> boxes, uint32_t rank, std::chrono::milliseconds limit)
      : boxes_(std::move(boxes)), rank_(rank), limit_(limit) {}
  uint32_t rank() const override { return rank_; }
  uint32_t size() const override { return boxes_->size(); }
  void group(bool begin) override;
  void send(tenon_addr data, uint64_t bytes, uint32_t to, void* stream) override;
  void recv(tenon_addr data, uint64_t bytes, uint32_t from, void* stream) override;
  void all_reduce(tenon_addr in, tenon_addr out, uint64_t n, void* stream) override;
  void poll() override;
  void abort() noexcept override;

 private:
  struct Call {
    bool is_send;
    tenon_addr data;
    uint64_t bytes;
    uint32_t peer;
    bool may_copy = false, is_posted = false, is_done = false;
    uint64_t ticket = 0;  // of a send: taken when the box has given out more messages than this
  };
  void check_peer(uint32_t peer) const;
  // Calls `late` until it answers size(): before that, the rank that is waited for. Throws where that one does not come.
  void await(const std::function<uint32_t()>& late);
  void run();
  uint32_t advance();
  void take(Call& call, Mailbox& box);
  void add_up(tenon_addr in, tenon_addr out, uint64_t n);
  // The group has ended: until nobody looks at this rank's memory any more.
  void withdraw();
  void check_size(const Mailbox::Message& message, uint32_t from, uint64_t bytes);

  std::shared_ptr<Mailboxes> boxes_;
  uint32_t rank_;
  std::chrono::milliseconds limit_;
  bool collects_ = false;
  std::vector<Call> calls_;
  std::vector<float> sums_;  // of an all_reduce in place
};

}  // namespace tenon::threads
