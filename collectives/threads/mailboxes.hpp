// mailboxes.hpp: what the ranks of a group have put down for each other, and how one waits for another.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tenon::threads {

// One for each ordered pair of ranks: messages in order, by address. The sender waits until its bytes were taken, or leaves a
// copy of them here and goes on: so a stage of a pipeline works on its next chunk while this one's rows wait.
class Mailbox {
 public:
  static constexpr uint64_t kMessages = 8, kCopies = 4, kMostCopiedBytes = 64 << 20;
  struct Message {
    const void* data;
    uint64_t bytes;
  };
  bool is_full() const { return posted() - taken() == kMessages; }
  bool is_empty() const { return posted() == taken(); }
  uint64_t posted() const { return posted_.load(std::memory_order_acquire); }
  uint64_t taken() const { return taken_.load(std::memory_order_acquire); }
  // By the sender, when not full; by the receiver, when not empty.
  void post(Message message) {
    const uint64_t at = posted_.load(std::memory_order_relaxed);
    messages_[at % kMessages] = message;
    posted_.store(at + 1, std::memory_order_release);
  }
  // By the sender: whether there is room for a copy, and the copy.
  bool may_copy() const { return n_copied_ < kCopies || taken() > copies_[n_copied_ % kCopies].ticket; }
  void post_copy(Message message) {
    Copy& copy = copies_[n_copied_++ % kCopies];
    const auto* begin = static_cast<const uint8_t*>(message.data);
    copy.bytes.assign(begin, begin + message.bytes);
    copy.ticket = posted();
    post({copy.bytes.data(), message.bytes});
  }
  const Message& front() const { return messages_[taken_.load(std::memory_order_relaxed) % kMessages]; }
  void pop() { taken_.fetch_add(1, std::memory_order_release); }
  // By the receiver, around its looking at a message's bytes. A sender that gives up waits for it, as its memory may go then;
  // a receiver that has said so and then sees that the group has ended does not look.
  void look(bool begin) { is_looked_at_.store(begin); }
  bool is_looked_at() const { return is_looked_at_.load(); }

 private:
  struct Copy {
    std::vector<uint8_t> bytes;
    uint64_t ticket = 0;  // free when the receiver has taken more messages than this
  };
  Message messages_[kMessages] = {};
  Copy copies_[kCopies];  // the sender's
  uint64_t n_copied_ = 0;
  alignas(64) std::atomic<uint64_t> posted_ = 0;
  alignas(64) std::atomic<uint64_t> taken_ = 0;
  std::atomic<bool> is_looked_at_ = false;
};

// A group of n ranks. Any thread.
class Mailboxes {
 public:
  explicit Mailboxes(uint32_t n) : n_(n), boxes_(std::make_unique<Mailbox[]>(size_t(n) * n)) {}
  uint32_t size() const { return n_; }
  Mailbox& between(uint32_t from, uint32_t to) { return boxes_[size_t(from) * n_ + to]; }

  // After a post or a pop.
  void changed();
  // Calls `step` until it answers true: at first often, then whenever something has changed. False when the group has
  // ended meanwhile, or `limit` has passed without an end.
  template <typename Step>
  bool wait(Step&& step, std::chrono::milliseconds limit);

  void end(const std::string& why);
  bool has_ended() const { return ended_.load(); }
  std::string why() const;

 private:
  uint32_t n_;
  std::unique_ptr<Mailbox[]> boxes_;
  std::atomic<uint64_t> version_ = 0;  // of all that was put down and taken
  std::atomic<uint32_t> sleepers_ = 0;
  std::atomic<bool> ended_ = false;
  mutable std::mutex mutex_;
  std::condition_variable condition_;
  std::string why_;
};

template <typename Step>
bool Mailboxes::wait(Step&& step, std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kSpin(50);
  const auto begin = Clock::now();
  while (Clock::now() - begin < kSpin) {
    if (has_ended()) return false;
    if (step()) return true;
  }
  sleepers_.fetch_add(1);
  bool done = false;
  for (;;) {
    const uint64_t seen = version_.load();
    if (has_ended() || (done = step()) || Clock::now() - begin > limit) break;
    std::unique_lock lock(mutex_);
    condition_.wait_for(lock, std::chrono::milliseconds(100), [&] { return version_.load() != seen || has_ended(); });
  }
  sleepers_.fetch_sub(1);
  return done;
}

}  // namespace tenon::threads
