#include "team.hpp"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <system_error>
#include <tenon/sdk/base.hpp>
#include <thread>

#include "isa.hpp"

namespace tenon::cpu {
namespace {

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

int64_t now_us() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t(time.tv_sec) * 1000000 + time.tv_nsec / 1000;
}

// The word of a futex is the atomic's own storage.
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
void futex(std::atomic<uint32_t>& word, int call, uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), call, value, nullptr, nullptr, 0);
}

}  // namespace

void Gate::set(uint32_t value) {
  // Sequentially consistent, as are the two operations of a sleeper: either it sees the new word or we see it sleep.
  word_.store(value, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) futex(word_, FUTEX_WAKE_PRIVATE, INT_MAX);
}

void Gate::wait_while(uint32_t seen, unsigned spin_us, unsigned yield_us) {
  // A yield that took long let another thread run: this core is shared. Then the one we wait for may need it, and
  // spinning only keeps it away; so a thread that saw this spins little in its next waits.
  constexpr int64_t kLongYieldUs = 10;
  constexpr int kCautiousWaits = 64;
  thread_local int cautious = 0;
  if (load() != seen) return;
  const int64_t begin = now_us();
  if (cautious > 0) --cautious, spin_us = spin_us < 1 ? spin_us : 1;
  int64_t now = begin;
  for (; now - begin < spin_us; now = now_us()) {
    for (int i = 0; i < 16; ++i) {
      if (load() != seen) return;
      pause_cpu();
    }
  }
  while (now - begin < int64_t(spin_us) + yield_us) {
    if (load() != seen) return;
    sched_yield();
    const int64_t after = now_us();
    if (after - now > kLongYieldUs) cautious = kCautiousWaits;
    now = after;
  }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (word_.load(std::memory_order_seq_cst) == seen) futex(word_, FUTEX_WAIT_PRIVATE, seen);
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

// Teams that run nothing, the last used one on top.
struct Team::Idle {
  std::mutex mutex;
  std::vector<std::unique_ptr<Team>> teams;
};

Team::Idle& Team::idle() {
  static Idle& all = *std::make_unique<Idle>().release();  // detached threads outlive static destruction
  return all;
}

void Team::run_free(uint32_t workers, void (*body)(void*, const tenon_exec*), void* arg) {
  std::unique_ptr<Team> team;
  {
    const std::lock_guard lock(idle().mutex);
    if (!idle().teams.empty()) {
      team = std::move(idle().teams.back());
      idle().teams.pop_back();
    }
  }
  if (!team) team.reset(new Team);
  // Whatever happens, its threads look at it.
  const auto give_back = [&] {
    const std::lock_guard lock(idle().mutex);
    idle().teams.push_back(std::move(team));
  };
  try {
    team->run(workers, body, arg);
  } catch (...) {
    give_back();
    throw;
  }
  give_back();
}

void Team::start_threads(uint32_t workers) {
  if (n_threads_ + 1 >= workers) return;
  // Signals belong to the program's own threads.
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  try {
    while (n_threads_ + 1 < workers) {
      const uint32_t index = n_threads_ + 1, seen = start_.load();
      std::thread([this, index, seen] { serve(index, seen); }).detach();
      ++n_threads_;
    }
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
    throw sdk::Error(TENON_CAPACITY, sdk::text("cpu: worker thread %u of %u could not be started: %s; ask for fewer",
                                               n_threads_ + 2, workers, error.what()));
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

void Team::serve(uint32_t index, uint32_t seen) {
  for (;;) {
    start_.wait_while(seen, 20, 300);
    // A worker that is part of a job cannot miss it, since run() waits for it; another may wake late and see a newer
    // one.
    seen = start_.load();
    if (index >= (seen & ((1u << kWorkerBits) - 1))) continue;
    call_body(index);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) done_.advance();
  }
}

void Team::call_body(uint32_t index) {
  tenon_exec exec = {};
  exec.struct_size = sizeof exec;
  exec.worker = index, exec.n_workers = workers_;
  exec.team = this, exec.counter = &counter_;
  exec.barrier = barrier_entry, exec.claim = claim_entry;
  body_(arg_, &exec);
}

void Team::run(uint32_t workers, void (*body)(void*, const tenon_exec*), void* arg) {
  start_threads(workers);
  body_ = body, arg_ = arg, workers_ = workers;
  counter_.store(0, std::memory_order_relaxed);
  // With more workers than cores, spinning only delays the one that is waited for.
  const bool crowded = workers > cpu_info().cores;
  spin_us_ = crowded ? 0 : 20, yield_us_ = crowded ? 50 : 300;
  if (workers == 1) return call_body(0);
  const uint32_t seen = done_.load();
  running_.store(workers - 1, std::memory_order_relaxed);
  start_.set((((start_.load() >> kWorkerBits) + 1) << kWorkerBits) | workers);
  call_body(0);
  done_.wait_while(seen, spin_us_, yield_us_);
}

void Team::barrier() {
  const uint32_t round = round_.load();
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == workers_) {
    arrived_.store(0, std::memory_order_relaxed);  // released by the advance that lets the others go on
    round_.advance();
    return;
  }
  round_.wait_while(round, spin_us_, yield_us_);
}

void Team::barrier_entry(void* team) noexcept { static_cast<Team*>(team)->barrier(); }

int64_t Team::claim_entry(void* counter, int64_t n) noexcept {
  return static_cast<std::atomic<int64_t>*>(counter)->fetch_add(n, std::memory_order_relaxed);
}

}  // namespace tenon::cpu
