// group.hpp: the ranks of a group that are threads of this process.
#pragma once

#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tenon::nccl {

class Communicator;

// When one rank gives up, what all of them have on their devices must end: it waits for the one that is gone. Any thread.
class Group {
 public:
  // Throws CANCELLED where the group has ended.
  void add(Communicator& member);
  // The last one waits for the aborts.
  void remove(Communicator& member) noexcept;
  // Stops every member. The first reason stays.
  void end(const std::string& why) noexcept;
  bool has_ended() const { return ended_.load(); }
  std::string why() const;

 private:
  // An abort returns when no graph with NCCL's kernels is left in this process. Those are the caller's, who drops them before
  // it leaves: so each abort has a thread of its own, which is waited for when all have left.
  struct Abort {
    std::mutex mutex;
    std::condition_variable condition;
    bool is_done = false;
    std::thread thread;
  };
  static std::shared_ptr<Abort> begin_abort(ncclComm_t comm, int device);
  static void finish(Abort& abort) noexcept;
  mutable std::mutex mutex_;  // held before a member's
  std::vector<std::shared_ptr<Abort>> aborts_;
  std::atomic<bool> ended_ = false;
  std::string why_;
  std::vector<Communicator*> members_;
};

}  // namespace tenon::nccl
