// control.hpp: messages between rank 0 and the other ranks of a model whose ranks are processes.
#pragma once

#include "communicator.hpp"
#include "message.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tenon::parallel {

// A message that was received. Its bytes begin at a multiple of 8.
class Message {
 public:
  std::span<const uint8_t> bytes() const { return {reinterpret_cast<const uint8_t*>(words_.data()), size_}; }

 private:
  friend class Control;
  std::vector<uint64_t> words_;
  size_t size_ = 0;
};

// A group of its own, beside the one that moves values. One thread, but for abort() and check(). Everything throws
// Error(kRuntime) with the collective's message where the group has ended or a rank does not answer, and then ends the group.
// A rank may not come back from send() before the other one receives, so no two ranks ever send to each other at once.
class Control {
 public:
  explicit Control(std::unique_ptr<Communicator> communicator) : communicator_(std::move(communicator)) {}
  uint32_t rank() const { return communicator_->rank(); }
  uint32_t size() const { return communicator_->size(); }
  void send(std::span<const uint8_t> message, uint32_t to);
  Message receive(uint32_t from);  // the next one of that rank
  void check() const;  // that the group has not ended
  // Whether the first call that failed did so because another rank had ended the group.
  bool was_cancelled() const { return communicator_->was_cancelled(); }
  void abort() const noexcept { communicator_->abort(); }

 private:
  void expect(tenon_status status) const;
  // A message's first bytes go along with its length, so that most are one piece.
  struct Frame {
    uint64_t bytes = 0;
    std::array<uint8_t, 504> head = {};
  };
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace tenon::parallel
