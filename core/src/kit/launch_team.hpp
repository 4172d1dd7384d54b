// launch_team.hpp: the workers of one launch in the harness: their barrier, their claims, and in which order they run.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace tenon::kit {

// Lets one worker run at a time, each until it reaches a barrier or its end.
class Turnstile {
 public:
  Turnstile(uint32_t workers, bool descending) : state_(workers, kWaits), descending_(descending) { choose(); }
  void enter(uint32_t worker) {
    me() = worker;
    std::unique_lock lock(mutex_);
    wait(lock, worker);
  }
  void barrier() {
    std::unique_lock lock(mutex_);
    state_[me()] = kAtBarrier;
    choose();
    wait(lock, me());
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    state_[me()] = kDone;
    choose();
  }
  bool uneven() const { return uneven_; }  // some reached a barrier that others did not

 private:
  enum State { kWaits, kAtBarrier, kDone };
  static uint32_t& me() {
    thread_local uint32_t worker = 0;
    return worker;
  }
  void wait(std::unique_lock<std::mutex>& lock, uint32_t worker) {
    changed_.wait(lock, [&] { return running_ == worker; });
  }
  // The next one that may run. When none may, all that are left have reached the barrier, and go on.
  void choose() {
    for (int round = 0; round < 2; ++round) {
      for (size_t i = 0; i < state_.size(); ++i) {
        const size_t worker = descending_ ? state_.size() - 1 - i : i;
        if (state_[worker] != kWaits) continue;
        running_ = uint32_t(worker);
        changed_.notify_all();
        return;
      }
      const auto at_barrier = std::count(state_.begin(), state_.end(), kAtBarrier);
      uneven_ = uneven_ || (at_barrier > 0 && size_t(at_barrier) < state_.size());
      std::replace(state_.begin(), state_.end(), kAtBarrier, kWaits);
    }
    running_ = UINT32_MAX;
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<State> state_;
  uint32_t running_ = UINT32_MAX;
  bool uneven_ = false;
  const bool descending_;
};

// Barrier and claim counter of one launch.
struct Team {
  explicit Team(uint32_t n) : workers(n) {}
  const uint32_t workers;
  std::atomic<uint32_t> arrived = 0, round = 0, returned = 0;
  std::atomic<int64_t> counter = 0;
  std::atomic<uint32_t> calls = 0;   // of barrier() and claim()
  std::atomic<bool> uneven = false;  // some reached a barrier that others did not; nobody waits any more
  bool alone = false;                // one worker runs by itself: nothing to wait for
  Turnstile* turns = nullptr;
  static void barrier(void* self) noexcept {
    Team& team = *static_cast<Team*>(self);
    team.calls.fetch_add(1);
    if (team.alone) return;
    if (team.turns) return team.turns->barrier();
    const uint32_t round = team.round.load();
    if (team.arrived.fetch_add(1) + 1 == team.workers) {
      team.arrived = 0;
      team.round.fetch_add(1);
      return;
    }
    while (team.round.load() == round && !team.uneven.load()) {
      // Whoever has returned will not come, unless the barrier opened in between.
      if (team.returned.load() > 0 && team.round.load() == round) team.uneven = true;
      std::this_thread::yield();
    }
  }
  static int64_t claim(void* counter, int64_t n) noexcept {
    return static_cast<std::atomic<int64_t>*>(counter)->fetch_add(n);
  }
};

}  // namespace tenon::kit
