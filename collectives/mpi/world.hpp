// world.hpp: MPI as this process uses it: one world, which begins with the first use and ends with the process.
#pragma once

#include <mpi.h>
#include <tenon/sdk/base.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace tenon::mpi {

// How long a rank may keep the others waiting. A pipeline's later stages wait as long as the earlier ones compute.
std::chrono::milliseconds limit();

// Throws sdk::Error with MPI's text where a call failed.
void check(int code, const char* what);

// Any thread; calls of MPI happen under the lock.
class World {
 public:
  // Begins MPI where nobody has. Throws sdk::Error where that fails, or where other processes do not begin it within limit().
  static World& get();
  uint32_t size() const { return size_; }
  uint32_t rank() const { return rank_; }
  std::mutex& lock() { return mutex_; }
  // The tags of group `number`: of values, and of the word that ends it. Throws sdk::Error where there are too many groups.
  int value_tag(uint64_t number) const;
  int end_tag(uint64_t number) const { return value_tag(number) + 1; }
  // A message could neither be ended nor taken back: MPI may reach for its memory whenever it is called, so it never is again.
  void give_up() { is_given_up_ = true; }
  // A group has ended before its time: perhaps not all ranks are there any more.
  void trouble() { is_troubled_ = true; }
  bool is_given_up() const { return is_given_up_; }

 private:
  World();
  static void finalize();

  std::mutex mutex_;
  uint32_t size_ = 1, rank_ = 0;
  int most_tag_ = 32767;
  std::atomic<bool> is_given_up_ = false, is_troubled_ = false;
};

}  // namespace tenon::mpi
