// watchdog.hpp: what is done where something takes too long.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace tenon::parallel {

// Calls `act` on a thread of its own if this object is still there after `limit`.
class Watchdog {
 public:
  Watchdog(std::chrono::milliseconds limit, std::function<void()> act)
      : thread_([this, limit, act = std::move(act)] {
          std::unique_lock lock(mutex_);
          if (!condition_.wait_for(lock, limit, [this] { return ends_; })) act();
        }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    condition_.notify_all();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool ends_ = false;
  std::thread thread_;  // begins when all else is there
};

}  // namespace tenon::parallel
