// team.hpp: resident workers that run one body together, with a barrier that does not mind too few cores.
#pragma once

#include <tenon/abi.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace tenon::cpu {

// Waits on one 32-bit word: spins, then yields, then sleeps on a futex.
class Gate {
 public:
  uint32_t load() const { return word_.load(std::memory_order_acquire); }
  // Sets a word that differs from the last one and wakes all who sleep. One thread at a time.
  void set(uint32_t value);
  void advance() { set(word_.load(std::memory_order_relaxed) + 1); }
  // Returns once the word differs from `seen`. `spin_us` 0 = yield at once: for more workers than cores.
  void wait_while(uint32_t seen, unsigned spin_us, unsigned yield_us);

 private:
  std::atomic<uint32_t> word_ = 0;
  std::atomic<uint32_t> sleepers_ = 0;
};

// Threads are made at first use, kept, and left alone at the end of the process; so is the team.
class Team {
 public:
  // Calls body(arg, exec) once on each of `workers` workers (the caller is worker 0) of a team that is free; returns when
  // all are done. Any thread: calls at the same time get teams of their own, as ranks over one CPU do.
  // OUT_OF_MEMORY-like failures to start a thread throw std::system_error before any body runs.
  static void run_free(uint32_t workers, void (*body)(void* arg, const tenon_exec*), void* arg);

  static constexpr uint32_t kWorkerBits = 11, kMaxWorkers = 1024;

 private:
  struct Idle;
  static Idle& idle();
  Team() = default;
  void run(uint32_t workers, void (*body)(void* arg, const tenon_exec*), void* arg);
  void start_threads(uint32_t workers);
  void serve(uint32_t index, uint32_t seen);
  void call_body(uint32_t index);
  void barrier();
  static void barrier_entry(void* team) noexcept;
  static int64_t claim_entry(void* counter, int64_t n) noexcept;

  uint32_t n_threads_ = 0;
  unsigned spin_us_ = 0, yield_us_ = 0;

  // The job; written before start_ is set. start_ holds a counter of jobs above kWorkerBits bits with the job's
  // workers: one word, so that a thread which wakes late never pairs one job's turn with another's number of workers.
  void (*body_)(void*, const tenon_exec*) = nullptr;
  void* arg_ = nullptr;
  uint32_t workers_ = 0;

  alignas(64) Gate start_;
  alignas(64) std::atomic<uint32_t> running_ = 0;
  alignas(64) Gate done_;
  alignas(64) std::atomic<uint32_t> arrived_ = 0;
  alignas(64) Gate round_;
  alignas(64) std::atomic<int64_t> counter_ = 0;
};

}  // namespace tenon::cpu
