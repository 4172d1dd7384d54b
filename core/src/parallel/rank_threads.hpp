// rank_threads.hpp: the ranks of a model that are threads of this process.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tenon::parallel {

// Rank 0 is the calling thread; every other rank has a thread of its own for the life of this object. One caller at a time.
class RankThreads {
 public:
  // `abort` makes every rank return that waits for another; `was_cancelled` says whether a rank failed because of that.
  // What every rank refuses alike is refused within `alike_within` of the first; a rank that is alone with it ends the group.
  RankThreads(uint32_t n_ranks, std::function<void()> abort, std::function<bool(uint32_t)> was_cancelled,
              std::chrono::milliseconds alike_within = std::chrono::seconds(10));
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;
  uint32_t n_ranks() const { return uint32_t(threads_.size()) + 1; }

  // Runs body(rank) on every rank at the same time and returns when all are done. Throws the first failure there was. What
  // every rank refuses alike (wrong use, no room, an interruption) leaves the group as it is; after another failure the
  // group is of no more use, and every later call throws Error(kRuntime) saying so.
  void run(const std::function<void(uint32_t)>& body);
  // One answer for all ranks to the question that each of them asks for the n-th time in a run: the first asker's.
  bool agreed(uint32_t rank, const std::function<bool()>& ask);

 private:
  void serve(uint32_t rank);
  void call(uint32_t rank);
  bool fail(uint32_t rank, std::exception_ptr error);  // true for what every rank is to refuse alike
  void end(const std::string& why);

  std::function<void()> abort_;
  std::function<bool(uint32_t)> was_cancelled_;
  std::chrono::milliseconds alike_within_;
  std::mutex mutex_;
  std::condition_variable condition_;
  const std::function<void(uint32_t)>* body_ = nullptr;
  uint64_t turn_ = 0;
  uint32_t running_ = 0, n_refused_ = 0;  // of all ranks, 0 included
  bool ends_ = false;
  std::exception_ptr failure_;
  bool is_aftermath_ = false;  // of another rank's failure, which is still to come
  std::string refusal_;  // the first of the run that every rank is to refuse alike
  std::string broken_;   // why no rank can go on; "" = sound
  std::vector<bool> answers_;
  std::vector<size_t> asked_;  // by rank
  std::vector<std::thread> threads_;
};

}  // namespace tenon::parallel
