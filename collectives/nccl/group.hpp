// group.hpp: the ranks of a group that are threads of this process.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

namespace tenon::nccl {

class Communicator;

// When one rank gives up, what all of them have on their devices must end: it waits for the one that is gone. Any thread.
class Group {
 public:
  // Throws CANCELLED where the group has ended.
  void add(Communicator& member);
  void remove(Communicator& member) noexcept;
  // Stops every member. The first reason stays.
  void end(const std::string& why) noexcept;
  bool has_ended() const { return ended_.load(); }
  std::string why() const;

 private:
  mutable std::mutex mutex_;  // held before a member's
  std::atomic<bool> ended_ = false;
  std::string why_;
  std::vector<Communicator*> members_;
};

}  // namespace tenon::nccl
